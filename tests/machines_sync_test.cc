// POSIX objects in shared memory, after the machine of their owner has failed.
#include "machines_command.h"

namespace crashcut {
namespace {

// Robust mutexes are told and recovered as POSIX has it, plain ones go to the next thread, by every schedule and
// failure.
TEST_F(Machines, TakeOverMutexesOfTheDead) {
  const std::string program = compile("sync");
  for (const std::string& what : std::vector<std::string>{"recoverable", "not_recoverable", "trylock", "plain"}) {
    const json report = check("--all --never-fails 1 --machines 2 " + program + " " + what, 0);
    EXPECT_EQ(report["verdict"], "verified") << what;
  }
}

// Nobody releases these. Who waits for one does so for good, and the report names the machine that is down.
TEST_F(Machines, WaitForGoodForWhatTheDeadHave) {
  const std::string program = compile("sync");
  struct Row {
    const char* what;
    const char* text;
  };
  for (const Row& row : {Row{"reader", "which machine 0, which is down, holds for reading"},
                         Row{"writer", "which machine 0, which is down, holds for writing"},
                         Row{"condition", "waits for condition shared+"}, Row{"semaphore", "whose count is 0"},
                         Row{"barrier", "1 of 2 have arrived"}, Row{"futex", "which nobody wakes"}}) {
    const json report = check(std::string("--never-fails 1 --machines 2 ") + program + " " + row.what, 1);
    const std::string output = report["output"];
    EXPECT_NE(output.find("violation: deadlock"), std::string::npos) << output;
    EXPECT_NE(output.find(row.text), std::string::npos) << output;
    EXPECT_NE(output.find("machine 0 is down"), std::string::npos) << output;
    EXPECT_EQ(run_replay(report).code, 1) << row.what;
    EXPECT_EQ(check(std::string("--failures 0 --machines 2 ") + program + " " + row.what, 0)["verdict"], "verified");
  }
}

TEST_F(Machines, WakeFromAConditionWithAMutexOfTheDead) {
  const json found = check("--all --never-fails 1 --machines 2 " + compile("sync") + " condition_owner", 1);
  EXPECT_NE(std::string(found["output"]).find("assertion `error == 0'"), std::string::npos) << found["output"];
}

}  // namespace
}  // namespace crashcut
