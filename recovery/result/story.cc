#include "recovery/result/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace crashcut::result {
namespace {

template <class Holds>
std::uint64_t count(const std::vector<Event>& events, Holds&& holds) {
  return static_cast<std::uint64_t>(std::count_if(events.begin(), events.end(), holds));
}

}  // namespace

std::string line_text(const SourceLine& line) { return fmt::format("{}:{}", line.file, line.line); }

std::string place_text(const SourceLine& line) {
  return line.function + (line.file.empty() ? "" : (line.function.empty() ? "" : " ") + line_text(line));
}

std::string place_text(const std::vector<SourceLine>& stack) { return stack.empty() ? "" : place_text(stack.front()); }

Fate Operation::fate() const {
  const std::uint64_t persisted =
      left_out.persisted + count(events, [](const Event& e) { return e.persisted || e.durable; });
  if (persisted == 0) return Fate::kLost;
  return persisted == events.size() + left_out.all ? Fate::kPersisted : Fate::kPartly;
}

bool Operation::is_durable() const {
  return has_events() &&
         left_out.durable + count(events, [](const Event& e) { return e.durable; }) == events.size() + left_out.all;
}

bool Operation::is_sync() const {
  return has_events() &&
         left_out.sync + count(events, [](const Event& e) { return e.is_sync; }) == events.size() + left_out.all;
}

std::vector<std::uint32_t> shown_candidates(std::size_t count, std::uint32_t taken) {
  std::vector<std::uint32_t> shown(std::min(count, kCandidatesMost));
  std::iota(shown.begin(), shown.end(), 0);
  if (taken >= shown.size() && taken < count) shown.back() = taken;
  return shown;
}

std::vector<std::size_t> shown_operations(const std::vector<Operation>& operations, std::size_t most) {
  std::vector<std::size_t> shown(std::min(operations.size(), most));
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (operations.size() <= most) return shown;
  const std::size_t first = most / 4, before = most / 2;
  const auto last = std::find_if(operations.rbegin(), operations.rend(),
                                 [](const Operation& operation) { return operation.fate() != Fate::kLost; });
  const auto crash = static_cast<std::size_t>(operations.rend() - last);
  const std::size_t begin = std::clamp(crash, first + before, operations.size() - (most - first - before));
  std::iota(shown.begin() + static_cast<std::ptrdiff_t>(first), shown.end(), begin - before);
  return shown;
}

}  // namespace crashcut::result
