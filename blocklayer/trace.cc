#include "blocklayer/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_set>

namespace crashcut::blocklayer {
namespace {

constexpr char kMagic[24] = "crashcut device trace 1";
constexpr std::uint32_t kRecordMagic = 0x52444343;  // "CCDR"
constexpr std::uint64_t kDeviceBytesMost = std::uint64_t{1} << 50;
constexpr std::size_t kTextMost = 1 << 20;
constexpr std::uint64_t kSectorsMost = 1 << 25;  // of all requests together: about a hundred bytes each

enum class Type : std::uint8_t { kIssue = 1, kComplete, kMark, kDurable, kStop, kEnd };
enum Flag : std::uint8_t { kFua = 1, kBuffered = 2 };

struct FixedHeader {
  char magic[24];
  std::uint32_t sector_bytes;
  std::uint32_t text_bytes;  // the command, a NUL after each word
  std::uint64_t bytes;
};
static_assert(sizeof(FixedHeader) == 40);

struct FixedRecord {
  std::uint32_t magic = kRecordMagic;
  Type type{};
  RequestKind kind{};
  std::uint8_t flags = 0;
  std::uint8_t unused = 0;
  std::uint64_t id = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint32_t text_bytes = 0;  // the sender, or the text of a mark
  std::uint32_t data_bytes = 0;
};
static_assert(sizeof(FixedRecord) == 40);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// ---- writing --------------------------------------------------------------------------------------------------------

tl::expected<std::unique_ptr<DeviceTraceWriter>, std::string> DeviceTraceWriter::create(const std::string& path,
                                                                                        const DeviceHeader& header) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return tl::unexpected(fmt::format("Cannot write {}: {}.", path, std::strerror(errno)));
  std::unique_ptr<DeviceTraceWriter> writer(new DeviceTraceWriter(fd, path));
  std::string text;
  for (const std::string& word : header.command) text += word + '\0';
  FixedHeader fixed{};
  std::memcpy(fixed.magic, kMagic, sizeof fixed.magic);
  fixed.sector_bytes = header.sector_bytes;
  fixed.bytes = header.bytes;
  fixed.text_bytes = static_cast<std::uint32_t>(text.size());
  writer->append(bytes_of(fixed), text, {});
  if (!writer->error().empty()) return tl::unexpected(writer->error());
  return writer;
}

DeviceTraceWriter::~DeviceTraceWriter() { close(fd_); }

void DeviceTraceWriter::append(std::span<const std::byte> fixed, std::string_view text,
                               std::span<const std::byte> data) {
  if (!error_.empty()) return;
  iovec parts[] = {{const_cast<std::byte*>(fixed.data()), fixed.size()},
                   {const_cast<char*>(text.data()), text.size()},
                   {const_cast<std::byte*>(data.data()), data.size()}};
  for (iovec* part = parts; part < std::end(parts);) {
    const ssize_t written = writev(fd_, part, static_cast<int>(std::end(parts) - part));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      error_ = fmt::format("Cannot write {}: {}.", path_, std::strerror(errno));
      return;
    }
    std::size_t left = static_cast<std::size_t>(written);
    while (part < std::end(parts) && left >= part->iov_len) left -= (part++)->iov_len;
    if (part < std::end(parts)) {
      part->iov_base = static_cast<char*>(part->iov_base) + left;
      part->iov_len -= left;
    }
  }
}

RequestId DeviceTraceWriter::issue(const Request& request, std::span<const std::byte> data) {
  const FixedRecord record{
      .type = Type::kIssue,
      .kind = request.kind,
      .flags = static_cast<std::uint8_t>((request.is_fua ? kFua : 0) | (request.is_buffered ? kBuffered : 0)),
      .id = next_id_,
      .first = request.first,
      .count = request.count,
      .text_bytes = static_cast<std::uint32_t>(request.sender.size()),
      .data_bytes = static_cast<std::uint32_t>(data.size())};
  append(bytes_of(record), request.sender, data);
  return next_id_++;
}

void DeviceTraceWriter::complete(RequestId id) {
  append(bytes_of(FixedRecord{.type = Type::kComplete, .id = id}), {}, {});
}
void DeviceTraceWriter::mark(std::string_view text) {
  text = text.substr(0, kTextMost);
  append(bytes_of(FixedRecord{.type = Type::kMark, .text_bytes = static_cast<std::uint32_t>(text.size())}), text, {});
}
void DeviceTraceWriter::make_durable() { append(bytes_of(FixedRecord{.type = Type::kDurable}), {}, {}); }
void DeviceTraceWriter::stop() { append(bytes_of(FixedRecord{.type = Type::kStop}), {}, {}); }
void DeviceTraceWriter::finish() { append(bytes_of(FixedRecord{.type = Type::kEnd}), {}, {}); }

// ---- reading --------------------------------------------------------------------------------------------------------

struct DeviceTrace::Record {
  FixedRecord fixed;
  std::string_view text;
  std::uint64_t data_at = 0;
};

DeviceTrace::~DeviceTrace() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

tl::expected<std::shared_ptr<DeviceTrace>, std::string> DeviceTrace::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat found {};
  if (fd < 0 || fstat(fd, &found) != 0) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) close(fd);
    return tl::unexpected(fmt::format("Cannot read {}: {}.", path, why));
  }
  std::shared_ptr<DeviceTrace> trace(new DeviceTrace);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  void* data = size == 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (data == MAP_FAILED) return tl::unexpected(fmt::format("{} is not the trace of a device: it is empty.", path));
  trace->data_ = static_cast<const std::byte*>(data);
  trace->size_ = size;
  const auto first = trace->read_header();
  if (!first) return tl::unexpected(fmt::format("{}: {}", path, first.error()));
  trace->first_ = *first;
  if (const auto ok = trace->survey(); !ok) return tl::unexpected(fmt::format("{}: {}", path, ok.error()));
  return trace;
}

tl::expected<std::uint64_t, std::string> DeviceTrace::read_header() {
  FixedHeader fixed;
  if (size_ < sizeof fixed) return tl::unexpected(std::string("it is not the trace of a device."));
  std::memcpy(&fixed, data_, sizeof fixed);
  if (std::memcmp(fixed.magic, kMagic, sizeof kMagic) != 0)
    return tl::unexpected(std::string("it is not the trace of a device."));
  if (fixed.text_bytes > kTextMost || fixed.text_bytes > size_ - sizeof fixed)
    return tl::unexpected(std::string("its header was cut off."));
  const bool is_sector = fixed.sector_bytes == 512 || fixed.sector_bytes == 4096;
  if (!is_sector || fixed.bytes == 0 || fixed.bytes % fixed.sector_bytes != 0 || fixed.bytes > kDeviceBytesMost)
    return tl::unexpected(std::string("its header names a device that cannot be."));
  header_.sector_bytes = fixed.sector_bytes;
  header_.bytes = fixed.bytes;
  std::string_view text(reinterpret_cast<const char*>(data_) + sizeof fixed, fixed.text_bytes);
  for (std::size_t end; (end = text.find('\0')) != std::string_view::npos; text.remove_prefix(end + 1))
    header_.command.emplace_back(text.substr(0, end));
  return sizeof fixed + fixed.text_bytes;
}

tl::expected<bool, std::string> DeviceTrace::next(std::uint64_t& at, Record& record) const {
  FixedRecord& fixed = record.fixed;
  if (size_ - at < sizeof fixed) return false;
  std::memcpy(&fixed, data_ + at, sizeof fixed);
  if (fixed.magic != kRecordMagic) return tl::unexpected(fmt::format("there is no record at byte {}.", at));
  const std::uint64_t body = std::uint64_t{fixed.text_bytes} + fixed.data_bytes;
  if (size_ - at - sizeof fixed < body) return false;  // it was cut off
  record.text = {reinterpret_cast<const char*>(data_) + at + sizeof fixed, fixed.text_bytes};
  record.data_at = at + sizeof fixed + fixed.text_bytes;
  const std::uint64_t begin = at;
  at += sizeof fixed + body;
  const auto bad = [&] { return tl::unexpected(fmt::format("the record at byte {} makes no sense.", begin)); };
  if (fixed.type < Type::kIssue || fixed.type > Type::kEnd) return bad();
  if (fixed.type != Type::kIssue) return fixed.data_bytes == 0 ? tl::expected<bool, std::string>(true) : bad();
  if (fixed.kind > RequestKind::kFlush) return bad();
  const std::uint64_t sectors = header_.bytes / header_.sector_bytes;
  const bool is_flush = fixed.kind == RequestKind::kFlush;
  const bool fits = is_flush ? fixed.count == 0 && fixed.first == 0
                             : fixed.count > 0 && fixed.count <= sectors && fixed.first <= sectors - fixed.count;
  const std::uint64_t data = fixed.kind == RequestKind::kWrite && fits ? fixed.count * header_.sector_bytes : 0;
  if (!fits || data != fixed.data_bytes || (is_flush && (fixed.flags & kFua) != 0) || fixed.flags > (kFua | kBuffered))
    return bad();
  return true;
}

// Goes through all records once: what is read later is known to be sound.
tl::expected<void, std::string> DeviceTrace::survey() {
  std::unordered_set<RequestId> in_flight;
  RequestId last_id = 0;
  std::uint64_t sector_count = 0;
  Record record;
  for (std::uint64_t at = first_;;) {
    const std::uint64_t begin = at;
    const auto found = next(at, record);
    if (!found) return tl::unexpected(found.error());
    if (!*found) break;
    const FixedRecord& fixed = record.fixed;
    const bool is_sound = fixed.type == Type::kIssue      ? fixed.id == last_id + 1
                          : fixed.type == Type::kComplete ? in_flight.erase(fixed.id) == 1
                                                          : true;
    if (!is_sound || is_complete_) return tl::unexpected(fmt::format("the record at byte {} makes no sense.", begin));
    if (fixed.type == Type::kIssue) {
      last_id = fixed.id;
      in_flight.insert(fixed.id);
      ++request_count_;
      sector_count += fixed.count;
      if (sector_count > kSectorsMost)
        return tl::unexpected(fmt::format(
            "the program wrote or zeroed more than {} sectors: a smaller device has fewer (--device-size), and larger "
            "sectors are fewer (--sector 4096).",
            kSectorsMost));
      has_writes_ = has_writes_ || fixed.kind != RequestKind::kFlush;
    }
    was_stopped_ = was_stopped_ || fixed.type == Type::kStop;
    is_complete_ = fixed.type == Type::kEnd;
  }
  return {};
}

// survey() found all records sound.
void DeviceTrace::visit(Visitor& visitor) const {
  Record record;
  for (std::uint64_t at = first_;;) {
    const auto found = next(at, record);
    if (!found || !*found) return;
    const FixedRecord& fixed = record.fixed;
    switch (fixed.type) {
      case Type::kIssue:
        visitor.on_issue(fixed.id, {.kind = fixed.kind,
                                    .first = fixed.first,
                                    .count = fixed.count,
                                    .payload = record.data_at,
                                    .is_fua = (fixed.flags & kFua) != 0,
                                    .is_buffered = (fixed.flags & kBuffered) != 0,
                                    .sender = record.text});
        break;
      case Type::kComplete:
        visitor.on_complete(fixed.id);
        break;
      case Type::kMark:
        visitor.on_mark(record.text);
        break;
      case Type::kDurable:
        visitor.on_durable();
        break;
      case Type::kStop:
      case Type::kEnd:
        break;
    }
  }
}

namespace {

constexpr std::size_t kMisdirectionsMost = std::size_t{1} << 16;
constexpr std::uint64_t kSectorsForAnyFault = 1 << 20;

class RequestCollector final : public DeviceTrace::Visitor {
 public:
  void on_issue(RequestId id, const Request& request) override {
    requests.push_back({id, request.kind, request.first, request.count, false});
  }
  void on_complete(RequestId) override {}
  void on_mark(std::string_view) override {}
  void on_durable() override {
    for (NumberedRequest& request : requests) request.is_durable = true;
  }

  std::vector<NumberedRequest> requests;
};

tl::expected<FaultPlaces, std::string> fault_places_of(const DeviceTrace& trace, const DriveOptions& options) {
  FaultPlaces places;
  places.sector_count = trace.header().bytes / trace.header().sector_bytes;
  if (options.has_fault(kBadAny) && places.sector_count > kSectorsForAnyFault)
    return tl::unexpected(
        fmt::format("Faults of any sector are for devices of {} sectors at most, and this one has {}: a smaller device "
                    "has fewer (--device-size), and larger sectors are fewer (--sector 4096).",
                    kSectorsForAnyFault, places.sector_count));
  if (!options.has_fault(kMisdirected) && !options.has_fault(kMisdirectedAny)) return places;
  RequestCollector collector;
  trace.visit(collector);
  places.misdirections = misdirections_of(collector.requests, places.sector_count, options, kMisdirectionsMost);
  if (places.misdirections.size() > kMisdirectionsMost)
    return tl::unexpected(
        fmt::format("The writes of the program can go elsewhere in more than {} ways: a shorter program has fewer, so "
                    "has --faults 1, and for misdirected-any a smaller device (--device-size, --sector 4096).",
                    kMisdirectionsMost));
  return places;
}

}  // namespace

tl::expected<std::shared_ptr<DriveRecording>, std::string> replay(const std::shared_ptr<DeviceTrace>& trace,
                                                                  const DriveOptions& options,
                                                                  std::span<const persist::AddedSync> added) {
  if (options.sector_bytes != trace->header().sector_bytes)
    return tl::unexpected(fmt::format("The device was recorded with sectors of {} bytes, not of {}.",
                                      trace->header().sector_bytes, options.sector_bytes));
  class Replayer final : public DeviceTrace::Visitor {
   public:
    explicit Replayer(DriveRecorder& recorder) : recorder_(recorder) {}
    void on_issue(RequestId, const Request& request) override { recorder_.issue(request); }
    void on_complete(RequestId id) override { recorder_.complete(id); }
    void on_mark(std::string_view text) override { recorder_.mark(std::string(text)); }
    void on_durable() override { recorder_.make_durable(); }

   private:
    DriveRecorder& recorder_;
  };
  const auto places = fault_places_of(*trace, options);
  if (!places) return tl::unexpected(places.error());
  DriveRecorder recorder(options, trace, *places);
  recorder.add_flushes(added);
  Replayer replayer(recorder);
  trace->visit(replayer);
  recorder.seal();
  return recorder.shared_recording();
}

}  // namespace crashcut::blocklayer
