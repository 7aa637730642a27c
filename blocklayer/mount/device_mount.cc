#include "blocklayer/mount/device_mount.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fuse_lowlevel.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "blocklayer/mount/block_ioctls.h"
#include "persist/check.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

namespace crashcut::blocklayer {
namespace {

constexpr fuse_ino_t kRoot = 1, kDevice = 2, kHidden = 3, kMarks = 4, kStdout = 5;
constexpr double kForEver = 1e9;
constexpr std::size_t kPageBytes = 4096;
constexpr std::chrono::milliseconds kHoldMost{2};  // of a process' own time, without a request
// Of the clock, for a thread that sleeps in a call of Setup::not_for_drive. A thread that can run and gets no core, on
// a machine with much to do, is waited for however long that takes: what it is about to send belongs beside the others.
constexpr std::chrono::seconds kHoldMostWall{10};
constexpr std::chrono::microseconds kLookAgain{100};
constexpr unsigned kInFlightMost = 4096;

struct Name {
  fuse_ino_t parent;
  std::string_view name;
  fuse_ino_t ino;
};
constexpr Name kNames[] = {{kRoot, kDeviceName, kDevice},
                           {kRoot, ".crashcut", kHidden},
                           {kHidden, "marks", kMarks},
                           {kHidden, "stdout", kStdout}};

// What the threads of a process do. All 0 where that cannot be seen.
struct Activity {
  bool is_runnable = false;        // a thread runs, or is about to
  bool waits_elsewhere = false;    // a thread sleeps in a call of Setup::not_for_drive
  std::chrono::nanoseconds cpu{};  // used so far
};

// The number of the call in which a thread sleeps; none if it does not sleep, or that cannot be seen.
std::optional<long> call_of(const std::string& thread) {
  long number = -1;
  std::ifstream file(thread + "/syscall");
  return file >> number && number >= 0 ? std::optional(number) : std::nullopt;
}

Activity activity_of(pid_t process, const std::vector<long>& not_for_drive) {
  Activity activity;
  const std::string tasks = fmt::format("/proc/{}/task", process);
  DIR* const directory = opendir(tasks.c_str());
  if (directory == nullptr) return activity;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const std::string thread = fmt::format("{}/{}", tasks, entry->d_name);
    std::string line;
    std::getline(std::ifstream(thread + "/stat"), line);
    const std::size_t end = line.rfind(')');
    const bool is_runnable = end != std::string::npos && end + 2 < line.size() && line[end + 2] == 'R';
    activity.is_runnable = activity.is_runnable || is_runnable;
    if (const auto call = call_of(thread); !is_runnable && call)
      activity.waits_elsewhere = activity.waits_elsewhere ||
                                 std::find(not_for_drive.begin(), not_for_drive.end(), *call) != not_for_drive.end();
    std::uint64_t cpu_ns = 0;
    std::ifstream(thread + "/schedstat") >> cpu_ns;
    activity.cpu += std::chrono::nanoseconds(cpu_ns);
  }
  closedir(directory);
  return activity;
}

}  // namespace

struct DeviceMount::Server {
  using Clock = std::chrono::steady_clock;
  // What the kernel is told when a request is done.
  enum class Reply : std::uint8_t { kStatus, kWritten, kIoctl };
  // A request that the kernel waits for.
  struct Pending {
    fuse_req_t request;
    RequestId id;
    pid_t process;
    std::size_t bytes;  // of a write
    Reply reply;
    Clock::time_point since;
    Clock::time_point held_until{};
  };
  // Of a process with requests in flight.
  struct Sender {
    std::chrono::nanoseconds cpu_then{-1};  // used when it was first seen running after its last request
  };
  struct Action {
    const std::function<void()>* run;
    bool* is_done;
  };

  Setup setup;
  fuse_session* session = nullptr;
  int wake = -1;
  std::thread thread;
  std::atomic<std::uint64_t> request_count = 0;

  std::mutex mutex;  // of the two below
  std::condition_variable changed;
  std::deque<Action> actions;
  bool is_stopping = false;
  bool is_gone = false;

  // Of the serving thread.
  ServedDevice* device = nullptr;
  std::uint64_t generation = 1;  // of what is shown; a descriptor keeps that of its open
  std::deque<Pending> pending;
  bool holds_writes = false;
  std::unordered_map<pid_t, Sender> senders;
  std::unordered_map<pid_t, std::string> names;             // of processes
  std::unordered_map<std::uint64_t, std::string> contents;  // of special files that are read, by handle
  std::uint64_t next_handle = 1;
  std::vector<ByteRange> discards;  // below a loop device: that the kernel is about to send

  void serve();
  bool receive(fuse_buf& buffer);
  bool run_actions();
  bool is_quiet();
  bool is_waiting(pid_t process);
  void answer_next();
  void answer(const Pending& answered);
  bool answer_due();
  const std::string& name_of(pid_t process);

  void write_direct(fuse_req_t request, std::uint64_t offset, std::span<const std::byte> data, bool is_fua);
  void write_buffered(std::uint64_t offset, std::span<const std::byte> data, bool is_durable, std::string_view sender);
  void submit(fuse_req_t request, const Request& what, std::span<const std::byte> data, Reply reply);
  void write_back(pid_t process);
  RequestKind kind_of_hole(std::uint64_t offset, std::uint64_t length);
};

namespace {

using Server = DeviceMount::Server;

Server& server_of(fuse_req_t request) { return *static_cast<Server*>(fuse_req_userdata(request)); }

struct stat attributes_of(Server& server, fuse_ino_t ino) {
  struct stat found {};
  found.st_ino = ino;
  found.st_nlink = 1;
  found.st_uid = geteuid();
  found.st_gid = getegid();
  found.st_blksize = static_cast<blksize_t>(server.device->sector_bytes());
  switch (ino) {
    case kRoot:
    case kHidden:
      found.st_mode = S_IFDIR | 0755;
      found.st_nlink = 2;
      break;
    case kDevice:
      found.st_mode = S_IFREG | 0666;
      found.st_size = static_cast<off_t>(server.device->bytes());
      found.st_blocks = found.st_size / 512;
      break;
    case kMarks:
      found.st_mode = S_IFREG | 0444;
      break;
    default:
      found.st_mode = S_IFREG | 0666;
  }
  return found;
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  for (const Name& known : kNames) {
    if (known.parent != parent || known.name != name) continue;
    fuse_entry_param entry{};
    entry.ino = known.ino;
    entry.generation = 1;
    entry.attr = attributes_of(server_of(request), known.ino);
    entry.attr_timeout = entry.entry_timeout = kForEver;
    fuse_reply_entry(request, &entry);
    return;
  }
  fuse_reply_err(request, ENOENT);
}

void get_attributes(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  const struct stat found = attributes_of(server_of(request), ino);
  fuse_reply_attr(request, &found, kForEver);
}

// A device has one size for ever; O_TRUNC does nothing to it.
void set_attributes(fuse_req_t request, fuse_ino_t ino, struct stat* wanted, int what, fuse_file_info* file) {
  if ((what & FUSE_SET_ATTR_SIZE) != 0 && ino == kDevice && wanted->st_size != 0) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  get_attributes(request, ino, file);
}

void open_file(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  Server& server = server_of(request);
  if (ino == kMarks && (file->flags & O_ACCMODE) != O_RDONLY) {
    fuse_reply_err(request, EACCES);
    return;
  }
  // The library does not know of parallel writes: without that flag the kernel lets no two threads write at a time.
  fuse_open_out answer{};
  const bool can_write = (file->flags & O_ACCMODE) != O_RDONLY;
  answer.fh = (server.generation << 32) | ((server.next_handle++ << 1 | (can_write ? 1 : 0)) & 0xffffffffu);
  answer.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
  fuse_reply_buf(request, reinterpret_cast<const char*>(&answer), sizeof answer);
}

bool is_stale(fuse_req_t request, const fuse_file_info* file) {
  if (file->fh >> 32 == server_of(request).generation) return false;
  fuse_reply_err(request, ESTALE);
  return true;
}

void read_special(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* file) {
  Server& server = server_of(request);
  const auto [content, is_new] = server.contents.try_emplace(file->fh);
  if (is_new) content->second = ino == kMarks ? server.device->marks() : server.device->lines();
  const std::string_view text = content->second;
  const std::string_view part = text.substr(std::min(static_cast<std::size_t>(offset), text.size()), size);
  fuse_reply_buf(request, part.data(), part.size());
}

bool is_aligned(const Server& server, std::uint64_t offset, std::uint64_t size) {
  return offset % server.device->sector_bytes() == 0 && size % server.device->sector_bytes() == 0;
}

void read_file(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t signed_offset, fuse_file_info* file) {
  if (is_stale(request, file)) return;
  if (ino != kDevice) return read_special(request, ino, size, signed_offset, file);
  Server& server = server_of(request);
  const auto offset = static_cast<std::uint64_t>(signed_offset);
  if ((file->flags & O_DIRECT) != 0 && !is_aligned(server, offset, size)) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  const std::uint64_t end = std::min<std::uint64_t>(offset + size, server.device->bytes());
  std::vector<std::byte> bytes(offset < end ? end - offset : 0);
  const int error = bytes.empty() ? 0 : server.device->read(offset, bytes);
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

void write_file(fuse_req_t request, fuse_ino_t ino, const char* text, std::size_t size, off_t signed_offset,
                fuse_file_info* file) {
  if (is_stale(request, file)) return;
  Server& server = server_of(request);
  if (ino == kStdout) {
    server.device->on_stdout({text, size});
    fuse_reply_write(request, size);
    return;
  }
  const auto offset = static_cast<std::uint64_t>(signed_offset);
  const bool is_direct = (file->flags & O_DIRECT) != 0;
  const bool is_durable = (file->flags & O_DSYNC) != 0;
  if (is_direct && !is_aligned(server, offset, size)) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  if (offset >= server.device->bytes()) {
    fuse_reply_err(request, ENOSPC);
    return;
  }
  const std::size_t fits = std::min<std::uint64_t>(size, server.device->bytes() - offset);
  const auto data = std::as_bytes(std::span(text, fits));
  if (is_direct) return server.write_direct(request, offset, data, is_durable);
  server.write_buffered(offset, data, is_durable, server.name_of(fuse_req_ctx(request)->pid));
  fuse_reply_write(request, fits);
}

void sync_file(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  if (ino != kDevice) {
    fuse_reply_err(request, 0);
    return;
  }
  server_of(request).submit(request, {.kind = RequestKind::kFlush}, {}, Server::Reply::kStatus);
}

// linux/block/fops.c, blkdev_fallocate(): a hole reads as zeroes.
void allocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length, fuse_file_info* file) {
  if (is_stale(request, file)) return;
  Server& server = server_of(request);
  const int kind = mode & ~FALLOC_FL_KEEP_SIZE;
  const auto first = static_cast<std::uint64_t>(offset), count = static_cast<std::uint64_t>(length);
  if (ino != kDevice || (kind != FALLOC_FL_PUNCH_HOLE && kind != FALLOC_FL_ZERO_RANGE)) {
    fuse_reply_err(request, EOPNOTSUPP);
    return;
  }
  if (!is_aligned(server, first, count) || first + count > server.device->bytes() || count == 0) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  const std::uint32_t sector = server.device->sector_bytes();
  const RequestKind what = kind == FALLOC_FL_PUNCH_HOLE ? server.kind_of_hole(first, count) : RequestKind::kZero;
  server.submit(request, {.kind = what, .first = first / sector, .count = count / sector}, {}, Server::Reply::kStatus);
}

// linux/block/ioctl.c, blk_ioctl_discard() and blk_ioctl_zeroout().
void change_range(fuse_req_t request, RequestKind kind, const void* at, fuse_file_info* file) {
  if (is_stale(request, file)) return;
  Server& server = server_of(request);
  const bool can_write = (file->fh & 1) != 0;
  const auto range = read_range(fuse_req_ctx(request)->pid, at);
  const std::uint64_t bytes = server.device->bytes();
  if (!can_write || !range) {
    fuse_reply_err(request, can_write ? EFAULT : EBADF);
  } else if (!is_aligned(server, range->offset, range->length) || range->length == 0 || range->length > bytes ||
             range->offset > bytes - range->length) {
    fuse_reply_err(request, EINVAL);
  } else {
    const std::uint32_t sector = server.device->sector_bytes();
    server.submit(request, {.kind = kind, .first = range->offset / sector, .count = range->length / sector}, {},
                  Server::Reply::kIoctl);
  }
}

// FUSE copies the answer itself if it knows how long that is.
void tell_fact(fuse_req_t request, const BlockFact& fact, void* at, std::size_t out_size) {
  if (out_size >= fact.size) {
    fuse_reply_ioctl(request, 0, &fact.value, fact.size);
    return;
  }
  const int error = write_answer(fuse_req_ctx(request)->pid, at, fact);
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_ioctl(request, 0, nullptr, 0);
  }
}

void control(fuse_req_t request, fuse_ino_t ino, unsigned command, void* argument, fuse_file_info* file, unsigned flags,
             const void*, std::size_t, std::size_t out_size) {
  Server& server = server_of(request);
  if (ino != kDevice) {
    fuse_reply_err(request, ENOTTY);
    return;
  }
  if (command == BLKDISCARD) return change_range(request, RequestKind::kDiscard, argument, file);
  if (command == BLKZEROOUT) return change_range(request, RequestKind::kZero, argument, file);
  const bool is_32_bit = (flags & FUSE_IOCTL_COMPAT) != 0;
  const auto fact = fact_of(command, server.device->bytes(), server.device->sector_bytes(), is_32_bit);
  if (fact) return tell_fact(request, *fact, argument, out_size);
  if (command != BLKFLSBUF) {
    fuse_reply_err(request, ENOTTY);
    return;
  }
  server.write_back(fuse_req_ctx(request)->pid);
  fuse_reply_ioctl(request, 0, nullptr, 0);
}

void close_file(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  server_of(request).contents.erase(file->fh);
  fuse_reply_err(request, 0);
}

void flush_file(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, 0); }

void list(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info*) {
  std::vector<char> bytes(size);
  std::size_t used = 0;
  off_t at = 0;
  for (const Name& name : kNames) {
    if (name.parent != ino || name.ino == kHidden || ++at <= offset) continue;
    struct stat found {};
    found.st_ino = name.ino;
    found.st_mode = S_IFREG;
    const std::string text(name.name);
    const std::size_t needed = fuse_add_direntry(request, bytes.data() + used, size - used, text.c_str(), &found, at);
    if (needed > size - used) break;
    used += needed;
  }
  fuse_reply_buf(request, bytes.data(), used);
}

void refuse_create(fuse_req_t request, fuse_ino_t, const char*, mode_t, fuse_file_info*) {
  fuse_reply_err(request, EPERM);
}

void initialise(void*, fuse_conn_info* connection) {
  connection->want |= connection->capable & FUSE_CAP_ASYNC_DIO;
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                             FUSE_CAP_SPLICE_MOVE);
  connection->max_background = kInFlightMost;
  connection->congestion_threshold = kInFlightMost;
}

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops table = [] {
    fuse_lowlevel_ops made{};
    made.init = initialise;
    made.lookup = lookup;
    made.getattr = get_attributes;
    made.setattr = set_attributes;
    made.open = open_file;
    made.read = read_file;
    made.write = write_file;
    made.fsync = sync_file;
    made.fallocate = allocate;
    made.ioctl = control;
    made.flush = flush_file;
    made.release = close_file;
    made.readdir = list;
    made.create = refuse_create;
    return made;
  }();
  return table;
}

std::string sentence_for_failed_mount(const std::string& directory) {
  if (access("/dev/fuse", F_OK) != 0)
    return "There is no /dev/fuse on this machine: load the kernel module fuse (modprobe fuse), or give the container "
           "the device.";
  if (access("/dev/fuse", R_OK | W_OK) != 0)
    return "There is no permission to open /dev/fuse: join its group, or run as root.";
  return fmt::format(
      "Cannot mount a FUSE filesystem at {}: as root it works, and as another user where fusermount3 is "
      "installed (Debian: fuse3).",
      directory);
}

}  // namespace

// ---- requests -------------------------------------------------------------------------------------------------------

const std::string& Server::name_of(pid_t process) {
  const auto [found, is_new] = names.try_emplace(process);
  if (is_new) std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)), found->second);
  return found->second;
}

void Server::submit(fuse_req_t request, const Request& what, std::span<const std::byte> data, Reply reply) {
  const pid_t process = fuse_req_ctx(request)->pid;
  Request named = what;
  named.sender = name_of(process);
  const RequestId id = device->issue(named, data);
  senders[process] = {};
  const auto now = Clock::now();
  const bool is_held = reply == Reply::kWritten && holds_writes;
  pending.push_back({request, id, process, data.size(), reply, now, is_held ? now + kHeldMost : now});
}

// linux/block/ioctl.c, blkdev_flushbuf(): the host's cache goes to the drive, and the drive is sent no flush.
void Server::write_back(pid_t process) {
  device->complete(device->issue({.kind = RequestKind::kFlush, .is_buffered = true, .sender = name_of(process)}, {}));
}

// A loop device sends a discard, and zeroes that may be unmapped, as the same hole. It is a discard if the program
// asked for that.
RequestKind Server::kind_of_hole(std::uint64_t offset, std::uint64_t length) {
  for (ByteRange& discard : discards) {
    if (offset != discard.offset || length > discard.length) continue;
    discard.offset += length;
    discard.length -= length;
    std::erase_if(discards, [](const ByteRange& left) { return left.length == 0; });
    return RequestKind::kDiscard;
  }
  return RequestKind::kZero;
}

void Server::write_direct(fuse_req_t request, std::uint64_t offset, std::span<const std::byte> data, bool is_fua) {
  const std::uint32_t sector = device->sector_bytes();
  submit(request,
         {.kind = RequestKind::kWrite, .first = offset / sector, .count = data.size() / sector, .is_fua = is_fua}, data,
         Reply::kWritten);
}

// Whole sectors, a request a page. What of a sector is not written stays as it is.
void Server::write_buffered(std::uint64_t offset, std::span<const std::byte> data, bool is_durable,
                            std::string_view sender) {
  const std::uint32_t sector = device->sector_bytes();
  while (!data.empty()) {
    const std::uint64_t page_end = (offset / kPageBytes + 1) * kPageBytes;
    const std::size_t count = std::min<std::uint64_t>(data.size(), page_end - offset);
    const std::uint64_t first = offset / sector, last = (offset + count - 1) / sector;
    std::vector<std::byte> whole((last - first + 1) * sector);
    const bool is_partial = whole.size() != count;
    if (is_partial && device->read(first * sector, whole) != 0) std::fill(whole.begin(), whole.end(), std::byte{0});
    std::copy_n(data.begin(), count, whole.begin() + static_cast<std::ptrdiff_t>(offset - first * sector));
    const RequestId id = device->issue(
        {.kind = RequestKind::kWrite, .first = first, .count = last - first + 1, .is_buffered = true, .sender = sender},
        whole);
    device->complete(id);
    offset += count;
    data = data.subspan(count);
  }
  if (is_durable) device->complete(device->issue({.kind = RequestKind::kFlush, .sender = sender}, {}));
}

void Server::answer_next() {
  const bool is_newest = setup.answers == Answers::kNewest;
  const Pending next = is_newest ? pending.back() : pending.front();
  if (is_newest) {
    pending.pop_back();
  } else {
    pending.pop_front();
  }
  answer(next);
}

void Server::answer(const Pending& answered) {
  device->complete(answered.id);
  switch (answered.reply) {
    case Reply::kStatus:
      fuse_reply_err(answered.request, 0);
      break;
    case Reply::kWritten:
      fuse_reply_write(answered.request, answered.bytes);
      break;
    case Reply::kIoctl:
      fuse_reply_ioctl(answered.request, 0, nullptr, 0);
      break;
  }
}

// The oldest that is not held back. False: there is none.
bool Server::answer_due() {
  const auto now = Clock::now();
  const auto due = std::find_if(pending.begin(), pending.end(), [&](const Pending& p) { return p.held_until <= now; });
  if (due == pending.end()) return false;
  const Pending answered = *due;
  pending.erase(due);
  answer(answered);
  return true;
}

// Whether a process will send no request before one is answered: all of its threads sleep, or it has run for a while
// and sent none.
bool Server::is_waiting(pid_t process) {
  const Activity activity = activity_of(process, setup.not_for_drive);
  if (!activity.is_runnable) return !activity.waits_elsewhere || Clock::now() - pending.front().since >= kHoldMostWall;
  Sender& sender = senders[process];
  if (sender.cpu_then.count() < 0) sender.cpu_then = activity.cpu;
  return activity.cpu - sender.cpu_then >= kHoldMost;
}

bool Server::is_quiet() {
  std::vector<pid_t> seen;
  for (const Pending& request : pending) {
    if (std::find(seen.begin(), seen.end(), request.process) != seen.end()) continue;
    seen.push_back(request.process);
    if (!is_waiting(request.process)) return false;
  }
  return true;
}

bool Server::receive(fuse_buf& buffer) {
  const int length = fuse_session_receive_buf(session, &buffer);
  if (length == -EINTR || length == -EAGAIN) return true;
  if (length <= 0) return false;
  request_count.fetch_add(1, std::memory_order_relaxed);
  fuse_session_process_buf(session, &buffer);
  return true;
}

// False: it is to stop.
bool Server::run_actions() {
  std::unique_lock lock(mutex);
  while (!actions.empty()) {
    const Action action = actions.front();
    actions.pop_front();
    (*action.run)();
    *action.is_done = true;
    changed.notify_all();
  }
  return !is_stopping;
}

// Requests that are there come first, then what others want between requests, then answers.
void Server::serve() {
  fuse_buf buffer{};
  pollfd watched[] = {{fuse_session_fd(session), POLLIN, 0}, {wake, POLLIN, 0}};
  for (;;) {
    const timespec wait = {0, pending.empty() ? 0 : std::chrono::nanoseconds(kLookAgain).count()};
    const timespec none = {0, 0};
    if (setup.is_below_loop) {
      while (answer_due()) {
      }
    }
    const bool can_answer =
        !setup.is_below_loop && !pending.empty() && ppoll(watched, 1, &none, nullptr) == 0 && is_quiet();
    ppoll(watched, 2, can_answer ? &none : pending.empty() ? nullptr : &wait, nullptr);
    if (watched[0].revents != 0) {
      if (!receive(buffer)) break;
      continue;
    }
    if (watched[1].revents != 0) {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t taken = read(wake, &count, sizeof count);
    }
    if (!run_actions()) break;
    if (can_answer) answer_next();
  }
  free(buffer.mem);
  const std::lock_guard lock(mutex);
  is_gone = true;
  changed.notify_all();
}

// ---- life -----------------------------------------------------------------------------------------------------------

namespace {

// Other threads of the process wait in the kernel for what is answered here, in a way that no signal ends: they unmount
// the disk. If the process is killed then, the connection must go although these threads stay. So the descriptor of the
// connection is in a table of its own, which ends with the serving thread.
// Nor may the serving thread be the last one in the mount namespace of the disk: a thread that ends leaves its
// namespace (exit_task_namespaces) and unmounts what is in it (cleanup_mnt) before it closes its descriptors, and would
// wait for its own answer. So it has a namespace of its own, in which the disk is never mounted.
void start_below_loop(Server& server) {
  std::promise<void> is_apart;
  server.thread = std::thread([&server, &is_apart] {
    prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
    CHECK(unshare(CLONE_FILES | CLONE_NEWNS) == 0);
    CHECK(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    is_apart.set_value();
    server.serve();
  });
  is_apart.get_future().wait();
  // The library closes this number in the end, so it stays taken.
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(nothing >= 0 && dup3(nothing, fuse_session_fd(server.session), O_CLOEXEC) >= 0);
  close(nothing);
}

}  // namespace

DeviceMount::DeviceMount(std::unique_ptr<Server> server) : server_(std::move(server)) {}

tl::expected<std::unique_ptr<DeviceMount>, std::string> DeviceMount::start(const Setup& setup, ServedDevice& device) {
  auto server = std::make_unique<Server>();
  server->setup = setup;
  server->device = &device;
  std::string options = "fsname=crashcut,subtype=crashcut-device,noatime";
  if (setup.allow_others) options += ",allow_other";
  std::string program = "crashcut", flag = "-o";
  char* words[] = {program.data(), flag.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  server->session = fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), server.get());
  fuse_opt_free_args(&arguments);
  if (server->session == nullptr) return tl::unexpected("libfuse3 refused its options: " + options);
  if (fuse_session_mount(server->session, setup.directory.c_str()) != 0) {
    fuse_session_destroy(server->session);
    return tl::unexpected(sentence_for_failed_mount(setup.directory));
  }
  server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(server->wake >= 0);
  if (setup.is_below_loop) {
    start_below_loop(*server);
  } else {
    server->thread = std::thread([serving = server.get()] { serving->serve(); });
  }
  return std::unique_ptr<DeviceMount>(new DeviceMount(std::move(server)));
}

DeviceMount::~DeviceMount() {
  {
    const std::lock_guard lock(server_->mutex);
    server_->is_stopping = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(server_->wake, &one, sizeof one);
  server_->thread.join();
  // The loop device may still have the file open: then only the library's own call knows that nothing is wrong.
  if (!server_->setup.is_below_loop) umount2(server_->setup.directory.c_str(), MNT_DETACH);
  fuse_session_unmount(server_->session);
  fuse_session_destroy(server_->session);
  close(server_->wake);
}

void DeviceMount::between_requests(const std::function<void()>& action) {
  bool is_done = false;
  std::unique_lock lock(server_->mutex);
  if (server_->is_gone) return;
  server_->actions.push_back({&action, &is_done});
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(server_->wake, &one, sizeof one);
  server_->changed.wait(lock, [&] { return is_done || server_->is_gone; });
}

void DeviceMount::show(ServedDevice& device) {
  between_requests([&] {
    while (!server_->pending.empty()) server_->answer_next();
    server_->device = &device;
    ++server_->generation;
    server_->contents.clear();
    server_->names.clear();
    server_->senders.clear();
  });
}

void DeviceMount::hold_arriving(bool is_on) {
  between_requests([&] { server_->holds_writes = is_on; });
}

void DeviceMount::release_held() {
  between_requests([&] {
    for (Server::Pending& held : server_->pending) held.held_until = held.since;
  });
}

void DeviceMount::write_back(pid_t process) {
  between_requests([&] { server_->write_back(process); });
}

void DeviceMount::expect_discard(std::uint64_t offset, std::uint64_t length) {
  between_requests([&] { server_->discards.push_back({offset, length}); });
}

std::uint64_t DeviceMount::request_count() const { return server_->request_count; }

}  // namespace crashcut::blocklayer
