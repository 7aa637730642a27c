// crashcut gdb, driven in batch mode: steps forward and back, where each thread stands.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

class Gdb : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("gdb --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "gdb is not installed: scripts/setup.sh installs it";
    found_ = report("", "mistakes assert", 1);
    ASSERT_FALSE(found_.is_discarded());
  }
  // The how-manieth step of all it is; from 1.
  std::size_t step(const std::string& thread, const std::string& text) const {
    const json& steps = found_["violation"]["steps"];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i]["thread"] == thread && steps[i]["text"] == text) return i + 1;
    }
    ADD_FAILURE() << "no such step: " << thread << " " << text << "\n" << steps.dump(1);
    return 1;
  }
  std::string gdb(const std::vector<std::string>& commands) const {
    std::string words = "gdb " + found_["token"].get<std::string>() + " -batch";
    for (const std::string& command : commands) words += " -ex 'echo <" + command + ">\\n' -ex '" + command + "'";
    return run(words).output;
  }
  // What one of them printed.
  static std::string part(const std::string& output, const std::string& command) {
    const std::size_t begin = output.find("<" + command + ">\n");
    if (begin == output.npos) return "";
    return output.substr(begin, output.find("\n<", begin) - begin);
  }
  // Of the first line with the text in mistakes.c, after the line with `after`.
  static std::string line_of(const std::string& after, const std::string& text) {
    std::ifstream in(std::string(CRASHCUT_THREAD_SOURCES) + "/mistakes.c");
    bool is_after = false;
    std::size_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      is_after = is_after || line.find(after) != line.npos;
      if (is_after && line.find(text) != line.npos) return "mistakes.c:" + std::to_string(number);
    }
    return "no such line";
  }
  json found_;
};

TEST_F(Gdb, SaysThatTheProgramIsMissing) {
  const std::string copy = ::testing::TempDir() + "threads_gdb_test." + std::to_string(getpid());
  std::filesystem::copy_file(program("mistakes"), copy);
  const Ran found = run("threads " + copy + " assert");
  std::filesystem::remove(copy);
  const auto token = found.output.find(" gdb ");
  ASSERT_NE(token, std::string::npos) << found.output;
  const Ran ran = run(found.output.substr(token + 1, found.output.find('\n', token) - token - 1) + " -batch");
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_NE(ran.output.find(copy), std::string::npos) << ran.output;
  EXPECT_EQ(ran.output.find("Traceback"), std::string::npos) << ran.output;
}

TEST_F(Gdb, GoesToStepsForwardAndBack) {
  const std::size_t locks = step("thread 2", "lock mutex m");
  const std::string go = "crashcut goto " + std::to_string(locks);
  const std::string output = gdb({go, "crashcut back", "crashcut forward", "crashcut schedule"});
  const std::string at_lock = part(output, go);
  EXPECT_NE(at_lock.find("lock mutex m"), std::string::npos) << output;
  EXPECT_NE(at_lock.find("by_assert"), std::string::npos) << output;
  EXPECT_NE(at_lock.find(line_of("by_assert(void", "pthread_mutex_lock")), std::string::npos) << output;
  const json& before = found_["violation"]["steps"][locks - 2];
  const std::string back = part(output, "crashcut back");
  EXPECT_NE(back.find(before["thread"].get<std::string>() + " "), std::string::npos) << output;
  EXPECT_NE(back.find(before["text"].get<std::string>()), std::string::npos) << output;
  EXPECT_NE(part(output, "crashcut forward").find(line_of("by_assert(void", "pthread_mutex_lock")), std::string::npos)
      << output;
  const std::string schedule = part(output, "crashcut schedule");
  for (const json& s : found_["violation"]["steps"])
    EXPECT_NE(schedule.find(s["text"].get<std::string>()), std::string::npos) << output;
  EXPECT_NE(schedule.find("=> " + std::string(locks < 10 ? "   " : "  ") + std::to_string(locks)), std::string::npos)
      << output;
}

TEST_F(Gdb, ShowsWhereThreadsStand) {
  const std::string go = "crashcut goto " + std::to_string(step("thread 2", "lock mutex m"));
  const std::string output = gdb({go, "crashcut threads", "crashcut backtrace 0", "print turn"});
  const std::string threads = part(output, "crashcut threads");
  EXPECT_NE(threads.find("main         two at " + line_of("static void two", "pthread_join(b")), std::string::npos)
      << output;
  EXPECT_NE(threads.find("thread 2     by_assert at"), std::string::npos) << output;
  EXPECT_NE(part(output, "crashcut backtrace 0").find("main ("), std::string::npos) << output;
  EXPECT_NE(part(output, "print turn").find("= 1"), std::string::npos) << output;
}

// Who has come round in the search has so here, too.
TEST_F(Gdb, GoesRoundAsTheSearchDid) {
  found_ = report("", "rounds poll-for-ever", 1);
  const std::size_t round = step("main", "go round once more, as nobody else can go on");
  const std::string go = "crashcut goto " + std::to_string(round), next = "crashcut goto " + std::to_string(round + 2);
  const std::string output = gdb({go, next});
  EXPECT_NE(part(output, go).find("mutex_lock"), std::string::npos) << output;
  EXPECT_NE(part(output, next).find("mutex_unlock"), std::string::npos) << output;
}

TEST_F(Gdb, SaysWhatItCannotDo) {
  const std::string output = gdb({"crashcut goto 0", "crashcut goto x", "crashcut forward"});
  EXPECT_NE(output.find("There are steps 1 to"), std::string::npos) << output;
  EXPECT_EQ(run("gdb").code, 2);
  EXPECT_EQ(run("gdb cc2AAAA").code, 2);
}

}  // namespace
}  // namespace crashcut
