// What the running kernel's ext4 leaves where the plug is pulled is among what the model allows.
//
// Random calls (tests/inprocess/random_calls.c) are made on a loop device; its image is copied right after an fsync, as if
//   the power had gone then, and mounted again. The same calls on the model must have an outcome that looks the same.
// Does not verify: that the model allows nothing else; what a crash at another moment leaves.
// Skips where there is no root, no loop device or no mkfs.ext4.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/seeds.h"

namespace crashcut {
namespace {

namespace fs = std::filesystem;

struct Mode {
  const char* name;
  const char* mount_options;
  const char* model_options;
};
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

// Stdout of a shell command; nothing where it failed.
std::optional<std::string> output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (std::size_t count; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, count);
  return pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
}

class KernelStates : public testing::TestWithParam<Mode> {
 protected:
  KernelStates() : directory_(fs::temp_directory_path() / fmt::format("kernel_states.{}", getpid())) {
    fs::create_directories(directory_ / "mnt");
  }
  ~KernelStates() override { fs::remove_all(directory_); }

  bool run(const std::string& command) { return output_of(command).has_value(); }
  std::string at(const char* name) const { return (directory_ / name).string(); }

  // In a mount namespace of our own: others would keep the loop device busy, and nothing stays if we are killed.
  bool make_disk() {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    const std::string base = at("base");
    if (!run(fmt::format("truncate -s 24M {0} && mkfs.ext4 -q -b 4096 -J size=4 {0} 2>/dev/null", base))) return false;
    return run(fmt::format("mount -o loop {} {} 2>/dev/null", base, at("mnt"))) && run("umount " + at("mnt"));
  }

  // What is found after the crash; empty where something went wrong.
  std::string on_the_kernel(std::uint64_t seed) {
    const auto found = output_of(fmt::format(
        "set -e; cp --sparse=always {base} {image}; mount -o loop,{options} {image} {mnt}; cd {mnt}; IMAGE={image} COPY={copy} {program} {seed} || true; cd /; "
        "umount {mnt}; mount -o loop {copy} {mnt}; cd {mnt}; {program}; cd /; umount {mnt}",
        fmt::arg("base", at("base")), fmt::arg("image", at("image")), fmt::arg("copy", at("copy")), fmt::arg("mnt", at("mnt")),
        fmt::arg("options", GetParam().mount_options), fmt::arg("program", CRASHCUT_RANDOM_CALLS), fmt::arg("seed", seed)));
    return found.value_or("");
  }

  std::vector<std::string> on_the_model(std::uint64_t seed) {
    output_of(fmt::format("{} run --sector 4096 {} --outcomes --json {} {} {} >/dev/null 2>&1", CRASHCUT_BINARY, GetParam().model_options, at("json"),
                          CRASHCUT_RANDOM_CALLS, seed));
    std::ifstream file(at("json"));
    const auto json = nlohmann::json::parse(file, nullptr, false);
    std::vector<std::string> outcomes;
    if (json.is_discarded() || json.at("verdict") != "verified") return outcomes;
    for (const auto& outcome : json.at("outcomes")) outcomes.push_back(outcome.at("output"));
    fs::remove(at("json"));
    return outcomes;
  }

  fs::path directory_;
};

std::string without_newline(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

TEST_P(KernelStates, AreAllowedByTheModel) {
  if (geteuid() != 0) GTEST_SKIP() << "only root mounts a disk to compare with";
  if (!make_disk()) GTEST_SKIP() << "no loop device or no mkfs.ext4: nothing to compare with";
  std::uint64_t compared = 0;
  tests::for_each_seed(25, [&](std::uint64_t seed) {
    const std::string kernel = without_newline(on_the_kernel(seed));
    if (kernel.empty()) {
      ADD_FAILURE() << "the kernel's side of seed " << seed << " failed";
      return false;
    }
    std::vector<std::string> model = on_the_model(seed);
    std::transform(model.begin(), model.end(), model.begin(), without_newline);
    const bool is_allowed = std::find(model.begin(), model.end(), kernel) != model.end();
    std::string all;
    for (const std::string& outcome : model) all += "  " + outcome + "\n";
    EXPECT_TRUE(is_allowed) << "CRASHCUT_SEED=" << seed << "\nthe kernel left\n  " << kernel << "\nand the model allows\n"
                            << all << "what is done: " << CRASHCUT_RANDOM_CALLS << " " << seed << " told, in an empty directory";
    ++compared;
    return is_allowed;
  });
  EXPECT_GT(compared, 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, KernelStates,
                         testing::Values(Mode{"ordered", "data=ordered", "--data ordered"}, Mode{"journal", "data=journal", "--data journal"},
                                         Mode{"writeback", "data=writeback", "--data writeback"},
                                         Mode{"nodelalloc", "nodelalloc", "-o nodelalloc"}, Mode{"dioread_lock", "dioread_lock", "-o dioread_lock"},
                                         Mode{"noauto_da_alloc", "noauto_da_alloc", "-o noauto_da_alloc"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace crashcut
