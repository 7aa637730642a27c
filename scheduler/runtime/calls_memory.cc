// What -fsanitize=thread calls at plain accesses, and at the entry and exit of functions.
#include <cstring>

#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/once.h"
#include "scheduler/runtime/access_model.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/loops.h"

namespace crashcut::scheduler::runtime {

namespace {

void plain(const void* p, std::size_t bytes, bool writes, const void* pc) {
  if (!is_scheduling() || bytes == 0) return;
  heed_added_locks(pc, true);
  note_touch({reinterpret_cast<std::uint64_t>(p), bytes, writes, false, pc});
}
// The second part of one access.
void plain_again(const void* p, std::size_t bytes, bool writes, const void* pc) {
  if (is_scheduling() && bytes > 0) note_touch({reinterpret_cast<std::uint64_t>(p), bytes, writes, false, pc});
}

}  // namespace

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

// Reads note the registers: they may be a loop's.
#define READ(name, bytes) \
  EXPORT_NOTING_REGISTERS(void, name)(void* p) { plain(p, bytes, false, CALLER); }
#define WRITE(name, bytes) \
  EXPORT(void, name)(void* p) { plain(p, bytes, true, CALLER); }
#define BOTH(name, bytes)                \
  EXPORT(void, name)(void* p) {          \
    plain(p, bytes, false, CALLER);      \
    plain_again(p, bytes, true, CALLER); \
  }
#define SIZE(bytes)                                    \
  READ(__tsan_read##bytes, bytes)                      \
  READ(__tsan_unaligned_read##bytes, bytes)            \
  READ(__tsan_volatile_read##bytes, bytes)             \
  READ(__tsan_unaligned_volatile_read##bytes, bytes)   \
  WRITE(__tsan_write##bytes, bytes)                    \
  WRITE(__tsan_unaligned_write##bytes, bytes)          \
  WRITE(__tsan_volatile_write##bytes, bytes)           \
  WRITE(__tsan_unaligned_volatile_write##bytes, bytes) \
  BOTH(__tsan_read_write##bytes, bytes)                \
  BOTH(__tsan_unaligned_read_write##bytes, bytes)

SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

EXPORT(void, __tsan_read_range)(void* p, std::size_t bytes) { plain(p, bytes, false, CALLER); }
EXPORT(void, __tsan_write_range)(void* p, std::size_t bytes) { plain(p, bytes, true, CALLER); }
EXPORT(void, __tsan_vptr_read)(void** p) { plain(p, sizeof *p, false, CALLER); }
EXPORT(void, __tsan_vptr_update)(void** p, void* value) {
  // A constructor or destructor that sets what is there already changes nothing that others could see.
  if (is_scheduling() && *p != value) plain(p, sizeof *p, true, CALLER);
}

EXPORT(void, __tsan_init)() {
  note_instrumented(CALLER);
  kAccessModel.note_module();
}
EXPORT(void, __tsan_func_entry)(void* call_site) {
  if (is_scheduling()) enter_function(call_site);
}
// A function with a result sets it after this call; void main() ends with what is left here.
EXPORT(std::uint64_t, __tsan_func_exit)(void*) {
  if (is_scheduling()) leave_function();
  return kNoResultOfMain;
}
EXPORT(void, __tsan_ignore_thread_begin)() {}
EXPORT(void, __tsan_ignore_thread_end)() {}

static void* copy(void* to, const void* from, std::size_t bytes, const void* pc) {
  if (kAccessModel.is_on()) {
    kAccessModel.copy(to, from, bytes, pc);
    return to;
  }
  plain(from, bytes, false, pc);
  plain_again(to, bytes, true, pc);
  return std::memmove(to, from, bytes);
}
static void* fill(void* to, int value, std::size_t bytes, const void* pc) {
  if (kAccessModel.is_on()) {
    kAccessModel.fill(to, value, bytes, pc);
    return to;
  }
  plain(to, bytes, true, pc);
  return std::memset(to, value, bytes);
}
// The linker turns calls of instrumented code into these (--wrap), newer compilers do it themselves.
EXPORT(void*, __wrap_memcpy)(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes, CALLER); }
EXPORT(void*, __wrap_memmove)(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes, CALLER); }
EXPORT(void*, __wrap_memset)(void* to, int value, std::size_t bytes) { return fill(to, value, bytes, CALLER); }
EXPORT(void*, __tsan_memcpy)(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes, CALLER); }
EXPORT(void*, __tsan_memmove)(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes, CALLER); }
EXPORT(void*, __tsan_memset)(void* to, int value, std::size_t bytes) { return fill(to, value, bytes, CALLER); }

// The guard of a function's static variable: its first byte says that it is done, and the compiler looks at that
// before it calls.
static ObjectId guard_object(const char* guard) {
  return object_at(PrimitiveId::kOnce, guard, {{}, *guard != 0 ? once::kDone : once::kNotYet});
}
static void end_guard(char* guard, once::Verb verb, const void* caller) {
  const std::uint8_t value = verb == once::kEnd ? 1 : 0;
  if (is_scheduling()) {
    Operation operation(once::access(guard_object(guard), verb));
    if (g_is_instrumented) {
      const auto address = reinterpret_cast<std::uint64_t>(guard);
      Access store = memory::access(memory_object(address), memory::kStore,
                                    static_cast<std::uint8_t>(address % memory::kGranule), 1, value);
      store.order = memory::kRelease;
      current_actor().memory.granules[1] = reinterpret_cast<const std::int64_t*>(address & ~(memory::kGranule - 1));
      operation.add(store);
    }
    perform(operation, caller);
  }
  *guard = static_cast<char>(value);
}
static char* byte_of(long long* guard) { return reinterpret_cast<char*>(guard); }
EXPORT(int, __cxa_guard_acquire)(long long* guard) {
  if (!is_scheduling()) return *byte_of(guard) == 0 ? 1 : 0;
  return perform(once::access(guard_object(byte_of(guard)), once::kBegin), CALLER) == once::kMustRun ? 1 : 0;
}
EXPORT(void, __cxa_guard_release)(long long* guard) { end_guard(byte_of(guard), once::kEnd, CALLER); }
EXPORT(void, __cxa_guard_abort)(long long* guard) { end_guard(byte_of(guard), once::kGiveUp, CALLER); }
