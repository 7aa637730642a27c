// The programs of workloads/cxl/: right ones are verified, and every mistake that shows is found, told and replayed.
#include "machines_command.h"

namespace crashcut {
namespace {

struct Row {
  const char* program;
  const char* mistake;  // empty: none
  const char* arguments;
  const char* text;  // what the report has; of a right program: nothing
};

class CxlPrograms : public Machines, public ::testing::WithParamInterface<Row> {
 protected:
  std::string compile_program(const Row& row) {
    const std::string made = (directory_ / row.program).string();
    const std::string flags = output_of(std::string(CRASHCUT_COMMAND) + " flags gcc");
    const std::string mistake = *row.mistake == 0 ? "" : std::string(" -DMISTAKE_") + row.mistake;
    const std::string command = "gcc -w -g " + flags + mistake + " -I" + CRASHCUT_INCLUDE + " -o " + made + " " +
                                CRASHCUT_CXL_PROGRAMS + "/" + row.program + ".c -pthread";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return made;
  }
};

TEST_P(CxlPrograms, AreFoundOrVerified) {
  const Row& row = GetParam();
  const std::string words = "--machines 2 " + compile_program(row) + " " + row.arguments;
  const bool is_right = *row.mistake == 0;
  const json report = check(words, is_right ? 0 : 1);
  EXPECT_EQ(report["verdict"], is_right ? "verified" : "violation") << report["output"];
  if (is_right) return;
  const std::string output = report["output"];
  EXPECT_NE(output.find(row.text), std::string::npos) << output;
  EXPECT_EQ(run_replay(report).code, 1);
}

std::string name_of(const ::testing::TestParamInfo<Row>& info) {
  return test_name(std::string(info.param.program) + " " + info.param.mistake + " " + info.param.arguments);
}

INSTANTIATE_TEST_SUITE_P(Right, CxlPrograms,
                         ::testing::Values(Row{"ring", "", "1", ""}, Row{"map", "", "1", ""},
                                           Row{"map", "", "3 1 in-turn", ""}, Row{"list", "", "1", ""},
                                           Row{"references", "", "1", ""}, Row{"commit", "", "", ""},
                                           Row{"btree", "", "4 1 in-turn", ""}, Row{"btree", "", "10 1 in-turn", ""},
                                           Row{"extendible_hash", "", "10 1 in-turn", ""},
                                           Row{"radix_tree", "", "4 1 in-turn", ""}, Row{"lock_free_hash", "", "2", ""},
                                           Row{"lock_free_hash", "", "10 1 in-turn", ""}),
                         name_of);

// Mistakes that show although shared memory is coherent and survives.
INSTANTIATE_TEST_SUITE_P(Mistakes, CxlPrograms,
                         ::testing::Values(Row{"ring", "COUNTERS", "1",
                                               "bytes == (sent & 0xffffffff) * kBytesOfMessage"},
                                           Row{"map", "NO_REPAIR", "1 1 in-turn", "g_map->keys == count_slots()"},
                                           Row{"map", "REPAIR_AT_START", "1", "g_map->keys == count_slots()"},
                                           Row{"map", "DIVIDE", "3 1 in-turn", "machine 1 died by SIGFPE"},
                                           Row{"map", "BOUNDS", "1 1 in-turn", "get(last) == seen"},
                                           Row{"list", "HALF_LINK", "1", "assertion `has("},
                                           Row{"references", "NO_REPAIR", "1", "assertion"},
                                           Row{"references", "NO_FREE", "1", "check() == (uint64_t)count"},
                                           Row{"references", "DIVIDE", "1", "machine 1 died by SIGFPE"},
                                           Row{"commit", "APPLY", "", "balance_of(0) == kBalance"},
                                           Row{"commit", "PRESUME", "", "balance_of(0) == kBalance"},
                                           Row{"btree", "NO_REPAIR", "10 1 in-turn", "value == value_of(key_of(i))"},
                                           Row{"radix_tree", "BOUNDS", "10 1 in-turn", "value == value_of(key_of(i))"}),
                         name_of);

// Without crashcut one machine plays both parts.
TEST_F(Machines, ProgramsWorkWithoutCrashcut) {
  for (const std::string& program : std::vector<std::string>{"ring", "map", "list", "references", "commit", "btree",
                                                             "extendible_hash", "radix_tree", "lock_free_hash"}) {
    const std::string made = (directory_ / program).string();
    const std::string command = "gcc -Wall -Wextra -Werror -O1 -I" + std::string(CRASHCUT_INCLUDE) + " -o " + made +
                                " " + CRASHCUT_CXL_PROGRAMS + "/" + program + ".c -pthread && " + made + " 2";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
}

}  // namespace
}  // namespace crashcut
