/* Does the operations of its arguments, "kind,address,bytes,value,expected,is_loaded" as tests/pmem_program.h has them;
 * recovery prints the bytes that such programs use, and the mark. "/" begins the operations of the next thread. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pmem/by_hand.h"

enum { kLines = 3, kBytesPerLine = 24 };
enum Kind { kStore, kCopy, kNonTemporal, kLoad, kWait, kXchg, kCas, kMfence, kSfence, kClflush, kClflushopt, kMark };

static unsigned char dram[64];
static int lines;

static unsigned char* memory(void) {
  static unsigned char* found;
  if (found == NULL) found = crashcut_pmem("memory", 64 * kLines);
  return found;
}
static unsigned char* at(int address) {
  const int in_line = address % kBytesPerLine;
  if (address >= lines * kBytesPerLine) return dram + (address - lines * kBytesPerLine);
  return memory() + address / kBytesPerLine * 64 + (in_line < 16 ? in_line : in_line + 40);
}

static __thread int loaded;

static void store(int kind, unsigned char* to, int bytes, int value) {
  unsigned char data[64];
  memset(data, value, sizeof data);
  if (kind == kCopy) {
    __crashcut_memcpy(to, data, (size_t)bytes);
  } else if (kind == kNonTemporal) {
    __crashcut_store_nt(to, data, (size_t)bytes, 0);
  } else if (bytes == 1) {
    __crashcut_store1(to, data[0]);
  } else {
    __crashcut_store(to, data, (size_t)bytes);
  }
}

static void execute(const int* op) {
  unsigned char* to = at(op[1]);
  unsigned char value[8], expected[8], old[8];
  memset(value, op[3], 8);
  memset(expected, op[4], 8);
  switch (op[0]) {
    case kStore:
    case kCopy:
    case kNonTemporal:
      store(op[0], to, op[2], op[5] ? loaded + op[3] : op[3]);
      break;
    case kLoad:
      loaded = __crashcut_load1(to);
      break;
    case kWait:
      while ((loaded = __crashcut_load1(to)) == 0 || (op[3] != 0 && loaded != op[3])) {
      }
      break;
    case kXchg:
      __crashcut_rmw(__CRASHCUT_XCHG, to, value, old, 8, __ATOMIC_SEQ_CST);
      loaded = old[0];
      break;
    case kCas:
      if (!__crashcut_cmpxchg(to, expected, value, 8, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) loaded = expected[0];
      break;
    case kMfence:
      __crashcut_mfence();
      break;
    case kSfence:
      __crashcut_sfence();
      break;
    case kClflush:
      __crashcut_clflush(to);
      break;
    case kClflushopt:
      __crashcut_clflushopt(to);
      break;
    case kMark:
      crashcut_mark("0");
      break;
  }
}

static void* run(void* words) {
  for (char** word = words; *word != NULL && strcmp(*word, "/") != 0; ++word) {
    int op[6];
    if (sscanf(*word, "%d,%d,%d,%d,%d,%d", op, op + 1, op + 2, op + 3, op + 4, op + 5) != 6) abort();
    execute(op);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[4];
  int count = 0;
  lines = argc > 1 ? atoi(argv[1]) : 1;
  memory();
  for (int i = 2; i < argc; ++i) {
    if (strcmp(argv[i], "/") == 0 && count < 4) pthread_create(&threads[count++], NULL, run, argv + i + 1);
  }
  if (argc > 2) run(argv + 2);
  while (count > 0) pthread_join(threads[--count], NULL);
  return 0;
}

void crashcut_recover(void) {
  for (int line = 0; line < kLines; ++line) {
    unsigned char bytes[kBytesPerLine];
    __crashcut_load(memory() + 64 * line, bytes, 16);
    __crashcut_load(memory() + 64 * line + 56, bytes + 16, 8);
    for (int i = 0; i < kBytesPerLine; ++i) printf("%d ", bytes[i]);
  }
  printf("%d\n", crashcut_reached("0"));
}
