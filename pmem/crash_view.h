// CrashView: the persistent memory that a recovery finds, decided while it loads.
//
// A load decides the bytes that it looks at and no others. Stores that differ in other bytes only are one candidate.
//   A byte that is decided stays as it is until reset(): the view keeps it, and a second load of it does not ask the
//   cut.
// A second crash is a view over the first: bytes that the second recording did not write are asked of `below`, whose
//   cut is refined further. (Recorder with this view as its ground, then a view of that recording over this one.)
// Stores of the recovery: overwrite() if nothing crashes afterwards; else a Recorder with this view as its ground.
// Invariants: (1) each sequence of answers of the chooser leads to different reads-from; (2) reset() costs nothing in
//   proportion to the memory.
// Cost: a load of decided bytes is a lookup, a comparison and a copy.
// Threads: one view belongs to one thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "persist/choices.h"
#include "persist/cut.h"
#include "pmem/medium.h"
#include "pmem/recording.h"

namespace crashcut::pmem {

class CrashView final : public Medium {
 public:
  // All outlive the view. `below` is the view that the recorded execution itself ran on, or null; `layer` is the number
  // of crashes before this one.
  CrashView(const Recording& recording, persist::Cut& cut, persist::Chooser& chooser, Medium* below = nullptr,
            persist::LayerId layer = 0);

  // For the next recovery, after the cut's own reset().
  void reset() { ++generation_; }

  // The bytes at an address of a region, any number of them.
  void load(Address address, std::span<std::byte> out) {
    const std::size_t in_line = address % kLineBytes;
    if (in_line + out.size() > kLineBytes) return load_lines(address, out);
    Line& line = find_line(address);
    const std::uint64_t wanted = (~std::uint64_t{0} >> (kLineBytes - out.size())) << in_line;
    if ((line.decided & wanted) != wanted) [[unlikely]]
      decide(line, address, wanted);
    std::memcpy(out.data(), line.bytes + in_line, out.size());
  }

  // A region that the recorded execution did not have: all zero.
  void add_region(const Region& region) { lines_.add(region); }
  // The recovery stores bytes. What they were before stays open.
  void overwrite(Address address, std::span<const std::byte> bytes);

  // From now on `note` is told of each word that had one candidate, so that nothing was asked. For an account of all
  // that a recovery finds.
  using NoteCertain = std::function<void(persist::LocationId, const persist::Candidate&)>;
  void tell_of_certain(NoteCertain note) { note_certain_ = std::move(note); }

  // Of the word that was decided last: the bytes that were looked at.
  ByteMask asked_bytes() const { return asked_bytes_; }

  // How often bytes were decided or changed.
  std::uint64_t change_count() const { return changes_; }

  std::uint64_t read_word(WordNumber word, ByteMask bytes) override;
  ByteMask known_bytes(WordNumber word, std::uint64_t& value) override;

  // Calls visit(address, bytes) for each line of which something is decided; the other bytes of it are zero.
  template <class Visit>
  void for_each_decided_line(Visit&& visit) const {
    lines_.for_each([&](Address address, const Line& line) {
      if (line.generation != generation_ || line.decided == 0) return;
      std::byte bytes[kLineBytes];
      for (unsigned i = 0; i < kLineBytes; ++i) bytes[i] = (line.decided >> i & 1) != 0 ? line.bytes[i] : std::byte{0};
      visit(address, std::span<const std::byte, kLineBytes>(bytes));
    });
  }

  // Whether the program had reached the mark when the power failed, and how often. A mark that it never made: 0.
  std::uint64_t times_reached(std::string_view mark);

 private:
  struct Line {
    std::uint64_t decided;  // bit i: byte i
    std::uint64_t generation;
    std::byte bytes[kLineBytes];
  };

  Line& find_line(Address address) {
    Line* line = lines_.find(address);
    CHECK(line != nullptr);
    if (line->generation != generation_) [[unlikely]]
      *line = Line{.decided = 0, .generation = generation_, .bytes = {}};
    return *line;
  }
  void load_lines(Address address, std::span<std::byte> out);
  void decide(Line& line, Address address, std::uint64_t wanted);
  std::uint32_t location_of(WordNumber word) const;
  // Decides bytes of a word. The result has all bytes that are decided by that.
  PartialWord decide_word(WordNumber word, ByteMask bytes);
  bool is_certain(WordNumber word, ByteMask bytes);
  void find_candidates(persist::LocationId location, WordNumber word, ByteMask bytes);
  persist::Candidate choose(persist::LocationId location, WordNumber word, ByteMask bytes);

  const Recording& recording_;
  persist::Cut& cut_;
  persist::Chooser& chooser_;
  Medium* below_;
  persist::LayerId layer_;
  LineTable<Line> lines_;
  std::uint64_t generation_ = 1;
  std::uint64_t changes_ = 0;
  std::vector<persist::Candidate> candidates_;
  NoteCertain note_certain_;
  ByteMask asked_bytes_ = 0;
};

}  // namespace crashcut::pmem
