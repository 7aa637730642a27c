// Recording: a persist::Log of x86 persistent memory, and what its locations and values mean.
//
// Locations: a word of persistent memory, holding its 8 bytes; a mark, holding how often it was reached.
// A line's versions: the stores of a line are a chain of the log, so a version of the line is a position on that chain.
//   Reading a word decides the position as far as the word's bytes need it, and no further. Versions that are equal in
//   the bytes looked at are therefore one candidate: a store to another word is not in the history of this word, and
//   neighbouring writes of this word with equal bytes are one candidate of persist::Cut. Words instead of lines as
//   locations make words possible that persist in any order (copies, non-temporal stores): there a line's
//   versions are no chain.
// Over a crashed memory (Recorder's ground): a word is over the ground's word. If a store covers a part of a word whose
//   other bytes the ground has not decided, the word is *partial*: its values are numbers of PartialWords.
// Operations: Log::op() counts the instructions that made events. Their texts are made by operations(), since recording
//   a million stores must not make a million strings.
// The log may be that of another recording (Shared): that of the files that the same program writes. Events and
//   locations of the other one are no memory: is_own().
// Threads: written by one Recorder; read-only once the log is sealed.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "persist/recording.h"
#include "pmem/line_table.h"
#include "pmem/model.h"
#include "pmem/thread_order.h"

namespace crashcut::pmem {

enum class EventKind : std::uint8_t {
  kStore,
  kNonTemporalStore,
  kClflush,
  kFence,  // sfence, mfence or a locked instruction: what it waited for
  kMark,
  kMoment,  // nothing on the medium shows it: the end of a store of several words, or of everything so far
  kOther,   // of another model that shares the log
};
inline constexpr Address kNoAddress = ~Address{0};
inline constexpr std::uint32_t kNoOp = ~std::uint32_t{0};

struct EventInfo {
  Address address = 0;
  // The event that wrote the word before this one did, where the store covers a part of one word only.
  persist::EventId previous = persist::kNoEvent;
  PlaceId place = 0;
  std::uint16_t thread = 0;
  EventKind kind = EventKind::kMoment;
  std::uint8_t bytes = 0;  // of a store: within one line
  StoreForm form = StoreForm::kPlain;
};

enum class FlushKind : std::uint8_t {
  kClflush,
  kClwb,  // and clflushopt
  kSfence,
  kMfence,  // and locked instructions
};

// A flush or fence instruction, as it took its place. Most leave no event.
struct FlushInfo {
  Address address = 0;            // of a flush
  persist::EventId position = 0;  // how many events came before it
  PlaceId place = 0;
  std::uint32_t op = kNoOp;  // its operation, if no event is of that
  std::uint16_t thread = 0;
  FlushKind kind = FlushKind::kClwb;
  // A flush of a line of which nothing waits to be flushed; a fence that has nothing to wait for.
  bool is_redundant = false;
};

// A word of which only some bytes are known: the others are the ground's.
struct PartialWord {
  std::uint64_t bytes = 0;
  ByteMask known = 0;
};

// What a recording keeps of a line. All zero for a line that was never used.
struct Line {
  std::uint32_t location[kWordsPerLine];  // + 1; 0: not written
  persist::EventId last_end;              // the newest ordinary store + 1; 0: none
  std::uint32_t group;                    // the store of several words that it belongs to; 0: none
  std::uint32_t open_group;               // its number in the recorder's list + 1; 0: last_end says all
  persist::FenceSetId flush_past;         // what the flushes of this line come after
  persist::FenceId cover;                 // a fence that covers all ordinary stores of the line; 0: none
  std::uint8_t non_temporal_words;        // bit i: the newest store of word i is a non-temporal one
  std::uint16_t flusher;                  // the thread that flushed it last by clflushopt,
  persist::EventId flushed_end;           // and last_end then
};

class Recording final : public persist::Recording {
 public:
  explicit Recording(const MemoryModel& model) : memory_model(model) {}
  Recording(const MemoryModel& model, Shared shared) : persist::Recording(shared), memory_model(model) {}

  MemoryModel memory_model;
  std::vector<Region> regions;
  std::vector<std::string> region_names;
  std::vector<std::string> place_names;  // by PlaceId; may be shorter
  LineTable<Line> lines;
  std::vector<EventInfo> events;                               // by event
  std::vector<FlushInfo> flushes;                              // in the order in which they took effect
  std::vector<Meeting> meetings;                               // of threads, as they took place, if they are noted
  ThreadOrder order;                                           // of the meetings; once the log is sealed
  std::unordered_map<std::uint32_t, ThreadId> thread_of_mark;  // by operation: of marks that another model records
  std::vector<Address> address_of_location;  // of a mark: its number in mark_texts; kNoAddress: of another model
  std::vector<std::string> mark_texts;
  std::map<std::string, persist::LocationId, std::less<>> mark_locations;
  bool has_ground = false;
  std::vector<bool> partial_locations;        // by location; shorter where the rest are not partial
  std::vector<PartialWord> partial_words{1};  // [0] has no known byte: the ground's word as it is

  bool is_partial(persist::LocationId l) const { return l < partial_locations.size() && partial_locations[l]; }
  // The value of a location as bytes, and which of them are known.
  PartialWord word_of_value(persist::LocationId l, persist::Value value) const {
    return is_partial(l) ? partial_words[value] : PartialWord{value, kAllBytes};
  }
  bool is_own(persist::EventId event) const { return event < events.size() && events[event].kind != EventKind::kOther; }
  bool is_own_location(persist::LocationId location) const {
    return location < address_of_location.size() && address_of_location[location] != kNoAddress;
  }
  persist::LocationId add_location(Address address);
  // "pool+0x40"
  std::string describe_address(Address address) const;
  // "list.c:12" as it is known so far; empty: it is not known
  std::string_view name_of_place(PlaceId place) const {
    return place < place_names.size() ? std::string_view(place_names[place]) : std::string_view();
  }
  std::size_t memory_bytes() const;

  persist::ModelSpec model() const override { return memory_model.spec(); }
  std::vector<std::string> operations() const override;
  std::string_view kind_of(persist::EventId event) const override;
  bool is_sync(persist::EventId event) const override;
  std::string describe_event(persist::EventId event) const override;
  std::string describe_location(persist::LocationId location) const override;
  std::string describe_candidate(persist::LocationId location, const persist::Candidate& candidate) const override;
  std::vector<persist::Mark> marks() const override;
  bool is_mark(persist::LocationId location) const override;
  std::unique_ptr<persist::StableNames> stable_names() const override;

 private:
  std::string describe_place(PlaceId place) const;
  std::string describe_flush(const FlushInfo& flush) const;
};

}  // namespace crashcut::pmem
