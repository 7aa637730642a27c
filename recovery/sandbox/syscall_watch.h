// SyscallWatch: the few system calls of a program that matter to a filesystem and do not reach a FUSE server.
//
// Watched: sync, syncfs, sync_file_range (nothing of them arrives); a shared file mapping (its stores arrive late);
//   io_uring_setup (its operations arrive, a sync_file_range among them does not); and crashcut.h's own calls. With
//   SyscallHandlers::on_change also the 64-bit calls that change files, or make them durable; with on_discard the
//   64-bit ioctl BLKDISCARD. In all of x86's system call tables: 64-bit, 32-bit (also by int 0x80 from 64-bit code) and
//   x32.
// How: seccomp user notification. The kernel runs the filter before the call, for any program, static ones and those
//   that make system calls by hand too; other calls cost next to nothing (the kernel caches that they are allowed).
//   The caller waits until the handler has returned. It can be killed meanwhile, which is harmless.
// Not watched: what a process asks an io_uring to do.
//
// Threads: start() puts the filter on the calling thread; what that thread starts from then on inherits it, other
//   threads of the process do not. Handlers run one at a time on a thread of the watch. They may wait for a FUSE
//   server in other threads of this process. A handler that does not return stops the program until it is killed.
// A filter is for life: the thread that answers stays when the watch is destroyed, and lets all calls pass. It ends
//   with the process, and in a sandbox so do all callers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace crashcut::sandbox {

// Which file a descriptor of a caller is. Taken from what the kernel has cached: no request to a FUSE server.
struct FdStat {
  dev_t device = 0;
  ino_t inode = 0;
  mode_t mode = 0;
};

// None when there is no such thread or descriptor. `thread` is a process or thread id in the caller's PID namespace,
// and so are the ids in FUSE requests to a server there; /proc may be that of an outer namespace.
std::optional<FdStat> stat_of_fd(pid_t thread, int fd);
// /proc/THREAD of the /proc that is mounted here.
std::string proc_directory(pid_t thread);
// The same for people: its path, as /proc gives it; empty when there is none.
std::string describe_fd(pid_t thread, int fd);

// Who makes a watched call: it waits while a handler runs, or was killed.
class Caller {
 public:
  Caller(pid_t thread, int listener, std::uint64_t id) : thread_(thread), listener_(listener), id_(id) {}

  pid_t thread() const { return thread_; }
  // Whether it still waits: what was read about thread() before is about this caller and not a later one of that id.
  bool is_waiting() const;
  std::optional<FdStat> stat_fd(int fd) const;
  bool read_memory(std::uint64_t address, void* to, std::size_t size) const;

 private:
  pid_t thread_;
  int listener_;
  std::uint64_t id_;
};

// What becomes of a call when its handler has returned: the kernel goes on with it, or the caller gets a result.
struct Answer {
  static Answer go_on() { return {}; }
  static Answer with(long result) { return {false, result}; }  // negative: -errno

  bool goes_on = true;
  long result = 0;
};

struct SyncFileRange {
  int fd = -1;
  std::int64_t offset = 0;
  std::int64_t length = 0;
  unsigned flags = 0;
};

struct SharedMapping {
  int fd = -1;
  std::uint64_t length = 0;
  int protection = 0;
  int flags = 0;
};

struct Discard {
  std::uint64_t offset = 0, length = 0;
};

// Empty ones: the call goes on. Handlers come before the kernel's part of the call: one that wants the dirty pages of
// mappings first has to call syncfs itself.
struct SyscallHandlers {
  std::function<Answer(const Caller&, std::optional<int> fd)> on_sync;  // sync: no fd; syncfs
  std::function<Answer(const Caller&, const SyncFileRange&)> on_sync_file_range;
  std::function<Answer(const Caller&, const SharedMapping&)> on_shared_mapping;
  std::function<Answer(const Caller&)> on_io_uring;
  // Before a call that changes a file or a directory, or syncs. `fd` is the file's descriptor, where the call has one.
  // Only watched if it is there when the watch starts: a program makes many such calls. The call goes on.
  std::function<void(const Caller&, std::optional<int> fd)> on_change;
  // Before BLKDISCARD of any device. Only watched if it is there when the watch starts. The call goes on.
  std::function<void(const Caller&, const Discard&)> on_discard;
  // include/crashcut.h. To go on is to answer ENOSYS, as without crashcut.
  std::function<Answer(const Caller&)> on_barrier;
  std::function<Answer(const Caller&, std::string_view text)> on_mark;
  std::function<Answer(const Caller&, std::string_view text)> on_reached;
  std::function<Answer(const Caller&)> on_assume;
};

class SyscallWatch {
 public:
  // The error is a sentence. Root, of a user namespace too, can still run set-user-id programs under the filter;
  // others cannot (no_new_privs).
  static tl::expected<std::unique_ptr<SyscallWatch>, std::string> start(SyscallHandlers handlers);
  ~SyscallWatch();
  SyscallWatch(const SyscallWatch&) = delete;
  SyscallWatch& operator=(const SyscallWatch&) = delete;

  // When it returns, none of the old handlers runs. Not from a handler.
  void set_handlers(SyscallHandlers handlers);

  struct Server;

 private:
  SyscallWatch() = default;
  std::shared_ptr<Server> server_;
};

}  // namespace crashcut::sandbox
