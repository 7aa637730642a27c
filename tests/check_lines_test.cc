// crashcut check names the lines of the program that it has recorded, of any program with debug information.
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

// The line of the text that ends with the mark, "// line: mark".
std::uint64_t line_of(const std::string& source, const std::string& mark) {
  std::istringstream in(source);
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with("// line: " + mark)) return number;
  }
  ADD_FAILURE() << "no line has the mark " << mark;
  return 0;
}

// It breaks old versions of notes: the rename has no fsync before it.
const std::string kSaves = R"(#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline __attribute__((always_inline)) void put(int fd, const char* text) {
  if (write(fd, text, strlen(text)) < 0) _exit(3);  // line: put
}
__attribute__((noinline)) void keep(const char* text) {
  int fd = open("notes.more", O_WRONLY | O_CREAT, 0644);  // line: open
  put(fd, text);
  close(fd);
}
__attribute__((noinline)) void save(const char* text) {
  FILE* file = fopen("notes.new", "w");  // line: fopen
  fputs(text, file);
  fclose(file);  // line: fclose
  rename("notes.new", "notes");  // line: rename
  keep(text);
}
int main() {
  save("new notes, which are longer than the old ones");
  return 0;
}
)";
const std::string kNotes = "echo old > notes";

class CheckLines : public CheckTest {
 protected:
  // Of the operation whose text begins so, or with the process' name and so: "save save.c:17"; empty: it has none.
  std::string place_of(const std::string& begin) {
    const Json operations = result().at("violation").at("crashes").at(0).at("operations");
    for (const Json& one : operations) {
      std::string text = one.at("text");
      if (const std::size_t name = text.find(": "); name < text.find('(')) text = text.substr(name + 2);
      if (!text.starts_with(begin)) continue;
      if (one.at("file").is_null()) return one.at("function").is_null() ? "" : one.at("function").get<std::string>();
      return one.at("function").get<std::string>() + " " + one.at("file").get<std::string>() + ":" +
             one.at("line").dump();
    }
    ADD_FAILURE() << "no operation begins with " << begin << ": " << operations.dump(1);
    return "";
  }
  Ran check_program(Words words, Words options = {}) {
    fs::remove_all(directory_ / "results");
    Words all{"check", "--out", "results", "--setup", kNotes, "--file", "notes"};
    all.insert(all.end(), options.begin(), options.end());
    all.emplace_back("--");
    all.insert(all.end(), words.begin(), words.end());
    return crashcut(all);
  }
  // The lines of kSaves, which was compiled as `name`.c.
  void expect_lines(const std::string& name) {
    const auto at = [&](const char* function, const char* mark) {
      return std::string(function) + " " + name + ".c:" + std::to_string(line_of(kSaves, mark));
    };
    EXPECT_EQ(place_of("create(notes.new"), at("save", "fopen"));
    EXPECT_EQ(place_of("write(notes.new"), at("save", "fclose"));
    EXPECT_EQ(place_of("rename(notes.new"), at("save", "rename"));
    EXPECT_EQ(place_of("create(notes.more"), at("keep", "open"));
    EXPECT_EQ(place_of("write(notes.more"), at("put", "put"));
  }
  void shell(const std::string& command) {
    ASSERT_EQ(std::system(("cd " + directory_.string() + " && " + command).c_str()), 0) << command;
  }
};

struct Flags {
  const char* name;
  const char* flags;
};
class CheckLinesOf : public CheckLines, public testing::WithParamInterface<Flags> {};

TEST_P(CheckLinesOf, CallsOfStdioAndInlinedFunctions) {
  const std::string program = compile("saves", kSaves, GetParam().flags);
  const Ran ran = check_program({program});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  expect_lines("saves");
  const std::string place = "[save saves.c:" + std::to_string(line_of(kSaves, "rename")) + "]";
  EXPECT_NE(ran.out.find(place), std::string::npos) << ran.out;
  // The trace has them, so a replay has too, without the program being run.
  const Ran again = crashcut({"replay", "--print", token()});
  EXPECT_NE(again.out.find(place), std::string::npos) << again.out << again.err;
}

INSTANTIATE_TEST_SUITE_P(All, CheckLinesOf,
                         testing::Values(Flags{"unoptimised", "-g -O0"}, Flags{"optimised", "-g -O2"},
                                         Flags{"withoutPie", "-g -O2 -no-pie"}, Flags{"static", "-g -O1 -static"},
                                         Flags{"framePointers", "-g -O2 -fno-omit-frame-pointer"}),
                         [](const auto& info) { return info.param.name; });

TEST_F(CheckLines, NoneWithoutDebugInformation) {
  const Ran ran = check_program({compile("saves", kSaves, "-O2")});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  for (const char* operation : {"create(notes.new", "write(notes.new", "rename(notes.new"})
    EXPECT_EQ(place_of(operation), "");
}

TEST_F(CheckLines, OfAStrippedProgramByItsDebugFile) {
  const std::string program = compile("saves", kSaves, "-g -O2");
  shell(
      "objcopy --only-keep-debug saves saves.debug && strip -g saves && objcopy --add-gnu-debuglink=saves.debug saves");
  const Ran ran = check_program({program});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  expect_lines("saves");
}

TEST_F(CheckLines, NoneOfAProgramThatIsAnotherOneByNow) {
  const std::string program = compile("saves", kSaves, "-g -O2");
  ASSERT_EQ(check_program({program}).exit_code, 1);
  expect_lines("saves");
  const std::string found = token();
  compile("saves", "\n\n\n" + kSaves + "int more(void) { return 1; }\n", "-g -O0");
  const Ran again = crashcut({"replay", "--print", found});
  EXPECT_NE(again.out.find("rename(notes.new, notes)"), std::string::npos) << again.out << again.err;
  EXPECT_EQ(again.out.find("saves.c"), std::string::npos) << again.out;
}

TEST_F(CheckLines, OfASharedLibraryThatIsLoadedLate) {
  compile("keeps", kSaves, "-g -O2 -shared -fPIC -Dmain=other");
  const std::string loads = R"(#include <dlfcn.h>
int main() {
  void* library = dlopen("./keeps.so", RTLD_NOW);
  if (library == 0) return 2;
  void (*save)(const char*) = (void (*)(const char*))dlsym(library, "save");
  save("new notes, which are longer than the old ones");
  return 0;
}
)";
  shell("mv keeps keeps.so");
  std::string text = loads;
  text.replace(text.find("./keeps.so"), 10, (directory_ / "keeps.so").string());
  const Ran ran = check_program({compile("loads", text, "-g -O2")});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  expect_lines("keeps");
}

// Libraries of other people find their frames by the frame pointer. Where their stack depends on what they compute, the
// caller is not known, and so not told.
TEST_F(CheckLines, OfCallsThroughALibraryWithoutDebugInformation) {
  const std::string library = R"(#include <alloca.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
void put(const char* name, int count) {
  char* text = SPACE;
  memset(text, 'x', count);
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (write(fd, text, count) != count) _exit(3);
  close(fd);
}
)";
  const std::string calls = R"(void put(const char* name, int count);
int main(int argc, char** argv) {
  put("notes", 8 * argc);  // line: put
  return 0;
}
)";
  for (const bool is_fixed : {true, false}) {
    for (const std::string flags : {"-O0", "-O2 -fno-omit-frame-pointer"}) {
      SCOPED_TRACE(flags);
      const std::string space = is_fixed ? "-D'SPACE=(char[64]){0}' " : "-D'SPACE=alloca(count)' ";
      compile("puts", library, space + "-shared -fPIC " + flags);
      shell("mv puts libputs.so");
      std::ofstream(directory_ / "calls.c") << calls;
      shell("cc -g -O1 calls.c -o calls -L. -lputs -Wl,-rpath,'$ORIGIN'");
      const Ran ran = check_program({(directory_ / "calls").string()});
      ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
      const std::string place = "main calls.c:" + std::to_string(line_of(calls, "put"));
      EXPECT_EQ(place_of("write(notes, 8 bytes"), is_fixed ? place : "");
    }
  }
}

TEST_F(CheckLines, OfEachThread) {
  const std::string threads = R"(#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void* work(void* argument) {
  char name[16];
  snprintf(name, sizeof name, "part%ld", (long)argument);
  int fd = open(name, O_WRONLY | O_CREAT, 0644);  // line: open
  if (pwrite(fd, name, 5, 0) != 5) return 0;  // line: write
  fsync(fd);  // line: fsync
  close(fd);
  return 0;
}
int main() {
  pthread_t threads[4];
  for (long i = 0; i < 4; ++i) pthread_create(&threads[i], 0, work, (void*)i);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], 0);
  rename("part0", "notes");  // line: rename
  unlink("part1");  // line: unlink
  int fd = open("notes", O_WRONLY | O_TRUNC);  // line: truncate
  if (write(fd, "x", 1) != 1) return 1;
  close(fd);
  return 0;
}
)";
  const Ran ran = check_program({compile("threads", threads, "-g -O2 -pthread")});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const auto at = [&](const char* function, const char* mark) {
    return std::string(function) + " threads.c:" + std::to_string(line_of(threads, mark));
  };
  for (const char* part : {"part0", "part1", "part2", "part3"}) {
    EXPECT_EQ(place_of("create(" + std::string(part)), at("work", "open"));
    EXPECT_EQ(place_of("write(" + std::string(part)), at("work", "write"));
    EXPECT_EQ(place_of("fsync(" + std::string(part)), at("work", "fsync"));
  }
  EXPECT_EQ(place_of("rename(part0"), at("main", "rename"));
  EXPECT_EQ(place_of("unlink(part1"), at("main", "unlink"));
  EXPECT_EQ(place_of("truncate(notes"), at("main", "truncate"));
}

// The same process number, another program; and a process that has the same memory as its parent.
TEST_F(CheckLines, OfAProgramThatRunsAnother) {
  compile("saves", kSaves, "-g -O2");
  const std::string runs = R"(#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
extern char** environ;
int main(int argc, char** argv) {
  if (write(open("first", O_WRONLY | O_CREAT, 0644), "1", 1) != 1) return 1;  // line: first
  if (fork() == 0) _exit(write(open("child", O_WRONLY | O_CREAT, 0644), "1", 1) != 1);  // line: child
  wait(0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 5, "spawned", O_WRONLY | O_CREAT, 0644);
  char* arguments[] = {argv[1], 0};
  pid_t child;
  posix_spawn(&child, argv[1], &actions, 0, arguments, environ);  // line: spawn
  waitpid(child, 0, 0);
  execv(argv[1], arguments);
  return 1;
}
)";
  const Ran ran = check_program({compile("runs", runs, "-g -O0"), (directory_ / "saves").string()});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_EQ(place_of("write(first"), "main runs.c:" + std::to_string(line_of(runs, "first")));
  EXPECT_EQ(place_of("write(child"), "main runs.c:" + std::to_string(line_of(runs, "child")));
  expect_lines("saves");
}

// A shell has no lines; what it becomes has.
TEST_F(CheckLines, OfAProgramThatAShellBecomes) {
  compile("saves", kSaves, "-g -O2");
  const std::string saves = (directory_ / "saves").string();
  ASSERT_EQ(check_program({"sh", "-c", "echo 1 > first; echo 2 > second; exec " + saves}).exit_code, 1);
  EXPECT_EQ(place_of("create(first"), "");
  expect_lines("saves");
}

TEST_F(CheckLines, OfAHandlerAndOfWhatItInterrupted) {
  const std::string handles = R"(#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
static void on_signal(int number) {
  (void)number;
  int fd = open("notes", O_WRONLY | O_TRUNC);  // line: truncate
  if (write(fd, "x", 1) != 1) _exit(1);
}
int main() {
  signal(SIGUSR1, on_signal);
  raise(SIGUSR1);
  return 0;
}
)";
  ASSERT_EQ(check_program({compile("handles", handles, "-g -O1")}).exit_code, 1);
  EXPECT_EQ(place_of("truncate(notes"), "on_signal handles.c:" + std::to_string(line_of(handles, "truncate")));
}

// sync() reaches no filesystem by itself. A mapped file is written back when the kernel likes: by nobody's call.
TEST_F(CheckLines, OfSyncAndOfAProgramThatMapsItsFile) {
  const std::string maps = R"(#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main() {
  int fd = open("notes", O_RDWR);
  char* memory = mmap(0, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  memcpy(memory, "new", 3);
  sync();  // line: sync
  memcpy(memory, "NEW", 3);
  if (pwrite(fd, "x", 1, 3) != 1) return 1;  // line: write
  fsync(fd);  // line: fsync
  return 0;
}
)";
  ASSERT_EQ(check_program({compile("maps", maps, "-g -O2")}).exit_code, 1);
  const auto at = [&](const char* mark) { return "main maps.c:" + std::to_string(line_of(maps, mark)); };
  EXPECT_EQ(place_of("sync("), at("sync"));
  EXPECT_EQ(place_of("write(notes, 1 byte at 3"), at("write"));
  EXPECT_EQ(place_of("fsync("), at("fsync"));
}

// While such a write is on its way its thread may be anywhere.
TEST_F(CheckLines, NoneOfAWriteThatNobodyWaitsFor) {
  const std::string submits = R"(#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
  int fd = open("notes", O_RDWR | O_CREAT | O_DIRECT, 0644);
  void* page = aligned_alloc(4096, 4096);
  memset(page, 'a', 4096);
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 8, &context) != 0) return 2;
  struct iocb call;
  memset(&call, 0, sizeof call);
  call.aio_lio_opcode = IOCB_CMD_PWRITE;
  call.aio_fildes = fd;
  call.aio_buf = (unsigned long)page;
  call.aio_nbytes = 4096;
  struct iocb* calls[] = {&call};
  struct io_event event;
  if (syscall(SYS_io_submit, context, 1, calls) != 1) return 3;
  if (syscall(SYS_io_getevents, context, 1, 1, &event, 0) != 1) return 4;
  if (pwrite(fd, page, 4096, 4096) != 4096) return 5;  // line: pwrite
  return 0;
}
)";
  const Ran ran = check_program({compile("submits", submits, "-g -O1")});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_EQ(place_of("write(notes, 4096 bytes at 0"), "");
  EXPECT_EQ(place_of("write(notes, 4096 bytes at 4096"),
            "main submits.c:" + std::to_string(line_of(submits, "pwrite")));
}

TEST_F(CheckLines, StandInAnnotationsAndOnThePage) {
  const std::string program = compile("saves", kSaves, "-g -O2");
  const Ran ran = check_program({program}, {"--github"});
  ASSERT_EQ(ran.exit_code, 1) << ran.err;
  const std::string line = std::to_string(line_of(kSaves, "fclose"));
  EXPECT_NE(ran.out.find("saves.c,line=" + line), std::string::npos) << ran.out;
  EXPECT_NE(read_file(directory_ / "results/page.html").find("\"file\":\"saves.c\",\"line\":" + line),
            std::string::npos);
}

}  // namespace
}  // namespace crashcut
