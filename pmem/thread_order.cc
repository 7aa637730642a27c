#include "pmem/thread_order.h"

#include <algorithm>

namespace crashcut::pmem {

ThreadOrder::ThreadOrder(std::span<const Meeting> meetings) {
  for (const Meeting& m : meetings) {
    if (m.is_piece) piece_readings_[m.store].push_back({m.to, m.to_op});
    if (std::max(m.from, m.to) >= versions_.size()) versions_.resize(std::max(m.from, m.to) + std::size_t{1});
    std::vector<std::uint32_t> clock;
    std::vector<Version>& own = versions_[m.to];
    if (!own.empty()) clock = own.back().clock;
    const auto add = [&](ThreadId thread, std::uint32_t end) {
      if (thread >= clock.size()) clock.resize(thread + std::size_t{1}, 0);
      clock[thread] = std::max(clock[thread], end);
    };
    if (const auto* before = clock_at(m.from, m.from_op)) {
      for (ThreadId t = 0; t < before->size(); ++t) add(t, (*before)[t]);
    }
    add(m.from, m.from_op + (m.is_piece ? 0 : 1));  // other words of the same store may still be to come
    if (!own.empty() && own.back().clock == clock) continue;
    if (!own.empty() && own.back().begin == m.to_op) {
      own.back().clock = std::move(clock);
    } else {
      own.push_back({m.to_op, std::move(clock)});
    }
  }
}

const std::vector<std::uint32_t>* ThreadOrder::clock_at(ThreadId thread, std::uint32_t op) const {
  if (thread >= versions_.size()) return nullptr;
  const std::vector<Version>& own = versions_[thread];
  const auto next = std::upper_bound(
      own.begin(), own.end(), op, [](std::uint32_t wanted, const Version& version) { return wanted < version.begin; });
  return next == own.begin() ? nullptr : &(next - 1)->clock;
}

bool ThreadOrder::is_before(ThreadId thread, std::uint32_t op, ThreadId later_thread, std::uint32_t later_op) const {
  if (thread == later_thread) return op < later_op;
  const std::vector<std::uint32_t>* clock = clock_at(later_thread, later_op);
  return clock != nullptr && thread < clock->size() && op < (*clock)[thread];
}

bool ThreadOrder::is_piece_before(persist::EventId store, ThreadId later_thread, std::uint32_t later_op) const {
  const auto readings = piece_readings_.find(store);
  if (readings == piece_readings_.end()) return false;
  return std::any_of(readings->second.begin(), readings->second.end(), [&](const Reading& reading) {
    return reading.thread == later_thread ? reading.op <= later_op
                                          : is_before(reading.thread, reading.op, later_thread, later_op);
  });
}

}  // namespace crashcut::pmem
