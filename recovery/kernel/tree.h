// MountedTree: a directory of the real system, as the questions about files see a disk.
#pragma once

#include <string>
#include <vector>

#include "recovery/mounted/expectations.h"

namespace crashcut::kernel {

class MountedTree final : public mounted::AskedDisk {
 public:
  MountedTree(std::string directory, std::vector<std::string> marks)
      : directory_(std::move(directory)), marks_(std::move(marks)) {}

  File find(const std::string& path) override;
  std::uint64_t size() override { return size_; }
  std::string target() override;
  std::string read(std::uint64_t offset, std::size_t length) override;
  bool reached(const std::string& mark) override;

 private:
  std::string directory_;
  std::vector<std::string> marks_;
  std::string found_;  // the whole path
  std::uint64_t size_ = 0;
};

}  // namespace crashcut::kernel
