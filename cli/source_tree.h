// SourceTree: finds the source files that reports name without directories.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace crashcut::cli {

class SourceTree {
 public:
  // `programs` are the user's words. A source file among them is itself, even if the tree has others of its name.
  explicit SourceTree(std::vector<std::string> programs) : programs_(std::move(programs)) {}

  // The path of the file, from the root of the tree: $GITHUB_WORKSPACE, or else the current directory. Hidden
  // directories, builds of CMake and results of crashcut are not looked through. The name itself if there is no such
  // file, or more than one.
  std::string path_of(const std::string& name);

 private:
  void read_tree(const std::string& root);

  std::vector<std::string> programs_;
  std::map<std::string, std::vector<std::string>> paths_;  // by name
  bool is_read_ = false;
};

}  // namespace crashcut::cli
