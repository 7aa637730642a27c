// What crashcut cxl reports: columns, the simplest counterexample, outcomes, what machines share beside their memory;
// and going on with a search, and gdb.
#include <sys/stat.h>

#include <set>

#include "machines_command.h"

namespace crashcut {
namespace {

std::string in_line(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST_F(Machines, HaveAColumnEach) {
  const std::string output = check("--never-fails 1 --machines 2 " + compile("die") + " plain_halves", 1)["output"];
  const std::string heading = in_line(output, "machine 0  ");
  ASSERT_NE(heading.find("machine 1"), std::string::npos) << output;
  const std::size_t first = heading.find("machine 0"), second = heading.find("machine 1");
  // Where it fails is told with what it stood before: it has stored one of two variables.
  const std::string failure = in_line(output, "*** FAILS *** before: ");
  EXPECT_EQ(failure.find("*** FAILS ***"), first) << output;
  EXPECT_NE(failure.find("plainly "), std::string::npos) << failure;
  EXPECT_EQ(in_line(output, "fail  [observer die.c:").find("fail"), second) << output;
  EXPECT_NE(output.find("machine 0 is down since step "), std::string::npos) << output;
}

TEST_F(Machines, AreShownWithTheFewestFailures) {
  const std::string program = compile("talk");
  for (const char* how : {"", "--all "}) {
    const json report = check(std::string(how) + "--machines 2 " + program + " fails", 1);
    EXPECT_EQ(std::string(report["output"]).find("FAILS"), std::string::npos) << report["output"];
  }
  // Nothing goes wrong without a failure here.
  const json report = check("--failures 2 --machines 3 " + compile("die") + " waits_trusts", 1);
  const std::string output = report["output"];
  EXPECT_NE(output.find("FAILS"), std::string::npos) << output;
  EXPECT_EQ(output.find("FAILS"), output.rfind("FAILS")) << output;
}

// Each machine prints 0 or 1. If one fails, before or after it has counted, the other one prints either.
TEST_F(Machines, HaveOutcomes) {
  const json report = check("--outcomes --machines 2 " + compile("talk") + " print", 0);
  std::set<std::string> outcomes;
  std::uint64_t count = 0;
  for (const json& outcome : report["outcomes"]) {
    outcomes.insert(outcome["stdout"]);
    count += outcome["recoveries"].get<std::uint64_t>();
  }
  const std::set<std::string> expected = {"machine 0: 0\nmachine 1: 1\n",
                                          "machine 0: 1\nmachine 1: 0\n",
                                          "machine 0: 0\n",
                                          "machine 0: 1\n",
                                          "machine 1: 0\n",
                                          "machine 1: 1\n"};
  EXPECT_EQ(outcomes, expected) << report["output"];
  EXPECT_EQ(count, report["counts"]["executions"].get<std::uint64_t>());
}

TEST_F(Machines, ThatShareMoreThanTheirMemoryAreTold) {
  const std::string program = compile("talk");
  const std::string file = (directory_ / "file").string(), pipe = (directory_ / "pipe").string();
  std::string output = check("--failures 0 --machines 2 " + program + " file " + file, 0)["output"];
  EXPECT_NE(output.find("Machines share more than their memory: " + file + " is used by machine 0, machine 1"),
            std::string::npos)
      << output;
  // A file that all of them only read is no news.
  output = check("--failures 0 --machines 2 " + program + " read " + file, 0)["output"];
  EXPECT_EQ(output.find("Machines share more"), std::string::npos) << output;
  output = check("--failures 0 --machines 2 " + program + " socket", 2)["output"];
  EXPECT_NE(output.find("The program called socket(), which crashcut cxl cannot follow."), std::string::npos) << output;
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  output = check("--failures 0 --machines 2 " + program + " read " + pipe, 2)["output"];
  EXPECT_NE(output.find("open() of a named pipe"), std::string::npos) << output;
}

// A search that was cut off and resumed has the executions of one that was not.
TEST_F(Machines, GoOnWithASearch) {
  const std::string words = "--never-fails 1 --machines 2 " + compile("die") + " plain";
  const std::string results = (directory_ / "results").string();
  const json first = check("--jobs 1 --max-executions 7 --out " + results + " " + words, 3);
  EXPECT_EQ(first["counts"]["executions"], 7u);
  EXPECT_NE(std::string(first["output"]).find("cxl --resume "), std::string::npos) << first["output"];
  const json second = check("--max-executions 1000 --resume " + results, 0);
  EXPECT_EQ(second["verdict"], "verified") << second["output"];
  EXPECT_EQ(second["counts"]["executions"], 16u);
  EXPECT_EQ(run("threads --resume " + results).code, 2);
}

// gdb stands in the machine that took the step, with that machine's variables.
TEST_F(Machines, AreDebugged) {
  if (std::system("gdb --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no gdb";
  const std::string program = compile("die", "-O0");
  const json report = check("--never-fails 1 --machines 2 " + program + " plain_halves", 1);
  const std::string token = report["token"];
  const Ran last = run("gdb --program " + program + " " + token + " -batch -ex 'crashcut backtrace 0' -ex backtrace");
  EXPECT_NE(last.output.find("observer"), std::string::npos) << last.output;
  const Ran before = run("gdb --program " + program + " " + token + " -batch -ex 'crashcut goto 4' -ex backtrace");
  EXPECT_NE(before.output.find("work"), std::string::npos) << before.output;
}

}  // namespace
}  // namespace crashcut
