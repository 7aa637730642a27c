// crashcut cxl with caches, and what goes wrong: a clear sentence, the right exit code, no process left. And memory
// that goes away, as a program meets it that does not expect it.
#include <sys/mman.h>

#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

class CxlInputsTest : public CliTest {
 protected:
  // tests/machines/SOURCE.c with caches.
  std::string compile(const std::string& source, const std::vector<std::string>& flags = {}) {
    const std::string path = std::string(CRASHCUT_SOURCE_DIR) + "/tests/machines/" + source + ".c";
    const std::string made = (directory_ / (source + std::to_string(++count_))).string();
    const Ran built = crashcut(
        with(with({"cc", "--pmem", "-w", "-g", "-O1", "-mclflushopt"}, flags), {path, "-o", made, "-lpthread"}));
    EXPECT_EQ(built.exit_code, 0) << built.err;
    return made;
  }
  Ran cxl(const std::vector<std::string>& words) {
    const Ran ran = crashcut(with({"cxl"}, words));
    // They die with the command, and that takes a moment.
    for (int i = 0; i < 300 && count_processes() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(count_processes(), 0) << "processes were left";
    return ran;
  }
  // That have a program of this test in their command line.
  int count_processes() const {
    int count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      if (read_file(entry.path() / "cmdline").find(directory_.string() + "/") != std::string::npos) ++count;
    }
    return count;
  }
  int count_ = 0;
};

TEST_F(CxlInputsTest, MachinesThatGoWrongAreToldInASentence) {
  const std::string program = compile("bad");
  struct Row {
    const char* what;
    int code;
    const char* sentence;
  };
  for (const Row& row :
       {Row{"exit", 1, "machine 1 ended the process with exit code 3"}, Row{"segv", 1, "machine 1 died by SIGSEGV"},
        Row{"outside", 1, "machine 1 died by SIGSEGV"}, Row{"hang", 1, "machine 1 runs on without an operation"},
        Row{"wait", 1, "waits until machine 1 ends or fails"}, Row{"fork", 2, "The program called fork()"},
        Row{"larger", 2, "crashcut_cxl() with more bytes than before"},
        Row{"touch", 2, "libc.so.6 (swab) touched shared memory (numbers+0x8) without instrumentation"}}) {
    const Ran ran = cxl({"--failures", "0", "--step-limit", "0.5", "--machines", "2", program, row.what});
    EXPECT_EQ(ran.exit_code, row.code) << row.what << ran.out << ran.err;
    EXPECT_TRUE(ran.says(row.sentence)) << row.what << ran.out << ran.err;
  }
  const Ran ends = cxl({program, compile("bad", {"-DENDS_EARLY"})});
  EXPECT_EQ(ends.exit_code, 2);
  EXPECT_TRUE(ends.says("ended before main() (exit code 3)")) << ends.out << ends.err;
  const Ran never = cxl({"--step-limit", "0.5", program, compile("bad", {"-DNEVER_STARTS"})});
  EXPECT_EQ(never.exit_code, 2);
  EXPECT_TRUE(never.says("Machine 1 does not come to main()")) << never.out << never.err;
}

// Half a set-up is none.
TEST_F(CxlInputsTest, SetUpsThatGoWrongAreToldInASentence) {
  const Ran fails = cxl({"--machines", "2", compile("bad", {"-DSETUP_FAILS"})});
  EXPECT_EQ(fails.exit_code, 2);
  EXPECT_TRUE(fails.says("crashcut_setup() failed")) << fails.out << fails.err;
  const Ran touches = cxl({"--machines", "2", compile("bad", {"-DSETUP_TOUCHES"})});
  EXPECT_EQ(touches.exit_code, 2);
  EXPECT_TRUE(touches.says("libc.so.6 (swab) touched shared memory (numbers+0x0)")) << touches.out << touches.err;
}

// As in tests/machines_sync_test.cc, with caches.
TEST_F(CxlInputsTest, ObjectsOfLibcAreTheSameWithCaches) {
  const std::string program = compile("sync");
  for (const std::string schedules : {"one", "all"}) {
    for (const char* what : {"reader", "writer", "condition", "semaphore", "barrier", "futex"}) {
      const std::vector<std::string> words = {"--schedules", schedules, "--machines", "2", program, what};
      const Ran right = cxl(with({"--failures", "0"}, words)), dies = cxl(with({"--never-fails", "1"}, words));
      EXPECT_EQ(right.exit_code, 0) << schedules << what << right.out << right.err;
      EXPECT_EQ(dies.exit_code, 1) << schedules << what << dies.out << dies.err;
      EXPECT_TRUE(dies.says("violation: deadlock") && dies.says("machine 0 is down")) << dies.out;
    }
    for (const char* what : {"recoverable", "not_recoverable", "trylock", "plain"}) {
      const Ran right = cxl({"--never-fails", "1", "--schedules", schedules, "--machines", "2", program, what});
      EXPECT_EQ(right.exit_code, 0) << schedules << what << right.out << right.err;
    }
  }
}

TEST_F(CxlInputsTest, SharingBesidesSharedMemoryIsTold) {
  const std::string program = compile("talk"), file = (directory_ / "file").string();
  std::ofstream(file) << std::string(4096, ' ');
  for (const char* what : {"file", "map"}) {
    const Ran ran = cxl({"--failures", "0", "--machines", "2", program, what, file});
    EXPECT_EQ(ran.exit_code, 0) << what << ran.out << ran.err;
    EXPECT_TRUE(ran.says("Machines share more than their memory: " + file + " is used by machine 0, machine 1"))
        << what << ran.out;
  }
  const std::string name = "/crashcut." + std::to_string(getpid());
  const Ran segment = cxl({"--failures", "0", "--machines", "2", program, "segment", name});
  shm_unlink(name.c_str());
  EXPECT_EQ(segment.exit_code, 0) << segment.out << segment.err;
  EXPECT_TRUE(segment.says("Machines share more than their memory: /dev/shm" + name)) << segment.out;
  const Ran socket = cxl({"--failures", "0", "--machines", "2", program, "socket"});
  EXPECT_EQ(socket.exit_code, 2);
  EXPECT_TRUE(socket.says("The program called socket(), which crashcut cxl cannot follow.")) << socket.err;
}

// Whoever does not handle SIGBUS dies of it; the report says what went away, and replays.
TEST_F(CxlInputsTest, MemoryThatGoesAwayIsToldAndReplays) {
  const std::string program = compile("litmus");
  struct Row {
    std::vector<std::string> options;
    const char* sentence;
  };
  for (const std::string schedules : {"one", "all"}) {
    for (const Row& row : {Row{{"--device-fails", "memory", "--failures", "0"}, "memory memory fails"},
                           Row{{"--memory-of", "memory=0"}, "*** FAILS ***"}}) {
      const Ran ran = cxl(with(with({"--machines", "2", "--never-fails", "1", "--schedules", schedules}, row.options),
                               {program, "one"}));
      EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
      EXPECT_TRUE(ran.says("died by SIGBUS")) << ran.out;
      EXPECT_TRUE(ran.says(row.sentence)) << ran.out;
      EXPECT_EQ(crashcut({"replay", token_of(ran)}).exit_code, 1) << ran.out;
    }
  }
  // Memory of a machine that does not fail stays, and so does that of another name.
  for (const char* rule : {"memory=1", "other=0"}) {
    const Ran ran = cxl({"--machines", "2", "--never-fails", "1", "--memory-of", rule, program, "one"});
    EXPECT_EQ(ran.exit_code, 0) << rule << ran.out << ran.err;
    EXPECT_EQ(ran.says("No machine asked for memory of the name other"), rule == std::string("other=0")) << ran.out;
  }
}

TEST_F(CxlInputsTest, RulesOfMemoryAreGivenByRightWords) {
  const std::string program = compile("litmus");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--memory-of", "memory"},
                                             {"--memory-of", "memory=x"},
                                             {"--memory-of", "memory=2"},
                                             {"--memory-of", "=1"},
                                             {"--memory-of", "memory=0", "--memory-of", "memory=1"},
                                             {"--memory-of", "memory=0", "--device-fails", "memory"},
                                             {"--device-fails", std::string(64, 'a')}}) {
    const Ran ran = cxl(with(with({"--machines", "2"}, words), {program, "one"}));
    EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
    EXPECT_TRUE(ran.says("crashcut: " + words[words.size() - 2])) << ran.err;
  }
  const Ran plain = crashcut({"cxl", "--machines", "2", "--device-fails", "memory", "/bin/true"});
  EXPECT_EQ(plain.exit_code, 2);
  EXPECT_TRUE(plain.says("crashcut cc --pmem")) << plain.err;
}

}  // namespace
}  // namespace crashcut
