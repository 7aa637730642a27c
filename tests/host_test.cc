// Process against the host's own filesystem: the same random calls on both, under $TMPDIR or /tmp where that is ext4.
//
// Checked: as root, and as two users on one tree. What is compared: tests/host_differential.h.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/host_differential.h"
#include "tests/seeds.h"

namespace crashcut::fusefs {
namespace {

// Why the host cannot be compared with, empty where it can.
std::string host_lacks() {
  HostDirectory directory;
  if (!directory.is_ext4()) return "the host's temporary directory is not ext4 with blocks of 4096 bytes";
  return "";
}

constexpr int kSteps = 120;

TEST(ProcessAgainstHost, OneUser) {
  if (auto lack = host_lacks(); !lack.empty()) GTEST_SKIP() << lack;
  ::umask(022);
  tests::for_each_seed(1000, [](std::uint64_t seed) { return Differential(seed, false).run(kSteps); });
}

TEST(ProcessAgainstHost, RootAndNobody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  if (auto lack = host_lacks(); !lack.empty()) GTEST_SKIP() << lack;
  ::umask(022);
  tests::for_each_seed(1000, [](std::uint64_t seed) { return Differential(seed, true).run(kSteps); });
}

}  // namespace
}  // namespace crashcut::fusefs
