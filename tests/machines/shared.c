/* Shared memory by other calls than crashcut_cxl(): machine 0 writes, machine 1 waits for it and reads. The argument
 * says how they get it, and what is asked besides. */
#include <assert.h>
#include <crashcut.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>

enum { kBytes = 8192, kKey = 0x1234 };

static int is(const char* what, const char* wanted) { return strcmp(what, wanted) == 0; }

static void* by_segment(const char* what) {
  struct shmid_ds facts;
  void* at;
  const int id =
      shmget(kKey, is(what, "segment_larger") && crashcut_machine() == 1 ? 2 * kBytes : kBytes, IPC_CREAT | 0600);
  assert(id >= 0);
  assert(shmctl(id, IPC_STAT, &facts) == 0 && facts.shm_segsz == kBytes);
  at = shmat(id, is(what, "segment_fixed") ? (void*)0x500000000000 : NULL, 0);
  assert(at != (void*)-1);
  assert(shmctl(id, IPC_RMID, NULL) == 0);
  return at;
}

static void* by_file(const char* what) {
  struct stat facts;
  const int fd = open(is(what, "absolute") ? "/crashcut/./cxl//pool" : "cxl/pool", O_RDWR | O_CREAT, 0600);
  void* at;
  assert(fd >= 0);
  assert(ftruncate(fd, is(what, "file_larger") && crashcut_machine() == 1 ? 2 * kBytes : kBytes) == 0);
  assert(fstat(fd, &facts) == 0 && facts.st_size == kBytes && S_ISREG(facts.st_mode));
  if (is(what, "file_written")) write(fd, "x", 1);
  at = mmap(is(what, "file_fixed") ? (void*)0x500000000000 : NULL, kBytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | (is(what, "file_fixed") ? MAP_FIXED : 0), fd, 0);
  assert(at != MAP_FAILED && close(fd) == 0 && close(fd) == -1);
  assert(msync(at, kBytes, MS_SYNC) == 0);
  return at;
}

static void* by_device(void) {
  const int fd = open("/dev/dax0.0", O_RDWR);
  char *first, *second;
  if (fd < 0) return NULL;
  first = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  second = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
  assert(second == first + 4096);
  return first;
}

static void look_for_file(void) {
  const int fd = open("cxl/made", O_RDWR);
  if (crashcut_machine() == 0) {
    assert(fd == -1 && errno == ENOENT);
    assert(access("cxl/made", F_OK) == -1);
    assert(open("cxl/made", O_RDWR | O_CREAT | O_EXCL, 0600) >= 0);
    assert(open("cxl/made", O_RDWR | O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);
    assert(shmget(77, 4096, 0) == -1 && errno == ENOENT);
    assert(shmget(77, 4096, IPC_CREAT | IPC_EXCL) >= 0);
    assert(shmget(77, 4096, IPC_CREAT | IPC_EXCL) == -1 && errno == EEXIST);
    assert(shmget(IPC_PRIVATE, 4096, 0) != shmget(IPC_PRIVATE, 4096, 0));
  }
}

void crashcut_setup(void) {
  const int fd = open("cxl/set up", O_RDWR | O_CREAT, 0600);
  int* at;
  if (fd < 0) return;
  assert(ftruncate(fd, 4096) == 0);
  at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  at[7] = 77;
}

static void look_at_setup(void) {
  struct stat facts;
  const int fd = open("cxl/set up", O_RDWR);
  const int* at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert(fd >= 0 && stat("cxl/set up", &facts) == 0 && facts.st_size == 4096);
  assert(at[7] == 77 && at[8] == 0);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "segment";
  int* shared;
  if (is(what, "look")) return look_for_file(), 0;
  if (is(what, "set_up")) return look_at_setup(), 0;
  if (is(what, "garbage")) {
    shared = crashcut_cxl("numbers", 4096);
    assert(shared[0] == 0 && shared[1000] == 0);
    return 0;
  }
  shared = strncmp(what, "segment", 7) == 0 ? by_segment(what) : is(what, "device") ? by_device() : by_file(what);
  assert(shared != NULL);
  if (crashcut_machine() == 0) {
    shared[1] = 41;
    shared[kBytes / sizeof *shared - 1] = 42;
  } else if (crashcut_wait_machine(0) == 0) {
    assert(shared[1] == 41 && shared[kBytes / sizeof *shared - 1] == 42);
    if (is(what, "segment_left")) {
      assert(shmdt(shared) == 0);
      shared[1] = 43;
    }
    if (is(what, "file_left")) {
      assert(munmap(shared, kBytes) == 0);
      shared[1] = 43;
    }
  }
  return 0;
}
