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
  if (depth >= prefix_length_ && node.taken < count) node.taken = order_.position_of(depth, node.taken, count);
}

std::uint32_t ChoiceTree::answer_of(std::size_t depth) const {
  const Node& node = nodes_[depth];
  const bool is_position = depth >= prefix_length_ && node.taken < node.count;
  return is_position ? order_.answer_at(depth, node.taken, node.count) : node.taken;
}

bool ChoiceTree::advance() {
  if (run_count_++ == 0) start_fraction_ = explored_so_far();
  while (nodes_.size() > prefix_length_) {
    Node& node = nodes_.back();
    if (++node.taken < node.end) return true;
    nodes_.pop_back();
  }
  return false;
}

Path ChoiceTree::path() const {
  Path path;
  for (std::size_t i = 0; i < nodes_.size(); ++i) path.push_back(answer_of(i));
  return path;
}

std::vector<Path> ChoiceTree::split() {
  std::vector<Path> given;
  Path path;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (i >= prefix_length_ && node.taken + 1 < node.end) {
      const std::uint32_t open = node.end - node.taken - 1;
      const std::uint32_t kept_end = node.end - (open + 1) / 2;
      for (std::uint32_t position = kept_end; position < node.end; ++position) {
        given.push_back(path);
        given.back().push_back(order_.answer_at(i, position, node.count));
      }
      node.end = kept_end;
      return given;
    }
    path.push_back(answer_of(i));
  }
  return given;
}

double ChoiceTree::split_share() const {
  double weight = 1;
  for (std::size_t i = prefix_length_; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.taken + 1 < node.end) return weight * ((node.end - node.taken) / 2) / node.end;
    if (node.end > 0) weight /= node.end;
  }
  return 0;
}

std::vector<std::uint32_t> ChoiceTree::to_numbers() const {
  const auto fraction = std::bit_cast<std::array<std::uint32_t, 2>>(start_fraction_);
  const auto runs = std::bit_cast<std::array<std::uint32_t, 2>>(run_count_);
  const auto seed = std::bit_cast<std::array<std::uint32_t, 2>>(order_.seed());
  std::vector<std::uint32_t> numbers{
      static_cast<std::uint32_t>(prefix_length_), fraction[0], fraction[1], runs[0], runs[1], seed[0], seed[1]};
  for (const Node& node : nodes_) numbers.insert(numbers.end(), {node.taken, node.end, node.count, node.asked});
  return numbers;
}

ChoiceTree ChoiceTree::from_numbers(std::span<const std::uint32_t> numbers) {
  constexpr std::size_t kHead = 7;
  CHECK(numbers.size() >= kHead && (numbers.size() - kHead) % 4 == 0);
  ChoiceTree tree;
  tree.prefix_length_ = numbers[0];
  tree.start_fraction_ = std::bit_cast<double>(std::array{numbers[1], numbers[2]});
  tree.run_count_ = std::bit_cast<std::uint64_t>(std::array{numbers[3], numbers[4]});
  tree.order_ = AnswerOrder(std::bit_cast<std::uint64_t>(std::array{numbers[5], numbers[6]}));
  for (std::size_t i = kHead; i < numbers.size(); i += 4) {
    tree.nodes_.push_back(Node{numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  }
  return tree;
}

double ChoiceTree::explored_fraction() const {
  if (done()) return 1;
  // One run of a tree that is a thousand choices deep is a part too small for a double, but it is not 0.
  return run_count_ == 0 ? 0 : std::max(explored_so_far(), std::numeric_limits<double>::min());
}

double ChoiceTree::explored_so_far() const {
  double explored = 0;
  double weight = 1;
  for (std::size_t i = prefix_length_; i < nodes_.size() && nodes_[i].count != 0; ++i) {
    weight /= nodes_[i].end;
    explored += weight * nodes_[i].taken;
  }
  return explored;
}

double ChoiceTree::estimated_runs_left() const {
  if (done()) return 0;
  const double fraction = explored_fraction();
  const double ours = fraction - start_fraction_;
  if (ours <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(run_count_) * (1 - fraction) / ours;
}

}  // namespace crashcut::persist
