// The scheduler against POSIX's text: made-up programs come to what the machine of posix_model.h says, and to nothing
// else, under every reduction and under none. They are run by the real runtime, so that the calls that stand for
// POSIX's are part of it, and, more of them, by the scheduler's core alone.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "recovery/threads/joint_program.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/search.h"
#include "tests/posix_core.h"
#include "tests/posix_model.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using recovery::JointProgram;
using recovery::ThreadPlan;
using scheduler::Execution;
using scheduler::ReductionName;
using scheduler::runtime::Details;
using scheduler::runtime::FindingKind;

constexpr std::size_t kCalls = 32, kSerials = kCalls - 2, kEnd = kCalls - 1, kSemaphoreBytes = 32;
constexpr std::int64_t kBase = 9999;  // tests/threads/posix_script.c

// What the program told by how its semaphores begin.
std::string outcome_of(const PosixProgram& program, const Execution& execution) {
  const auto* details = dynamic_cast<const Details*>(execution.note.get());
  if (details == nullptr) return "no details";
  std::map<scheduler::ObjectId, std::uint64_t> addresses(details->addresses.begin(), details->addresses.end());
  std::uint64_t base = 0;
  std::vector<PosixThreadEnd> ends(program.threads.size());
  for (std::size_t t = 0; t < ends.size(); ++t) ends[t].results.assign(program.threads[t].size(), kPosixNone);
  std::vector<std::int64_t> serials(ends.size(), 0);
  for (const scheduler::ObjectStart& start : execution.objects) {
    if (primitive_of(start.object) != scheduler::PrimitiveId::kSemaphore) continue;
    const std::uint64_t address = addresses[start.object];
    if (scheduler::semaphore::count(start) == kBase) {
      base = address;
      continue;
    }
    if (base == 0 || address < base) continue;
    const std::uint64_t place = (address - base) / kSemaphoreBytes, thread = place / kCalls, call = place % kCalls;
    if (thread >= ends.size()) continue;
    const int result = static_cast<int>(scheduler::semaphore::count(start)) - 1;
    if (call == kEnd)
      ends[thread].how = result == 2 ? 'C' : 'E';
    else if (call == kSerials)
      serials[thread] = result;
    else
      ends[thread].results.at(call) = result;
  }
  const std::string text =
      posix_outcome_text(ends, static_cast<int>(std::accumulate(serials.begin(), serials.end(), std::int64_t{0})));
  const bool is_plain = details->kind == FindingKind::kNone || details->kind == FindingKind::kDeadlock;
  return is_plain ? text : text + " " + details->text;
}

struct Searched {
  std::set<std::string> outcomes;
  scheduler::SearchResult result;
};

// With more early timeouts than there are timed waits.
ThreadPlan plan_of(const PosixProgram& program) {
  ThreadPlan plan;
  plan.program = plan.executable =
      std::string(CRASHCUT_THREAD_PROGRAMS) + (has_signals(program) ? "/posix_signals" : "/posix_script");
  std::istringstream words(posix_words(program));
  for (std::string word; words >> word;) plan.arguments.push_back(word);
  plan.runtime = CRASHCUT_THREADS_LIBRARY;
  plan.spurious_most = static_cast<std::uint32_t>(program.spurious_most);
  plan.timeouts_most = kCalls;
  return plan;
}

using TellOutcome = std::function<std::string(const Execution&)>;

Searched search_with(scheduler::Program& running, const TellOutcome& tell, ReductionName reduction, bool has_foresight,
                     std::uint64_t executions_most = 1'500) {
  Searched searched;
  scheduler::SearchSetup search;
  search.reduction = reduction;
  search.has_foresight = has_foresight;
  search.bounds.executions_most = executions_most;
  search.on_execution = [&](const Execution& execution) { return searched.outcomes.insert(tell(execution)), true; };
  searched.result = scheduler::search({&running}, search);
  return searched;
}

// How many executions it took, all in all.
std::uint64_t compare(scheduler::Program& running, const TellOutcome& tell, const PosixProgram& program,
                      const PosixOutcomes& said, std::uint64_t seed) {
  struct How {
    ReductionName reduction;
    bool has_foresight;
  };
  std::uint64_t executions = 0;
  for (const How how : {How{ReductionName::kOptimal, false}, How{ReductionName::kOptimal, true},
                        How{ReductionName::kSource, false}, How{ReductionName::kNone, false}}) {
    const Searched found = search_with(running, tell, how.reduction, how.has_foresight);
    executions += found.result.executions;
    EXPECT_FALSE(found.result.diverged) << "seed " << seed << ", reduction " << static_cast<int>(how.reduction) << ": "
                                        << posix_words(program);
    if (found.result.bound == scheduler::Bound::kExecutions) continue;  // too many, without a reduction
    EXPECT_EQ(found.result.bound, scheduler::Bound::kNone);
    EXPECT_EQ(found.outcomes, said.all) << "seed " << seed << ", reduction " << static_cast<int>(how.reduction) << ": "
                                        << posix_words(program);
    EXPECT_TRUE(how.reduction != ReductionName::kOptimal || found.result.asleep == 0);
  }
  return executions;
}

// Which calls may occur.
struct Family {
  const char* name;
  const char* calls;  // some more than once: more of them
  std::uint64_t count;
  int spurious_most = 0;
};

class Maker {
 public:
  Maker(std::uint64_t seed, const Family& family) : random_(seed), calls_(family.calls) {
    for (PosixMutex& kind : program_.mutexes) kind = kinds()[below(4)];
    for (int& count : program_.semaphores) count = static_cast<int>(below(3) == 0 ? 2 : below(2));
    const std::size_t threads = 2 + below(2);
    for (int& count : program_.barriers) count = threads == 3 && below(3) == 0 ? 3 : 2;
    program_.spurious_most = family.spurious_most;
    may_join_ = calls_.find_first_of("jJk") != std::string::npos;
    for (std::size_t t = 0; t < threads; ++t) {
      program_.threads.emplace_back();
      const std::size_t size = 2 + below(threads == 2 ? 4 : 3);
      while (program_.threads[t].size() < size) add(t, threads);
    }
  }
  const PosixProgram& program() const { return program_; }
  PosixProgram& program() { return program_; }

 private:
  static const PosixMutex* kinds() {
    static constexpr PosixMutex kAll[] = {PosixMutex::kNormal, PosixMutex::kRecursive, PosixMutex::kErrorCheck,
                                          PosixMutex::kRobust};
    return kAll;
  }
  std::size_t below(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random_); }

  // Locks mostly come with what they are for, and are given back.
  void add(std::size_t t, std::size_t threads) {
    std::vector<PosixCall>& calls = program_.threads[t];
    const char what = calls_[below(calls_.size())];
    const int object = below(3) == 0 ? 1 : 0;
    const auto push = [&](char call, int number) { calls.push_back({call, number}); };
    switch (what) {
      case 'l':
      case 't':
      case 'T':
        push(what, object);
        if (below(2) == 0) push('+', object);
        if (below(4) != 0) push('u', object);
        return;
      case 'r':
      case 'w':
      case 'a':
      case 'b':
      case 'R':
      case 'W':
        push(what, object);
        if (below(4) != 0) push('v', object);
        return;
      case 'c':
      case 'C':
        push('l', 0);
        push(what, object);
        if (below(2) == 0) push('+', 0);
        return push('u', 0);
      case 'n':
      case 'N':
        if (below(2) == 0) return push(what, object);
        push('l', 0);
        push('+', 0);
        push(what, object);
        return push('u', 0);
      // Whom main joins only main may name: it is gone then.
      case 'j':
      case 'J':
      case 'k':
        if (t == 0) push(what, 1 + static_cast<int>(below(threads - 1)));
        return;
      case 'x':
        if (t == 0 || !may_join_) push(what, 1 + static_cast<int>(below(threads - 1)));
        return;
      case 'y':
        return push(what, 0);
      // Who is named there already: main makes the others, in order. Where main joins them, others do not know whether
      // they are gone.
      case 'K':
      case 'L':
        if (t != 0 && may_join_) return push(what, below(2) == 0 ? 0 : static_cast<int>(t));
        return push(what, static_cast<int>(below(t == 0 ? threads : t + 1)));
      case 'S':
      case 'Z':
        if (below(4) != 0) push('m', object);
        return push(what, object);
      default:
        return push(what, object);
    }
  }

  std::mt19937_64 random_;
  std::string calls_;
  PosixProgram program_;
  bool may_join_ = false;
};

class Posix : public ::testing::TestWithParam<Family> {};

// Compares the family's programs with what POSIX says, each by check(program, what is said, seed), which returns its
// executions.
template <class Check>
void compare_all(const Family& family, std::uint64_t count, bool may_block, Check&& check) {
  std::uint64_t compared = 0, outcomes = 0, executions = 0;
  for_each_seed(count, [&](std::uint64_t seed) {
    Maker maker(seed, family);
    maker.program().handlers_block = may_block && seed % 2 == 0;
    const PosixOutcomes said = explore_posix(maker.program(), 20'000);
    if (!said.is_whole) return true;  // too large for the machine
    executions += check(maker.program(), said, seed);
    ++compared;
    outcomes += said.all.size();
    return !::testing::Test::HasFailure();
  });
  std::printf("%s: %lu programs, %lu outcomes, %lu executions\n", family.name, compared, outcomes, executions);
  EXPECT_GT(compared, 0u);
}

TEST_P(Posix, TheRuntimeComesToWhatItSays) {
  compare_all(GetParam(), GetParam().count, true,
              [](const PosixProgram& program, const PosixOutcomes& said, std::uint64_t seed) {
                scheduler::runtime::NameTable names;
                JointProgram::Setup setup;
                setup.has_details = true;
                const ThreadPlan plan = plan_of(program);
                JointProgram running(plan, names, setup);
                return compare(
                    running, [&](const Execution& execution) { return outcome_of(program, execution); }, program, said,
                    seed);
              });
}

TEST_P(Posix, TheSchedulerComesToWhatItSays) {
  // There, handlers are nothing that takes time.
  compare_all(GetParam(), GetParam().count * 3, false,
              [](const PosixProgram& program, const PosixOutcomes& said, std::uint64_t seed) {
                PosixCore running(program);
                return compare(running, core_outcome, program, said, seed);
              });
}

// Both searches are whole, and come to what POSIX says.
void expect_what_posix_says(const PosixProgram& program) {
  const PosixOutcomes said = explore_posix(program, 20'000);
  ASSERT_TRUE(said.is_whole);
  PosixCore running(program);
  for (const ReductionName reduction : {ReductionName::kOptimal, ReductionName::kSource}) {
    const Searched found = search_with(running, core_outcome, reduction, false, 100'000);
    EXPECT_FALSE(found.result.diverged);
    EXPECT_EQ(found.result.bound, scheduler::Bound::kNone);
    EXPECT_EQ(found.outcomes, said.all);
    EXPECT_TRUE(reduction != ReductionName::kOptimal || found.result.asleep == 0);
  }
}

// A signal to a thread that main may have joined by then: the sender must not read whether it has. Its handler comes
// before either of its last two calls. The searches once diverged here: the sender left out its call after the join, so
// what it did next depended on a variable that is no operation.
TEST(PosixCases, SignalToAThreadThatMainMayHaveJoined) {
  PosixProgram program;
  program.mutexes = {PosixMutex::kRobust, PosixMutex::kErrorCheck};
  program.semaphores = {0, 1};
  program.barriers = {2, 3};
  program.threads = {{{'m', 0}, {'Z', 0}, {'j', 1}}, {{'S', 0}, {'Z', 0}}, {{'P', 1}, {'M', 0}, {'L', 1}, {'L', 0}}};
  ASSERT_EQ(posix_words(program), "de0123n m0Z0j1 S0Z0 P1M0L1L0");
  expect_what_posix_says(program);
}

// A handler that comes when sigtimedwait() expects its signal ends that wait: it does not time out afterwards.
TEST(PosixCases, HandlerEndsATimedWaitThatHasBegun) {
  PosixProgram program;
  program.mutexes = {PosixMutex::kRecursive, PosixMutex::kRobust};
  program.semaphores = {1, 2};
  program.barriers = {2, 2};
  program.threads = {{{'P', 0}, {'P', 0}, {'K', 0}, {'L', 1}}, {{'m', 0}, {'Z', 0}}};
  expect_what_posix_says(program);
}

// A wait for a condition that ends while signals are about tells what became of the mutex: its owner died.
TEST(PosixCases, WaitThatFindsTheMutexsOwnerDead) {
  PosixProgram program;
  program.mutexes = {PosixMutex::kRobust, PosixMutex::kNormal};
  program.semaphores = {2, 0};
  program.barriers = {2, 2};
  program.threads = {{{'l', 0}, {'c', 0}, {'u', 0}}, {{'L', 1}, {'l', 0}, {'n', 0}}};
  expect_what_posix_says(program);
}

INSTANTIATE_TEST_SUITE_P(
    Threads, Posix,
    ::testing::Values(Family{"mutexes", "lltTuU!+", 60}, Family{"rwlocks", "rwabRWv+lsq", 60},
                      Family{"semaphores", "ppqQssg", 60}, Family{"barriers", "BBlsq", 40},
                      Family{"onces", "oOOpslg", 40}, Family{"conditions", "ccnnNls", 60},
                      Family{"timed_conditions", "CCcnnNlT", 80}, Family{"spurious_conditions", "cCnnNl", 60, 1},
                      Family{"joins", "jJklsptR", 40}, Family{"cancels", "xpQcCnyslO", 60},
                      Family{"signals", "KKLPPmMSSZ", 25}, Family{"signals_and_waits", "KKLPmMSZplscnQ+", 40},
                      Family{"signals_and_locks", "KLPmMSZlTtrwBo", 25}, Family{"signals_and_joins", "KLPmMSZjJk", 25},
                      Family{"cancels_and_joins", "xjJkpcCnyl", 40},
                      Family{"everything", "ltTuU!rwabRWvpqQsgBoOcCnN+jJkxy", 80, 1}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace crashcut::tests
