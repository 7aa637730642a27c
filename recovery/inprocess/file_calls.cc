// System calls on files: which are the model's, and how they come to it.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include <exception>

#include "include/crashcut.h"
#include "inject/arena.h"
#include "recovery/inprocess/call.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/models.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/user_memory.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/own_world.h"
#include "scheduler/runtime/world.h"

namespace crashcut::inprocess {

constinit Runtime g;

namespace {

using inject::Fate;

void lock_model() {
  std::uint32_t free = 0;
  if (g.lock.compare_exchange_strong(free, 1, std::memory_order_acquire)) return;
  while (g.lock.exchange(2, std::memory_order_acquire) != 0) kernel(SYS_futex, &g.lock, FUTEX_WAIT_PRIVATE, 2, 0);
}

void unlock_model() {
  if (g.lock.exchange(0, std::memory_order_release) == 2) kernel(SYS_futex, &g.lock, FUTEX_WAKE_PRIVATE, 1);
}

}  // namespace

long own_call(Call& call) {
  switch (call.a[0]) {
    case CRASHCUT_OP_BARRIER:
      if (g_phase != Phase::kExecuting) return -EINVAL;
      if (g_threaded != nullptr && g_threaded->has_others_waiting()) {
        user_error(
            "crashcut_barrier() was called while another thread still had stores in its store buffer: call it before "
            "the threads start, or join them first");
      }
      g.model->recorder->begin_op("crashcut_barrier()");
      note_op_stack();
      if (g.model->memory != nullptr) g.model->memory->begin_durable();
      g.model->filesystem->make_durable();
      if (g.model->memory != nullptr) g.model->memory->end_durable();
      return 0;
    case CRASHCUT_OP_MARK: {
      // A recovery's marks are nobody's to read.
      if (g.model->recorder == nullptr) return 0;
      const std::string text(reinterpret_cast<const char*>(call.a[1]), static_cast<std::size_t>(call.a[2]));
      g.model->recorder->begin_op("crashcut_mark(\"" + text + "\")");
      note_op_stack();
      if (g_phase == Phase::kExecuting) g.model->recorder->mark(text);
      note_thread_of_mark();
      return 0;
    }
    case CRASHCUT_OP_REACHED:
      if (g_phase != Phase::kRecovering) return 0;
      return reached({reinterpret_cast<const char*>(call.a[1]), static_cast<std::size_t>(call.a[2])}) ? 1 : 0;
    case CRASHCUT_OP_ASSUME:
      if (g_phase != Phase::kRecovering)
        user_error(
            "main() called crashcut_assume(), which belongs in crashcut_recover(): it says which recoveries count");
      finish_recovery(Outcome::kAssumedAway, 0);
    case CRASHCUT_OP_PMEM:
      if (g.header->has_memory == 0) {
        user_error("the program uses persistent memory (crashcut_pmem): that is for crashcut pmem");
      }
      return open_region({reinterpret_cast<const char*>(call.a[1]), static_cast<std::size_t>(call.a[2])},
                         static_cast<std::uint64_t>(call.a[3]));
    default:
      return -ENOSYS;
  }
}

namespace {

bool is_ours(const Call& call, Filter filter) {
  const auto path = [&](int i) { return reinterpret_cast<const char*>(call.a[i]); };
  switch (filter) {
    case Filter::kAlways:
      return true;
    case Filter::kFd:
      return g.models_fd(static_cast<int>(call.a[0]));
    case Filter::kEitherFd:
      return g.models_fd(static_cast<int>(call.a[0])) ||
             g.models_fd(
                 static_cast<int>(call.a[call.number == SYS_copy_file_range || call.number == SYS_splice ? 2 : 1]));
    case Filter::kPath:
      return !surely_outside(AT_FDCWD, path(0));
    case Filter::kAt:
      return !surely_outside(call.a[0], path(1));
    case Filter::kTwoPaths:
      return !surely_outside(AT_FDCWD, path(0)) || !surely_outside(AT_FDCWD, path(1));
    case Filter::kTwoAts:
      return !surely_outside(call.a[0], path(1)) || !surely_outside(call.a[2], path(3));
    case Filter::kPathSecond:
      return !surely_outside(AT_FDCWD, path(1));
    case Filter::kAtSecond:
      return !surely_outside(call.a[1], path(2));
    case Filter::kMapFd:
      return (g.models_fd(static_cast<int>(call.a[4])) && (call.a[3] & MAP_ANONYMOUS) == 0) ||
             ((call.a[3] & MAP_FIXED) != 0 && is_mapped(call.a[0], call.a[1]));
    case Filter::kMapped:
      return is_mapped(call.a[0], call.a[1]);
  }
  return false;
}

}  // namespace

bool is_model_call(const Call& call) {
  const CallEntry& entry = call_entry(call.number);
  return call.number == CRASHCUT_SYSCALL_NUMBER || (entry.function != nullptr && is_ours(call, entry.filter));
}

namespace {

long capture_parts(int stream, const iovec* parts, long count) {
  long total = 0;
  for (long i = 0; i < count; ++i) {
    const std::size_t good = readable_bytes(parts[i].iov_base, parts[i].iov_len);
    in_model([&] { capture_output(stream, parts[i].iov_base, good); });
    total += static_cast<long>(good);
    if (good < parts[i].iov_len) return total > 0 ? total : -EFAULT;
  }
  return total;
}

// What the recovery prints is kept. kForward where the call is none of that.
long captured_call(Call& call) {
  const long fd = call.a[0];
  if (fd < 0 || fd >= static_cast<long>(sizeof g.captured) || g.captured[fd] == 0) return kForward;
  const int stream = g.captured[fd];
  switch (call.number) {
    case SYS_write:
    case SYS_pwrite64: {
      const iovec part{reinterpret_cast<void*>(call.a[1]), static_cast<std::size_t>(call.a[2])};
      return capture_parts(stream, &part, 1);
    }
    case SYS_writev: {
      const auto* parts = reinterpret_cast<const iovec*>(call.a[1]);
      if (call.a[2] < 0 || call.a[2] > IOV_MAX) return -EINVAL;
      const std::size_t bytes = static_cast<std::size_t>(call.a[2]) * sizeof *parts;
      return readable_bytes(parts, bytes) == bytes ? capture_parts(stream, parts, call.a[2]) : -EFAULT;
    }
    case SYS_close:
      g.captured[fd] = 0;
      return kForward;
    case SYS_dup:
    case SYS_dup2:
    case SYS_dup3:
    case SYS_fcntl: {
      if (call.number == SYS_fcntl && call.a[1] != F_DUPFD && call.a[1] != F_DUPFD_CLOEXEC) return kForward;
      if (call.number != SYS_dup && call.number != SYS_fcntl && g.models_fd(static_cast<int>(call.a[1])))
        return kForward;
      spend_image();
      const long made = kernel(call.number, call.a[0], call.a[1], call.a[2]);
      if (made >= 0 && made < static_cast<long>(sizeof g.captured))
        g.captured[made] = static_cast<std::uint8_t>(stream);
      return made;
    }
    default:
      return kForward;
  }
}

// A library that walks through directories opens "." first, to come back to it. Before main() that is the kernel's.
bool opens_current_directory(const Call& call) {
  if (call.number != SYS_open && call.number != SYS_openat) return false;
  const bool is_at = call.number == SYS_openat;
  const auto* name = inject::pointer<const char>(call.a[is_at ? 1 : 0]);
  const long flags = call.a[is_at ? 2 : 1];
  return (flags & (O_ACCMODE | O_CREAT | O_TRUNC)) == O_RDONLY && is_path(name) && std::string_view(name) == ".";
}

long model_call(const CallEntry& entry, Call& call) {
  if (g_phase == Phase::kConstructing) {
    if (entry.filter == Filter::kAlways || opens_current_directory(call)) return kForward;
    user_error(std::string(entry.name) +
               "() on a modelled file before main(), in a static constructor: only main() and "
               "crashcut_recover() may use files below /crashcut");
  }
  long result = 0;
  find_current_calls();
  in_model([&] {
    g.model->is_changed = false;
    end_loans();
    begin_call_after_fences();
    result = entry.function(call);
    end_call_after_fences();
    if (g.model->is_changed) refresh_mappings();
    if (g_phase == Phase::kRecovering) note_events_in();
    if (g.narrating && result != kForward) narrate_call(result);
  });
  return result;
}

long do_own_call(Call& call) {
  if (g_phase == Phase::kConstructing) {
    if (call.a[0] == CRASHCUT_OP_PMEM)
      user_error("crashcut_pmem() before main(), in a static constructor: call it later");
    return 0;
  }
  long result = 0;
  find_current_calls();
  in_model([&] {
    begin_call_after_fences();
    result = own_call(call);
    end_call_after_fences();
    if (g_phase == Phase::kRecovering) note_events_in();
    if (g.narrating) narrate_call(result);
  });
  return result;
}

// kForward: the kernel's.
long do_call(Call& call) {
  if (call.number == CRASHCUT_SYSCALL_NUMBER) return do_own_call(call);
  if (g_phase == Phase::kRecovering) {
    const long result = captured_call(call);
    if (result != kForward) return result;
    // dup2 onto a captured descriptor takes its number away.
    if ((call.number == SYS_dup2 || call.number == SYS_dup3) && call.a[1] >= 0 &&
        call.a[1] < static_cast<long>(sizeof g.captured) && call.a[0] != call.a[1]) {
      g.captured[call.a[1]] = 0;
    }
  }
  const CallEntry& entry = call_entry(call.number);
  if (entry.function == nullptr) return kForward;
  // What a program does with the result of an open that failed. The kernel says no, and forgets it.
  if (entry.filter == Filter::kFd && static_cast<int>(call.a[0]) < 0) return inject::do_in_kernel(call);
  return is_ours(call, entry.filter) ? model_call(entry, call) : kForward;
}

Fate do_file_call(Call& call, ucontext_t&) {
  // Of a recovery, calls on files are no steps.
  if (scheduler::runtime::g_control != nullptr && !scheduler::runtime::has_own_world())
    return scheduler::runtime::do_file_call(call) ? Fate::kDone : Fate::kNotMine;
  call.result = do_call(call);
  return call.result == kForward ? Fate::kNotMine : Fate::kDone;
}

struct ModelEntry {
  void (*function)(void*);
  void* argument;
};

// An exception of the model is ours: nothing of it reaches the program.
void enter_model(void* p) {
  const auto& entry = *static_cast<ModelEntry*>(p);
  try {
    entry.function(entry.argument);
  } catch (const std::exception& error) {
    tool_error(std::string("an exception inside crashcut's model: ") + error.what());
  } catch (...) {
    tool_error("an exception inside crashcut's model");
  }
}

}  // namespace

void run_in_model(void (*function)(void*), void* argument) {
  if (inject::t_is_own_code) return function(argument);
  ModelEntry entry{function, argument};
  const int saved_errno = errno;
  lock_model();
  inject::t_is_own_code = true;
  if (g.slot != nullptr) g.slot->in_runtime.store(1, std::memory_order_relaxed);
  inject::crashcut_call_on_stack(enter_model, &entry, inject::g_model_stack.top);
  if (g.slot != nullptr) g.slot->in_runtime.store(0, std::memory_order_relaxed);
  inject::t_is_own_code = false;
  unlock_model();
  if (g_is_held) [[unlikely]]
    hold_after_operation();
  errno = saved_errno;
}

const inject::Model kFileModel{
    .name = "files",
    .start = start_files,
    .is_active = [] { return true; },
    .do_call = do_file_call,
    .spend_image = spend_series,
    .undoes =
        [](const Call& call) {
          return g.restorable && call.number == SYS_brk && static_cast<std::uint64_t>(call.a[0]) >= image_break();
        },
};

}  // namespace crashcut::inprocess
