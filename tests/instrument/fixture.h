// Programs that are compiled by `crashcut cc --pmem` and run with a library that prints their accesses (log.cc).
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace crashcut {

namespace fs = std::filesystem;

struct Output {
  int exit_code = -1;
  std::string out, err;
};

// One function of a program: what it does to `p`, 256 aligned bytes, zero at first, and which calls that must be.
struct Row {
  const char* name;
  const char* body;
  const char* calls;  // one a line
};

// n is 7 and unknown to the compiler; `result` keeps what is read.
constexpr const char* kRowHead =
    "#include <immintrin.h>\n#include <stdatomic.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
    "#include <strings.h>\n"
    "__attribute__((weak)) void log_region(char*, size_t);\n__attribute__((weak)) void log_note(const char*);\n"
    "static _Alignas(64) char region[256];\nvolatile long result;\nvolatile long unknown = 7;\n"
    "volatile __m128i wide;\n";

class InstrumentTest : public testing::Test {
 protected:
  InstrumentTest() : directory_(fs::temp_directory_path() / ("instrument_test." + std::to_string(getpid()))) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~InstrumentTest() override { fs::remove_all(directory_); }

  static std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // A line of sh, in our directory.
  Output shell(const std::string& line) {
    const std::string in = "cd " + directory_.string() + " && ( " + line + " ) >out 2>err";
    const int status = std::system(in.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(directory_ / "out"), text_of(directory_ / "err")};
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(directory_ / name) << text; }
  static std::string cc() { return std::string(CRASHCUT_BINARY) + " cc --pmem "; }
  static std::string cxx() { return std::string(CRASHCUT_BINARY) + " cxx --pmem "; }
  static std::string logged(const std::string& program) {
    return std::string("LD_PRELOAD=") + CRASHCUT_LOG_LIBRARY + " " + program;
  }

  // A program of all rows. What a row printed, before its name.
  std::string rows_program(const std::vector<Row>& rows, const std::string& head) {
    std::string text = kRowHead + head;
    for (const Row& row : rows)
      text += std::string("__attribute__((noinline)) void row_") + row.name + "(char* p, long n) { (void)n; " +
              row.body + " }\n";
    text += "int main(void) { if (log_region) log_region(region, sizeof region);\n";
    for (const Row& row : rows)
      text += std::string("clear();\n") + "row_" + row.name +
              "(region, unknown); if (log_note) log_note(\"= " + row.name + "\");\n";
    return text + "return 0; }\n";
  }

  void expect_rows(const std::vector<Row>& rows, const std::string& flags, const std::string& head = "") {
    // Clears without being seen.
    const std::string clear =
        "void clear_region(char*, size_t); static void clear(void) { clear_region(region, sizeof region); }\n";
    write("rows.c", rows_program(rows, clear + head));
    write("clear.c", "#include <string.h>\nvoid clear_region(char* p, size_t n) { memset(p, 0, n); }\n");
    const Output built = shell("clang-14 -c clear.c && " + cc() + flags + " rows.c clear.o -o rows");
    ASSERT_EQ(built.exit_code, 0) << built.err;
    const Output ran = shell(logged("./rows"));
    ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    std::string expected;
    for (const Row& row : rows) expected += std::string(row.calls) + (*row.calls ? "\n" : "") + "= " + row.name + "\n";
    EXPECT_EQ(ran.out, expected) << flags;
    EXPECT_EQ(shell("./rows").exit_code, 0) << "without the library that prints";
  }

  fs::path directory_;
};

// Early and late, at each level.
inline const std::vector<std::string> kAllWays = {"-O0", "-O1", "-O2", "-O3", "--late -O0", "--late -O2", "--late -O3"};
inline const std::vector<std::string> kFewWays = {"-O0", "-O2", "--late -O2"};

}  // namespace crashcut
