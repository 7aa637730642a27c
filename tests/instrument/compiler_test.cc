// crashcut cc and crashcut cxx as compilers: what they pass on, what they refuse, and that programs stay what they
// were.
#include "tests/instrument/fixture.h"

namespace crashcut {
namespace {

const std::string kSources = std::string(CRASHCUT_SOURCE_DIR) + "/tests/instrument/programs/";

// Programs print what they compute.
TEST_F(InstrumentTest, ProgramsPrintTheSameWithAndWithoutInstrumentation) {
  for (const std::string program : {"strings.c", "atomics.c", "assembly.c", "containers.cpp"}) {
    const bool is_cxx = program.ends_with(".cpp");
    const std::string source = kSources + program, flags = " -mcx16 -msse4.1 " + source + " -o p -pthread -latomic";
    ASSERT_EQ(shell((is_cxx ? "clang++-14 -O1" : "clang-14 -O1") + flags).exit_code, 0) << program;
    const Output expected = shell("./p");
    ASSERT_EQ(expected.exit_code, 0) << program;
    EXPECT_GT(expected.out.size(), 10u) << program;
    for (const char* way : {"-O0", "-O2", "--late -O0", "--late -O3"}) {
      const Output built = shell((is_cxx ? cxx() : cc()) + way + flags);
      ASSERT_EQ(built.exit_code, 0) << program << way << built.err;
      const Output ran = shell("./p");
      EXPECT_EQ(ran.exit_code, 0) << program << way;
      EXPECT_EQ(ran.out, expected.out) << program << way;
    }
  }
}

TEST_F(InstrumentTest, BehavesAsACompiler) {
  write("a.c", "#include <crashcut.h>\nint b(int*);\nint main(void) { int x = 3; return b(&x); }\n");
  write("b.c", "int b(int* x) { return *x + UNIT; }\n");
  EXPECT_EQ(shell(cc() + "-Wall -Werror -DUNIT=1 a.c b.c -o both && ./both").exit_code, 4);
  EXPECT_EQ(shell(cc() + "-Werror -c a.c && " + cc() + "-Werror -DUNIT=2 -c b.c -o b2.o && " + cc() +
                  "-Werror a.o b2.o -o linked && ./linked")
                .exit_code,
            5);
  write("words", "-DUNIT=3 a.c\nb.c -o 'by file'\n");
  EXPECT_EQ(shell(cc() + "@words && './by file'").exit_code, 6);
  EXPECT_EQ(shell("echo 'int main(void) { return 9; }' | " + cc() + "-Werror -x c - -o piped && ./piped").exit_code, 9);
  const Output preprocessed = shell(cc() + "-DUNIT=77 -E b.c");
  EXPECT_NE(preprocessed.out.find("*x + 77"), std::string::npos) << preprocessed.out;
  EXPECT_EQ(shell(cc() + "-MM -DUNIT=1 b.c").out, "b.o: b.c\n");
  EXPECT_EQ(shell(cc() + "-print-file-name=libc.so").out, shell("clang-14 -print-file-name=libc.so").out);
  EXPECT_EQ(shell(cc() + "-dumpmachine").out, shell("clang-14 -dumpmachine").out);
  EXPECT_EQ(shell(cc() + "--version").out, shell("clang-14 --version").out);
  const Output verbose = shell(cc() + "-v");
  EXPECT_EQ(verbose.exit_code, 0) << verbose.err;
  EXPECT_EQ(verbose.err.find("/ld\""), std::string::npos) << "linked nothing: " << verbose.err;
  EXPECT_EQ(shell(cc() + "-shared -fPIC -DUNIT=1 b.c -o libb.so && " + cc() + "a.c ./libb.so -o shared && ./shared")
                .exit_code,
            4);
  EXPECT_EQ(shell(cc() + "-c no_such_file.c").exit_code, 1);
  write("c.cpp", "#include <string>\n#include <crashcut.h>\nint main() { return std::string(\"abc\").size(); }\n");
  EXPECT_EQ(shell(cxx() + "-std=c++20 -O2 -Wall -Werror c.cpp -o c && ./c").exit_code, 3);
}

TEST_F(InstrumentTest, RefusesOtherCompilers) {
  write("a.c", "int main(void) { return 0; }\n");
  const Output gcc = shell("CRASHCUT_CLANG=g++ " + cc() + "a.c");
  EXPECT_EQ(gcc.exit_code, 2);
  EXPECT_NE(gcc.err.find("g++ is not clang"), std::string::npos) << gcc.err;
  EXPECT_NE(gcc.err.find("no flush and no fence"), std::string::npos) << gcc.err;
  write("clang-99", "#!/bin/sh\necho 'clang version 99.0.1'\n");
  const Output newer = shell("chmod +x clang-99; CRASHCUT_CLANG=./clang-99 " + cc() + "a.c");
  EXPECT_EQ(newer.exit_code, 2);
  EXPECT_NE(newer.err.find("./clang-99 is clang 99, but crashcut's plugin is for clang 14"), std::string::npos)
      << newer.err;
  const Output missing = shell("CRASHCUT_CLANG=no-such-clang " + cc() + "a.c");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("names no-such-clang, which does not exist"), std::string::npos) << missing.err;
  const Output nothing = shell(std::string("PATH=/nowhere ") + cc() + "a.c");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_NE(nothing.err.find("There is no clang"), std::string::npos) << nothing.err;
  const Output what_for = shell(std::string(CRASHCUT_BINARY) + " cc a.c");
  EXPECT_EQ(what_for.exit_code, 2);
  EXPECT_NE(what_for.err.find("cc needs --pmem"), std::string::npos) << what_for.err;
  EXPECT_NE(shell(std::string(CRASHCUT_BINARY) + " cxx --help").out.find("--allow-asm=TEXT"), std::string::npos);
}

// The return address of each call is in the line of the access: no call is merged with another, none is a tail call.
TEST_F(InstrumentTest, CallsHaveTheLineOfTheAccess) {
  write("lines.c",
        "void f(long* p, int c) {\n"
        "  if (c)\n"
        "    *p = 1;\n"
        "  else\n"
        "    *p = 1;\n"
        "}\n"
        "int main(int c, char** v) { long x; f(&x, c); (void)v; return 0; }\n");
  for (const char* way : {"-O0", "-O2", "-O3"}) {
    ASSERT_EQ(shell(cc() + way + " lines.c -o lines").exit_code, 0);
    const Output calls = shell(
        "objdump -d --no-show-raw-insn lines | awk '/^[0-9a-f]+ <f>:/ {on=1} /^$/ {on=0} on && after {print $1; "
        "after=0} "
        "on && /call.*__crashcut_store8/ {after=1}' | tr -d : | while read a; do addr2line -e lines $(printf '%x' "
        "$((0x$a - 1))); "
        "done | sed 's/.*lines.c://; s/ .*//' | sort | tr '\\n' ' '");
    EXPECT_EQ(calls.out, "3 5 ") << way;
    EXPECT_EQ(shell("objdump -d lines | grep -c 'jmp.*__crashcut.*@plt>'").out, "0\n") << way;
  }
}

TEST_F(InstrumentTest, ProjectsOfCMake) {
  write("CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES C CXX)\nset(CMAKE_BUILD_TYPE Release)\n"
        "find_package(Threads REQUIRED)\nadd_library(l SHARED l.c)\nadd_executable(p p.cpp)\n"
        "target_link_libraries(p l Threads::Threads)\n");
  write("l.c", "#include <crashcut.h>\nint l(int* p) { *p = 4; return *p; }\n");
  write("p.cpp", "extern \"C\" int l(int*);\nint main() { int* p = new int; return l(p); }\n");
  const std::string crashcut = CRASHCUT_BINARY;
  const Output configured = shell("CC='" + crashcut + " cc --pmem' CXX='" + crashcut + " cxx --pmem' cmake -S . -B b");
  ASSERT_EQ(configured.exit_code, 0) << configured.out << configured.err;
  const Output built = shell("cmake --build b");
  ASSERT_EQ(built.exit_code, 0) << built.out << built.err;
  EXPECT_EQ(shell("b/p").exit_code, 4);
  EXPECT_NE(shell("nm -D b/libl.so").out.find("U __crashcut_store4"), std::string::npos);
  EXPECT_NE(shell("nm -D b/p").out.find("U __crashcut_module"), std::string::npos);
}

// find_package(crashcut COMPONENTS pmem), laid out as an install leaves it.
TEST_F(InstrumentTest, ThePackageOfCMake) {
  write("CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES C)\ninclude(${HOME}/cmake/crashcut-pmem.cmake)\n"
        "add_executable(p p.c)\ncrashcut_pmem(p LATE ALLOW_ASM fstpt)\nadd_executable(q q.c)\ncrashcut_pmem(q)\n");
  write("p.c",
        "#include <crashcut.h>\nlong double x;\n"
        "int main(void) { __asm__(\"fldz; fstpt %0\" : \"=m\"(x)); return (int)x; }\n");
  write("q.c", "int main(int c, char** v) { return v[0][0] == 0; }\n");
  const Output built = shell(
      std::string("mkdir -p home/cmake && ln -s ") + CRASHCUT_BINARY + " home/crashcut && cp " + CRASHCUT_SOURCE_DIR +
      "/cmake/crashcut-pmem.cmake home/cmake && CC=clang-14 cmake -S . -B b " + "-DHOME=$PWD/home && cmake --build b");
  ASSERT_EQ(built.exit_code, 0) << built.out << built.err;
  EXPECT_EQ(shell("b/p && b/q").exit_code, 0);
  EXPECT_EQ(shell("LOG_MODULE=1 " + logged("b/p")).out, "module 2 late\n");
  EXPECT_NE(shell("nm -D b/q").out.find("U __crashcut_load8"), std::string::npos);
  const Output gcc = shell("CC=gcc cmake -S . -B g -DHOME=$PWD/home");
  EXPECT_NE(gcc.exit_code, 0);
  EXPECT_NE(gcc.err.find("is not clang"), std::string::npos) << gcc.err;
}

// As crashcut-pmem.cmake uses them.
TEST_F(InstrumentTest, FlagsForACompilerOfTheUsers) {
  write("a.c", "int main(int c, char** v) { return v[0][0] == 0; }\n");
  const std::string flags = std::string("$(") + CRASHCUT_BINARY + " flags --pmem clang-14)";
  EXPECT_EQ(shell("clang-14 -Werror " + flags + " -c a.c && clang-14 -Werror a.o " + flags + " -o a && ./a").exit_code,
            0);
  EXPECT_NE(shell("nm -D a").out.find("U __crashcut_load8"), std::string::npos);
  // g++ has callbacks of its own (tests/pmem_gxx_test.cc), and no plugin.
  EXPECT_NE(shell(std::string(CRASHCUT_BINARY) + " flags --pmem g++").out.find("-fsanitize=thread"), std::string::npos);
  const Output late = shell(std::string(CRASHCUT_BINARY) + " flags --pmem --late g++");
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_NE(late.err.find("--late and --allow-asm are for clang's plugin: g++ is gcc"), std::string::npos) << late.err;
}

}  // namespace
}  // namespace crashcut
