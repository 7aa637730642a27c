#include "recovery/inprocess/digest.h"

namespace crashcut::inprocess {

bool write_digest(const persist::Recording& recording, std::uint64_t* words, std::uint64_t words_most,
                  std::uint64_t& used) {
  used = 0;
  const auto names = recording.stable_names();
  if (names == nullptr) return false;
  bool fits = true;
  const auto put = [&](std::uint64_t word) {
    fits = fits && used < words_most;
    if (fits) words[used++] = word;
  };
  const persist::Log& log = recording.log;
  put(log.event_count());
  put(log.barrier_count());
  put(log.durable_barrier());
  for (persist::BarrierId b = 1; b <= log.barrier_count(); ++b) put(log.barrier_event(b));
  std::vector<persist::EventId> before;
  for (persist::EventId e = 0; e < log.event_count(); ++e) {
    put(log.epoch(e));
    put(log.barrier_of(e));
    put(log.cover(e) <= log.durable_barrier() ? 1 : 0);
    before.assign(log.predecessors(e).begin(), log.predecessors(e).end());
    log.for_each_fence_below(e, [&](persist::EventId fence) { before.push_back(fence); });
    put(before.size());
    for (const persist::EventId p : before) put(p);
  }
  put(log.location_count());
  for (persist::LocationId l = 0; l < log.location_count(); ++l) {
    put(names->location(l));
    put(names->listing(l));
    put(log.history(l).size());
    for (const persist::LocationWrite& write : log.history(l)) {
      put(write.event);
      put(names->value(l, write.value));
    }
  }
  return fits;
}

}  // namespace crashcut::inprocess
