#include "pmem/crash_view.h"

#include <algorithm>
#include <utility>

#include "persist/check.h"

namespace crashcut::pmem {

using persist::Candidate;
using persist::LocationId;
using persist::Value;

namespace {

// Looks at some bytes of a word.
class SameBytes final : public persist::SameToReader {
 public:
  explicit SameBytes(ByteMask bytes) : bits_(bits_of(bytes)) {}
  bool is_same(Value a, Value b) const override { return ((a ^ b) & bits_) == 0; }

 private:
  std::uint64_t bits_;
};

// The same for partial words: bytes that are not known are the ground's, decided there or not.
class SamePartialBytes final : public persist::SameToReader {
 public:
  SamePartialBytes(const Recording& recording, ByteMask bytes, PartialWord below)
      : recording_(recording), bytes_(bytes), below_(below) {}
  bool is_same(Value a, Value b) const override {
    const PartialWord first = resolve(a), second = resolve(b);
    if (((first.known ^ second.known) & bytes_) != 0) return false;
    return ((first.bytes ^ second.bytes) & bits_of(static_cast<ByteMask>(bytes_ & first.known))) == 0;
  }

 private:
  PartialWord resolve(Value value) const {
    PartialWord word = recording_.partial_words[value];
    const auto from_below = static_cast<ByteMask>(below_.known & ~word.known);
    word.bytes = (word.bytes & bits_of(word.known)) | (below_.bytes & bits_of(from_below));
    word.known |= from_below;
    return word;
  }

  const Recording& recording_;
  ByteMask bytes_;
  PartialWord below_;
};

}  // namespace

CrashView::CrashView(const Recording& recording, persist::Cut& cut, persist::Chooser& chooser, Medium* below,
                     persist::LayerId layer)
    : recording_(recording), cut_(cut), chooser_(chooser), below_(below), layer_(layer) {
  CHECK(recording.has_ground == (below != nullptr));
  for (const Region& region : recording.regions) lines_.add(region);
}

void CrashView::load_lines(Address address, std::span<std::byte> out) {
  while (!out.empty()) {
    const std::size_t bytes = std::min<std::size_t>(out.size(), kLineBytes - address % kLineBytes);
    load(address, out.first(bytes));
    address += bytes;
    out = out.subspan(bytes);
  }
}

void CrashView::decide(Line& line, Address address, std::uint64_t wanted) {
  const WordNumber first_word = address / kLineBytes * kWordsPerLine;
  ++changes_;
  for (unsigned i = 0; i < kWordsPerLine; ++i) {
    const auto bytes = static_cast<ByteMask>(wanted >> (8 * i));
    const auto decided = static_cast<ByteMask>(line.decided >> (8 * i));
    if ((bytes & ~decided) == 0) continue;
    const PartialWord word = decide_word(first_word + i, static_cast<ByteMask>(bytes & ~decided));
    std::uint64_t all = 0;
    std::memcpy(&all, line.bytes + 8 * i, kWordBytes);
    const auto added = static_cast<ByteMask>(word.known & ~decided);  // decided bytes may have been overwritten
    all = (all & ~bits_of(added)) | (word.bytes & bits_of(added));
    std::memcpy(line.bytes + 8 * i, &all, kWordBytes);
    line.decided |= std::uint64_t{added} << (8 * i);
  }
}

void CrashView::overwrite(Address address, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t in_line = address % kLineBytes;
    const std::size_t count = std::min<std::size_t>(bytes.size(), kLineBytes - in_line);
    Line& line = find_line(address);
    const std::uint64_t written = (~std::uint64_t{0} >> (kLineBytes - count)) << in_line;
    const bool is_same =
        (line.decided & written) == written && std::memcmp(line.bytes + in_line, bytes.data(), count) == 0;
    changes_ += is_same ? 0 : 1;
    std::memcpy(line.bytes + in_line, bytes.data(), count);
    line.decided |= written;
    address += count;
    bytes = bytes.subspan(count);
  }
}

// Its location + 1; 0: the recorded execution has not written it.
std::uint32_t CrashView::location_of(WordNumber word) const {
  const pmem::Line* line = std::as_const(recording_.lines).find(word * kWordBytes);
  return line == nullptr ? 0 : line->location[word % kWordsPerLine];
}

PartialWord CrashView::decide_word(WordNumber word, ByteMask bytes) {
  PartialWord result;
  const std::uint32_t location = location_of(word);
  if (location == 0) {
    if (below_ == nullptr) return PartialWord{0, kAllBytes};
  } else {
    const Candidate candidate = choose(location - 1, word, bytes);
    if (candidate.first >= 0 || below_ == nullptr) result = recording_.word_of_value(location - 1, candidate.value);
    // A run of several writes is equal in the bytes looked at, and perhaps in no others.
    if (candidate.first != candidate.last) result.known &= bytes;
  }
  if (const auto missing = static_cast<ByteMask>(bytes & ~result.known); missing != 0) {
    result.bytes = (result.bytes & bits_of(result.known)) | below_->read_word(word, missing);
    result.known |= missing;
  }
  return result;
}

void CrashView::find_candidates(LocationId location, WordNumber word, ByteMask bytes) {
  PartialWord below{recording_.log.initial(location), kAllBytes};
  if (below_ != nullptr) below.known = below_->known_bytes(word, below.bytes);
  candidates_.clear();
  if (recording_.is_partial(location)) {
    const Value ground = 0;  // partial_words[0]
    cut_.add_candidates(location, &ground, SamePartialBytes(recording_, bytes, below), candidates_);
  } else {
    const bool is_known = (bytes & ~below.known) == 0;
    cut_.add_candidates(location, is_known ? &below.bytes : nullptr, SameBytes(bytes), candidates_);
  }
}

// As persist::Cut::read(), over what lies below. The oldest candidate may begin below: first is -1.
Candidate CrashView::choose(LocationId location, WordNumber word, ByteMask bytes) {
  find_candidates(location, word, bytes);
  asked_bytes_ = bytes;
  if (candidates_.size() == 1) {
    if (note_certain_) note_certain_(location, candidates_.front());
    return candidates_.front();
  }
  for (Candidate& candidate : candidates_) candidate.layer = layer_;
  const std::uint32_t taken = chooser_.choose(persist::Choice{recording_.log, location, candidates_, layer_});
  CHECK(taken < candidates_.size());
  const Candidate candidate = candidates_[taken];
  cut_.settle(location, candidate);
  return candidate;
}

std::uint64_t CrashView::read_word(WordNumber word, ByteMask bytes) {
  Line& line = find_line(word * kWordBytes);
  const unsigned shift = 8 * static_cast<unsigned>(word % kWordsPerLine);
  const std::uint64_t wanted = std::uint64_t{bytes} << shift;
  if ((line.decided & wanted) != wanted) decide(line, word * kWordBytes, wanted);
  std::uint64_t value = 0;
  std::memcpy(&value, line.bytes + shift, kWordBytes);
  return value & bits_of(bytes);
}

// Bytes of which there is one candidate left are decided by that.
ByteMask CrashView::known_bytes(WordNumber word, std::uint64_t& value) {
  Line& line = find_line(word * kWordBytes);
  const unsigned shift = 8 * static_cast<unsigned>(word % kWordsPerLine);
  for (unsigned byte = 0; byte < kWordBytes; ++byte) {
    const auto mask = static_cast<ByteMask>(1u << byte);
    const bool is_decided = (line.decided >> shift & mask) != 0;
    if (!is_decided && is_certain(word, mask)) decide(line, word * kWordBytes, std::uint64_t{mask} << shift);
  }
  const auto known = static_cast<ByteMask>(line.decided >> shift);
  std::memcpy(&value, line.bytes + shift, kWordBytes);
  value &= bits_of(known);
  return known;
}

// Whether reading the bytes would ask nothing.
bool CrashView::is_certain(WordNumber word, ByteMask bytes) {
  std::uint64_t value = 0;
  const std::uint32_t location = location_of(word);
  ByteMask from_below = bytes;
  if (location != 0) {
    find_candidates(location - 1, word, bytes);
    if (candidates_.size() > 1) return false;
    const Candidate& only = candidates_.front();
    if (only.first >= 0) from_below &= ~recording_.word_of_value(location - 1, only.value).known;
  }
  return below_ == nullptr || from_below == 0 || (below_->known_bytes(word, value) & from_below) == from_below;
}

std::uint64_t CrashView::times_reached(std::string_view mark) {
  const auto found = recording_.mark_locations.find(mark);
  return found == recording_.mark_locations.end() ? 0 : cut_.read(found->second, chooser_);
}

}  // namespace crashcut::pmem
