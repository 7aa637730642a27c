// System calls on pipes, eventfds and epoll instances, and on whatever is polled.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/channels.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/signal_calls.h"

namespace crashcut::scheduler::runtime {

namespace {

using channel::End;
using channel::Field;
using channel::Interest;

// A descriptor in a set of epoll's.
struct Member {
  int fd;
  std::int64_t handle;  // below 0: from outside
  std::uint32_t events;
  std::uint64_t data;
};

struct Contents {
  std::string bytes;            // of a pipe
  std::vector<Member> members;  // of a set
  std::uint64_t signals = 0;    // of a signalfd, those that it tells of
};

// Of one execution; the memory that it is in is forgotten with it.
struct Channels {
  ObjectId object{};
  std::vector<Contents> contents;
};
Channels* g_channels = nullptr;
// Numbers that the kernel is to give to nobody else.
bool g_is_reserved[channel::kFdEnd] = {};
bool g_was_ours[channel::kFdEnd] = {};  // in this execution
long g_placeholder = -1;

Channels& channels() {
  if (g_channels == nullptr) {
    g_channels = new Channels;
    g_channels->object = keyed_object(PrimitiveId::kChannel, 1 ^ g_host_tag);
  }
  return *g_channels;
}
const Object& state() { return object_of(channels().object); }

// What a number of the program's names here; below 0 where it is none of ours.
std::int64_t handle_of_fd(long fd) { return g_channels == nullptr ? -1 : channel::handle_at(state(), fd); }
std::int64_t field(std::int64_t handle, Field f) { return channel::field(state(), handle / 2, f); }
bool is_pipe(std::int64_t handle) { return field(handle, channel::kKindOf) == channel::kPipe; }
bool is_signals(std::int64_t handle) { return field(handle, channel::kKindOf) == channel::kSignals; }
bool is_set(std::int64_t handle) { return field(handle, channel::kKindOf) == channel::kSet; }
Contents& contents_of(std::int64_t channel) { return channels().contents[static_cast<std::size_t>(channel)]; }

void reserve(std::int64_t fd) {
  if (g_placeholder < 0) {
    const long opened = kernel(SYS_open, "/dev/null", O_RDONLY | O_CLOEXEC);
    g_placeholder = kernel(SYS_fcntl, opened, F_DUPFD_CLOEXEC, channel::kFdFirst - 8);
    kernel(SYS_close, opened);
  }
  // Another file's number, which it loses.
  if (!g_is_reserved[fd] && kernel(SYS_fcntl, fd, F_GETFD) >= 0) g_is_spent = true;
  if (kernel(SYS_dup3, g_placeholder, fd, O_CLOEXEC) != fd) refuse("more descriptors than the limit allows");
  g_is_reserved[fd] = g_was_ours[fd] = true;
}
void release(std::int64_t fd) {
  if (fd < 0 || fd >= channel::kFdEnd || !g_is_reserved[fd]) return;
  kernel(SYS_close, fd);
  g_is_reserved[fd] = false;
}

Access access_to(std::int64_t handle, channel::Verb verb, std::int64_t argument = 0) {
  return channel::on(channels().object, verb, handle / 2, argument);
}

// A descriptor's own operation: what it is about is in the argument.
std::int64_t perform_on_table(channel::Verb verb, long fd, std::int64_t other, const void* caller) {
  Access access{channels().object, verb, fd};
  access.expected = other;
  return perform(access, caller);
}

// --- making and ending
long open_channel(channel::Kind kind, std::int64_t flags, std::int64_t amount, const void* caller,
                  int* second = nullptr) {
  const std::int64_t made = perform(channel::open(channels().object, kind, flags, amount), caller);
  if (made < 0) return static_cast<long>(made);
  channels().contents.resize(static_cast<std::size_t>((made >> 32) + 1));
  reserve(made & 0xffff);
  if (second != nullptr) {
    *second = static_cast<int>(made >> 16 & 0xffff);
    reserve(*second);
  }
  return made & 0xffff;
}

long make_pipe(int* fds, long flags, const void* caller) {
  if ((flags & ~(O_CLOEXEC | O_NONBLOCK)) != 0)
    return (flags & O_DIRECT) != 0 ? (refuse("pipe2() with O_DIRECT"), 0) : -EINVAL;
  int second = 0;
  const bool is_nonblocking = (flags & O_NONBLOCK) != 0;
  const long first = open_channel(channel::kPipe, is_nonblocking ? 3 : 0, 0, caller, &second);
  if (first < 0) return first;
  fds[0] = static_cast<int>(first);
  fds[1] = second;
  return 0;
}

long make_counter(std::uint32_t amount, long flags, const void* caller) {
  if ((flags & ~(EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) != 0) return -EINVAL;
  return open_channel((flags & EFD_SEMAPHORE) != 0 ? channel::kSemaphore : channel::kCounter,
                      (flags & EFD_NONBLOCK) != 0 ? 1 : 0, amount, caller);
}

long make_signalfd(long fd, const std::uint64_t* signals, long flags, const void* caller) {
  if ((flags & ~(SFD_CLOEXEC | SFD_NONBLOCK)) != 0) return -EINVAL;
  if (fd != -1) refuse("signalfd() of a descriptor that is one already");
  const std::uint64_t wanted = *signals;
  const long made = open_channel(channel::kSignals, (flags & SFD_NONBLOCK) != 0 ? 1 : 0, 0, caller);
  if (made >= 0) contents_of(handle_of_fd(made) / 2).signals = wanted;
  return made;
}

long close_fd(long fd, const void* caller) {
  const std::int64_t ended = perform_on_table(channel::kClose, fd, 0, caller);
  if (ended < 0) return static_cast<long>(ended);
  release(fd);
  return 0;
}

long duplicate(long fd, long lowest, const void* caller) {
  const std::int64_t made = perform_on_table(channel::kDuplicate, fd, lowest, caller);
  if (made >= 0) reserve(made);
  return static_cast<long>(made);
}

Answer replace(long fd, long number, const void* caller, long& result) {
  if (handle_of_fd(fd) < 0) {
    // The kernel's, in the place of one of ours.
    if (kernel(SYS_fcntl, fd, F_GETFD) >= 0) close_fd(number, caller);
    return Answer::kNotOurs;
  }
  if (number < 0 || number >= channel::kFdEnd) return result = -EBADF, Answer::kDone;
  if (fd != number) {
    const std::int64_t done = perform_on_table(channel::kReplace, fd, number, caller);
    if (done < 0) return result = static_cast<long>(done), Answer::kDone;
    reserve(number);
  }
  return result = number, Answer::kDone;
}

// --- reading and writing
using Parts = std::span<const iovec>;

std::size_t size_of(Parts parts) {
  std::size_t sum = 0;
  for (const iovec& part : parts) sum += part.iov_len;
  return sum;
}
void scatter(Parts parts, std::string_view bytes) {
  for (const iovec& part : parts) {
    const std::size_t length = std::min(part.iov_len, bytes.size());
    std::memcpy(part.iov_base, bytes.data(), length);
    bytes.remove_prefix(length);
  }
}
std::string gather(Parts parts) {
  std::string all;
  for (const iovec& part : parts) all.append(static_cast<const char*>(part.iov_base), part.iov_len);
  return all;
}

// The call proper, which may wait. Nothing where it was cancelled; -EINTR where a signal's handler interrupted it.
std::optional<std::int64_t> transfer(std::int64_t handle, channel::Verb verb, std::int64_t argument,
                                     const void* caller) {
  Operation operation(access_to(handle, verb, argument));
  if (channel::is_nonblocking(state(), handle)) operation.begin()->order = channel::kTries;
  if (is_cancelled_at_entry(caller))
    return perform(access_to(handle, channel::kDrop, handle % 2), caller), std::nullopt;
  const std::int64_t result = perform(leave_cancellation_point(operation), caller, OnSignal::kRestart);
  if (result == kInterrupted) {
    perform(access_to(handle, channel::kDrop, handle % 2), caller);
    return -EINTR;
  }
  if (is_cancelled()) return std::nullopt;
  return result;
}

std::optional<long> read_pipe(std::int64_t handle, Parts parts, const void* caller) {
  const auto got = transfer(handle, channel::kRead, static_cast<std::int64_t>(size_of(parts)), caller);
  if (!got || *got <= 0) return got;
  std::string& bytes = contents_of(handle / 2).bytes;
  scatter(parts, std::string_view(bytes).substr(0, static_cast<std::size_t>(*got)));
  bytes.erase(0, static_cast<std::size_t>(*got));
  note_written();
  return got;
}

std::optional<long> write_pipe(std::int64_t handle, Parts parts, const void* caller) {
  const std::string all = gather(parts);
  std::size_t done = 0;
  while (true) {
    const auto put = transfer(handle, channel::kWrite, static_cast<std::int64_t>(all.size() - done), caller);
    if (!put) return put;
    if (*put == -EPIPE) signal_broken_pipe(caller);
    if (*put < 0) return done > 0 ? static_cast<long>(done) : *put;
    contents_of(handle / 2).bytes.append(all, done, static_cast<std::size_t>(*put));
    note_written();
    done += static_cast<std::size_t>(*put);
    if (done == all.size() || channel::is_nonblocking(state(), handle)) return static_cast<long>(done);
  }
}

std::optional<long> read_counter(std::int64_t handle, Parts parts, const void* caller) {
  auto got = transfer(handle, channel::kTake, 0, caller);
  if (!got || *got < 0) return got;
  if (*got == channel::kVeryMany) got = field(handle, channel::kCapacity);
  scatter(parts, {reinterpret_cast<const char*>(&*got), sizeof *got});
  return sizeof *got;
}

std::optional<long> write_counter(std::int64_t handle, Parts parts, const void* caller) {
  std::int64_t value;
  std::memcpy(&value, gather(parts).data(), sizeof value);
  if (value == -1) return perform(access_to(handle, channel::kDrop, handle % 2), caller), -EINVAL;
  const auto put = transfer(handle, channel::kAdd, value, caller);
  if (!put || *put < 0) return put;
  note_written();
  return sizeof value;
}

signalfd_siginfo as_read(const siginfo_t& info) {
  signalfd_siginfo read{};
  read.ssi_signo = static_cast<std::uint32_t>(info.si_signo);
  read.ssi_code = info.si_code;
  read.ssi_pid = static_cast<std::uint32_t>(info.si_pid);
  read.ssi_uid = static_cast<std::uint32_t>(info.si_uid);
  if (info.si_code == SI_QUEUE) {
    read.ssi_int = info.si_value.sival_int;
    read.ssi_ptr = reinterpret_cast<std::uint64_t>(info.si_value.sival_ptr);
  }
  return read;
}

// As many as there are, and fit; it waits for the first of them.
std::optional<long> read_signals(std::int64_t handle, Parts parts, const void* caller) {
  std::string all;
  const auto most = size_of(parts) / sizeof(signalfd_siginfo);
  std::optional<long> got = 0;
  while (all.size() < most * sizeof(signalfd_siginfo)) {
    siginfo_t info;
    const bool tries = !all.empty() || channel::is_nonblocking(state(), handle);
    got = take_signal(contents_of(handle / 2).signals, tries, info, caller);
    if (!got || *got < 0) break;
    const signalfd_siginfo read = as_read(info);
    all.append(reinterpret_cast<const char*>(&read), sizeof read);
  }
  perform(access_to(handle, channel::kDrop, handle % 2), caller);
  if (!got) return got;
  if (all.empty()) return got;
  scatter(parts, all);
  note_written();
  return static_cast<long>(all.size());
}

// Reading or writing: nothing where the thread was cancelled.
std::optional<long> read_or_write(bool writes, long fd, Parts parts, const void* caller) {
  const std::int64_t handle = perform_on_table(channel::kUse, fd, 0, caller);
  if (handle < 0) return -EBADF;
  const auto give_back = [&](long error) {
    return perform(access_to(handle, channel::kDrop, handle % 2), caller), error;
  };
  if (is_set(handle)) return give_back(-EINVAL);
  if (is_pipe(handle)) {
    if (handle % 2 != (writes ? channel::kWriteEnd : channel::kReadEnd)) return give_back(-EBADF);
    if (size_of(parts) == 0) return give_back(0);
    return writes ? write_pipe(handle, parts, caller) : read_pipe(handle, parts, caller);
  }
  if (is_signals(handle)) {
    if (writes || size_of(parts) < sizeof(signalfd_siginfo)) return give_back(-EINVAL);
    return read_signals(handle, parts, caller);
  }
  if (size_of(parts) < sizeof(std::uint64_t)) return give_back(-EINVAL);
  return writes ? write_counter(handle, parts, caller) : read_counter(handle, parts, caller);
}

// --- polling
std::uint64_t to_ns(std::int64_t s, std::int64_t ns) {
  return static_cast<std::uint64_t>(s) * 1'000'000'000 + static_cast<std::uint64_t>(ns);
}
// Nothing: for ever.
using Timeout = std::optional<std::uint64_t>;
Timeout timeout_ms(long ms) {
  return static_cast<int>(ms) < 0 ? std::nullopt : Timeout(to_ns(0, static_cast<int>(ms) * 1'000'000L));
}
Timeout timeout_at(long spec) {
  const auto* t = reinterpret_cast<const timespec*>(spec);
  return t == nullptr ? std::nullopt : Timeout(to_ns(t->tv_sec, t->tv_nsec));
}

short events_to_poll(std::int64_t events) {
  return static_cast<short>(((events & channel::kIn) != 0 ? POLLIN | POLLRDNORM : 0) |
                            ((events & channel::kOut) != 0 ? POLLOUT | POLLWRNORM : 0) |
                            ((events & channel::kHangUp) != 0 ? POLLHUP : 0) |
                            ((events & channel::kError) != 0 ? POLLERR : 0));
}
constexpr short kIns = POLLIN | POLLRDNORM, kOuts = POLLOUT | POLLWRNORM;

void check_pollable(std::int64_t handle) {
  if (handle / 2 >= channel::kPolledMost)
    refuse("poll(), select() or epoll of a pipe or eventfd after 32 others were made");
}
bool both_ends(std::int64_t handle) { return !is_pipe(handle); }

void add_interest(Interest& interest, std::int64_t handle, short events) {
  check_pollable(handle);
  for (const End end : {channel::kReadEnd, channel::kWriteEnd}) {
    if (!both_ends(handle) && handle % 2 != end) continue;
    const std::uint64_t bit = channel::bit_of(handle / 2, end);
    interest.looked |= bit;
    if ((events & (end == channel::kReadEnd ? kIns : kOuts)) != 0) interest.wanted |= bit;
  }
}
short ready_events(std::int64_t handle, short events) {
  std::int64_t all = 0;
  for (const End end : {channel::kReadEnd, channel::kWriteEnd}) {
    if (both_ends(handle) || handle % 2 == end) all |= channel::events_of(state(), handle / 2, end);
  }
  return static_cast<short>(events_to_poll(all) & (events | POLLHUP | POLLERR));
}

enum class Waited { kDone, kTimedOut, kInterrupted, kCancelled };

// Waits until the operation's poll finds something, or its time is up.
Waited wait_until_ready(Operation operation, Timeout timeout, bool is_answered, const void* caller) {
  const bool tries = is_answered || (timeout && *timeout == 0);
  if (tries) operation.begin()->order |= channel::kTries;
  const bool is_timed = timeout && !tries;
  if (is_cancelled_at_entry(caller)) return Waited::kCancelled;
  if (is_timed) {
    arm_timer(caller);
    operation.add(take_timer());
  }
  if (!tries) enter_call(caller);
  const std::int64_t result = perform(leave_cancellation_point(operation), caller, OnSignal::kFail);
  if (result == kInterrupted) return Waited::kInterrupted;
  if (is_cancelled()) return Waited::kCancelled;
  const bool is_ready = result != 0 || readable_signals(current_actor().done) != 0;
  if (!is_ready && is_timed) own_clock_ns() += *timeout;
  return is_ready ? Waited::kDone : Waited::kTimedOut;
}

// What is from outside answers at once. How many are ready.
long poll_outside(std::vector<pollfd>& fds) { return fds.empty() ? 0 : kernel(SYS_poll, fds.data(), fds.size(), 0); }

// Nothing within the program can end the wait.
Waited wait_for_outside(Timeout timeout, const void* caller) {
  if (timeout && *timeout == 0) return Waited::kTimedOut;
  if (!timeout) {
    if (!has_signals()) refuse("poll() or select() that waits for what is outside of the program");
    return wait_for_handler(caller) ? Waited::kInterrupted : Waited::kCancelled;
  }
  return sleep_for(*timeout, caller) ? Waited::kTimedOut : Waited::kInterrupted;
}

std::optional<long> poll_all(std::span<pollfd> fds, Timeout timeout, const void* caller) {
  Interest interest;
  std::vector<pollfd> outside;
  bool sees_set = false;
  std::uint64_t signals = 0;
  for (pollfd& p : fds) {
    p.revents = 0;
    const std::int64_t handle = p.fd < 0 ? -1 : handle_of_fd(p.fd);
    if (handle < 0) {
      outside.push_back(p);
    } else {
      add_interest(interest, handle, p.events);
      sees_set = sees_set || is_set(handle);
      if (is_signals(handle) && (p.events & kIns) != 0) signals |= contents_of(handle / 2).signals;
    }
  }
  const long ready = poll_outside(outside);
  if (ready < 0) return ready;
  Waited waited = Waited::kDone;
  if (interest.looked == 0) {
    if (ready == 0) waited = wait_for_outside(timeout, caller);
  } else {
    Operation operation(channel::poll(channels().object, interest));
    if (sees_set) operation.begin()->order |= channel::kSeesAll;
    if (signals != 0) operation.add(look_for_signals(signals));
    waited = wait_until_ready(operation, timeout, ready > 0, caller);
  }
  if (waited == Waited::kCancelled) return std::nullopt;
  if (waited == Waited::kInterrupted) return -EINTR;
  const std::uint64_t readable = signals != 0 ? readable_signals(current_actor().done) : 0;
  long count = 0;
  std::size_t next_outside = 0;
  for (pollfd& p : fds) {
    const std::int64_t handle = p.fd < 0 ? -1 : handle_of_fd(p.fd);
    if (handle >= 0 && is_signals(handle)) {
      p.revents = static_cast<short>((readable & contents_of(handle / 2).signals) != 0 ? p.events & kIns : 0);
      count += p.revents != 0 ? 1 : 0;
      continue;
    }
    p.revents = handle < 0 ? outside[next_outside++].revents : ready_events(handle, p.events);
    count += p.revents != 0 ? 1 : 0;
  }
  return count;
}

bool is_in(const fd_set* set, int fd) { return set != nullptr && FD_ISSET(fd, set); }

std::optional<long> select_all(int count, fd_set* reads, fd_set* writes, fd_set* others, Timeout timeout,
                               const void* caller) {
  if (count < 0) return -EINVAL;
  std::vector<pollfd> fds;
  for (int fd = 0; fd < std::min(count, FD_SETSIZE); ++fd) {
    const short events = static_cast<short>((is_in(reads, fd) ? POLLIN : 0) | (is_in(writes, fd) ? POLLOUT : 0) |
                                            (is_in(others, fd) ? POLLPRI : 0));
    if (events != 0) fds.push_back({fd, events, 0});
  }
  const auto polled = poll_all(fds, timeout, caller);
  if (!polled || *polled < 0) return polled;
  if (std::any_of(fds.begin(), fds.end(), [](const pollfd& p) { return (p.revents & POLLNVAL) != 0; })) return -EBADF;
  long ready = 0;
  const auto keep = [&](fd_set* set, int fd, bool is_ready) {
    if (!is_in(set, fd)) return;
    if (is_ready)
      ++ready;
    else
      FD_CLR(fd, set);
  };
  for (const pollfd& p : fds) {
    keep(reads, p.fd, (p.revents & (POLLIN | POLLHUP | POLLERR)) != 0);
    keep(writes, p.fd, (p.revents & (POLLOUT | POLLERR)) != 0);
    keep(others, p.fd, (p.revents & POLLPRI) != 0);
  }
  return ready;
}

long change_set(long set_fd, long operation, long fd, const epoll_event* event, const void* caller) {
  const std::int64_t set = handle_of_fd(set_fd), handle = handle_of_fd(fd);
  if (!is_set(set) || fd == set_fd) return -EINVAL;
  std::vector<Member>& members = contents_of(set / 2).members;
  const auto it = std::find_if(members.begin(), members.end(), [&](const Member& m) {
    return m.fd == fd && m.handle == std::max<std::int64_t>(handle, -1);
  });
  if ((operation == EPOLL_CTL_ADD) == (it != members.end())) return it != members.end() ? -EEXIST : -ENOENT;
  const std::uint32_t events = operation == EPOLL_CTL_DEL ? 0 : event->events;
  if ((events & EPOLLEXCLUSIVE) != 0) refuse("epoll_ctl() with EPOLLEXCLUSIVE");
  if (handle < 0) {
    struct stat status {};
    if (const long error = kernel(SYS_fstat, fd, &status); error < 0) return error;
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return -EPERM;
  } else {
    check_pollable(handle);
    if (is_set(handle)) refuse("epoll_ctl() of one epoll instance in another");
    if (is_signals(handle)) refuse("epoll_ctl() of a signalfd");
    const std::int64_t wanted = ((events & kIns) != 0 ? channel::kIn : 0) | ((events & kOuts) != 0 ? channel::kOut : 0);
    const std::int64_t how = ((events & EPOLLET) != 0 ? channel::kEdgeTriggered : 0) |
                             ((events & EPOLLONESHOT) != 0 ? channel::kOneShot : 0);
    perform(access_to(set, channel::kChangeSet,
                      channel::membership(handle, wanted, operation == EPOLL_CTL_DEL ? 0 : channel::kMember | how)),
            caller);
  }
  if (operation == EPOLL_CTL_DEL) return members.erase(it), 0;
  const Member member{static_cast<int>(fd), std::max<std::int64_t>(handle, -1), events, event->data.u64};
  if (operation == EPOLL_CTL_ADD)
    members.push_back(member);
  else
    *it = member;
  return 0;
}

// What the last poll of the set told of a member.
short told_events(std::int64_t set, const Member& m) {
  const auto told = static_cast<std::uint64_t>(field(set, channel::kTold));
  std::int64_t all = 0;
  for (const End end : {channel::kReadEnd, channel::kWriteEnd}) {
    if (!both_ends(m.handle) && m.handle % 2 != end) continue;
    if ((told & channel::bit_of(m.handle / 2, end)) != 0) all |= channel::events_of(state(), m.handle / 2, end);
  }
  return static_cast<short>(events_to_poll(all) & (static_cast<short>(m.events) | POLLHUP | POLLERR));
}

std::optional<long> poll_set(long set_fd, epoll_event* out, int most, Timeout timeout, const void* caller) {
  const std::int64_t set = handle_of_fd(set_fd);
  if (!is_set(set) || most <= 0) return -EINVAL;
  std::vector<pollfd> outside;
  for (const Member& m : contents_of(set / 2).members) {
    if (m.handle < 0) outside.push_back({m.fd, static_cast<short>(m.events), 0});
  }
  const long ready = poll_outside(outside);
  const Waited waited = wait_until_ready(access_to(set, channel::kPollSet), timeout, ready > 0, caller);
  if (waited == Waited::kCancelled) return std::nullopt;
  if (waited == Waited::kInterrupted) return -EINTR;
  long count = 0;
  std::size_t next_outside = 0;
  for (const Member& m : contents_of(set / 2).members) {
    const short events = m.handle < 0 ? outside[next_outside++].revents : told_events(set, m);
    if (events == 0) continue;
    if (count == most) {
      if ((m.events & (EPOLLET | EPOLLONESHOT)) != 0)
        refuse("epoll_wait() that finds more than it has room for, edge-triggered or one-shot");
      continue;
    }
    out[count].events = static_cast<std::uint32_t>(events);
    out[count++].data.u64 = m.data;
  }
  return count;
}

// --- the rest
long control(std::int64_t handle, long fd, long command, long argument, const void* caller) {
  const std::int64_t own = std::int64_t{channel::kNonblocking} << handle % 2;
  const std::int64_t flags = field(handle, channel::kFlags);
  switch (command) {
    case F_GETFL: {
      const bool is_on = (perform(access_to(handle, channel::kLook, channel::kFlags), caller) & own) != 0;
      return (is_pipe(handle) ? (handle % 2 == channel::kReadEnd ? O_RDONLY : O_WRONLY) : O_RDWR) |
             (is_on ? O_NONBLOCK : 0);
    }
    case F_SETFL:
      return static_cast<long>(perform(
          access_to(handle, channel::kSetFlags, (argument & O_NONBLOCK) != 0 ? flags | own : flags & ~own), caller));
    case F_GETFD:
      return 0;
    case F_SETFD:
      return 0;  // there is no exec()
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return duplicate(fd, argument, caller);
    case F_GETPIPE_SZ:
      return is_pipe(handle) ? static_cast<long>(perform(access_to(handle, channel::kLook, channel::kCapacity), caller))
                             : -EBADF;
    case F_SETPIPE_SZ: {
      const auto bytes =
          static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(argument, 4096L))));
      return is_pipe(handle) ? static_cast<long>(perform(access_to(handle, channel::kResize, bytes), caller)) : -EBADF;
    }
    default:
      return -EINVAL;
  }
}

long control_device(std::int64_t handle, long request, int* argument, const void* caller) {
  switch (request) {
    case FIONREAD:
      if (!is_pipe(handle)) return -ENOTTY;
      *argument = static_cast<int>(perform(access_to(handle, channel::kLook, channel::kAmount), caller));
      return 0;
    case FIONBIO:
      return control(handle, -1, F_SETFL, *argument != 0 ? O_NONBLOCK : 0, caller);
    default:
      return -ENOTTY;
  }
}

long tell_status(std::int64_t handle, struct stat* out) {
  *out = {};
  out->st_mode = is_pipe(handle) ? S_IFIFO | 0600 : 0600;
  out->st_nlink = 1;
  out->st_blksize = 4096;
  out->st_ino = static_cast<ino_t>(handle / 2 + 1);
  return 0;
}

// Calls whose first argument is a descriptor of ours. Nothing where the thread was cancelled.
std::optional<long> do_fd_call(long number, const long* a, std::int64_t handle, const void* caller) {
  const auto one = [&] { return iovec{reinterpret_cast<void*>(a[1]), static_cast<std::size_t>(a[2])}; };
  const auto many = [&] { return Parts(reinterpret_cast<const iovec*>(a[1]), static_cast<std::size_t>(a[2])); };
  switch (number) {
    case SYS_read:
    case SYS_write: {
      const iovec part = one();
      return read_or_write(number == SYS_write, a[0], {&part, 1}, caller);
    }
    case SYS_readv:
    case SYS_writev:
      return read_or_write(number == SYS_writev, a[0], many(), caller);
    case SYS_close:
      return close_fd(a[0], caller);
    case SYS_dup:
      return duplicate(a[0], 0, caller);
    case SYS_fcntl:
      return control(handle, a[0], a[1], a[2], caller);
    case SYS_ioctl:
      return control_device(handle, a[1], reinterpret_cast<int*>(a[2]), caller);
    case SYS_fstat:
      return tell_status(handle, reinterpret_cast<struct stat*>(a[1]));
    case SYS_newfstatat:
      if (*reinterpret_cast<const char*>(a[1]) != 0) return -ENOTDIR;
      return tell_status(handle, reinterpret_cast<struct stat*>(a[2]));
    case SYS_lseek:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_preadv:
    case SYS_pwritev:
      return -ESPIPE;
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate:
      return -EINVAL;
    case SYS_epoll_ctl:
      return change_set(a[0], a[1], a[2], reinterpret_cast<const epoll_event*>(a[3]), caller);
    case SYS_epoll_wait:
      return poll_set(a[0], reinterpret_cast<epoll_event*>(a[1]), static_cast<int>(a[2]), timeout_ms(a[3]), caller);
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2: {
      const WithMask mask(reinterpret_cast<const std::uint64_t*>(a[4]), caller);
      return poll_set(a[0], reinterpret_cast<epoll_event*>(a[1]), static_cast<int>(a[2]),
                      number == SYS_epoll_pwait ? timeout_ms(a[3]) : timeout_at(a[3]), caller);
    }
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_sendfile:
    case SYS_copy_file_range:
      refuse("splice() and the like of a pipe");
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_statx:
      refuse("preadv2(), pwritev2() or statx() of a pipe or eventfd");
    default:
      return -EINVAL;
  }
}

// Whether the first argument is a descriptor.
bool takes_fd(long number) {
  switch (number) {
    case SYS_read:
    case SYS_write:
    case SYS_readv:
    case SYS_writev:
    case SYS_close:
    case SYS_dup:
    case SYS_fcntl:
    case SYS_ioctl:
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_lseek:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate:
    case SYS_epoll_ctl:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_sendfile:
    case SYS_copy_file_range:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_statx:
      return true;
    default:
      return false;
  }
}

// Calls that make descriptors, or look at several. Nothing where the thread was cancelled; kNoCall where it is none of
// these.
constexpr long kNoCall = INT64_MIN;
std::optional<long> do_other_call(long number, const long* a, const void* caller) {
  const auto fds = [&] { return std::span(reinterpret_cast<pollfd*>(a[0]), static_cast<std::size_t>(a[1])); };
  const auto selects = [&](Timeout timeout) {
    return select_all(static_cast<int>(a[0]), reinterpret_cast<fd_set*>(a[1]), reinterpret_cast<fd_set*>(a[2]),
                      reinterpret_cast<fd_set*>(a[3]), timeout, caller);
  };
  switch (number) {
    case SYS_pipe:
      return make_pipe(reinterpret_cast<int*>(a[0]), 0, caller);
    case SYS_pipe2:
      return make_pipe(reinterpret_cast<int*>(a[0]), a[1], caller);
    case SYS_eventfd:
      return make_counter(static_cast<std::uint32_t>(a[0]), 0, caller);
    case SYS_eventfd2:
      return make_counter(static_cast<std::uint32_t>(a[0]), a[1], caller);
    case SYS_signalfd:
    case SYS_signalfd4:
      return make_signalfd(static_cast<int>(a[0]), reinterpret_cast<const std::uint64_t*>(a[1]),
                           number == SYS_signalfd4 ? a[3] : 0, caller);
    case SYS_epoll_create:
      return a[0] <= 0 ? -EINVAL : open_channel(channel::kSet, 0, 0, caller);
    case SYS_epoll_create1:
      return (a[0] & ~EPOLL_CLOEXEC) != 0 ? -EINVAL : open_channel(channel::kSet, 0, 0, caller);
    case SYS_poll:
      return poll_all(fds(), timeout_ms(a[2]), caller);
    case SYS_ppoll: {
      const WithMask mask(reinterpret_cast<const std::uint64_t*>(a[3]), caller);
      return poll_all(fds(), timeout_at(a[2]), caller);
    }
    case SYS_select: {
      const auto* t = reinterpret_cast<const timeval*>(a[4]);
      return selects(t == nullptr ? std::nullopt : Timeout(to_ns(t->tv_sec, t->tv_usec * 1000)));
    }
    case SYS_pselect6: {
      const auto* argument =
          reinterpret_cast<const std::uint64_t* const*>(a[5]);  // a pointer to the mask, and its size
      const WithMask mask(argument == nullptr ? nullptr : *argument, caller);
      return selects(timeout_at(a[4]));
    }
    default:
      return kNoCall;
  }
}

// One of ours that was closed: who comes too late might have come in time, so that is an operation too.
bool is_closed_one(long number, long fd) {
  const bool looks =
      number == SYS_close || number == SYS_read || number == SYS_write || number == SYS_readv || number == SYS_writev;
  return looks && fd >= 0 && fd < channel::kFdEnd && g_was_ours[fd] && kernel(SYS_fcntl, fd, F_GETFD) < 0;
}

}  // namespace

Answer do_channel_call(long number, long* a, const void* caller, long& result) {
  if (!is_scheduling() || current_actor().is_in_file_step) return Answer::kNotOurs;
  std::optional<long> done;
  if (number == SYS_dup2 || number == SYS_dup3) {
    const bool concerns_us = handle_of_fd(a[0]) >= 0 || handle_of_fd(a[1]) >= 0;
    return concerns_us ? replace(a[0], a[1], caller, result) : Answer::kNotOurs;
  }
  if (takes_fd(number)) {
    const std::int64_t handle = handle_of_fd(a[0]);
    if (handle < 0 && !is_closed_one(number, a[0])) return Answer::kNotOurs;
    done = do_fd_call(number, a, handle, caller);
  } else {
    done = do_other_call(number, a, caller);
  }
  if (!done) return Answer::kCancelled;
  if (*done == kNoCall) return Answer::kNotOurs;
  result = *done;
  return Answer::kDone;
}

void end_channels() {
  for (std::int64_t fd = 0; fd < channel::kFdEnd; ++fd) release(fd), g_was_ours[fd] = false;
  g_channels = nullptr;
}

}  // namespace crashcut::scheduler::runtime
