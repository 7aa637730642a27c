#include "recovery/result/story.h"

#include <algorithm>

namespace crashcut::result {

Fate Operation::fate() const {
  const auto count =
      std::count_if(events.begin(), events.end(), [](const Event& e) { return e.persisted || e.durable; });
  if (count == 0) return Fate::kLost;
  return static_cast<std::size_t>(count) == events.size() ? Fate::kPersisted : Fate::kPartly;
}

bool Operation::is_durable() const {
  return !events.empty() && std::all_of(events.begin(), events.end(), [](const Event& e) { return e.durable; });
}

bool Operation::is_sync() const {
  return !events.empty() && std::all_of(events.begin(), events.end(), [](const Event& e) { return e.is_sync; });
}

}  // namespace crashcut::result
