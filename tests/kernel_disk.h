// KernelDisk: what the tests share that hold the model to the running kernel's ext4 on a loop device.
//
// A test has a directory of its own and a mount namespace of its own. Others would keep the loop device busy, and
//   nothing stays mounted if the test is killed.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace crashcut::tests {

// A way to mount, for the kernel and for the model.
struct Mode {
  const char* name;
  const char* mount_options;
  const char* model_options;
};
inline void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }
inline std::string name_of(const testing::TestParamInfo<Mode>& info) { return info.param.name; }

// Stdout of a shell command; nothing if the command failed.
inline std::optional<std::string> output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (std::size_t count; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, count);
  return pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
}

class KernelDisk : public testing::TestWithParam<Mode> {
 protected:
  explicit KernelDisk(const char* name)
      : directory_(std::filesystem::temp_directory_path() / fmt::format("{}.{}", name, getpid())) {
    std::filesystem::create_directories(directory_ / "mnt");
  }
  ~KernelDisk() override { std::filesystem::remove_all(directory_); }

  std::string at(const char* name) const { return (directory_ / name).string(); }

  // Says what is missing to mount disks in a namespace of our own; empty if nothing is.
  static std::string enter_namespace() {
    if (geteuid() != 0) return "root, who can mount a disk";
    const bool is_apart = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return is_apart ? "" : "mount namespace";
  }

  // An ext4 of 4 KiB blocks with a small journal.
  bool make_file_system(const std::string& image, std::uint64_t bytes, const std::string& options) const {
    return output_of(fmt::format("truncate -s {0} {1} && mkfs.ext4 -q -b 4096 -J size=4 {2} {1} 2>/dev/null", bytes,
                                 image, options))
        .has_value();
  }

  // What recovery printed, a text for each outcome of the calls on the model; nothing if the model did not verify them.
  std::vector<std::string> model_outputs(const std::string& calls, const std::string& options) const {
    output_of(fmt::format("{} run --sector 4096 {} --outcomes --json {} {} >/dev/null 2>&1", CRASHCUT_BINARY, options,
                          at("json"), calls));
    std::ifstream file(at("json"));
    const auto json = nlohmann::json::parse(file, nullptr, false);
    std::vector<std::string> outputs;
    if (json.is_discarded() || json.at("verdict") != "verified") return outputs;
    for (const auto& outcome : json.at("outcomes")) outputs.push_back(outcome.at("output"));
    std::filesystem::remove(at("json"));
    return outputs;
  }

  std::filesystem::path directory_;
};

}  // namespace crashcut::tests
