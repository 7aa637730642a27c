// Files of a program whose threads are scheduled: their calls are operations of the scheduler
// (scheduler/runtime/files.h), and what an execution wrote is crashed and recovered by the coordinator.
//
// Who is who: the coordinator (protocol.h) forks the scheduler's server, which forks runners
//   (scheduler/runtime/protocol.h). A runner's recording lies in the shared arena, where the coordinator finds it until
//   the next execution begins.
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <exception>

#include "include/crashcut.h"
#include "inject/interpose.h"
#include "persist/hash.h"
#include "recovery/inprocess/call.h"
#include "recovery/inprocess/digest.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/touch_list.h"
#include "scheduler/order.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/world.h"

namespace crashcut::inprocess {

namespace {

using fusefs::Effects;
using scheduler::runtime::FileCall;
using scheduler::runtime::FileModel;

TouchList g_touches;
std::string* g_text = nullptr;
bool g_is_ending = false;
bool g_is_composite = false;  // a call that is several reads and writes: it is done in one step

// Before the call is done its descriptor may change hands; then it finds out (FileModel::kWouldBlock).
void find_locks(FileCall& call) {
  const int fd = static_cast<int>(call.a[0]);
  const fusefs::Process& process = *g.model->process;
  switch (call.number) {
    case SYS_write:
    case SYS_writev:
      call.locks[1] = process.description_lock_of(fd);
      [[fallthrough]];
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_ftruncate:
    case SYS_fallocate:
      call.locks[0] = process.inode_lock_of(fd);
      return;
    case SYS_pwritev2:
      call.locks[0] = process.inode_lock_of(fd);
      if (call.a[3] == -1) call.locks[1] = process.description_lock_of(fd);
      return;
    case SYS_preadv2:
      if (call.a[3] != -1) return;
      [[fallthrough]];
    case SYS_read:
    case SYS_readv:
    case SYS_lseek:
    case SYS_getdents64:
      call.locks[1] = process.description_lock_of(fd);
      return;
    default:
      return;
  }
}

bool is_ours(FileCall& call) {
  if (g.model == nullptr || !is_model_call(call)) return false;
  find_locks(call);
  return true;
}

std::uint64_t hash_path(std::uint64_t hash, long address) {
  return address == 0 ? hash : persist::mix(hash, persist::hash_of(reinterpret_cast<const char*>(address)));
}

std::uint64_t name_of(const FileCall& call) {
  std::uint64_t hash = persist::mix(1, static_cast<std::uint64_t>(call.number));
  if (call.number == CRASHCUT_SYSCALL_NUMBER) return persist::mix(hash, static_cast<std::uint64_t>(call.a[0])) >> 1;
  if (call.number == SYS_sync)
    return hash >> 1;  // no argument: what its register holds is left over from something else
  switch (call_entry(call.number).filter) {
    case Filter::kPath:
      hash = hash_path(hash, call.a[0]);
      break;
    case Filter::kPathSecond:
    case Filter::kAt:
      hash = hash_path(hash, call.a[1]);
      break;
    case Filter::kAtSecond:
      hash = hash_path(hash, call.a[2]);
      break;
    case Filter::kTwoPaths:
      hash = hash_path(hash_path(hash, call.a[0]), call.a[1]);
      break;
    case Filter::kTwoAts:
      hash = hash_path(hash_path(hash, call.a[1]), call.a[3]);
      break;
    default:
      hash = persist::mix(hash, static_cast<std::uint64_t>(call.a[0]));
      break;
  }
  const bool writes = call.number == SYS_write || call.number == SYS_pwrite64;
  constexpr long kBytesMost = 4096;
  if (writes && call.a[1] != 0)
    hash = persist::mix(hash, persist::hash_of({reinterpret_cast<const char*>(call.a[1]),
                                                static_cast<std::size_t>(std::clamp(call.a[2], 0L, kBytesMost))}));
  return hash >> 1;
}

std::uint64_t observed_by(const FileCall& call, long result) {
  const std::uint64_t hash = persist::mix(2, static_cast<std::uint64_t>(result));
  const bool reads = call.number == SYS_read || call.number == SYS_pread64;
  if (!reads || result <= 0) return hash;
  return persist::mix(hash,
                      persist::hash_of({reinterpret_cast<const char*>(call.a[1]), static_cast<std::size_t>(result)}));
}

long do_call(Call& call) try {
  return call.number == CRASHCUT_SYSCALL_NUMBER ? own_call(call) : call_entry(call.number).function(call);
} catch (const std::exception& error) {
  tool_error(std::string("an exception inside crashcut's model: ") + error.what());
}

long execute(FileCall& call) {
  const bool was_composite = g_is_composite;
  g_is_composite = call.number == SYS_sendfile || call.number == SYS_copy_file_range;
  if (g_text != nullptr) g_text->clear();
  const std::size_t ops_before = g.model->recorder->recording().ops.size();
  if (g_threaded != nullptr) begin_call_after_fences();
  const long result = do_call(call);
  if (g_threaded != nullptr) end_call_after_fences();
  if (g_text != nullptr && call.number == CRASHCUT_SYSCALL_NUMBER) {
    const auto& ops = g.model->recorder->recording().ops;
    *g_text = ops.size() > ops_before ? ops.back() : "call of crashcut.h";
  }
  g_is_composite = was_composite;
  if (result == kForward) return FileModel::kNotOurs;
  return result == fusefs::kWouldBlock ? FileModel::kWouldBlock : result;
}

std::string_view directory() {
  static std::string found;
  if (g.model == nullptr) return inject::kModelRoot;
  in_model([&] { found = g.model->process->getcwd(); });
  return found;
}

std::string_view text_of_call() { return g_text == nullptr ? std::string_view{} : *g_text; }

void begin(bool has_texts) {
  g_touches.forget();
  g_is_ending = false;
  g.narrating = has_texts;
  g_text = g.call_text = has_texts ? new std::string : nullptr;
  start_execution_model();
  g_touches.forget();
}

// What was done after the last step, nobody else was left to see.
void loosen(fusefs::Recorder& recorder) {
  const auto steps = scheduler::runtime::steps_so_far();
  const scheduler::Order order(steps);
  recorder.loosen([&](std::uint32_t first, std::uint32_t second) {
    return second >= steps.size() || order.is_before(first, second);
  });
}

void end() {
  if (g.model == nullptr || g_is_ending) return;
  g_is_ending = true;  // should it fail, it is not tried again
  // With persistent memory every order of the calls is tried, and the log has events of the memory too.
  const bool may_loosen = scheduler::runtime::may_loosen() && g.model->memory == nullptr;
  if (may_loosen && g.model->recorder->is_concurrent()) loosen(*g.model->recorder);
  publish_recording(0);
  std::uint64_t used = 0;
  auto* words = reinterpret_cast<std::uint64_t*>(g.control + kDigestOffset);
  // It tells files apart, not what is in memory.
  const bool is_whole = g.model->memory == nullptr &&
                        write_digest(g.model->recorder->recording(), words, kDigestBytes / sizeof *words, used);
  g.header->digest_bytes = is_whole ? used * sizeof *words : 0;
  for (const int fd : g.model->process->descriptors()) kernel(SYS_close, fd);
  for (auto& word : g.modelled_fds) word = 0;
  g.model = nullptr;
  g_threaded = nullptr;
  g_watches_all = false;
  g_touches.forget();
}

bool is_assumption(const FileCall& call) {
  return call.number == CRASHCUT_SYSCALL_NUMBER && call.a[0] == CRASHCUT_OP_ASSUME;
}

}  // namespace

fusefs::Effects* effects_of_calls() { return inject::schedules_threads() ? &g_touches : nullptr; }

int lowest_fd(int lowest) {
  if (!inject::schedules_threads() || g_phase != Phase::kExecuting) return lowest;
  const std::uint32_t actor = scheduler::runtime::running_actor();
  const int own = scheduler::runtime::first_fd_of(actor);
  const int from = std::max(lowest, own);
  g_touches.touch(Effects::Thing::kNumbers, Effects::kTarget, scheduler::runtime::range_of_fd(from));
  const bool shares_range = actor != 0 && own == 0;
  if (shares_range) g_touches.touch(Effects::Thing::kNumbers, Effects::kBoth, 0);
  return from;
}

void prepare_filesystem(fusefs::Filesystem::Setup& setup) {
  if (!inject::schedules_threads()) return;
  setup.effects = &g_touches;
  setup.noatime = true;
  setup.clock = [] { return timespec{1'000'000'000, 0}; };
  setup.on_step = [] {
    if (!g_is_composite) scheduler::runtime::go_on_later();
  };
}

}  // namespace crashcut::inprocess

namespace crashcut::scheduler::runtime {

const FileModel kFileModel{inprocess::is_ours,
                           inprocess::is_assumption,
                           inprocess::name_of,
                           inprocess::execute,
                           inprocess::observed_by,
                           [] { return inprocess::g_touches.blocked_by(); },
                           [] { return inprocess::g_touches.take(); },
                           inprocess::text_of_call,
                           inprocess::begin,
                           inprocess::end,
                           inprocess::directory};

}  // namespace crashcut::scheduler::runtime
