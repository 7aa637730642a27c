// Freed blocks that the running kernel's ext4 gives away before the commit, in data=writeback: what a crash leaves of
// that is among what the model allows.
//
// The disk is nearly full, so that the allocator has to take the blocks that were just freed. Its image is copied after
//   every call, as if the power had gone then, and each copy is mounted again. The same calls on the model
//   (tests/inprocess/reuse_calls.c) must have an outcome that looks the same.
// Also verifies that the test is about something: some of what the kernel leaves is not allowed in data=ordered.
// Does not verify: that the model allows nothing else; what a crash inside a call leaves.
// Skips where there is no root, no loop device or no mkfs.ext4.
#include <algorithm>
#include <set>
#include <sstream>

#include "tests/kernel_disk.h"
#include "tests/seeds.h"

namespace crashcut {
namespace {

using tests::Mode;
using tests::output_of;
using Set = std::set<std::string>;

// A line each, without the spaces at the end.
Set lines_of(const std::string& text) {
  Set lines;
  std::string line;
  for (std::stringstream in(text); std::getline(in, line);) {
    while (line.ends_with(' ')) line.pop_back();
    lines.insert(line);
  }
  return lines;
}

std::string joined(const Set& lines) {
  std::string text;
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text;
}

class KernelReuse : public tests::KernelDisk {
 protected:
  KernelReuse() : KernelDisk("kernel_reuse") {}

  // A shell function: mounts an image, and leaves no block in reserve.
  std::string mount_function() const {
    return fmt::format(
        "attach() {{ mount -o loop,$2 $1 {0} || return 1; "
        "device=$(awk -v at={0} '$2 == at {{ print $1 }}' /proc/mounts); "
        "echo 0 > /sys/fs/ext4/$(basename $device)/reserved_clusters; }}; ",
        at("mnt"));
  }

  // One large file and then single blocks fill the disk; eight of the latter are freed again. Says what is missing.
  std::string make_disk() {
    if (std::string missing = enter_namespace(); !missing.empty()) return missing;
    if (!make_file_system(at("base"), 16 << 20, "-m 0")) return "mkfs.ext4";
    const std::string script = fmt::format(
        "{mount}set -e; attach {base} defaults; "
        "mkdir {mnt}/full; head -c $((2700 * 4096)) /dev/zero > {mnt}/full/0; sync; "
        "for i in $(seq 300); do head -c 4096 /dev/zero > {mnt}/full/$i && sync -d {mnt}/full/$i || break; done; "
        "for i in 20 21 23 26 30 31 40 41; do rm {mnt}/full/$i; done; sync; umount {mnt}",
        fmt::arg("mount", mount_function()), fmt::arg("base", at("base")), fmt::arg("mnt", at("mnt")));
    return output_of(fmt::format("({}) 2>/dev/null", script)) ? "" : "loop device";
  }

  // What is found after a crash at each moment; nothing where something went wrong.
  Set on_the_kernel(const std::string& program) {
    const auto found = output_of(fmt::format(
        "{mount}set -e; cp --sparse=always {base} {image}; rm -f {copy}.*; attach {image} {options}; cd {mnt}; "
        "IMAGE={image} COPY={copy} {calls} {program} || {{ cd /; umount {mnt}; exit 1; }}; cd /; umount {mnt}; "
        "for copy in {copy}.*; do mount -o loop $copy {mnt}; (cd {mnt}; {calls}); umount {mnt}; done",
        fmt::arg("mount", mount_function()), fmt::arg("base", at("base")), fmt::arg("image", at("image")),
        fmt::arg("copy", at("copy")), fmt::arg("mnt", at("mnt")), fmt::arg("options", GetParam().mount_options),
        fmt::arg("calls", CRASHCUT_REUSE_CALLS), fmt::arg("program", program)));
    return lines_of(found.value_or(""));
  }

  Set on_the_model(const std::string& program, const std::string& options) {
    Set outcomes;
    for (const std::string& output : model_outputs(fmt::format("{} {}", CRASHCUT_REUSE_CALLS, program), options))
      outcomes.merge(lines_of(output));
    return outcomes;
  }

  // How many of the kernel's states data=ordered does not have; nothing where the kernel left what the model does not
  // allow.
  std::optional<std::size_t> compare(const std::string& program) {
    const Set kernel = on_the_kernel(program);
    if (kernel.empty()) {
      ADD_FAILURE() << "the kernel's side of " << program << " failed";
      return std::nullopt;
    }
    const Set model = on_the_model(program, GetParam().model_options);
    Set more;
    std::set_difference(kernel.begin(), kernel.end(), model.begin(), model.end(), std::inserter(more, more.end()));
    EXPECT_TRUE(more.empty()) << CRASHCUT_REUSE_CALLS << " " << program << "\nthe kernel left\n"
                              << joined(more) << "and the model allows\n"
                              << joined(model);
    if (!more.empty()) return std::nullopt;
    const Set ordered = on_the_model(program, "--data ordered");
    return std::count_if(kernel.begin(), kernel.end(),
                         [&](const std::string& state) { return !ordered.contains(state); });
  }
};

constexpr const char* kPrograms[] = {"unlink", "truncate",      "truncate_middle", "rewrite",   "punch", "collapse",
                                     "rename", "open_unlinked", "direct",          "fallocate", "chain", "stale"};

TEST_P(KernelReuse, StatesAreAllowedByTheModel) {
  const std::string missing = make_disk();
  if (!missing.empty()) GTEST_SKIP() << "nothing to compare with: no " << missing;
  std::size_t reused = 0;
  for (const char* program : kPrograms) reused += compare(program).value_or(0);
  EXPECT_GT(reused, 0u) << "the kernel reused no block before the commit: the disk has too many free ones";
  tests::for_each_seed(12, [&](std::uint64_t seed) { return compare(std::to_string(seed)).has_value(); });
}

INSTANTIATE_TEST_SUITE_P(
    Modes, KernelReuse,
    testing::Values(Mode{"writeback", "data=writeback", "--data writeback"},
                    Mode{"dioread_lock", "data=writeback,dioread_lock", "--data writeback -o dioread_lock"},
                    Mode{"nodelalloc", "data=writeback,nodelalloc", "--data writeback -o nodelalloc"}),
    tests::name_of);

}  // namespace
}  // namespace crashcut
