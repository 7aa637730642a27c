// Names of addresses by debug information: exact lines and variables of small programs that the test compiles, in all
// the ways in which debug information comes, and nothing worse than no name for files that are damaged.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "recovery/source/elf_file.h"
#include "recovery/source/lines.h"
#include "recovery/source/names.h"
#include "recovery/source/readable_names.h"
#include "tests/source/layout.h"

namespace crashcut::source {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char part[4096];
  for (std::size_t got; (got = fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, got);
  return pclose(pipe) == 0 ? text : "";
}

std::uint64_t line_in(const std::string& source, const std::string& mark) {
  std::ifstream in(std::string(CRASHCUT_NAMED_PROGRAMS) + "/" + source);
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with("// line: " + mark)) return number;
  }
  ADD_FAILURE() << "no line of " << source << " has the mark " << mark;
  return 0;
}

// "innermost named.c:14 < middle named.c:19"
std::string text_of(const std::vector<SourceLine>& frames) {
  std::string text;
  for (const SourceLine& frame : frames) text += (text.empty() ? "" : " < ") + result::place_text(frame);
  return text;
}

class SourceNames : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "source_names.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ / name; }
  // Compiles a source of tests/source; false if the compiler cannot do that.
  bool compile(const std::string& compiler, const std::string& source, const std::string& options,
               const std::string& name = "program") const {
    const std::string command = compiler + " " + options + " " CRASHCUT_NAMED_PROGRAMS "/" + source + " -pthread -o " +
                                path(name) + " 2> " + path("messages");
    return std::system(command.c_str()) == 0;
  }
  void shell(const std::string& command) const {
    ASSERT_EQ(std::system(("cd " + directory_.string() + " && " + command).c_str()), 0) << command;
  }
  // The addresses of its symbols, without those of C++'s names.
  std::map<std::string, std::uint64_t> symbols(const std::string& name = "program") const {
    std::istringstream lines(output_of("nm " + path(name)));
    std::map<std::string, std::uint64_t> found;
    for (std::string address, type, symbol; lines >> address;) {
      if (address.size() < 16) {
        lines >> symbol;  // undefined: it has no address
        continue;
      }
      lines >> type >> symbol;
      found[symbol] = std::stoull(address, nullptr, 16);
    }
    return found;
  }

  fs::path directory_;
  Names names_;
};

std::string expected_inlined() {
  return "innermost named.c:" + std::to_string(line_in("named.c", "inlined")) +
         " < middle named.c:" + std::to_string(line_in("named.c", "middle")) +
         " < outermost named.c:" + std::to_string(line_in("named.c", "outermost"));
}
std::string expected_plain() { return "outermost named.c:" + std::to_string(line_in("named.c", "plain")); }

struct Way {
  const char* name;
  const char* compiler;
  const char* options;
};

class SourceNamesInEveryWay : public SourceNames, public ::testing::WithParamInterface<Way> {};

TEST_P(SourceNamesInEveryWay, OfCodeAndVariables) {
  const Way& way = GetParam();
  ASSERT_TRUE(compile(way.compiler, "named.c", way.options));
  const auto at = symbols();
  const std::string file = path("program");
  EXPECT_EQ(text_of(names_.frames_at(file, at.at("here_inlined"))), expected_inlined());
  EXPECT_EQ(text_of(names_.frames_at(file, at.at("here_plain"))), expected_plain());
  const auto in_table = [&](std::size_t offset) { return names_.variable_at(file, at.at("table") + offset); };
  EXPECT_EQ(in_table(0), "table.size");
  EXPECT_EQ(in_table(offsetof(table, slots[3].lock)), "table.slots[3].lock");
  EXPECT_EQ(in_table(offsetof(table, slots[1].values[1][2])), "table.slots[1].values[1][2]");
  EXPECT_EQ(in_table(offsetof(table, slots[1].values[1][2]) + 4), "table.slots[1].values[1][2]+4");
  EXPECT_EQ(in_table(offsetof(table, slots[2].lock) + 8), "table.slots[2].lock+8");
  EXPECT_EQ(in_table(offsetof(table, number)), "table+" + std::to_string(offsetof(table, number)));  // or letters[0]
  EXPECT_EQ(in_table(offsetof(table, high)), "table.high");
  EXPECT_EQ(in_table(offsetof(table, root)), "table.root");
  EXPECT_EQ(names_.variable_at(file, at.at("forks") + 4), "forks[1]");
  EXPECT_EQ(names_.variable_at(file, at.at("counter")), "counter");
  for (const auto& [symbol, address] : at) {
    const bool is_local = symbol.starts_with("calls.") || symbol == "outermost.calls";
    if (is_local) {
      EXPECT_EQ(names_.variable_at(file, address + 8), "calls[2]");
    }
  }
  EXPECT_EQ(names_.variable_at(file, 1), "");
  EXPECT_EQ(text_of(names_.frames_at(file, 1)), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, SourceNamesInEveryWay,
    ::testing::Values(Way{"gcc", "gcc", "-g -O0"}, Way{"gcc_optimised", "gcc", "-g -O2"},
                      Way{"gcc_dwarf_4", "gcc", "-gdwarf-4 -O2"}, Way{"gcc_no_pie", "gcc", "-g -O0 -no-pie"},
                      Way{"gcc_compressed", "gcc", "-g -gz -O1"}, Way{"gcc_split", "gcc", "-g -gsplit-dwarf -O2"},
                      Way{"gcc_lto", "gcc", "-g -O1 -flto"}, Way{"clang", "clang", "-g -O0"},
                      Way{"clang_optimised", "clang", "-g -O2"}, Way{"clang_dwarf_4", "clang", "-gdwarf-4 -O2"},
                      Way{"clang_no_pie", "clang", "-g -O1 -no-pie"}),
    [](const auto& info) { return std::string(info.param.name); });

class SourceNamesOfCpp : public SourceNames, public ::testing::WithParamInterface<Way> {};

TEST_P(SourceNamesOfCpp, AreAsPeopleSayThem) {
  const Way& way = GetParam();
  ASSERT_TRUE(compile(way.compiler, "named.cpp", way.options));
  const auto at = symbols();
  const std::string file = path("program");
  const auto front_at = [&](const char* label) {
    const auto frames = names_.frames_at(file, at.at(label));
    return frames.empty() ? "" : result::place_text(frames.front());
  };
  EXPECT_EQ(front_at("here_insert"),
            "store::insert(std::string const&, int) named.cpp:" + std::to_string(line_in("named.cpp", "insert")));
  EXPECT_EQ(front_at("here_lambda"), "lambda in main named.cpp:" + std::to_string(line_in("named.cpp", "lambda")));
  const std::uint64_t shared = at.at("_ZN5store5Table6sharedE"), table = at.at("_ZN5store5tableE");
  constexpr std::uint64_t kLock = 8, kCount = 48, kSizes = 52, kBytes = 72, kEntries = 8;
  EXPECT_EQ(names_.variable_at(file, shared), "store::Table::shared.kept");
  EXPECT_EQ(names_.variable_at(file, shared + kLock), "store::Table::shared.lock");
  EXPECT_EQ(names_.variable_at(file, shared + kCount), "store::Table::shared.count");
  EXPECT_EQ(names_.variable_at(file, shared + kSizes + 8), "store::Table::shared.sizes[2]");
  EXPECT_EQ(names_.variable_at(file, table), "store::table.first");
  EXPECT_EQ(names_.variable_at(file, table + kEntries + 3 * kBytes + kLock), "store::table.entries[1][1].lock");
  for (const auto& [symbol, address] : at) {
    const bool is_local = symbol.starts_with("_ZZN5store") && symbol.ends_with("5local");
    if (is_local) {
      EXPECT_EQ(names_.variable_at(file, address + kLock), "store::insert(std::string const&, int)::local.lock");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SourceNamesOfCpp,
                         ::testing::Values(Way{"gxx", "g++", "-g -O0"}, Way{"gxx_optimised", "g++", "-g -O2"},
                                           Way{"clang", "clang++", "-g -O0"},
                                           Way{"clang_optimised", "clang++", "-g -O2"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(SourceNames, OfASharedLibrary) {
  ASSERT_TRUE(compile("gcc", "named.c", "-g -O1 -shared -fPIC", "libnamed.so"));
  const auto at = symbols("libnamed.so");
  EXPECT_EQ(text_of(names_.frames_at(path("libnamed.so"), at.at("here_inlined"))), expected_inlined());
  EXPECT_EQ(names_.variable_at(path("libnamed.so"), at.at("counter")), "counter");
}

TEST_F(SourceNames, WithoutDebugInformationAreSymbols) {
  ASSERT_TRUE(compile("gcc", "named.c", "-O1"));
  const auto at = symbols();
  EXPECT_EQ(text_of(names_.frames_at(path("program"), at.at("here_plain"))), "outermost");
  EXPECT_EQ(names_.variable_at(path("program"), at.at("table") + offsetof(table, slots[1])),
            "table+" + std::to_string(offsetof(table, slots[1])));
  shell("strip -s -o stripped program");
  EXPECT_EQ(text_of(names_.frames_at(path("stripped"), at.at("here_plain"))), "");
  EXPECT_EQ(names_.variable_at(path("stripped"), at.at("table")), "");
}

TEST_F(SourceNames, OfASeparateFileThatALinkNames) {
  ASSERT_TRUE(compile("gcc", "named.c", "-g -O1 -Wl,--build-id=none"));
  const auto at = symbols();
  shell(
      "mkdir .debug && objcopy --only-keep-debug program .debug/program.debug && strip -s program && "
      "objcopy --add-gnu-debuglink=.debug/program.debug program");
  EXPECT_EQ(text_of(names_.frames_at(path("program"), at.at("here_inlined"))), expected_inlined());
  EXPECT_EQ(names_.variable_at(path("program"), at.at("forks") + 12), "forks[3]");
  // Debug information of another program is not believed.
  ASSERT_TRUE(compile("gcc", "named.c", "-g -O0 -Wl,--build-id=none", "other"));
  shell("objcopy --only-keep-debug other .debug/program.debug");
  EXPECT_EQ(text_of(Names().frames_at(path("program"), at.at("here_inlined"))), "");
}

TEST_F(SourceNames, OfASeparateFileWithTheSameBuildId) {
  ASSERT_TRUE(compile("gcc", "named.c", "-g -O1 -Wl,--build-id=0x12345678"));
  const auto at = symbols();
  shell(
      "mkdir -p root/.build-id/12 && objcopy --only-keep-debug program root/.build-id/12/345678.debug && "
      "strip -s program");
  ElfFile file(path("program"), path("root"));
  EXPECT_EQ(text_of(Lines(file).frames_at(at.at("here_inlined"))), expected_inlined());
  // The right name, and the debug information of another build.
  ASSERT_TRUE(compile("gcc", "named.c", "-g -O1 -Wl,--build-id=0x87654321", "other"));
  shell("objcopy --only-keep-debug other root/.build-id/12/345678.debug");
  ElfFile again(path("program"), path("root"));
  EXPECT_EQ(text_of(Lines(again).frames_at(at.at("here_inlined"))), "");
}

TEST_F(SourceNames, OfRust) {
  if (std::system("rustc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "rustc is not installed";
  std::ofstream(path("named.rs")) << "#![allow(named_asm_labels)]\nuse std::arch::asm;\n"
                                     "#[inline(never)]\n"
                                     "fn insert() {\n"
                                     "    unsafe { asm!(\".globl here_insert\", \"here_insert:\", \"nop\") }\n"
                                     "}\n"
                                     "fn main() { insert(); }\n";
  shell("rustc -g named.rs -o program 2> messages");
  EXPECT_EQ(text_of(names_.frames_at(path("program"), symbols().at("here_insert"))), "named::insert named.rs:5");
}

TEST(ReadableNames, OfFunctions) {
  EXPECT_EQ(readable("std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#2}> > >::_M_run()"),
            "std::thread");
  EXPECT_EQ(readable("worker(int)::{lambda(int)#1}::operator()(int) const"), "lambda in worker(int)");
  EXPECT_EQ(readable("main::{lambda()#1}::operator()() const::{lambda()#2}::operator()() const"),
            "lambda in lambda in main");
  EXPECT_EQ(readable("(anonymous namespace)::save(std::__cxx11::basic_string<char, std::char_traits<char>, "
                     "std::allocator<char> > const&)"),
            "save(std::string const&)");
  EXPECT_EQ(readable("named::insert::h0123456789abcdef"), "named::insert");
  EXPECT_EQ(readable("hash::h12"), "hash::h12");
  EXPECT_EQ(readable("insert(int) [clone .constprop.0]"), "insert(int)");
  EXPECT_EQ(readable(""), "");
  EXPECT_EQ(readable("::{lambda("), "::{lambda(");
  EXPECT_EQ(readable("a::{lambda(b"), "a::{lambda(b");
}

// --- files that are damaged, and readers that do not answer

pid_t reader_process() {
  std::ifstream children("/proc/self/task/" + std::to_string(gettid()) + "/children");
  pid_t reader = 0;
  children >> reader;
  return reader;
}

TEST_F(SourceNames, ThatTakeTooLongAreNoNames) {
  ASSERT_TRUE(compile("gcc", "named.c", "-g"));
  const auto at = symbols();
  const auto end = Clock::now() + std::chrono::milliseconds(700);
  Names names([&] { return Clock::now() >= end; });
  EXPECT_EQ(names.variable_at(path("program"), at.at("counter")), "counter");
  ASSERT_NE(reader_process(), 0);
  kill(reader_process(), SIGSTOP);
  EXPECT_EQ(names.variable_at(path("program"), at.at("forks")), "");
  EXPECT_LT(Clock::now(), end + std::chrono::seconds(2));
  EXPECT_EQ(names.variable_at(path("program"), at.at("counter")), "counter");  // it is known already
  EXPECT_EQ(names.variable_at(path("program"), at.at("forks") + 4), "");
}

TEST_F(SourceNames, OfOtherFilesWhereTheReaderDied) {
  ASSERT_TRUE(compile("gcc", "named.c", "-g"));
  shell("cp program bad");
  const auto at = symbols();
  EXPECT_EQ(names_.variable_at(path("bad"), at.at("counter")), "counter");
  kill(reader_process(), SIGKILL);
  EXPECT_EQ(names_.variable_at(path("bad"), at.at("forks")), "");
  EXPECT_EQ(names_.variable_at(path("bad"), at.at("forks") + 4), "") << "it is not read again";
  EXPECT_EQ(names_.variable_at(path("program"), at.at("forks") + 4), "forks[1]");
}

TEST_F(SourceNames, OfWhatIsNoProgram) {
  std::ofstream(path("empty"));
  std::ofstream(path("text")) << "#!/bin/sh\n";
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  for (const char* name : {"empty", "text", "fifo", ".", "missing"}) {
    EXPECT_EQ(text_of(names_.frames_at(path(name), 0x1000)), "") << name;
    EXPECT_EQ(names_.variable_at(path(name), 0x1000), "") << name;
  }
}

// The bytes of a section.
std::pair<std::size_t, std::size_t> section_of(const std::string& file, const std::string& section) {
  std::istringstream lines(output_of("objdump -h " + file));
  for (std::string number, name, size, vma, lma, offset, rest; lines >> number;) {
    if (number.find_first_not_of("0123456789") == number.npos && lines >> name >> size >> vma >> lma >> offset &&
        name == section)
      return {std::stoull(offset, nullptr, 16), std::stoull(size, nullptr, 16)};
    std::getline(lines, rest);
  }
  return {0, 0};
}

// A damaged copy: bytes of one section, of the headers or of anything are changed, or its end is missing.
std::string damaged(std::string bytes, const std::vector<std::pair<std::size_t, std::size_t>>& sections,
                    std::mt19937& random) {
  const auto below = [&](std::size_t most) { return most == 0 ? 0 : random() % most; };
  if (below(20) == 0) return bytes.substr(0, below(bytes.size()));
  const auto& [begin, size] = sections[below(sections.size())];
  const std::size_t count = 1 + below(8);
  for (std::size_t i = 0; i < count && size > 0; ++i) {
    const std::size_t place = begin + below(size);
    const unsigned char kinds[] = {static_cast<unsigned char>(random()), 0, 0xff, 0x80, 0x7f, 1};
    bytes[place] = static_cast<char>(kinds[below(std::size(kinds))]);
  }
  return bytes;
}

class DamagedFiles : public SourceNames, public ::testing::WithParamInterface<Way> {};

TEST_P(DamagedFiles, HaveNoNamesAtWorst) {
  const Way& way = GetParam();
  ASSERT_TRUE(compile(way.compiler, "named.c", way.options));
  const auto at = symbols();
  std::ifstream in(path("program"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::pair<std::size_t, std::size_t>> sections = {{0, 64}, {0, bytes.size()}};
  for (const char* name : {".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_rnglists",
                           ".debug_line_str", ".debug_ranges", ".debug_addr", ".debug_str_offsets"}) {
    const auto section = section_of(path("program"), name);
    if (section.second > 0) sections.push_back(section);
  }
  ASSERT_GE(sections.size(), 6u);
  std::mt19937 random(7);
  constexpr int kFiles = 800;
  int right = 0;
  for (int i = 0; i < kFiles; ++i) {
    const std::string copy = path("damaged." + std::to_string(i));
    std::ofstream(copy, std::ios::binary) << damaged(bytes, sections, random);
    const bool is_right = text_of(names_.frames_at(copy, at.at("here_inlined"))) == expected_inlined();
    names_.variable_at(copy, at.at("table") + offsetof(table, slots[3].lock));
    right += is_right ? 1 : 0;
    fs::remove(copy);
  }
  // Some damage is to what is not asked about, and some is noticed.
  EXPECT_GT(right, kFiles / 20);
  EXPECT_LT(right, kFiles);
  EXPECT_EQ(text_of(names_.frames_at(path("program"), at.at("here_inlined"))), expected_inlined());
}

INSTANTIATE_TEST_SUITE_P(All, DamagedFiles,
                         ::testing::Values(Way{"gcc_dwarf_5", "gcc", "-g -O2"},
                                           Way{"gcc_dwarf_4", "gcc", "-gdwarf-4 -O2"}, Way{"clang", "clang", "-g -O2"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace crashcut::source
