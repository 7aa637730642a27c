// Choices: what made two recoveries differ, and the tree of them.
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

#include "persist/log.h"

namespace crashcut::persist {

// Where a candidate's writes went: to the location that is read, or to another one that shares its place on the medium
// and was in use later, or earlier.
enum class Origin : std::uint8_t { kHere, kLater, kEarlier };

// A run of neighbouring writes of one location that recovery cannot tell apart, as indices into its history;
// first is -1 where the run begins with the initial value.
struct Candidate {
  std::int32_t first;
  std::int32_t last;
  Value value;
  LocationId location;  // whose history it is
  Origin origin = Origin::kHere;
};

// What a point of choice looks like, in short: where two differ, they are not the same point.
struct Question {
  std::uint32_t count;      // of candidates
  std::uint32_t asked = 0;  // a hash of the location and of which of its writes are candidates; 0 where not told
};

// One point of choice, at least two candidates, newest first.
struct Choice {
  const Log& log;
  LocationId location;
  std::span<const Candidate> candidates;

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

// "0.2.1", and back. An empty path is "-". Returns false where the text is not a path.
std::string to_text(const Path& path);
bool from_text(std::string_view text, Path& path);

// In which order the answers to a choice are tried: as they stand, or round from another one on, which the seed picks
// anew for each choice. Every order explores the same sequences; where a bound ends the search, another seed has
// explored another part.
class AnswerOrder {
 public:
  // 0: as they stand.
  explicit AnswerOrder(std::uint64_t seed = 0) : seed_(seed) {}

  // Of the choice number `depth` of a run, among `count` answers.
  std::uint32_t answer_at(std::size_t depth, std::uint32_t position, std::uint32_t count) const {
    return static_cast<std::uint32_t>((first(depth, count) + position) % count);
  }
  std::uint32_t position_of(std::size_t depth, std::uint32_t answer, std::uint32_t count) const {
    return static_cast<std::uint32_t>((count - first(depth, count) + answer) % count);
  }
  std::uint64_t seed() const { return seed_; }

 private:
  std::uint64_t first(std::size_t depth, std::uint32_t count) const;

  std::uint64_t seed_;
};

// Depth-first exploration of the tree of choices below a prefix.
class ChoiceTree final : public Chooser {
 public:
  // Below `prefix`, from the sequence prefix + `start` on: what an exploration in this order would have run
  // before it counts as explored. So ChoiceTree({}, path) takes up where another one stopped.
  explicit ChoiceTree(const Path& prefix = {}, const Path& start = {}, AnswerOrder order = AnswerOrder());

  // Call before each run.
  void begin_run() {
    depth_ = 0;
    diverged_ = false;
  }
  std::uint32_t choose(const Choice& choice) override { return choose_among(choice.question()); }
  std::uint32_t choose_among(const Question& question);
  // After a run: moves on to the next unexplored sequence; false when none is left below the prefix.
  bool advance();

  // The answers of the run that just ended, or that it was to give where it diverged (after advance(), the known
  // part of the next).
  Path path() const;
  // Whether the last run met fewer choices, or others, than the sequence it was to follow. Ask before advance();
  // a tree that diverged has lost its way, and is not to be advanced.
  bool run_diverged() const { return diverged_ || depth_ < nodes_.size(); }

  // Gives away the unexplored half nearest to the root: the prefixes of it, for other trees. Empty when there
  // is nothing to give. Call after advance() returned true.
  std::vector<Path> split();
  // The part of the whole, by the same estimate as explored_fraction(), that split() would give away now.
  double split_share() const;

  // All that the tree is between two runs, as numbers, and back: for a process that takes it over.
  std::vector<std::uint32_t> to_numbers() const;
  static ChoiceTree from_numbers(std::span<const std::uint32_t> numbers);

  // Whether advance() said that nothing is left.
  bool done() const { return run_count_ > 0 && nodes_.size() == prefix_length_; }
  std::uint64_t run_count() const { return run_count_; }
  // The part of the tree explored so far, 0 to 1, if all subtrees of a node were of equal size. 0 before the first
  // run only.
  double explored_fraction() const;
  // How many runs are still to come, if the rest of the tree is like the explored part.
  double estimated_runs_left() const;

 private:
  struct Node {
    std::uint32_t taken;  // position in the order; the answer itself in the prefix, and where no run has met it yet
    std::uint32_t end;    // one past the last answer that is ours to explore; of no use in the prefix
    std::uint32_t count;  // how many answers the choice has; 0 where no run has met it yet
    std::uint32_t asked;  // as in Question
  };

  std::uint32_t answer_of(std::size_t depth) const;
  void meet(std::size_t depth, std::uint32_t count);
  double explored_so_far() const;

  AnswerOrder order_;
  std::vector<Node> nodes_;
  std::size_t prefix_length_;
  std::size_t depth_ = 0;
  bool diverged_ = false;
  std::uint64_t run_count_ = 0;
  double start_fraction_ = 0;  // what counted as explored before the first run
};

}  // namespace crashcut::persist
