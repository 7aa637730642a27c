// What a verdict of crashcut threads and of crashcut run is about: programs that are compiled as anybody compiles them.
//
// Each program is compiled here, without and with optimisation: what the compiler makes of an atomic variable differs.
#include <filesystem>
#include <set>

#include "threads_command.h"

namespace crashcut {
namespace {

namespace fs = std::filesystem;

class Directory {
 public:
  Directory() : path_(fs::path(::testing::TempDir()) / ("threads_verdict." + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Directory() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> part;
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), got);
  pclose(pipe);
  if (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

// `flags` come before the file; the name ends with the language's ending.
std::string compile(const Directory& directory, const std::string& name, const std::string& code,
                    const std::string& flags) {
  const std::string source = (directory / name).string(), program = source + ".out";
  std::ofstream(source) << code;
  const char* compiler = name.ends_with(".c") ? "gcc -w" : "g++ -std=c++20";
  const std::string command = std::string(compiler) + " " + flags + " -o " + program + " " + source + " -pthread -ldl";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return program;
}

json threads(const Directory& directory, const std::string& program, int expected_code,
             const std::string& options = "") {
  const std::string file = (directory / "report.json").string();
  const Ran ran = run("threads --json " + file + " " + options + " " + program);
  EXPECT_EQ(ran.code, expected_code) << program << "\n" << ran.output;
  std::ifstream in(file);
  json report = json::parse(in, nullptr, false);
  if (!report.is_discarded()) report["output"] = ran.output;
  return report;
}

bool has_sentence(const json& sentences, const std::string& part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const json& s) { return s.get<std::string>().find(part) != std::string::npos; });
}

constexpr const char* kHead =
    "#include <atomic>\n#include <cassert>\n#include <cstdlib>\n#include <memory>\n#include <mutex>\n#include "
    "<thread>\n#include <dlfcn.h>\n";

struct Plain {
  const char* name;
  bool meets;
  const char* code;
};
void PrintTo(const Plain& plain, std::ostream* out) { *out << plain.name; }

class PlainPrograms : public ::testing::TestWithParam<Plain> {};

TEST_P(PlainPrograms, AreVerifiedOnlyWhereTheirThreadsDoNotMeetUnseen) {
  const Plain& plain = GetParam();
  const Directory directory;
  for (const char* flags : {"-O0", "-O2 -no-pie -fno-pie"}) {
    const std::string program =
        compile(directory, std::string(plain.name) + ".cc", std::string(kHead) + plain.code, flags);
    const json r = threads(directory, program, plain.meets ? 3 : 0, "--step-limit 0.5");
    ASSERT_FALSE(r.is_discarded()) << flags;
    EXPECT_EQ(r["verdict"], plain.meets ? "bounded" : "verified") << flags;
    EXPECT_EQ(r["execution"]["unseen_atomics"].is_null(), !plain.meets) << flags;
    EXPECT_TRUE(has_sentence(r["not_covered"], "Plain and atomic variables")) << flags;
    const std::string output = r["output"];
    if (plain.meets) {
      EXPECT_EQ(r["bound_hit"], "unseen_atomics") << flags;
      EXPECT_NE(output.find("bounded (unseen_atomics)"), std::string::npos) << output;
      EXPECT_TRUE(has_sentence(r["not_covered"], "crashcut flags")) << flags;
    } else {
      EXPECT_NE(output.find("verified for lock and thread calls; variables are not seen (crashcut flags)"),
                std::string::npos)
          << output;
    }
  }
}

// The right one beside each that is not.
INSTANTIATE_TEST_SUITE_P(
    Verdicts, PlainPrograms,
    ::testing::Values(
        Plain{"spin_locks", true,
              "std::atomic_flag a, b; void lock(std::atomic_flag& f) { while (f.test_and_set()) {} } void "
              "unlock(std::atomic_flag& f) { f.clear(); }\n"
              "int main() { std::thread t([] { lock(a); lock(b); unlock(b); unlock(a); }), u([] { lock(b); lock(a); "
              "unlock(a); unlock(b); }); t.join(); u.join(); }"},
        Plain{"spin_locks_one_after_the_other", false,
              "std::atomic_flag a; void f() { while (a.test_and_set()) {} a.clear(); } int main() { "
              "std::thread(f).join(); std::thread(f).join(); f(); }"},
        Plain{"counter", true,
              "std::atomic<int> n; int main() { std::thread a([] { n++; }), b([] { n++; }); a.join(); b.join(); "
              "assert(n == 2); }"},
        Plain{"counter_under_a_lock", false,
              "std::atomic<int> n; std::mutex m; void f() { std::lock_guard l(m); n++; } int main() { n = 0; "
              "std::thread a(f), b(f); a.join(); b.join(); assert(n == 2); }"},
        Plain{"counter_of_main", false,
              "std::atomic<int> n; int main() { n += 2; std::thread a([] {}), b([] {}); a.join(); b.join(); n++; "
              "assert(n == 3); }"},
        Plain{"tickets", true,
              "std::atomic<int> n{1}; int got[2]; int main() { std::thread a([] { got[0] = n++; }), b([] { got[1] = "
              "n++; }); a.join(); b.join(); }"},
        Plain{"racy_counter", false,
              "int n; int main() { std::thread a([] { n++; }), b([] { n++; }); a.join(); b.join(); }"},
        Plain{"store_buffering", true,
              "std::atomic<int> x, y; int r, s; int main() { std::thread a([] { x = 1; r = y; }), b([] { y = 1; s = x; "
              "}); a.join(); b.join(); }"},
        Plain{"stores_through_pointers", true,
              "struct Q { std::atomic<int> head{0}, tail{0}; int items[4]; };\n"
              "int main() { auto q = std::make_unique<Q>(); Q& r = *q; std::thread a([&] { r.items[0] = 1; "
              "r.tail.store(1); }), b([&] { if (r.tail.load() == 1) r.head.store(1); }); a.join(); b.join(); }"},
        Plain{"fence", true,
              "int x, y; int main() { std::thread a([] { x = 1; std::atomic_thread_fence(std::memory_order_seq_cst); y "
              "= 1; }), b([] {}); a.join(); b.join(); }"},
        Plain{"waits_for_a_flag", true,
              "std::atomic<bool> f; int main() { std::thread a([] { f.store(true, std::memory_order_release); }); "
              "while (!f.load(std::memory_order_acquire)) __builtin_ia32_pause(); a.join(); }"},
        Plain{"yields_for_a_flag", true,
              "std::atomic<bool> f; int main() { std::thread a([] { f.store(true, std::memory_order_release); }); "
              "while (!f.load(std::memory_order_acquire)) std::this_thread::yield(); a.join(); }"},
        Plain{"tries_and_pauses", false,
              "std::mutex m; int n; void f() { while (!m.try_lock()) __builtin_ia32_pause(); ++n; m.unlock(); } int "
              "main() { std::thread a(f), b(f); a.join(); b.join(); assert(n == 2); }"},
        Plain{"references_of_a_thread", false,
              "std::mutex m; int n; void f() { auto p = std::make_shared<int>(1); auto q = p; std::lock_guard l(m); n "
              "+= *q; } int main() { std::thread a(f), b(f); a.join(); b.join(); }"},
        Plain{"references_that_main_outlives", false,
              "int main() { auto p = std::make_shared<int>(1); std::thread a([q = p] { auto r = q; }), b([q = p] { "
              "auto r = q; }); a.join(); b.join(); assert(*p == 1); }"},
        Plain{"last_reference", true,
              "int main() { auto p = std::make_shared<int>(1); std::thread a([q = p] { auto r = q; }), b([q = p] { "
              "auto r = q; }); p.reset(); a.join(); b.join(); }"},
        Plain{"once", false,
              "std::once_flag o; int n; void f() { std::call_once(o, [] { ++n; }); } int main() { std::thread a(f), "
              "b(f); a.join(); b.join(); assert(n == 1); }"},
        Plain{"static_variable", false,
              "struct S { int a; S() { a = 6; } ~S() { a = 0; } }; int f() { static S s; return s.a; } int main() { "
              "std::thread a(f), b(f); a.join(); b.join(); }"},
        Plain{"streams", false,
              "#include <sstream>\nstd::mutex m; std::string all; void f() { std::ostringstream o; o << 12 << std::hex "
              "<< 13.5 << std::endl; std::lock_guard l(m); all += o.str(); }\n"
              "int main() { std::thread a(f), b(f); a.join(); b.join(); assert(all.size() == 14); }"},
        Plain{"promise", true,
              "#include <future>\nint main() { std::promise<int> p; auto f = p.get_future(); std::thread a([&] { "
              "p.set_value(7); }); assert(f.get() == 7); a.join(); }"},
        Plain{"many_before_there_are_threads", false,
              "std::atomic<long> n; int main() { for (int i = 0; i < 100000; ++i) n++; std::thread a([] {}); a.join(); "
              "assert(n == 100000); }"}),
    [](const auto& info) { return info.param.name; });

// What is loaded while the program runs is decoded then.
TEST(Verdicts, CodeThatIsLoadedLater) {
  const Directory directory;
  const std::string library = (directory / "counts.so").string();
  for (const bool meets : {true, false}) {
    const std::string source = (directory / "counts.c").string();
    std::ofstream(source) << "static int n; int count(void) { return " << (meets ? "__sync_fetch_and_add(&n, 1)" : "n")
                          << "; }\n";
    ASSERT_EQ(std::system(("gcc -O2 -shared -fPIC -o " + library + " " + source).c_str()), 0);
    const std::string program =
        compile(directory, "loads.cc",
                std::string(kHead) + "int (*count)(); int main() { void* l = dlopen(\"" + library +
                    "\", RTLD_NOW); assert(l); count = reinterpret_cast<int (*)()>(dlsym(l, \"count\")); std::thread "
                    "a([] { count(); }), b([] { count(); }); a.join(); b.join(); }",
                "-O2");
    const json r = threads(directory, program, meets ? 3 : 0);
    EXPECT_EQ(r["verdict"], meets ? "bounded" : "verified");
    EXPECT_EQ(r["execution"]["unseen_atomics"], meets ? json("count (counts.so)") : json(nullptr));
  }
}

// An instrumented program whose library is not.
TEST(Verdicts, LibraryThatIsNotInstrumented) {
  const Directory directory;
  const std::string flags = output_of(std::string(CRASHCUT_COMMAND) + " flags g++");
  for (const bool meets : {true, false}) {
    const std::string source = (directory / "counts.c").string(), library = (directory / "libcounts.so").string();
    std::ofstream(source) << "static int n; int count(void) { return " << (meets ? "__sync_fetch_and_add(&n, 1)" : "0")
                          << "; }\n";
    ASSERT_EQ(std::system(("gcc -O2 -shared -fPIC -o " + library + " " + source).c_str()), 0);
    const std::string program =
        compile(directory, "calls.cc",
                std::string(kHead) +
                    "extern \"C\" int count(); std::atomic<int> seen; int main() { std::thread a([] { count(); seen++; "
                    "}), b([] { count(); seen++; }); a.join(); b.join(); }",
                flags + " -O1 " + library + " -Wl,-rpath," + fs::path(library).parent_path().string());
    const json r = threads(directory, program, meets ? 3 : 0);
    EXPECT_TRUE(r["execution"]["instrumented"].get<bool>());
    EXPECT_EQ(r["verdict"], meets ? "bounded" : "verified");
    const std::string output = r["output"];
    EXPECT_EQ(output.find("verified for lock and thread calls and instrumented variables") == std::string::npos, meets)
        << output;
  }
}

// A signal that the program handles, and one that it dies by, in instructions that are watched.
TEST(Verdicts, WatchedInstructionsFailWhereTheyStand) {
  const Directory directory;
  const std::string null =
      compile(directory, "null.cc",
              std::string(kHead) + "std::atomic<int>* p; int main() { std::thread([] { ++*p; }).join(); }", "-O1");
  const json r = threads(directory, null, 1);
  EXPECT_EQ(r["violation"]["kind"], "signal");
  EXPECT_EQ(r["violation"]["steps"].back()["function"], "std::thread");
  const std::string own =
      compile(directory, "own.c",
              "#include <assert.h>\n#include <pthread.h>\n#include <signal.h>\nint n; volatile int traps; void "
              "on_trap(int s) { traps++; } void* f(void* x) { __sync_fetch_and_add(&n, 1); return x; }\n"
              "int main(void) { signal(SIGTRAP, on_trap); pthread_t t; pthread_create(&t, 0, f, 0); asm "
              "volatile(\"int3\"); raise(SIGTRAP); pthread_join(t, 0); assert(traps == 2 && n == 1); return 0; }",
              "-O1");
  threads(directory, own, 0);
  const std::string dies = compile(directory, "dies.c", "int main(void) { asm volatile(\"int3\"); return 0; }", "-O1");
  EXPECT_EQ(threads(directory, dies, 1)["violation"]["kind"], "signal");
}

TEST(Verdicts, WakeUpsWithoutASignalAreNamedWhereTheyAreNotTried) {
  const Directory directory;
  const std::string waits =
      compile(directory, "waits.cc",
              std::string(kHead) +
                  "#include <condition_variable>\nstd::mutex m; std::condition_variable c; bool ready; int main() { "
                  "std::thread t([] { std::lock_guard l(m); ready = true; c.notify_one(); });\n"
                  "{ std::unique_lock l(m); if (!ready) c.wait(l); assert(ready); } t.join(); }",
              "-O1");
  EXPECT_TRUE(has_sentence(threads(directory, waits, 0, "--spurious 0")["not_covered"], "--spurious 1"));
  EXPECT_EQ(threads(directory, waits, 1, "--spurious 1")["violation"]["kind"], "assertion");
  const std::string locks = compile(
      directory, "locks.cc",
      std::string(kHead) + "std::mutex m; int main() { std::thread t([] { std::lock_guard l(m); }); t.join(); }",
      "-O1");
  EXPECT_FALSE(has_sentence(threads(directory, locks, 0, "--spurious 0")["not_covered"], "--spurious"));
}

constexpr const char* kLeavesThreads =
    "#include <assert.h>\n#include <pthread.h>\npthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; int n;\n"
    "void* f(void* x) { pthread_mutex_lock(&m); ++n; pthread_mutex_unlock(&m); pthread_mutex_lock(&m); assert(n < "
    "LIMIT); pthread_mutex_unlock(&m); return x; }\n"
    "int main(void) { pthread_t t[2]; for (int i = 0; i < 2; ++i) pthread_create(&t[i], 0, f, 0); return 0; }\n";

// The assertion behind the end of the process is found.
TEST(Verdicts, ThreadsThatAreLeftAreANote) {
  const Directory directory;
  const std::string right = compile(directory, "right.c", kLeavesThreads, "-DLIMIT=3"),
                    wrong = compile(directory, "wrong.c", kLeavesThreads, "-DLIMIT=2");
  const json r = threads(directory, right, 0);
  ASSERT_EQ(r["notes"].size(), 1u);
  EXPECT_NE(r["notes"][0].get<std::string>().find("up to 2 threads were still running"), std::string::npos)
      << r["notes"];
  const std::string output = r["output"];
  EXPECT_EQ(output.find("still running"), output.rfind("still running")) << output;
  EXPECT_EQ(threads(directory, wrong, 1)["violation"]["kind"], "assertion");
  const json strict = threads(directory, right, 1, "--strict-exit");
  EXPECT_EQ(strict["violation"]["kind"], "threads left");
  EXPECT_TRUE(strict["violation"]["replays"].get<bool>());
  EXPECT_EQ(run_replay(strict).code, 1);
  const std::string joins =
      compile(directory, "joins.cc", std::string(kHead) + "int main() { std::thread t([] {}); t.join(); }", "-O1");
  EXPECT_TRUE(threads(directory, joins, 0)["notes"].empty());
}

// A thread that lives until a static object's destructor joins it.
constexpr const char* kStaticPool =
    "#include <condition_variable>\nstd::mutex m; std::condition_variable c; bool stop; int done;\n"
    "struct Pool { std::thread t{[] { WAIT done = 1; }}; ~Pool() { { std::lock_guard l(m); stop = true; } "
    "c.notify_all(); t.join(); assert(done == 1); } };\n"
    "Pool& pool() { static Pool p; return p; } int main() { pool(); }";

// What destructors and functions of atexit() do are operations, and other threads run meanwhile.
TEST(Verdicts, TheEndOfAProgramIsPartOfIt) {
  const Directory directory;
  const std::string code = std::string(kHead) + kStaticPool;
  const std::string right =
      compile(directory, "right.cc", code, "'-DWAIT=std::unique_lock l(m); while (!stop) c.wait(l);'");
  const json joined = threads(directory, right, 0);
  EXPECT_EQ(joined["verdict"], "verified");
  EXPECT_TRUE(joined["notes"].empty()) << joined["notes"];
  const std::string wrong = compile(directory, "wrong.cc", code, "'-DWAIT=std::unique_lock l(m); c.wait(l);'");
  EXPECT_EQ(threads(directory, wrong, 1)["violation"]["kind"], "deadlock");

  const std::string head =
      "#include <assert.h>\n#include <pthread.h>\n#include <stdlib.h>\npthread_mutex_t m = "
      "PTHREAD_MUTEX_INITIALIZER; int n;\n"
      "void* f(void* x) { for (int i = 0; i < 2; ++i) { pthread_mutex_lock(&m); ++n; pthread_mutex_unlock(&m); } "
      "return "
      "x; }\n"
      "void bye(void) { pthread_mutex_lock(&m); int seen = n; pthread_mutex_unlock(&m); assert(seen <= MOST); }\n";
  const std::string body = "int main(void) { atexit(bye); pthread_t t; pthread_create(&t, 0, f, 0); LAST }";
  const auto ends_with = [&](const std::string& last, int most, int expected_code) {
    return threads(directory,
                   compile(directory, "handler.c", head + body, "'-DLAST=" + last + "' -DMOST=" + std::to_string(most)),
                   expected_code);
  };
  EXPECT_EQ(ends_with("return 0;", 2, 0)["verdict"], "verified");
  const json found = ends_with("return 0;", 1, 1);
  EXPECT_EQ(found["violation"]["kind"], "assertion");
  EXPECT_NE(found["output"].get<std::string>().find("bye: assertion `seen <= MOST' failed"), std::string::npos)
      << found["output"];
  EXPECT_EQ(ends_with("pthread_mutex_lock(&m); exit(0);", 2, 1)["violation"]["kind"], "deadlock");
  // _exit() runs none of them.
  EXPECT_EQ(ends_with("pthread_mutex_lock(&m); _exit(0);", 2, 0)["verdict"], "verified");
  // The code is that of exit(), unless a handler has another.
  EXPECT_EQ(ends_with("exit(3);", 2, 1)["violation"]["code"], 3);
}

// Store buffering, and what it prints when it has seen the two loads.
constexpr const char* kStoreBuffering =
    "#include <pthread.h>\n#include <stdatomic.h>\n#include <stdio.h>\n#include <unistd.h>\n"
    "atomic_int x, y; int a, b; volatile long nowhere = 8;\n"
    "void* f(void* p) { atomic_store_explicit(&x, 1, memory_order_release); a = y; return p; }\n"
    "void* g(void* p) { atomic_store_explicit(&y, 1, memory_order_release); b = x; return p; }\n"
    "int main(int argc, char** argv) {\n"
    "  if (argc > 1) { puts(\"no work\"); fputs(\"usage: sb\\n\", stderr); (void)!write(1, (void*)nowhere, 9); return "
    "2; }\n"
    "  pthread_t t, u; pthread_create(&t, 0, f, 0); pthread_create(&u, 0, g, 0);\n"
    "  pthread_join(t, 0); pthread_join(u, 0); printf(\"%d%d\\n\", a, b); return 0; }\n";

// --outcomes lists what executions printed; a program that gives up tells why.
TEST(Verdicts, TellWhatTheProgramPrinted) {
  const Directory directory;
  const std::string source = (directory / "sb.c").string();
  std::ofstream(source) << kStoreBuffering;
  const auto outcomes = [&](const std::string& options) {
    std::set<std::string> texts;
    const json found = threads(directory, source, 0, options);
    for (const json& outcome : found["outcomes"]) texts.insert(outcome["output"]);
    return texts;
  };
  EXPECT_EQ(outcomes("--outcomes"), (std::set<std::string>{"01", "10", "11"}));
  EXPECT_EQ(outcomes("--outcomes --memory tso"), (std::set<std::string>{"00", "01", "10", "11"}));
  EXPECT_TRUE(threads(directory, source, 0)["outcomes"].is_null());

  const json gives_up = threads(directory, source + " word", 1);
  EXPECT_EQ(gives_up["violation"]["stdout"], "no work\n");
  EXPECT_EQ(gives_up["violation"]["stderr"], "usage: sb\n");
  const std::string output = gives_up["output"];
  EXPECT_NE(output.find("Stderr of the program:\n\n    usage: sb\n"), std::string::npos) << output;
  EXPECT_NE(output.find("main         ends the process\n"), std::string::npos) << output;
  const std::string loud = run_replay(gives_up, "--print ").output;  // the program itself prints it
  EXPECT_EQ(loud.find("usage: sb"), loud.rfind("usage: sb")) << loud;
}

// Goes on where it was stopped, and still knows.
TEST(Verdicts, AreKeptWhereASearchIsResumed) {
  const Directory directory;
  const std::string program =
      compile(directory, "meets.cc",
              std::string(kHead) +
                  "std::atomic<int> n; std::mutex m; void f() { n++; m.lock(); m.unlock(); n++; } int main() { "
                  "std::thread a(f), b(f), c(f); a.join(); b.join(); c.join(); }",
              "-O2");
  const json first = threads(directory, program, 3, "--max-executions 1");
  EXPECT_EQ(first["bound_hit"], "max_executions");
  const std::string resume = first["resume"], file = (directory / "resumed.json").string();
  const Ran ran = run(resume.substr(resume.find(" threads ") + 1) + " --json " + file);
  EXPECT_EQ(ran.code, 3) << ran.output;
  std::ifstream in(file);
  EXPECT_FALSE(json::parse(in)["execution"]["unseen_atomics"].is_null());
}

constexpr const char* kVoidMain =
    "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\npthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; int "
    "n;\n"
    "void* f(void* x) { pthread_mutex_lock(&m); ++n; pthread_mutex_unlock(&m); return x; }\n"
    "RESULT main() { pthread_t t[2]; for (int i = 0; i < 2; ++i) pthread_create(&t[i], 0, f, 0); for (int i = 0; i < "
    "2; ++i) pthread_join(t[i], 0); if (n == 3) exit(4); END }\n";

TEST(Verdicts, TheResultOfAMainThatHasNoneIsNotJudged) {
  const Directory directory;
  const std::string instrumented = output_of(std::string(CRASHCUT_COMMAND) + " flags gcc");
  for (const std::string& flags : {std::string("-O0"), std::string("-O2"), std::string("-g -O2"), std::string("-s -O2"),
                                   instrumented + " -O0", instrumented + " -O2"}) {
    for (const char* end : {"", "'-DEND=printf(\"%d%d\\n\",n,n);'", "'-DEND=free(malloc(7));'"}) {
      const std::string with = flags + " " + (*end == 0 ? "-DEND=" : end);
      const json none = threads(directory, compile(directory, "none.c", kVoidMain, with + " -DRESULT=void"), 0);
      EXPECT_EQ(none["verdict"], "verified") << with;
    }
    // One that has a result, and exit(), are judged.
    const json some =
        threads(directory, compile(directory, "some.c", kVoidMain, flags + " -DRESULT=int '-DEND=return n;'"), 1);
    EXPECT_EQ(some["violation"]["kind"], "exit") << flags;
    EXPECT_EQ(some["violation"]["code"], 2) << flags;
    const json exits =
        threads(directory, compile(directory, "exits.c", kVoidMain, flags + " -DRESULT=void '-DEND=exit(5);'"), 1);
    EXPECT_EQ(exits["violation"]["code"], 5) << flags;
  }
  const json said =
      threads(directory, compile(directory, "said.c", kVoidMain, "-O2 -DRESULT=void '-DEND=printf(\"some\\n\");'"), 0);
  EXPECT_TRUE(has_sentence(said["not_covered"], "exit code of main()"));
}

// Its exit code differs from execution to execution, and nothing tells that main() means none.
TEST(Verdicts, AnExitCodeThatIsNotRepeatableIsNoDivergence) {
  const Directory directory;
  const std::string program =
      compile(directory, "chance.c",
              "#include <pthread.h>\n#include <time.h>\n#include <sys/syscall.h>\n#include <unistd.h>\npthread_mutex_t "
              "m = PTHREAD_MUTEX_INITIALIZER; int n;\n"
              "void* f(void* x) { pthread_mutex_lock(&m); ++n; pthread_mutex_unlock(&m); return x; }\n"
              "int main(void) { pthread_t t[2]; for (int i = 0; i < 2; ++i) pthread_create(&t[i], 0, f, 0); for (int i "
              "= 0; i < 2; ++i) pthread_join(t[i], 0);\n"
              "unsigned chance; asm volatile(\"rdrand %0\" : \"=r\"(chance)); return chance % 251 + 1; }",
              "-O1");
  const json r = threads(directory, program, 0);
  EXPECT_EQ(r["verdict"], "verified");
  EXPECT_TRUE(has_sentence(r["not_covered"], "exit code of main()")) << r["not_covered"];
}

TEST(Verdicts, RunSaysThatItIsAboutOneInterleaving) {
  const Directory directory;
  const std::string include = std::string("-I") + CRASHCUT_INCLUDE;
  const std::string body = "#include <crashcut.h>\n#include <thread>\nvoid crashcut_recover() {}\nint main() { ";
  for (const bool has_threads : {true, false}) {
    const std::string program =
        compile(directory, "runs.cc",
                body + (has_threads ? "std::thread a([] {}), b([] {}); a.join(); b.join(); }" : "}"), include);
    const std::string file = (directory / "run.json").string();
    const Ran ran = run("run --json " + file + " " + program);
    EXPECT_EQ(ran.code, 0) << ran.output;
    std::ifstream in(file);
    const json r = json::parse(in, nullptr, false);
    EXPECT_EQ(r["execution"]["threads"], has_threads ? 3 : 1);
    EXPECT_EQ(r["not_covered"].size(), has_threads ? 1u : 0u);
    EXPECT_EQ(ran.output.find("verified for one interleaving of 3 threads (crashcut threads tries the others)") !=
                  std::string::npos,
              has_threads)
        << ran.output;
  }
}

}  // namespace
}  // namespace crashcut
