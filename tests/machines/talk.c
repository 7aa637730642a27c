/* What machines print, and what they share beside their memory. */
#include <assert.h>
#include <crashcut.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int is(const char* what, const char* wanted) { return strcmp(what, wanted) == 0; }

/* The second argument is a path of the real system. */
static void share(const char* what, const char* path) {
  int number = crashcut_machine();
  const int flags = is(what, "file") || is(what, "map") ? O_RDWR | O_CREAT : O_RDONLY;
  int fd = is(what, "segment") ? -1 : is(what, "socket") ? socket(AF_UNIX, SOCK_STREAM, 0) : open(path, flags, 0600);
  if (is(what, "file")) pwrite(fd, &number, sizeof number, 0);
  if (is(what, "segment")) fd = shm_open(path, O_RDWR | O_CREAT, 0600);
  if (is(what, "segment")) assert(ftruncate(fd, 4096) == 0);
  if (is(what, "map") || is(what, "segment")) {
    int* mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert(mapped != MAP_FAILED);
    *mapped = number;
  }
  assert(fd >= 0);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "print";
  int* turn = crashcut_cxl("turn", sizeof *turn);
  if (!is(what, "print") && !is(what, "fails")) {
    share(what, argc > 2 ? argv[2] : "");
    return 0;
  }
  /* Which machine is first? */
  printf("%d\n", __atomic_fetch_add(turn, 1, __ATOMIC_SEQ_CST));
  /* Both have counted: with a failure after that, or without any. */
  if (is(what, "fails") && crashcut_machine() == 1) {
    crashcut_wait_machine(0);
    assert(__atomic_load_n(turn, __ATOMIC_SEQ_CST) != 2);
  }
  return 0;
}
