#include "fusefs/traced.h"

#include <cerrno>

namespace crashcut::fusefs {

// ---- who, and what is written -------------------------------------------------------------------------------------

void Traced::set_process(pid_t pid, std::string_view command) {
  const auto number = static_cast<std::uint64_t>(pid);
  if (!writer_ || (current_.pid == number && current_.command == command)) return;
  current_ = TraceProcess{number, std::string(command)};
  const auto found = known_.find(number);
  is_process_written_ = found != known_.end() && found->second.command == command;
  if (is_process_written_) process_ = found->second.number;
}

// Only once it has done something: most processes that look at a filesystem change nothing.
void Traced::add_process() {
  process_ = ++process_count_;
  known_[current_.pid] = Known{current_.command, process_};
  is_process_written_ = true;
  writer_->add(TraceOp{.call = TraceCall::kProcess, .process = process_, .time = clock_.now(), .text = current_.command, .pid = current_.pid});
}

std::optional<std::uint64_t> Traced::add(TraceOp& op) {
  if (!writer_) return std::nullopt;
  if (!is_process_written_) add_process();
  op.process = process_;
  op.time = clock_.now();
  return writer_->add(op);
}

Errno Traced::add_if_done(Errno result, TraceOp op) {
  if (result == 0) add(op);
  return result;
}

// ---- names --------------------------------------------------------------------------------------------------------

Errno Traced::create(Ino dir, std::string_view name, mode_t mode, dev_t rdev, const Credentials& who, Ino& out) {
  if (S_ISDIR(mode)) return -EPERM;
  if (S_ISLNK(mode)) return -EINVAL;
  clock_.tick();
  const Errno result = filesystem_.create(dir, name, mode, rdev, who, out);
  return add_if_done(result, {.call = TraceCall::kCreate, .ino = out, .dir = dir, .name = name, .mode = mode, .rdev = rdev, .uid = who.uid, .gid = who.gid});
}

Errno Traced::mkdir(Ino dir, std::string_view name, mode_t mode, const Credentials& who, Ino& out) {
  clock_.tick();
  const Errno result = filesystem_.mkdir(dir, name, mode, who, out);
  return add_if_done(result, {.call = TraceCall::kMkdir, .ino = out, .dir = dir, .name = name, .mode = mode, .uid = who.uid, .gid = who.gid});
}

Errno Traced::symlink(Ino dir, std::string_view name, std::string_view target, const Credentials& who, Ino& out) {
  clock_.tick();
  const Errno result = filesystem_.symlink(dir, name, target, who, out);
  return add_if_done(result, {.call = TraceCall::kSymlink, .ino = out, .dir = dir, .name = name, .uid = who.uid, .gid = who.gid, .text = target});
}

Errno Traced::tmpfile(Ino dir, mode_t mode, const Credentials& who, Ino& out) {
  clock_.tick();
  const Errno result = filesystem_.tmpfile(dir, mode, who, out);
  return add_if_done(result, {.call = TraceCall::kTmpfile, .ino = out, .dir = dir, .mode = mode, .uid = who.uid, .gid = who.gid});
}

Errno Traced::link(Ino ino, Ino dir, std::string_view name) {
  clock_.tick();
  return add_if_done(filesystem_.link(ino, dir, name), {.call = TraceCall::kLink, .ino = ino, .dir = dir, .name = name});
}

Errno Traced::unlink(Ino dir, std::string_view name) {
  clock_.tick();
  return add_if_done(filesystem_.unlink(dir, name), {.call = TraceCall::kUnlink, .dir = dir, .name = name});
}

Errno Traced::rmdir(Ino dir, std::string_view name) {
  clock_.tick();
  return add_if_done(filesystem_.rmdir(dir, name), {.call = TraceCall::kRmdir, .dir = dir, .name = name});
}

Errno Traced::rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags) {
  clock_.tick();
  return add_if_done(filesystem_.rename(from_dir, from, to_dir, to, flags),
                     {.call = TraceCall::kRename, .dir = from_dir, .name = from, .to_dir = to_dir, .to_name = to, .flags = flags});
}

// ---- attributes and open descriptions -----------------------------------------------------------------------------

Errno Traced::setattr(Ino ino, const AttrChange& change) {
  clock_.tick();
  return add_if_done(filesystem_.setattr(ino, change), {.call = TraceCall::kSetattr, .ino = ino, .change = change});
}

Errno Traced::set_xattr(Ino ino, const std::string& name, std::string_view value, int flags) {
  clock_.tick();
  return add_if_done(filesystem_.set_xattr(ino, name, value, flags),
                     {.call = TraceCall::kSetXattr, .ino = ino, .name = name, .flags = static_cast<std::uint32_t>(flags), .text = value});
}

Errno Traced::remove_xattr(Ino ino, const std::string& name) {
  clock_.tick();
  return add_if_done(filesystem_.remove_xattr(ino, name), {.call = TraceCall::kRemoveXattr, .ino = ino, .name = name});
}

void Traced::add_open(Ino ino) {
  clock_.tick();
  filesystem_.add_open(ino);
  add_if_done(0, {.call = TraceCall::kAddOpen, .ino = ino});
}

void Traced::release(Ino ino, bool was_writable) {
  clock_.tick();
  filesystem_.release(ino, was_writable);
  add_if_done(0, {.call = TraceCall::kRelease, .ino = ino, .flags = was_writable ? kTraceWritable : 0});
}

// ---- data ---------------------------------------------------------------------------------------------------------

std::int64_t Traced::write(Ino ino, std::uint64_t offset, std::span<const std::byte> in, WriteFlags flags,
                           std::uint64_t* end) {
  clock_.tick();
  std::uint64_t written_end = 0;
  const std::int64_t count = filesystem_.write(ino, offset, in, flags, &written_end);
  if (end && count >= 0) *end = written_end;
  if (count <= 0) return count;  // writing nothing changes nothing, not even a time
  TraceOp op;
  op.call = TraceCall::kWrite;
  op.ino = ino;
  op.offset = written_end - static_cast<std::uint64_t>(count);
  op.flags = (flags.append ? kTraceAppend : 0) | (flags.direct ? kTraceDirect : 0) | (flags.dsync ? kTraceDsync : 0) |
             (flags.sync ? kTraceSync : 0);
  op.data = in.first(static_cast<std::size_t>(count));
  if (const auto position = add(op)) filesystem_.keep_in_store(ino, op.offset, op.data.size(), *writer_, *position);
  return count;
}

Errno Traced::truncate(Ino ino, std::uint64_t size) {
  clock_.tick();
  return add_if_done(filesystem_.truncate(ino, size), {.call = TraceCall::kTruncate, .ino = ino, .length = size});
}

Errno Traced::fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length) {
  clock_.tick();
  const Errno result = filesystem_.fallocate(ino, mode, offset, length);
  TraceOp op{.call = TraceCall::kFallocate, .ino = ino, .offset = offset, .length = length, .flags = static_cast<std::uint32_t>(mode)};
  // ext4 changes the times before it finds that there is no room, or that the range does not fit.
  if (result == -ENOSPC || result == -EINVAL) {
    op.flags |= kTraceFailed;
    add(op);
    return result;
  }
  return add_if_done(result, op);
}

Errno Traced::fsync(Ino ino, bool datasync) {
  clock_.tick();
  return add_if_done(filesystem_.fsync(ino, datasync), {.call = TraceCall::kFsync, .ino = ino, .flags = datasync ? kTraceDatasync : 0});
}

Errno Traced::sync() {
  clock_.tick();
  return add_if_done(filesystem_.sync(), {.call = TraceCall::kSync});
}

Errno Traced::sync_file_range(Ino ino, std::uint64_t offset, std::uint64_t length, unsigned flags) {
  clock_.tick();
  return add_if_done(filesystem_.sync_file_range(ino, offset, length, flags),
                     {.call = TraceCall::kSyncFileRange, .ino = ino, .offset = offset, .length = length, .flags = flags});
}

void Traced::make_durable() {
  clock_.tick();
  filesystem_.make_durable();
  add_if_done(0, {.call = TraceCall::kMakeDurable});
}

void Traced::mark(std::string_view text) {
  clock_.tick();
  add_if_done(0, {.call = TraceCall::kMark, .text = text});
}

}  // namespace crashcut::fusefs
