// Requests about open files: their data, and durability.
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "fusefs/mount/server.h"

namespace crashcut::fusefs {

void Mount::Server::keep_open(OpenFile file, fuse_file_info& info) {
  auto kept = std::make_unique<OpenFile>(std::move(file));
  info.fh = reinterpret_cast<std::uint64_t>(kept.get());
  open_files.emplace(info.fh, std::move(kept));
}

void Mount::Server::open(Ino ino, fuse_file_info& info, Traced::Writer writer) {
  const bool is_writable = (info.flags & O_ACCMODE) != O_RDONLY;
  // The root stays anyway, and we have it open ourselves.
  if (ino != kRootIno) volume->changes.add_open(ino, is_writable ? &writer : nullptr);
  keep_open({.generation = nodes.generation(), .ino = ino, .is_writable = is_writable, .writer = writer}, info);
  info.direct_io = !keeps_caches();
  info.keep_cache = keeps_caches();
}

namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr off_t kDirectAlignment = 512;  // ext4's O_DIRECT on a disk of 512-byte sectors

void reply_error(Lock& lock, fuse_req_t req, Errno error) {
  lock.unlock();
  fuse_reply_err(req, -error);
}

Errno check_current(const Mount::Server& server, const OpenFile& file) {
  return file.generation == server.nodes.generation() ? 0 : -ESTALE;
}

// The address in the caller's memory must be aligned too, but nobody tells us.
bool is_misaligned(std::uint64_t offset, std::size_t size) {
  return (offset | size) % std::uint64_t{kDirectAlignment} != 0;
}

int needed_access(int flags) {
  const int to_truncate = flags & O_TRUNC ? W_OK : 0;
  switch (flags & O_ACCMODE) {
    case O_RDONLY:
      return (flags & 040 ? X_OK : R_OK) | to_truncate;  // __FMODE_EXEC
    case O_WRONLY:
      return W_OK;
    default:
      return R_OK | W_OK;
  }
}

// ---- open and close
// ---------------------------------------------------------------------------------------------------

void open_special(Lock& lock, fuse_req_t req, fuse_ino_t node, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  const std::size_t index = server.nodes.special_index(node);
  if (index == 0) return reply_error(lock, req, -EISDIR);
  const SpecialFile& special = server.volume->special_files[index - 1];
  const int mode = info->flags & O_ACCMODE;
  if ((mode != O_WRONLY && !special.content) || (mode != O_RDONLY && !special.on_write))
    return reply_error(lock, req, -EACCES);
  server.keep_open({.generation = server.nodes.generation(), .ino = kNoIno, .special = index - 1}, *info);
  info->direct_io = 1;
  lock.unlock();
  fuse_reply_open(req, info);
}

void on_open(fuse_req_t req, fuse_ino_t node, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  if (server.nodes.is_current(node) && server.nodes.is_special(node)) return open_special(lock, req, node, info);
  Ino ino{};
  Errno error = server.find(node, ino);
  if (error == 0) error = server.access_of(req).check(ino, needed_access(info->flags));
  server.set_process(fuse_req_ctx(req)->pid);
  Traced::Writer writer;
  if (error == 0 && (info->flags & O_TRUNC)) {
    error = server.volume->changes.truncate(ino, 0, &writer);
    if (error == 0) server.kill_privileges(*fuse_req_ctx(req), ino);
  }
  if (error != 0) return reply_error(lock, req, error);
  server.open(ino, *info, writer);
  lock.unlock();
  fuse_reply_open(req, info);
}

void on_create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  server.fetch_before_change();
  Lock lock(server.mutex);
  const fuse_ctx& context = *fuse_req_ctx(req);
  server.set_process(context.pid);
  Ino dir{}, made{};
  Errno error = server.find(parent, dir);
  const Access access = server.access_of(req);
  if (error == 0) error = access.may_create(dir);
  if (error == 0) error = access.strip_setgid(dir, mode);  // the kernel does too, by the mode that it remembers
  if (error == 0) {
    error = server.volume->changes.create(dir, name, S_IFREG | (mode & 07777), 0,
                                          Credentials{context.uid, context.gid, {}}, made);
  }
  fuse_entry_param entry;
  if (error == 0) error = server.fill_entry(req, made, entry);
  if (error != 0) return reply_error(lock, req, error);
  Traced::Writer writer;
  server.volume->changes.note_made(made, writer);
  server.open(made, *info, writer);
  lock.unlock();
  fuse_reply_create(req, &entry, info);
}

void release(fuse_req_t req, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  {
    Lock lock(server.mutex);
    const OpenFile& file = file_of(info);
    const bool is_counted = !file.special && file.ino != kRootIno;
    if (check_current(server, file) == 0 && is_counted)
      server.volume->changes.release(file.ino, file.is_writable, file.is_writable ? &file.writer : nullptr);
    server.open_files.erase(info->fh);
  }
  fuse_reply_err(req, 0);
}

void on_release(fuse_req_t req, fuse_ino_t, fuse_file_info* info) { release(req, info); }

// ---- data
// -------------------------------------------------------------------------------------------------------------

// A direct read looks at the alignment where it goes to the disk: not in holes and not behind the end
// (fs/iomap/direct-io.c).
bool needs_alignment(Filesystem& filesystem, Ino ino, off_t offset, std::size_t size) {
  const auto is_data = [&](off_t at) { return filesystem.seek(ino, static_cast<std::uint64_t>(at), SEEK_DATA) == at; };
  if (filesystem.seek(ino, 0, SEEK_END) <= offset || size == 0) return false;
  const off_t end = offset + static_cast<off_t>(size);
  // Whatever data comes after a part of a sector would go to a part of a sector's distance in memory.
  const std::int64_t data =
      offset % kDirectAlignment == 0 ? -1 : filesystem.seek(ino, static_cast<std::uint64_t>(offset), SEEK_DATA);
  if (data >= 0 && data < end) return true;
  const off_t last_block = std::max(offset, (end - 1) / filesystem.block_bytes() * filesystem.block_bytes());
  return end % kDirectAlignment != 0 && is_data(last_block);
}

void on_read(fuse_req_t req, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  thread_local std::vector<std::byte> buffer;
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  OpenFile& file = file_of(info);
  if (const Errno error = check_current(server, file)) return reply_error(lock, req, error);
  if (file.special) {
    if (!file.content) file.content = server.volume->special_files[*file.special].content();
    const std::size_t begin = std::min<std::size_t>(static_cast<std::size_t>(offset), file.content->size());
    lock.unlock();
    fuse_reply_buf(req, file.content->data() + begin, std::min(size, file.content->size() - begin));
    return;
  }
  // read(2) comes with the owner of the caller's descriptors (FUSE_READ_LOCKOWNER); nobody owns a page that is fetched.
  if (!server.keeps_caches() && info->lock_owner == 0) server.was_read_by_pages = true;
  if ((info->flags & O_DIRECT) && is_misaligned(static_cast<std::uint64_t>(offset), size)) {
    if (needs_alignment(server.volume->filesystem, file.ino, offset, size)) return reply_error(lock, req, -EINVAL);
  }
  if (buffer.size() < size) buffer.resize(size);
  const std::int64_t count =
      server.volume->filesystem.read(file.ino, static_cast<std::uint64_t>(offset), {buffer.data(), size});
  if (count < 0) return reply_error(lock, req, static_cast<Errno>(count));
  lock.unlock();
  fuse_reply_buf(req, reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(count));
}

void on_fsync(fuse_req_t req, fuse_ino_t node, int datasync, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  server.fetch_before_change();
  Lock lock(server.mutex);
  Ino ino{};
  Errno error = server.find(node, ino);
  OpenFile& file = file_of(info);
  const bool is_known = error == 0 && file.synced_by != 0 && file.synced_by == fuse_req_ctx(req)->pid;
  file.synced_by = 0;
  if (error == 0 && !is_known) {
    server.set_process(fuse_req_ctx(req)->pid);
    error = server.volume->changes.fsync(ino, datasync != 0);
  }
  reply_error(lock, req, error == -EPERM ? -EINVAL : error);
}

void on_fallocate(fuse_req_t req, fuse_ino_t node, int mode, off_t offset, off_t length, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  Ino ino{};
  Errno error = server.find(node, ino);
  if (error == 0) {
    server.set_process(fuse_req_ctx(req)->pid);
    error = server.volume->changes.fallocate(ino, mode, static_cast<std::uint64_t>(offset),
                                             static_cast<std::uint64_t>(length), &file_of(info).writer);
    if (error == 0) server.kill_privileges(*fuse_req_ctx(req), ino);
  }
  reply_error(lock, req, error);
}

void on_lseek(fuse_req_t req, fuse_ino_t node, off_t offset, int whence, fuse_file_info*) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  Ino ino{};
  const Errno error = server.find(node, ino);
  if (error != 0) return reply_error(lock, req, error);
  const std::int64_t found =
      offset < 0 ? -ENXIO : server.volume->filesystem.seek(ino, static_cast<std::uint64_t>(offset), whence);
  if (found < 0) return reply_error(lock, req, static_cast<Errno>(found));
  lock.unlock();
  fuse_reply_lseek(req, found);
}

void on_copy_file_range(fuse_req_t req, fuse_ino_t, off_t from_offset, fuse_file_info* from_info, fuse_ino_t,
                        off_t to_offset, fuse_file_info* to_info, size_t length, int) {
  constexpr std::size_t kPieceBytes = 1 << 20;
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  const OpenFile& from = file_of(from_info);
  OpenFile& to = file_of(to_info);
  if (check_current(server, from) != 0 || check_current(server, to) != 0) return reply_error(lock, req, -ESTALE);
  if (from.special || to.special) return reply_error(lock, req, -EOPNOTSUPP);
  server.set_process(fuse_req_ctx(req)->pid);
  if (length > 0) server.kill_privileges(*fuse_req_ctx(req), to.ino);
  std::vector<std::byte> piece(std::min(length, kPieceBytes));
  std::size_t done = 0;
  while (done < length) {
    const std::size_t wanted = std::min(piece.size(), length - done);
    const std::int64_t got = server.volume->filesystem.read(from.ino, static_cast<std::uint64_t>(from_offset) + done,
                                                            {piece.data(), wanted});
    if (got < 0 && done == 0) return reply_error(lock, req, static_cast<Errno>(got));
    if (got <= 0) break;
    const std::int64_t put =
        server.volume->changes.write(to.ino, static_cast<std::uint64_t>(to_offset) + done,
                                     {piece.data(), static_cast<std::size_t>(got)}, WriteFlags{}, nullptr, &to.writer);
    if (put < 0 && done == 0) return reply_error(lock, req, static_cast<Errno>(put));
    if (put <= 0) break;
    done += static_cast<std::size_t>(put);
  }
  lock.unlock();
  fuse_reply_write(req, done);
}

}  // namespace

void add_file_operations(fuse_lowlevel_ops& table) {
  table.open = on_open;
  table.create = on_create;
  table.release = on_release;
  table.releasedir = on_release;
  table.read = on_read;
  table.fsync = on_fsync;
  table.fallocate = on_fallocate;
  table.lseek = on_lseek;
  table.copy_file_range = on_copy_file_range;
  // No flush: a close needs no answer, and without one the kernel stops asking.
}

// ---- requests that do not go through the library
// ------------------------------------------------------------------------

namespace {

WriteFlags flags_of(const fuse_write_in& wanted) {
  if (wanted.write_flags & FUSE_WRITE_CACHE) return {};  // a page that is written back, whoever has the file open
  const auto has = [&](unsigned flag) { return (wanted.flags & flag) == flag; };
  return WriteFlags{
      .append = has(O_APPEND), .direct = has(O_DIRECT), .dsync = !has(O_SYNC) && has(O_DSYNC), .sync = has(O_SYNC)};
}

void to_wire(const struct stat& from, fuse_attr& to) {
  to = {};
  to.ino = from.st_ino;
  to.mode = from.st_mode;
  to.nlink = static_cast<std::uint32_t>(from.st_nlink);
  to.uid = from.st_uid;
  to.gid = from.st_gid;
  to.blksize = static_cast<std::uint32_t>(from.st_blksize);
  to.atime = to.mtime = to.ctime = static_cast<std::uint64_t>(from.st_mtim.tv_sec);
  to.atimensec = to.mtimensec = to.ctimensec = static_cast<std::uint32_t>(from.st_mtim.tv_nsec);
}

}  // namespace

std::int64_t Mount::Server::write(const fuse_in_header& header, const fuse_write_in& wanted, const char* bytes) {
  const Lock lock(mutex);
  OpenFile& file = *reinterpret_cast<OpenFile*>(wanted.fh);
  if (const Errno error = check_current(*this, file)) return error;
  if (file.special) {
    volume->special_files[*file.special].on_write({bytes, wanted.size});
    return wanted.size;
  }
  const WriteFlags flags = flags_of(wanted);
  volume->changes.set_stack({});
  if (!(wanted.write_flags & FUSE_WRITE_CACHE)) {  // a page that is written back belongs to nobody
    const fuse_ctx caller{header.uid, header.gid, static_cast<pid_t>(header.pid), 0};
    set_process(caller.pid);
    kill_privileges(caller, file.ino);
  }
  std::uint64_t offset = wanted.offset;
  if (flags.append) offset = static_cast<std::uint64_t>(volume->filesystem.seek(file.ino, 0, SEEK_END));
  if (flags.direct && is_misaligned(offset, wanted.size)) {
    volume->changes.setattr(file.ino, AttrChange{.mtime = timespec{0, UTIME_NOW}});  // ext4 does that first
    return -EINVAL;
  }
  Traced::Writer* const writer = wanted.write_flags & FUSE_WRITE_CACHE ? nullptr : &file.writer;
  const std::int64_t count = volume->changes.write(
      file.ino, offset, {reinterpret_cast<const std::byte*>(bytes), wanted.size}, flags, nullptr, writer);
  if (count >= 0) file.synced_by = (flags.sync || flags.dsync) && keeps_caches() ? static_cast<pid_t>(header.pid) : 0;
  return count;
}

void Mount::Server::handle_write(const fuse_in_header& header) {
  const auto& wanted = *reinterpret_cast<const fuse_write_in*>(&header + 1);
  const std::int64_t count = write(header, wanted, reinterpret_cast<const char*>(&wanted + 1));
  struct {
    fuse_out_header out;
    fuse_write_out answer;
  } reply{};
  reply.out.unique = header.unique;
  reply.out.error = count < 0 ? static_cast<std::int32_t>(count) : 0;
  reply.out.len = static_cast<std::uint32_t>(count < 0 ? sizeof(reply.out) : sizeof(reply));
  reply.answer.size = static_cast<std::uint32_t>(std::max<std::int64_t>(count, 0));
  [[maybe_unused]] const ssize_t written = ::write(fuse_session_fd(session), &reply, reply.out.len);
}

bool Mount::Server::handle_raw(const fuse_buf& request) {
  const auto& header = *static_cast<const fuse_in_header*>(request.mem);
  const auto has = [&](std::size_t bytes) { return request.size >= sizeof(fuse_in_header) + bytes; };
  if (header.opcode == FUSE_WRITE && has(sizeof(fuse_write_in))) {
    handle_write(header);
    return true;
  }
  if (header.opcode != FUSE_TMPFILE || !has(sizeof(fuse_create_in))) return false;
  handle_tmpfile(header);
  return true;
}

void Mount::Server::handle_tmpfile(const fuse_in_header& header) {
  const auto& wanted = *reinterpret_cast<const fuse_create_in*>(&header + 1);
  fuse_out_header out{};
  struct {
    fuse_entry_out entry;
    fuse_open_out open;
  } answer{};
  {
    Lock lock(mutex);
    Ino dir{}, made{};
    Errno error = find(header.nodeid, dir);
    const Access access = access_of(fuse_ctx{header.uid, header.gid, static_cast<pid_t>(header.pid), 0});
    mode_t mode = wanted.mode & 07777;
    if (error == 0) error = access.may_create(dir);
    if (error == 0) error = access.strip_setgid(dir, mode);
    set_process(static_cast<pid_t>(header.pid));
    if (error == 0) error = volume->changes.tmpfile(dir, S_IFREG | mode, Credentials{header.uid, header.gid, {}}, made);
    if (error == 0) {
      fuse_file_info info{};
      info.flags = static_cast<int>(wanted.flags);
      open(made, info);
      nodes.add_lookup(made);
      hold(made);
      struct stat attributes {};
      volume->filesystem.getattr(made, attributes);
      to_wire(attributes, answer.entry.attr);
      answer.entry.nodeid = nodes.node_of(made);
      answer.entry.generation = nodes.generation();
      answer.entry.entry_valid = answer.entry.attr_valid = static_cast<std::uint64_t>(timeout());
      answer.open.fh = info.fh;
      answer.open.open_flags = keeps_caches() ? FOPEN_KEEP_CACHE : FOPEN_DIRECT_IO;
    }
    out.error = error;
  }
  out.unique = header.unique;
  out.len = static_cast<std::uint32_t>(sizeof(out) + (out.error == 0 ? sizeof(answer) : 0));
  iovec parts[] = {{&out, sizeof(out)}, {&answer, sizeof(answer)}};
  [[maybe_unused]] const ssize_t written = writev(fuse_session_fd(session), parts, out.error == 0 ? 2 : 1);
}

}  // namespace crashcut::fusefs
