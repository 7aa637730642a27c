// The same with a fence, and nothing that it could wait for.
// mend: A flush of box after flush.c:17 (send) makes this go away (verified with it, under this schedule:
#include <assert.h>
#include <emmintrin.h>

#include "crashcut.h"

struct box {
  _Alignas(64) volatile long message;
  _Alignas(64) long is_there;
};

static struct box* g_box;

static void send(long message) {
  // It is not flushed.
  g_box->message = message;
  // mended: __asm__ volatile("clflushopt %0" : "+m"(g_box->message));
  _mm_sfence();
  __atomic_store_n(&g_box->is_there, 1, __ATOMIC_RELEASE);
}

int main(void) {
  g_box = crashcut_cxl("box", sizeof *g_box);
  if (crashcut_machine() == 0) {
    send(42);
  } else {
    crashcut_wait_machine(0);
    if (__atomic_load_n(&g_box->is_there, __ATOMIC_ACQUIRE)) assert(g_box->message == 42);
  }
  return 0;
}
