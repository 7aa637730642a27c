// The workloads of crashcut conform: those that ACE makes at its defaults, and samples of longer ones.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "recovery/kernel/workloads.h"

namespace crashcut::kernel {
namespace {

// The numbers are those of ace.py -l 1, counted with its own functions.
TEST(Workloads, Seq1HasAllOfAce) {
  const std::vector<Workload> all = seq1_workloads();
  EXPECT_EQ(all.size(), 435u);
  EXPECT_EQ(std::set<Workload>(all.begin(), all.end()).size(), 435u);
  std::map<std::string, int> counts;
  for (const Workload& workload : all) ++counts[operation_of(workload)];
  EXPECT_EQ(counts, (std::map<std::string, int>{{"creat", 8},
                                                {"mkdir", 4},
                                                {"falloc", 120},
                                                {"write", 24},
                                                {"dwrite", 16},
                                                {"mmapwrite", 16},
                                                {"link", 78},
                                                {"unlink", 20},
                                                {"remove", 20},
                                                {"rename", 97},
                                                {"setxattr", 8},
                                                {"removexattr", 8},
                                                {"truncate", 16}}));
}

TEST(Workloads, EachEndsWithAPersistenceCall) {
  std::vector<Workload> all = seq1_workloads();
  for (const auto& more : {fdatasync_workloads(), seq2_workloads(200, 1), random_workloads(200, 1)})
    all.insert(all.end(), more.begin(), more.end());
  for (const Workload& workload : all) {
    const std::string last = workload.back().substr(0, workload.back().find(':'));
    EXPECT_TRUE(last == "sync" || last == "fsync" || last == "fdatasync") << last;
    EXPECT_NE(operation_of(workload), "nothing");
  }
}

TEST(Workloads, SamplesAreDifferentAndFollowTheSeed) {
  for (const auto& make : {seq2_workloads, random_workloads}) {
    const std::vector<Workload> all = make(300, 5);
    EXPECT_EQ(std::set<Workload>(all.begin(), all.end()).size(), 300u);
    EXPECT_EQ(all, make(300, 5));
    EXPECT_NE(all, make(300, 6));
  }
}

TEST(Workloads, TheModelHasNoMappings) {
  EXPECT_EQ(for_model({"creat:foo", "barrier", "mmapwrite:foo:0:4096", "sync"}),
            (Workload{"creat:foo", "barrier", "msyncwrite:foo:0:4096", "sync"}));
}

}  // namespace
}  // namespace crashcut::kernel
