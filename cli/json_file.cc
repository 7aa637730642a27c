#include "cli/json_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "recovery/inprocess/apart.h"
#include "recovery/sandbox/fd.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;

tl::unexpected<Failure> cannot_write(const std::string& path, std::string_view why) {
  return tl::unexpected(Failure{result::Blame::kUser, fmt::format("Cannot write {}: {}.", path, why)});
}

fs::path folder_of(const std::string& path) { return fs::absolute(path).parent_path(); }

// A device or a pipe is written in place; renaming a file over it would replace it.
bool is_in_place(const std::string& path) {
  boost::system::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

bool write_all(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file.good();
}

// Into a file without a name, which gets its name when it is whole: whoever is killed, nothing else is left. False: it
// was not written, since there is a file of that name, or the filesystem has no such files.
bool write_unnamed(const std::string& path, std::string_view text) {
  const sandbox::Fd file(open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (!file) return false;
  while (!text.empty()) {
    const ssize_t written = write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  const std::string name = fmt::format("/proc/self/fd/{}", file.get());
  return linkat(AT_FDCWD, name.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

}  // namespace

tl::expected<void, Failure> check_json_file(const std::string& path) {
  if (path.empty() || path == "-") return {};
  if (fs::is_directory(path)) return cannot_write(path, "it is a directory");
  const std::string place = is_in_place(path) ? path : folder_of(path).string();
  if (access(place.c_str(), W_OK) != 0) return cannot_write(path, std::strerror(errno));
  return {};
}

tl::expected<void, Failure> write_json_file(const std::string& path, std::string_view text) {
  if (path.empty()) return {};
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0 ? tl::expected<void, Failure>{} : cannot_write("stdout", std::strerror(errno));
  }
  if (is_in_place(path)) {
    return write_all(path, text) ? tl::expected<void, Failure>{} : cannot_write(path, std::strerror(errno));
  }
  // The way of results in their new directory; the other one takes a process, which is as long as a small check.
  if (write_unnamed(path, text)) return {};
  const std::string temporary = (folder_of(path) / fs::unique_path(".crashcut-%%%%-%%%%.json")).string();
  const int error = inprocess::run_apart([&] {
    if (write_all(temporary, text) && std::rename(temporary.c_str(), path.c_str()) == 0) return 0;
    const int why = errno;
    std::remove(temporary.c_str());
    return why;
  });
  if (error == 0) return {};
  return cannot_write(path, std::strerror(error > 0 ? error : EAGAIN));
}

}  // namespace crashcut::cli
