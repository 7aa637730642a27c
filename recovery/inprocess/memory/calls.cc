// System calls whose arguments are addresses of persistent memory.
//
// read() and write() in all their forms work on a copy. Any other call is refused by a sentence.
#include <errno.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <climits>

#include "include/crashcut.h"
#include "inject/interpose.h"
#include "recovery/inprocess/call.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/memory/stuck.h"
#include "recovery/inprocess/memory/trap.h"
#include "recovery/inprocess/models.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/user_memory.h"

namespace crashcut::inprocess {

namespace {

using inject::Fate;

enum class Way { kNone, kRead, kWritten };  // what the program's buffers are: filled by the call, or read by it

struct BufferCall {
  long number;
  Way way;
  bool is_vector;
};
constexpr BufferCall kBufferCalls[] = {
    {SYS_read, Way::kRead, false},        {SYS_pread64, Way::kRead, false},  {SYS_readv, Way::kRead, true},
    {SYS_preadv, Way::kRead, true},       {SYS_preadv2, Way::kRead, true},   {SYS_write, Way::kWritten, false},
    {SYS_pwrite64, Way::kWritten, false}, {SYS_writev, Way::kWritten, true}, {SYS_pwritev, Way::kWritten, true},
    {SYS_pwritev2, Way::kWritten, true},
};

constexpr std::size_t kBufferMost = 0x7ffff000;  // MAX_RW_COUNT

// A buffer of the program in persistent memory, and the copy that the call works on.
struct Copied {
  std::uint64_t address;
  std::vector<std::byte> bytes;
};

bool has_window_argument(const Call& call) {
  return std::any_of(std::begin(call.a), std::end(call.a),
                     [](long a) { return is_in_window(static_cast<std::uint64_t>(a)); });
}

// Takes a copy of one buffer if it is in a region. False if it is no region's: the call sees a bad address.
void copy_in(iovec& part, Way way, const void* caller, std::vector<Copied>& copies) {
  const auto address = reinterpret_cast<std::uint64_t>(part.iov_base);
  const std::size_t bytes = std::min(part.iov_len, kBufferMost);
  if (!is_in_window(address) || bytes == 0 || !is_in_region(address, bytes)) return;
  copies.push_back({address, std::vector<std::byte>(bytes)});
  if (way == Way::kWritten) load_memory(address, copies.back().bytes, caller);
  part.iov_base = copies.back().bytes.data();
}

// What the call has filled in goes to the regions.
void copy_out(const std::vector<iovec>& original, const std::vector<Copied>& copies, long done, const void* caller) {
  auto copy = copies.begin();
  for (const iovec& part : original) {
    const auto count = std::min<long>(done, static_cast<long>(part.iov_len));
    if (copy != copies.end() && copy->address == reinterpret_cast<std::uint64_t>(part.iov_base)) {
      if (count > 0) copy_to_memory(copy->address, {copy->bytes.data(), static_cast<std::size_t>(count)}, caller);
      ++copy;
    }
    done -= count;
  }
}

void do_with_copies(Call& call, ucontext_t& context, const BufferCall& what) {
  std::vector<iovec>* original = nullptr;
  std::vector<iovec>* parts = nullptr;
  std::vector<Copied>* copies = nullptr;
  in_model([&] {
    original = new std::vector<iovec>;
    copies = new std::vector<Copied>;
    if (what.is_vector) {
      const auto* given = inject::pointer<const iovec>(call.a[1]);
      original->assign(given, given + call.a[2]);
    } else {
      original->push_back({inject::pointer<void>(call.a[1]), static_cast<std::size_t>(call.a[2])});
    }
    parts = new std::vector<iovec>(*original);
    for (iovec& part : *parts) copy_in(part, what.way, call.caller, *copies);
  });
  call.a[1] = reinterpret_cast<long>(what.is_vector ? static_cast<void*>(parts->data()) : parts->front().iov_base);
  if (kFileModel.do_call(call, context) == Fate::kNotMine) call.result = inject::do_in_kernel(call);
  in_model([&] {
    if (what.way == Way::kRead) copy_out(*original, *copies, std::max(call.result, 0L), call.caller);
    delete original;
    delete parts;
    delete copies;
  });
}

const BufferCall* find_buffer_call(const Call& call) {
  for (const BufferCall& known : kBufferCalls) {
    if (known.number != call.number) continue;
    if (!known.is_vector) return is_in_window(static_cast<std::uint64_t>(call.a[1])) ? &known : nullptr;
    if (call.a[2] < 0 || call.a[2] > IOV_MAX || is_in_window(static_cast<std::uint64_t>(call.a[1]))) return nullptr;
    const auto* parts = inject::pointer<const iovec>(call.a[1]);
    if (readable_bytes(parts, static_cast<std::size_t>(call.a[2]) * sizeof *parts) !=
        static_cast<std::size_t>(call.a[2]) * sizeof *parts)
      return nullptr;
    const bool is_ours = std::any_of(parts, parts + call.a[2], [](const iovec& p) { return is_in_window(p.iov_base); });
    return is_ours ? &known : nullptr;
  }
  return nullptr;
}

// The kernel says that an address is bad: it may be one of ours. Registers that a call does not use may hold any
// number.
void refuse_address(const Call& call) {
  for (const long a : call.a) {
    const auto address = static_cast<std::uint64_t>(a);
    if (!is_in_window(address) || !is_in_region(address, 1)) continue;
    user_error(
        fmt::format("the program passed an address of persistent memory ({}) to system call {}, which crashcut "
                    "follows in read() and write() only: copy the data to ordinary memory first",
                    describe_address(address), call.number));
  }
}

// What a recovery prints is kept by the file model.
bool is_captured(long fd) {
  return g_phase == Phase::kRecovering && fd >= 0 && fd < static_cast<long>(sizeof g.captured) && g.captured[fd] != 0;
}

// Whether the kernel does the call, and not another model.
bool is_for_kernel(const Call& call) {
  if (is_captured(call.a[0])) return false;
  switch (call.number) {
    case SYS_clone:
    case SYS_clone3:
    case SYS_exit:
    case SYS_exit_group:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
    case SYS_rt_sigsuspend:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case CRASHCUT_SYSCALL_NUMBER:
      return false;
    default:
      return !is_model_call(call) && inject::refused_call(call) == nullptr;
  }
}

}  // namespace

// Store buffers without persistent memory (crashcut threads --memory tso) are another matter.
static bool is_about_persistent_memory() {
  return g.header->has_memory != 0 && (!inject::schedules_threads() || g.header->recovers_by_main != 0) &&
         (g_phase == Phase::kExecuting || g_phase == Phase::kRecovering);
}

Fate do_memory_call(Call& call, ucontext_t& context) {
  note_call_in_round(call.number);
  // Of machines, the scheduler's runtime says it.
  const bool is_machine = g.header->has_shared_memory != 0;
  if ((call.number == SYS_clone || call.number == SYS_clone3) && !is_machine && (has_regions() || is_trapping())) {
    // The flags of clone3() are the first number of its argument.
    const auto flags = call.number == SYS_clone3 ? *inject::pointer<const std::uint64_t>(call.a[0])
                                                 : static_cast<std::uint64_t>(call.a[0]);
    const bool starts_thread = (flags & CLONE_THREAD) != 0;
    if (starts_thread) g.header->wants_threads = 1;
    user_error(
        starts_thread
            ? "the program started a thread: --schedules one runs it with its threads scheduled"
            : "the program started a process while it had persistent memory, which crashcut pmem does not model");
  }
  // Where a region is says nothing of what other threads do: no step.
  if (call.number == CRASHCUT_SYSCALL_NUMBER && call.a[0] == CRASHCUT_OP_PMEM && g_threaded != nullptr) {
    in_model([&] { call.result = own_call(call); });
    return Fate::kDone;
  }
  if (is_trapping() && call.number == SYS_mmap && (call.a[2] & PROT_EXEC) != 0 && g_phase != Phase::kConstructing) {
    user_error(
        "the program loads or makes code while it runs, which crashcut pmem --trap does not follow: the fences in it "
        "would not be seen");
  }
  if ((call.number == SYS_socket || call.number == SYS_socketpair) && is_about_persistent_memory()) {
    user_error(
        "the program called socket(): what comes in by it would not come again after a crash, so crashcut pmem does "
        "not model it");
  }
  if (!has_regions()) return Fate::kNotMine;
  prepare_file_call(call);
  if (read_file_region(call, context)) return Fate::kDone;
  if (is_in_window(static_cast<std::uint64_t>(call.a[0])) && do_range_call(call)) return Fate::kDone;
  if (const BufferCall* known = find_buffer_call(call)) {
    do_with_copies(call, context, *known);
    return Fate::kDone;
  }
  if (!has_window_argument(call) || !is_for_kernel(call)) return Fate::kNotMine;
  if (!inject::is_traceless(call)) spend_image();
  call.result = inject::do_in_kernel(call);
  if (call.result == -EFAULT) refuse_address(call);
  return Fate::kDone;
}

}  // namespace crashcut::inprocess
