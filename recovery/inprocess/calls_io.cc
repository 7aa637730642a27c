// Calls on descriptors that are the model's.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "inject/gate.h"
#include "recovery/inprocess/call_text.h"
#include "recovery/inprocess/calls.h"
#include "recovery/inprocess/user_memory.h"

namespace crashcut::inprocess {

namespace {

fusefs::Process& process() { return *g.model->process; }

using inject::pointer;

// Whether the model reads from the program's buffers, as write() does, or fills them.
enum class Buffers { kRead, kFilled };

std::size_t good_bytes(const iovec& part, Buffers how) {
  return how == Buffers::kRead ? readable_bytes(part.iov_base, part.iov_len)
                               : writable_bytes(part.iov_base, part.iov_len);
}

// The parts of a vectored call, checked as the kernel does (import_iovec). What follows a bad address is left out.
long parts_of(long address, long count, Buffers how, std::span<const iovec>& out) {
  if (count < 0 || count > IOV_MAX) return -EINVAL;
  const auto* parts = pointer<const iovec>(address);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof *parts;
  if ((address == 0 && count != 0) || readable_bytes(parts, bytes) != bytes) return -EFAULT;
  out = {parts, static_cast<std::size_t>(count)};
  std::size_t total = 0;
  for (const iovec& part : out) {
    if (part.iov_len > SSIZE_MAX - total) return -EINVAL;
    total += part.iov_len;
  }
  std::size_t before = 0;
  for (std::size_t i = 0; i < out.size(); before += out[i++].iov_len) {
    const std::size_t good = out[i].iov_base == nullptr ? 0 : good_bytes(out[i], how);
    if (good == out[i].iov_len) continue;
    if (before + good == 0) return -EFAULT;
    static iovec kept[IOV_MAX];
    std::copy_n(parts, i + 1, kept);
    kept[i].iov_len = good;
    out = {kept, i + 1};
    return 0;
  }
  return 0;
}

long one_part(const Call& c, Buffers how, iovec& part, std::span<const iovec>& out) {
  // The kernel cuts longer transfers off (MAX_RW_COUNT).
  part = {pointer<void>(c.a[1]), std::min<std::size_t>(static_cast<std::size_t>(c.a[2]), 0x7ffff000)};
  const std::size_t good = part.iov_base == nullptr ? 0 : good_bytes(part, how);
  if (good == 0 && part.iov_len != 0) return -EFAULT;
  part.iov_len = good;
  out = {&part, 1};
  return 0;
}

long read_parts(int fd, std::span<const iovec> parts) {
  begin_look([&] { return fmt::format("read({})", fd_text(fd)); });
  return process().read(fd, parts);
}
long pread_parts(int fd, std::span<const iovec> parts, off_t offset) {
  begin_look([&] { return fmt::format("pread({}, at {})", fd_text(fd), offset); });
  return process().pread(fd, parts, offset);
}
long write_parts(int fd, std::span<const iovec> parts) {
  begin_change([&] { return fmt::format("write({}, {})", fd_text(fd), bytes_text(parts)); });
  return process().write(fd, parts);
}
long pwrite_parts(int fd, std::span<const iovec> parts, off_t offset, int flags) {
  begin_change([&] { return fmt::format("pwrite({}, at {}, {})", fd_text(fd), offset, bytes_text(parts)); });
  return process().pwrite(fd, parts, offset, flags);
}

long fd_of(const Call& c) { return static_cast<int>(c.a[0]); }

}  // namespace

long call_read(Call& c) {
  iovec part;
  std::span<const iovec> parts;
  if (long e = one_part(c, Buffers::kFilled, part, parts)) return e;
  return read_parts(fd_of(c), parts);
}
long call_write(Call& c) {
  iovec part;
  std::span<const iovec> parts;
  if (long e = one_part(c, Buffers::kRead, part, parts)) return e;
  return write_parts(fd_of(c), parts);
}
long call_pread64(Call& c) {
  iovec part;
  std::span<const iovec> parts;
  if (long e = one_part(c, Buffers::kFilled, part, parts)) return e;
  return pread_parts(fd_of(c), parts, c.a[3]);
}
long call_pwrite64(Call& c) {
  iovec part;
  std::span<const iovec> parts;
  if (long e = one_part(c, Buffers::kRead, part, parts)) return e;
  return pwrite_parts(fd_of(c), parts, c.a[3], 0);
}
long call_readv(Call& c) {
  std::span<const iovec> parts;
  if (long e = parts_of(c.a[1], c.a[2], Buffers::kFilled, parts)) return e;
  return read_parts(fd_of(c), parts);
}
long call_writev(Call& c) {
  std::span<const iovec> parts;
  if (long e = parts_of(c.a[1], c.a[2], Buffers::kRead, parts)) return e;
  return write_parts(fd_of(c), parts);
}
// The offset of the p-variants comes in two halves; on 64 bits the low one holds all of it.
long call_preadv(Call& c) {
  std::span<const iovec> parts;
  if (long e = parts_of(c.a[1], c.a[2], Buffers::kFilled, parts)) return e;
  return pread_parts(fd_of(c), parts, c.a[3]);
}
long call_pwritev(Call& c) {
  std::span<const iovec> parts;
  if (long e = parts_of(c.a[1], c.a[2], Buffers::kRead, parts)) return e;
  return pwrite_parts(fd_of(c), parts, c.a[3], 0);
}
long call_preadv2(Call& c) {
  std::span<const iovec> parts;
  if (long e = parts_of(c.a[1], c.a[2], Buffers::kFilled, parts)) return e;
  if ((c.a[5] & ~(RWF_HIPRI | RWF_NOWAIT)) != 0) return -EOPNOTSUPP;
  return c.a[3] == -1 ? read_parts(fd_of(c), parts) : pread_parts(fd_of(c), parts, c.a[3]);
}
long call_pwritev2(Call& c) {
  std::span<const iovec> parts;
  if (long e = parts_of(c.a[1], c.a[2], Buffers::kRead, parts)) return e;
  if (c.a[3] == -1 && c.a[5] == 0) return write_parts(fd_of(c), parts);
  if (c.a[3] == -1) {
    // With flags and the file's own offset: write there and move it.
    const off_t at = process().lseek(fd_of(c), 0, SEEK_CUR);
    if (at < 0) return at;
    const long done = pwrite_parts(fd_of(c), parts, at, static_cast<int>(c.a[5]));
    if (done > 0)
      process().lseek(fd_of(c), (c.a[5] & RWF_APPEND) != 0 ? 0 : at + done,
                      (c.a[5] & RWF_APPEND) != 0 ? SEEK_END : SEEK_SET);
    return done;
  }
  return pwrite_parts(fd_of(c), parts, c.a[3], static_cast<int>(c.a[5]));
}

long call_lseek(Call& c) {
  begin_look([&] { return fmt::format("lseek({}, {}, {})", fd_text(fd_of(c)), c.a[1], c.a[2]); });
  return process().lseek(fd_of(c), c.a[1], static_cast<int>(c.a[2]));
}
long call_ftruncate(Call& c) {
  begin_change([&] { return fmt::format("ftruncate({}, {})", fd_text(fd_of(c)), c.a[1]); });
  return process().ftruncate(fd_of(c), c.a[1]);
}
long call_fallocate(Call& c) {
  begin_change(
      [&] { return fmt::format("fallocate({}, mode {}, {} bytes at {})", fd_text(fd_of(c)), c.a[1], c.a[3], c.a[2]); });
  return process().fallocate(fd_of(c), static_cast<int>(c.a[1]), c.a[2], c.a[3]);
}
long call_fsync(Call& c) {
  begin_change([&] { return fmt::format("fsync({})", fd_text(fd_of(c))); });
  return process().fsync(fd_of(c));
}
long call_fdatasync(Call& c) {
  begin_change([&] { return fmt::format("fdatasync({})", fd_text(fd_of(c))); });
  return process().fdatasync(fd_of(c));
}
// Only the model is synced: the rest of the system is not ours to wait for.
long call_sync(Call&) {
  begin_change([&] { return std::string("sync()"); });
  return process().sync();
}
long call_syncfs(Call& c) {
  begin_change([&] { return fmt::format("syncfs({})", fd_text(fd_of(c))); });
  return process().syncfs(fd_of(c));
}
long call_sync_file_range(Call& c) {
  begin_change([&] { return fmt::format("sync_file_range({}, {} bytes at {})", fd_text(fd_of(c)), c.a[2], c.a[1]); });
  return process().sync_file_range(fd_of(c), c.a[1], c.a[2], static_cast<unsigned>(c.a[3]));
}

long call_fstat(Call& c) {
  begin_look([&] { return fmt::format("fstat({})", fd_text(fd_of(c))); });
  struct stat st;
  const long result = process().fstat(fd_of(c), st);
  return result == 0 ? give(c.a[1], &st, sizeof st) : result;
}

long call_close(Call& c) {
  begin_change([&] { return fmt::format("close({})", fd_text(fd_of(c))); });
  const long result = process().close(fd_of(c));
  g.model->names.erase(fd_of(c));
  return result;
}

// close_range: ours here, the kernel's by the kernel, and the runtime's own stay.
long call_close_range(Call& c) {
  const auto first = static_cast<unsigned>(c.a[0]);
  const auto last = static_cast<unsigned>(c.a[1]);
  if (first > last) return -EINVAL;
  const unsigned flags = static_cast<unsigned>(c.a[2]);
  for (int fd : process().descriptors()) {
    if (static_cast<unsigned>(fd) < first || static_cast<unsigned>(fd) > last) continue;
    Call one{SYS_close, {fd}};
    if ((flags & 4 /* CLOSE_RANGE_CLOEXEC */) == 0) call_close(one);
  }
  spend_image();
  const auto own = static_cast<unsigned>(g.placeholder);
  if (own < first || own > last) return kernel(SYS_close_range, first, last, flags);
  if (own > first) kernel(SYS_close_range, first, own - 1, flags);
  return own < last ? kernel(SYS_close_range, own + 1, last, flags) : 0;
}

static long remember_copy(int fd, long made) {
  if (made >= 0 && made != fd) g.model->names[static_cast<int>(made)] = g.model->names[fd];
  return made;
}
long call_dup(Call& c) { return remember_copy(static_cast<int>(fd_of(c)), process().dup(fd_of(c), 0, false)); }

// dup2 and dup3, where either descriptor is modelled.
static long dup_over(Call& c, bool cloexec) {
  const int from = static_cast<int>(fd_of(c));
  const int to = static_cast<int>(c.a[1]);
  if (to == g.placeholder) return -EBADF;
  if (!g.models_fd(from)) {
    // A foreign descriptor takes a modelled number. The kernel's dup replaces our placeholder in one step, but the
    // model must not free the number afterwards.
    if (kernel(SYS_fcntl, from, F_GETFD) < 0) return -EBADF;
    Call closing{SYS_close, {to}};
    call_close(closing);
    return kForward;
  }
  if (to < 0 || to >= kFdsMost) return -EBADF;
  if (!g.models_fd(to)) {
    spend_image();
    kernel(SYS_close, to);
  }
  return remember_copy(from, process().dup_to(from, to, cloexec));
}
static bool dup_concerns_us(const Call& c) {
  return g.models_fd(static_cast<int>(c.a[0])) || g.models_fd(static_cast<int>(c.a[1]));
}
long call_dup2(Call& c) {
  if (!dup_concerns_us(c)) return kForward;
  if (c.a[0] == c.a[1]) return c.a[0];
  return dup_over(c, false);
}
long call_dup3(Call& c) {
  if (!dup_concerns_us(c)) return kForward;
  if (c.a[0] == c.a[1] || (c.a[2] & ~O_CLOEXEC) != 0) return -EINVAL;
  return dup_over(c, (c.a[2] & O_CLOEXEC) != 0);
}

// A lock that another description has: a thread may release it, but what waits here holds the model's lock.
static long lock_call(Call& c) {
  const int fd = static_cast<int>(fd_of(c));
  int command = static_cast<int>(c.a[1]);
  struct flock lock;
  if (long e = take(&lock, c.a[2], sizeof lock)) return e;
  const bool waits = command == F_SETLKW || command == F_OFD_SETLKW;
  if (waits) command = command == F_SETLKW ? F_SETLK : F_OFD_SETLK;
  const long result = process().lock(fd, command, lock);
  if (waits && result == -EAGAIN) unsupported("fcntl(F_SETLKW or F_OFD_SETLKW), and would have to wait for the lock");
  const bool asks = command == F_GETLK || command == F_OFD_GETLK;
  return asks && result == 0 ? give(c.a[2], &lock, sizeof lock) : result;
}
long call_fcntl(Call& c) {
  const int fd = static_cast<int>(fd_of(c));
  const int command = static_cast<int>(c.a[1]);
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return remember_copy(fd, process().dup(fd, static_cast<int>(c.a[2]), command == F_DUPFD_CLOEXEC));
    case F_GETFD:
      return process().get_fd_flags(fd);
    case F_SETFD:
      return process().set_fd_flags(fd, static_cast<int>(c.a[2]));
    case F_GETFL:
      return process().get_flags(fd);
    case F_SETFL:
      return process().set_flags(fd, static_cast<int>(c.a[2]));
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
      return lock_call(c);
    case F_SETOWN:
    case F_SETSIG:
      return 0;
    case F_GETOWN:
    case F_GETSIG:
      return 0;
    case F_GETLEASE:
      return F_UNLCK;
    default:
      return -EINVAL;
  }
}
long call_flock(Call& c) {
  const int operation = static_cast<int>(c.a[1]);
  const long result = process().flock(fd_of(c), operation | 4 /* LOCK_NB */);
  if (result == -EAGAIN && (operation & 4) == 0) unsupported("flock(), and would have to wait for the lock");
  return result;
}

long call_getdents64(Call& c) {
  const std::size_t asked = static_cast<unsigned>(c.a[2]);
  const std::size_t good = writable_bytes(pointer<void>(c.a[1]), asked);
  if (good == 0 && asked != 0) return -EFAULT;
  begin_look([&] { return fmt::format("getdents({})", fd_text(fd_of(c))); });
  return process().getdents64(fd_of(c), {pointer<std::byte>(c.a[1]), good});
}
long call_getdents(Call&) { unsupported("getdents() of 32-bit days"); }

long call_fchmod(Call& c) {
  begin_change([&] { return fmt::format("fchmod({}, {:04o})", fd_text(fd_of(c)), c.a[1] & 07777); });
  return process().fchmod(fd_of(c), static_cast<mode_t>(c.a[1]));
}
long call_fchown(Call& c) {
  begin_change([&] {
    return fmt::format("fchown({}, {}, {})", fd_text(fd_of(c)), static_cast<int>(c.a[1]), static_cast<int>(c.a[2]));
  });
  return process().fchown(fd_of(c), static_cast<uid_t>(c.a[1]), static_cast<gid_t>(c.a[2]));
}

long call_fadvise64(Call& c) {
  const bool is_known = c.a[3] >= POSIX_FADV_NORMAL && c.a[3] <= POSIX_FADV_NOREUSE;
  return is_known && c.a[2] >= 0 ? 0 : -EINVAL;
}
long call_readahead(Call&) { return 0; }

long call_ioctl(Call& c) {
  if (c.a[1] == FIONREAD) {
    struct stat st;
    const long error = process().fstat(fd_of(c), st);
    if (error < 0) return error;
    const off_t at = process().lseek(fd_of(c), 0, SEEK_CUR);
    const int left = static_cast<int>(std::max<off_t>(0, st.st_size - at));
    return give(c.a[2], &left, sizeof left);
  }
  if (c.a[1] == FS_IOC_GETFLAGS) unsupported("ioctl(FS_IOC_GETFLAGS)");
  if (c.a[1] == FICLONE || c.a[1] == FICLONERANGE) return -EOPNOTSUPP;  // as ext4
  return -ENOTTY;
}

// Copies by read and write, so that the model sees plain writes. Offsets that are given are used and moved.
static long copy_bytes(int in, off_t* in_at, int out, off_t* out_at, std::size_t count) {
  static char buffer[64 * 1024];
  if (!g.models_fd(in) || !g.models_fd(out)) spend_image();
  std::size_t done = 0;
  while (done < count) {
    const std::size_t want = std::min(count - done, sizeof buffer);
    iovec part{buffer, want};
    long got;
    if (g.models_fd(in)) {
      got = in_at != nullptr ? pread_parts(in, {&part, 1}, *in_at) : read_parts(in, {&part, 1});
    } else {
      got = in_at != nullptr ? kernel(SYS_pread64, in, buffer, want, *in_at) : kernel(SYS_read, in, buffer, want);
    }
    if (got <= 0) return done > 0 ? static_cast<long>(done) : got;
    part.iov_len = static_cast<std::size_t>(got);
    long put;
    if (g.models_fd(out)) {
      put = out_at != nullptr ? pwrite_parts(out, {&part, 1}, *out_at, 0) : write_parts(out, {&part, 1});
    } else if (out >= 0 && out < static_cast<int>(sizeof g.captured) && g.captured[out] != 0) {
      capture_output(g.captured[out], buffer, part.iov_len);
      put = got;
    } else {
      put = out_at != nullptr ? kernel(SYS_pwrite64, out, buffer, got, *out_at) : kernel(SYS_write, out, buffer, got);
    }
    // What was read and could not be written goes back.
    const long kept = std::max(put, 0L);
    if (in_at != nullptr)
      *in_at += kept;
    else if (kept < got)
      g.models_fd(in) ? process().lseek(in, kept - got, SEEK_CUR) : kernel(SYS_lseek, in, kept - got, SEEK_CUR);
    if (out_at != nullptr) *out_at += kept;
    if (put < 0) return done > 0 ? static_cast<long>(done) : put;
    done += static_cast<std::size_t>(put);
    if (put < got) break;
  }
  return static_cast<long>(done);
}
long call_sendfile(Call& c) {
  off_t in_at = 0;
  if (c.a[2] != 0)
    if (long e = take(&in_at, c.a[2], sizeof in_at)) return e;
  const long done = copy_bytes(static_cast<int>(c.a[1]), c.a[2] != 0 ? &in_at : nullptr, static_cast<int>(c.a[0]),
                               nullptr, static_cast<std::size_t>(c.a[3]));
  const long given = c.a[2] != 0 ? give(c.a[2], &in_at, sizeof in_at) : 0;
  return given != 0 ? given : done;
}
// An offset that is given in memory, or else the descriptor's own.
static long offset_of(int fd, long address, off_t& out) {
  if (address != 0) return take(&out, address, sizeof out);
  out = process().lseek(fd, 0, SEEK_CUR);
  return out < 0 ? out : 0;
}
long call_copy_file_range(Call& c) {
  const int in = static_cast<int>(c.a[0]);
  const int out = static_cast<int>(c.a[2]);
  if (!g.models_fd(in) || !g.models_fd(out))
    return kernel(SYS_fcntl, g.models_fd(in) ? out : in, F_GETFD) < 0 ? -EBADF : -EXDEV;
  off_t in_at, out_at;
  if (long e = offset_of(in, c.a[1], in_at)) return e;
  if (long e = offset_of(out, c.a[3], out_at)) return e;
  if (c.a[5] != 0) return -EINVAL;
  auto count = static_cast<std::size_t>(c.a[4]);
  if (long e = process().check_copy(in, in_at, out, out_at, count)) return e;
  const long done = copy_bytes(in, c.a[1] != 0 ? &in_at : nullptr, out, c.a[3] != 0 ? &out_at : nullptr, count);
  if (done > 0 && c.a[1] != 0)
    if (long e = give(c.a[1], &in_at, sizeof in_at)) return e;
  if (done > 0 && c.a[3] != 0)
    if (long e = give(c.a[3], &out_at, sizeof out_at)) return e;
  return done;
}

}  // namespace crashcut::inprocess
