// Explorer: recoveries on the crash states of one recording, of one question at a time.
//
// A recovery decides what it reads and nothing else; ChoiceTree makes sure that no two see the same. With depth 2 what
//   a recovery wrote is recorded on top of the state, and crashed in turn: below each recovery hangs a tree of its own.
// A unit of work is a part of the tree: the answers of the crashes above, whole, and either the first answers of the
//   last one or what is left of its tree. What is left of a unit that was stopped, and what is given away of one, are
//   units again.
// Threads: one explorer belongs to one thread; the recording may be shared.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "persist/choices.h"
#include "persist/cut.h"
#include "recovery/search/front_end.h"

namespace crashcut::search {

// Parts of a unit that another worker can explore, and how many recoveries each is likely to have.
struct Given {
  std::vector<persist::Path> prefixes;
  persist::Estimate each;
};

class Explorer {
 public:
  struct Setup {
    const persist::Recording& recording;
    Recoverer& recoverer;
    std::uint32_t depth = 1;
    std::uint64_t seed = 0;
    std::function<bool()> is_enough = [] { return false; };  // asked before each recovery
    // After each recovery that counts, with the crashes that it was run on.
    std::function<void(const Run&, std::span<const Crash>)> on_run = [](const Run&, std::span<const Crash>) {};
  };
  explicit Explorer(Setup setup) : setup_(std::move(setup)) {}

  // All recoveries of the part. Returns what is left where it was stopped, none where the unit is done. A recovery
  // that diverged, or that could not be run, ends it too, and leaves nothing that could be gone on with.
  std::vector<persist::Part> explore(std::size_t question, const persist::Part& part);

  // Within on_run(): gives away a part of the unit.
  Given give_away();
  // Of the unit, within on_run() and after it was stopped: all of its recoveries, and those so far.
  persist::Estimate estimate() const;
  double done() const { return done_; }
  // Whether it ended without being done or stopped.
  bool is_broken() const { return is_broken_; }

  // The recovery of one path, with its story. A brief one has, of operations, only how many of their events persisted,
  // and no files.
  NarratedRun tell(std::size_t question, const std::vector<std::uint32_t>& path, bool is_brief);
  // The same, with the crashes that it was run on.
  void visit(std::size_t question, const std::vector<std::uint32_t>& path,
             const std::function<void(const Run&, std::span<const Crash>)>& visitor);
  // One recovery on the first crash by any chooser: a sample. Its path is what was chosen.
  Run sample(std::size_t question, persist::Chooser& chooser);
  // What the last sample was run on.
  std::span<const Crash> sampled() const { return {&sample_crash_, 1}; }
  // The recovery on the cut that holds exactly `events`, less `drop` and all above it.
  Run run_cut(std::size_t question, const std::vector<std::uint32_t>& events, std::uint32_t drop);

 private:
  class Crashes;
  struct Level {
    persist::ChoiceTree* tree;
    persist::Path base;  // the path of the crashes above
  };
  struct Followed;
  Followed follow(std::size_t question, std::span<const std::uint32_t> path, bool records_last);
  Run recover(std::size_t question, std::span<const Crash> crashes, persist::Chooser& chooser,
              std::shared_ptr<const persist::Recording>* next);
  bool explore_level(std::size_t question, Crashes& crashes, const persist::Path& base, persist::ChoiceTree& tree);
  static void keep(const persist::Path& base, const std::vector<persist::Path>& prefixes,
                   std::vector<persist::Path>& to);

  Setup setup_;
  std::vector<Level> levels_;        // of the unit, the first crash first
  std::vector<persist::Part> left_;  // of the unit
  double done_ = 0;                  // recoveries of the unit
  persist::Estimate size_at_stop_;
  bool is_broken_ = false;
  std::optional<persist::Cut> sample_cut_;
  Crash sample_crash_{};
};

}  // namespace crashcut::search
