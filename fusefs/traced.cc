#include "fusefs/traced.h"

#include <linux/falloc.h>

#include <cerrno>

#include "fusefs/trace_text.h"

namespace crashcut::fusefs {

// ---- who, and what is written -------------------------------------------------------------------------------------

void Traced::set_process(pid_t pid, std::string_view command) {
  const auto number = static_cast<std::uint64_t>(pid);
  stack_.clear();
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
  writer_->add(TraceOp{.call = TraceCall::kProcess,
                       .process = process_,
                       .time = clock_.now(),
                       .text = current_.command,
                       .pid = current_.pid});
}

std::uint32_t Traced::code_file_number(const CodePlace& place) {
  const auto next = static_cast<std::uint32_t>(code_files_.size());
  const auto [file, is_new] = code_files_.try_emplace({*place.file, *place.id}, next);
  if (is_new)
    writer_->add(TraceOp{.call = TraceCall::kCodeFile, .time = clock_.now(), .name = *place.file, .text = *place.id});
  return file->second;
}

std::uint32_t Traced::stack_number() {
  if (stack_ == last_stack_) return last_number_;
  last_stack_ = stack_;
  last_number_ = 0;
  if (stack_.empty()) return 0;
  TraceStack stack;
  for (const CodePlace& place : stack_) stack.push_back({code_file_number(place), place.address});
  const auto next = static_cast<std::uint32_t>(stacks_.size() + 1);
  const auto [known, is_new] = stacks_.try_emplace(std::move(stack), next);
  if (is_new) {
    const std::string text = to_text(known->first);
    writer_->add(TraceOp{.call = TraceCall::kStack, .time = clock_.now(), .text = text});
  }
  return last_number_ = known->second;
}

namespace {

// Others come when the kernel or crashcut thinks fit.
bool is_made_by_caller(TraceCall call) {
  switch (call) {
    case TraceCall::kAddOpen:
    case TraceCall::kRelease:
    case TraceCall::kMakeDurable:
    case TraceCall::kMark:
    case TraceCall::kStopped:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::optional<std::uint64_t> Traced::add(TraceOp& op) {
  if (!writer_) return std::nullopt;
  if (!is_process_written_) add_process();
  op.process = process_;
  op.stack = is_made_by_caller(op.call) ? stack_number() : 0;
  op.time = clock_.now();
  return writer_->add(op);
}

void Traced::begin(const TraceOp& op) {
  clock_.tick();
  if (recorder_) recorder_->begin_op(text_of(op));
}

std::string Traced::text_of(const TraceOp& op) const {
  return call_text(op, [this](Ino ino) { return recorder_->recording().path_of(ino); });
}

template <class Action>
Errno Traced::change(TraceOp op, Action&& action, const Ino* made) {
  begin(op);
  const Errno result = action();
  if (made) op.ino = *made;
  if (result == 0) {
    add(op);
  } else if (recorder_) {
    recorder_->drop_op();
  }
  return result;
}

// ---- names --------------------------------------------------------------------------------------------------------

Errno Traced::create(Ino dir, std::string_view name, mode_t mode, dev_t rdev, const Credentials& who, Ino& out) {
  if (S_ISDIR(mode)) return -EPERM;
  if (S_ISLNK(mode)) return -EINVAL;
  return change(
      {.call = TraceCall::kCreate,
       .dir = dir,
       .name = name,
       .mode = mode,
       .rdev = rdev,
       .uid = who.uid,
       .gid = who.gid},
      [&] { return filesystem_.create(dir, name, mode, rdev, who, out); }, &out);
}

Errno Traced::mkdir(Ino dir, std::string_view name, mode_t mode, const Credentials& who, Ino& out) {
  return change(
      {.call = TraceCall::kMkdir, .dir = dir, .name = name, .mode = mode, .uid = who.uid, .gid = who.gid},
      [&] { return filesystem_.mkdir(dir, name, mode, who, out); }, &out);
}

Errno Traced::symlink(Ino dir, std::string_view name, std::string_view target, const Credentials& who, Ino& out) {
  return change(
      {.call = TraceCall::kSymlink, .dir = dir, .name = name, .uid = who.uid, .gid = who.gid, .text = target},
      [&] { return filesystem_.symlink(dir, name, target, who, out); }, &out);
}

Errno Traced::tmpfile(Ino dir, mode_t mode, const Credentials& who, Ino& out) {
  return change(
      {.call = TraceCall::kTmpfile, .dir = dir, .mode = mode, .uid = who.uid, .gid = who.gid},
      [&] { return filesystem_.tmpfile(dir, mode, who, out); }, &out);
}

Errno Traced::link(Ino ino, Ino dir, std::string_view name) {
  return change({.call = TraceCall::kLink, .ino = ino, .dir = dir, .name = name},
                [&] { return filesystem_.link(ino, dir, name); });
}

Errno Traced::unlink(Ino dir, std::string_view name) {
  return change({.call = TraceCall::kUnlink, .dir = dir, .name = name}, [&] { return filesystem_.unlink(dir, name); });
}

Errno Traced::rmdir(Ino dir, std::string_view name) {
  return change({.call = TraceCall::kRmdir, .dir = dir, .name = name}, [&] { return filesystem_.rmdir(dir, name); });
}

Errno Traced::rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags) {
  return change(
      {.call = TraceCall::kRename, .dir = from_dir, .name = from, .to_dir = to_dir, .to_name = to, .flags = flags},
      [&] { return filesystem_.rename(from_dir, from, to_dir, to, flags); });
}

// ---- attributes and open descriptions -----------------------------------------------------------------------------

Errno Traced::setattr(Ino ino, const AttrChange& attributes) {
  return change({.call = TraceCall::kSetattr, .ino = ino, .change = attributes},
                [&] { return filesystem_.setattr(ino, attributes); });
}

Errno Traced::set_xattr(Ino ino, const std::string& name, std::string_view value, int flags) {
  return change({.call = TraceCall::kSetXattr,
                 .ino = ino,
                 .name = name,
                 .flags = static_cast<std::uint32_t>(flags),
                 .text = value},
                [&] { return filesystem_.set_xattr(ino, name, value, flags); });
}

Errno Traced::remove_xattr(Ino ino, const std::string& name) {
  return change({.call = TraceCall::kRemoveXattr, .ino = ino, .name = name},
                [&] { return filesystem_.remove_xattr(ino, name); });
}

void Traced::add_open(Ino ino, const Writer* writer) {
  if (writer && writer_) ++unfinished_[ino].open_writers;
  change({.call = TraceCall::kAddOpen, .ino = ino}, [&] { return filesystem_.add_open(ino), 0; });
}

void Traced::release(Ino ino, bool was_writable, const Writer* writer) {
  const bool is_finished = writer && writer_ && finishes(ino, *writer);
  change({.call = TraceCall::kRelease,
          .ino = ino,
          .flags = (was_writable ? kTraceWritable : 0) | (is_finished ? kTraceFinished : 0)},
         [&] { return filesystem_.release(ino, was_writable), 0; });
}

void Traced::note_written(Ino ino, Writer* writer) {
  if (!writer_) return;
  Unfinished& file = unfinished_[ino];
  if (file.epoch <= sync_epoch_) file = Unfinished{.epoch = ++last_epoch_, .open_writers = file.open_writers};
  if (!writer) {
    file.is_by_mapping = true;
  } else if (writer->epoch != file.epoch) {
    writer->epoch = file.epoch;
    ++file.writers;
  }
}

// The description is closed: is what it wrote finished by that?
bool Traced::finishes(Ino ino, const Writer& writer) {
  const auto found = unfinished_.find(ino);
  if (found == unfinished_.end()) return false;
  Unfinished& file = found->second;
  if (file.open_writers > 0) --file.open_writers;
  const bool is_current = file.epoch > sync_epoch_;
  bool has_written = is_current && writer.epoch == file.epoch;
  if (has_written) --file.writers;
  // A mapping keeps its description open: the last one that may write is closed after the last store.
  if (is_current && file.is_by_mapping && file.open_writers == 0) {
    has_written = true;
    file.is_by_mapping = false;
  }
  const bool is_finished = has_written && file.writers == 0 && !file.is_by_mapping;
  if (file.open_writers == 0) unfinished_.erase(found);
  return is_finished;
}

// ---- data ---------------------------------------------------------------------------------------------------------

std::int64_t Traced::write(Ino ino, std::uint64_t offset, std::span<const std::byte> in, WriteFlags flags,
                           std::uint64_t* end, Writer* writer) {
  TraceOp op;
  op.call = TraceCall::kWrite;
  op.ino = ino;
  op.offset = offset;
  op.flags = (flags.append ? kTraceAppend : 0) | (flags.direct ? kTraceDirect : 0) | (flags.dsync ? kTraceDsync : 0) |
             (flags.sync ? kTraceSync : 0);
  op.data = in;
  begin(op);
  std::uint64_t written_end = 0;
  const std::int64_t count = filesystem_.write(ino, offset, in, flags, &written_end);
  if (end && count >= 0) *end = written_end;
  if (count <= 0) {  // writing nothing changes nothing, not even a time
    if (recorder_) recorder_->drop_op();
    return count;
  }
  note_written(ino, writer);
  op.offset = written_end - static_cast<std::uint64_t>(count);
  op.data = in.first(static_cast<std::size_t>(count));
  if (recorder_) recorder_->name_op(text_of(op));
  if (const auto position = add(op)) filesystem_.keep_in_store(ino, op.offset, op.data.size(), *writer_, *position);
  return count;
}

Errno Traced::truncate(Ino ino, std::uint64_t size, Writer* writer) {
  // A file that is only made longer is about to be filled.
  const bool is_cut = writer && writer_ && filesystem_.seek(ino, 0, SEEK_END) > static_cast<std::int64_t>(size);
  const Errno result = change({.call = TraceCall::kTruncate, .ino = ino, .length = size},
                              [&] { return filesystem_.truncate(ino, size); });
  if (result == 0 && is_cut) note_written(ino, writer);
  return result;
}

Errno Traced::fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length, Writer* writer) {
  TraceOp op{.call = TraceCall::kFallocate,
             .ino = ino,
             .offset = offset,
             .length = length,
             .flags = static_cast<std::uint32_t>(mode)};
  const Errno result = change(op, [&] { return filesystem_.fallocate(ino, mode, offset, length); });
  if (result == 0 && writer && (mode & ~FALLOC_FL_KEEP_SIZE) != 0) note_written(ino, writer);
  // ext4 changes the times before it finds that there is no room, or that the range does not fit.
  if (result == -ENOSPC || result == -EINVAL) {
    op.flags |= kTraceFailed;
    add(op);
  }
  return result;
}

Errno Traced::fsync(Ino ino, bool datasync) {
  if (const auto found = unfinished_.find(ino); found != unfinished_.end()) {
    found->second = Unfinished{.epoch = ++last_epoch_, .open_writers = found->second.open_writers};
  }
  return change({.call = TraceCall::kFsync, .ino = ino, .flags = datasync ? kTraceDatasync : 0},
                [&] { return filesystem_.fsync(ino, datasync); });
}

Errno Traced::sync() {
  sync_epoch_ = last_epoch_;
  return change({.call = TraceCall::kSync}, [&] { return filesystem_.sync(); });
}

Errno Traced::sync_file_range(Ino ino, std::uint64_t offset, std::uint64_t length, unsigned flags) {
  return change({.call = TraceCall::kSyncFileRange, .ino = ino, .offset = offset, .length = length, .flags = flags},
                [&] { return filesystem_.sync_file_range(ino, offset, length, flags); });
}

void Traced::make_durable() {
  sync_epoch_ = last_epoch_;
  change({.call = TraceCall::kMakeDurable}, [&] { return filesystem_.make_durable(), 0; });
}

void Traced::mark(std::string_view text) {
  change({.call = TraceCall::kMark, .text = text}, [] { return 0; });
}

void Traced::stop() {
  change({.call = TraceCall::kStopped}, [] { return 0; });
}

}  // namespace crashcut::fusefs
