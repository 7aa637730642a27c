#include "fusefs/trace_replay.h"

#include <fmt/format.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "fusefs/filesystem_impl.h"
#include "fusefs/trace_text.h"
#include "fusefs/traced.h"

namespace crashcut::fusefs {
namespace {

// Why an operation cannot be replayed; no text where it can.
struct Complaint {
  Complaint() = default;
  Complaint(std::string why, bool is_ours = false) : text(std::move(why)), is_limit(is_ours) {}
  Complaint(const char* why) : text(why) {}
  std::string text;
  bool is_limit = false;  // the replay's; otherwise the trace says what cannot be
};

class Replay {
 public:
  // Without hooks it is recorded, with them only done.
  Replay(const TraceReader& trace, const ModelOptions& options, const ReplayLimits& limits, const ReplayHooks* hooks,
         std::span<const persist::AddedSync> added)
      : trace_(trace),
        options_(options),
        limits_(limits),
        clock_(std::make_shared<TraceClock>(trace.header().start)),
        gap_units_left_(limits.gap_units),
        hooks_(hooks),
        recorder_(hooks ? nullptr : std::make_unique<Recorder>(options)) {
    Filesystem::Setup setup;
    setup.recorder = recorder_.get();
    setup.sector_bytes = options.sector_bytes;
    setup.block_bytes = options.block_bytes;
    // In other blocks a file takes other room; that there was enough was found when it was recorded.
    const bool has_same_room =
        options.block_bytes == trace.header().block_bytes && trace.header().capacity_bytes <= limits.capacity_bytes;
    setup.capacity_bytes = has_same_room ? trace.header().capacity_bytes : limits.capacity_bytes;
    is_room_a_limit_ = !has_same_room;
    // The filesystem refers to the bytes of the trace.
    setup.clock = [clock = clock_, bytes = trace.bytes()] { return clock->now(); };
    filesystem_ = std::make_unique<Filesystem>(std::move(setup));
    if (recorder_) {
      const std::string_view bytes = trace.bytes()->view();
      recorder_->recording().bytes.set_outside(trace.bytes(), std::as_bytes(std::span(bytes)));
      recorder_->add_syncs(added);
    }
  }

  tl::expected<Replayed, ReplayError> run() {
    TraceReader::Cursor cursor(trace_);
    TraceText text(trace_.processes(), *filesystem_);
    TraceOp op;
    Replayed replayed;
    for (std::uint64_t number = 1;; ++number) {
      const TraceCut here{cursor.position(), number - 1, clock_->now()};
      if (!cursor.next(op)) break;
      if (is_too_large(number)) {
        replayed.cut = here;
        op = TraceOp{.call = TraceCall::kStopped, .time = here.time};
      }
      if (number % kOpsBetweenChecks == 0 && limits_.should_stop && limits_.should_stop())
        return tl::unexpected(ReplayError{.sentence = "", .was_stopped = true});
      clock_->set(op.time);
      const std::string words = text.describe(op);
      if (recorder_) recorder_->begin_op(words);
      if (const Complaint complaint = apply(op); !complaint.text.empty()) {
        constexpr const char* kLimit =
            "crashcut cannot replay operation {} of the trace, {}: {}. This is a limit of crashcut.";
        constexpr const char* kWrong =
            "the trace contradicts itself: operation {}, {}, is said to have succeeded, but {}";
        return tl::unexpected(
            ReplayError{fmt::format(fmt::runtime(complaint.is_limit ? kLimit : kWrong), number, words, complaint.text),
                        complaint.is_limit});
      }
      if (hooks_) hooks_->on_op(op, words, *filesystem_);
      if (replayed.cut) break;
    }
    if (hooks_) hooks_->on_end(*filesystem_);
    if (recorder_) {
      recorder_->seal();
      recorder_->forget_state();
    }
    replayed.recorder = std::move(recorder_);
    replayed.filesystem = std::move(filesystem_);
    return replayed;
  }

 private:
  static constexpr std::uint64_t kOpsBetweenChecks = 64;

  // The seal adds about half as much again.
  bool is_too_large(std::uint64_t number) const {
    if (!recorder_ || limits_.memory_bytes == 0 || number % kOpsBetweenChecks != 0) return false;
    return recorder_->recording().memory_bytes() / 2 * 3 > limits_.memory_bytes;
  }

  Complaint complain(Errno result) const {
    if (result == 0) return {};
    return Complaint(fmt::format("it fails here: {}", std::strerror(-result)), result == -ENOSPC && is_room_a_limit_);
  }

  Complaint apply(const TraceOp& op) {
    switch (op.call) {
      case TraceCall::kCreate:
      case TraceCall::kMkdir:
      case TraceCall::kSymlink:
      case TraceCall::kTmpfile:
        return make(op);
      case TraceCall::kAddOpen:
        return add_open(op);
      case TraceCall::kRelease:
        return release(op);
      case TraceCall::kWrite:
        return write(op);
      case TraceCall::kTruncate:
        return truncate(op);
      case TraceCall::kFallocate:
        return fallocate(op);
      default:
        return complain(change(op));
    }
  }

  Complaint make(const TraceOp& op) {
    const Credentials who{.uid = op.uid, .gid = op.gid};
    Ino made{};
    Errno result = 0;
    switch (op.call) {
      case TraceCall::kCreate:
        if (S_ISDIR(op.mode) || S_ISLNK(op.mode)) return "a create makes no directories and no symlinks";
        result = filesystem_->create(op.dir, op.name, op.mode, op.rdev, who, made);
        break;
      case TraceCall::kMkdir:
        result = filesystem_->mkdir(op.dir, op.name, op.mode, who, made);
        break;
      case TraceCall::kSymlink:
        result = filesystem_->symlink(op.dir, op.name, op.text, who, made);
        break;
      default:
        result = filesystem_->tmpfile(op.dir, op.mode, who, made);
        break;
    }
    if (result != 0) return complain(result);
    if (made == op.ino) return "";
    return fmt::format("it makes inode {} here, not {}", static_cast<std::uint64_t>(made),
                       static_cast<std::uint64_t>(op.ino));
  }

  Errno change(const TraceOp& op) {
    Filesystem& fs = *filesystem_;
    switch (op.call) {
      case TraceCall::kLink:
        return fs.link(op.ino, op.dir, op.name);
      case TraceCall::kUnlink:
        return fs.unlink(op.dir, op.name);
      case TraceCall::kRmdir:
        return fs.rmdir(op.dir, op.name);
      case TraceCall::kRename:
        return fs.rename(op.dir, op.name, op.to_dir, op.to_name, op.flags);
      case TraceCall::kSetattr:
        return fs.setattr(op.ino, op.change);
      case TraceCall::kSetXattr:
        return fs.set_xattr(op.ino, std::string(op.name), op.text, static_cast<int>(op.flags));
      case TraceCall::kRemoveXattr:
        return fs.remove_xattr(op.ino, std::string(op.name));
      case TraceCall::kFsync:
        return fs.fsync(op.ino, op.flags & kTraceDatasync);
      case TraceCall::kSync:
        return fs.sync();
      case TraceCall::kSyncFileRange:
        return fs.sync_file_range(op.ino, op.offset, op.length, op.flags);
      case TraceCall::kMakeDurable:
        fs.make_durable();
        return 0;
      case TraceCall::kMark:
        if (recorder_) recorder_->mark(mark_names_.next(std::string(op.text)));
        return 0;
      default:
        return 0;
    }
  }

  // A Filesystem takes it for granted that its callers count well; a trace need not have.
  Complaint add_open(const TraceOp& op) {
    Owner owner;
    if (const Errno result = filesystem_->get_owner(op.ino, owner)) return complain(result);
    filesystem_->add_open(op.ino);
    ++opens_[static_cast<std::uint64_t>(op.ino)];
    return "";
  }

  Complaint release(const TraceOp& op) {
    const auto found = opens_.find(static_cast<std::uint64_t>(op.ino));
    if (found == opens_.end()) return "the file is not open";
    if (--found->second == 0) opens_.erase(found);
    filesystem_->release(op.ino, op.flags & kTraceWritable);
    return "";
  }

  // O_APPEND has done its work: the offset is where it went.
  Complaint write(const TraceOp& op) {
    if (is_paper() && op.offset <= kFileBytesMax && !pay_for(op.offset - std::min(op.offset, size_of(op.ino))))
      return too_large();
    const WriteFlags flags{.direct = (op.flags & kTraceDirect) != 0,
                           .dsync = (op.flags & kTraceDsync) != 0,
                           .sync = (op.flags & kTraceSync) != 0};
    if (recorder_) recorder_->set_source(op.offset, op.data);
    const std::int64_t count = filesystem_->write(op.ino, op.offset, op.data, flags);
    if (recorder_) recorder_->set_source(0, {});
    if (count < 0) return complain(static_cast<Errno>(count));
    if (op.data.empty()) return "";
    if (count == static_cast<std::int64_t>(op.data.size())) {
      const auto* data = reinterpret_cast<const char*>(op.data.data());
      filesystem_->keep_in_store(op.ino, op.offset, op.data.size(), *trace_.bytes(),
                                 static_cast<std::uint64_t>(data - trace_.bytes()->view().data()));
      return "";
    }
    return fmt::format("it writes {} bytes here", count);
  }

  Complaint truncate(const TraceOp& op) { return complain(filesystem_->truncate(op.ino, op.length)); }

  Complaint fallocate(const TraceOp& op) {
    if (op.flags & kTraceFailed) {  // it changed the times, or nothing
      filesystem_->fallocate(op.ino, static_cast<int>(op.flags & ~kTraceFailed), op.offset, op.length);
      return {};
    }
    // Longer ones are the filesystem's to refuse.
    if (op.length <= kFileBytesMax && op.offset <= kFileBytesMax) {
      const bool moves = op.flags & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE);
      const std::uint64_t moved = size_of(op.ino) - std::min(op.offset, size_of(op.ino));
      if (moves && !pay_for(op.length + moved)) return too_large();
    }
    return complain(filesystem_->fallocate(op.ino, static_cast<int>(op.flags), op.offset, op.length));
  }

  // Room for what takes time and memory by its length, without bytes in the trace to show for it.
  bool pay_for(std::uint64_t bytes) {
    const std::uint64_t units = bytes / (is_paper() ? options_.sector_bytes : options_.block_bytes);
    if (units > gap_units_left_) return false;
    gap_units_left_ -= units;
    return true;
  }
  Complaint too_large() const {
    return Complaint(is_paper() ? "profile paper writes a hole's sectors, and all holes together have too many"
                                : "too many blocks are moved in all",
                     true);
  }

  std::uint64_t size_of(Ino ino) const {
    const std::int64_t size = filesystem_->seek(ino, 0, SEEK_END);
    return size < 0 ? 0 : static_cast<std::uint64_t>(size);
  }
  bool is_paper() const { return options_.profile == ProfileName::kPaper; }

  const TraceReader& trace_;
  const ModelOptions& options_;
  const ReplayLimits& limits_;
  std::shared_ptr<TraceClock> clock_;  // the filesystem's, which outlives the replay
  bool is_room_a_limit_ = false;
  std::uint64_t gap_units_left_;
  std::unordered_map<std::uint64_t, std::uint64_t> opens_;
  MarkNames mark_names_;
  const ReplayHooks* hooks_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Filesystem> filesystem_;
};

}  // namespace

tl::expected<Replayed, ReplayError> replay(const TraceReader& trace, const ModelOptions& options,
                                           const ReplayLimits& limits, std::span<const persist::AddedSync> added) {
  if (auto ok = check_geometry(options); !ok) return tl::unexpected(ReplayError{ok.error()});
  return Replay(trace, options, limits, nullptr, added).run();
}

tl::expected<void, ReplayError> replay_files(const TraceReader& trace, const ModelOptions& geometry,
                                             const ReplayHooks& hooks, const ReplayLimits& limits) {
  if (auto ok = check_geometry(geometry); !ok) return tl::unexpected(ReplayError{ok.error()});
  if (auto done = Replay(trace, geometry, limits, &hooks, {}).run(); !done) return tl::unexpected(done.error());
  return {};
}

std::string MarkNames::next(const std::string& text) {
  const std::uint64_t count = ++counts_[text];
  return count == 1 ? text : fmt::format("{} ({})", text, count);
}

}  // namespace crashcut::fusefs
