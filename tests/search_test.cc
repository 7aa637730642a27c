// What a front end gets from the search by recording and recovering alone, on a made-up device of 150 lines: each
// feature by itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "recovery/result/json.h"
#include "recovery/result/junit.h"
#include "recovery/result/path.h"
#include "recovery/result/text.h"
#include "recovery/search/check.h"
#include "tests/made_up_device.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using result::Bound;
using result::Verdict;
using search::Found;
using search::Hooks;
using search::Plan;

std::string name_of(int i) { return "n" + std::to_string(i); }

// `count` numbers that no flush orders, and a recovery that reads them all: 2^count states.
DeviceFrontEnd independent(int count) {
  return DeviceFrontEnd(
      [=](DeviceRecording& device) {
        for (int i = 0; i < count; ++i) device.put(name_of(i), 1);
      },
      [=](CrashedDevice& device) {
        persist::Value sum = 0;
        for (int i = 0; i < count; ++i) sum += device.get(name_of(i));
        return std::to_string(sum);
      });
}

// A record and its checksum, with or without a flush between: the sum may be there and the record not.
DeviceFrontEnd saved(bool flushes, int others = 0) {
  return DeviceFrontEnd(
      [=](DeviceRecording& device) {
        for (int i = 0; i < others; ++i) device.put(name_of(i), 1);
        device.put("record", 7);
        if (flushes) device.flush();
        device.put("sum", 7);
      },
      [=](CrashedDevice& device) -> std::string {
        for (int i = 0; i < others; ++i) device.get(name_of(i));
        if (device.get("sum") == 0) return "not saved";
        return device.get("record") == 7 ? "saved" : "bad record";
      });
}

Found check(DeviceFrontEnd& front_end, const Plan& plan = {}, const Hooks& hooks = {},
            const search::Rest* before = nullptr) {
  auto found = search::check(front_end, plan, hooks, before);
  EXPECT_TRUE(found) << found.error().sentence;
  return found ? std::move(*found) : Found{};
}

std::map<std::string, std::uint64_t> outcomes(const Found& found) {
  std::map<std::string, std::uint64_t> counts;
  for (const result::Outcome& outcome : found.result.outcomes) counts[outcome.output] = outcome.recoveries;
  return counts;
}

// ---- states for a page

struct Step {
  int name = -1;  // -1: a flush
  persist::Value value = 0;
};
using Getter = std::function<persist::Value(int)>;

// Reads further only after what it has read: not every state decides every name.
std::string read_some(const Getter& get) {
  const persist::Value first = get(0);
  if (first % 3 == 0) return "bad " + std::to_string(first);
  const persist::Value second = get(1);
  return std::to_string(first) + " " + std::to_string(second) + (second % 2 == 0 ? " " + std::to_string(get(2)) : "");
}

// By brute force: what a crash can leave once the first `count` steps have run. A number is any of those that were put
// under its name, from the last flush on, or the last one before.
std::set<std::string> outcomes_at(const std::vector<Step>& steps, std::size_t count) {
  std::vector<std::vector<persist::Value>> possible(3, {0});
  for (std::size_t i = 0; i < count; ++i) {
    if (steps[i].name >= 0) {
      possible[static_cast<std::size_t>(steps[i].name)].push_back(steps[i].value);
    } else {
      for (auto& values : possible) values = {values.back()};
    }
  }
  std::set<std::string> found;
  for (const persist::Value a : possible[0]) {
    for (const persist::Value b : possible[1]) {
      for (const persist::Value c : possible[2]) {
        const persist::Value values[] = {a, b, c};
        found.insert(read_some([&](int name) { return values[name]; }));
      }
    }
  }
  return found;
}

// A state belongs to exactly those moments at which a crash can leave it.
TEST(Search, StatesHaveTheirMoments) {
  for_each_seed(60, [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Step> steps(1 + random() % 8);
    persist::Value next = 1;
    for (Step& step : steps) {
      if (random() % 4 != 0) step = {static_cast<int>(random() % 3), next++};
    }
    DeviceFrontEnd front_end(
        [&](DeviceRecording& device) {
          for (int i = 0; i < 3; ++i) device.location(name_of(i));
          for (const Step& step : steps) {
            if (step.name >= 0) {
              device.put(name_of(step.name), step.value);
            } else {
              device.flush();
            }
          }
        },
        [](CrashedDevice& device) { return read_some([&](int name) { return device.get(name_of(name)); }); });
    const Found found = check(front_end, {.wants_all = true, .wants_states = true, .wants_all_states = true});
    EXPECT_TRUE(found.result.states);
    if (!found.result.states) return false;
    const result::States& states = *found.result.states;
    EXPECT_EQ(states.list.size(), found.result.counts.recoveries);
    EXPECT_EQ(states.left_out, 0u);
    for (std::size_t moment = 0; moment <= steps.size(); ++moment) {
      std::set<std::string> told;
      for (const result::State& state : states.list) {
        if (state.earliest <= moment && moment <= state.latest) told.insert(state.outcome);
      }
      EXPECT_EQ(told, outcomes_at(steps, moment)) << "seed " << seed << ", moment " << moment;
    }
    return !testing::Test::HasFailure();
  });
}

// Each location is old or new.
TEST(Search, FewStatesAreToldUnlessAllAreAskedFor) {
  DeviceFrontEnd front_end(
      [](DeviceRecording& device) {
        for (const char* name : {"a", "b", "c", "d", "e"}) device.put(name, 1);
      },
      [](CrashedDevice& device) {
        int sum = 0;
        for (const char* name : {"a", "b", "c", "d", "e"}) sum += device.get(name);
        return std::to_string(sum);
      });
  for (const bool wants_all_states : {false, true}) {
    const Found found = check(front_end, {.wants_states = true, .wants_all_states = wants_all_states});
    ASSERT_TRUE(found.result.states);
    EXPECT_EQ(found.result.counts.recoveries, 32u);
    EXPECT_EQ(found.result.states->list.size(), wants_all_states ? 32u : 10u);
    EXPECT_EQ(found.result.states->left_out, wants_all_states ? 0u : 22u);
    std::set<std::string> outcomes;
    for (const result::State& state : found.result.states->list) outcomes.insert(state.outcome);
    EXPECT_EQ(outcomes.size(), 6u);  // the first of each outcome is among them
  }
}

TEST(Search, StatesSayWhatWasHeldAndWhatFailed) {
  DeviceFrontEnd front_end = saved(false);
  const Found found = check(front_end, {.wants_all = true, .wants_states = true, .wants_all_states = true});
  ASSERT_TRUE(found.result.states);
  const result::States& states = *found.result.states;
  ASSERT_EQ(states.list.size(), 3u);
  const auto example =
      std::find_if(states.list.begin(), states.list.end(), [](const result::State& s) { return s.is_example; });
  ASSERT_NE(example, states.list.end());
  EXPECT_TRUE(example->is_violation);
  EXPECT_EQ(example->outcome, "bad record");
  EXPECT_EQ(example->kept, "-1n1y1");
  EXPECT_EQ(example->earliest, 2u);
  std::map<std::string, std::string> held;
  for (const auto& [location, value] : example->held)
    held[states.locations[location].text] = states.locations[location].values[value];
  EXPECT_EQ(held, (std::map<std::string, std::string>{{"sum", "7"}, {"record", "what was there before"}}));
  EXPECT_FALSE(check(front_end).result.states) << "nobody asked";
}

// The first of each outcome comes before others, however late it is found, and there are never too many.
TEST(Search, KeptPathsHaveAllOutcomes) {
  search::KeptPaths kept;
  for (std::uint32_t i = 0; i < 3000; ++i) kept.add({0, i < 2990 ? 1u : i, {i}});
  const auto entries = kept.entries();
  ASSERT_EQ(entries.size(), search::KeptPaths::kEntriesMost);
  EXPECT_EQ(entries[0].path, persist::Path{0});
  for (std::uint32_t i = 2990; i < 3000; ++i) EXPECT_EQ(entries[i - 2989].path, persist::Path{i});
  search::KeptPaths other;
  other.add({0, 99'999, {7}});
  kept.add(other);
  EXPECT_EQ(kept.entries().size(), search::KeptPaths::kEntriesMost);
  EXPECT_EQ(kept.entries()[11].path, persist::Path{7});
  kept.add({0, 88'888, persist::Path(search::KeptPaths::kAnswersMost)});
  EXPECT_EQ(kept.entries()[12].outcome, 1u) << "a path that is too long is not kept";
}

TEST(Search, VerifiesWhatIsFlushed) {
  DeviceFrontEnd front_end = saved(true);
  const Found found = check(front_end);
  EXPECT_EQ(found.result.verdict, Verdict::kVerified);
  EXPECT_EQ(outcomes(found), (std::map<std::string, std::uint64_t>{{"not saved", 1}, {"saved", 1}}));
  EXPECT_EQ(found.result.bound, Bound::kNone);
  EXPECT_EQ(found.result.explored_fraction.likely, 1);
  EXPECT_FALSE(found.rest);
}

TEST(Search, FindsTheSmallestViolationAndTellsIt) {
  DeviceFrontEnd front_end = saved(false, 3);
  const Found found = check(front_end);
  EXPECT_EQ(found.result.verdict, Verdict::kViolation);
  ASSERT_TRUE(found.result.counterexample);
  const result::Counterexample& example = *found.result.counterexample;
  EXPECT_TRUE(example.is_smallest);
  EXPECT_TRUE(example.replays);
  EXPECT_EQ(example.finding.text, "bad record");
  ASSERT_EQ(example.story.crashes.size(), 1u);
  // The sum alone: nothing else need have persisted.
  EXPECT_EQ(example.story.crashes[0].persisted.size(), 1u);
  ASSERT_EQ(found.result.findings.size(), 1u);
  EXPECT_EQ(found.result.findings[0].count, 8u);
}

// Every number of jobs explores the same states, each once, and work is given away.
TEST(Search, SharesTheWorkAmongJobs) {
  DeviceFrontEnd front_end = independent(12);
  const auto alone = outcomes(check(front_end));
  EXPECT_EQ(alone.at("6"), 924u);
  for (const std::uint32_t jobs : {2u, 3u, 8u}) {
    const Found found = check(front_end, {.jobs = jobs});
    EXPECT_EQ(found.result.counts.recoveries, 4096u) << jobs;
    EXPECT_EQ(outcomes(found), alone) << jobs;
  }
}

TEST(Search, AllJobsWork) {
  char file[] = "/tmp/crashcut_search_XXXXXX";
  const int fd = mkstemp(file);
  ASSERT_GE(fd, 0);
  DeviceFrontEnd front_end(
      [](DeviceRecording& device) {
        for (int i = 0; i < 9; ++i) device.put(name_of(i), 1);
      },
      [&](CrashedDevice& device) -> std::string {
        for (int i = 0; i < 9; ++i) device.get(name_of(i));
        const std::string line = std::to_string(getpid()) + "\n";
        EXPECT_EQ(write(fd, line.data(), line.size()), static_cast<ssize_t>(line.size()));
        usleep(2000);
        return "";
      });
  EXPECT_EQ(check(front_end, {.jobs = 4}).result.counts.recoveries, 512u);
  std::map<std::string, int> by_worker;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) ++by_worker[line];
  close(fd);
  unlink(file);
  EXPECT_EQ(by_worker.size(), 4u);
  for (const auto& [worker, count] : by_worker) EXPECT_GT(count, 20) << worker;
}

// Recovery moves "a" to "b", and forgets to flush before it removes the old one: only a crash of recovery shows it.
DeviceFrontEnd moved(bool flushes) {
  return DeviceFrontEnd(
      [](DeviceRecording& device) {
        device.put("a", 5);
        device.flush();
      },
      [=](CrashedDevice& device) -> std::string {
        const persist::Value a = device.get("a"), b = device.get("b");
        if (a == 5 && b == 0) {
          device.put("b", a);
          if (flushes) device.flush();
          device.put("a", 9);
          return "moved";
        }
        return a == 9 && b == 0 ? "bad: lost" : "nothing to do";
      });
}

TEST(Search, CrashesRecoveriesToo) {
  DeviceFrontEnd wrong = moved(false), right = moved(true);
  EXPECT_EQ(check(wrong).result.verdict, Verdict::kVerified);
  EXPECT_EQ(check(right, {.depth = 2}).result.verdict, Verdict::kVerified);
  const Found found = check(wrong, {.depth = 2});
  EXPECT_EQ(found.result.verdict, Verdict::kViolation);
  ASSERT_TRUE(found.result.counterexample);
  EXPECT_EQ(found.result.counterexample->story.crashes.size(), 2u);
  EXPECT_NE(found.result.counterexample->path.find('/'), std::string::npos);
  // "a" not put: 2 states of the first crash, one of which moves and can be crashed.
  EXPECT_EQ(found.result.counts.violations, 1u);
}

// Depth 2 with any number of jobs: the work below a recovery is given away too.
TEST(Search, DepthTwoIsTheSameWithAnyNumberOfJobs) {
  const auto make = [] {
    return DeviceFrontEnd(
        [](DeviceRecording& device) {
          for (int i = 0; i < 4; ++i) device.put(name_of(i), 1);
        },
        [](CrashedDevice& device) {
          std::string found;
          for (int i = 0; i < 4; ++i) found += std::to_string(device.get(name_of(i)));
          for (int i = 0; i < 3; ++i) device.put(name_of(i), 2);
          return found;
        });
  };
  DeviceFrontEnd front_end = make();
  const auto alone = outcomes(check(front_end, {.depth = 2}));
  // 16 states of the first crash; below each 8 of the second, in which an old number shows what the first one left.
  std::uint64_t all = 0;
  for (const auto& [outcome, count] : alone) all += count;
  EXPECT_EQ(all, 16u + 16 * 8);
  for (const std::uint32_t jobs : {2u, 5u}) EXPECT_EQ(outcomes(check(front_end, {.depth = 2, .jobs = jobs})), alone);
  EXPECT_EQ(check(front_end, {.depth = 3}).result.counts.recoveries, 16u + 16 * 8 + 16 * 8 * 8);
}

TEST(Search, KeepsToABudgetOfRecoveries) {
  DeviceFrontEnd front_end = independent(20);
  const Found found = check(front_end, {.max_recoveries = 1000});
  EXPECT_EQ(found.result.verdict, Verdict::kBounded);
  EXPECT_EQ(found.result.bound, Bound::kRecoveries);
  EXPECT_LE(found.result.counts.recoveries, 1000u);
  EXPECT_GE(found.result.counts.recoveries, 900u);
  EXPECT_GT(found.result.counts.sampled, 0u);
}

// A budget that is enough for the whole tree is spent on that, and not on samples.
TEST(Search, VerifiesWithinABudgetThatIsEnough) {
  DeviceFrontEnd front_end = independent(6);
  for (const std::uint64_t most : {64u, 65u, 1000u}) {
    const Found found = check(front_end, {.max_recoveries = most});
    EXPECT_EQ(found.result.verdict, Verdict::kVerified) << most;
    EXPECT_EQ(found.result.counts.recoveries, 64u) << most;
    EXPECT_EQ(found.result.counts.sampled, 0u) << most;
  }
}

// Samples that are equal leave a part of the budget, which the tree then uses.
TEST(Search, UsesAllOfItsBudget) {
  DeviceFrontEnd front_end = independent(12);
  EXPECT_EQ(check(front_end, {.max_recoveries = 300}).result.counts.recoveries, 300u);
}

TEST(Search, KeepsToABudgetOfTime) {
  DeviceFrontEnd front_end = independent(40);
  const auto begin = std::chrono::steady_clock::now();
  const Found found = check(front_end, {.time_limit = std::chrono::milliseconds(500)});
  EXPECT_EQ(found.result.bound, Bound::kTime);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2500));
  EXPECT_GT(found.result.counts.recoveries, 0u);
}

// Another seed explores another part first, and the same whole.
TEST(Search, SeedsChangeTheOrderAndNotTheWhole) {
  DeviceFrontEnd front_end = independent(10);
  EXPECT_EQ(outcomes(check(front_end, {.seed = 7})), outcomes(check(front_end)));
  const Plan few{.max_recoveries = 20};
  Plan other = few;
  other.seed = 7;
  EXPECT_EQ(outcomes(check(front_end, few)), outcomes(check(front_end, few)));
  EXPECT_NE(outcomes(check(front_end, few)), outcomes(check(front_end, other)));
}

// One state of 2^40, and it is nearest to nothing lost: a tree of this size never gets there, samples do.
TEST(Search, SamplesWhatTheTreeDoesNotReach) {
  DeviceFrontEnd front_end(
      [](DeviceRecording& device) {
        for (int i = 0; i < 40; ++i) device.put(name_of(i), 1);
      },
      [](CrashedDevice& device) -> std::string {
        persist::Value first = device.get(name_of(0)), sum = first;
        for (int i = 1; i < 40; ++i) sum += device.get(name_of(i));
        return first == 0 && sum == 39 ? "bad: only the first is lost" : "";
      });
  const Found found = check(front_end, {.max_recoveries = 6000});
  EXPECT_EQ(found.result.verdict, Verdict::kViolation);
  EXPECT_GT(found.result.counts.sampled, 0u);
  ASSERT_TRUE(found.result.counterexample);
  EXPECT_TRUE(found.result.counterexample->replays);
}

TEST(Search, EstimatesHowMuchIsDone) {
  DeviceFrontEnd front_end = independent(26);
  const Found found = check(front_end, {.max_recoveries = 4000});
  // 2,000 of 67 million by the tree.
  EXPECT_GT(found.result.explored_fraction.likely, 1e-6);
  EXPECT_LT(found.result.explored_fraction.likely, 1e-3);
  EXPECT_LE(found.result.explored_fraction.low, found.result.explored_fraction.likely);
  EXPECT_GE(found.result.explored_fraction.high, found.result.explored_fraction.likely);
  // Units that were given away and hardly begun are as large as they were said to be.
  for (const std::uint32_t jobs : {2u, 4u, 8u})
    EXPECT_LT(check(front_end, {.jobs = jobs, .max_recoveries = 60}).result.explored_fraction.likely, 1e-4) << jobs;
  std::vector<double> seen;
  Hooks hooks;
  hooks.on_progress = [&](const result::Progress& progress) { seen.push_back(progress.fraction.likely); };
  for (const std::uint32_t jobs : {1u, 2u}) {
    check(front_end, {.jobs = jobs, .time_limit = std::chrono::seconds(1)}, hooks);
    ASSERT_GT(seen.size(), 3u);
    for (const double fraction : seen) EXPECT_LT(fraction, 0.05) << jobs;
  }
}

TEST(Search, StopsWhenInterruptedAndSaysSo) {
  DeviceFrontEnd front_end = independent(40);
  int asked = 0;
  Hooks hooks;
  hooks.is_interrupted = [&] { return ++asked > 3; };
  const Found found = check(front_end, {.jobs = 2}, hooks);
  EXPECT_EQ(found.result.verdict, Verdict::kBounded);
  EXPECT_EQ(found.result.bound, Bound::kInterrupt);
  EXPECT_GT(found.result.counts.recoveries, 0u);
  EXPECT_TRUE(found.rest);
}

// A worker that cannot do anything, and one that dies, are failures of ours, and nothing is verified.
TEST(Search, AWorkerThatIsGoneIsNoVerdict) {
  class Dying final : public search::FrontEnd {
   public:
    explicit Dying(bool says_why) : says_why_(says_why) {}
    search::RecordingFacts facts() const override { return front_end_.facts(); }
    std::vector<std::string> subjects() const override { return {"recovery"}; }
    tl::expected<std::unique_ptr<search::Worker>, search::Failure> start_worker(const search::WorkerSetup&) override {
      auto started = search::fork_worker([this](int socket) {
        if (says_why_) search::report_failure(socket, result::users_failure("there is no disk"));
      });
      usleep(50'000);  // it has ended by now
      return started;
    }
    std::string explain(std::size_t, const search::NarratedRun&) const override { return ""; }
    result::Token token(std::size_t) const override { return {}; }

   private:
    DeviceFrontEnd front_end_ = independent(3);
    bool says_why_;
  };
  for (const std::uint32_t jobs : {1u, 3u}) {
    Dying silent(false), telling(true);
    const auto failed = search::check(silent, {.jobs = jobs}, {});
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().blame, result::Blame::kTool);
    const auto told = search::check(telling, {.jobs = jobs}, {});
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().sentence, "there is no disk");
  }
}

// Ctrl-C goes to all processes of a terminal: workers wait for what the pool says. Who is killed leaves none behind.
TEST(Search, NoWorkerOutlivesTheSearch) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t searcher = fork();
  if (searcher == 0) {
    close(pipe_ends[0]);
    DeviceFrontEnd front_end = independent(60);
    (void)search::check(front_end, {.jobs = 3}, {});
    _exit(0);
  }
  close(pipe_ends[1]);
  usleep(300'000);
  kill(searcher, SIGKILL);
  waitpid(searcher, nullptr, 0);
  char byte;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);  // the end: nobody has the other side open
  close(pipe_ends[0]);
}

// Stopped at random again and again, with another number of jobs each time, and resumed from the text that is kept.
TEST(Search, GoesOnWhereItWasStopped) {
  const auto deep = [](CrashedDevice& device) {
    std::string found;
    for (int i = 0; i < 5; ++i) found += std::to_string(device.get(name_of(i)));
    for (int i = 0; i < 3; ++i) device.put(name_of(i), 2);
    return found == "11011" ? "bad " + found : found;
  };
  const Program program = [](DeviceRecording& device) {
    for (int i = 0; i < 5; ++i) device.put(name_of(i), 1);
  };
  DeviceFrontEnd front_end(program, deep);
  const Found whole = check(front_end, {.depth = 2, .wants_all = true});
  ASSERT_EQ(whole.result.counts.recoveries, 32u + 32 * 8);
  std::mt19937_64 random(1);
  for (int round = 0; round < 10; ++round) {
    std::optional<search::Rest> rest;
    Found found;
    int stops = 0;
    do {
      const Plan plan{.depth = 2,
                      .jobs = static_cast<std::uint32_t>(1 + random() % 3),
                      .max_recoveries = 10 + random() % 80,
                      .wants_all = true};
      found = check(front_end, plan, {}, rest ? &*rest : nullptr);
      rest.reset();
      if (found.rest) {
        auto read = search::decode_rest(search::encode(*found.rest));
        ASSERT_TRUE(read) << read.error();
        rest = std::move(*read);
      }
      ASSERT_LT(++stops, 200);
    } while (rest);
    EXPECT_GT(stops, 2);
    EXPECT_EQ(found.result.verdict, Verdict::kViolation);
    EXPECT_EQ(found.result.bound, Bound::kNone);
    EXPECT_EQ(outcomes(found), outcomes(whole));
    EXPECT_EQ(found.result.counts.recoveries, whole.result.counts.recoveries);
    EXPECT_EQ(found.result.token, whole.result.token);
  }
}

TEST(Search, RefusesTheRestOfAnotherRecording) {
  DeviceFrontEnd front_end = independent(20), other = independent(21);
  const Found found = check(front_end, {.max_recoveries = 10});
  ASSERT_TRUE(found.rest);
  const auto refused = search::check(other, {}, {}, &*found.rest);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().blame, result::Blame::kUser);
}

TEST(Search, SurvivesForgedRests) {
  DeviceFrontEnd front_end = independent(20);
  const std::string good = search::encode(*check(front_end, {.max_recoveries = 10}).rest);
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string forged = good;
    forged[random() % forged.size()] = static_cast<char>(random());
    EXPECT_EQ(search::decode_rest(forged).has_value(), forged == good);
    EXPECT_FALSE(search::decode_rest(good.substr(0, random() % good.size())));
  }
}

// A search that was cut short drops what is not needed of the violation that it found.
TEST(Search, MinimisesWhatItFound) {
  DeviceFrontEnd front_end(
      [](DeviceRecording& device) {
        for (int i = 0; i < 30; ++i) device.put(name_of(i), 1);
        device.put("sum", 1);
      },
      [](CrashedDevice& device) -> std::string {
        persist::Value count = 0;
        for (int i = 0; i < 30; ++i) count += device.get(name_of(i));
        return device.get("sum") == 1 && count < 30 ? "bad sum" : "";
      });
  const Found found = check(front_end, {.max_recoveries = 50});
  ASSERT_TRUE(found.result.counterexample);
  EXPECT_TRUE(found.result.counterexample->is_smallest);
  EXPECT_EQ(found.result.counterexample->story.crashes[0].persisted.size(), 1u);
}

TEST(Search, ReplaysByToken) {
  DeviceFrontEnd front_end = saved(false);
  const Found found = check(front_end);
  const auto token = result::decode(found.result.token);
  ASSERT_TRUE(token) << token.error();
  const auto replayed = search::replay(front_end, *token, 0);
  ASSERT_TRUE(replayed) << replayed.error().sentence;
  EXPECT_TRUE(replayed->is_violation);
  EXPECT_EQ(replayed->told.finding.text, "bad record");
  DeviceFrontEnd other = saved(true);
  const auto refused = search::replay(other, *token, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().blame, result::Blame::kUser);
}

TEST(Search, ReplaysASecondCrashByToken) {
  DeviceFrontEnd front_end = moved(false);
  const auto token = result::decode(check(front_end, {.depth = 2}).result.token);
  ASSERT_TRUE(token) << token.error();
  const auto replayed = search::replay(front_end, *token, 0);
  ASSERT_TRUE(replayed) << replayed.error().sentence;
  EXPECT_TRUE(replayed->is_violation);
}

TEST(Search, ReportsAsTextJsonAndJUnit) {
  DeviceFrontEnd front_end = saved(false);
  Found found = check(front_end);
  found.result.head.command = "device";
  found.result.head.program = {"saved"};
  const std::string text = result::violation_text(found.result, result::Detail::kAll);
  EXPECT_NE(text.find("violation (bad state): a crash can leave a bad record"), std::string::npos) << text;
  EXPECT_NE(text.find("put(sum, 7)"), std::string::npos) << text;
  EXPECT_NE(result::end_text(found.result, "crashcut").find("violation: 1 of 3 recoveries failed: 1 bad state"),
            std::string::npos);
  const auto json = nlohmann::json::parse(result::json_text(found.result, "crashcut"));
  EXPECT_EQ(json["verdict"], "violation");
  EXPECT_EQ(json["counts"]["recoveries"], 3);
  EXPECT_EQ(json["violations"][0]["text"], "bad record");
  const std::string junit = result::junit_text(found.result, "crashcut");
  EXPECT_NE(junit.find("tests=\"1\""), std::string::npos) << junit;
  EXPECT_NE(junit.find("failures=\"1\""), std::string::npos) << junit;
}

// What an earlier search found is tried first, so that a search with too small a budget finds it again.
TEST(Search, TriesKnownViolationsFirst) {
  const Program program = [](DeviceRecording& device) {
    for (int i = 0; i < 16; ++i) device.put(name_of(i), 1);
  };
  DeviceFrontEnd front_end(program, [](CrashedDevice& device) -> std::string {
    std::string found;
    for (int i = 0; i < 16; ++i) found += std::to_string(device.get(name_of(i)));
    return found == "0101011010010101" ? "bad " + found : "";
  });
  const Found whole = check(front_end, {.jobs = 2, .wants_all = true});
  ASSERT_EQ(whole.result.verdict, Verdict::kViolation);
  Plan few{.max_recoveries = 10};
  EXPECT_EQ(check(front_end, few).result.verdict, Verdict::kBounded);
  few.known = {*result::decode(whole.result.token)};
  const Found again = check(front_end, few);
  EXPECT_EQ(again.result.verdict, Verdict::kViolation);
  EXPECT_EQ(again.result.counts.violations, 1u);
  // A whole search counts it once.
  EXPECT_EQ(check(front_end, {.known = few.known}).result.counts.violations, 1u);
  // Of another recording it means nothing.
  DeviceFrontEnd other = independent(17);
  EXPECT_EQ(check(other, few).result.verdict, Verdict::kBounded);
}

// A recovery that depends on something else is no ground for a verdict.
TEST(Search, SaysThatARecoveryIsNotDeterministic) {
  DeviceFrontEnd front_end([](DeviceRecording& device) { device.put("a", 1); },
                           [count = 0](CrashedDevice&) mutable { return std::to_string(count++); });
  const auto found = search::check(front_end, {}, {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().blame, result::Blame::kUser);
  EXPECT_NE(found.error().sentence.find("Recovery is not deterministic"), std::string::npos) << found.error().sentence;
}

// Every number of jobs, stops and resumptions against the tree explored in one go, on random devices.
TEST(Search, AgreesWithATreeThatIsNotSharedOut) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t seed = random();
    DeviceFrontEnd front_end(
        [=](DeviceRecording& device) {
          std::mt19937_64 own(seed);
          for (int i = 0; i < 8; ++i) own() % 5 == 0 ? device.flush() : device.put(name_of(own() % 3), own() % 3);
        },
        [=](CrashedDevice& device) {
          std::mt19937_64 own(seed + 1);
          std::string found;
          for (int i = 0; i < 3; ++i) {
            found += std::to_string(device.get(name_of(own() % 3)));
            if (found.back() == '2') device.put(name_of(own() % 3), 4);
          }
          return found;
        });
    // By hand: one tree in this process, each leaf's recording crashed again.
    std::map<std::string, std::uint64_t> expected;
    const Recovery recovery = front_end.recovery();
    DeviceRecoverer recoverer(recovery);
    persist::ChoiceTree tree;
    do {
      persist::Cut cut(front_end.recording().log);
      const search::Crash crash{&front_end.recording(), &cut};
      std::shared_ptr<const persist::Recording> next;
      tree.begin_run();
      ++expected[recoverer.recover(0, {&crash, 1}, tree, &next).outcome];
      persist::ChoiceTree lower;
      do {
        if (next->log.event_count() == 0) break;
        persist::Cut first = cut, second(next->log);
        const search::Crash both[] = {{&front_end.recording(), &first}, {next.get(), &second}};
        lower.begin_run();
        ++expected[recoverer.recover(0, both, lower, nullptr).outcome];
      } while (lower.advance());
    } while (tree.advance());
    std::optional<search::Rest> rest;
    Found found;
    do {
      const bool is_stopped = random() % 2 == 0;
      found = check(front_end,
                    {.depth = 2,
                     .jobs = static_cast<std::uint32_t>(1 + random() % 3),
                     .max_recoveries = is_stopped ? 2 + random() % 10 : 0,
                     .seed = seed},
                    {}, rest ? &*rest : nullptr);
      rest = std::move(found.rest);
    } while (rest);
    EXPECT_EQ(outcomes(found), expected) << seed;
  }
}

}  // namespace
}  // namespace crashcut::tests
