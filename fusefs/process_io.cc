// What a process does through an open description: data, sizes, durability, directory listings.
#include <linux/falloc.h>
#include <linux/fs.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>

#include "fusefs/process_impl.h"

namespace crashcut::fusefs {
namespace {

constexpr std::size_t kTransferMax = 0x7ffff000;    // MAX_RW_COUNT
constexpr std::uint64_t kDirectoryEnd = INT64_MAX;  // ext4's EOF cookie of an indexed directory
constexpr std::uint64_t kBlocksMax = UINT32_MAX;    // ext4's extents count blocks in 32 bits
constexpr int kKnownRwfFlags = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND;
constexpr unsigned kSyncRangeFlags = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

// The sum of the lengths, at most what one call transfers, or a negative errno.
std::int64_t total_length(std::span<const iovec> parts) {
  if (parts.size() > IOV_MAX) return -EINVAL;
  std::size_t total = 0;
  for (const iovec& part : parts) {
    if (part.iov_len > SSIZE_MAX - total) return -EINVAL;
    total += part.iov_len;
  }
  return static_cast<std::int64_t>(std::min(total, kTransferMax));
}

void scatter(std::span<const std::byte> bytes, std::span<const iovec> parts) {
  for (const iovec& part : parts) {
    std::size_t count = std::min(part.iov_len, bytes.size());
    if (count > 0) std::memcpy(part.iov_base, bytes.data(), count);
    bytes = bytes.subspan(count);
  }
}

std::vector<std::byte> gather(std::span<const iovec> parts, std::size_t total) {
  std::vector<std::byte> bytes;
  bytes.reserve(total);
  for (const iovec& part : parts) {
    auto first = static_cast<const std::byte*>(part.iov_base);
    bytes.insert(bytes.end(), first, first + std::min(part.iov_len, total - bytes.size()));
  }
  return bytes;
}

WriteFlags write_flags(int open_flags, int rwf_flags) {
  bool sync = (open_flags & O_SYNC) == O_SYNC || (rwf_flags & RWF_SYNC);
  bool dsync = (open_flags & O_DSYNC) || (rwf_flags & RWF_DSYNC);
  return {.append = (open_flags & O_APPEND) || (rwf_flags & RWF_APPEND),
          .direct = (open_flags & O_DIRECT) != 0,
          .dsync = dsync && !sync,
          .sync = sync};
}

// vfs_fallocate()'s view of the mode.
Errno check_fallocate_mode(int mode) {
  bool keeps_size = mode & FALLOC_FL_KEEP_SIZE;
  switch (mode & ~FALLOC_FL_KEEP_SIZE) {
    case 0:
    case FALLOC_FL_ZERO_RANGE:
      return 0;
    case FALLOC_FL_PUNCH_HOLE:
      return keeps_size ? 0 : -EOPNOTSUPP;
    case FALLOC_FL_COLLAPSE_RANGE:
    case FALLOC_FL_INSERT_RANGE:
    case FALLOC_FL_UNSHARE_RANGE:
      return keeps_size ? -EOPNOTSUPP : 0;
    default:
      return -EOPNOTSUPP;
  }
}

struct DirentHeader {
  std::uint64_t d_ino;
  std::int64_t d_off;
  std::uint16_t d_reclen;
  std::uint8_t d_type;
};
// linux_dirent64 has no padding before the name, unlike DirentHeader after its last field.
constexpr std::size_t kDirentNameOffset = offsetof(DirentHeader, d_type) + 1;
constexpr std::size_t kShortestDirent = 24;

std::size_t dirent_length(const DirEntry& entry) { return (kDirentNameOffset + entry.name.size() + 1 + 7) / 8 * 8; }

void put_dirent(const DirEntry& entry, std::span<std::byte> out) {
  DirentHeader header{.d_ino = static_cast<std::uint64_t>(entry.ino),
                      .d_off = static_cast<std::int64_t>(entry.cookie),
                      .d_reclen = static_cast<std::uint16_t>(out.size()),
                      .d_type = static_cast<std::uint8_t>((entry.type & S_IFMT) >> 12)};
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &header, kDirentNameOffset);
  std::memcpy(out.data() + kDirentNameOffset, entry.name.data(), entry.name.size());
}

}  // namespace

std::uint64_t Process::Impl::bytes_max() const { return kBlocksMax * filesystem.block_bytes(); }

bool Process::Impl::is_aligned(std::span<const iovec> parts, std::uint64_t offset) const {
  std::uint64_t unit = std::min<std::uint64_t>(512, filesystem.sector_bytes());
  bool aligned = offset % unit == 0;
  for (const iovec& part : parts)
    aligned = aligned && part.iov_len % unit == 0 && reinterpret_cast<std::uintptr_t>(part.iov_base) % unit == 0;
  return aligned;
}

// Reading.

std::int64_t Process::Impl::read_at(const Description& file, std::span<const iovec> out, std::uint64_t offset) {
  if (S_ISDIR(file.type)) return -EISDIR;
  std::int64_t total = total_length(out);
  if (total <= 0) return total;
  if ((file.flags & O_DIRECT) && !is_aligned(out, offset)) {
    // At the end of a file whose size is not aligned, a reader must still see the end.
    std::int64_t size = filesystem.seek(file.ino, 0, SEEK_END);
    return size >= 0 && offset >= static_cast<std::uint64_t>(size) ? 0 : -EINVAL;
  }
  if (!(file.flags & O_NOATIME)) filesystem.note_access(file.ino);
  auto length = static_cast<std::size_t>(total);
  if (out.size() == 1) return filesystem.read(file.ino, offset, {static_cast<std::byte*>(out[0].iov_base), length});
  std::vector<std::byte> bytes(length);
  std::int64_t count = filesystem.read(file.ino, offset, bytes);
  if (count > 0) scatter(std::span(bytes).first(static_cast<std::size_t>(count)), out);
  return count;
}

// generic_copy_file_checks(): a copy onto itself is refused, one past the end is short.
int Process::check_copy(int in, off_t in_at, int out, off_t out_at, std::size_t& count) {
  DescriptionRef from = impl_->file(in);
  DescriptionRef to = impl_->file(out);
  if (!from || !to) return -EBADF;
  if (S_ISDIR(from->type) || S_ISDIR(to->type)) return -EISDIR;
  if (!S_ISREG(from->type) || !S_ISREG(to->type)) return -EINVAL;
  if (!from->is_readable() || !to->is_writable() || (to->flags & O_APPEND)) return -EBADF;
  if (in_at < 0 || out_at < 0) return -EINVAL;
  if (from->ino != to->ino || count == 0) return 0;
  const off_t size = impl_->filesystem.seek(from->ino, 0, SEEK_END);
  if (size < 0) return static_cast<int>(size);
  count = in_at >= size ? 0 : std::min(count, static_cast<std::size_t>(size - in_at));
  const auto length = static_cast<off_t>(count);
  return out_at + length > in_at && out_at < in_at + length ? -EINVAL : 0;
}

Process::MappedRead Process::map(int fd) {
  DescriptionRef file = impl_->file(fd);
  if (!file) return nullptr;
  return [this, file](std::uint64_t offset, std::span<std::byte> out) {
    return impl_->filesystem.read(file->ino, offset, out);
  };
}

std::int64_t Process::read(int fd, std::span<const iovec> out) {
  DescriptionRef file = impl_->any(fd);
  if (!file || !file->is_readable()) return -EBADF;
  PositionHold hold(*file);
  if (!hold) return kWouldBlock;
  std::int64_t count = impl_->read_at(*file, out, file->offset);
  if (count > 0) file->offset += static_cast<std::uint64_t>(count);
  return count;
}

std::int64_t Process::pread(int fd, std::span<const iovec> out, off_t offset) {
  if (offset < 0) return -EINVAL;
  DescriptionRef file = impl_->any(fd);
  if (!file || !file->is_readable()) return -EBADF;
  return impl_->read_at(*file, out, static_cast<std::uint64_t>(offset));
}

// Writing.

// Whoever is not root takes the setuid and setgid bits off what it changes.
Errno Process::Impl::drop_privileges(Ino ino) {
  if (access.is_root()) return 0;
  Owner now;
  if (Errno error = filesystem.get_owner(ino, now)) return error;
  mode_t lost = access.lost_privileges(now);
  return lost == 0 ? 0 : filesystem.setattr(ino, {.mode = now.mode & 07777 & ~lost});
}

std::int64_t Process::Impl::write_at(const Description& file, std::span<const iovec> in, std::uint64_t offset,
                                     int rwf_flags, std::uint64_t* end) {
  std::int64_t total = total_length(in);
  if (total <= 0) return total;
  if (rwf_flags & ~kKnownRwfFlags) return -EOPNOTSUPP;
  if ((file.flags & O_DIRECT) && !is_aligned(in, offset)) return -EINVAL;
  if (Errno error = drop_privileges(file.ino)) return error;
  WriteFlags flags = write_flags(file.flags, rwf_flags);
  auto length = static_cast<std::size_t>(total);
  auto first = static_cast<const std::byte*>(in[0].iov_base);
  if (in.size() == 1) return filesystem.write(file.ino, offset, {first, length}, flags, end);
  // One write: the inode stays locked from the first part to the last.
  return filesystem.write(file.ino, offset, gather(in, length), flags, end);
}

std::int64_t Process::write(int fd, std::span<const iovec> in) {
  DescriptionRef file = impl_->any(fd);
  if (!file || !file->is_writable()) return -EBADF;
  PositionHold hold(*file);
  if (!hold) return kWouldBlock;
  std::uint64_t end = file->offset;
  std::int64_t count = impl_->write_at(*file, in, file->offset, 0, &end);
  if (count > 0) file->offset = end;
  return count;
}

std::int64_t Process::pwrite(int fd, std::span<const iovec> in, off_t offset, int rwf_flags) {
  if (offset < 0) return -EINVAL;
  DescriptionRef file = impl_->any(fd);
  if (!file || !file->is_writable()) return -EBADF;
  return impl_->write_at(*file, in, static_cast<std::uint64_t>(offset), rwf_flags, nullptr);
}

// Offsets.

namespace {

// Directory offsets are cookies: only the start, the end and cookies seen before mean something.
std::int64_t seek_base(Filesystem& filesystem, const Description& file, int whence) {
  if (whence == SEEK_SET) return 0;
  if (whence == SEEK_CUR) return static_cast<std::int64_t>(file.offset);
  return S_ISDIR(file.type) ? static_cast<std::int64_t>(kDirectoryEnd) : filesystem.seek(file.ino, 0, SEEK_END);
}

std::int64_t seek_data_or_hole(Filesystem& filesystem, const Description& file, off_t offset, int whence) {
  if (offset < 0) return -ENXIO;
  if (!S_ISDIR(file.type)) return filesystem.seek(file.ino, static_cast<std::uint64_t>(offset), whence);
  return whence == SEEK_DATA ? offset : static_cast<std::int64_t>(kDirectoryEnd);
}

}  // namespace

off_t Process::lseek(int fd, off_t offset, int whence) {
  DescriptionRef file = impl_->file(fd);
  if (!file) return -EBADF;
  if (whence < SEEK_SET || whence > SEEK_HOLE) return -EINVAL;
  PositionHold hold(*file);
  if (!hold) return kWouldBlock;
  std::int64_t target = 0;
  if (whence == SEEK_DATA || whence == SEEK_HOLE) {
    target = seek_data_or_hole(impl_->filesystem, *file, offset, whence);
    if (target < 0) return target;
  } else {
    std::int64_t base = seek_base(impl_->filesystem, *file, whence);
    if (base < 0) return base;
    if (__builtin_add_overflow(base, offset, &target) || target < 0) return -EINVAL;
  }
  std::uint64_t most = S_ISDIR(file->type) ? kDirectoryEnd : impl_->bytes_max();
  if (static_cast<std::uint64_t>(target) > most) return -EINVAL;
  file->offset = static_cast<std::uint64_t>(target);
  return target;
}

// Sizes and allocation.

Errno Process::Impl::truncate(Ino ino, off_t size) {
  if (Errno error = drop_privileges(ino)) return error;
  return filesystem.truncate(ino, static_cast<std::uint64_t>(size));
}

int Process::ftruncate(int fd, off_t size) {
  if (size < 0) return -EINVAL;
  DescriptionRef file = impl_->file(fd);
  if (!file) return -EBADF;
  if (!S_ISREG(file->type) || !file->is_writable()) return -EINVAL;
  return impl_->truncate(file->ino, size);
}

int Process::truncate(std::string_view path, off_t size) {
  if (size < 0) return -EINVAL;
  Ino ino = kNoIno;
  if (Errno error = impl_->find(AT_FDCWD, path, 0, ino)) return error;
  mode_t type = impl_->filesystem.type(ino);
  if (S_ISDIR(type)) return -EISDIR;
  if (!S_ISREG(type)) return -EINVAL;
  if (Errno error = impl_->access.check(ino, W_OK)) return error;
  return impl_->truncate(ino, size);
}

int Process::fallocate(int fd, int mode, off_t offset, off_t length) {
  DescriptionRef file = impl_->file(fd);
  if (!file) return -EBADF;
  if (offset < 0 || length <= 0) return -EINVAL;
  if (Errno error = check_fallocate_mode(mode)) return error;
  if (!file->is_writable()) return -EBADF;
  off_t end = 0;
  bool overflows = __builtin_add_overflow(offset, length, &end);
  if (overflows || static_cast<std::uint64_t>(end) > impl_->bytes_max()) return -EFBIG;
  Errno error = impl_->filesystem.fallocate(file->ino, mode, static_cast<std::uint64_t>(offset),
                                            static_cast<std::uint64_t>(length));
  // ext4 takes the privileges off once it knows the mode, before it looks at the range.
  if (error == -EOPNOTSUPP || error == kWouldBlock) return error;
  Errno dropped = impl_->drop_privileges(file->ino);
  return error ? error : dropped;
}

// Durability.

int Process::fsync(int fd) {
  DescriptionRef file = impl_->file(fd);
  return file ? impl_->filesystem.fsync(file->ino, false) : -EBADF;
}

int Process::fdatasync(int fd) {
  DescriptionRef file = impl_->file(fd);
  return file ? impl_->filesystem.fsync(file->ino, true) : -EBADF;
}

int Process::sync() { return impl_->filesystem.sync(); }

int Process::syncfs(int fd) { return impl_->file(fd) ? impl_->filesystem.sync() : -EBADF; }

int Process::sync_file_range(int fd, off_t offset, off_t length, unsigned flags) {
  DescriptionRef file = impl_->file(fd);
  if (!file) return -EBADF;
  off_t end = 0;
  if (offset < 0 || length < 0 || __builtin_add_overflow(offset, length, &end)) return -EINVAL;
  if (flags & ~kSyncRangeFlags) return -EINVAL;
  return impl_->filesystem.sync_file_range(file->ino, static_cast<std::uint64_t>(offset),
                                           static_cast<std::uint64_t>(length), flags);
}

// Listings.

int Process::getdents64(int fd, std::span<std::byte> out) {
  DescriptionRef file = impl_->file(fd);
  if (!file) return -EBADF;
  if (!S_ISDIR(file->type)) return -ENOTDIR;
  PositionHold hold(*file);
  if (!hold) return kWouldBlock;
  std::vector<DirEntry> entries;
  // At least one, to tell a buffer that is too small from the end.
  std::size_t most = std::max<std::size_t>(1, out.size() / kShortestDirent);
  if (Errno error = impl_->filesystem.readdir(file->ino, file->offset, most, entries)) return error;
  if (!(file->flags & O_NOATIME)) impl_->filesystem.note_access(file->ino);
  std::size_t used = 0;
  for (const DirEntry& entry : entries) {
    std::size_t length = dirent_length(entry);
    if (length > out.size() - used) return used == 0 ? -EINVAL : static_cast<int>(used);
    put_dirent(entry, out.subspan(used, length));
    used += length;
    file->offset = entry.cookie;
  }
  return static_cast<int>(used);
}

}  // namespace crashcut::fusefs
