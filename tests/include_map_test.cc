// The map of design.md, kept true: no #include points up or sideways, and only fusefs/mount/ and blocklayer/mount/
// include FUSE's headers, and the disk of the tests.
//
// Checked: every #include of a file in this tree, quoted or in angle brackets, relative or from the root.
// Not checked: what a file reaches through a system header, or names by a macro.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace crashcut {
namespace {

namespace fs = std::filesystem;

// Each folder and its height: a file may include its own folder and lower ones. A sub-folder without a height of its
// own belongs to the folder above it. tests/ may include all. include/ is what programs under test see: it includes
// nothing of ours.
const std::map<std::string, int> kHeight = {
    {"include", -1},
    {"persist", 0},
    {"inject", 1},
    {"scheduler", 1},
    {"scheduler/runtime", 2},
    {"blocklayer", 2},
    {"blocklayer/mount", 3},
    {"pmem", 3},
    {"cxl", 4},
    {"fusefs", 4},
    {"fusefs/mount", 5},
    {"workloads", 6},
    {"recovery/result", 6},
    {"recovery/sandbox", 6},
    {"recovery/search", 7},
    {"recovery/source", 7},
    {"recovery/stacks", 7},
    {"recovery/inprocess", 8},
    {"recovery", 9},
    {"recovery/threads", 10},
    {"recovery/mounted", 10},
    {"recovery/device", 11},
    {"recovery/kernel", 12},
    {"cli", 13},
    {"tests", 14},
};

// A source tree: path from the root -> text.
using Tree = std::map<std::string, std::string>;
using Complaints = std::vector<std::string>;

// The deepest folder of the map that the file is in; else the first part of its path.
std::string folder_of(const std::string& path) {
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
       slash = path.rfind('/', slash - 1)) {
    if (kHeight.contains(path.substr(0, slash))) return path.substr(0, slash);
  }
  const auto slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

struct Include {
  std::string name;
  bool is_quoted;
};

// Takes `word` and the blanks around it off the front of `line`.
bool take(std::string_view& line, std::string_view word) {
  const auto trim = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  trim();
  if (!line.starts_with(word)) return false;
  line.remove_prefix(word.size());
  trim();
  return true;
}

std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> includes;
  std::istringstream lines(text);
  for (std::string whole; std::getline(lines, whole);) {
    std::string_view line = whole;
    if (!take(line, "#") || !(take(line, "include_next") || take(line, "include")) || line.empty()) continue;
    const bool is_quoted = line[0] == '"';
    const auto end = line.find(is_quoted ? '"' : '>', 1);
    if (end == line.npos || !(is_quoted || line[0] == '<')) continue;
    includes.push_back(Include{std::string(line.substr(1, end - 1)), is_quoted});
  }
  return includes;
}

// The file of the tree that `include` in `from` names; none for a header of the system. Include paths of single
// targets are not known here, so a quoted name that only one file of the tree ends with is that file.
std::optional<std::string> resolve(const Tree& tree, const std::string& from, const Include& include) {
  const std::string beside = (fs::path(from).parent_path() / include.name).lexically_normal().string();
  for (const std::string& path : {beside, include.name}) {
    if (tree.contains(path)) return path;
  }
  // A missing file of a folder on the map is still an include of that folder.
  if (kHeight.contains(folder_of(include.name))) return include.name;
  if (include.name.starts_with("..")) return beside;
  std::optional<std::string> found;
  for (const auto& [path, text] : tree) {
    if (!include.is_quoted || !path.ends_with('/' + include.name)) continue;
    if (found) return std::nullopt;
    found = path;
  }
  return found;
}

bool is_fuse_header(const Include& include) {
  static const std::set<std::string> kNames = {"fuse.h", "fuse_lowlevel.h", "fuse_common.h", "fuse_kernel.h"};
  return kNames.contains(fs::path(include.name).filename().string());
}

void check_file(const Tree& tree, const std::string& path, Complaints& complaints) {
  const std::string folder = folder_of(path);
  if (!kHeight.contains(folder)) {
    complaints.push_back(path + ": its folder is not on the map");
    return;
  }
  for (const Include& include : includes_of(tree.at(path))) {
    const auto target = resolve(tree, path, include);
    if (!target || folder_of(*target) == folder) continue;
    const auto height = kHeight.find(folder_of(*target));
    if (height == kHeight.end() || height->second >= kHeight.at(folder)) {
      complaints.push_back(path + ": includes " + *target + ", which is not below " + folder + "/");
    }
  }
}

Complaints check_map(const Tree& tree) {
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    check_file(tree, path, complaints);
    const auto includes = includes_of(text);
    const bool includes_fuse = std::any_of(includes.begin(), includes.end(), is_fuse_header);
    const bool may = path.starts_with("fusefs/mount/") || path.starts_with("blocklayer/mount/");
    if (includes_fuse && !may && path != "tests/recording_disk.cc") {
      complaints.push_back(path + ": includes FUSE's header, which is for the two mount/ folders alone");
    }
  }
  return complaints;
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".h", ".hh", ".hpp", ".c", ".cc", ".cpp", ".cxx", ".inc", ".S"};
  return kExtensions.contains(path.extension().string());
}

Tree read_tree(const fs::path& root) {
  Tree tree;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name.starts_with('.') || (it.depth() == 0 && name == "build"))) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && is_source(it->path())) {
      std::ostringstream text;
      text << std::ifstream(it->path()).rdbuf();
      tree[it->path().lexically_relative(root).generic_string()] = text.str();
    }
  }
  return tree;
}

TEST(IncludeMap, ThisTreeObeysTheMap) {
  const Tree tree = read_tree(CRASHCUT_SOURCE_DIR);
  ASSERT_TRUE(tree.contains("persist/log.h")) << "no source tree at " << CRASHCUT_SOURCE_DIR;
  for (const std::string& complaint : check_map(tree)) ADD_FAILURE() << complaint;
}

// A new primitive is one small file, its words among it, and a line in the table.
TEST(Primitives, AreSmallAndInTheTable) {
  constexpr std::ptrdiff_t kLinesMost = 170;
  const Tree tree = read_tree(CRASHCUT_SOURCE_DIR);
  std::ostringstream rows;
  rows << std::ifstream(fs::path(CRASHCUT_SOURCE_DIR) / "scheduler/primitives/table.inc").rdbuf();
  const std::string table = rows.str();
  std::size_t primitives = 0;
  for (const auto& [path, text] : tree) {
    if (!path.starts_with("scheduler/primitives/") || !path.ends_with(".h") || path.ends_with("_words.h")) continue;
    ++primitives;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), kLinesMost) << path;
    const std::string line = ", " + fs::path(path).stem().string() + ")\n";
    EXPECT_NE(table.find(line), std::string::npos) << path;
  }
  EXPECT_GE(primitives, 17u);
}

// The constants that begin a line: those of a namespace.
std::set<std::string> constants_of(const std::string& text) {
  static const std::regex kConstant(R"((?:^|\n)(?:inline |static )*constexpr [^\n=({]*\b(k[A-Z]\w*)\s*[={[])");
  std::set<std::string> names;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kConstant); it != std::sregex_iterator(); ++it)
    names.insert((*it)[1]);
  return names;
}

// Files of a folder may be compiled as one (CRASHCUT_UNITY). A constant of one .cc file then hides a header's from its
// neighbours, silently.
TEST(Constants, OfAFileAreNotCalledAsAHeadersOfItsFolder) {
  const Tree tree = read_tree(CRASHCUT_SOURCE_DIR);
  std::map<std::string, std::set<std::string>> of_headers;
  const auto folder_of = [](const std::string& path) { return path.substr(0, path.rfind('/')); };
  for (const auto& [path, text] : tree) {
    if (path.ends_with(".h")) of_headers[folder_of(path)].merge(constants_of(text));
  }
  EXPECT_TRUE(of_headers["recovery/mounted"].contains("kPieceBytes"));
  for (const auto& [path, text] : tree) {
    if (!path.ends_with(".cc") || path.starts_with("tests/")) continue;
    for (const std::string& name : constants_of(text))
      EXPECT_FALSE(of_headers[folder_of(path)].contains(name)) << path << ": " << name;
  }
}

TEST(IncludeMap, AllowsWhatPointsDown) {
  const Tree tree = {
      {"persist/log.h", "#include <vector>\n"},
      {"persist/cut.h", "#include \"persist/log.h\"\n#include \"log.h\"\n"},
      {"fusefs/medium.h", "#include \"persist/log.h\"\n#include \"../persist/cut.h\"\n"},
      {"fusefs/mount/fuse_front.cc", "#include <fuse3/fuse.h>\n#include \"fusefs/medium.h\"\n"},
      {"recovery/run.cc", "#include \"fusefs/medium.h\"\n#include \"recovery/result/text.h\"\n"},
      {"recovery/mounted/check.cc", "#include \"recovery/run.h\"\n"},
      {"scheduler/primitives/mutex.h", "#include \"scheduler/state.h\"\n"},
      {"cxl/machine.cc", "#include \"pmem/line.h\"\n"},
      {"cli/main.cc", "#include \"recovery/run.h\"\n// #include \"tests/a.h\"\n"},
      {"tests/a.cc", "#include \"cli/main.h\"\n#include \"persist/log.h\"\n"},
  };
  EXPECT_EQ(check_map(tree), Complaints{});
}

TEST(IncludeMap, CatchesEachBadInclude) {
  const std::pair<const char*, const char*> bad[] = {
      {"persist/log.h", "#include \"fusefs/medium.h\""},
      {"persist/log.h", "#include \"scheduler/actor.h\""},
      {"persist/log.cc", "#include \"tests/persist_oracle.h\""},
      {"persist/log.h", "  #  include  \"cli/options.h\"  // why not"},
      {"persist/log.h", "#include <fusefs/medium.h>"},
      {"persist/log.h", "#include \"../fusefs/medium.h\""},
      {"persist/log.h", "#include \"medium.h\""},
      {"persist/deep/log.h", "#include \"../../fusefs/medium.h\""},
      {"persist/log.h", "#include \"fusefs/no_such_file.h\""},
      {"persist/log.h", "#include \"../fusefs/no_such_file.h\""},
      {"scheduler/actor.cc", "#include \"blocklayer/sector.h\""},
      {"pmem/line.cc", "#include \"cxl/machine.h\""},
      {"recovery/result/text.cc", "#include \"recovery/check.h\""},
      {"recovery/result/text.cc", "#include \"recovery/sandbox/fd.h\""},
      {"recovery/mounted/check.cc", "#include \"recovery/threads/check.h\""},
      {"recovery/mounted/check.cc", "#include \"recovery/device/check.h\""},
      {"blocklayer/drive.cc", "#include \"blocklayer/mount/device_mount.h\""},
      {"recovery/check.cc", "#include \"recovery/mounted/check.h\""},
      {"scheduler/search.cc", "#include \"scheduler/runtime/world.h\""},
      {"fusefs/process.cc", "#include \"fusefs/mount/mount.h\""},
      {"fusefs/medium.cc", "#include \"recovery/run.h\""},
      {"fusefs/medium.cc", "#include \"workloads/editor.h\""},
      {"recovery/run.cc", "#include \"cli/options.h\""},
      {"cli/main.cc", "#include \"tests/seeds.h\""},
      {"utils/strings.h", ""},
      {"stray.cc", ""},
  };
  for (const auto& [path, text] : bad) {
    Tree tree = {{"fusefs/medium.h", ""}};
    tree[path] = text;
    EXPECT_EQ(check_map(tree).size(), 1u) << path << ": " << text;
  }
}

TEST(IncludeMap, CatchesAFuseIncludeOutsideTheMount) {
  for (const char* header : {"<fuse.h>", "<fuse3/fuse.h>", "<fuse3/fuse_lowlevel.h>", "<linux/../fuse_lowlevel.h>"}) {
    const Tree tree = {{"fusefs/mount/a.cc", "#include <fuse3/fuse.h>\n"},
                       {"fusefs/b.cc", std::string("#include ") + header + "\n"}};
    EXPECT_EQ(check_map(tree).size(), 1u) << header;
  }
}

}  // namespace
}  // namespace crashcut
