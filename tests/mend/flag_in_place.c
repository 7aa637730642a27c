// mend: fdatasync data before the pwrite
#include "mend.h"

int main(void) {
  write_file("flag", "0");
  write_file("data", "none");
  crashcut_barrier();
  int data = open("data", O_RDWR), flag = open("flag", O_RDWR);
  assert(pwrite(data, "some", 4, 0) == 4);
  // mended: fdatasync(data);
  assert(pwrite(flag, "1", 1, 0) == 1);
  return 0;
}

void crashcut_recover(void) { assert(holds("flag", "0") || holds("data", "some")); }
