#include "recovery/inprocess/work.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "inject/gate.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

WorkQueue& queue() { return *reinterpret_cast<WorkQueue*>(g.control + kWorkOffset); }

class QueueLock {
 public:
  QueueLock() {
    while (queue().lock.exchange(1, std::memory_order_acquire) != 0) kernel(SYS_sched_yield);
  }
  ~QueueLock() { queue().lock.store(0, std::memory_order_release); }
};

bool try_take(Work& work) {
  QueueLock lock;
  WorkQueue& q = queue();
  if (q.queued == 0) return false;
  std::uint32_t tail[2];
  std::memcpy(tail, q.bytes + q.used - sizeof tail, sizeof tail);
  work.mode = static_cast<WorkMode>(tail[1]);
  work.numbers.resize(tail[0]);
  q.used -= sizeof tail + tail[0] * std::uint64_t{4};
  if (tail[0] != 0) std::memcpy(work.numbers.data(), q.bytes + q.used, tail[0] * std::size_t{4});
  --q.queued;
  return true;
}

// A part of the tree that has a path before the rest of a tree is none of ours.
Work work_of(std::span<const std::uint32_t> part) {
  if (!part.empty() && part.front() == persist::kRestFollows) return {WorkMode::kRest, {part.begin() + 1, part.end()}};
  // After a second crash recoveries are forked at their choices: no tree is kept of them.
  const bool is_deep = std::find(part.begin(), part.end(), kCrashAgain) != part.end();
  return {is_deep ? WorkMode::kBranch : WorkMode::kAgain, {part.begin(), part.end()}};
}

}  // namespace

void clear_work() {
  WorkQueue& q = queue();
  q.lock = q.waiting = q.queued = 0;
  q.owed = 1;
  q.used = 0;
}

void add_first_work(std::span<const std::uint32_t> lengths_and_parts) {
  while (!lengths_and_parts.empty()) {
    const std::span<const std::uint32_t> part = lengths_and_parts.subspan(1, lengths_and_parts[0]);
    add_work(work_of(part));
    lengths_and_parts = lengths_and_parts.subspan(1 + part.size());
  }
  work_done();
}

// `copy_to` writes so many numbers.
template <class Copy>
static void add_numbers(WorkMode mode, std::uint32_t length, const Copy& copy_to) {
  QueueLock lock;
  WorkQueue& q = queue();
  const std::uint32_t tail[2] = {length, static_cast<std::uint32_t>(mode)};
  const std::uint64_t number_bytes = length * std::uint64_t{4};
  if (q.used + number_bytes + sizeof tail > kWorkBytes) {
    g.header->is_lost = 1;
    return;
  }
  if (length != 0) copy_to(reinterpret_cast<std::uint32_t*>(q.bytes + q.used));
  std::memcpy(q.bytes + q.used + number_bytes, tail, sizeof tail);
  q.used += number_bytes + sizeof tail;
  ++q.queued;
  ++q.owed;
}

void add_work(const Work& work) {
  add_numbers(work.mode, static_cast<std::uint32_t>(work.numbers.size()),
              [&](std::uint32_t* to) { std::memcpy(to, work.numbers.data(), work.numbers.size() * sizeof *to); });
}

void leave_work(const std::vector<persist::Path>& paths) {
  for (const persist::Path& path : paths) add_work({WorkMode::kAgain, path});
}

void leave_work(const persist::ChoiceTree& tree) { add_work(work_of(tree.left())); }

void leave_work(const Slot& slot) {
  add_numbers(WorkMode::kAgain, copy_path(slot, nullptr), [&](std::uint32_t* to) { copy_path(slot, to); });
}

bool take_work(Work& work) {
  WorkQueue& q = queue();
  if (g.header->stop != 0) return false;
  if (try_take(work)) return true;
  ++q.waiting;
  bool taken = false;
  while (!taken && q.owed != 0 && g.header->stop == 0) {
    const timespec pause{0, 100000};
    kernel(SYS_nanosleep, &pause, 0);
    taken = try_take(work);
  }
  --q.waiting;
  return taken;
}

void work_done() { --queue().owed; }
bool is_work_wanted() {
  return queue().waiting.load(std::memory_order_relaxed) != 0 && queue().queued.load(std::memory_order_relaxed) == 0;
}

}  // namespace crashcut::inprocess
