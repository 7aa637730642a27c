// Writes to a device, call by call: device_calls DEVICE CALL...
//   b:SECTOR:COUNT:CHAR   buffered pwrite            d:...  with O_DIRECT      s:...  with O_DIRECT|O_DSYNC
//   r:...                 O_DIRECT, RWF_DSYNC        a:...  libaio             A:...  libaio, O_DSYNC
//   u:...                 io_uring, O_DIRECT         z:...  FALLOC_FL_ZERO_RANGE       p:...  FALLOC_FL_PUNCH_HOLE
//   w                     waits for all of a, A, u   f      fsync              g      fdatasync
//   W                     waits for any one of a, A
//   F                     BLKFLSBUF                  G      BLKGETSIZE64       m:TEXT mark
//   L                     BLKGETSIZE and BLKSSZGET   Z:...  BLKZEROOUT         D:...  BLKDISCARD
//   S                     sync()
//   e:OFFSET:BYTES:ERROR  BLKDISCARD of so many bytes fails with this errno; E: the same by a descriptor to read
//   U:...                 io_uring, O_DIRECT, and behind it a linked fsync
//   x:OFFSET:BYTES:ERROR  pwrite with O_DIRECT of so many bytes fails with this errno
//   y:OFFSET:BYTES:CHAR   buffered pwrite of bytes
// With one call `read:COUNT` it prints the first byte of so many sectors, '.' for NUL, '!' for one that cannot be read.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "crashcut.h"

enum { kMost = 64 };
static int buffered, direct, synced, to_read;
static size_t sector_bytes = 512;
static io_context_t context;
static struct iocb requests[kMost];
static int aio_count, uring_count;
static struct io_uring ring;

static void fail(const char* call, int error) {
  fprintf(stderr, "%s: %s\n", call, strerror(error));
  exit(9);
}

static void submit_aio(int fd, void* bytes, size_t size, off_t offset, const char* call) {
  struct iocb* request = &requests[aio_count++];
  io_prep_pwrite(request, fd, bytes, size, offset);
  const int taken = io_submit(context, 1, &request);
  if (taken != 1) fail(call, -taken);
}

// Before the first write: these calls may sleep, and a program that sleeps is taken for one that waits for the drive.
static void start(const char* call) {
  const int wants_aio = strchr("aA", call[0]) != NULL, wants_uring = strchr("uU", call[0]) != NULL;
  if (wants_aio && context == NULL && io_setup(kMost, &context) != 0) fail(call, ENOSYS);
  if (wants_uring && ring.ring_fd == 0 && io_uring_queue_init(kMost, &ring, 0) != 0) fail(call, ENOSYS);
}

static void submit_uring(void* bytes, size_t size, off_t offset, const char* call) {
  struct io_uring_sqe* entry = io_uring_get_sqe(&ring);
  io_uring_prep_write(entry, direct, bytes, size, offset);
  if (io_uring_submit(&ring) != 1) fail(call, EIO);
  ++uring_count;
}

static void submit_uring_and_fsync(void* bytes, size_t size, off_t offset, const char* call) {
  struct io_uring_sqe* entry = io_uring_get_sqe(&ring);
  io_uring_prep_write(entry, direct, bytes, size, offset);
  entry->flags |= IOSQE_IO_LINK;
  io_uring_prep_fsync(io_uring_get_sqe(&ring), direct, 0);
  if (io_uring_submit(&ring) != 2) fail(call, EIO);
  uring_count += 2;
}

static void wait_for_all(const char* call) {
  for (; aio_count > 0; --aio_count) {
    struct io_event done;
    int count;
    while ((count = io_getevents(context, 1, 1, &done, NULL)) == -EINTR) {  // what io_uring has to do in this thread
    }
    if (count != 1) fail(call, -count);
    if ((long)done.res < 0) fail(call, -(int)(long)done.res);
  }
  for (; uring_count > 0; --uring_count) {
    struct io_uring_cqe* done;
    if (io_uring_wait_cqe(&ring, &done) != 0) fail(call, EIO);
    if (done->res < 0) fail(call, -done->res);
    io_uring_cqe_seen(&ring, done);
  }
}

static void check(long result, const char* call) {
  if (result < 0) fail(call, errno);
}

static void do_call(const char* call) {
  unsigned long first = 0, count = 0;
  char letter = 0;
  sscanf(call + 1, ":%lu:%lu:%c", &first, &count, &letter);
  const size_t size = call[0] == 'e' || call[0] == 'E' ? 0 : count * sector_bytes;  // they write nothing
  const off_t offset = (off_t)(first * sector_bytes);
  void* bytes = NULL;
  if (posix_memalign(&bytes, 4096, size + 4096) != 0) fail(call, ENOMEM);
  memset(bytes, letter, size + 4096);
  struct iovec part = {bytes, size};
  switch (call[0]) {
    case 'b':
      check(pwrite(buffered, bytes, size, offset), call);
      break;
    case 'd':
      check(pwrite(direct, bytes, size, offset), call);
      break;
    case 's':
      check(pwrite(synced, bytes, size, offset), call);
      break;
    case 'r':
      check(pwritev2(direct, &part, 1, offset, RWF_DSYNC), call);
      break;
    case 'a':
      submit_aio(direct, bytes, size, offset, call);
      return;
    case 'A':
      submit_aio(synced, bytes, size, offset, call);
      return;
    case 'u':
      submit_uring(bytes, size, offset, call);
      return;
    case 'U':
      submit_uring_and_fsync(bytes, size, offset, call);
      return;
    case 'z':
      check(fallocate(direct, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, (off_t)size), call);
      break;
    case 'p':
      check(fallocate(direct, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, (off_t)size), call);
      break;
    case 'w':
      wait_for_all(call);
      break;
    case 'W': {
      struct io_event done;
      if (io_getevents(context, 1, 1, &done, NULL) != 1 || (long)done.res < 0) fail(call, EIO);
      --aio_count;
      break;
    }
    case 'f':
      check(fsync(direct), call);
      break;
    case 'g':
      check(fdatasync(buffered), call);
      break;
    case 'F':
      check(ioctl(direct, BLKFLSBUF, 0), call);
      break;
    case 'S':
      sync();
      break;
    case 'G': {
      unsigned long long size_now = 0;
      check(ioctl(direct, BLKGETSIZE64, &size_now), call);
      if ((off_t)size_now != lseek(direct, 0, SEEK_END)) fail(call, ERANGE);
      break;
    }
    case 'L': {
      unsigned long sectors = 0;
      int bytes_now = 0;
      check(ioctl(direct, BLKGETSIZE, &sectors), call);
      check(ioctl(direct, BLKSSZGET, &bytes_now), call);
      if ((off_t)sectors * 512 != lseek(direct, 0, SEEK_END) || (size_t)bytes_now != sector_bytes) fail(call, ERANGE);
      break;
    }
    case 'Z':
    case 'D': {
      unsigned long long range[2] = {(unsigned long long)offset, size};
      check(ioctl(direct, call[0] == 'Z' ? BLKZEROOUT : BLKDISCARD, range), call);
      break;
    }
    case 'm':
      crashcut_mark(call + 2);
      break;
    case 'e':
    case 'E': {
      int expected = 0;
      unsigned long long range[2];
      sscanf(call + 1, ":%llu:%llu:%d", &range[0], &range[1], &expected);
      if (ioctl(call[0] == 'e' ? direct : to_read, BLKDISCARD, range) == 0 || errno != expected) fail(call, errno);
      break;
    }
    case 'x': {
      int expected = 0;
      sscanf(call + 1, ":%lu:%lu:%d", &first, &count, &expected);
      if (pwrite(direct, bytes, count, (off_t)first) >= 0 || errno != expected) fail(call, errno);
      break;
    }
    case 'y':
      check(pwrite(buffered, bytes, count, (off_t)first), call);
      break;
    default:
      fail(call, EINVAL);
  }
  free(bytes);
}

static void read_all(unsigned long count) {
  char* bytes = NULL;
  if (posix_memalign((void**)&bytes, 4096, sector_bytes) != 0) exit(9);
  for (unsigned long sector = 0; sector < count; ++sector) {
    const ssize_t got = pread(direct, bytes, sector_bytes, (off_t)(sector * sector_bytes));
    const char letter = got != (ssize_t)sector_bytes ? '!' : bytes[0] == 0 ? '.' : bytes[0];
    putchar(letter >= 'A' && letter <= 'Z' ? letter : letter == '.' || letter == '!' ? letter : '?');
  }
  putchar('\n');
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (getenv("SECTOR")) sector_bytes = strtoul(getenv("SECTOR"), NULL, 10);
  const int reads = strncmp(argv[2], "read:", 5) == 0;
  buffered = open(argv[1], O_RDWR);
  direct = open(argv[1], O_RDWR | O_DIRECT);
  synced = open(argv[1], O_RDWR | O_DIRECT | O_DSYNC);
  to_read = open(argv[1], O_RDONLY);
  if (buffered < 0 || direct < 0 || synced < 0 || to_read < 0) fail(argv[1], errno);
  if (reads) {
    read_all(strtoul(argv[2] + 5, NULL, 10));
    return argc > 3 && crashcut_reached(argv[3]) ? 3 : 0;
  }
  for (int i = 2; i < argc; ++i) start(argv[i]);
  for (int i = 2; i < argc; ++i) do_call(argv[i]);
  return 0;
}
