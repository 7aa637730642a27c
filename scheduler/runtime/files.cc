#include "scheduler/runtime/files.h"

#include <errno.h>

#include <algorithm>

#include "scheduler/primitives/assume.h"
#include "scheduler/primitives/file.h"
#include "scheduler/runtime/accesses.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

bool changes_something(const Footprint& footprint) {
  return std::any_of(footprint.begin(), footprint.end(), [](const Touch& t) { return t.is_source; });
}

void begin_step(Operation operation, const void* caller) {
  Actor& self = current_actor();
  end_segment();
  wait_for_turn(operation, caller);
  self.is_in_file_step = true;
}

void lock_all(Actor& self, file::Verb verb) {
  for (const ObjectId lock : self.file_locks) {
    if (lock != ObjectId{}) self.done.add({lock, verb});
  }
}

// The step is done: what it was is known.
void finish_step(std::int64_t observed) {
  Actor& self = current_actor();
  self.is_in_file_step = false;
  Footprint footprint = kFileModel.take_footprint();
  if (changes_something(footprint)) {
    self.yields_in_a_row = 0;
    note_written();
  }
  for (Access& access : self.done) access.observed = observed;
  finish_turn(self.done, std::move(footprint), kFileModel.text_of_call());
}

Operation call_operation(const FileCall& call, const Actor& self) {
  Operation operation(Access{file::kCalls, file::kCall, static_cast<std::int64_t>(kFileModel.name_of(call))});
  for (const ObjectId lock : self.file_locks) {
    if (lock != ObjectId{}) operation.add({lock, file::kPass});
  }
  return operation;
}

// Each host has files of its own.
ObjectId file_object(std::uint64_t key) { return keyed_object(PrimitiveId::kFile, key ^ g_host_tag); }

void need_lock(Actor& self, int place, std::uint64_t key) {
  self.file_locks[place] = key == 0 ? ObjectId{} : file_object(key);
}

long execute_in_turn(FileCall& call, const void* caller) {
  Actor& self = current_actor();
  for (int i = 0; i < FileCall::kLocksMost; ++i) need_lock(self, i, call.locks[i]);
  while (true) {
    begin_step(call_operation(call, self), caller);
    self.done = Access{file::kCalls, file::kCall, self.done[0].argument};
    self.is_holding_locks = false;
    const long result = kFileModel.execute(call);
    if (result != FileModel::kWouldBlock) {
      lock_all(self, self.is_holding_locks ? file::kRelease : file::kPass);
      self.is_holding_locks = false;
      finish_step(static_cast<std::int64_t>(kFileModel.observed_by(call, result) >> 1));
      return result;
    }
    // It found a lock that it did not know it would need. It tried, and waits.
    const ObjectId lock = file_object(kFileModel.blocked_by());
    self.done.add({lock, file::kTry});
    finish_step(EAGAIN);
    self.file_locks[0] = lock;
  }
}

}  // namespace

void go_on_later() {
  if (!is_scheduling() || !current_actor().is_in_file_step) return;
  Actor& self = current_actor();
  if (!self.is_holding_locks) lock_all(self, file::kAcquire);
  self.is_holding_locks = true;
  finish_step(0);
  begin_step(Access{file::kCalls, file::kGoOn}, reinterpret_cast<const void*>(self.caller));
  self.done = Access{file::kCalls, file::kGoOn};
}

bool do_file_call(inject::Call& asked) {
  FileCall call{asked};
  if (!kFileModel.is_ours(call)) return false;
  const int kept_errno = errno;
  if (is_scheduling() && !current_actor().is_in_file_step) {
    if (kBufferModel.is_on()) kBufferModel.enter_system(call.caller);
    if (kFileModel.is_assumption(call)) perform(assume::wait(), call.caller);
    heed_added_locks(call.caller, false);
    call.result = execute_in_turn(call, call.caller);
  } else {
    // After exit(): nobody else is left.
    call.result = kFileModel.execute(call);
    (void)kFileModel.take_footprint();
  }
  errno = kept_errno;
  asked = call;
  return call.result != FileModel::kNotOurs;
}

namespace {
constexpr int kFdsOfMain = 64;    // the numbers below are main()'s
constexpr int kFdsOfThread = 16;  // so many each
constexpr int kFdsMost = 1000;    // the usual limit is 1024; threads beyond share main()'s
}  // namespace

int first_fd_of(std::uint32_t actor) {
  const int first = actor == 0 ? 0 : kFdsOfMain + (static_cast<int>(actor) - 1) * kFdsOfThread;
  return first > kFdsMost ? 0 : first;
}
std::uint64_t range_of_fd(int fd) {
  return fd < kFdsOfMain ? 0 : static_cast<std::uint64_t>((fd - kFdsOfMain) / kFdsOfThread + 1);
}

std::uint32_t running_actor() { return is_scheduling() ? index(current_actor().id) : 0; }
bool may_loosen() { return g_is_instrumented && g_control->is_reduced != 0 && !kBufferModel.is_on(); }
std::span<const Step> steps_so_far() { return {g_control->steps, g_control->step_count}; }
std::uint64_t next_ordinal() {
  static std::uint64_t outside = 0;
  return is_scheduling() ? current_actor().ordinal++ : (std::uint64_t{1} << 40) + outside++;
}

}  // namespace crashcut::scheduler::runtime
