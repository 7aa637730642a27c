#include "persist/added_sync.h"

#include <algorithm>
#include <iterator>

namespace crashcut::persist {
namespace {

constexpr std::size_t kSyncPlacesMost = 4;  // before operations that were kept

// "rename" of "mv: rename(a, b)".
std::string call_of(std::string_view operation) {
  const std::size_t open = std::min(operation.find('('), operation.size());
  const std::size_t process = operation.rfind(": ", open);
  const std::size_t begin = process == std::string_view::npos ? 0 : process + 2;
  return std::string(operation.substr(begin, open - begin));
}

// The call and its first argument: "write(notes.tmp" of "write(3 notes.tmp, 9 bytes)".
std::string words_of(std::string_view operation) {
  const std::size_t open = operation.find('(');
  if (open == std::string_view::npos) return std::string(operation);
  std::string first(operation.substr(open + 1, operation.find_first_of(",)", open) - open - 1));
  const std::size_t digits = first.find_first_not_of("0123456789");
  if (digits != std::string::npos && digits > 0 && first[digits] == ' ') first.erase(0, digits + 1);
  return call_of(operation) + "(" + first;
}

}  // namespace

std::vector<SyncPlace> sync_places(const std::set<std::uint32_t>& lost, const std::set<std::uint32_t>& kept) {
  std::vector<SyncPlace> places;
  if (lost.empty()) return places;
  const auto add = [&](SyncPlace place) {
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  };
  for (auto last = kept.rbegin(); last != kept.rend() && places.size() < kSyncPlacesMost; ++last) {
    if (*lost.begin() < *last) add({*last, false});
  }
  if (const auto first = kept.upper_bound(*lost.begin()); first != kept.end()) add({*first, false});
  for (const SyncPlace place : std::vector(places)) {
    const auto next = lost.lower_bound(place.operation);
    if (next != lost.begin()) add({*std::prev(next), true});
  }
  return places;
}

std::vector<SyncPlace> sync_moments(const std::set<std::uint32_t>& lost, const std::set<std::uint32_t>& kept) {
  std::vector<SyncPlace> moments;
  for (const SyncPlace place : sync_places(lost, kept)) {
    const auto is_known = [&](const SyncPlace& known) { return known.before() == place.before(); };
    if (std::none_of(moments.begin(), moments.end(), is_known)) moments.push_back(place);
  }
  return moments;
}

std::string text_of(const SyncPlace& place, const OperationTexts& operations) {
  return std::string(place.is_after ? "after" : "before") + " the " + call_of(operations[place.operation]) +
         " (operation " + std::to_string(place.operation) + ")";
}

std::vector<std::uint32_t> executions_of(const SyncPlace& place, const OperationTexts& operations) {
  const std::string words = words_of(operations[place.operation]);
  std::vector<std::uint32_t> executions;
  for (std::uint32_t i = 1; i < operations.size(); ++i) {
    if (words_of(operations[i]) == words) executions.push_back(i);
  }
  return executions;
}

std::string text_of(const SyncPlace& place, const std::vector<std::uint32_t>& executions,
                    const OperationTexts& operations) {
  std::string numbers;
  for (const std::uint32_t execution : executions) numbers += (numbers.empty() ? "" : ", ") + std::to_string(execution);
  return std::string(place.is_after ? "after" : "before") + " each " + call_of(operations[place.operation]) +
         " (operations " + numbers + ")";
}

}  // namespace crashcut::persist
