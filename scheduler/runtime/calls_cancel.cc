// Cancellation: deferred, heeded at cancellation points. Asynchronous cancellation could end a thread between any two
// of its instructions, which is nothing that a schedule of operations can say.
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/gate.h"

namespace crashcut::scheduler::runtime {

namespace {

// Whether what is loaded there refers to one of these functions, by its relocations.
bool refers_to(const dl_phdr_info& info, std::span<const char* const> wanted) {
  const Elf64_Dyn* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const Elf64_Dyn*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
  }
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  struct {
    const Elf64_Rela* first = nullptr;
    std::uint64_t bytes = 0;
  } tables[2];
  // The loader has put addresses in place of offsets, but for the kernel's own object.
  const auto at = [&](const Elf64_Dyn& d) {
    return d.d_un.d_ptr + (d.d_un.d_ptr < info.dlpi_addr ? info.dlpi_addr : 0);
  };
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        symbols = reinterpret_cast<const Elf64_Sym*>(at(*dynamic));
        break;
      case DT_STRTAB:
        names = reinterpret_cast<const char*>(at(*dynamic));
        break;
      case DT_RELA:
        tables[0].first = reinterpret_cast<const Elf64_Rela*>(at(*dynamic));
        break;
      case DT_RELASZ:
        tables[0].bytes = dynamic->d_un.d_val;
        break;
      case DT_JMPREL:
        tables[1].first = reinterpret_cast<const Elf64_Rela*>(at(*dynamic));
        break;
      case DT_PLTRELSZ:
        tables[1].bytes = dynamic->d_un.d_val;
        break;
      default:
        break;
    }
  }
  if (symbols == nullptr || names == nullptr) return false;
  for (const auto& table : tables) {
    for (std::uint64_t i = 0; table.first != nullptr && i < table.bytes / sizeof(Elf64_Rela); ++i) {
      const Elf64_Sym& symbol = symbols[ELF64_R_SYM(table.first[i].r_info)];
      const bool is_needed = symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL;
      const auto is_it = [&](const char* name) { return std::strcmp(names + symbol.st_name, name) == 0; };
      if (is_needed && std::any_of(wanted.begin(), wanted.end(), is_it)) return true;
    }
  }
  return false;
}

constexpr const char* kCancel[] = {"pthread_cancel"};
bool g_is_cancelling = false;

__attribute__((constructor(102))) void find_users_of_cancel() { g_is_cancelling = do_objects_refer_to(kCancel); }

// System calls of libc's functions that are cancellation points.
bool is_cancellation_point(long number) {
  switch (number) {
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_open:
    case SYS_openat:
    case SYS_creat:
    case SYS_close:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_msync:
    case SYS_sync_file_range:
    case SYS_fallocate:
    case SYS_copy_file_range:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
      return true;
    default:
      return false;
  }
}

}  // namespace

// The runtime's own library has its own reasons.
bool do_objects_refer_to(std::span<const char* const> names) {
  const auto visit = [](dl_phdr_info* info, std::size_t, void* wanted) {
    const bool is_own = info->dlpi_name != nullptr && std::strstr(info->dlpi_name, "libcrashcut_runtime") != nullptr;
    return !is_own && refers_to(*info, *static_cast<std::span<const char* const>*>(wanted)) ? 1 : 0;
  };
  return dl_iterate_phdr(visit, &names) != 0;
}

bool is_cancelling() { return g_is_cancelling; }

static bool can_be_cancelled() {
  return g_is_cancelling && current_actor().is_cancel_enabled && !current_actor().is_ending;
}
static Access own_access(cancellation::Verb verb) {
  return cancellation::access(cancellation_object(current_actor()), verb);
}

std::optional<Access> entry_of_cancellation_point() {
  if (!can_be_cancelled()) return std::nullopt;
  if (!std::exchange(current_actor().has_canceller, true))
    accompany(Names::kCancelOrdinal, own_access(cancellation::kAct));
  return own_access(cancellation::kEnter);
}

Operation& leave_cancellation_point(Operation& operation) {
  if (can_be_cancelled()) operation.add(own_access(cancellation::kLeave));
  return operation;
}

bool is_cancelled_at_entry(const void* caller) {
  const std::optional<Access> entry = entry_of_cancellation_point();
  if (!entry) return false;
  perform(*entry, caller);
  return is_cancelled();
}

void enter_cancellation_point(const void* caller) {
  if (is_cancelled_at_entry(caller)) end_actor(PTHREAD_CANCELED);
}

bool is_in_cancellation_point() {
  return current_actor().has_canceller &&
         cancellation::stage(object_of(cancellation_object(current_actor()))) != cancellation::kOutside;
}

void enter_cancellation_point_again(const void* caller) {
  if (!is_in_cancellation_point()) perform(own_access(cancellation::kEnter), caller);
}

bool is_cancelled() {
  for (const Access& access : current_actor().done) {
    if (primitive_of(access.object) == PrimitiveId::kCancellation && access.verb != cancellation::kRequest)
      return access.result == ECANCELED;
  }
  return false;
}

void end_if_cancelled() {
  if (is_cancelled()) end_actor(PTHREAD_CANCELED);
}

void heed_cancellation(const void* caller) {
  if (!can_be_cancelled()) return;
  perform(own_access(cancellation::kHeed), caller);
  end_if_cancelled();
}

bool is_cancelled_before(long number, const void* caller) {
  if (!g_is_cancelling || !is_scheduling() || current_actor().is_in_file_step || !is_cancellation_point(number))
    return false;
  if (!can_be_cancelled()) return false;
  perform(own_access(cancellation::kHeed), caller);
  return is_cancelled();
}

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

EXPORT(int, pthread_cancel)(pthread_t handle) {
  if (!is_scheduling()) refuse_outside("pthread_cancel() outside of main()");
  if (!g_is_cancelling) refuse("pthread_cancel() by a library that was loaded later");
  Actor* target = actor_of_handle(static_cast<std::uint64_t>(handle));
  if (target == nullptr) return ESRCH;
  return static_cast<int>(perform(cancellation::access(cancellation_object(*target), cancellation::kRequest), CALLER));
}

EXPORT(void, pthread_testcancel)() {
  if (!is_scheduling() || !g_is_cancelling) return;
  heed_cancellation(CALLER);
  // A loop of these alone waits to be cancelled. It may also be one that computes: where nobody else can go on, it
  // does.
  if (++current_actor().yields_in_a_row <= kPolite) return;
  note_sleep(true);
  perform(spin::access(loop_object(), spin::kSpin), CALLER);
  note_sleep(false);
}

EXPORT(int, pthread_setcancelstate)(int state, int* old) {
  if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE) return EINVAL;
  static bool outside = true;
  bool& is_enabled = is_scheduling() ? current_actor().is_cancel_enabled : outside;
  if (old != nullptr) *old = is_enabled ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE;
  is_enabled = state == PTHREAD_CANCEL_ENABLE;
  return 0;
}

EXPORT(int, pthread_setcanceltype)(int type, int* old) {
  if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
    refuse(name_openmp("pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS)", CALLER));
  if (type != PTHREAD_CANCEL_DEFERRED) return EINVAL;
  if (old != nullptr) *old = PTHREAD_CANCEL_DEFERRED;
  return 0;
}
