// How far estimates are from the truth: 20 complete trees of recoveries and 12 of schedules, at 1, 10 and 50% of the
// work.
//
// It prints a row a tree. It fails if the median at 10% is further off than a factor of 2, if the truth lies in the
// range of fewer than four of five trees at 10%, or if an estimate ever says that half is done of what is less than a
// millionth. Nothing here depends on the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "persist/cut.h"
#include "persist/explore.h"
#include "tests/bench/thread_trees.h"

namespace {

using namespace crashcut::persist;

// A log, and a recovery that reads it.
struct Tree {
  std::string name;
  std::function<void(Log&, std::vector<LocationId>&)> record;
  std::function<void(Cut&, ChoiceTree&, const std::vector<LocationId>&)> recover;
};

void read_all(Cut& cut, ChoiceTree& tree, const std::vector<LocationId>& locations) {
  for (const LocationId at : locations) cut.read(at, tree);
}
void read_backwards(Cut& cut, ChoiceTree& tree, const std::vector<LocationId>& locations) {
  for (std::size_t i = locations.size(); i > 0; --i) cut.read(locations[i - 1], tree);
}
// Stops at the first thing that is not there, as many recoveries do.
void read_until_missing(Cut& cut, ChoiceTree& tree, const std::vector<LocationId>& locations) {
  for (const LocationId at : locations) {
    if (cut.read(at, tree) == 0) return;
  }
}
// The first says how many of the others are looked at.
void read_as_told(Cut& cut, ChoiceTree& tree, const std::vector<LocationId>& locations) {
  const Value count = cut.read(locations[0], tree);
  for (std::size_t i = 1; i < locations.size() && i <= 3 + 3 * count; ++i) cut.read(locations[i], tree);
}

// `count` locations, each written `writes` times: unordered, in one order, or behind each other in groups.
enum class Order { kNone, kChained, kGroups, kJournal };
auto writes(std::size_t count, Value times, Order order, std::size_t group = 4) {
  return [=](Log& log, std::vector<LocationId>& locations) {
    for (std::size_t i = 0; i < count; ++i) locations.push_back(log.add_location(0));
    EventId before = kNoEvent;
    for (Value value = 1; value <= times; ++value) {
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<EventId> after;
        if (order == Order::kChained && log.last_write(locations[i]) != kNoEvent)
          after.push_back(log.last_write(locations[i]));
        if (order == Order::kGroups && i % group != 0) after.push_back(before);
        if (order == Order::kJournal && before != kNoEvent && i % group == 0) after.push_back(before);
        const EventId event = log.add_event(0, std::vector{Write{locations[i], value}}, after);
        if (order != Order::kJournal || i % group == 0) before = event;
      }
    }
  };
}

auto random_writes(std::uint64_t seed, std::size_t count, std::size_t events) {
  return [=](Log& log, std::vector<LocationId>& locations) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < count; ++i) locations.push_back(log.add_location(0));
    for (std::size_t e = 0; e < events; ++e) {
      std::vector<EventId> after;
      for (std::size_t k = 0; e > 0 && k < 2; ++k) {
        if (random() % 3 == 0) after.push_back(static_cast<EventId>(random() % e));
      }
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      const std::vector<Write> written{Write{locations[random() % count], 1 + random() % 3}};
      random() % 8 == 0 ? log.add_barrier(0, written, after) : log.add_event(0, written, after);
    }
  };
}

const Tree kTrees[] = {
    {"16 files, independent", writes(16, 1, Order::kNone), read_all},
    {"7 sectors, 3 writes each", writes(7, 3, Order::kNone), read_all},
    {"8 sectors, 3 writes in order", writes(8, 3, Order::kChained), read_all},
    {"the same, read backwards", writes(8, 3, Order::kChained), read_backwards},
    {"24 in chains of 4", writes(24, 1, Order::kGroups), read_all},
    {"the same, read backwards", writes(24, 1, Order::kGroups), read_backwards},
    {"30 in chains of 6", writes(30, 1, Order::kGroups, 6), read_all},
    {"24 and a journal", writes(24, 1, Order::kJournal), read_all},
    {"the same, read backwards", writes(24, 1, Order::kJournal), read_backwards},
    {"until one is missing", writes(2000, 1, Order::kNone), read_until_missing},
    {"10 times 2, until one is missing", writes(12, 2, Order::kNone), read_until_missing},
    {"as the first says", writes(10, 3, Order::kNone), read_as_told},
    {"as the first says, in order", writes(10, 3, Order::kChained), read_as_told},
    {"random 1", random_writes(1, 14, 50), read_all},
    {"random 2", random_writes(2, 14, 50), read_all},
    {"random 3", random_writes(3, 12, 60), read_backwards},
    {"random 4", random_writes(4, 12, 50), read_all},
    {"random 5", random_writes(5, 12, 60), read_all},
    {"random 6", random_writes(6, 13, 60), read_backwards},
    {"random 7", random_writes(7, 14, 40), read_all},
};

double factor(double a, double b) { return std::max(a / b, b / a); }

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return (of[(of.size() - 1) / 2] + of[of.size() / 2]) / 2;
}

struct Seen {
  Estimate at[3];
  double truth = 0;
  double boldest = 0;  // the largest share said to be done of what was less than a millionth
};

Seen explore(const Tree& tree) {
  Log log;
  std::vector<LocationId> locations;
  tree.record(log, locations);
  log.seal();
  Cut cut(log);
  const auto run = [&](ChoiceTree& choices) {
    cut.reset();
    choices.begin_run();
    tree.recover(cut, choices, locations);
  };
  Seen seen;
  std::uint64_t count = 0;
  ChoiceTree first;
  do {
    run(first);
    if (++count > 4'000'000) {
      fmt::print("FAILED: {} is too large to be complete here\n", tree.name);
      std::exit(1);
    }
  } while (first.advance());
  seen.truth = static_cast<double>(count);
  const double shares[] = {0.01, 0.1, 0.5};
  ChoiceTree again;
  std::size_t next = 0;
  do {
    run(again);
    const double done = again.weight_done() + 1;
    if (done / seen.truth < 1e-6) seen.boldest = std::max(seen.boldest, done / again.estimate().likely);
    if (next < 3 && done >= shares[next] * seen.truth) seen.at[next++] = again.estimate();
  } while (next < 3 && again.advance());
  return seen;
}

Seen explore(const crashcut::tests::ThreadTree& tree) {
  const std::vector<Estimate> all = crashcut::tests::estimate_all(tree);
  Seen seen;
  seen.truth = static_cast<double>(all.size());
  const double shares[] = {0.01, 0.1, 0.5};
  for (int i = 0; i < 3; ++i)
    seen.at[i] = all[std::min(all.size() - 1, static_cast<std::size_t>(std::ceil(shares[i] * seen.truth)) - 1)];
  return seen;
}

// 26 independent files, of which a search sees a millionth at most.
double boldest_of_many() {
  Log log;
  std::vector<LocationId> locations;
  writes(26, 3, Order::kNone)(log, locations);
  log.seal();
  Cut cut(log);
  ChoiceTree tree;
  double boldest = 0;
  for (int i = 0; i < 200'000; ++i) {
    cut.reset();
    tree.begin_run();
    read_all(cut, tree, locations);
    boldest = std::max(boldest, (tree.weight_done() + 1) / tree.estimate().likely);
    tree.advance();
  }
  return boldest;
}

// The rows of trees of one kind; false where their estimates are further off than they may be.
template <class Trees>
bool print_rows(const Trees& trees, double& boldest) {
  std::vector<double> factors[3];
  int within[3] = {};
  for (const auto& tree : trees) {
    const Seen seen = explore(tree);
    boldest = std::max(boldest, seen.boldest);
    fmt::print("{:<34} {:>9}  ", tree.name, seen.truth);
    for (int i = 0; i < 3; ++i) {
      const Estimate& at = seen.at[i];
      factors[i].push_back(factor(at.likely, seen.truth));
      within[i] += at.low <= seen.truth && seen.truth <= at.high;
      fmt::print(" {:<28}", fmt::format("x{:.2f} ({:.2f} to {:.2f})", at.likely / seen.truth, at.low / seen.truth,
                                        at.high / seen.truth));
    }
    fmt::print("\n");
  }
  fmt::print("{:<34} {:>9}  ", "median factor off, in range", "");
  for (int i = 0; i < 3; ++i)
    fmt::print(" {:<28}", fmt::format("{:.2f}, {} of {}", median(factors[i]), within[i], factors[i].size()));
  fmt::print("\n");
  return median(factors[1]) <= 2 && within[1] * 5 >= static_cast<int>(factors[1].size()) * 4;
}

}  // namespace

// `estimate_bench schedules`: those of schedules alone, which are quick.
int main(int count, char**) {
  fmt::print("{:<34} {:>9}   {:<28} {:<28} {:<28}\n", "tree", "leaves", "at 1%", "at 10%", "at 50%");
  double boldest = count > 1 ? 0 : boldest_of_many();
  bool is_good = count > 1 || print_rows(kTrees, boldest);
  is_good = print_rows(crashcut::tests::thread_trees(), boldest) && is_good;
  fmt::print("the largest part that was said to be done of less than a millionth: {:.2g}\n", boldest);
  is_good = is_good && boldest < 0.5;
  if (!is_good)
    fmt::print(
        "FAILED: at 10% the median must be within a factor of 2 and 16 truths in their ranges; a millionth is no "
        "half\n");
  return is_good ? 0 : 1;
}
