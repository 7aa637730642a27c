// Notes: what may be a mistake in the use of persistent memory, and may be meant, found in a recording and in the loads
// of recoveries.
//
// Redundant flush: a flush of a line of which nothing waits to be flushed, or that was flushed already and not stored
//   to since. Redundant fence: an sfence that has nothing to wait for. (mfence and locked instructions do more.)
// Overwrite: a store to bytes whose last store no completed flush had made durable yet.
// Torn: one store instruction that writes to two lines, so that a crash may leave either half.
// Not robust, after PSan (Gorjiara et al., PLDI 2022): a recovery loaded what no crash leaves if stores persist in the
//   order of the program. That is: it found a store, and it found that an earlier one was lost. The stores of one
//   operation (the words of a copy) have no order. What is earlier in another thread: thread_order.h.
// Race, after Yashme (Gorjiara et al., ASPLOS 2022): a load finds a plain store of at most 8 bytes, and as far as the
//   recovery has loaded, the crash may have come before a flush of it was complete. A compiler may tear plain stores,
//   so the load might find a part of it. Atomic stores are whole.
// Unpersisted, after PMRace (Chen et al., ASPLOS 2022): a thread loads what another one has stored and nobody has made
//   durable. A later store of that thread is made durable by a completed flush, while the other one still need not be:
//   a crash may leave the effect without its cause. (Whether the later store depends on what was loaded is not known:
//   may report what is meant.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "persist/choices.h"
#include "pmem/recording.h"

namespace crashcut::pmem {

enum class NoteKind : std::uint32_t {
  kRedundantFlush = 1,
  kRedundantFence = 2,
  kOverwrite = 4,
  kTorn = 8,
  kNotRobust = 16,
  kRace = 32,
  kUnpersisted = 64,
};
inline bool has_note(std::uint32_t kinds, NoteKind kind) { return (kinds & static_cast<std::uint32_t>(kind)) != 0; }

struct Note {
  NoteKind kind;
  PlaceId place = 0;        // of the flush, fence or store
  PlaceId other = 0;        // of the store that is overwritten, or was loaded before it was durable
  PlaceId load = 0;         // of that load
  std::uint64_t count = 0;  // how often it was executed so
  std::uint64_t all = 0;    // how often the place was executed
  Address address = 0;      // of the first
};
// What the recording itself tells, the most frequent first.
std::vector<Note> find_notes(const Recording& recording, std::uint32_t kinds);

// What a recovery has found out about the moment of the crash, if stores persisted in the order of the program.
class CrashMoment {
 public:
  // A load of these bytes took this candidate of a location. `code` is the load.
  // True: from now on there is no such moment, which was not so before. Then lost() came before found().
  bool add(const Recording& recording, persist::LocationId location, const persist::Candidate& candidate,
           ByteMask bytes, std::uint64_t code);
  persist::EventId lost() const { return lost_; }
  persist::EventId found() const { return found_; }
  // The load that found the older value.
  std::uint64_t code() const { return code_; }

 private:
  // Of one thread.
  struct Stores {
    persist::EventId newest_found = persist::kNoEvent;
    persist::EventId oldest_lost = persist::kNoEvent;
    std::uint64_t code = 0;  // that found the latter lost
  };
  Stores& stores_of(const Recording& recording, persist::EventId event);
  void find(const Recording& recording, persist::EventId event);
  void lose(const Recording& recording, persist::EventId event, std::uint64_t code);
  bool find_pair(const Recording& recording);

  // Of a wide store whose other pieces need not be lost.
  struct LostPiece {
    persist::EventId event;
    std::uint64_t code;
  };

  std::vector<Stores> threads_;
  std::vector<LostPiece> lost_pieces_;
  persist::EventId found_ = persist::kNoEvent, lost_ = persist::kNoEvent;
  std::uint64_t code_ = 0;
  bool is_over_ = false;
};

// The plain store that a load found in the candidate, if a compiler may tear it; else kNoEvent.
persist::EventId plain_store_of(const Recording& recording, persist::LocationId location,
                                const persist::Candidate& candidate);

}  // namespace crashcut::pmem
