// mend: fdatasync log before the pwrite
#include "mend.h"

/* The log says what the two sectors of the data are to hold, before they change. */
static char data[1024];

int main(void) {
  memset(data, 'a', sizeof data);
  int fd = open_new("data");
  assert(write(fd, data, sizeof data) == sizeof data);
  crashcut_barrier();
  int log = open_new("log");
  put(log, "b");
  // mended: fdatasync(log);
  memset(data, 'b', sizeof data);
  assert(pwrite(fd, data, sizeof data, 0) == sizeof data);
  return 0;
}

void crashcut_recover(void) {
  const int fd = open("data", O_RDONLY);
  assert(read(fd, data, sizeof data) == sizeof data);
  assert(data[0] == data[512] || holds("log", "b"));
}
