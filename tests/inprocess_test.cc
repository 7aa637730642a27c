// The in-process front end on real programs (tests/inprocess/): what they do, and what is told when they misbehave.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>
#include <set>
#include <thread>

#include "recovery/inprocess/session.h"
#include "recovery/result/path.h"

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
  EXPECT_FALSE(session.bounded());
  EXPECT_NEAR(session.explored_fraction().likely, 1, 1e-9);
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
  setup.max_recoveries = 10;
  const auto session = start(setup);
  ASSERT_TRUE(session);
  ASSERT_TRUE(session->explore({}, {}));
  EXPECT_TRUE(session->bounded());
  EXPECT_NEAR(session->explored_fraction().likely / std::exp2(-64), 10, 1e-9);
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
TEST(Misbehaving, MainThatWritesTenGigabytesIsRefused) {
  Session::Setup setup = setup_of("misbehave", {"big"});
  setup.memory_bytes_most = std::uint64_t{64} << 20;
  const auto session = start(setup);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->execution().kind, ExecutionKind::kToolError);
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
