// Traced: the calls that change a Filesystem, each done and, where it succeeded, written to a trace.
//
// What fails changes nothing and is not written. Calls that only look go to the Filesystem itself.
// Time: TraceClock stands still during an operation and is set before each, as its time is part of the trace. It is
//   the coarse clock that the kernel's own filesystems take their times from.
// Threads: the caller serialises, as for the Filesystem.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "fusefs/trace.h"

namespace crashcut::fusefs {

// The clock of a Filesystem whose operations are traced or replayed: Setup::clock is `clock.reader()`.
class TraceClock {
 public:
  TraceClock() { tick(); }
  explicit TraceClock(timespec time) : time_(time) {}
  TraceClock(const TraceClock&) = delete;
  TraceClock& operator=(const TraceClock&) = delete;

  timespec now() const { return time_; }
  void set(timespec time) { time_ = time; }
  void tick() { clock_gettime(CLOCK_REALTIME_COARSE, &time_); }
  std::function<timespec()> reader() {
    return [this] { return time_; };
  }

 private:
  timespec time_{};
};

class Traced {
 public:
  // An open description that may write. Who can tell descriptions apart hands theirs to the calls below: then the trace
  // says of a close whether it finishes the file, that is whether the description had written to the file (or made or
  // cut it) and no other one has written to it since the last fsync.
  struct Writer {
    std::uint64_t epoch = 0;  // of the file when it last wrote; 0: it has not
  };

  // `filesystem` takes its time from `clock`; the trace's header has the time that the clock showed when the
  // filesystem was made. `writer` may be none: then the calls are just done. It can be read for as long as files can.
  // `recorder`, where there is one, is the filesystem's: each call is an operation of its own there, in words.
  Traced(Filesystem& filesystem, TraceClock& clock, TraceWriter* writer, Recorder* recorder = nullptr)
      : filesystem_(filesystem), clock_(clock), writer_(writer), recorder_(recorder) {}

  // Whether it matters which process makes the calls.
  bool names_processes() const { return writer_ != nullptr; }
  // The process that makes the following calls. Cheap if the same process made the previous ones.
  void set_process(pid_t pid, std::string_view command);
  // The calls of its that led to the next operations, up to the next set_process().
  void set_stack(CodeStack stack) { stack_ = std::move(stack); }

  // As in Filesystem. create() makes no directories and symlinks: -EPERM and -EINVAL, as mknod(2).
  Errno create(Ino dir, std::string_view name, mode_t mode, dev_t rdev, const Credentials& who, Ino& out);
  Errno mkdir(Ino dir, std::string_view name, mode_t mode, const Credentials& who, Ino& out);
  Errno symlink(Ino dir, std::string_view name, std::string_view target, const Credentials& who, Ino& out);
  Errno tmpfile(Ino dir, mode_t mode, const Credentials& who, Ino& out);
  Errno link(Ino ino, Ino dir, std::string_view name);
  Errno unlink(Ino dir, std::string_view name);
  Errno rmdir(Ino dir, std::string_view name);
  Errno rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags);
  Errno setattr(Ino ino, const AttrChange& attributes);
  Errno set_xattr(Ino ino, const std::string& name, std::string_view value, int flags);
  Errno remove_xattr(Ino ino, const std::string& name);
  void add_open(Ino ino, const Writer* writer = nullptr);
  void release(Ino ino, bool was_writable, const Writer* writer = nullptr);
  // Without a writer it is a store to a mapping, which belongs to whichever description was mapped.
  std::int64_t write(Ino ino, std::uint64_t offset, std::span<const std::byte> in, WriteFlags flags,
                     std::uint64_t* end = nullptr, Writer* writer = nullptr);
  Errno truncate(Ino ino, std::uint64_t size, Writer* writer = nullptr);
  Errno fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length, Writer* writer = nullptr);
  // The description has just made the file.
  void note_made(Ino ino, Writer& writer) { note_written(ino, &writer); }
  Errno fsync(Ino ino, bool datasync);
  Errno sync();
  Errno sync_file_range(Ino ino, std::uint64_t offset, std::uint64_t length, unsigned flags);
  void make_durable();
  // Written to the trace only: a Filesystem knows no marks, a Recorder beside it has its own mark().
  void mark(std::string_view text);
  // Written to the trace only: the program is about to be killed.
  void stop();

 private:
  void note_written(Ino ino, Writer* writer);
  bool finishes(Ino ino, const Writer& writer);
  void begin(const TraceOp& op);
  std::string text_of(const TraceOp& op) const;
  // Does `action`; `made` is the inode that it makes.
  template <class Action>
  Errno change(TraceOp op, Action&& action, const Ino* made = nullptr);
  std::optional<std::uint64_t> add(TraceOp& op);
  void add_process();
  std::uint32_t stack_number();
  std::uint32_t code_file_number(const CodePlace& place);

  Filesystem& filesystem_;
  TraceClock& clock_;
  TraceWriter* writer_;
  Recorder* recorder_;

  TraceProcess current_;
  std::uint32_t process_ = 0;       // the number of current_ in the trace
  bool is_process_written_ = true;  // nobody is known until set_process()
  struct Known {
    std::string command;
    std::uint32_t number;
  };
  std::unordered_map<std::uint64_t, Known> known_;  // by pid
  std::uint32_t process_count_ = 0;

  CodeStack stack_, last_stack_;
  std::uint32_t last_number_ = 0;                                            // of last_stack_
  std::map<std::pair<std::string, std::string>, std::uint32_t> code_files_;  // by path and id
  std::map<TraceStack, std::uint32_t> stacks_;

  // What was written to a file and is not finished yet. An fsync begins a new epoch of the file, and so does a sync.
  struct Unfinished {
    std::uint64_t epoch = 0;
    std::uint32_t writers = 0;       // descriptions that wrote in this epoch
    bool is_by_mapping = false;      // stores to a mapping came in this epoch
    std::uint32_t open_writers = 0;  // descriptions that may write
  };
  std::unordered_map<Ino, Unfinished> unfinished_;
  std::uint64_t last_epoch_ = 0;
  std::uint64_t sync_epoch_ = 0;  // no epoch before it holds anything unfinished
};

}  // namespace crashcut::fusefs
