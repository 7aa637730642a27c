#include "fusefs/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>

#include "fusefs/checksum.h"
#include "persist/check.h"

namespace crashcut::fusefs {
namespace {

constexpr std::string_view kMagic = "cctrace\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFirstRecord = kMagic.size() + 4;
// A record's head: length of the body, checksum of that, checksum of the body; 4 bytes each.
constexpr std::size_t kHeadBytes = 12;
// Fits the cache of a core: what is written there is soon written out from there.
constexpr std::size_t kTailBytes = std::size_t{256} << 10;

// ---- which fields an operation has, in the order in which they are written ---------------------------------------

enum Field : std::uint32_t {
  kIno = 1 << 0,
  kDir = 1 << 1,
  kName = 1 << 2,
  kToDir = 1 << 3,
  kToName = 1 << 4,
  kMode = 1 << 5,
  kRdev = 1 << 6,
  kOwner = 1 << 7,
  kOffset = 1 << 8,
  kLength = 1 << 9,
  kFlags = 1 << 10,
  kChange = 1 << 11,
  kText = 1 << 12,
  kPid = 1 << 13,
  kBytes = 1 << 14,
  kNoSuchCall = 1u << 31,
};

constexpr std::uint32_t kFields[] = {
    kNoSuchCall,                                   // 0
    kIno | kDir | kName | kMode | kRdev | kOwner,  // kCreate
    kIno | kDir | kName | kMode | kOwner,          // kMkdir
    kIno | kDir | kName | kOwner | kText,          // kSymlink
    kIno | kDir | kMode | kOwner,                  // kTmpfile
    kIno | kDir | kName,                           // kLink
    kDir | kName,                                  // kUnlink
    kDir | kName,                                  // kRmdir
    kDir | kName | kToDir | kToName | kFlags,      // kRename
    kIno | kChange,                                // kSetattr
    kIno | kName | kFlags | kText,                 // kSetXattr
    kIno | kName,                                  // kRemoveXattr
    kIno,                                          // kAddOpen
    kIno | kFlags,                                 // kRelease
    kIno | kOffset | kFlags | kBytes,              // kWrite
    kIno | kLength,                                // kTruncate
    kIno | kOffset | kLength | kFlags,             // kFallocate
    kIno | kFlags,                                 // kFsync
    0,                                             // kSync
    kIno | kOffset | kLength | kFlags,             // kSyncFileRange
    0,                                             // kMakeDurable
    kText,                                         // kMark
    kPid | kText,                                  // kProcess
    0,                                             // kEnd
    0,                                             // kStopped
    kName | kText,                                 // kCodeFile
    kText,                                         // kStack
};
static_assert(std::size(kFields) == static_cast<std::size_t>(TraceCall::kStack) + 1);
// Of the call's byte: the number of a stack follows the process.
constexpr unsigned kHasStack = 0x80;

// Bits of AttrChange as it is written.
constexpr std::uint64_t kHasMode = 1;
constexpr std::uint64_t kHasUid = 2;
constexpr std::uint64_t kHasGid = 4;
constexpr std::uint64_t kHasAtime = 8;
constexpr std::uint64_t kHasMtime = 16;
constexpr std::uint64_t kHasMost = 31;

// ---- numbers and times --------------------------------------------------------------------------------------------

constexpr std::int64_t kSecondNs = 1'000'000'000;

// Unsigned on the way: a time that does not fit wraps, the same way back and forth.
std::int64_t to_ns(timespec time) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(time.tv_sec) * kSecondNs +
                                   static_cast<std::uint64_t>(time.tv_nsec));
}
timespec from_ns(std::int64_t ns) {
  const std::int64_t rest = (ns % kSecondNs + kSecondNs) % kSecondNs;
  return timespec{ns / kSecondNs - (ns % kSecondNs < 0 ? 1 : 0), rest};
}
// Small numbers of either sign become small ones.
std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) { return static_cast<std::int64_t>((value >> 1) ^ (0 - (value & 1))); }
std::int64_t wrapping_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

void put_fixed(char* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<char>(value >> (8 * i) & 255);
}
std::uint32_t get_fixed(const char* at) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<unsigned char>(at[i])} << (8 * i);
  return value;
}
// The offset is part of it: a whole record in the wrong place is damage too.
std::uint32_t checksum(std::string_view bytes, std::uint64_t offset) {
  return static_cast<std::uint32_t>(xxh64(bytes, offset));
}

// ---- writing ------------------------------------------------------------------------------------------------------

void put_number(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void put_ino(std::string& out, Ino ino) { put_number(out, static_cast<std::uint64_t>(ino)); }
void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size());
  out += text;
}
void put_time(std::string& out, timespec time) {
  put_number(out, zigzag(time.tv_sec));
  put_number(out, static_cast<std::uint64_t>(time.tv_nsec));
}

void put_change(std::string& out, const AttrChange& change) {
  put_number(out, (change.mode ? kHasMode : 0) | (change.uid ? kHasUid : 0) | (change.gid ? kHasGid : 0) |
                      (change.atime ? kHasAtime : 0) | (change.mtime ? kHasMtime : 0));
  if (change.mode) put_number(out, *change.mode);
  if (change.uid) put_number(out, *change.uid);
  if (change.gid) put_number(out, *change.gid);
  if (change.atime) put_time(out, *change.atime);
  if (change.mtime) put_time(out, *change.mtime);
}

// All of the body but op.data, which is the last of it.
void put_op(std::string& out, const TraceOp& op, std::int64_t time_ns_change) {
  const std::uint32_t fields = kFields[static_cast<std::size_t>(op.call)];
  out += static_cast<char>(static_cast<unsigned>(op.call) | (op.stack != 0 ? kHasStack : 0));
  put_number(out, op.process);
  if (op.stack != 0) put_number(out, op.stack);
  put_number(out, zigzag(time_ns_change));
  if (fields & kIno) put_ino(out, op.ino);
  if (fields & kDir) put_ino(out, op.dir);
  if (fields & kName) put_text(out, op.name);
  if (fields & kToDir) put_ino(out, op.to_dir);
  if (fields & kToName) put_text(out, op.to_name);
  if (fields & kMode) put_number(out, op.mode);
  if (fields & kRdev) put_number(out, op.rdev);
  if (fields & kOwner) {
    put_number(out, op.uid);
    put_number(out, op.gid);
  }
  if (fields & kOffset) put_number(out, op.offset);
  if (fields & kLength) put_number(out, op.length);
  if (fields & kFlags) put_number(out, op.flags);
  if (fields & kChange) put_change(out, op.change);
  if (fields & kText) put_text(out, op.text);
  if (fields & kPid) put_number(out, op.pid);
}

// `size` is that of the whole record.
void put_head(char* record, std::size_t size, std::uint64_t offset) {
  const std::string_view body(record + kHeadBytes, size - kHeadBytes);
  CHECK(body.size() <= std::numeric_limits<std::uint32_t>::max());  // Linux writes less than 2 GiB at a time
  put_fixed(record, static_cast<std::uint32_t>(body.size()));
  put_fixed(record + 4, checksum({record, 4}, offset));
  put_fixed(record + 8, checksum(body, offset));
}

void put_header(std::string& out, const TraceHeader& header) {
  put_number(out, header.sector_bytes);
  put_number(out, header.block_bytes);
  put_number(out, header.capacity_bytes);
  put_time(out, header.start);
  put_number(out, header.command.size());
  for (const std::string& argument : header.command) put_text(out, argument);
  if (header.pid_namespace != 0) put_number(out, header.pid_namespace);
}

// ---- reading ------------------------------------------------------------------------------------------------------

// Reads what is there; once something was not, ok() is false and everything reads as 0 or empty.
class Body {
 public:
  explicit Body(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128 && value > std::numeric_limits<Number>::max()) break;
      if (byte < 128) return static_cast<Number>(value);
    }
    fail();
    return 0;
  }
  std::int64_t signed_number() { return unzigzag(number<std::uint64_t>()); }
  Ino ino() { return Ino{number<std::uint64_t>()}; }
  std::string_view text() {
    const auto size = number<std::uint64_t>();
    if (size > bytes_.size()) fail();
    if (!ok_) return {};
    const std::string_view text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }
  // One component of a path.
  std::string_view name() {
    const std::string_view name = text();
    if (name.find('/') != name.npos || name.find('\0') != name.npos) fail();
    return name;
  }
  timespec time() {
    const std::int64_t seconds = signed_number();
    return timespec{seconds, static_cast<long>(number<std::uint32_t>())};
  }
  std::span<const std::byte> rest() {
    const auto rest = std::as_bytes(std::span(bytes_));
    bytes_ = {};
    return rest;
  }
  void fail() {
    ok_ = false;
    bytes_ = {};
  }
  bool ok() const { return ok_; }
  bool is_done() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

AttrChange get_change(Body& body) {
  AttrChange change;
  const auto has = body.number<std::uint64_t>();
  if (has > kHasMost) body.fail();
  if (has & kHasMode) change.mode = body.number<mode_t>();
  if (has & kHasUid) change.uid = body.number<uid_t>();
  if (has & kHasGid) change.gid = body.number<gid_t>();
  if (has & kHasAtime) change.atime = body.time();
  if (has & kHasMtime) change.mtime = body.time();
  return change;
}

// False where the body is not an operation.
bool get_op(std::string_view bytes, TraceOp& op, std::int64_t& time_ns) {
  if (bytes.empty()) return false;
  const bool has_stack = (static_cast<unsigned char>(bytes[0]) & kHasStack) != 0;
  const auto call = static_cast<std::uint8_t>(static_cast<unsigned char>(bytes[0]) & ~kHasStack);
  const std::uint32_t fields = call < std::size(kFields) ? kFields[call] : std::uint32_t{kNoSuchCall};
  if (fields & kNoSuchCall) return false;
  Body body(bytes.substr(1));
  op.call = TraceCall{call};
  op.process = body.number<std::uint32_t>();
  if (has_stack) op.stack = body.number<std::uint32_t>();
  time_ns = wrapping_sum(time_ns, body.signed_number());
  op.time = from_ns(time_ns);
  if (fields & kIno) op.ino = body.ino();
  if (fields & kDir) op.dir = body.ino();
  if (fields & kName) op.name = fields & kDir ? body.name() : body.text();
  if (fields & kToDir) op.to_dir = body.ino();
  if (fields & kToName) op.to_name = body.name();
  if (fields & kMode) op.mode = body.number<mode_t>();
  if (fields & kRdev) op.rdev = body.number<dev_t>();
  if (fields & kOwner) {
    op.uid = body.number<uid_t>();
    op.gid = body.number<gid_t>();
  }
  if (fields & kOffset) op.offset = body.number<std::uint64_t>();
  if (fields & kLength) op.length = body.number<std::uint64_t>();
  if (fields & kFlags) op.flags = body.number<std::uint32_t>();
  if (fields & kChange) op.change = get_change(body);
  if (fields & kText) op.text = body.text();
  if (fields & kPid) op.pid = body.number<std::uint64_t>();
  if (fields & kBytes) op.data = body.rest();
  return body.is_done();
}

// None where the text is not a stack of these files.
std::optional<TraceStack> get_stack(std::string_view text, std::size_t file_count) {
  Body body(text);
  TraceStack stack;
  while (body.ok() && !body.is_done()) {
    const auto file = body.number<std::uint32_t>();
    stack.push_back({file, body.number<std::uint64_t>()});
    if (file >= file_count) body.fail();
  }
  return body.ok() && !stack.empty() ? std::optional(std::move(stack)) : std::nullopt;
}

bool get_header(std::string_view bytes, TraceHeader& header) {
  Body body(bytes);
  header.sector_bytes = body.number<std::uint32_t>();
  header.block_bytes = body.number<std::uint32_t>();
  header.capacity_bytes = body.number<std::uint64_t>();
  header.start = body.time();
  for (auto left = body.number<std::uint64_t>(); left > 0 && body.ok(); --left) {
    header.command.emplace_back(body.text());
  }
  if (body.ok() && !body.is_done()) header.pid_namespace = body.number<std::uint64_t>();
  return body.is_done();
}

tl::unexpected<std::string> refuse(std::string sentence) { return tl::unexpected(std::move(sentence)); }

enum class Found { kWhole, kCutOff, kDamaged };

// The record at `at`: its body.
Found find_record(std::string_view bytes, std::size_t at, std::string_view& body) {
  if (bytes.size() - at < kHeadBytes) return Found::kCutOff;
  const char* head = bytes.data() + at;
  if (checksum({head, 4}, at) != get_fixed(head + 4)) return Found::kDamaged;
  const std::uint32_t length = get_fixed(head);
  if (length > bytes.size() - at - kHeadBytes) return Found::kCutOff;
  body = bytes.substr(at + kHeadBytes, length);
  return checksum(body, at) == get_fixed(head + 8) ? Found::kWhole : Found::kDamaged;
}

std::string read_failure(const std::string& path, int error) {
  return fmt::format("cannot read the trace {}: {}", path, std::strerror(error));
}

class File {
 public:
  explicit File(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File&) = delete;
  const int fd;
};

tl::expected<std::shared_ptr<const TraceBytes>, std::string> map_file(const std::string& path, const File& file,
                                                                      const TraceBytes::End* end = nullptr) {
  if (file.fd < 0) return tl::unexpected(read_failure(path, errno));
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) return tl::unexpected(read_failure(path, errno));
  if (!S_ISREG(status.st_mode)) return tl::unexpected(fmt::format("the trace {} is not a regular file", path));
  auto bytes = TraceBytes::map(file.fd, static_cast<std::uint64_t>(status.st_size), end);
  if (!bytes) return tl::unexpected(read_failure(path, bytes.error()));
  return *bytes;
}

// What a writer that was killed left in its tail. A tail of something else is none.
std::optional<TraceBytes::End> end_in_tail(std::string_view bytes, std::string_view tail) {
  std::uint64_t end = 0, header_sum = 0;
  constexpr std::size_t kBegin = sizeof end + sizeof header_sum;
  if (tail.size() < kBegin || bytes.size() < kFirstRecord + kHeadBytes) return std::nullopt;
  std::memcpy(&end, tail.data(), sizeof end);
  std::memcpy(&header_sum, tail.data() + sizeof end, sizeof header_sum);
  const std::size_t header_bytes = kFirstRecord + kHeadBytes + get_fixed(bytes.data() + kFirstRecord);
  if (xxh64(bytes.substr(0, header_bytes), 0) != header_sum) return std::nullopt;
  const std::uint64_t begin = end / kTailBytes * kTailBytes;
  if (begin > bytes.size() || end - begin > tail.size() - kBegin) return std::nullopt;
  return TraceBytes::End{begin, tail.substr(kBegin, end - begin)};
}

}  // namespace

std::string to_text(const TraceStack& stack) {
  std::string text;
  for (const TracePlace& place : stack) {
    put_number(text, place.file);
    put_number(text, place.address);
  }
  return text;
}

// ---- TraceWriter --------------------------------------------------------------------------------------------------

tl::expected<std::unique_ptr<TraceWriter>, std::string> TraceWriter::create(const std::string& path,
                                                                            const TraceHeader& header) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return tl::unexpected(fmt::format("cannot make the trace {}: {}", path, std::strerror(errno)));
  std::unique_ptr<TraceWriter> writer(new TraceWriter(fd, path, header));
  if (!writer->error().empty()) return tl::unexpected(writer->error());
  return writer;
}

// The end of a trace that is being written: the bytes from the last multiple of kTailBytes up to `end`.
// Somebody who is killed leaves it as it is after any store of his: bytes come first, then the `end` that includes
// them.
struct TraceWriter::Tail {
  std::uint64_t end;         // bytes of the whole trace
  std::uint64_t header_sum;  // of the trace that it belongs to
  char bytes[kTailBytes];

  void set_end(std::uint64_t value) { std::atomic_ref(end).store(value, std::memory_order_release); }
};

std::string tail_of(const std::string& trace_path) { return trace_path + ".tail"; }

TraceWriter::TraceWriter(int fd, std::string path, const TraceHeader& header)
    : fd_(fd), path_(std::move(path)), last_time_ns_(to_ns(header.start)) {
  buffer_ = kMagic;
  buffer_.append(4, '\0');
  put_fixed(buffer_.data() + kMagic.size(), kVersion);
  add_record([&] { put_header(buffer_, header); });
  write_out(buffer_.data(), buffer_.size(), 0);
  if (error_.empty()) open_tail();
  if (error_.empty()) hand_over();
}

TraceWriter::~TraceWriter() {
  flush();
  if (tail_) munmap(tail_, sizeof(Tail));
  if (tail_ && error_.empty()) ::unlink(tail_of(path_).c_str());
  ::close(fd_);
}

void TraceWriter::fail(std::string_view what, int error) {
  error_ = fmt::format("cannot {} the trace {}: {}", what, path_, std::strerror(error));
  has_failed_ = true;
}

void TraceWriter::open_tail() {
  const std::string path = tail_of(path_);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return fail("make the tail of", errno);
  // Room for all of it now: a mapping of a full disk would end us by SIGBUS.
  if (const int error = posix_fallocate(fd, 0, sizeof(Tail))) {
    fail("make the tail of", error);
  } else if (void* memory = mmap(nullptr, sizeof(Tail), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
             memory != MAP_FAILED) {
    tail_ = static_cast<Tail*>(memory);
    tail_->header_sum = xxh64(buffer_, 0);
  } else {
    fail("map the tail of", errno);
  }
  ::close(fd);
}

template <class Fill>
void TraceWriter::add_record(Fill&& fill) {
  const std::size_t head = buffer_.size();
  buffer_.append(kHeadBytes, '\0');
  fill();
  put_head(buffer_.data() + head, buffer_.size() - head, written_ + head);
}

std::optional<std::uint64_t> TraceWriter::add(const TraceOp& op) {
  if (!error_.empty()) return std::nullopt;
  const std::int64_t time_ns = to_ns(op.time);
  buffer_.append(kHeadBytes, '\0');
  put_op(buffer_, op, wrapping_difference(time_ns, last_time_ns_));
  last_time_ns_ = time_ns;
  op_count_.store(op_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::size_t size = buffer_.size() + op.data.size();
  if (const std::size_t at = written_ % kTailBytes; at + size < kTailBytes) {
    // Nearly always: the record is put together where it goes.
    char* const record = tail_->bytes + at;
    std::memcpy(record, buffer_.data(), buffer_.size());
    std::copy(op.data.begin(), op.data.end(), reinterpret_cast<std::byte*>(record) + buffer_.size());
    put_head(record, size, written_);
    written_ += size;
    tail_->set_end(written_);
    buffer_.clear();
  } else {
    buffer_.append(reinterpret_cast<const char*>(op.data.data()), op.data.size());
    put_head(buffer_.data(), size, written_);
    hand_over();
  }
  if (!error_.empty()) return std::nullopt;
  return written_ - op.data.size();  // the data is the last of a record
}

void TraceWriter::hand_over() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const std::size_t at = written_ % kTailBytes;
    const std::string_view part = left.substr(0, kTailBytes - at);
    std::memcpy(tail_->bytes + at, part.data(), part.size());
    left.remove_prefix(part.size());
    written_ += part.size();
    if (written_ % kTailBytes != 0) break;
    write_out(tail_->bytes, kTailBytes, written_ - kTailBytes);
    if (!error_.empty()) return buffer_.clear();  // what the tail says it has stays there
    tail_->set_end(written_);                     // from here on it is empty, whatever its bytes are
  }
  tail_->set_end(written_);
  buffer_.clear();
}

void TraceWriter::write_out(const char* bytes, std::size_t size, std::uint64_t offset) {
  while (size > 0 && error_.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes, size, static_cast<off_t>(offset));
    if (count > 0) {
      bytes += count;
      offset += static_cast<std::uint64_t>(count);
      size -= static_cast<std::size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      fail("write", count == 0 ? EIO : errno);
    }
  }
}

void TraceWriter::flush() {
  if (!error_.empty() || !tail_) return;
  const std::size_t count = written_ % kTailBytes;
  write_out(tail_->bytes, count, written_ - count);
}

// Measured: an operation takes about so much, and a sector that is written half of its bytes.
std::uint64_t TraceWriter::model_bytes() const {
  constexpr std::uint64_t kOpBytes = 500;
  if (!tail_) return 0;
  const std::uint64_t written = std::atomic_ref(tail_->end).load(std::memory_order_relaxed);
  return op_count_.load(std::memory_order_relaxed) * kOpBytes + written / 2;
}

void TraceWriter::read(std::uint64_t position, std::span<std::byte> out) const {
  const std::uint64_t tail_begin = written_ / kTailBytes * kTailBytes;
  while (!out.empty()) {
    std::size_t done = out.size();
    if (position >= tail_begin) {
      std::memcpy(out.data(), tail_->bytes + (position - tail_begin), done);
    } else {
      const std::size_t wanted = std::min<std::uint64_t>(done, tail_begin - position);
      const ssize_t count = ::pread(fd_, out.data(), wanted, static_cast<off_t>(position));
      CHECK(count > 0 || (count < 0 && errno == EINTR));  // without its trace a recording is worth nothing
      done = count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    position += done;
    out = out.subspan(done);
  }
}

void TraceWriter::finish() {
  add(TraceOp{.call = TraceCall::kEnd, .time = from_ns(last_time_ns_)});
  flush();
}

// The bytes before the cut stay as they are: they may be mapped.
tl::expected<void, std::string> cut_trace(const std::string& path, const TraceCut& cut) {
  std::string end;
  for (const TraceCall call : {TraceCall::kStopped, TraceCall::kEnd}) {
    const std::size_t begin = end.size();
    end.append(kHeadBytes, '\0');
    put_op(end, TraceOp{.call = call}, 0);
    put_head(end.data() + begin, end.size() - begin, cut.position + begin);
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool is_done =
      fd >= 0 && ::ftruncate(fd, static_cast<off_t>(cut.position)) == 0 &&
      ::pwrite(fd, end.data(), end.size(), static_cast<off_t>(cut.position)) == static_cast<ssize_t>(end.size());
  const int error = errno;
  if (fd >= 0) ::close(fd);
  ::unlink(tail_of(path).c_str());
  if (is_done) return {};
  return tl::unexpected(fmt::format("cannot cut the trace {}: {}", path, std::strerror(error)));
}

// ---- TraceReader --------------------------------------------------------------------------------------------------

tl::expected<TraceReader, std::string> TraceReader::open(const std::string& path) {
  const File file(path);
  auto bytes = map_file(path, file);
  if (!bytes) return tl::unexpected(bytes.error());
  if (const File tail_file(tail_of(path)); tail_file.fd >= 0) {
    const auto tail = map_file(tail_of(path), tail_file);
    const auto end = tail ? end_in_tail((*bytes)->view(), (*tail)->view()) : std::nullopt;
    if (end) bytes = map_file(path, file, &*end);
    if (!bytes) return tl::unexpected(bytes.error());
  }
  auto trace = parse(*std::move(bytes));
  if (!trace) return tl::unexpected(fmt::format("cannot use the trace {}: {}", path, trace.error()));
  return trace;
}

tl::expected<TraceReader, std::string> TraceReader::parse(std::string bytes) {
  return parse(std::make_shared<const TraceBytes>(std::move(bytes)));
}

tl::expected<TraceReader, std::string> TraceReader::parse(std::shared_ptr<const TraceBytes> bytes) {
  TraceReader trace(std::move(bytes));
  if (auto ok = trace.scan(); !ok) return tl::unexpected(ok.error());
  return trace;
}

tl::expected<void, std::string> TraceReader::scan() {
  const std::string_view bytes = bytes_->view();
  Forgetting forgetting(*bytes_);
  if (!bytes.starts_with(kMagic)) return refuse("it is not a trace of crashcut");
  if (bytes.size() < kFirstRecord) return refuse("its beginning is not whole");
  if (const std::uint32_t version = get_fixed(bytes.data() + kMagic.size()); version != kVersion) {
    return tl::unexpected(
        fmt::format("it has version {} of the format, and only version {} is known", version, kVersion));
  }
  std::string_view body;
  const Found header = find_record(bytes, kFirstRecord, body);
  if (header == Found::kCutOff) return refuse("its beginning is not whole");
  if (header == Found::kDamaged || !get_header(body, header_)) return refuse("its beginning is damaged");
  const ModelOptions geometry{.sector_bytes = header_.sector_bytes, .block_bytes = header_.block_bytes};
  if (auto ok = check_geometry(geometry); !ok) return tl::unexpected(ok.error());
  first_ = end_ = kFirstRecord + kHeadBytes + body.size();
  start_ns_ = to_ns(header_.start);
  std::int64_t time_ns = start_ns_;
  while (!is_complete_) {
    const Found found = find_record(bytes, end_, body);
    if (found == Found::kCutOff) return {};
    if (found == Found::kDamaged) return tl::unexpected(fmt::format("the record at byte {} is damaged", end_));
    TraceOp op;
    if (!get_op(body, op, time_ns) || !take(op)) {
      return tl::unexpected(fmt::format("the record at byte {} is not an operation", end_));
    }
    end_ += kHeadBytes + body.size();
    forgetting.advance_to(end_);
  }
  if (end_ != bytes.size()) return refuse("something follows its end");
  return {};
}

// Counts the operation; false where it names a process or a stack wrongly.
bool TraceReader::take(const TraceOp& op) {
  switch (op.call) {
    case TraceCall::kProcess:
      if (op.process != processes_.size()) return false;
      processes_.push_back(TraceProcess{op.pid, std::string(op.text)});
      return true;
    case TraceCall::kCodeFile:
      code_files_.push_back(TraceCodeFile{std::string(op.name), std::string(op.text)});
      return true;
    case TraceCall::kStack: {
      auto stack = get_stack(op.text, code_files_.size());
      if (stack) stacks_.push_back(std::move(*stack));
      return stack.has_value();
    }
    case TraceCall::kEnd:
      return is_complete_ = true;
    default:
      ++op_count_;
      return op.process < processes_.size() && op.stack < stacks_.size();
  }
}

bool TraceReader::Cursor::next(TraceOp& op) {
  while (at_ < trace_.end_) {
    const std::string_view bytes = trace_.bytes_->view();
    const std::uint32_t length = get_fixed(bytes.data() + at_);
    const std::string_view body = bytes.substr(at_ + kHeadBytes, length);
    forgetting_.advance_to(at_);
    at_ += kHeadBytes + length;
    op = TraceOp{};
    CHECK(get_op(body, op, time_ns_));  // scan() saw to it
    const bool names_something =
        op.call == TraceCall::kProcess || op.call == TraceCall::kCodeFile || op.call == TraceCall::kStack;
    if (!names_something && op.call != TraceCall::kEnd) return true;
  }
  return false;
}

}  // namespace crashcut::fusefs
