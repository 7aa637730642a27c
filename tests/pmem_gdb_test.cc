// crashcut gdb on tokens of crashcut pmem and crashcut run, driven in batch mode: main() up to the crash, then the
// recovery.
#include <algorithm>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

const char kList[] = R"(#include <immintrin.h>
#include <assert.h>
struct Pair { long data; char pad[56]; long flag; };
static struct Pair* p;
static void open_pair(void) { p = crashcut_pmem("pair", sizeof(struct Pair)); }
int main(void) {
  open_pair();
  p->data = 42;  /* stores the data */
  p->flag = 7;  /* stores the flag */
  _mm_clwb(&p->flag);
  _mm_sfence();
  p->flag = 8;
  return 0;
}
void crashcut_recover(void) {
  open_pair();
  long flag = p->flag;  /* loads the flag */
  long data = p->data;  /* loads the data */
  assert(flag != 7 || data == 42);
}
)";

class PmemGdbTest : public PmemTest {
 protected:
  void SetUp() override {
    PmemTest::SetUp();
    if (std::system("gdb --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "gdb is not installed: scripts/setup.sh installs it";
  }
  // Compiled once, since each step of gdb's runs the program anew.
  std::string compiled(const std::string& name, const std::string& text) {
    const Ran made = crashcut({"cc", "--pmem", "-g", "-O1", "-mclwb", program(name + ".c", text), "-o", name});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return "./" + name;
  }
  // What each of the commands printed.
  std::map<std::string, std::string> gdb(const std::string& token, const std::vector<std::string>& commands) {
    std::vector<std::string> words = {"gdb", token, "-batch"};
    for (const std::string& command : commands)
      words.insert(words.end(), {"-ex", "echo <" + command + ">\\n", "-ex", command});
    const Ran ran = crashcut(words);
    std::map<std::string, std::string> parts = {{"", ran.out.substr(0, ran.out.find('<')) + ran.err}};
    for (const std::string& command : commands) {
      const std::size_t begin = ran.out.find("<" + command + ">\n");
      if (begin != std::string::npos) parts[command] = ran.out.substr(begin, ran.out.find("\n<", begin) - begin);
    }
    return parts;
  }
  static std::string line_of(const std::string& text, const std::string& words) {
    const std::size_t at = text.find(words);
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    return std::to_string(lines + 1);
  }
};

TEST_F(PmemGdbTest, StopsInMainAndInTheRecovery) {
  const Ran found = pmem({compiled("p", kList)});
  const std::string text = read_file(directory_ / "p.c");
  ASSERT_EQ(found.exit_code, 1) << found.out << found.err;
  EXPECT_TRUE(found.says("debug: ")) << found.out;
  auto parts = gdb(token_of(found), {"crashcut schedule", "crashcut goto 1", "print *p", "crashcut forward",
                                     "print p->flag", "crashcut goto 3", "crashcut threads", "crashcut goto 4",
                                     "print p->flag ", "crashcut goto 5", "print *p ", "crashcut back"});
  const std::string& steps = parts["crashcut schedule"];
  EXPECT_NE(steps.find("1  main()     store of 8 bytes to pair+0x0 at p.c:" + line_of(text, "stores the data")),
            std::string::npos)
      << steps;
  EXPECT_NE(steps.find("(the power fails here at the earliest)"), std::string::npos) << steps;
  EXPECT_NE(steps.find("3  recovery   begins"), std::string::npos) << steps;
  EXPECT_NE(steps.find("=>    5  recovery   load of 8 bytes from pair+0x0"), std::string::npos)
      << steps << "it begins at the last step";
  EXPECT_NE(parts["crashcut goto 1"].find("main () at"), std::string::npos) << parts["crashcut goto 1"];
  EXPECT_NE(parts["crashcut goto 1"].find("p->data = 42;"), std::string::npos) << parts["crashcut goto 1"];
  EXPECT_NE(parts["print *p"].find("data = 42"), std::string::npos) << parts["print *p"];
  EXPECT_NE(parts["print *p"].find("flag = 0"), std::string::npos) << parts["print *p"];
  EXPECT_NE(parts["print p->flag"].find("= 7"), std::string::npos) << parts["print p->flag"];
  EXPECT_NE(parts["crashcut goto 3"].find("crashcut_recover () at"), std::string::npos) << parts["crashcut goto 3"];
  EXPECT_NE(parts["crashcut threads"].find("main         crashcut_recover at p.c:"), std::string::npos)
      << parts["crashcut threads"];
  EXPECT_NE(parts["crashcut goto 4"].find("loads the flag"), std::string::npos) << parts["crashcut goto 4"];
  EXPECT_NE(parts["print p->flag "].find("= 7"), std::string::npos) << parts["print p->flag "];
  EXPECT_NE(parts["crashcut goto 5"].find("loads the data"), std::string::npos) << parts["crashcut goto 5"];
  EXPECT_NE(parts["print *p "].find("data = 0"), std::string::npos) << "it was lost: " << parts["print *p "];
  EXPECT_NE(parts["crashcut back"].find("loads the flag"), std::string::npos) << parts["crashcut back"];
}

// main() is the recovery where there is no other.
TEST_F(PmemGdbTest, StopsWhereMainRunsAgain) {
  const Ran found = pmem({compiled("again", R"(
#include <assert.h>
static volatile long* words;
int main(void) {
  words = crashcut_pmem("words", 128);
  assert(words[8] == 0 || words[0] == 1);
  words[0] = 1;
  words[8] = 1;
  return 0;
}
)")});
  ASSERT_EQ(found.exit_code, 1) << found.out << found.err;
  auto parts = gdb(token_of(found), {"crashcut goto 3", "crashcut goto 4", "print words[8]"});
  EXPECT_NE(parts["crashcut goto 3"].find("main () at"), std::string::npos) << parts["crashcut goto 3"];
  EXPECT_NE(parts["crashcut goto 4"].find("assert(words[8]"), std::string::npos) << parts["crashcut goto 4"];
  EXPECT_NE(parts["print words[8]"].find("= 1"), std::string::npos) << parts["print words[8]"];
}

TEST_F(PmemGdbTest, TokensOfRunHaveStepsToo) {
  const Ran found = crashcut({"run", program("files.c", R"(
#include <assert.h>
#include <fcntl.h>
#include <unistd.h>
int main(void) {
  int fd = open("a", O_CREAT | O_RDWR, 0644);
  if (write(fd, "x", 1) != 1 || rename("a", "b") != 0) return 1;
  return 0;
}
void crashcut_recover(void) {
  char c = 'x';
  int fd = open("b", O_RDONLY);
  if (fd >= 0 && read(fd, &c, 1) == 1) assert(c == 'x');
}
)")});
  ASSERT_EQ(found.exit_code, 1) << found.out << found.err;
  auto parts = gdb(token_of(found), {"crashcut goto 2", "backtrace", "crashcut schedule"});
  EXPECT_NE(parts["backtrace"].find("in main () at "), std::string::npos) << parts["backtrace"];
  EXPECT_NE(parts["crashcut schedule"].find("recovery   open(\"b\", O_RDONLY) = 3"), std::string::npos)
      << parts["crashcut schedule"];
}

// Threads: the steps of the schedule, then those of the recovery.
TEST_F(PmemGdbTest, AScheduleIsFollowedByTheRecovery) {
  const Ran found = pmem({compiled("threads", R"(#include <immintrin.h>
#include <assert.h>
#include <pthread.h>
static volatile long* words(void) { return crashcut_pmem("words", 128); }
static void* store(void* unused) {
  words()[0] = 1;
  return unused;
}
int main(void) {
  pthread_t t;
  words();
  pthread_create(&t, NULL, store, NULL);
  pthread_join(t, NULL);
  words()[8] = 1;
  _mm_clwb((void*)(words() + 8));
  _mm_sfence();
  return 0;
}
void crashcut_recover(void) {
  volatile long* w = words();
  if (w[8] == 1) assert(w[0] == 1);
}
)")});
  ASSERT_EQ(found.exit_code, 1) << found.out << found.err;
  auto parts = gdb(token_of(found), {"crashcut schedule", "print w[8]", "print w[0]", "crashcut goto 1"});
  EXPECT_NE(parts["crashcut schedule"].find("create thread 1"), std::string::npos) << parts["crashcut schedule"];
  EXPECT_NE(parts["crashcut schedule"].find("recovery   begins"), std::string::npos) << parts["crashcut schedule"];
  EXPECT_NE(parts[""].find("if (w[8] == 1) assert(w[0] == 1);"), std::string::npos) << parts[""];
  EXPECT_NE(parts["print w[8]"].find("= 1"), std::string::npos) << parts["print w[8]"];
  EXPECT_NE(parts["print w[0]"].find("= 0"), std::string::npos) << parts["print w[0]"];
  EXPECT_NE(parts["crashcut goto 1"].find("main ("), std::string::npos) << parts["crashcut goto 1"];
}

TEST_F(PmemGdbTest, SaysWhatItCannotDo) {
  const Ran found = pmem({compiled("p", kList)});
  auto parts = gdb(token_of(found), {"crashcut goto 99"});
  EXPECT_NE((parts["crashcut goto 99"] + parts[""]).find("There are steps 1 to 5"), std::string::npos)
      << parts["crashcut goto 99"] << parts[""];
  const Ran hold = crashcut({"gdb", "--hold", "main:99", token_of(found)});
  EXPECT_EQ(hold.exit_code, 2);
  EXPECT_TRUE(hold.says("did not come to this step")) << hold.err;
  const Ran wrong = crashcut({"gdb", "--hold", "elsewhere:1", token_of(found)});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(wrong.says("there is no such step")) << wrong.err;
}

}  // namespace
}  // namespace crashcut
