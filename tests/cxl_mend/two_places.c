// A message in two lines, which two functions write: both lines are to be flushed.
// mend: No single flush or fence makes this go away, but these do together (verified with them, under this schedule:
#include <assert.h>
#include <emmintrin.h>

#include "crashcut.h"

struct box {
  _Alignas(64) volatile long head;
  _Alignas(64) volatile long body;
  _Alignas(64) long is_there;
};

static struct box* g_box;

static void write_head(void) {
  g_box->head = 1;
  // mended: _mm_clflush((void*)&g_box->head), _mm_sfence();
}
static void write_body(void) {
  g_box->body = 2;
  // mended: _mm_clflush((void*)&g_box->body), _mm_sfence();
}

int main(void) {
  g_box = crashcut_cxl("box", sizeof *g_box);
  if (crashcut_machine() == 0) {
    write_head();
    write_body();
    __atomic_store_n(&g_box->is_there, 1, __ATOMIC_RELEASE);
  } else {
    crashcut_wait_machine(0);
    if (__atomic_load_n(&g_box->is_there, __ATOMIC_ACQUIRE)) assert(g_box->head == 1 && g_box->body == 2);
  }
  return 0;
}
