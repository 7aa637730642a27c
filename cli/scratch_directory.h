// ScratchDirectory: a directory that is gone with its owner, or with crashcut, however that ends.
#pragma once

#include <boost/filesystem.hpp>
#include <string>

#include "cli/guard.h"

namespace crashcut::cli {

class ScratchDirectory {
 public:
  ScratchDirectory()
      : path_(boost::filesystem::temp_directory_path() / boost::filesystem::unique_path("crashcut-conform-%%%%%%%%")),
        guard_(path_.string()) {
    boost::filesystem::create_directories(path_);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  std::string path() const { return path_.string(); }

 private:
  boost::filesystem::path path_;
  Guard guard_;
};

}  // namespace crashcut::cli
