// DriveRecorder: turns the requests that a drive was sent into events and their persist order, as drive.h says.
//
// The events of a write stand where it was issued: one event a sector, or one for all of its sectors if the drive
//   writes them whole. A completed flush is a barrier (persist/log.h) that stands where it completed: it persists after
//   the writes that had completed when it was issued, and before every request that was issued after it completed. A
//   write that was issued in between is tied to it in neither direction. A completed FUA write is a barrier after
//   itself. A mark is a barrier after nothing.
// Edges between two writes of one sector make no difference to what can be read, but let equal neighbours count as one
//   candidate. The later event gets one if its own sectors hide all that the edge would put in.
// If a write is issued while another write of the same sector is in flight, the earlier one may still land last: an
//   event of its own for each such sector, after both.
//
// Misdirections are told beforehand. Every sector that one touches, at home or elsewhere, has a location of its own for
//   it, with the history that the sector has then: the same events write it, but those of the write that went elsewhere
//   write it there and not at home. Edges that make no difference to what can be read at home would make one there, so
//   there are none.
//
// Cost: a request costs its sectors, and one step for each request in flight.
// Threads: the caller serialises.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "blocklayer/recording.h"
#include "persist/added_sync.h"

namespace crashcut::blocklayer {

enum class RequestKind : std::uint8_t { kWrite, kZero, kDiscard, kFlush };

struct Request {
  RequestKind kind = RequestKind::kWrite;
  Sector first = 0;
  std::uint64_t count = 0;       // of sectors; 0 for a flush
  std::uint64_t payload = 0;     // kWrite: the place of its bytes
  bool is_fua = false;           // kWrite, kZero
  bool is_buffered = false;      // kWrite, kZero: in the page cache of the host; kFlush: of that cache alone
  std::string_view sender = {};  // the program, for reports
};

using RequestId = std::uint64_t;

// What a drive with faults needs to know beforehand.
struct FaultPlaces {
  std::uint64_t sector_count = 0;             // of the drive, for faults of any sector
  std::vector<Misdirection> misdirections{};  // of requests that come after the last make_durable()
};

// A request and its number.
struct NumberedRequest {
  std::uint64_t id;
  RequestKind kind;
  Sector first;
  std::uint64_t count;
  bool is_durable;  // by make_durable()
};
// Every way in which writes can go elsewhere, each of them one of the faults that the options allow: to where another
// request begins, or to any sector, if they fit there. None without such faults. Of more than `most` it returns one
// more.
std::vector<Misdirection> misdirections_of(std::span<const NumberedRequest> requests, std::uint64_t sector_count,
                                           const DriveOptions& options, std::size_t most = std::size_t{1} << 16);

class DriveRecorder {
 public:
  DriveRecorder(const DriveOptions& options, std::shared_ptr<const Payloads> payloads, const FaultPlaces& places = {});

  // Flushes that are done besides (their kind is kSync), each just before the operation that it names: the drive gets
  // and answers it at once. Call it before the first request.
  void add_flushes(std::span<const persist::AddedSync> flushes);
  // The drive has received it.
  RequestId issue(const Request& request);
  // The drive has answered it. A request that is never completed was in flight to the end.
  void complete(RequestId id);
  void mark(const std::string& text);
  // All so far is durable, whatever the drive.
  void make_durable();
  // Ends the recording.
  void seal();

  std::size_t in_flight_count() const { return in_flight_.size(); }
  DriveRecording& recording() { return *recording_; }
  std::shared_ptr<DriveRecording> shared_recording() { return recording_; }

 private:
  using EventId = persist::EventId;

  // The sectors that an event's own request puts in together with it: those of the event, and those before them if the
  // write tears as a prefix.
  struct Span {
    Sector first = 0, last = 0;
    bool is_within(const Span& other) const { return first >= other.first && last <= other.last; }
  };
  struct InFlight {
    RequestId id;
    RequestKind kind;
    bool makes_durable;  // by its completion: FUA, or a drive without a cache
    bool is_whole;       // one event for all sectors
    bool is_buffered;
    Sector first;
    std::uint64_t count;
    EventId first_event;
    std::uint64_t payload;
    std::uint32_t op;
    std::size_t covered_count;  // kFlush: of completed_ when it was issued

    EventId event_of(Sector sector) const {
      return is_whole ? first_event : first_event + static_cast<EventId>(sector - first);
    }
    Span span_of(Sector sector, Tear tear) const {
      if (is_whole) return {first, first + count - 1};
      return {tear == Tear::kPrefix ? first : sector, sector};
    }
  };

  persist::LocationId location_of(Sector sector);
  persist::Value value_of(const InFlight& request, Sector sector) const;
  void add_event(const InFlight& request, EventKind kind, Sector first, Sector last, const Span& span);
  // The locations of the request's sector under each misdirection: writes_ gets those that the event writes too.
  void add_elsewhere(const InFlight& request, Sector sector);
  void add_writes(const InFlight& request, EventKind kind);
  // `earlier`, which is in flight, may land after `later`.
  void add_overtaking(const InFlight& earlier, const InFlight& later);
  // The same under a misdirection.
  void add_overtaking_elsewhere(const InFlight& earlier, const InFlight& later, std::uint32_t misdirection);
  void add_misdirections(const Misdirection& misdirection);
  // The misdirections of which this request is the last one happen from now on.
  void begin_misdirections(RequestId id);
  // None: under this misdirection it goes to its place.
  const Detour* detour_of(RequestId request, std::uint32_t misdirection) const;
  // The first sector of the request under a misdirection.
  Sector first_of(const InFlight& request, std::uint32_t misdirection) const;
  void add_barrier(std::uint32_t op, EventKind kind, std::span<const persist::Write> writes,
                   std::span<const EventId> after);
  void add_fault(Sector sector);
  void add_flush(std::uint32_t op, std::size_t covered_count);
  // Those of add_flushes() before the operation that is about to begin.
  void do_added_flushes();

  std::shared_ptr<DriveRecording> recording_;
  std::vector<InFlight> in_flight_;                                             // in the order of issue
  std::unordered_map<RequestId, std::vector<std::uint32_t>> misdirections_of_;  // a request
  std::vector<Span> last_spans_;  // by location: of the last event that wrote it
  RequestId next_id_ = 1;
  std::vector<EventId> completed_;         // events of writes that have completed, in that order
  std::size_t covered_ = 0;                // the first so many of completed_ are below a barrier
  std::vector<persist::AddedSync> added_;  // by operation
  std::size_t next_added_ = 0;
  std::vector<EventId> after_;  // scratch
  std::vector<persist::Write> writes_;
};

}  // namespace crashcut::blocklayer
