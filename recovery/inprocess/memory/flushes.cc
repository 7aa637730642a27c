// Flushes and fences, and the fences that come before a system call.
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/region_access.h"

namespace crashcut::inprocess {

void fence_for_locked(const void* code) {
  if (ThreadedMemory* threads = threaded()) return threads->mfence(code);
  if (!is_recording() || g_phase == Phase::kConstructing) return;
  const OwnCode own;
  recorder().mfence(0, place_of(code));
}

namespace {

using Flush = ThreadedMemory::Flush;

void flush(const void* at, Flush how, const void* code) {
  if (!is_in_window(at)) return;
  const std::uint64_t address = number_of(at);
  if (!is_in_region(address, 1)) return touch_wild(address, 1);
  if (ThreadedMemory* threads = threaded()) return threads->flush(address, how, code);
  if (!is_recording()) return;
  const OwnCode own;
  if (how == Flush::kClflush) {
    recorder().clflush(0, address, place_of(code));
  } else {
    recorder().clflushopt(0, address, place_of(code));
  }
}

}  // namespace

void flush_memory(std::uint64_t begin, std::uint64_t end, const void* code) {
  if (!is_recording()) return;
  std::vector<std::uint64_t> used;
  recorder().recording().lines.for_each([&](std::uint64_t line, const auto&) {
    if (line + pmem::kLineBytes > begin && line < end) used.push_back(line);
  });
  for (const std::uint64_t line : used) recorder().clflushopt(own_thread(), line, place_of(code));
  recorder().sfence(own_thread(), place_of(code));
}

void begin_call_after_fences() {
  if (is_recording()) g.model->recorder->recording().log.set_common_past(recorder().past_of_call(own_thread()));
}
void end_call_after_fences() {
  if (is_recording()) g.model->recorder->recording().log.set_common_past(persist::kNoFences);
}

void note_thread_of_mark() {
  if (is_recording()) recorder().recording().thread_of_mark[recorder().op_count() - 1] = own_thread();
}

void Memory::clflush(const void* at, const void* code) { flush(at, Flush::kClflush, code); }
void Memory::clflushopt(const void* at, const void* code) { flush(at, Flush::kClflushopt, code); }
void Memory::clwb(const void* at, const void* code) { flush(at, Flush::kClwb, code); }

// The processor's own sfence would wait for what the recorder has just written. It orders non-temporal stores, and
// those of instrumented code are ordinary ones.
void Memory::sfence(const void* code) {
  if (ThreadedMemory* threads = threaded()) return threads->sfence(code);
  if (!is_recording()) return;
  const OwnCode own;
  recorder().sfence(0, place_of(code));
}

void Memory::mfence(const void* code) {
  asm volatile("mfence" ::: "memory");
  fence_for_locked(code);
}

}  // namespace crashcut::inprocess
