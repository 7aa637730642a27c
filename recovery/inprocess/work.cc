#include "recovery/inprocess/work.h"

#include <time.h>

#include <atomic>
#include <cstring>

#include "inject/gate.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

// In the upper half of the request's region.
struct Queue {
  std::atomic<std::uint32_t> lock;
  std::atomic<std::uint32_t> owed;     // queued or taken, not done
  std::atomic<std::uint32_t> waiting;  // processes
  std::atomic<std::uint32_t> queued;
  std::uint64_t used;  // bytes
  std::byte bytes[];   // {answers, length, mode}: the last one is taken first
};
constexpr std::uint64_t kQueueBytes = kRequestBytes / 2 - sizeof(Queue);

Queue& queue() { return *reinterpret_cast<Queue*>(g.control + kRequestOffset + kRequestBytes / 2); }

class QueueLock {
 public:
  QueueLock() {
    while (queue().lock.exchange(1, std::memory_order_acquire) != 0) kernel(SYS_sched_yield);
  }
  ~QueueLock() { queue().lock.store(0, std::memory_order_release); }
};

bool try_take(Work& work) {
  QueueLock lock;
  Queue& q = queue();
  if (q.queued == 0) return false;
  std::uint32_t tail[2];
  std::memcpy(tail, q.bytes + q.used - sizeof tail, sizeof tail);
  work.mode = static_cast<WorkMode>(tail[1]);
  work.path.resize(tail[0]);
  q.used -= sizeof tail + tail[0] * std::uint64_t{4};
  if (tail[0] != 0) std::memcpy(work.path.data(), q.bytes + q.used, tail[0] * std::size_t{4});
  --q.queued;
  return true;
}

}  // namespace

void clear_work() {
  Queue& q = queue();
  q.lock = q.waiting = q.queued = 0;
  q.owed = 1;
  q.used = 0;
}

void add_first_work(const std::vector<std::uint32_t>& path) {
  add_work({WorkMode::kAgain, path});
  work_done();
}

void add_work(const Work& work) {
  QueueLock lock;
  Queue& q = queue();
  const std::uint32_t tail[2] = {static_cast<std::uint32_t>(work.path.size()), static_cast<std::uint32_t>(work.mode)};
  const std::uint64_t path_bytes = work.path.size() * 4;
  if (q.used + path_bytes + sizeof tail > kQueueBytes) {
    g.header->bounded = 1;  // forgotten, and said so
    return;
  }
  if (path_bytes != 0) std::memcpy(q.bytes + q.used, work.path.data(), path_bytes);
  std::memcpy(q.bytes + q.used + path_bytes, tail, sizeof tail);
  q.used += path_bytes + sizeof tail;
  ++q.queued;
  ++q.owed;
}

bool take_work(Work& work) {
  Queue& q = queue();
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
bool has_work_left() { return queue().queued != 0; }
bool is_work_wanted() {
  return queue().waiting.load(std::memory_order_relaxed) != 0 && queue().queued.load(std::memory_order_relaxed) == 0;
}

}  // namespace crashcut::inprocess
