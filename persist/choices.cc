#include "persist/choices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include "persist/check.h"

namespace crashcut::persist {

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
  // FNV-1a, word by word. The log determines the values, so the indices of the writes are enough.
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = (0xcbf29ce484222325 ^ location) * kPrime;
  for (const Candidate& candidate : candidates) {
    hash = (hash ^ static_cast<std::uint32_t>(candidate.first)) * kPrime;
    hash = (hash ^ static_cast<std::uint32_t>(candidate.last)) * kPrime;
    if (candidate.origin != Origin::kHere) hash = (hash ^ candidate.location) * kPrime;
    if (candidate.layer != layer) hash = (hash ^ (std::uint64_t{candidate.layer} << 32 | candidate.location)) * kPrime;
  }
  const auto folded = static_cast<std::uint32_t>(hash ^ hash >> 32);
  return Question{static_cast<std::uint32_t>(candidates.size()), folded == 0 ? 1 : folded};
}

// Steele, Lea and Flood's SplitMix64: neighbouring inputs give unrelated outputs.
static std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t AnswerOrder::first(std::size_t depth, std::uint32_t count) const {
  return seed_ == 0 ? 0 : mix(mix(seed_) + (depth + 1) * 0x9e3779b97f4a7c15) % count;
}

ChoiceTree::ChoiceTree(const Path& prefix, const Path& start, AnswerOrder order)
    : order_(order), prefix_length_(prefix.size()) {
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
  if (nodes_[depth].count == 0) {
    meet(depth, count);
    nodes_[depth].asked = question.asked;
  }
  const Node& node = nodes_[depth];
  if (node.count == count && node.asked == question.asked && node.taken < count) return answer_of(depth);
  diverged_ = true;
  return 0;
}

void ChoiceTree::meet(std::size_t depth, std::uint32_t count) {
  Node& node = nodes_[depth];
  node.count = node.end = count;
  if (depth < prefix_length_ || node.taken >= count) return;
  node.begin = node.taken = order_.position_of(depth, node.taken, count);
}

std::uint32_t ChoiceTree::answer_of(std::size_t depth) const {
  const Node& node = nodes_[depth];
  const bool is_position = depth >= prefix_length_ && node.taken < node.count;
  return is_position ? order_.answer_at(depth, node.taken, node.count) : node.taken;
}

bool ChoiceTree::advance(double weight) {
  ++run_count_;
  is_standing_ = true;
  double size = weight;
  while (nodes_.size() > prefix_length_) {
    Node& node = nodes_.back();
    const bool is_first = node.taken == node.begin;
    if (!is_first) sizes_.note(node.count, answer_of(nodes_.size() - 1), size, node.first);
    if (is_first) node.first = node.smallest = size;
    node.smallest = std::min(node.smallest, size);
    node.largest = std::max(node.largest, size);
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
        given.prefixes.back().push_back(order_.answer_at(i, position, node.count));
      }
      given.each = estimate_answer(node, estimate_below(i + 1, {}).whole);
      node.given += given.each.likely * (node.end - kept_end);
      node.end = kept_end;
      return given;
    }
    path.push_back(answer_of(i));
  }
  return given;
}

std::vector<Path> ChoiceTree::left(bool with_current) const {
  std::vector<Path> left;
  Path path;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    CHECK(i < prefix_length_ || node.count != 0);
    for (std::uint32_t position = node.taken + 1; i >= prefix_length_ && position < node.end; ++position) {
      left.push_back(path);
      left.back().push_back(order_.answer_at(i, position, node.count));
    }
    path.push_back(answer_of(i));
  }
  if (with_current) left.push_back(path);
  return left;
}

std::uint64_t ChoiceTree::left_answers() const {
  std::uint64_t answers = nodes_.size();
  for (std::size_t i = prefix_length_; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.end > node.taken + 1) answers += std::uint64_t{node.end - node.taken - 1} * (i + 1);
  }
  return answers;
}

// The numbers that a double, or another thing of eight bytes, is kept as.
template <class T>
static void append_halves(std::vector<std::uint32_t>& numbers, T value) {
  const auto halves = std::bit_cast<std::array<std::uint32_t, 2>>(value);
  numbers.insert(numbers.end(), halves.begin(), halves.end());
}
template <class T>
static T from_halves(const std::uint32_t* halves) {
  return std::bit_cast<T>(std::array{halves[0], halves[1]});
}

static constexpr std::size_t kHeadNumbers = 8, kNodeNumbers = 17;

std::vector<std::uint32_t> ChoiceTree::to_numbers() const {
  std::vector<std::uint32_t> numbers{static_cast<std::uint32_t>(prefix_length_), is_standing_ ? 1u : 0u};
  append_halves(numbers, done_);
  append_halves(numbers, run_count_);
  append_halves(numbers, order_.seed());
  for (const Node& node : nodes_) {
    numbers.insert(numbers.end(), {node.taken, node.end, node.count, node.asked, node.begin});
    for (const double weight : {node.done, node.size, node.given, node.smallest, node.largest, node.first})
      append_halves(numbers, weight);
  }
  return numbers;
}

ChoiceTree ChoiceTree::from_numbers(std::span<const std::uint32_t> numbers) {
  CHECK(numbers.size() >= kHeadNumbers && (numbers.size() - kHeadNumbers) % kNodeNumbers == 0);
  ChoiceTree tree;
  tree.prefix_length_ = numbers[0];
  tree.is_standing_ = numbers[1] != 0;
  tree.done_ = from_halves<double>(&numbers[2]);
  tree.run_count_ = from_halves<std::uint64_t>(&numbers[4]);
  tree.order_ = AnswerOrder(from_halves<std::uint64_t>(&numbers[6]));
  for (std::size_t i = kHeadNumbers; i < numbers.size(); i += kNodeNumbers) {
    const std::uint32_t* n = &numbers[i];
    Node node{n[0], n[1], n[2], n[3], n[4]};
    double* const weights[] = {&node.done, &node.size, &node.given, &node.smallest, &node.largest, &node.first};
    for (std::size_t k = 0; k < std::size(weights); ++k) *weights[k] = from_halves<double>(n + 5 + 2 * k);
    tree.nodes_.push_back(node);
  }
  return tree;
}

double ChoiceTree::weight_done() const {
  double done = done_;
  for (std::size_t i = prefix_length_; i < nodes_.size(); ++i) done += nodes_[i].done;
  return done;
}

// One answer of the node that is not explored yet, where `open` is the one at which the tree stands.
Estimate ChoiceTree::estimate_answer(const Node& node, const Estimate& open) const {
  const std::uint32_t explored = node.taken - node.begin;
  if (explored == 0) return open;
  return Estimate{std::min(node.smallest, open.low), (node.size + open.likely) / (explored + 1),
                  std::max(node.largest, open.high)};
}

// All of the tree below the first `depth` choices of the sequence at which it stands.
ChoiceTree::Part ChoiceTree::estimate_below(std::size_t depth, const Estimate& open) const {
  std::size_t end = nodes_.size();
  Part part{open, open};
  // Nothing is known of the next run but that its last answer is new: it is like those before it.
  if (is_standing_ && end > depth && is_met(end - 1) && nodes_[end - 1].taken > nodes_[end - 1].begin) {
    const Node& node = nodes_[end - 1];
    part.own = part.whole = Estimate{node.smallest, node.size / (node.taken - node.begin), node.largest};
  }
  for (; end > depth; --end) {
    if (!is_met(end - 1)) continue;
    const Node& node = nodes_[end - 1];
    const Estimate each = estimate_answer(node, part.whole);
    const Estimate first = node.taken == node.begin ? part.whole : Estimate{node.first, node.first, node.first};
    Estimate rest{0, 0, 0};
    for (std::uint32_t position = node.taken + 1; position < node.end; ++position)
      rest += sizes_.guess(node.count, order_.answer_at(end - 1, position, node.count), first, each);
    const double elsewhere = node.size + node.given;
    part.own += Estimate{node.done, node.done, node.done};
    part.own += rest;
    part.whole += Estimate{elsewhere, elsewhere, elsewhere};
    part.whole += rest;
  }
  return part;
}

Estimate ChoiceTree::estimate(Estimate open) const {
  if (done()) return Estimate{done_, done_, done_};
  return estimate_below(prefix_length_, open).own;
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

}  // namespace crashcut::persist
