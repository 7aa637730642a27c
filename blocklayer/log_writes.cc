#include "blocklayer/log_writes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <vector>

namespace crashcut::blocklayer {
namespace {

constexpr std::uint64_t kMagic = 0x6a736677736872;
constexpr std::uint64_t kVersion = 1;
enum EntryFlag : std::uint64_t { kFlushFlag = 1, kFuaFlag = 2, kDiscardFlag = 4, kMarkFlag = 8, kMetadataFlag = 16 };
constexpr std::uint64_t kAllFlags = kFlushFlag | kFuaFlag | kDiscardFlag | kMarkFlag | kMetadataFlag;
constexpr std::string_view kEndMark = "dm-log-writes-end";
constexpr std::uint64_t kRequestBytesMost = std::uint64_t{1} << 30;
constexpr std::uint64_t kSectorMost = std::uint64_t{1} << 40;

// Numbers are little-endian, as are the machines that crashcut runs on.
struct Super {
  std::uint64_t magic, version, entry_count;
  std::uint32_t sector_bytes;
};
struct Entry {
  std::uint64_t sector, sector_count, flags, data_bytes;
};
static_assert(sizeof(Entry) == 32);
constexpr std::size_t kSuperBytes = 28;

// ---- export ---------------------------------------------------------------------------------------------------------

class Exporter final : public DeviceTrace::Visitor {
 public:
  Exporter(const DeviceTrace& trace, std::ofstream& out) : trace_(trace), out_(out) { write_super(); }

  void on_issue(RequestId id, const Request& request) override {
    InFlight& made = in_flight_[id];
    made.request = request;
    if (is_flush(request)) made.covered = std::exchange(unflushed_, {});
  }
  void on_complete(RequestId id) override {
    const InFlight done = in_flight_.extract(id).mapped();
    if (is_flush(done.request)) {
      for (const Request& request : done.covered) write_request(request, 0);
      write_entry({0, 0, kFlushFlag, 0}, {});
    } else if (done.request.is_fua) {
      write_request(done.request, kFuaFlag);
    } else if (done.request.kind != RequestKind::kFlush) {
      unflushed_.push_back(done.request);
    }
  }
  void on_mark(std::string_view text) override { write_mark(text); }
  void on_durable() override {
    write_unflushed();
    write_entry({0, 0, kFlushFlag, 0}, {});
  }
  // What was never flushed stands at the end.
  void finish() {
    write_unflushed();
    write_mark(kEndMark);
    out_.seekp(0);
    write_super();
  }

 private:
  struct InFlight {
    Request request;
    std::vector<Request> covered;  // kFlush: what had completed when it was issued
  };

  std::uint32_t sector_bytes() const { return trace_.header().sector_bytes; }
  // Of the drive, and not of the host's cache alone.
  static bool is_flush(const Request& request) { return request.kind == RequestKind::kFlush && !request.is_buffered; }

  void write_padded(std::string_view bytes) {
    std::string whole(bytes);
    whole.resize(sector_bytes());
    out_.write(whole.data(), static_cast<std::streamsize>(whole.size()));
  }
  void write_super() {
    const Super super{kMagic, kVersion, entry_count_, sector_bytes()};
    write_padded({reinterpret_cast<const char*>(&super), kSuperBytes});
  }
  void write_entry(const Entry& entry, std::string_view text) {
    std::string bytes(reinterpret_cast<const char*>(&entry), sizeof entry);
    write_padded(bytes.append(text));
    ++entry_count_;
  }
  void write_mark(std::string_view text) {
    text = text.substr(0, sector_bytes() - sizeof(Entry) - 1);
    write_entry({0, 0, kMarkFlag, text.size()}, text);
  }
  void write_request(const Request& request, std::uint64_t flags) {
    const bool is_discard = request.kind == RequestKind::kDiscard;
    write_entry({request.first, request.count, is_discard ? flags | kDiscardFlag : flags, 0}, {});
    if (request.kind == RequestKind::kWrite) {
      const auto bytes = trace_.bytes(request.payload, request.count * sector_bytes());
      out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    for (std::uint64_t i = 0; request.kind == RequestKind::kZero && i < request.count; ++i) write_padded({});
  }
  void write_unflushed() {
    for (const Request& request : std::exchange(unflushed_, {})) write_request(request, 0);
  }

  const DeviceTrace& trace_;
  std::ofstream& out_;
  std::uint64_t entry_count_ = 0;
  std::unordered_map<RequestId, InFlight> in_flight_;
  std::vector<Request> unflushed_;  // completed since the last flush was issued, in that order
};

// ---- import ---------------------------------------------------------------------------------------------------------

class Importer {
 public:
  explicit Importer(const std::string& path) : path_(path), in_(path, std::ios::binary) {}

  tl::expected<void, std::string> read_super() {
    if (!in_) return refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
    Super super{};
    in_.read(reinterpret_cast<char*>(&super), kSuperBytes);
    if (!in_ || super.magic != kMagic) return refuse("is not a log of dm-log-writes");
    if (super.version != kVersion) return refuse(fmt::format("is of version {}, which is not known", super.version));
    if (super.sector_bytes != 512 && super.sector_bytes != 4096)
      return refuse(fmt::format("has sectors of {} bytes; crashcut knows 512 and 4096", super.sector_bytes));
    imported_.header.sector_bytes = super.sector_bytes;
    entry_count_ = super.entry_count;
    in_.seekg(0, std::ios::end);
    size_ = static_cast<std::uint64_t>(in_.tellg());
    return {};
  }

  // Goes through all entries: how large the device is, and whether they make sense. A log that was cut ends earlier.
  tl::expected<void, std::string> survey() {
    std::uint64_t sectors = 1;
    for (std::uint64_t at = imported_.header.sector_bytes, i = 0; i < entry_count_; ++i) {
      Entry entry;
      if (!read_entry(at, entry)) {
        imported_.is_whole = false;
        entry_count_ = i;
        break;
      }
      const auto bad = [&] { return refuse(fmt::format("has an entry, number {}, that makes no sense", i)); };
      if ((entry.flags & ~kAllFlags) != 0 || entry.sector > kSectorMost || entry.sector_count > kSectorMost)
        return bad();
      const bool is_mark = (entry.flags & kMarkFlag) != 0;
      if (is_mark && entry.data_bytes > imported_.header.sector_bytes - sizeof(Entry)) return bad();
      if (entry.sector_count * imported_.header.sector_bytes > kRequestBytesMost && !is_discard(entry)) return bad();
      sectors = std::max(sectors, entry.sector + entry.sector_count);
      at += bytes_of(entry);
      if (at > size_) {  // its data was cut off
        imported_.is_whole = false;
        entry_count_ = i;
        break;
      }
    }
    imported_.header.bytes = sectors * imported_.header.sector_bytes;
    imported_.header.command = {path_};
    return {};
  }

  tl::expected<Imported, std::string> write_to(const std::string& trace_path) {
    auto writer = DeviceTraceWriter::create(trace_path, imported_.header);
    if (!writer) return tl::unexpected(writer.error());
    DeviceTraceWriter& trace = **writer;
    std::uint64_t at = imported_.header.sector_bytes;
    for (std::uint64_t i = 0; i < entry_count_; ++i) {
      Entry entry;
      if (!read_entry(at, entry)) return refuse("changed while it was read");
      copy(entry, at, trace);
      at += bytes_of(entry);
    }
    if (imported_.is_whole) trace.finish();
    if (!trace.error().empty()) return tl::unexpected(trace.error());
    return imported_;
  }

 private:
  static bool is_discard(const Entry& entry) { return (entry.flags & kDiscardFlag) != 0; }

  tl::unexpected<std::string> refuse(const std::string& why) const {
    return tl::unexpected(fmt::format("{} {}.", path_, why));
  }
  // Of the log: its sector, and the data behind it.
  std::uint64_t bytes_of(const Entry& entry) const {
    return (1 + (is_discard(entry) ? 0 : entry.sector_count)) * imported_.header.sector_bytes;
  }
  bool read_entry(std::uint64_t at, Entry& entry) {
    if (at + imported_.header.sector_bytes > size_) return false;
    in_.clear();
    in_.seekg(static_cast<std::streamoff>(at));
    in_.read(reinterpret_cast<char*>(&entry), sizeof entry);
    return in_.good();
  }

  // A flush comes before the data of its entry (REQ_PREFLUSH).
  void copy(const Entry& entry, std::uint64_t at, DeviceTraceWriter& trace) {
    if ((entry.flags & kFlushFlag) != 0) trace.complete(trace.issue({.kind = RequestKind::kFlush}, {}));
    if ((entry.flags & kMarkFlag) != 0) {
      std::string text(entry.data_bytes, '\0');
      in_.read(text.data(), static_cast<std::streamsize>(text.size()));
      if (text != kEndMark) trace.mark(text);
      return;
    }
    if (entry.sector_count == 0) return;
    Request request{.kind = is_discard(entry) ? RequestKind::kDiscard : RequestKind::kWrite,
                    .first = entry.sector,
                    .count = entry.sector_count,
                    .is_fua = (entry.flags & kFuaFlag) != 0 && !is_discard(entry)};
    std::vector<char> data(is_discard(entry) ? 0 : entry.sector_count * imported_.header.sector_bytes);
    in_.seekg(static_cast<std::streamoff>(at + imported_.header.sector_bytes));
    in_.read(data.data(), static_cast<std::streamsize>(data.size()));
    trace.complete(trace.issue(request, std::as_bytes(std::span(data))));
  }

  std::string path_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
  std::uint64_t entry_count_ = 0;
  Imported imported_;
};

}  // namespace

tl::expected<void, std::string> export_log_writes(const DeviceTrace& trace, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) return tl::unexpected(fmt::format("Cannot write {}: {}.", path, std::strerror(errno)));
  Exporter exporter(trace, out);
  trace.visit(exporter);
  exporter.finish();
  out.close();
  if (!out) return tl::unexpected(fmt::format("Cannot write {}: {}.", path, std::strerror(errno)));
  return {};
}

tl::expected<Imported, std::string> import_log_writes(const std::string& path, const std::string& trace_path) {
  Importer importer(path);
  if (auto ok = importer.read_super(); !ok) return tl::unexpected(ok.error());
  if (auto ok = importer.survey(); !ok) return tl::unexpected(ok.error());
  return importer.write_to(trace_path);
}

}  // namespace crashcut::blocklayer
