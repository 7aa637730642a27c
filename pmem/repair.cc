#include "pmem/repair.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace crashcut::pmem {

using persist::EventId;
using persist::kNoEvent;
using persist::Order;

namespace {

Address line_of(Address address) { return address / kLineBytes * kLineBytes; }

bool is_store(EventKind kind) { return kind == EventKind::kStore || kind == EventKind::kNonTemporalStore; }

// Goes through a recording as the program did, with flushes added, and collects what is ordered by them.
class Walk {
 public:
  Walk(const Recording& recording, std::span<const AddedFlush> added) : recording_(recording), added_(added) {
    const auto& events = recording.events;
    has_non_temporal_ = std::any_of(events.begin(), events.end(),
                                    [](const EventInfo& e) { return e.kind == EventKind::kNonTemporalStore; });
  }

  // False: there are too many orders.
  bool run() {
    auto flush = recording_.flushes.begin();
    for (EventId e = 0; e < recording_.log.event_count(); ++e) {
      for (; flush != recording_.flushes.end() && flush->position <= e; ++flush) pass_flush(*flush);
      pass_event(e);
      if (orders_.size() > kOrdersMost) return false;
    }
    return true;
  }

  std::vector<Order> take_orders() { return std::move(orders_); }
  std::uint32_t lines_most() const { return lines_most_; }

 private:
  // Stores that are durable from some moment on, and the chains whose events since then are after them already.
  struct Durable {
    std::vector<EventId> stores;
    std::unordered_set<persist::ChainId> bound;
    bool binds_non_temporal_only = false;
  };

  // The newest stores of a line: one, or the pieces of one operation.
  struct Newest {
    std::vector<EventId> stores;
    std::uint32_t op = 0;
  };

  void pass_event(EventId e) {
    bind(e);
    if (!recording_.is_own(e) || !is_store(recording_.events[e].kind)) return;
    const EventInfo& info = recording_.events[e];
    if (info.kind == EventKind::kNonTemporalStore) {
      awaited_.push_back(e);
    } else {
      Newest& newest = newest_[line_of(info.address)];
      if (newest.op != recording_.log.op(e)) newest.stores.clear();
      newest.op = recording_.log.op(e);
      newest.stores.push_back(e);
      dirty_[line_of(info.address)] = true;
    }
    if (recording_.log.op(e) != op_ || e == 0) lowest_ = info.address;
    op_ = recording_.log.op(e);
    lowest_ = std::min(lowest_, info.address);
    if (is_last_piece(e)) add_after(info.place, lowest_, info.address, info.kind == EventKind::kNonTemporalStore);
  }

  bool is_last_piece(EventId e) const {
    for (EventId next = e + 1; next < recording_.events.size() && recording_.log.op(next) == recording_.log.op(e);
         ++next) {
      if (is_store(recording_.events[next].kind)) return false;
    }
    return true;
  }

  void pass_flush(const FlushInfo& flush) {
    if (flush.kind == FlushKind::kSfence || flush.kind == FlushKind::kMfence) {
      // What the program's own flushes have begun is ordered by the recording.
      if (!added_awaited_.empty()) open_durable(std::move(added_awaited_));
      added_awaited_.clear();
      awaited_.clear();
      return;
    }
    dirty_.erase(line_of(flush.address));
    if (flush.kind == FlushKind::kClwb) {
      const auto newest = newest_.find(line_of(flush.address));
      if (newest != newest_.end())
        awaited_.insert(awaited_.end(), newest->second.stores.begin(), newest->second.stores.end());
    }
    add_after(flush.place, flush.address, flush.address, true);
  }

  // The flushes that are added after this place: a store from address `low` to `high`, or a flush.
  void add_after(PlaceId place, Address low, Address high, bool is_fence_only) {
    if (place == 0) return;
    for (const AddedFlush& added : added_) {
      if (added.place != place || (is_fence_only && added.kind != AddedFlush::Kind::kFence)) continue;
      std::vector<EventId> stores;
      if (added.kind != AddedFlush::Kind::kFence) stores = flush_lines(low, high, added.kind);
      if (added.kind == AddedFlush::Kind::kFlush) {
        added_awaited_.insert(added_awaited_.end(), stores.begin(), stores.end());
        continue;
      }
      for (std::vector<EventId>* more : {&awaited_, &added_awaited_}) {
        stores.insert(stores.end(), more->begin(), more->end());
        more->clear();
      }
      // A fence also holds non-temporal stores behind the clflushes before it.
      if (has_non_temporal_ && last_clflush_ != kNoEvent) stores.push_back(last_clflush_);
      if (!stores.empty()) open_durable(std::move(stores));
    }
  }

  // An object may have lines between others that were not stored to.
  void grow_to_dirty(Address& first, Address& last) const {
    constexpr Address kNearby = 4 * kLineBytes;
    for (auto below = dirty_.lower_bound(first); below != dirty_.begin();) {
      if (first - (--below)->first > kNearby) break;
      first = below->first;
    }
    for (auto above = dirty_.upper_bound(last); above != dirty_.end() && above->first - last <= kNearby; ++above)
      last = above->first;
  }

  std::vector<EventId> flush_lines(Address low, Address high, AddedFlush::Kind kind) {
    Address first = line_of(low), last = line_of(high);
    if (kind == AddedFlush::Kind::kObject) {
      grow_to_dirty(first, last);
    }
    lines_most_ = std::max(lines_most_, static_cast<std::uint32_t>((last - first) / kLineBytes + 1));
    std::vector<EventId> stores;
    for (Address line = first; line <= last; line += kLineBytes) {
      const auto newest = newest_.find(line);
      if (newest == newest_.end()) continue;
      stores.insert(stores.end(), newest->second.stores.begin(), newest->second.stores.end());
      dirty_.erase(line);
    }
    return stores;
  }

  void open_durable(std::vector<EventId> stores) {
    std::sort(stores.begin(), stores.end());
    stores.erase(std::unique(stores.begin(), stores.end()), stores.end());
    durable_.push_back(Durable{std::move(stores), {}});
  }

  // The event comes after all that is durable. What comes after a fence of the program comes after what the fence comes
  // after; non-temporal stores do not come after clflush and marks.
  void bind(EventId e) {
    const persist::Log& log = recording_.log;
    const EventKind kind = recording_.is_own(e) ? recording_.events[e].kind : EventKind::kOther;
    const bool binds_all = kind == EventKind::kFence || log.barrier_of(e) != 0;
    const bool binds_most = kind == EventKind::kClflush || kind == EventKind::kMark;
    for (Durable& durable : durable_) {
      const bool is_bound = durable.binds_non_temporal_only && kind != EventKind::kNonTemporalStore && !binds_all;
      if (is_bound) continue;
      if (log.chain(e) != persist::kNoChain && !durable.bound.insert(log.chain(e)).second) continue;
      for (const EventId store : durable.stores) orders_.push_back(Order{store, e});
      durable.binds_non_temporal_only |= binds_most;
    }
    if (binds_all || (binds_most && !has_non_temporal_)) durable_.clear();
    if (binds_all || binds_most) last_clflush_ = binds_most ? e : kNoEvent;
  }

  const Recording& recording_;
  std::span<const AddedFlush> added_;
  bool has_non_temporal_ = false;
  std::unordered_map<Address, Newest> newest_;  // by line
  std::map<Address, bool> dirty_;               // lines with stores that no flush has covered
  std::vector<EventId> awaited_;                // by the program's next fence
  std::vector<EventId> added_awaited_;          // the same, by flushes that were added
  std::vector<Durable> durable_;
  std::vector<Order> orders_;
  EventId last_clflush_ = kNoEvent;  // or mark, since the last fence
  std::uint32_t op_ = 0;             // the last store
  Address lowest_ = 0;               // of its addresses
  std::uint32_t lines_most_ = 1;
};

bool has_one_thread(const Recording& recording) {
  return std::all_of(recording.events.begin(), recording.events.end(),
                     [](const EventInfo& info) { return info.thread == 0; });
}

EventId newest_in(const Recording& recording, const DecidedEvents& decided) {
  for (auto e = static_cast<EventId>(recording.log.event_count()); e-- > 0;) {
    if (decided.is_in(e)) return e;
  }
  return kNoEvent;
}

bool is_lost_store(const Recording& recording, const DecidedEvents& decided, EventId e) {
  return recording.is_own(e) && is_store(recording.events[e].kind) && decided.is_out(e);
}

// Places that flushes may be added after, the newest first: of the stores that were lost, and of the flushes of their
// lines, which need a fence.
struct Places {
  std::vector<PlaceId> of_stores, of_flushes;
  std::unordered_map<PlaceId, Address> lost;  // what the newest lost store of a place wrote
};

void add_once(std::vector<PlaceId>& places, PlaceId place) {
  if (place != 0 && std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
}

Places find_places(const Recording& recording, const DecidedEvents& decided, EventId newest) {
  Places places;
  std::unordered_set<Address> lost_lines;
  for (EventId e = newest; e-- > 0;) {
    if (!is_lost_store(recording, decided, e) || recording.log.op(e) == recording.log.op(newest)) continue;
    const EventInfo& info = recording.events[e];
    lost_lines.insert(line_of(info.address));
    places.lost.try_emplace(info.place, info.address);
    add_once(info.kind == EventKind::kStore ? places.of_stores : places.of_flushes, info.place);
  }
  for (auto flush = recording.flushes.rbegin(); flush != recording.flushes.rend(); ++flush) {
    const bool is_weak = flush->kind == FlushKind::kClwb && flush->position <= newest;
    if (is_weak && lost_lines.contains(line_of(flush->address))) add_once(places.of_flushes, flush->place);
  }
  return places;
}

}  // namespace

std::optional<std::vector<Order>> orders_of(const Recording& recording, std::span<const AddedFlush> flushes) {
  Walk walk(recording, flushes);
  if (!walk.run()) return std::nullopt;
  return walk.take_orders();
}

bool has_lost_earlier(const Recording& recording, const DecidedEvents& decided) {
  const EventId newest = newest_in(recording, decided);
  if (newest == kNoEvent) return false;
  for (EventId e = 0; e < newest; ++e) {
    if (is_lost_store(recording, decided, e) && recording.log.op(e) != recording.log.op(newest)) return true;
  }
  return false;
}

std::vector<FlushCandidate> find_missing_flushes(const Recording& recording, const DecidedEvents& decided) {
  std::vector<FlushCandidate> found;
  const EventId newest = newest_in(recording, decided);
  if (newest == kNoEvent) return found;
  const bool is_concurrent = !has_one_thread(recording);
  const Places places = find_places(recording, decided, newest);
  const auto try_all = [&](AddedFlush::Kind kind, const std::vector<PlaceId>& at) {
    for (const PlaceId place : at) {
      const AddedFlush added{kind, place};
      Walk walk(recording, {&added, 1});
      if (!walk.run()) continue;
      if (kind == AddedFlush::Kind::kObject && walk.lines_most() == 1) continue;  // as kFlushAndFence
      const std::vector<Order> orders = walk.take_orders();
      const bool excludes = is_concurrent || std::any_of(orders.begin(), orders.end(), [&](const Order& order) {
                              return decided.is_out(order.before) && decided.is_in(order.after);
                            });
      const auto lost = places.lost.find(place);
      const Address address = lost == places.lost.end() ? 0 : lost->second;
      if (excludes) found.push_back(FlushCandidate{added, address, walk.lines_most()});
    }
  };
  try_all(AddedFlush::Kind::kFence, places.of_flushes);
  for (const auto kind : {AddedFlush::Kind::kFlush, AddedFlush::Kind::kFlushAndFence, AddedFlush::Kind::kObject})
    try_all(kind, places.of_stores);
  // A thread that has loaded what another one stored can flush it, too.
  for (const Meeting& meeting : recording.meetings) {
    if (meeting.store == kNoEvent || meeting.place == 0 || !decided.is_out(meeting.store)) continue;
    const AddedFlush added{AddedFlush::Kind::kFlushAndFence, meeting.place};
    if (std::none_of(found.begin(), found.end(), [&](const FlushCandidate& c) { return c.flush == added; }))
      found.push_back(FlushCandidate{added, recording.events[meeting.store].address, 1});
  }
  return found;
}

}  // namespace crashcut::pmem
