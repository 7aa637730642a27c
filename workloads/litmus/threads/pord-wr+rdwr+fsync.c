/* One thread makes foo and writes it. The other waits until it can read all of foo, syncs it, and makes and writes
 * bar: a full bar means a full foo. Schedules in which it would wait are assumed away.
 * threads: --profile paper --sector 1 --block 4
 * outcomes: -1 | 0 | 4,4
 * executions: 3
 * recoveries: 3
 * paper-count: 6
 */
#include "threads.h"

static void* write_foo(void* unused) {
  int fd = open_to("foo", O_WRONLY | O_CREAT);
  (void)unused;
  write_text(fd, "1111");
  return NULL;
}

static void* write_bar(void* unused) {
  char bytes[4];
  int fd;
  (void)unused;
  crashcut_assume((fd = open("foo", O_RDONLY)) >= 0);
  crashcut_assume(must(pread(fd, bytes, sizeof bytes, 0)) == 4);
  must(fsync(fd));
  put("bar", "2222");
  return NULL;
}

int main(void) {
  pthread_t one, other;
  must(-pthread_create(&one, NULL, write_foo, NULL));
  must(-pthread_create(&other, NULL, write_bar, NULL));
  must(-pthread_join(one, NULL));
  must(-pthread_join(other, NULL));
  return 0;
}

void crashcut_recover(void) {
  long bar = size_of("bar");
  show("%ld", bar);
  if (bar == 4) {
    show_size("foo");
    assert(size_of("foo") == 4);
  }
}
