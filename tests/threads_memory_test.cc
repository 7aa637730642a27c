// crashcut threads on instrumented programs (tests/threads/shared.cpp, shared_c.c), by g++ and by clang: counts, data
// races with both stacks, loops; and searches that are stopped and go on.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "tests/seeds.h"
#include "tests/threads_command.h"

namespace crashcut {
namespace {

bool has_program(const std::string& name) { return std::filesystem::exists(program(name)); }

class Compilers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_program(name())) GTEST_SKIP() << GetParam() << " was not there when the tests were built";
  }
  std::string name() const { return std::string("shared-") + GetParam(); }
  std::string of(const std::string& words) const { return name() + " " + words; }
};

TEST_P(Compilers, KnownCounts) {
  EXPECT_EQ(executions(of("writers 3")), 6u);
  EXPECT_EQ(executions(of("writers 4")), 24u);
  EXPECT_EQ(executions(of("readers 4")), 1u);
  EXPECT_EQ(executions(of("adders 3")), 6u);
  EXPECT_EQ(executions(of("locked 2")), 2u);
  EXPECT_EQ(executions(of("locked 3")), 6u);
  EXPECT_EQ(executions(of("message")), 2u);
  EXPECT_EQ(executions(of("fences")), 2u);
  EXPECT_EQ(executions(of("before 4")), 1u);
  EXPECT_EQ(executions(of("neighbours")), 1u);
  EXPECT_EQ(executions(of("counted")), 2u);
  EXPECT_EQ(executions(of("deleted")), 2u);
  EXPECT_EQ(executions(of("written-after-wait")), 2u);
}

// Locks of atomic variables: a loop that waits is neither endless nor a livelock.
TEST_P(Compilers, LoopsThatWait) {
  for (const char* words : {"peterson", "dekker", "spinlock 2", "spinlock 3", "spinlock-yields 2",
                            "spinlock-compares 2", "waits-for-flag", "tries", "stack 2", "stack 3"}) {
    EXPECT_LE(executions(of(words)), 200u) << words;
  }
}

// Each library thing is verified, by its own atomic variables, and not by trying every order of operations.
TEST_P(Compilers, WhatLibstdcxxBuildsOfAtomics) {
  for (const char* words : {"latch 2", "barrier 2", "wait", "static 2", "static 3", "checked-rightly 2"}) {
    const json r = report("--all", of(words), 0);
    EXPECT_EQ(r["verdict"], "verified") << words;
    EXPECT_EQ(r["execution"]["opaque"], false) << words;
    EXPECT_EQ(r["execution"]["instrumented"], true) << words;
    EXPECT_LE(r["counts"]["executions"].get<std::uint64_t>(), 200u) << words;
  }
}

TEST_P(Compilers, LocksOfLibcsOwnAreNotSeen) {
  const json r = report("--all", of("stream"), 0);
  EXPECT_EQ(r["verdict"], "verified");
  EXPECT_EQ(r["execution"]["opaque"], true);
}

TEST_P(Compilers, ALoopThatNobodyEndsIsALivelock) {
  const json r = report("", of("waits-for-nothing"), 1);
  EXPECT_EQ(r["violation"]["kind"], "livelock") << r.dump(1);
}

TEST_P(Compilers, DataRaces) {
  for (const char* words : {"racing 2", "message-relaxed", "message-half", "fences-half", "checked-wrongly 2",
                            "peterson-wrong", "waits-for-plain", "copy"}) {
    const json r = report("", of(words), 1);
    EXPECT_EQ(r["violation"]["kind"], "data race") << words;
    EXPECT_TRUE(r["violation"]["replays"].get<bool>()) << words;
    const Ran replay = run_replay(r);
    EXPECT_EQ(replay.code, 1) << replay.output;
    EXPECT_NE(replay.output.find("data race between"), std::string::npos) << replay.output;
  }
}

// Freeing is a write to all that is freed, and what comes after it by any order is a mistake.
TEST_P(Compilers, WhatIsFreedIsNotUsed) {
  for (const char* words : {"counted-relaxed", "deleted-nodes"}) {
    const json r = report("", of(words), 1);
    EXPECT_EQ(r["violation"]["kind"], "data race") << words;
    EXPECT_TRUE(r["violation"]["race"]["accesses"][0]["frees"].get<bool>() ||
                r["violation"]["race"]["accesses"][1]["frees"].get<bool>())
        << r["violation"]["race"].dump(1);
  }
  EXPECT_EQ(report("--all", of("deleted-nodes"), 1)["violation"]["kind"], "data race");
  const json r = report("", of("deleted-dangling"), 1);
  EXPECT_EQ(r["violation"]["kind"], "misuse");
  EXPECT_NE(r["violation"]["text"].get<std::string>().find("uses memory that was freed"), std::string::npos)
      << r["violation"]["text"];
  EXPECT_TRUE(r["violation"]["replays"].get<bool>());
}

std::uint64_t line_of(const std::string& text) {
  std::ifstream in(std::string(CRASHCUT_THREAD_SOURCES) + "/shared.cpp");
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find(text) != line.npos) return number;
  }
  return 0;
}

TEST_P(Compilers, ARaceHasBothStacks) {
  const json r = report("", of("racing 2"), 1);
  const json& race = r["violation"]["race"];
  EXPECT_NE(race["variable"].get<std::string>().find("counter"), std::string::npos) << race.dump(1);
  ASSERT_EQ(race["accesses"].size(), 2u);
  EXPECT_NE(race["accesses"][0]["thread"], race["accesses"][1]["thread"]);
  const std::uint64_t writes = line_of("the line that tests look for");
  bool any_write = false;
  for (const json& access : race["accesses"]) {
    ASSERT_GE(access["stack"].size(), 2u) << race.dump(1);
    EXPECT_NE(access["stack"][0]["function"].get<std::string>().find("increment"), std::string::npos) << race.dump(1);
    EXPECT_EQ(access["stack"][0]["file"], "shared.cpp");
    EXPECT_EQ(access["stack"][0]["line"], access["writes"].get<bool>() ? writes : writes - 1) << race.dump(1);
    EXPECT_NE(access["stack"][1]["function"].get<std::string>().find("step"), std::string::npos) << race.dump(1);
    any_write = any_write || access["writes"].get<bool>();
  }
  EXPECT_TRUE(any_write);
  const Ran shown = run("threads " + program(of("racing 2")));
  EXPECT_NE(shown.output.find("increment() at shared.cpp:" + std::to_string(writes)), std::string::npos)
      << shown.output;
}

// Who goes on after a race sees what it does: the orders of the racing accesses are tried.
TEST_P(Compilers, WhatARaceLeadsTo) {
  const json r = report("--all", of("racing 2"), 1);
  EXPECT_EQ(r["counts"]["executions"], 4u);
  EXPECT_EQ(r["counts"]["violations"], 4u);
  const json lost = report("--all --reduction none", of("racing 2"), 1);
  EXPECT_EQ(lost["counts"]["violations"], lost["counts"]["executions"]);
}

TEST_P(Compilers, ReductionsAgree) {
  for (const char* words : {"spinlock 2", "spinlock-compares 2", "waits-for-flag", "tries", "wait", "message",
                            "stack 2", "static 2", "checked-rightly 2"}) {
    for (const char* reduction : {"none", "source", "optimal"}) {
      EXPECT_EQ(report(std::string("--all --reduction ") + reduction, of(words), 0)["verdict"], "verified")
          << words << " " << reduction;
    }
  }
  for (const char* words : {"message-relaxed", "waits-for-nothing", "copy"}) {
    const json none = report("--reduction none", of(words), 1), optimal = report("", of(words), 1);
    EXPECT_EQ(none["violation"]["kind"], optimal["violation"]["kind"]) << words;
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, Compilers, ::testing::Values("g++", "clang++"),
                         [](const auto& info) { return info.param == std::string("g++") ? "gcc" : "clang"; });

TEST(Memory, InC) {
  for (const char* compiler : {"gcc", "clang"}) {
    const std::string name = std::string("shared_c-") + compiler;
    if (!has_program(name)) continue;
    EXPECT_EQ(executions(name + " message"), 2u) << compiler;
    EXPECT_EQ(executions(name + " adders"), 2u) << compiler;
    EXPECT_EQ(report("", name + " message-relaxed", 1)["violation"]["kind"], "data race") << compiler;
    EXPECT_EQ(report("", name + " copies", 1)["violation"]["kind"], "data race") << compiler;
  }
}

// A script for tests/threads/memory_script.c.
std::string made_up_thread(std::mt19937_64& random, std::size_t accesses) {
  const auto below = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random); };
  const auto access = [&] { return std::string(1, "rrwwwlLsSxf"[below(11)]) + "01"[below(2)]; };
  std::string script;
  for (std::size_t i = 0; i < accesses; ++i) {
    const char which = "01"[below(2)];
    switch (below(5)) {
      case 0:
        script += std::string("(") + which + access() + ")" + which;
        break;
      case 1:
        script += std::string("?") + which + access();
        break;
      default:
        script += access();
    }
  }
  return " '" + script + "'";
}

// A race is found where any schedule has one, and only there: swapping steps that commute loses none.
TEST(Memory, MadeUpProgramsHaveTheRacesOfEverySchedule) {
  std::uint64_t with_race = 0, without = 0;
  tests::for_each_seed(80, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string words = program("memory_script-gcc");
    const std::size_t threads = 2 + random() % 2;
    for (std::size_t i = 0; i < threads; ++i) words += made_up_thread(random, threads == 2 ? 3 : 2);
    const Ran every = run("threads --jobs 1 --reduction none --max-executions 4000 " + words);
    if (every.code == 3) return true;  // too many to compare with
    EXPECT_TRUE(every.code == 0 || every.output.find("violation: data race") != std::string::npos) << every.output;
    ++(every.code == 0 ? without : with_race);
    for (const char* how : {"--jobs 1 ", "--jobs 1 --reduction source "}) {
      const Ran reduced = run(std::string("threads ") + how + words);
      EXPECT_EQ(reduced.code, every.code) << "seed " << seed << ": " << how << words << "\n" << reduced.output;
    }
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(std::getenv("CRASHCUT_SEED") != nullptr || (with_race > 0 && without > 0))
      << with_race << " and " << without;
}

// It comes while the schedule that leads to another order is still being followed.
TEST(Memory, ARaceOnTheWayToAnotherOrder) {
  for (const char* goes_on : {"", "--all "}) {
    EXPECT_EQ(report(goes_on, "memory_script-gcc 'w0(1x0)1' '?0w0w0' 'f0L0'", 1)["violation"]["kind"], "data race")
        << goes_on;
  }
}

TEST(Memory, AnInstrumentedProgramRunsByItself) {
  EXPECT_EQ(std::system((program("shared-g++") + " locked 4").c_str()), 0);
  EXPECT_EQ(std::system((program("shared_c-gcc") + " adders").c_str()), 0);
}

TEST(Memory, SourceIsInstrumented) {
  const Ran ran = run(std::string("threads ") + CRASHCUT_THREAD_SOURCES + "/shared_c.c message-relaxed");
  EXPECT_EQ(ran.code, 1) << ran.output;
  EXPECT_NE(ran.output.find("data race"), std::string::npos) << ran.output;
  const Ran plain = run("threads " + program("philosophers 2 arbiter"));
  EXPECT_NE(plain.output.find("variables are not seen (crashcut flags)"), std::string::npos) << plain.output;
  const Ran good = run("threads " + program("shared-g++ message"));
  EXPECT_NE(good.output.find("sequentially consistent"), std::string::npos) << good.output;
}

// Ordinary programs that are right, or are wrong in one way.
struct Source {
  const char* name;
  int code;
  const char* says;
  const char* text;
};
class Sources : public ::testing::TestWithParam<Source> {};

TEST_P(Sources, AreJudgedRightly) {
  const std::string path = "/tmp/threads_memory_test." + std::to_string(getpid()) + ".cc";
  std::ofstream(path) << "#include <bits/stdc++.h>\n#include <fcntl.h>\n#include <pthread.h>\n#include "
                         "<semaphore.h>\n#include <unistd.h>\n"
                      << GetParam().text;
  const Ran ran = run(std::string("threads --time ") + (GetParam().code == 3 ? "2 " : "60 ") + path);
  std::remove(path.c_str());
  EXPECT_EQ(ran.code, GetParam().code) << ran.output;
  EXPECT_NE(ran.output.find(GetParam().says), std::string::npos) << ran.output;
}

// More steps than an execution can hold are a bound like others.
TEST(Memory, AnExecutionThatIsTooLongIsBounded) {
  const std::string path = "/tmp/threads_memory_test." + std::to_string(getpid()) + ".c";
  std::ofstream(path)
      << "#include <pthread.h>\nint main(void) { static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n"
         "for (int i = 0; i < 60000; ++i) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); } return 0; }\n";
  const Ran ran = run("threads --reduction none " + path);
  std::remove(path.c_str());
  EXPECT_EQ(ran.code, 3) << ran.output;
  EXPECT_NE(ran.output.find("bounded (steps)"), std::string::npos) << ran.output;
}

// Threads without an end, three critical sections each: 6! / 3!^2 orders of them. They count, so no round is like
// another.
TEST(Memory, EndlessThreadsAreBoundedByDepth) {
  const std::string path = "/tmp/threads_memory_test." + std::to_string(getpid()) + ".c";
  std::ofstream(path)
      << "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\nstatic int n;\n"
         "static void* run(void* x) { for (;;) { pthread_mutex_lock(&m); ++n; pthread_mutex_unlock(&m); } return x; }\n"
         "int main(void) { pthread_t a; pthread_create(&a, 0, run, 0); run(0); }\n";
  for (const char* reduction : {"source", "optimal"}) {
    const Ran ran = run(std::string("threads --steps 7 --time 60 --reduction ") + reduction + " " + path);
    EXPECT_EQ(ran.code, 3) << ran.output;
    EXPECT_NE(ran.output.find("bounded (steps): 20 executions, none failed"), std::string::npos) << ran.output;
  }
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Memory, Sources,
    ::testing::Values(
        // The writer comes before both or after both: neither alone keeps it waiting.
        Source{"readers_who_meet", 1, "assertion `one + two == 0' failed",
               "std::shared_mutex l; pthread_barrier_t b; int config, one, two; void look(int* seen) { "
               "std::shared_lock k(l); pthread_barrier_wait(&b); *seen = config; }\n"
               "int main() { pthread_barrier_init(&b, nullptr, 2); std::thread r(look, &one), s(look, &two), w([] { "
               "std::unique_lock k(l); config = 1; }); r.join(); s.join(); w.join(); assert(one + two == 0); }"},
        Source{
            "cancelled_too_late", 1, "assertion `!joined' failed",
            "pthread_t a, b; int joined; int main() { pthread_create(&a, nullptr, [](void* x) { return x; }, "
            "nullptr);\n"
            "pthread_create(&b, nullptr, [](void* x) { pthread_join(a, nullptr); joined = 1; return x; }, nullptr);\n"
            "pthread_cancel(b); pthread_join(b, nullptr); assert(!joined); pthread_join(a, nullptr); }"},
        Source{"references", 0, "verified",
               "int main() { auto p = std::make_shared<int>(1); std::thread a([q = p] { auto r = q; }), b([q = p] { "
               "auto r = q; }); p.reset(); a.join(); b.join(); }"},
        // One of two is there for each, though taking it may fail while the other takes its own.
        Source{"semaphore_of_two", 0, "verified",
               "int main() { std::counting_semaphore<3> s(2); auto f = [&] { s.acquire(); s.release(); }; std::thread "
               "a(f), b(f); a.join(); b.join(); }"},
        // libstdc++ 12's own: who sees 1, then 0, sleeps until it is no longer 1, which it is again
        // (docs/scheduler.md).
        Source{"semaphore_of_one", 1, "deadlock",
               "int main() { std::counting_semaphore<3> s(1); auto f = [&] { s.acquire(); s.release(); }; std::thread "
               "a(f), b(f); a.join(); b.join(); }"},
        Source{"stop_callback", 0, "verified",
               "int main() { std::stop_source s; std::thread t([&] { std::stop_callback c(s.get_token(), [] {}); }); "
               "s.request_stop(); t.join(); }"},
        Source{"once_again", 0, "verified",
               "int n; void f() { std::once_flag o; std::call_once(o, [] { ++n; }); } int main() { f(); f(); assert(n "
               "== 2); }"},
        Source{"mutex_again", 0, "verified",
               "__attribute__((noinline)) void f() { std::mutex m; m.lock(); m.unlock(); }\n"
               "__attribute__((noinline)) void g() { std::recursive_mutex m; m.lock(); m.lock(); m.unlock(); "
               "m.unlock(); }\n"
               "int main() { f(); g(); f(); }"},
        Source{"wait_for", 0, "verified",
               "int main() { std::mutex m; std::condition_variable c; std::unique_lock l(m); c.wait_for(l, "
               "std::chrono::milliseconds(5), [] { return false; }); }"},
        Source{"clock_after_timeout", 0, "verified",
               "int main() { pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; pthread_cond_t c = "
               "PTHREAD_COND_INITIALIZER; timespec t, u; clock_gettime(CLOCK_REALTIME, &t); t.tv_sec += 3;\n"
               "pthread_mutex_lock(&m); assert(pthread_cond_timedwait(&c, &m, &t) == ETIMEDOUT); "
               "clock_gettime(CLOCK_REALTIME, &u); assert(u.tv_sec >= t.tv_sec); pthread_mutex_unlock(&m); }"},
        Source{"many_timeouts", 0, "verified",
               "int main() { sem_t s; sem_init(&s, 0, 0); timespec t{0, 0}; for (int i = 0; i < 3; ++i) "
               "assert(sem_timedwait(&s, &t) != 0); }"},
        Source{"timeouts_beside_a_race", 3, "bounded (timeouts)",
               "std::mutex m; sem_t s; int main() { sem_init(&s, 0, 0); auto f = [] { m.lock(); m.unlock(); };\n"
               "std::thread c([] { timespec t{0, 0}; for (int i = 0; i < 3; ++i) sem_timedwait(&s, &t); }), a(f), "
               "b(f); a.join(); b.join(); c.join(); }"},
        Source{"sleeps_beside_a_race", 0, "verified",
               "std::mutex m; int main() { auto f = [] { m.lock(); m.unlock(); }; std::thread c([] { for (int i = 0; i "
               "< 10; ++i) usleep(10); }), a(f), b(f); a.join(); b.join(); c.join(); }"},
        Source{"sleeps", 0, "verified", "int main() { for (int i = 0; i < 20; ++i) usleep(1000); }"},
        Source{"sleeps_until", 0, "verified",
               "std::atomic<bool> go; int main() { auto end = std::chrono::steady_clock::now() + "
               "std::chrono::milliseconds(20);\n"
               "while (!go && std::chrono::steady_clock::now() < end) "
               "std::this_thread::sleep_for(std::chrono::milliseconds(1)); }"},
        Source{"sleeps_for_ever", 1, "loops", "volatile bool go; int main() { while (!go) usleep(1000); }"},
        Source{"pipe", 0, "verified", "int main() { int p[2]; return pipe(p); }"},
        Source{"key_again", 0, "verified",
               "int main() { pthread_key_t k; pthread_key_create(&k, nullptr); pthread_setspecific(k, &k); "
               "pthread_key_delete(k); pthread_key_create(&k, nullptr); assert(pthread_getspecific(k) == nullptr); }"},
        Source{"thread_ids", 0, "verified",
               "int main() { const auto id = gettid(); std::thread([=] { assert(gettid() != id); }).join(); }"},
        Source{"destructor", 1, "exit code 7", "__attribute__((destructor)) void d() { _exit(7); } int main() {}"},
        Source{"timedlock_of_its_own", 0, "verified",
               "int main() { pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&m); timespec t{0, 0}; "
               "assert(pthread_mutex_timedlock(&m, &t) == ETIMEDOUT); }"},
        Source{"spins_on_trylock", 0, "verified",
               "std::mutex m; int x; int main() { auto f = [] { while (!m.try_lock()) {} ++x; m.unlock(); }; "
               "std::thread a(f), b(f); a.join(); b.join(); }"}),
    [](const auto& info) { return std::string(info.param.name); });

// Another program than that of the token.
TEST(Memory, ATokenOfAnotherProgramIsRefused) {
  const std::string path = "/tmp/threads_memory_test." + std::to_string(getpid()) + ".c";
  const auto write = [&](int value) {
    std::ofstream(path) << "#include <assert.h>\n#include <pthread.h>\nstatic void* f(void* p) { return p; }\nint "
                           "main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); int x = "
                        << value << "; assert(x == 1); return 0; }\n";
  };
  write(2);
  const Ran found = run("threads " + path);
  EXPECT_EQ(found.code, 1) << found.output;
  const std::size_t at = found.output.rfind(" cc2") + 1;
  const std::string token = found.output.substr(at, found.output.find('\n', at) - at);
  EXPECT_EQ(run("replay --program " + path + " " + token).code, 1);
  write(1);
  const Ran changed = run("replay --program " + path + " " + token);
  std::remove(path.c_str());
  EXPECT_EQ(changed.code, 2) << changed.output;
  EXPECT_NE(changed.output.find("did other things"), std::string::npos) << changed.output;
}

TEST(Memory, FlagsOfNoCompiler) {
  EXPECT_EQ(run("flags /bin/true").code, 2);
  EXPECT_EQ(run("flags /no/such").code, 2);
}

// In parts, the search finds what it finds in one.
TEST(Resume, GoesOn) {
  json r = report("--max-executions 50", "philosophers 5 arbiter", 3);
  for (int part = 0; part < 10 && r["verdict"] == "bounded"; ++part) {
    const std::string command = r["resume"].get<std::string>();
    const std::string file = ::testing::TempDir() + "resume." + std::to_string(getpid()) + ".json";
    const Ran ran = run("threads --json " + file + " --resume " + command.substr(command.rfind(' ') + 1));
    EXPECT_TRUE(ran.code == 0 || ran.code == 3) << ran.output;
    std::ifstream in(file);
    r = json::parse(in, nullptr, false);
    ASSERT_FALSE(r.is_discarded());
  }
  EXPECT_EQ(r["verdict"], "verified");
  EXPECT_EQ(r["counts"]["executions"], 120u);
}

// What a bound left out before it was stopped stays left out; rounds of preemptions go on where they were.
TEST(Resume, EndsAsTheWholeSearchDoes) {
  struct Row {
    const char *options, *words, *step;
  };
  const std::string file = ::testing::TempDir() + "resume." + std::to_string(getpid()) + ".json";
  for (const Row& row : {Row{"--steps 8", "producer_consumer 2 1 1 while", "1"},
                         Row{"--steps 8 --reduction source", "producer_consumer 2 1 1 while", "1"},
                         Row{"--preemptions 2", "philosophers 2 arbiter", "37"},
                         Row{"--preemptions 1", "philosophers 3 arbiter", "5"}}) {
    const json whole = report(std::string("--all ") + row.options, row.words, 3);
    json r = report(std::string("--all --max-executions ") + row.step + " " + row.options, row.words, 3);
    for (int part = 0; part < 200 && r["resume"].is_string(); ++part) {
      const std::string command = r["resume"];
      EXPECT_EQ(run("threads --json " + file + " --resume " + command.substr(command.rfind(' ') + 1)).code, 3)
          << row.options;
      std::ifstream in(file);
      r = json::parse(in, nullptr, false);
      ASSERT_FALSE(r.is_discarded());
    }
    EXPECT_EQ(r["bound_hit"], whole["bound_hit"]) << row.options;
    EXPECT_EQ(r["counts"]["executions"], whole["counts"]["executions"]) << row.options;
  }
}

// The parts together have the outcomes of the whole, wherever it was stopped.
TEST(Resume, GoesOnWithCrashes) {
  const std::string words = "file_script-gcc cBwabcs cBwcde";
  const std::string options = "--profile paper --sector 1 --block 2 --all ";
  const auto add_outcomes = [](const json& r, std::set<std::string>& outcomes) {
    for (const json& o : r["outcomes"]) outcomes.insert(o["output"].get<std::string>());
  };
  std::set<std::string> whole;
  add_outcomes(report(options, words, 0), whole);
  for (const char* bound : {"--max-recoveries 7", "--max-executions 1"}) {
    json r = report(options + bound, words, 3);
    std::set<std::string> outcomes;
    add_outcomes(r, outcomes);
    EXPECT_LT(outcomes.size(), whole.size());
    const std::string file = ::testing::TempDir() + "resume." + std::to_string(getpid()) + ".json";
    for (int part = 0; part < 100 && r["verdict"] == "bounded"; ++part) {
      const std::string command = r["resume"].get<std::string>();
      const Ran ran = run("threads --max-recoveries 1000000 --json " + file + " --resume " +
                          command.substr(command.rfind(' ') + 1));
      EXPECT_TRUE(ran.code == 0 || ran.code == 3) << ran.output;
      std::ifstream in(file);
      r = json::parse(in, nullptr, false);
      ASSERT_FALSE(r.is_discarded());
      EXPECT_TRUE(r["execution"]["resumed"].get<bool>());
      add_outcomes(r, outcomes);
    }
    EXPECT_EQ(r["verdict"], "verified");
    EXPECT_EQ(outcomes, whole) << bound;
  }
}

TEST(Resume, RefusesOtherTokens) {
  const std::string file = ::testing::TempDir() + "rest." + std::to_string(getpid());
  EXPECT_EQ(run("threads --resume " + file).code, 2) << "there is no such file";
  for (const char* rest : {"", "cr3", "cr3AAAA", "cc2AAAA", "x", "cr3MTpbXQ"}) {
    std::ofstream(file) << rest;
    EXPECT_EQ(run("threads --resume " + file).code, 2) << rest;
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace crashcut
