// Trace: what was done to a Filesystem, operation by operation, in a file; docs/trace_format.md has its bytes.
//
// It holds the operations that succeeded and changed something, who did them and when. It knows no model and no
//   profile: trace_replay.h turns one trace into a Recording under each ModelOptions.
//
// TraceWriter: each operation is the kernel's when add() returns, so a writer that is killed loses nothing. It does not
//   fsync: the trace need not survive a crash of the machine that it is recorded on. The newest operations are in the
//   tail, a second file that is mapped (tail_of()), and go to the trace in large pieces: that halves the cost of a
//   small one. The tail is gone when the trace is finished; where it is there, a reader takes it along.
//   The data of writes can be read from the writer again, which saves their Filesystem the memory.
// TraceReader: a trace may come from anywhere. open() looks at every byte: each checksum, length and field. It gives
//   a sentence for what is no trace or is damaged. A trace whose end is missing is read up to its last whole record.
//   The file is mapped (trace_bytes.h), not copied.
//
// Threads: a writer is one thread's at a time; a reader may be read from several.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "fusefs/byte_store.h"
#include "fusefs/filesystem.h"
#include "fusefs/trace_bytes.h"

namespace crashcut::fusefs {

// What the trace says of the whole.
struct TraceHeader {
  std::uint32_t sector_bytes = 512;  // of the filesystem that was recorded
  std::uint32_t block_bytes = 4096;
  std::uint64_t capacity_bytes = std::uint64_t{1} << 34;
  timespec start{};                  // the root directory's times
  std::vector<std::string> command;  // the command line
  std::uint64_t pid_namespace = 0;   // of the program, as /proc/self/ns/pid numbers it; 0: not known
};

// Where the program was: a place in the code of a file that it runs, and by what another file of that name would be
// told apart. The texts are the caller's.
struct CodePlace {
  const std::string* file;
  const std::string* id;
  std::uint64_t address;  // as the file has it: in the instruction that made the call

  friend bool operator==(const CodePlace&, const CodePlace&) = default;
};
// The calls that led to an operation, innermost first.
using CodeStack = std::vector<CodePlace>;

// The numbers are those in the file.
enum class TraceCall : std::uint8_t {
  kCreate = 1,
  kMkdir,
  kSymlink,
  kTmpfile,
  kLink,
  kUnlink,
  kRmdir,
  kRename,
  kSetattr,
  kSetXattr,
  kRemoveXattr,
  kAddOpen,
  kRelease,
  kWrite,
  kTruncate,
  kFallocate,
  kFsync,
  kSync,
  kSyncFileRange,
  kMakeDurable,
  kMark,
  kProcess,  // names the process that later operations refer to
  kEnd,
  kStopped,   // the program is killed from here on: its files are closed for it
  kCodeFile,  // names a file that later stacks refer to
  kStack,     // names a stack that later operations refer to
};

// Bits of TraceOp::flags.
inline constexpr std::uint32_t kTraceAppend = 1;  // kWrite: `offset` is where it went
inline constexpr std::uint32_t kTraceDirect = 2;
inline constexpr std::uint32_t kTraceDsync = 4;
inline constexpr std::uint32_t kTraceSync = 8;
inline constexpr std::uint32_t kTraceDatasync = 1;  // kFsync
inline constexpr std::uint32_t kTraceWritable = 1;  // kRelease
inline constexpr std::uint32_t kTraceFinished = 2;  // kRelease: it had written, and nobody else is still writing
inline constexpr std::uint32_t kTraceFailed = std::uint32_t{1}
                                              << 31;  // kFallocate: it failed, but the file's times changed

// One operation. Which fields it has: kFields in trace.cc. Text and data point into the reader's bytes.
struct TraceOp {
  TraceCall call{};
  std::uint32_t process = 0;  // into TraceReader::processes(); 0: not known
  std::uint32_t stack = 0;    // into TraceReader::stacks(); 0: not known
  timespec time{};
  Ino ino{};  // the file; for what makes one, the one that was made
  Ino dir{};
  std::string_view name;  // in dir; of an xattr; kCodeFile: its path
  Ino to_dir{};           // kRename
  std::string_view to_name;
  mode_t mode = 0;
  dev_t rdev = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // kTruncate: the new size
  std::uint32_t flags = 0;   // as the call takes them, or the bits above; kFallocate: its mode
  AttrChange change;
  std::string_view text;  // symlink's target, xattr's value, mark, process' command, code file's id, stack's places
  std::uint64_t pid = 0;  // kProcess
  std::span<const std::byte> data;
};

struct TraceProcess {
  std::uint64_t pid = 0;
  std::string command;
};

struct TraceCodeFile {
  std::string path, id;
};
struct TracePlace {
  std::uint32_t file;  // into TraceReader::code_files()
  std::uint64_t address;

  friend auto operator<=>(const TracePlace&, const TracePlace&) = default;
};
using TraceStack = std::vector<TracePlace>;
// As TraceOp::text of kStack.
std::string to_text(const TraceStack& stack);

// A place between two operations of a trace.
struct TraceCut {
  std::uint64_t position = 0;  // bytes of the trace before it
  std::uint64_t op_count = 0;  // operations before it
  timespec time{};             // of the last one
};
// Ends a trace in its file there, as if the program had been stopped. The error is a sentence.
tl::expected<void, std::string> cut_trace(const std::string& path, const TraceCut& cut);

// Where the tail of an unfinished trace is.
std::string tail_of(const std::string& trace_path);

class TraceWriter final : public ByteStore {
 public:
  // Makes the file, or empties the one that is there, and writes the header.
  static tl::expected<std::unique_ptr<TraceWriter>, std::string> create(const std::string& path,
                                                                        const TraceHeader& header);
  ~TraceWriter() override;  // flushes; a trace without finish() is one whose end is missing
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Returns where op.data begins in the file; none after a failure.
  std::optional<std::uint64_t> add(const TraceOp& op);
  void read(std::uint64_t position, std::span<std::byte> out) const override;
  // Puts into the trace itself what is in the tail. For callers who read it meanwhile.
  void flush();
  // Writes the end; nothing may be added after it.
  void finish();

  // About what a recording of it will take in memory (see ReplayLimits). From any thread.
  std::uint64_t model_bytes() const;
  // Whether error() says something. From any thread.
  bool has_failed() const { return has_failed_.load(std::memory_order_relaxed); }
  // A sentence, empty while all is well. After a failure nothing more is written, so what was written stays readable.
  const std::string& error() const { return error_; }

 private:
  struct Tail;
  TraceWriter(int fd, std::string path, const TraceHeader& header);
  void open_tail();
  template <class Fill>
  void add_record(Fill&& fill);
  void hand_over();
  void write_out(const char* bytes, std::size_t size, std::uint64_t offset);
  void fail(std::string_view what, int error);

  int fd_;
  std::string path_;
  std::string error_;
  std::string buffer_;         // one record
  std::uint64_t written_ = 0;  // bytes of the trace before it
  Tail* tail_ = nullptr;
  std::int64_t last_time_ns_ = 0;
  std::atomic<std::uint64_t> op_count_ = 0;
  std::atomic<bool> has_failed_ = false;
};

class TraceReader {
 public:
  static tl::expected<TraceReader, std::string> open(const std::string& path);
  static tl::expected<TraceReader, std::string> parse(std::string bytes);

  const TraceHeader& header() const { return header_; }
  // [0] is the one that is not known. A pid that was another command before is here twice.
  const std::vector<TraceProcess>& processes() const { return processes_; }
  const std::vector<TraceCodeFile>& code_files() const { return code_files_; }
  // [0] is the one that is not known, and empty.
  const std::vector<TraceStack>& stacks() const { return stacks_; }
  std::uint64_t op_count() const { return op_count_; }
  // False: the recorder was killed, or the file cut off; the operations are those that were whole.
  bool is_complete() const { return is_complete_; }
  // All of them; data() of an operation points there.
  const std::shared_ptr<const TraceBytes>& bytes() const { return bytes_; }

  // The operations in order, without those that name something, and kEnd.
  class Cursor {
   public:
    explicit Cursor(const TraceReader& trace)
        : trace_(trace), at_(trace.first_), time_ns_(trace.start_ns_), forgetting_(*trace.bytes_) {}
    bool next(TraceOp& op);
    // Where the operation that comes next begins in the trace.
    std::uint64_t position() const { return at_; }

   private:
    const TraceReader& trace_;
    std::size_t at_;
    std::int64_t time_ns_;
    Forgetting forgetting_;
  };

 private:
  explicit TraceReader(std::shared_ptr<const TraceBytes> bytes) : bytes_(std::move(bytes)) {}
  static tl::expected<TraceReader, std::string> parse(std::shared_ptr<const TraceBytes> bytes);
  tl::expected<void, std::string> scan();
  bool take(const TraceOp& op);

  std::shared_ptr<const TraceBytes> bytes_;
  TraceHeader header_;
  std::vector<TraceProcess> processes_{1};
  std::vector<TraceCodeFile> code_files_;
  std::vector<TraceStack> stacks_{1};
  std::uint64_t op_count_ = 0;
  bool is_complete_ = false;
  std::size_t first_ = 0;  // offset of the first record after the header
  std::size_t end_ = 0;    // and of the end of the last whole one
  std::int64_t start_ns_ = 0;
};

}  // namespace crashcut::fusefs
