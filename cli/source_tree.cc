#include "cli/source_tree.h"

#include <boost/filesystem.hpp>
#include <cstdlib>

#include "cli/reports.h"

namespace crashcut::cli {

namespace fs = boost::filesystem;

static std::string root_of_tree() {
  const char* workspace = std::getenv("GITHUB_WORKSPACE");
  return workspace != nullptr && *workspace != 0 ? workspace : ".";
}

void SourceTree::read_tree(const std::string& root) {
  boost::system::error_code error;
  fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    const std::string name = path.filename().string();
    boost::system::error_code none;
    if (at->symlink_status(none).type() == fs::directory_file) {
      if (name.starts_with('.') || name == kResults || fs::exists(path / "CMakeCache.txt", none))
        at.disable_recursion_pending();
    } else {
      paths_[name].push_back(path.lexically_relative(root).string());
    }
  }
}

std::string SourceTree::path_of(const std::string& name) {
  const std::string root = root_of_tree();
  for (const std::string& program : programs_) {
    boost::system::error_code error;
    if (fs::path(program).filename() != name || !fs::is_regular_file(program, error)) continue;
    const fs::path path = fs::relative(program, root, error);
    return error || path.empty() ? program : path.string();
  }
  if (!is_read_) read_tree(root);
  is_read_ = true;
  const auto found = paths_.find(name);
  return found != paths_.end() && found->second.size() == 1 ? found->second.front() : name;
}

}  // namespace crashcut::cli
