// The word that says that the message is there is stored, and durable, before the message: no flush helps.
#include <assert.h>
#include <emmintrin.h>

#include "crashcut.h"

struct box {
  _Alignas(64) volatile long message;
  _Alignas(64) long is_there;
};

int main(void) {
  struct box* box = crashcut_cxl("box", sizeof *box);
  if (crashcut_machine() == 0) {
    __atomic_store_n(&box->is_there, 1, __ATOMIC_RELEASE);
    _mm_clflush(&box->is_there), _mm_sfence();
    box->message = 42;
    _mm_clflush((void*)&box->message), _mm_sfence();
  } else {
    crashcut_wait_machine(0);
    if (__atomic_load_n(&box->is_there, __ATOMIC_ACQUIRE)) assert(box->message == 42);
  }
  return 0;
}
