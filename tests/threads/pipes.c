// Pipes, eventfds and what is polled, between threads of one process. The first argument says which.
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define IS(name) (strcmp(argv[1], name) == 0)

static int p[2], q[2], event, copy;
static pthread_t a, b;
static char block[65536];

static void one(void* (*routine)(void*)) { assert(pthread_create(&a, NULL, routine, NULL) == 0); }
static void two(void* (*first)(void*), void* (*second)(void*)) {
  one(first);
  assert(pthread_create(&b, NULL, second, NULL) == 0);
}
static void join_one(void) { pthread_join(a, NULL); }
static void join_two(void) {
  pthread_join(a, NULL);
  pthread_join(b, NULL);
}

static void* writes_p(void* unused) {
  (void)unused;
  assert(write(p[1], "p", 1) == 1);
  return NULL;
}
static void* writes_q(void* unused) {
  (void)unused;
  assert(write(q[1], "q", 1) == 1);
  return NULL;
}
static void* writes_and_closes(void* unused) {
  (void)unused;
  struct iovec parts[2] = {{"ab", 2}, {"c", 1}};
  assert(writev(p[1], parts, 2) == 3);
  assert(close(p[1]) == 0);
  return NULL;
}
static void* reads_all(void* unused) {
  (void)unused;
  static char got[4096];
  while (read(p[0], got, sizeof got) > 0) {
  }
  return NULL;
}
static void* writes_a_block(void* letter) {
  char own[4096];
  memset(own, *(char*)letter, sizeof own);
  assert(write(p[1], own, sizeof own) == sizeof own);
  return NULL;
}
static void* writes_two_blocks(void* letter) {
  char own[8192];
  memset(own, *(char*)letter, sizeof own);
  assert(write(p[1], own, sizeof own) == sizeof own);
  return NULL;
}
static void* closes_reader(void* unused) {
  (void)unused;
  assert(close(p[0]) == 0);
  return NULL;
}
static void* adds_one(void* unused) {
  (void)unused;
  uint64_t one_more = 1;
  assert(write(event, &one_more, 8) == 8);
  return NULL;
}
static void* takes(void* unused) {
  (void)unused;
  uint64_t value = 0;
  assert(read(event, &value, 8) == 8 && value == 1);
  return NULL;
}

// Each letter's bytes are next to each other.
static int is_whole(const char* bytes, size_t size) {
  const char* last = memchr(bytes, bytes[0] == 'a' ? 'b' : 'a', size);
  return last != NULL && memchr(last, bytes[0], size - (size_t)(last - bytes)) == NULL;
}

static void read_exactly(char* out, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got = read(p[0], out + done, size - done);
    assert(got > 0);
    done += (size_t)got;
  }
}

static void blocks(void* (*routine)(void*), size_t size) {
  char got[16384];
  assert(pthread_create(&a, NULL, routine, "a") == 0 && pthread_create(&b, NULL, routine, "b") == 0);
  read_exactly(got, size);
  assert(is_whole(got, size));
  join_two();
}

// As in Rust's start-up: is any of the first three closed?
static void look_at_the_first_three(void) {
  struct pollfd fds[3] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}};
  assert(poll(fds, 3, 0) >= 0);
  for (int i = 0; i < 3; ++i) assert((fds[i].revents & POLLNVAL) == 0);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(1, &set);
  struct timeval now = {0, 0};
  assert(select(2, NULL, &set, NULL, &now) >= 0);
  struct timespec at_once = {0, 0};
  assert(ppoll(fds, 3, &at_once, NULL) >= 0 && pselect(2, NULL, &set, NULL, &at_once, NULL) >= 0);
  int set_of_none = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event none;
  assert(set_of_none >= 0 && epoll_wait(set_of_none, &none, 1, 0) == 0 && close(set_of_none) == 0);
}

int main(int argc, char** argv) {
  assert(argc == 2);
  char byte = 0, got[8192];
  assert(pipe(p) == 0 && pipe2(q, O_CLOEXEC) == 0);
  if (IS("start")) look_at_the_first_three();
  if (IS("hand-over")) {
    one(writes_p);
    assert(read(p[0], &byte, 1) == 1 && byte == 'p');
    join_one();
  }
  if (IS("two-pipes")) {
    two(writes_p, writes_q);
    join_two();
  }
  if (IS("one-pipe")) {
    two(writes_p, writes_p);
    join_two();
  }
  if (IS("end")) {
    one(writes_and_closes);
    size_t done = 0;
    for (ssize_t n; (n = read(p[0], got + done, 1)) > 0;) done += (size_t)n;
    assert(done == 3 && memcmp(got, "abc", 3) == 0);
    join_one();
  }
  if (IS("end-kept")) {
    copy = dup(p[1]);
    one(writes_and_closes);
    while (read(p[0], got, sizeof got) > 0) {
    }
  }
  if (IS("end-of-both")) {
    copy = dup2(p[1], 100);
    assert(copy == 100 && close(copy) == 0);
    one(writes_and_closes);
    while (read(p[0], got, sizeof got) > 0) {
    }
    join_one();
  }
  if (IS("full") || IS("full-for-good")) {
    assert(write(p[1], block, sizeof block) == sizeof block);
    if (IS("full")) one(reads_all);
    assert(write(p[1], "x", 1) == 1);
    close(p[1]);
    join_one();
  }
  if (IS("atomic")) blocks(writes_a_block, 8192);
  if (IS("torn")) {
    assert(fcntl(p[1], F_SETPIPE_SZ, 4096) == 4096 && fcntl(p[0], F_GETPIPE_SZ) == 4096);
    blocks(writes_two_blocks, 16384);
  }
  if (IS("broken")) {
    one(closes_reader);
    assert(write(p[1], "x", 1) == 1);
    join_one();
  }
  if (IS("broken-ignored")) {
    signal(SIGPIPE, SIG_IGN);
    one(closes_reader);
    const ssize_t n = write(p[1], "x", 1);
    assert(n == 1 || (n == -1 && errno == EPIPE));
    join_one();
    assert(write(p[1], "x", 1) == -1 && errno == EPIPE);
  }
  if (IS("not-yet") || IS("not-yet-or-now")) {
    assert(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0 && (fcntl(p[0], F_GETFL) & O_NONBLOCK) != 0 &&
           (fcntl(p[1], F_GETFL) & O_NONBLOCK) == 0);
    one(writes_p);
    const ssize_t n = read(p[0], &byte, 1);
    if (IS("not-yet")) assert(n == 1);
    assert(n == 1 || (n == -1 && errno == EAGAIN));
    join_one();
    int waiting = -1;
    assert(ioctl(p[0], FIONREAD, &waiting) == 0 && waiting == (n == 1 ? 0 : 1));
  }
  if (IS("tries-again")) {
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    one(writes_p);
    while (read(p[0], &byte, 1) != 1) usleep(1000);
    join_one();
  }
  if (IS("no-room")) {
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    assert(write(p[1], block, sizeof block - 100) == sizeof block - 100);
    assert(write(p[1], block, 101) == -1 && errno == EAGAIN);  // not a part of it
    assert(write(p[1], block, 5000) == 100);                   // more than is atomic: a part
    assert(write(p[1], block, 5000) == -1 && errno == EAGAIN);
    struct pollfd fd = {p[1], POLLOUT, 0};
    assert(poll(&fd, 1, 0) == 0);
    assert(read(p[0], got, 4096) == 4096 && poll(&fd, 1, 0) == 1 && fd.revents == POLLOUT);
  }
  if (IS("poll")) {
    two(writes_p, writes_q);
    for (int seen = 0; seen != 3;) {
      struct pollfd fds[2] = {{p[0], POLLIN, 0}, {q[0], POLLIN, 0}};
      const int n = poll(fds, 2, -1);
      assert(n == (fds[0].revents != 0) + (fds[1].revents != 0) && n > 0);
      if (fds[0].revents != 0) assert(fds[0].revents == POLLIN && read(p[0], &byte, 1) == 1 && byte == 'p'), seen |= 1;
      if (fds[1].revents != 0) assert(fds[1].revents == POLLIN && read(q[0], &byte, 1) == 1 && byte == 'q'), seen |= 2;
    }
    join_two();
  }
  if (IS("poll-both-at-once")) {
    two(writes_p, writes_q);
    struct pollfd fds[2] = {{p[0], POLLIN, 0}, {q[0], POLLIN, 0}};
    assert(poll(fds, 2, -1) == 1);  // two may be ready
    join_two();
  }
  if (IS("poll-hang-up")) {
    one(writes_and_closes);
    struct pollfd fd = {p[0], 0, 0};
    assert(poll(&fd, 1, -1) == 1 && fd.revents == POLLHUP);
    join_one();
  }
  if (IS("poll-for-good")) {
    struct pollfd fd = {p[0], POLLIN, 0};
    poll(&fd, 1, -1);
  }
  if (IS("poll-in-time") || IS("poll-for-a-while")) {
    one(writes_p);
    struct pollfd fd = {p[0], POLLIN, 0};
    const int n = poll(&fd, 1, 100);
    if (IS("poll-in-time")) assert(n == 1);
    join_one();
  }
  if (IS("select")) {
    two(writes_p, writes_q);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p[0], &set);
    FD_SET(q[0], &set);
    const int n = select((p[0] > q[0] ? p[0] : q[0]) + 1, &set, NULL, NULL, NULL);
    assert(n == (FD_ISSET(p[0], &set) != 0) + (FD_ISSET(q[0], &set) != 0) && n > 0);
    join_two();
  }
  if (IS("epoll") || IS("epoll-wrong-one")) {
    const int set = epoll_create1(0);
    struct epoll_event want_p = {EPOLLIN, {.u64 = 1}}, want_q = {EPOLLIN, {.u64 = 2}}, events[2];
    assert(epoll_ctl(set, EPOLL_CTL_ADD, p[0], &want_p) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, q[0], &want_q) == 0);
    assert(epoll_ctl(set, EPOLL_CTL_ADD, p[0], &want_p) == -1 && errno == EEXIST);
    assert(epoll_wait(set, events, 2, 0) == 0);
    two(writes_p, writes_q);
    const int n = epoll_wait(set, events, 2, -1);
    assert(n == 2 || n == 1);
    if (IS("epoll-wrong-one")) assert(events[0].data.u64 == 1);
    assert(epoll_ctl(set, EPOLL_CTL_DEL, q[0], NULL) == 0);
    join_two();
    assert(epoll_wait(set, events, 2, -1) == 1 && events[0].events == EPOLLIN);
  }
  if (IS("epoll-edges")) {
    const int set = epoll_create1(0);
    event = eventfd(0, EFD_NONBLOCK);
    struct epoll_event want = {EPOLLIN | EPOLLET, {.u64 = 1}}, once = {EPOLLIN | EPOLLONESHOT, {.u64 = 2}}, events[2];
    assert(epoll_ctl(set, EPOLL_CTL_ADD, event, &want) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, p[0], &once) == 0);
    one(adds_one);
    assert(epoll_wait(set, events, 2, -1) == 1 && events[0].data.u64 == 1);
    assert(epoll_wait(set, events, 2, 0) == 0);  // told, though it was not read
    join_one();
    adds_one(NULL);
    assert(epoll_wait(set, events, 2, 0) == 1);
    writes_p(NULL);
    assert(epoll_wait(set, events, 2, 0) == 1 && events[0].data.u64 == 2);
    writes_p(NULL);
    assert(epoll_wait(set, events, 2, 0) == 0);
    assert(epoll_ctl(set, EPOLL_CTL_MOD, p[0], &once) == 0 && epoll_wait(set, events, 2, 0) == 1);
  }
  if (IS("counter")) {
    event = eventfd(0, 0);
    two(adds_one, adds_one);
    uint64_t sum = 0, value = 0;
    while (sum < 2) assert(read(event, &value, 8) == 8), sum += value;
    assert(sum == 2);
    join_two();
  }
  if (IS("counter-at-once")) {
    event = eventfd(0, 0);
    two(adds_one, adds_one);
    uint64_t value = 0;
    assert(read(event, &value, 8) == 8 && value == 2);  // or 1
    join_two();
  }
  if (IS("units")) {
    event = eventfd(2, EFD_SEMAPHORE);
    two(takes, takes);
    join_two();
  }
  if (IS("units-short")) {
    event = eventfd(1, EFD_SEMAPHORE);
    two(takes, takes);
    join_two();
  }
  if (IS("counter-full")) {
    event = eventfd(0, EFD_NONBLOCK);
    uint64_t most = UINT64_MAX - 1, value = 0;
    assert(read(event, &value, 8) == -1 && errno == EAGAIN);
    assert(write(event, &most, 8) == 8 && write(event, &(uint64_t){1}, 8) == -1 && errno == EAGAIN);
    assert(write(event, &(uint64_t){UINT64_MAX}, 8) == -1 && errno == EINVAL && write(event, &value, 4) == -1 &&
           errno == EINVAL);
    struct pollfd fd = {event, POLLIN | POLLOUT, 0};
    assert(poll(&fd, 1, 0) == 1 && fd.revents == POLLIN);
    assert(read(event, &value, 8) == 8 && value == most);
  }
  if (IS("closed-while-read")) {
    one(reads_all);
    close(p[0]);
    join_one();  // the reader may be in the call: then the close does not wake it
  }
  if (IS("wrong-use")) {
    struct stat status;
    assert(read(p[1], &byte, 1) == -1 && errno == EBADF && write(p[0], &byte, 1) == -1 && errno == EBADF);
    assert(lseek(p[0], 0, SEEK_SET) == -1 && errno == ESPIPE && pread(p[0], &byte, 1, 0) == -1 && errno == ESPIPE);
    assert(fstat(p[0], &status) == 0 && S_ISFIFO(status.st_mode));
    assert(close(p[0]) == 0 && close(p[0]) == -1 && errno == EBADF && read(p[0], &byte, 1) == -1 && errno == EBADF);
    assert(dup2(q[1], 7) == 7 && write(7, "x", 1) == 1 && read(q[0], &byte, 1) == 1 && close(7) == 0 &&
           write(7, "x", 1) == -1);
  }
  return 0;
}
