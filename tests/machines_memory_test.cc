// Memory that machines share by shmget(), by files below cxl/ and by devices; and what fresh memory holds.
#include "machines_command.h"

namespace crashcut {
namespace {

TEST_F(Machines, ShareSegmentsFilesAndDevices) {
  const std::string program = compile("shared");
  for (const std::string& what : std::vector<std::string>{"segment", "file", "absolute", "device", "look", "set_up"}) {
    const json report = check("--all --device /dev/dax0.0 --machines 2 " + program + " " + what, 0);
    EXPECT_EQ(report["verdict"], "verified") << report["output"];
  }
}

// Whether a file is there depends on who came first, and that is explored. Machine 0 asks to make the file twice,
// machine 1 looks for it once: before, between or after.
TEST_F(Machines, SeeAFileOnceItIsMade) {
  const std::string program = compile("shared");
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " look"), 3u);
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " set_up"), 1u);
}

TEST_F(Machines, MayNotTouchWhatTheyLeft) {
  const std::string program = compile("shared");
  for (const std::string& what : std::vector<std::string>{"segment_left", "file_left"}) {
    const std::string output = check("--failures 0 --machines 2 " + program + " " + what, 1)["output"];
    EXPECT_NE(output.find("machine 1 died by SIGSEGV"), std::string::npos) << output;
  }
}

TEST_F(Machines, AreToldWhatSharedMemoryCannotBe) {
  const std::string program = compile("shared");
  struct Row {
    const char* what;
    const char* sentence;
  };
  for (const Row& row : {Row{"segment_larger", "is to have 16384 bytes, and was made with 8192"},
                         Row{"file_larger", "cxl/pool is to have 16384 bytes, and was made with 8192"},
                         Row{"segment_fixed", "so that no two regions meet at one address"},
                         Row{"file_fixed", "so that no two regions meet at one address"},
                         Row{"file_written", "read() or write() of a file in shared memory"}}) {
    const std::string output = check(std::string("--failures 0 --machines 2 ") + program + " " + row.what, 2)["output"];
    EXPECT_NE(output.find(row.sentence), std::string::npos) << output;
  }
  const std::string output = check("--failures 0 --device dax0.0 --machines 2 " + program + " device", 2)["output"];
  EXPECT_NE(output.find("--device dax0.0: it takes a whole path"), std::string::npos) << output;
}

// A device that is not named is one of the real system.
TEST_F(Machines, HaveOnlyTheDevicesThatAreNamed) {
  const json report = check("--failures 0 --machines 2 " + compile("shared") + " device", 1);
  EXPECT_NE(std::string(report["output"]).find("assertion `shared != NULL'"), std::string::npos) << report["output"];
}

// A program that takes zeroes for granted, and one whose crashcut_setup() left what it needs.
TEST_F(Machines, FindGarbageInFreshMemory) {
  const std::string program = compile("shared");
  EXPECT_EQ(check("--failures 0 --machines 2 " + program + " garbage", 0)["verdict"], "verified");
  const json report = check("--failures 0 --garbage --machines 2 " + program + " garbage", 1);
  EXPECT_EQ(run_replay(report).code, 1);
  EXPECT_EQ(check("--failures 0 --garbage --machines 2 " + program + " file", 0)["verdict"], "verified");
}

}  // namespace
}  // namespace crashcut
