// The in-process front end on real programs (tests/inprocess/): what they do, and what is told when they misbehave.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <thread>

#include "recovery/inprocess/session.h"
#include "recovery/result/path.h"
#include "tests/seeds.h"

namespace crashcut::inprocess {
namespace {

std::string program(const std::string& name) { return std::string(CRASHCUT_INPROCESS_PROGRAMS) + "/" + name; }

Session::Setup setup_of(const std::string& name, std::vector<std::string> arguments = {}) {
  Session::Setup setup;
  setup.program = program(name);
  setup.arguments = std::move(arguments);
  setup.runtime = CRASHCUT_RUNTIME_LIBRARY;
  // Short where the limit is what is tested, else so long that no load reaches it.
  const bool hangs =
      !setup.arguments.empty() && (setup.arguments[0].ends_with("loop") || setup.arguments[0] == "sleep");
  setup.main_limit = setup.recovery_limit = std::chrono::seconds(hangs ? 2 : 60);
  return setup;
}

struct Explored {
  std::map<std::string, int> outcomes;
  std::map<RecordKind, int> kinds;
  std::map<std::string, std::uint32_t> events_in;  // by outcome
  std::vector<std::vector<std::uint32_t>> failed;
  std::string text;
  int count = 0;
};

Explored explore(Session& session) {
  Explored all;
  const auto done = session.explore({}, [&](const Recovery& r) {
    ++all.count;
    ++all.kinds[r.kind];
    ++all.outcomes[std::string(r.output)];
    all.events_in[std::string(r.output)] = r.events_in;
    if (is_violation(r.kind)) all.failed.push_back(r.path);
    all.text += r.text;
  });
  EXPECT_TRUE(done) << done.error().sentence;
  EXPECT_FALSE(session.is_lost());
  EXPECT_TRUE(session.left().empty());
  EXPECT_NEAR(session.explored_estimate().likely, all.count, 1e-9);
  return all;
}

std::unique_ptr<Session> start(const Session::Setup& setup) {
  auto session = Session::start(setup);
  EXPECT_TRUE(session) << session.error().sentence;
  return session ? std::move(*session) : nullptr;
}

Explored run(const Session::Setup& setup) {
  const auto session = start(setup);
  if (!session) return {};
  EXPECT_EQ(session->execution().kind, ExecutionKind::kEnded) << session->execution().sentence;
  EXPECT_EQ(session->execution().exit_code, 0);
  return explore(*session);
}

std::set<std::string> outcomes_of(const Explored& all) {
  std::set<std::string> outcomes;
  for (const auto& [outcome, count] : all.outcomes) outcomes.insert(outcome);
  return outcomes;
}
using Set = std::set<std::string>;

// ---- programs that work -----------------------------------------------------------------------------------------

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "popen failed";
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  pclose(pipe);
  return output;
}

TEST(InProcess, ManyCallsAnswerAsTheRealSystemDoes) {
  char directory[] = "/var/tmp/crashcut-calls-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string real = output_of("cd " + std::string(directory) + " && " + program("calls"));
  ASSERT_EQ(std::system(("rm -rf " + std::string(directory)).c_str()), 0);
  FILE* captured = tmpfile();
  ASSERT_NE(captured, nullptr);
  ASSERT_EQ(fcntl(fileno(captured), F_SETFD, FD_CLOEXEC), 0);  // the program's numbers begin where they do alone
  Session::Setup setup = setup_of("calls");
  setup.stdout_fd = fileno(captured);
  const auto session = start(setup);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->execution().kind, ExecutionKind::kEnded) << session->execution().sentence;
  std::string modelled(1 << 16, '\0');
  const ssize_t length = pread(fileno(captured), modelled.data(), modelled.size(), 0);
  modelled.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  fclose(captured);
  EXPECT_GT(real.size(), 500u);
  EXPECT_EQ(modelled, real);
}

TEST(InProcess, StdioWorks) {
  const Explored all = run(setup_of("save_stdio"));
  EXPECT_EQ(outcomes_of(all), (Set{"0 []\n", "3 [old]\n", "3 [new]\n", "3 []\n"}));  // the last: NULs
}

TEST(InProcess, StreamsWorkAndAnUncaughtExceptionIsAViolation) {
  const Explored all = run(setup_of("save_stream"));
  EXPECT_TRUE(all.outcomes.contains("hello 1\n"));
  EXPECT_TRUE(all.outcomes.contains("- 0\n"));
  EXPECT_GT(all.kinds.at(RecordKind::kSignalled), 0);
  EXPECT_EQ(all.kinds.count(RecordKind::kToolError), 0u);
}

TEST(InProcess, ThreadsWorkInMainAndInRecovery) {
  EXPECT_EQ(outcomes_of(run(setup_of("threads"))), (Set{"0\n", "1\n", "2\n", "3\n"}));
}

TEST(InProcess, SignalHandlersMayWriteFiles) { EXPECT_EQ(outcomes_of(run(setup_of("signals"))), (Set{"0\n", "-1\n"})); }

TEST(InProcess, JobsAndSeedsAndForkingAtChoicesChangeNothing) {
  for (const char* name : {"many", "sectors", "slow"}) {
    SCOPED_TRACE(name);
    Session::Setup setup = setup_of(name, {"6"});
    setup.model.sector_bytes = setup.model.block_bytes = 1;
    const Explored one = run(setup);
    setup.jobs = 2;
    const Explored two = run(setup);
    setup.seed = 5;
    const Explored seeded = run(setup);
    EXPECT_EQ(one.count, std::string(name) == "slow" ? 32 : 64);
    EXPECT_EQ(one.outcomes.size(), static_cast<std::size_t>(one.count)) << "each exactly once";
    EXPECT_EQ(one.outcomes, two.outcomes);
    EXPECT_EQ(one.outcomes, seeded.outcomes);
  }
}

TEST(InProcess, TheExploredPartOfALargeTreeIsNotZero) {
  Session::Setup setup = setup_of("sectors", {"64"});
  setup.model.sector_bytes = setup.model.block_bytes = 1;
  const auto session = start(setup);
  ASSERT_TRUE(session);
  ASSERT_TRUE(session->explore({}, {}, 10));
  EXPECT_FALSE(session->left().empty());
  EXPECT_EQ(session->explored_count(), 10);
  EXPECT_NEAR(session->explored_estimate().likely / std::exp2(64), 1, 1e-9);
}

TEST(InProcess, ARecoveryThatWritesMayCrashToo) {
  Session::Setup setup = setup_of("rewrite");
  setup.depth = 2;
  EXPECT_TRUE(run(setup).failed.empty());
  setup.arguments = {"wrong"};
  const auto session = start(setup);
  const Explored all = explore(*session);
  ASSERT_FALSE(all.failed.empty());
  for (const auto& path : all.failed) {
    const auto again = session->replay(path);
    ASSERT_TRUE(again) << again.error().sentence;
    EXPECT_FALSE(again->diverged);
    EXPECT_EQ(again->recovery.kind, RecordKind::kSignalled) << result::path_text(path);
  }
}

// ---- explorations that are stopped, and go on ----------------------------------------------------------------------

// All recoveries by path, with what they printed.
using Recoveries = std::map<std::vector<std::uint32_t>, std::string>;

void add_once(Recoveries& all, const Recovery& r) {
  EXPECT_NE(r.kind, RecordKind::kToolError) << r.text;
  EXPECT_TRUE(all.emplace(r.path, std::string(r.output)).second) << result::path_text(r.path) << " was run twice";
}

// Explores, and stops at a random moment.
void explore_a_part(Session& session, const std::vector<persist::Path>& from, std::mt19937_64& random,
                    Recoveries& all) {
  const bool by_count = random() % 2 == 0;
  session.begin_explore(from, by_count ? 1 + random() % 40 : 0);
  const auto stop_at = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 8000);
  for (;;) {
    const auto ended = session.advance(false, [&](const Recovery& r) { add_once(all, r); });
    ASSERT_TRUE(ended) << ended.error().sentence;
    pollfd ready{session.fd(), POLLIN, 0};
    if (poll(&ready, 1, 0) > 0) break;
    if (!by_count && std::chrono::steady_clock::now() >= stop_at) session.stop();
  }
  const auto ended = session.advance(true, [&](const Recovery& r) { add_once(all, r); });
  ASSERT_TRUE(ended) << ended.error().sentence;
  ASSERT_TRUE(*ended);
  ASSERT_FALSE(session.is_lost());
}

struct Interrupted {
  const char* program;
  const char* argument;
  std::uint32_t depth;
  FreshImages images;
};
void PrintTo(const Interrupted& i, std::ostream* out) {
  *out << i.program << " " << i.argument << " depth " << i.depth;
}
class InterruptedExploration : public testing::TestWithParam<Interrupted> {};

// What is left of each part is explored by a program that was started anew, with another number of jobs.
TEST_P(InterruptedExploration, LosesNothingAndRunsNothingTwice) {
  Session::Setup setup = setup_of(GetParam().program, {GetParam().argument});
  setup.model.sector_bytes = setup.model.block_bytes = 1;
  setup.depth = GetParam().depth;
  setup.fresh_images = GetParam().images;
  Recoveries whole;
  {
    const auto session = start(setup);
    ASSERT_TRUE(session->explore({}, [&](const Recovery& r) { add_once(whole, r); }));
  }
  ASSERT_GT(whole.size(), 20u);
  tests::for_each_seed(6, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Recoveries all;
    std::vector<persist::Path> left{{}};
    for (int parts = 0; !left.empty(); ++parts) {
      setup.jobs = 1 + static_cast<std::uint32_t>(random() % 2);
      setup.seed = random() % 3;
      const auto session = start(setup);
      const int times = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < times && !left.empty(); ++i) {
        explore_a_part(*session, left, random, all);
        if (testing::Test::HasFatalFailure()) return false;
        left = session->left();
      }
      EXPECT_LT(parts, 500);
    }
    EXPECT_EQ(all, whole) << "seed " << seed;
    return !testing::Test::HasFailure();
  });
}
INSTANTIATE_TEST_SUITE_P(InProcess, InterruptedExploration,
                         testing::Values(Interrupted{"sectors", "8", 1, FreshImages::kRestored},
                                         Interrupted{"sectors", "8", 1, FreshImages::kForked},
                                         Interrupted{"slow", "", 1, FreshImages::kRestored},
                                         Interrupted{"deep", "", 2, FreshImages::kRestored},
                                         Interrupted{"deep", "slow", 2, FreshImages::kRestored},
                                         Interrupted{"deep", "", 3, FreshImages::kRestored}));

TEST(InProcess, ASingleRunCanBeStopped) {
  Session::Setup setup = setup_of("misbehave", {"r-loop"});
  setup.recovery_limit = std::chrono::seconds(60);
  const auto session = start(setup);
  ASSERT_TRUE(session);
  const auto begin = std::chrono::steady_clock::now();
  session->begin_replay(std::vector<std::uint32_t>{0});
  for (bool has_ended = false; !has_ended;) {
    pollfd ready{session->fd(), POLLIN, 0};
    const auto ended = session->advance(poll(&ready, 1, 20) > 0);
    ASSERT_TRUE(ended) << ended.error().sentence;
    has_ended = *ended;
    if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(200)) session->stop();
  }
  const auto run = session->single_run();
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->is_stopped);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_TRUE(session->describe()) << "it goes on after that";
}

// Samples are recoveries like others: what they print is what the whole tree has, and a seed gives the same again.
TEST(InProcess, SamplesAreRecoveriesOfTheTree) {
  Session::Setup setup = setup_of("sectors", {"8"});
  setup.model.sector_bytes = setup.model.block_bytes = 1;
  const auto session = start(setup);
  ASSERT_TRUE(session);
  Recoveries whole;
  ASSERT_TRUE(session->explore({}, [&](const Recovery& r) { add_once(whole, r); }));
  const auto sampled = [&](search::Strategy strategy, std::uint64_t seed) {
    std::vector<std::vector<std::uint32_t>> paths;
    session->begin_sample(strategy, seed, 50);
    for (bool has_ended = false; !has_ended;) {
      pollfd ready{session->fd(), POLLIN, 0};
      const auto ended = session->advance(poll(&ready, 1, 20) > 0, [&](const Recovery& r) {
        EXPECT_EQ(whole.at(r.path), r.output);
        paths.push_back(r.path);
      });
      EXPECT_TRUE(ended) << ended.error().sentence;
      has_ended = !ended || *ended;
    }
    EXPECT_EQ(paths.size(), 50u);
    return paths;
  };
  EXPECT_EQ(sampled(search::Strategy::kRandom, 1), sampled(search::Strategy::kRandom, 1));
  EXPECT_NE(sampled(search::Strategy::kRandom, 1), sampled(search::Strategy::kRandom, 2));
  const auto few = sampled(search::Strategy::kFewDropped, 1);
  EXPECT_EQ(few.front(), std::vector<std::uint32_t>(8, 0)) << "all as written";
  for (std::size_t i = 0; i < 8; ++i) {
    std::vector<std::uint32_t> all_but_one(8, 0);
    all_but_one[i] = 1;
    EXPECT_EQ(few[2 * i + 1], all_but_one);
  }
  EXPECT_EQ(sampled(search::Strategy::kAfterPromises, 1).front(), std::vector<std::uint32_t>(8, 1)) << "nothing";
}

// ---- programs that misbehave ------------------------------------------------------------------------------------

struct Refused {
  const char* mode;
  const char* named;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.mode; }
class RefusedCalls : public testing::TestWithParam<Refused> {};

TEST_P(RefusedCalls, AreNamedAndNotBlamedOnRecovery) {
  const auto session = start(setup_of("misbehave", {GetParam().mode}));
  ASSERT_TRUE(session);
  EXPECT_EQ(session->execution().kind, ExecutionKind::kToolError);
  EXPECT_NE(session->execution().sentence.find(GetParam().named), std::string::npos) << session->execution().sentence;
  EXPECT_NE(session->execution().sentence.find("crashcut check"), std::string::npos) << session->execution().sentence;
  EXPECT_EQ(session->execution().blame, Blame::kUser);
}
INSTANTIATE_TEST_SUITE_P(InProcess, RefusedCalls,
                         testing::Values(Refused{"fork", "fork"}, Refused{"system", "fork"}, Refused{"exec", "exec"},
                                         Refused{"map", "mmap"}, Refused{"map_protect", "mprotect(PROT_WRITE)"},
                                         Refused{"map_move", "mremap()"}, Refused{"map_sync", "msync()"},
                                         Refused{"getdents", "getdents"},
                                         Refused{"flock", "flock(), and would have to wait"},
                                         Refused{"lock", "F_OFD_SETLKW), and would have to wait"},
                                         Refused{"bind", "bind() of a socket"},
                                         Refused{"connect", "connect() to a socket"}, Refused{"setfsuid", "setfsuid()"},
                                         Refused{"openat2", "openat2() with resolve flags"}),
                         [](const auto& info) { return info.param.mode; });

TEST(Misbehaving, MainThatFailsIsToldApart) {
  struct Row {
    const char* mode;
    ExecutionKind kind;
  };
  for (const Row& row :
       {Row{"loop", ExecutionKind::kHung}, Row{"sleep", ExecutionKind::kHung}, Row{"segv", ExecutionKind::kKilled},
        Row{"abort", ExecutionKind::kKilled}, Row{"exit3", ExecutionKind::kEnded}}) {
    SCOPED_TRACE(row.mode);
    const auto session = start(setup_of("misbehave", {row.mode}));
    ASSERT_TRUE(session);
    EXPECT_EQ(session->execution().kind, row.kind);
  }
}

// The limit is that of the test, so that it is short and needs little memory.
TEST(Misbehaving, MainThatWritesTenGigabytesIsStopped) {
  Session::Setup setup = setup_of("misbehave", {"big"});
  setup.memory_bytes_most = std::uint64_t{64} << 20;
  const auto session = start(setup);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->execution().kind, ExecutionKind::kOutOfMemory);
  EXPECT_EQ(session->execution().sentence, "the program wrote more than the model can hold (64 MiB of recorded data)");
  EXPECT_EQ(session->execution().blame, Blame::kUser);
}

TEST(Misbehaving, RecoveryThatFailsIsAViolationOfItsKind) {
  struct Row {
    const char* mode;
    RecordKind kind;
  };
  for (const Row& row :
       {Row{"r-abort", RecordKind::kSignalled}, Row{"r-assert", RecordKind::kSignalled},
        Row{"r-segv", RecordKind::kSignalled}, Row{"r-stack", RecordKind::kSignalled},
        Row{"r-exit3", RecordKind::kExited}, Row{"r-exit0", RecordKind::kOk}, Row{"r-loop", RecordKind::kHung},
        Row{"r-assume", RecordKind::kAssumedAway}, Row{"r-much", RecordKind::kOk}, Row{"r-close", RecordKind::kOk},
        Row{"r-short", RecordKind::kSignalled}}) {
    SCOPED_TRACE(row.mode);
    const Explored all = run(setup_of("misbehave", {row.mode}));
    EXPECT_EQ(all.count, 2);
    EXPECT_TRUE(all.outcomes.contains("no flag\n"));
    EXPECT_EQ(all.kinds.count(row.kind), 1u);
  }
}

TEST(Misbehaving, ARecoveryThatDiesHasItsEventsCounted) {
  // All of them die with the flag there, which they looked for first.
  std::set<std::uint32_t> events;
  for (const char* mode : {"r-abort", "r-segv", "r-loop"}) {
    SCOPED_TRACE(mode);
    const Explored all = run(setup_of("misbehave", {mode}));
    ASSERT_EQ(all.events_in.count("no flag\n"), 1u);
    ASSERT_EQ(all.events_in.count(""), 1u);
    EXPECT_LT(all.events_in.at("no flag\n"), all.events_in.at(""));
    events.insert(all.events_in.at(""));
  }
  EXPECT_EQ(events.size(), 1u);
}

TEST(Misbehaving, ARecoveryThatForksEndsTheSearchAsNoViolation) {
  const auto session = start(setup_of("misbehave", {"r-fork"}));
  ASSERT_TRUE(session);
  std::vector<std::string> errors;
  ASSERT_TRUE(session->explore({}, [&](const Recovery& r) {
    EXPECT_FALSE(is_violation(r.kind));
    if (r.kind != RecordKind::kToolError) return;
    errors.emplace_back(r.text);
    EXPECT_EQ(r.blame, Blame::kUser);
  }));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("fork"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("crashcut check"), std::string::npos) << errors[0];
}

TEST(Misbehaving, OurOwnDeathInARecoveryIsOurFailure) {
  const auto session = start(setup_of("misbehave", {"r-wild"}));
  ASSERT_TRUE(session);
  std::vector<Blame> blamed;
  ASSERT_TRUE(session->explore({}, [&](const Recovery& r) {
    EXPECT_FALSE(is_violation(r.kind));
    if (r.kind == RecordKind::kToolError) blamed.push_back(r.blame);
  }));
  EXPECT_EQ(blamed, std::vector<Blame>{Blame::kTool});
}

TEST(Misbehaving, AFileCallBeforeMainIsRefused) {
  const auto session = start(setup_of("early"));
  ASSERT_TRUE(session);
  EXPECT_EQ(session->execution().kind, ExecutionKind::kToolError);
  EXPECT_NE(session->execution().sentence.find("before main"), std::string::npos) << session->execution().sentence;
}

TEST(Misbehaving, NoProcessIsLeft) {
  // Orphans become our children, so that none is overlooked.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  for (const char* mode : {"sleep", "r-loop", ""}) {
    SCOPED_TRACE(mode);
    { const auto session = start(setup_of("misbehave", {mode})); }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) >= 0 && std::chrono::steady_clock::now() < deadline) {
      if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(ended, -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
  }
}

}  // namespace
}  // namespace crashcut::inprocess
