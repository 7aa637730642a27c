#include "inject/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "inject/gate.h"

namespace crashcut::inject {

// libc has the kernel clear the id of the main thread when that ends: the kernel knows where it is.
static long find_thread_id() {
  int* address = nullptr;
  char* self;
  asm("movq %%fs:0x10, %0" : "=r"(self));
  const long own = kernel(SYS_gettid);
  constexpr int kGetTidAddress = 40;  // PR_GET_TID_ADDRESS
  if (kernel(SYS_prctl, kGetTidAddress, &address) == 0 && address != nullptr && *address == own)
    return reinterpret_cast<char*>(address) - self;
  for (long offset = 64; offset < 2048; offset += 4) {
    if (*reinterpret_cast<int*>(self + offset) == own) return offset;
  }
  return -1;
}

long thread_id_offset() {
  static const long offset = find_thread_id();
  return offset;
}

void end_with_parent(long parent) {
  kernel(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (kernel(SYS_getppid) != parent) kernel(SYS_exit_group, 0);  // it died before that
}

int wait_for_process(long pid, rusage* used) {
  int status = 0;
  while (kernel(SYS_wait4, pid, &status, __WALL, used) == -EINTR) {
  }
  return status;
}

}  // namespace crashcut::inject
