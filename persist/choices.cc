#include "persist/choices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include "persist/check.h"
#include "persist/hash.h"

namespace crashcut::persist {

// Most trees of recoveries are not deeper: their nodes are allocated once.
static constexpr std::size_t kUsualDepth = 8;
// Trees of fewer runs learn nothing about their branches. They end before an estimate is asked for.
static constexpr std::uint64_t kLearningRuns = 8;

std::string to_text(const Path& path) {
  if (path.empty()) return "-";
  std::string text;
  for (std::uint32_t answer : path) {
    if (!text.empty()) text += '.';
    text += std::to_string(answer);
  }
  return text;
}

bool from_text(std::string_view text, Path& path) {
  path.clear();
  if (text == "-") return true;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (true) {
    std::uint32_t answer = 0;
    const auto [rest, error] = std::from_chars(at, end, answer);
    if (error != std::errc{}) return false;
    path.push_back(answer);
    if (rest == end) return true;
    if (*rest != '.') return false;
    at = rest + 1;
  }
}

Question Choice::question() const {
  // The log determines the values, so the indices of the writes are enough.
  std::uint64_t hash = mix(kHashStart, location);
  for (const Candidate& candidate : candidates) {
    hash = mix(hash, std::uint64_t{static_cast<std::uint32_t>(candidate.first)} << 32 |
                         static_cast<std::uint32_t>(candidate.last));
    if (candidate.origin != Origin::kHere) hash = mix(hash, candidate.location);
    if (candidate.layer != layer) hash = mix(hash, std::uint64_t{candidate.layer} << 32 | candidate.location);
  }
  const auto folded = static_cast<std::uint32_t>(hash ^ hash >> 32);
  return Question{static_cast<std::uint32_t>(candidates.size()), folded == 0 ? 1 : folded};
}

std::uint64_t AnswerOrder::first(std::uint32_t asked, std::uint32_t count) const {
  return seed_ == 0 ? 0 : mix(mix(kHashStart, seed_), asked) % count;
}

ChoiceTree::ChoiceTree(const Path& prefix, const Path& start, AnswerOrder order)
    : order_(order), prefix_length_(prefix.size()) {
  nodes_.reserve(prefix.size() + start.size() + kUsualDepth);
  // The first run tells how many answers these choices have.
  for (std::uint32_t answer : prefix) nodes_.push_back(Node{answer, 0, 0, 0});
  for (std::uint32_t answer : start) nodes_.push_back(Node{answer, 0, 0, 0});
}

std::uint32_t ChoiceTree::choose_among(const Question& question) {
  const std::uint32_t count = question.count;
  CHECK(count > 1);
  if (diverged_) return 0;  // a run that diverged adds nothing to the tree
  if (depth_ == nodes_.size()) nodes_.push_back(Node{0, count, count, question.asked});
  const std::size_t depth = depth_++;
  if (nodes_[depth].count == 0) meet(depth, question);
  const Node& node = nodes_[depth];
  if (node.count == count && node.asked == question.asked && node.taken < count) return answer_of(depth);
  diverged_ = true;
  return 0;
}

void ChoiceTree::meet(std::size_t depth, const Question& question) {
  Node& node = nodes_[depth];
  node.count = node.end = question.count;
  node.asked = question.asked;
  if (depth < prefix_length_ || node.taken >= node.count) return;
  node.begin = node.taken = order_.position_of(node.asked, node.taken, node.count);
}

std::uint32_t ChoiceTree::answer_of(std::size_t depth) const {
  const Node& node = nodes_[depth];
  const bool is_position = depth >= prefix_length_ && node.taken < node.count;
  return is_position ? order_.answer_at(node.asked, node.taken, node.count) : node.taken;
}

bool ChoiceTree::advance(double weight) {
  ++run_count_;
  is_standing_ = true;
  double size = weight;
  while (nodes_.size() > prefix_length_) {
    Node& node = nodes_.back();
    const bool is_first = node.taken == node.begin;
    if (is_first) {
      node.first = size;
    } else if (run_count_ > kLearningRuns) {
      const double each = node.size / (node.taken - node.begin);
      sizes_.note(node.count, answer_of(nodes_.size() - 1), size, node.first, each);
    }
    node.done += weight;
    node.size += size;
    if (++node.taken < node.end) return true;
    weight = node.done;
    size = node.size + node.given;
    nodes_.pop_back();
  }
  done_ += weight;
  return false;
}

Path ChoiceTree::path() const {
  Path path;
  for (std::size_t i = 0; i < nodes_.size(); ++i) path.push_back(answer_of(i));
  return path;
}

ChoiceTree::Split ChoiceTree::split() {
  Split given;
  Path path;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (i >= prefix_length_ && node.taken + 1 < node.end) {
      const std::uint32_t open = node.end - node.taken - 1;
      const std::uint32_t kept_end = node.end - (open + 1) / 2;
      for (std::uint32_t position = kept_end; position < node.end; ++position) {
        given.prefixes.push_back(path);
        given.prefixes.back().push_back(order_.answer_at(node.asked, position, node.count));
      }
      const double each = estimate_answer(node, estimate_below(i + 1, 1).whole);
      given.each = sizes_.range_of(each, 0);
      node.given += each * (node.end - kept_end);
      node.end = kept_end;
      return given;
    }
    path.push_back(answer_of(i));
  }
  return given;
}

std::vector<std::uint32_t> ChoiceTree::open_answers() const {
  std::vector<std::uint32_t> open(nodes_.size());
  for (std::size_t i = prefix_length_; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.end > node.taken + 1) open[i] = node.end - node.taken - 1;
  }
  return open;
}

ChoiceTree ChoiceTree::take_below(std::size_t depth) {
  CHECK(depth <= nodes_.size());
  ChoiceTree below({}, {}, order_);
  below.nodes_.assign(nodes_.begin() + static_cast<std::ptrdiff_t>(depth), nodes_.end());
  below.prefix_length_ = prefix_length_ - std::min(prefix_length_, depth);
  below.run_count_ = run_count_;
  nodes_.resize(depth);
  prefix_length_ = std::min(prefix_length_, depth);
  return below;
}

ChoiceTree ChoiceTree::after(const Path& before) const {
  ChoiceTree whole(before, {}, order_);
  whole.nodes_.insert(whole.nodes_.end(), nodes_.begin(), nodes_.end());
  whole.prefix_length_ += prefix_length_;
  whole.run_count_ = run_count_;
  return whole;
}

Part ChoiceTree::left(const Path& before) const {
  Part part = before;
  // A tree that has not run is all that is below its prefix.
  if (run_count_ == 0) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) part.push_back(answer_of(i));
    return part;
  }
  part.push_back(kRestFollows);
  const std::vector<std::uint32_t> numbers = to_numbers();
  part.insert(part.end(), numbers.begin(), numbers.end());
  return part;
}

std::vector<Path> ChoiceTree::left_paths() const {
  std::vector<Path> left;
  Path path;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    for (std::uint32_t position = node.taken + 1; i >= prefix_length_ && position < node.end; ++position) {
      left.push_back(path);
      left.back().push_back(order_.answer_at(node.asked, position, node.count));
    }
    path.push_back(answer_of(i));
  }
  left.push_back(path);
  return left;
}

// A number of eight bytes as two of four.
static void append_halves(std::vector<std::uint32_t>& numbers, std::uint64_t value) {
  numbers.insert(numbers.end(), {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)});
}
static std::uint64_t from_halves(const std::uint32_t* halves) { return halves[0] | std::uint64_t{halves[1]} << 32; }

static constexpr std::size_t kHeadNumbers = 5, kNodeNumbers = 4;

std::vector<std::uint32_t> ChoiceTree::to_numbers() const {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(kHeadNumbers + kNodeNumbers * nodes_.size());
  numbers.push_back(static_cast<std::uint32_t>(prefix_length_));
  append_halves(numbers, run_count_);
  append_halves(numbers, order_.seed());
  for (const Node& node : nodes_) numbers.insert(numbers.end(), {node.taken, node.end, node.count, node.asked});
  return numbers;
}

bool ChoiceTree::are_numbers(std::span<const std::uint32_t> numbers) {
  if (numbers.size() < kHeadNumbers || (numbers.size() - kHeadNumbers) % kNodeNumbers != 0) return false;
  const std::size_t prefix_numbers = std::size_t{numbers[0]} * kNodeNumbers;
  if (prefix_numbers >= numbers.size() - kHeadNumbers || from_halves(&numbers[1]) == 0) return false;
  for (std::size_t i = kHeadNumbers + prefix_numbers; i < numbers.size(); i += kNodeNumbers) {
    const std::uint32_t taken = numbers[i], end = numbers[i + 1], count = numbers[i + 2];
    if (taken >= end || end > count || count < 2) return false;
  }
  return true;
}

ChoiceTree ChoiceTree::from_numbers(std::span<const std::uint32_t> numbers) {
  CHECK(numbers.size() >= kHeadNumbers && (numbers.size() - kHeadNumbers) % kNodeNumbers == 0);
  ChoiceTree tree;
  tree.prefix_length_ = numbers[0];
  tree.run_count_ = from_halves(&numbers[1]);
  tree.order_ = AnswerOrder(from_halves(&numbers[3]));
  tree.nodes_.reserve((numbers.size() - kHeadNumbers) / kNodeNumbers + kUsualDepth);
  for (std::size_t i = kHeadNumbers; i < numbers.size(); i += kNodeNumbers) {
    const std::uint32_t* n = &numbers[i];
    tree.nodes_.push_back(Node{n[0], n[1], n[2], n[3], n[0]});
  }
  return tree;
}

double ChoiceTree::weight_done() const {
  double done = done_;
  for (std::size_t i = prefix_length_; i < nodes_.size(); ++i) done += nodes_[i].done;
  return done;
}

// One answer of the node that is not explored yet, where `open` is the one at which the tree stands.
double ChoiceTree::estimate_answer(const Node& node, double open) const {
  return (node.size + open) / (node.taken - node.begin + 1);
}

// All of the tree below the first `depth` choices of the sequence at which it stands.
ChoiceTree::Weights ChoiceTree::estimate_below(std::size_t depth, double open) const {
  std::size_t end = nodes_.size();
  Weights part{open, open};
  // Nothing is known of the next run but that its last answer is new: it is like those before it.
  if (is_standing_ && end > depth && is_met(end - 1) && nodes_[end - 1].taken > nodes_[end - 1].begin) {
    const Node& node = nodes_[end - 1];
    part.own = part.whole = node.size / (node.taken - node.begin);
  }
  for (; end > depth; --end) {
    if (!is_met(end - 1)) continue;
    const Node& node = nodes_[end - 1];
    const double each = estimate_answer(node, part.whole);
    const double first = node.taken == node.begin ? part.whole : node.first;
    double rest = 0;
    for (std::uint32_t position = node.taken + 1; position < node.end; ++position)
      rest += sizes_.guess(node.count, order_.answer_at(node.asked, position, node.count), first, each);
    part.own += node.done + rest;
    part.whole += node.size + node.given + rest;
  }
  return part;
}

Estimate ChoiceTree::estimate(Estimate open) const {
  if (done()) return Estimate{done_, done_, done_};
  Estimate all = sizes_.range_of(estimate_below(prefix_length_, open.likely).own, weight_done());
  all.low = std::min(all.low, all.likely - (open.likely - open.low));
  all.high = std::max(all.high, all.likely + (open.high - open.likely));
  return all;
}

double ChoiceTree::explored_fraction() const {
  if (done()) return 1;
  // One run of a tree that is a thousand choices deep is a part too small for a double, but it is not 0.
  return run_count_ == 0 ? 0 : std::max(weight_done() / estimate().likely, std::numeric_limits<double>::min());
}

double ChoiceTree::estimated_runs_left() const {
  if (done()) return 0;
  if (run_count_ == 0) return std::numeric_limits<double>::infinity();
  return estimate().likely - weight_done();
}

PartialTree read_part(const Part& part) {
  const auto marker = std::find(part.begin(), part.end(), kRestFollows);
  return {{part.begin(), marker},
          marker == part.end() ? std::span<const std::uint32_t>() : std::span(marker + 1, part.end())};
}

bool is_part(const Part& part) {
  const PartialTree read = read_part(part);
  return read.path.size() == part.size() || ChoiceTree::are_numbers(read.rest);
}

std::vector<Path> paths_of(const Part& part) {
  const PartialTree read = read_part(part);
  if (read.rest.empty()) return {read.path};
  std::vector<Path> paths = ChoiceTree::from_numbers(read.rest).left_paths();
  for (Path& path : paths) path.insert(path.begin(), read.path.begin(), read.path.end());
  return paths;
}

}  // namespace crashcut::persist
