// Trace of a device: every request with its bytes, when it was issued and when it completed, in one file.
//
// The file is a header and records, each a fixed part and what belongs to it; docs/device.md has the bytes. A record is
//   written by one system call, so what was recorded is there whatever is killed; a record that was cut off is the end.
// A reader maps the file: the bytes of writes are not copied.
// Input from anywhere: DeviceTrace::open() trusts no part of the file.
// Threads: one writer; a trace that was opened is read-only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "blocklayer/recorder.h"

namespace crashcut::blocklayer {

struct DeviceHeader {
  std::uint32_t sector_bytes = 512;
  std::uint64_t bytes = 0;           // of the device: a multiple of sector_bytes
  std::vector<std::string> command;  // the program that was recorded
};

class DeviceTraceWriter {
 public:
  // The errors are sentences.
  static tl::expected<std::unique_ptr<DeviceTraceWriter>, std::string> create(const std::string& path,
                                                                              const DeviceHeader& header);
  ~DeviceTraceWriter();
  DeviceTraceWriter(const DeviceTraceWriter&) = delete;
  DeviceTraceWriter& operator=(const DeviceTraceWriter&) = delete;

  // As in DriveRecorder. `data` is empty unless it is a write.
  RequestId issue(const Request& request, std::span<const std::byte> data);
  void complete(RequestId id);
  void mark(std::string_view text);
  void make_durable();
  // The program was stopped before its end.
  void stop();
  // The recording is whole.
  void finish();
  const std::string& error() const { return error_; }

 private:
  DeviceTraceWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  void append(std::span<const std::byte> fixed, std::string_view text, std::span<const std::byte> data);

  int fd_;
  std::string path_;
  std::string error_;
  RequestId next_id_ = 1;
};

class DeviceTrace final : public Payloads {
 public:
  // The error is a sentence.
  static tl::expected<std::shared_ptr<DeviceTrace>, std::string> open(const std::string& path);
  ~DeviceTrace() override;

  const DeviceHeader& header() const { return header_; }
  std::uint64_t request_count() const { return request_count_; }
  bool is_complete() const { return is_complete_; }
  bool was_stopped() const { return was_stopped_; }
  bool has_writes() const { return has_writes_; }

  std::span<const std::byte> bytes(std::uint64_t at, std::size_t count) const override {
    return std::span(data_, size_).subspan(at, count);
  }

  // Is told what the trace has, in order. Requests are numbered 1, 2, ...
  class Visitor {
   public:
    virtual ~Visitor() = default;
    virtual void on_issue(RequestId id, const Request& request) = 0;
    virtual void on_complete(RequestId id) = 0;
    virtual void on_mark(std::string_view text) = 0;
    virtual void on_durable() = 0;
  };
  void visit(Visitor& visitor) const;

 private:
  struct Record;
  DeviceTrace() = default;
  // The next record from `at` on, which moves behind it; false at the end. The error is a sentence.
  tl::expected<bool, std::string> next(std::uint64_t& at, Record& record) const;
  tl::expected<std::uint64_t, std::string> read_header();
  tl::expected<void, std::string> survey();

  const std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t first_ = 0;  // record
  DeviceHeader header_;
  std::uint64_t request_count_ = 0;
  bool is_complete_ = false, was_stopped_ = false, has_writes_ = false;
};

// The recording of a trace on a drive with these options, sealed. The bytes stay in the trace. The error is a sentence.
// `added` are flushes that the program did not do.
tl::expected<std::shared_ptr<DriveRecording>, std::string> replay(const std::shared_ptr<DeviceTrace>& trace,
                                                                  const DriveOptions& options,
                                                                  std::span<const persist::AddedSync> added = {});

}  // namespace crashcut::blocklayer
