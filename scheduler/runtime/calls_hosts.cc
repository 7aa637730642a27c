// What crashcut.h has about machines.
#include <errno.h>
#include <pthread.h>

#include "include/crashcut.h"
#include "scheduler/primitives/host.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/mutex_objects.h"
#include "scheduler/runtime/regions.h"

namespace crashcut::scheduler::runtime {

namespace {

bool is_machine(long number) { return number >= 0 && number < static_cast<long>(g_control->host_count); }

long open_shared(const char* name, std::size_t bytes) {
  if (std::string_view(name).size() >= kRegionNameMost) refuse("crashcut_cxl() with a name of more than 63 characters");
  void* at = open_region(name, bytes);
  if (at == nullptr)
    refuse("crashcut_cxl() with more bytes than before for a name, or with more memory than there is (64 GiB)");
  return reinterpret_cast<long>(at);
}

long wait_for_machine(long number, const void* caller) {
  if (!is_machine(number)) return -EINVAL;
  const std::int64_t stage =
      perform(host::access(host_object(static_cast<std::uint32_t>(number)), host::kWait), caller);
  return stage == host::kFailed ? 1 : 0;
}

long restart_machine(long number, const void* caller) {
  if (!is_machine(number)) return -EINVAL;
  const auto host = static_cast<std::uint32_t>(number);
  const std::int64_t error = perform(host::access(host_object(host), host::kRestart), caller);
  if (error != 0) return -error;
  add_incarnation(host);
  return 0;
}

long do_call(const long* a, const void* caller) {
  switch (a[0]) {
    case CRASHCUT_OP_MACHINE:
      return static_cast<long>(g_host);
    case CRASHCUT_OP_MACHINES:
      return static_cast<long>(g_control->host_count);
    case CRASHCUT_OP_CXL:
      return open_shared(reinterpret_cast<const char*>(a[1]), static_cast<std::size_t>(a[2]));
    default:
      break;
  }
  if (!is_scheduling()) return -EINVAL;  // crashcut_setup(): there is no machine yet
  switch (a[0]) {
    case CRASHCUT_OP_WAIT_MACHINE:
      return wait_for_machine(a[1], caller);
    case CRASHCUT_OP_RESTART_MACHINE:
      return restart_machine(a[1], caller);
    default:
      return has_owner_died(reinterpret_cast<const pthread_mutex_t*>(a[1])) ? 1 : 0;
  }
}

}  // namespace

bool do_host_call(const long* a, const void* caller, long& result) {
  if (a[0] < CRASHCUT_OP_MACHINE || a[0] > CRASHCUT_OP_OWNER_DIED) return false;
  result = is_hosted() ? do_call(a, caller) : -ENOSYS;
  return true;
}

}  // namespace crashcut::scheduler::runtime
