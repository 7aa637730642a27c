#include "recovery/sandbox/syscall_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "include/crashcut.h"
#include "recovery/sandbox/fd.h"

// Of Linux 6.6 and 6.9: newer than the headers we build with.
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

namespace crashcut::sandbox {
namespace {

// As the program knows them, whatever table they came from.
enum class Kind { kSync, kSyncfs, kSyncFileRange, kMap, kOldMap, kIoUring, kControl, kCrashcut, kOther };

constexpr unsigned kX32Bit = 0x40000000;
constexpr std::size_t kTextMost = 64 << 10;

// The 32-bit table, in which only mmap differs in kind: two of them, one with its arguments in memory.
constexpr unsigned kSync32 = 36, kOldMap32 = 90, kMap32 = 192, kSyncFileRange32 = 314, kSyncfs32 = 344,
                   kIoUring32 = 425;

static_assert(CRASHCUT_SYSCALL_NUMBER == 0x63726173 && (CRASHCUT_SYSCALL_NUMBER & kX32Bit) != 0,
              "crashcut's number looks like one of x32: compare it before that bit is taken off");

Kind kind_of(const seccomp_data& data) {
  const auto number = static_cast<unsigned>(data.nr);
  if (number == CRASHCUT_SYSCALL_NUMBER) return Kind::kCrashcut;
  if (data.arch == AUDIT_ARCH_I386) {
    switch (number) {
      case kSync32:
        return Kind::kSync;
      case kSyncfs32:
        return Kind::kSyncfs;
      case kSyncFileRange32:
        return Kind::kSyncFileRange;
      case kMap32:
        return Kind::kMap;
      case kOldMap32:
        return Kind::kOldMap;
      case kIoUring32:
        return Kind::kIoUring;
      default:
        return Kind::kOther;
    }
  }
  switch (number & ~kX32Bit) {
    case SYS_sync:
      return Kind::kSync;
    case SYS_syncfs:
      return Kind::kSyncfs;
    case SYS_sync_file_range:
      return Kind::kSyncFileRange;
    case SYS_mmap:
      return Kind::kMap;
    case SYS_io_uring_setup:
      return Kind::kIoUring;
    case SYS_ioctl:
      return Kind::kControl;
    default:
      return Kind::kOther;
  }
}

// The calls of SyscallHandlers::on_change, besides those that are watched anyway.
struct ChangingCall {
  long number;
  bool has_fd;  // its first argument
};
constexpr ChangingCall kChanging[] = {
    {SYS_write, true},      {SYS_pwrite64, true},  {SYS_writev, true},    {SYS_pwritev, true},
    {SYS_pwritev2, true},   {SYS_ftruncate, true}, {SYS_fallocate, true}, {SYS_fsync, true},
    {SYS_fdatasync, true},  {SYS_fchmod, true},    {SYS_fsetxattr, true}, {SYS_fremovexattr, true},
    {SYS_truncate, false},  {SYS_rename, false},   {SYS_renameat, false}, {SYS_renameat2, false},
    {SYS_link, false},      {SYS_linkat, false},   {SYS_symlink, false},  {SYS_symlinkat, false},
    {SYS_unlink, false},    {SYS_unlinkat, false}, {SYS_mkdir, false},    {SYS_mkdirat, false},
    {SYS_rmdir, false},     {SYS_mknod, false},    {SYS_mknodat, false},  {SYS_creat, false},
    {SYS_open, false},      {SYS_openat, false},   {SYS_setxattr, false}, {SYS_removexattr, false},
    {SYS_io_submit, false}, {SYS_msync, false},    {SYS_sendfile, true},  {SYS_io_uring_enter, false},
};

const ChangingCall* changing_call(const seccomp_data& data) {
  if (data.arch == AUDIT_ARCH_I386) return nullptr;
  const auto number = static_cast<long>(static_cast<unsigned>(data.nr) & ~kX32Bit);
  const auto* const found = std::find_if(std::begin(kChanging), std::end(kChanging),
                                         [&](const ChangingCall& call) { return call.number == number; });
  if (found == std::end(kChanging)) return nullptr;
  // Most files are opened to be read.
  const bool is_open = number == SYS_open || number == SYS_openat;
  const auto flags = static_cast<int>(data.args[number == SYS_open ? 1 : 2]);
  return is_open && (flags & (O_CREAT | O_TRUNC)) == 0 ? nullptr : found;
}

// MAP_SHARED and MAP_SHARED_VALIDATE have this bit, MAP_PRIVATE has not.
constexpr unsigned kSharedBit = MAP_SHARED;
static_assert((MAP_SHARED_VALIDATE & kSharedBit) != 0 && (MAP_PRIVATE & kSharedBit) == 0);
bool is_shared_file(int flags) { return (static_cast<unsigned>(flags) & (kSharedBit | MAP_ANONYMOUS)) == kSharedBit; }

// Calls that are watched if their handlers are there when the watch starts.
struct Watched {
  bool has_changes = false;
  bool has_discards = false;
};

// The filter, with jumps to ends that follow all checks: flags of a mapping, the command of an ioctl, notify.
class Filter {
 public:
  std::vector<sock_filter> make(const Watched& watched) {
    load(offsetof(seccomp_data, arch));
    const std::size_t at_i386 = code_.size();
    code_.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 0, AUDIT_ARCH_I386});
    load(offsetof(seccomp_data, nr));
    notify_if(CRASHCUT_SYSCALL_NUMBER);
    code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~kX32Bit));
    for (const unsigned number : {SYS_sync, SYS_syncfs, SYS_sync_file_range, SYS_io_uring_setup}) notify_if(number);
    if (watched.has_changes) {
      for (const ChangingCall& call : kChanging) notify_if(call.number);
    }
    check_flags_if(SYS_mmap);
    if (watched.has_discards) jump_if(SYS_ioctl, to_command_);
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));

    code_[at_i386].jt = static_cast<__u8>(code_.size() - at_i386 - 1);
    load(offsetof(seccomp_data, nr));
    // Of the old mmap only an address is seen here: all of them are asked about.
    for (const unsigned number :
         {unsigned{CRASHCUT_SYSCALL_NUMBER}, kSync32, kSyncfs32, kSyncFileRange32, kIoUring32, kOldMap32})
      notify_if(number);
    check_flags_if(kMap32);
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));

    const std::size_t at_flags = code_.size();
    load(offsetof(seccomp_data, args) + 3 * sizeof(__u64));  // the low half: x86 is little-endian
    code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kSharedBit | MAP_ANONYMOUS));
    notify_if(kSharedBit);
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const std::size_t at_command = code_.size();
    load(offsetof(seccomp_data, args) + sizeof(__u64));
    notify_if(BLKDISCARD);
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const std::size_t at_notify = code_.size();
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));

    for (const std::size_t i : to_flags_) code_[i].jt = static_cast<__u8>(at_flags - i - 1);
    for (const std::size_t i : to_command_) code_[i].jt = static_cast<__u8>(at_command - i - 1);
    for (const std::size_t i : to_notify_) code_[i].jt = static_cast<__u8>(at_notify - i - 1);
    return std::move(code_);
  }

 private:
  void load(std::size_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<__u32>(offset))); }
  void notify_if(long value) { jump_if(value, to_notify_); }
  void check_flags_if(long value) { jump_if(value, to_flags_); }
  void jump_if(long value, std::vector<std::size_t>& list) {
    list.push_back(code_.size());
    code_.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 0, static_cast<__u32>(value)});
  }

  std::vector<sock_filter> code_;
  std::vector<std::size_t> to_flags_, to_command_, to_notify_;
};

int install(sock_fprog& program) {
  // Killable waiting, where the kernel has it: else a signal with a handler interrupts the call again and again, and
  // a program with a fast timer never gets through.
  for (const unsigned long more : {static_cast<unsigned long>(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), 0UL}) {
    const long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | more, &program);
    if (fd >= 0 || errno != EINVAL) return static_cast<int>(fd);
  }
  return -1;
}

int install_with_least_harm(const Watched& watched) {
  std::vector<sock_filter> code = Filter().make(watched);
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  const int fd = install(program);
  if (fd >= 0 || errno != EACCES) return fd;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return install(program);
}

std::string explain_install(int error) {
  switch (error) {
    case EBUSY:
      return "cannot watch system calls: a seccomp listener is installed already, by crashcut or by what runs it";
    case EINVAL:
    case ENOSYS:
      return "cannot watch system calls: this kernel has no seccomp user notification (Linux 5.5 has it)";
    default:
      return fmt::format("cannot watch system calls: {}", strerror(error));
  }
}

}  // namespace

// /proc/THREAD of the /proc that is mounted here, which may count processes of an outer namespace.
std::string proc_directory(pid_t thread) {
  char self[32] = {};
  if (readlink("/proc/self", self, sizeof self - 1) > 0 && atoi(self) == getpid())
    return fmt::format("/proc/{}", thread);
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, thread, 0)));
  if (!pidfd) pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, thread, PIDFD_THREAD)));
  if (!pidfd) return {};
  // Here the kernel translates.
  FILE* file = fopen(fmt::format("/proc/self/fdinfo/{}", pidfd.get()).c_str(), "re");
  if (file == nullptr) return {};
  int outer = 0;
  for (char line[128]; fgets(line, sizeof line, file) != nullptr;) {
    if (sscanf(line, "Pid: %d", &outer) == 1) break;
  }
  fclose(file);
  return outer > 0 ? fmt::format("/proc/{}", outer) : std::string();
}

std::optional<FdStat> stat_of_fd(pid_t thread, int fd) {
  const std::string directory = proc_directory(thread);
  if (directory.empty()) return std::nullopt;
  struct statx st;
  if (statx(AT_FDCWD, fmt::format("{}/fd/{}", directory, fd).c_str(), AT_STATX_DONT_SYNC,
            STATX_INO | STATX_TYPE | STATX_MODE, &st) != 0) {
    return std::nullopt;
  }
  return FdStat{makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino, st.stx_mode};
}

std::string describe_fd(pid_t thread, int fd) {
  char path[4096];
  const ssize_t size = readlink(fmt::format("{}/fd/{}", proc_directory(thread), fd).c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : std::string();
}

bool Caller::is_waiting() const { return ioctl(listener_, SECCOMP_IOCTL_NOTIF_ID_VALID, &id_) == 0; }

std::optional<FdStat> Caller::stat_fd(int fd) const {
  const auto st = stat_of_fd(thread_, fd);
  return is_waiting() ? st : std::nullopt;
}

bool Caller::read_memory(std::uint64_t address, void* to, std::size_t size) const {
  const iovec here{to, size};
  const iovec there{reinterpret_cast<void*>(address), size};
  return process_vm_readv(thread_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(size) && is_waiting();
}

struct SyscallWatch::Server {
  std::mutex mutex;  // held while a handler runs
  SyscallHandlers handlers;
  std::promise<int> listener_promise;

  void serve(int listener);
  Answer decide(const Caller& caller, const seccomp_data& data);
  Answer decide_map(const Caller& caller, const seccomp_data& data, Kind kind);
  Answer decide_crashcut(const Caller& caller, const seccomp_data& data);
  Answer decide_sync_file_range(const Caller& caller, const seccomp_data& data);
  void tell_control(const Caller& caller, const seccomp_data& data);
};

Answer SyscallWatch::Server::decide_sync_file_range(const Caller& caller, const seccomp_data& data) {
  if (!handlers.on_sync_file_range) return Answer::go_on();
  const auto pair = [&](int low) {
    return static_cast<std::int64_t>((data.args[low + 1] & 0xffffffff) << 32 | (data.args[low] & 0xffffffff));
  };
  SyncFileRange range{static_cast<int>(data.args[0])};
  if (data.arch == AUDIT_ARCH_I386) {
    range.offset = pair(1);
    range.length = pair(3);
    range.flags = static_cast<unsigned>(data.args[5]);
  } else {
    range.offset = static_cast<std::int64_t>(data.args[1]);
    range.length = static_cast<std::int64_t>(data.args[2]);
    range.flags = static_cast<unsigned>(data.args[3]);
  }
  return handlers.on_sync_file_range(caller, range);
}

void SyscallWatch::Server::tell_control(const Caller& caller, const seccomp_data& data) {
  std::uint64_t range[2];
  const bool is_discard = static_cast<unsigned>(data.args[1]) == BLKDISCARD;
  if (is_discard && handlers.on_discard && caller.read_memory(data.args[2], range, sizeof range))
    handlers.on_discard(caller, {range[0], range[1]});
}

Answer SyscallWatch::Server::decide_map(const Caller& caller, const seccomp_data& data, Kind kind) {
  std::array<std::uint64_t, 6> a;
  std::copy_n(data.args, 6, a.begin());
  if (kind == Kind::kOldMap) {
    std::array<std::uint32_t, 6> in_memory;
    if (!caller.read_memory(data.args[0], in_memory.data(), sizeof in_memory)) return Answer::go_on();
    std::copy(in_memory.begin(), in_memory.end(), a.begin());
  }
  const SharedMapping mapping{static_cast<int>(a[4]), a[1], static_cast<int>(a[2]), static_cast<int>(a[3])};
  if (!is_shared_file(mapping.flags) || !handlers.on_shared_mapping) return Answer::go_on();
  return handlers.on_shared_mapping(caller, mapping);
}

Answer SyscallWatch::Server::decide_crashcut(const Caller& caller, const seccomp_data& data) {
  const auto call = [&](const auto& handler, const auto&... more) {
    return handler ? handler(caller, more...) : Answer::go_on();
  };
  const auto operation = static_cast<int>(data.args[0]);
  if (operation == CRASHCUT_OP_BARRIER) return call(handlers.on_barrier);
  if (operation == CRASHCUT_OP_ASSUME) return call(handlers.on_assume);
  if (operation != CRASHCUT_OP_MARK && operation != CRASHCUT_OP_REACHED) return Answer::go_on();
  if (data.args[2] > kTextMost) return Answer::with(-ENAMETOOLONG);
  std::string text(data.args[2], '\0');
  if (!text.empty() && !caller.read_memory(data.args[1], text.data(), text.size())) return Answer::with(-EFAULT);
  return call(operation == CRASHCUT_OP_MARK ? handlers.on_mark : handlers.on_reached, std::string_view(text));
}

Answer SyscallWatch::Server::decide(const Caller& caller, const seccomp_data& data) {
  const std::lock_guard lock(mutex);
  const Kind kind = kind_of(data);
  if (handlers.on_change) {
    const ChangingCall* const call = changing_call(data);
    const bool is_sync = kind == Kind::kSync || kind == Kind::kSyncfs || kind == Kind::kSyncFileRange;
    if (call != nullptr || is_sync)
      handlers.on_change(
          caller, call != nullptr && call->has_fd ? std::optional(static_cast<int>(data.args[0])) : std::nullopt);
  }
  switch (kind) {
    case Kind::kSync:
      return handlers.on_sync ? handlers.on_sync(caller, std::nullopt) : Answer::go_on();
    case Kind::kSyncfs:
      return handlers.on_sync ? handlers.on_sync(caller, static_cast<int>(data.args[0])) : Answer::go_on();
    case Kind::kSyncFileRange:
      return decide_sync_file_range(caller, data);
    case Kind::kMap:
    case Kind::kOldMap:
      return decide_map(caller, data, kind);
    case Kind::kIoUring:
      return handlers.on_io_uring ? handlers.on_io_uring(caller) : Answer::go_on();
    case Kind::kCrashcut:
      return decide_crashcut(caller, data);
    case Kind::kControl:
      tell_control(caller, data);
      break;
    case Kind::kOther:
      break;
  }
  return Answer::go_on();
}

void SyscallWatch::Server::serve(int listener) {
  // A kernel newer than our headers may write more.
  seccomp_notif_sizes sizes{sizeof(seccomp_notif), sizeof(seccomp_notif_resp), 0};
  syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
  std::vector<std::uint64_t> in(std::max<std::size_t>(sizes.seccomp_notif, sizeof(seccomp_notif)) / 8 + 1);
  std::vector<std::uint64_t> out(std::max<std::size_t>(sizes.seccomp_notif_resp, sizeof(seccomp_notif_resp)) / 8 + 1);
  auto& request = *reinterpret_cast<seccomp_notif*>(in.data());
  auto& response = *reinterpret_cast<seccomp_notif_resp*>(out.data());
  while (true) {
    std::fill(in.begin(), in.end(), 0);
    std::fill(out.begin(), out.end(), 0);
    // ENOENT: the caller was killed before we read what it wants.
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;
      return;
    }
    Answer answer;
    try {
      answer = decide(Caller(static_cast<pid_t>(request.pid), listener, request.id), request.data);
    } catch (...) {
      answer = Answer::go_on();  // whatever happens here, the program goes on
    }
    response.id = request.id;
    response.flags = answer.goes_on ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
    if (!answer.goes_on && answer.result < 0 && answer.result > -4096) response.error = static_cast<int>(answer.result);
    if (!answer.goes_on && response.error == 0) response.val = answer.result;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);  // ENOENT: killed meanwhile
  }
}

tl::expected<std::unique_ptr<SyscallWatch>, std::string> SyscallWatch::start(SyscallHandlers handlers) {
  auto server = std::make_shared<Server>();
  const Watched watched{handlers.on_change != nullptr, handlers.on_discard != nullptr};
  server->handlers = std::move(handlers);
  // Started before the filter is installed: a thread inherits the filter, and the answering thread must not be filtered
  // itself. It handles no signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([server] {
    const int listener = server->listener_promise.get_future().get();
    if (listener >= 0) server->serve(listener);
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);

  const int listener = install_with_least_harm(watched);
  const int error = errno;
  // Caller and server take turns, so they run best on one core. Before 6.6 there is no such wish.
  if (listener >= 0) ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, 0);
  server->listener_promise.set_value(listener);
  if (listener < 0) return tl::make_unexpected(explain_install(error));
  std::unique_ptr<SyscallWatch> watch(new SyscallWatch);
  watch->server_ = std::move(server);
  return watch;
}

SyscallWatch::~SyscallWatch() { set_handlers({}); }

void SyscallWatch::set_handlers(SyscallHandlers handlers) {
  const std::lock_guard lock(server_->mutex);
  server_->handlers = std::move(handlers);
}

}  // namespace crashcut::sandbox
