#include "scheduler/footprint.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "persist/hash.h"

namespace crashcut::scheduler {

bool do_meet(const Footprint& x, const Footprint& y) {
  auto b = y.begin();
  for (const Touch& a : x) {
    while (b != y.end() && b->key < a.key) ++b;
    for (auto c = b; c != y.end() && c->key == a.key; ++c) {
      const bool is_seen = (a.is_source && c->is_target) || (a.is_target && c->is_source);
      if (is_seen && a.begin < c->end && c->begin < a.end) return true;
    }
  }
  return false;
}

const Footprint* interned(Footprint footprint) {
  static std::mutex mutex;
  static std::unordered_multimap<std::uint64_t, std::unique_ptr<const Footprint>> known;
  std::uint64_t hash = footprint.size();
  for (const Touch& t : footprint) {
    for (const std::uint64_t part :
         {t.key, t.begin, t.end, std::uint64_t{t.is_source} << 1 | std::uint64_t{t.is_target}})
      hash = persist::mix(hash, part);
  }
  const std::lock_guard lock(mutex);
  const auto [begin, end] = known.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (*it->second == footprint) return it->second.get();
  }
  return known.emplace(hash, std::make_unique<const Footprint>(std::move(footprint)))->second.get();
}

}  // namespace crashcut::scheduler
