// Choices: what makes two recoveries differ, and the tree of all choices.
//
// A recovery is a function of the answers that a Chooser gives. The tree explores every sequence of answers
//   exactly once, depth first: run, advance(), run, ... until advance() says that nothing is left.
//
// Invariants: (1) a run that answers the same choices the same way meets the same next choice (recoveries are
//   deterministic; ChoiceTree::run_diverged() says when one was not); (2) no sequence is run twice.
// Threads: a tree belongs to one thread; split() hands part of it to another.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "persist/branch_sizes.h"
#include "persist/estimate.h"
#include "persist/log.h"

namespace crashcut::persist {

// The location that a candidate's writes went to: the location that is read, or another one that had the same place on
// the medium later, or earlier.
enum class Origin : std::uint8_t { kHere, kLater, kEarlier };

// A run of neighbouring writes of one location that recovery cannot tell apart, as indices into its history;
// first is -1 if the run begins with the value that the location had before this log.
struct Candidate {
  std::int32_t first;
  std::int32_t last;
  Value value;
  LocationId location;  // the location whose history it is
  Origin origin = Origin::kHere;
  LayerId layer = 0;  // the log of the location, in a stack of logs (persist/cut_stack.h)
};

// A short description of a point of choice. Points with different descriptions are different points.
struct Question {
  std::uint32_t count;      // of candidates
  std::uint32_t asked = 0;  // a hash of the location and of which of its writes are candidates; 0 if not known
};

// One point of choice, at least two candidates, newest first.
struct Choice {
  const Log& log;  // of the location that is read; candidates of other layers are of other logs
  LocationId location;
  std::span<const Candidate> candidates;
  LayerId layer = 0;  // of the location that is read

  Question question() const;
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // The index of the candidate to take.
  virtual std::uint32_t choose(const Choice& choice) = 0;
};

// The answers of one recovery, in order.
using Path = std::vector<std::uint32_t>;

// What is still to be explored of a tree: everything below a path; or a path, kRestFollows and what
// ChoiceTree::to_numbers() says of a tree below it of which a part is explored. The second form is for what an
// exploration that was stopped had left: as paths, that would be one for each open answer, which is the square of the
// number of choices.
using Part = std::vector<std::uint32_t>;
inline constexpr std::uint32_t kRestFollows = 0xfffffffe;  // no answer
struct PartialTree {
  Path path;
  std::span<const std::uint32_t> rest;  // numbers of the part; none in the first form
};
PartialTree read_part(const Part& part);
// Whether somebody can have made it: one from a file may be anything.
bool is_part(const Part& part);
// The same as paths, for a tree whose choices get more answers meanwhile: a path knows nothing of how many there are.
// No two of them have a sequence in common.
std::vector<Path> paths_of(const Part& part);

// "0.2.1", and back. An empty path is "-". Returns false if the text is not a path.
std::string to_text(const Path& path);
bool from_text(std::string_view text, Path& path);

// The order in which the answers to a choice are tried: from the first to the last, or from another one to the last and
// then from the first on. The seed picks that other one anew for each choice. Every order explores the same sequences.
// If a bound ends the search, another seed has explored another part.
class AnswerOrder {
 public:
  // Seed 0: from the first to the last.
  explicit AnswerOrder(std::uint64_t seed = 0) : seed_(seed) {}

  // The answer that is tried as number `position` at a choice of `count` answers, and the reverse. `asked` is that of
  // its Question: the order does not depend on where a run begins to count its choices.
  std::uint32_t answer_at(std::uint32_t asked, std::uint32_t position, std::uint32_t count) const {
    return static_cast<std::uint32_t>((first(asked, count) + position) % count);
  }
  std::uint32_t position_of(std::uint32_t asked, std::uint32_t answer, std::uint32_t count) const {
    return static_cast<std::uint32_t>((count - first(asked, count) + answer) % count);
  }
  std::uint64_t seed() const { return seed_; }

 private:
  std::uint64_t first(std::uint32_t asked, std::uint32_t count) const;

  std::uint64_t seed_;
};

// Depth-first exploration of the tree of choices below a prefix.
//
// Estimates assume that an unexplored branch is like its explored siblings, or like branches of the same answer
// elsewhere (branch_sizes.h).
class ChoiceTree final : public Chooser {
 public:
  // The tree below `prefix`, from the sequence prefix + `start` on: the sequences that an exploration in this order
  // runs before that one count as explored. So ChoiceTree({}, path) continues where another tree stopped.
  explicit ChoiceTree(const Path& prefix = {}, const Path& start = {}, AnswerOrder order = AnswerOrder());

  // Call before each run.
  void begin_run() {
    depth_ = 0;
    diverged_ = false;
    is_standing_ = false;
    known_length_ = nodes_.size();
  }
  // Instead of advance(): the run was stopped, and has to be run again.
  void abandon_run() {
    nodes_.resize(known_length_);
    is_standing_ = run_count_ > 0;
  }
  std::uint32_t choose(const Choice& choice) override { return choose_among(choice.question()); }
  std::uint32_t choose_among(const Question& question);
  // After a run: moves to the next unexplored sequence; false if none is left below the prefix. `weight` is how much
  // the run counts in estimates: itself and the runs that hang below it.
  bool advance(double weight = 1);

  // The answers of the run that just ended; if it diverged, the answers that it should have given. After advance(),
  // the known part of the next run.
  Path path() const;
  // Whether the last run met fewer choices, or other ones, than the sequence that it should have followed. Ask before
  // advance(). Do not advance a tree whose run diverged.
  bool run_diverged() const { return diverged_ || depth_ < nodes_.size(); }

  // Gives away half of the unexplored branches nearest to the root, as prefixes for other trees; none if nothing is
  // left. Call it between advance() and the end of the next run.
  struct Split {
    std::vector<Path> prefixes;
    Estimate each;  // the runs below each of them
  };
  Split split();
  // For each choice of the path at which the tree stands: how many of its answers are still to come after the one that
  // is taken.
  std::vector<std::uint32_t> open_answers() const;
  // Gives away everything below the first `depth` choices of the path at which the tree stands, that path included: the
  // other tree counts its choices from there. For this tree a run has ended there; advance() it. Call it between
  // advance() and the end of the next run.
  ChoiceTree take_below(std::size_t depth);
  // The same tree, with `before` as the answers before its own.
  ChoiceTree after(const Path& before) const;
  // All that is left, the sequence at which this tree stands included, as a part of the tree that has `before` as the
  // answers before this tree's own. Call it between advance() and the end of the next run, or after abandon_run().
  Part left(const Path& before = {}) const;
  std::vector<Path> left_paths() const;

  // What is explored and what is left, between two runs, as numbers, and back: for a process that takes the tree over.
  // What estimates need is left out: the new tree estimates as if it began with its next run.
  std::vector<std::uint32_t> to_numbers() const;
  static ChoiceTree from_numbers(std::span<const std::uint32_t> numbers);
  // Whether to_numbers() of a tree that has run can have made them.
  static bool are_numbers(std::span<const std::uint32_t> numbers);

  AnswerOrder order() const { return order_; }
  // Whether advance() said that nothing is left.
  bool done() const { return run_count_ > 0 && nodes_.size() == prefix_length_; }
  std::uint64_t run_count() const { return run_count_; }
  // The weight of all runs so far.
  double weight_done() const;
  // The weight of all runs of this tree, those so far and those to come. `open` is the weight of the run at which the
  // tree stands, if more is known about it.
  Estimate estimate(Estimate open = {}) const;
  // The part of the tree that is explored, 0 to 1, by the likely estimate. 0 only before the first run.
  double explored_fraction() const;
  // How many runs are still to come, by the likely estimate.
  double estimated_runs_left() const;

 private:
  struct Node {
    std::uint32_t taken;  // position in the order; the answer itself in the prefix, and until a run has met the choice
    std::uint32_t end;    // one past the last answer that this tree explores; unused in the prefix
    std::uint32_t count;  // how many answers the choice has; 0 until a run has met the choice
    std::uint32_t asked;  // as in Question
    std::uint32_t begin = 0;  // the first position that this tree explores
    double done = 0;          // the weight of the answers that were explored
    double size = 0;          // the same, with what was given away below them, by its estimate
    double given = 0;         // the estimate of answers that were given away
    double first = 0;         // the size of the first answer that was explored
  };

  std::uint32_t answer_of(std::size_t depth) const;
  void meet(std::size_t depth, const Question& question);
  // The weight of what this tree explores, and the same with what it gave away.
  struct Weights {
    double own, whole;
  };
  double estimate_answer(const Node& node, double open) const;
  Weights estimate_below(std::size_t depth, double open) const;
  bool is_met(std::size_t depth) const { return depth >= prefix_length_ && nodes_[depth].count != 0; }

  AnswerOrder order_;
  BranchSizes sizes_;
  std::vector<Node> nodes_;
  std::size_t prefix_length_;
  std::size_t known_length_ = 0;  // of nodes_, when the run began
  std::size_t depth_ = 0;
  bool diverged_ = false;
  std::uint64_t run_count_ = 0;
  double done_ = 0;           // the weight of runs that met no choice below the prefix
  bool is_standing_ = false;  // before a run, between advance() and begin_run()
};

}  // namespace crashcut::persist
