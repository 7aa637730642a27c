// The same with a flush, which nothing waits for before the word is stored.
// mend: A fence after fence.c:18 (send) makes this go away (verified with it, under this schedule:
#include <assert.h>
#include <emmintrin.h>

#include "crashcut.h"

struct box {
  _Alignas(64) volatile long message;
  _Alignas(64) long is_there;
};

static struct box* g_box;

static void send(long message) {
  // It takes its place as early as it can.
  g_box->message = message;
  __asm__ volatile("clflushopt %0" : "+m"(g_box->message));
  // mended: _mm_sfence();
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
