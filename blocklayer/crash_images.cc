#include "blocklayer/crash_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "persist/hash.h"

namespace crashcut::blocklayer {
namespace {

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return persist::hash_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

// Reads the trace: block writes, and what was open at each moment.
class CrashImages::Collector final : public DeviceTrace::Visitor {
 public:
  Collector(CrashImages& images, const DriveOptions& drive, const ImageBase& base)
      : images_(images), drive_(drive), base_(base), zeroes_(images.block_bytes()) {}

  void on_issue(RequestId id, const Request& request) override {
    ++requests_;
    State& state = states_[id];
    state.kind = request.kind;
    state.makes_durable = request.is_fua && drive_.cache != Cache::kLies;
    state.first = static_cast<std::uint32_t>(images_.writes_.size());
    if (request.kind == RequestKind::kFlush) {
      state.covered = completed_.size();
      return;
    }
    for (std::uint64_t i = 0; i < request.count; ++i) add(request, i);
    state.end = static_cast<std::uint32_t>(images_.writes_.size());
    for (std::uint32_t write = state.first; write < state.end; ++write) open_.push_back(write);
  }

  void on_complete(RequestId id) override {
    const auto found = states_.find(id);
    if (found == states_.end()) return;
    const State state = found->second;
    states_.erase(found);
    if (state.kind == RequestKind::kFlush) {
      if (drive_.cache == Cache::kLies) return;
      settle(completed_.begin() + static_cast<std::ptrdiff_t>(settled_),
             completed_.begin() + static_cast<std::ptrdiff_t>(std::max(state.covered, settled_)));
      settled_ = std::max(state.covered, settled_);
      return;
    }
    std::vector<std::uint32_t> own;
    for (std::uint32_t write = state.first; write < state.end; ++write) own.push_back(write);
    if (state.makes_durable || drive_.cache == Cache::kNone) {
      settle(own.begin(), own.end());
    } else {
      completed_.insert(completed_.end(), own.begin(), own.end());
    }
  }

  void on_mark(std::string_view text) override { images_.marks_.emplace_back(text); }

  // What came before is the starting state.
  void on_durable() override {
    images_.moments_.clear();
    open_.clear();
    completed_.clear();
    settled_ = 0;
    for (auto& [id, state] : states_) state.covered = 0;
  }

  void finish() { end_moment(); }

 private:
  struct State {
    RequestKind kind = RequestKind::kWrite;
    bool makes_durable = false;
    std::uint32_t first = 0, end = 0;  // its block writes
    std::size_t covered = 0;           // kFlush: of completed_ when it was issued
  };

  void add(const Request& request, std::uint64_t index) {
    const std::uint64_t block = request.first + index;
    const std::uint32_t size = images_.block_bytes();
    const bool is_zero = request.kind != RequestKind::kWrite;
    const auto bytes =
        is_zero ? std::span<const std::byte>(zeroes_) : images_.trace_->bytes(request.payload + index * size, size);
    const bool is_known = images_.base_hashes_.contains(block);
    if (!is_known && (block + 1) * size <= base_.bytes.size())
      images_.base_hashes_[block] = hash_bytes(base_.bytes.subspan(block * size, size));
    images_.writes_.push_back({block, is_zero ? kZeroed : request.payload + index * size, hash_bytes(bytes), requests_,
                               base_.kind_of ? base_.kind_of(block, bytes) : BlockKind::kPlain});
  }

  template <class Iterator>
  void settle(Iterator begin, Iterator end) {
    if (begin == end) return;
    end_moment();
    const std::unordered_set<std::uint32_t> settled(begin, end);
    std::erase_if(open_, [&](std::uint32_t write) { return settled.contains(write); });
  }

  void end_moment() {
    images_.moments_.push_back({requests_, static_cast<std::uint32_t>(images_.marks_.size()),
                                static_cast<std::uint32_t>(images_.writes_.size()), open_});
  }

  CrashImages& images_;
  const DriveOptions& drive_;
  const ImageBase& base_;
  std::vector<std::byte> zeroes_;
  std::uint32_t requests_ = 0;
  std::unordered_map<RequestId, State> states_;  // of the requests in flight
  std::vector<std::uint32_t> open_, completed_;
  std::size_t settled_ = 0;  // of completed_
};

CrashImages::CrashImages(std::shared_ptr<const DeviceTrace> trace, const DriveOptions& drive, const ImageBounds& bounds,
                         const ImageBase& base, std::unordered_set<std::uint64_t>& seen)
    : trace_(std::move(trace)) {
  Collector collector(*this, drive, base);
  trace_->visit(collector);
  collector.finish();
  for (std::uint32_t moment = 0; moment < moments_.size(); ++moment) choose(moment, drive, bounds, base, seen);
}

// Takes every n-th of `count` items, so that at most a share of the room goes to them.
std::size_t CrashImages::step_for(std::size_t count, std::size_t share, const ImageBounds& bounds) {
  return std::max<std::size_t>(1, share * count / std::max<std::uint32_t>(bounds.subsets, 1));
}

std::vector<CrashImages::Span> CrashImages::plain_requests(const Atoms& atoms) const {
  std::vector<Span> requests;
  for (std::size_t i = 0; i < atoms.size(); ++i) {
    const BlockWrite& write = writes_[atoms[i].front()];
    if (write.kind != BlockKind::kPlain) continue;
    const bool goes_on =
        !requests.empty() && requests.back().end == i && writes_[atoms[i - 1].front()].request == write.request;
    if (goes_on) {
      ++requests.back().end;
    } else {
      requests.push_back({i, i + 1});
    }
  }
  return requests;
}

void CrashImages::choose(std::uint32_t moment, const DriveOptions& drive, const ImageBounds& bounds,
                         const ImageBase& base, std::unordered_set<std::uint64_t>& seen) {
  const std::vector<std::uint32_t>& open = moments_[moment].open;
  const bool commits =
      std::any_of(open.begin(), open.end(), [&](std::uint32_t w) { return writes_[w].kind == BlockKind::kCommit; });
  Atoms atoms;
  std::vector<std::uint32_t> hidden;
  for (const std::uint32_t write : open) {
    if (writes_[write].kind == BlockKind::kJournal && !commits) {
      hidden.push_back(write);
      continue;
    }
    const bool is_whole =
        drive.tear == Tear::kNone && !atoms.empty() && writes_[atoms.back().back()].request == writes_[write].request;
    if (is_whole) {
      atoms.back().push_back(write);
    } else {
      atoms.push_back({write});
    }
  }
  const std::size_t count = atoms.size();
  std::size_t made = 0;
  const auto add = [&](const std::vector<bool>& lost, bool loses_hidden = false) {
    if (made >= bounds.subsets) return;
    ++made;
    Image image{moment, {}};
    if (loses_hidden) image.lost = hidden;
    bool is_torn = false;
    for (std::size_t i = 0; i < count; ++i) {
      // A prefix: behind the first block of a request that is lost all are.
      const bool is_same = i > 0 && writes_[atoms[i - 1].back()].request == writes_[atoms[i].front()].request;
      is_torn = lost[i] || (drive.tear == Tear::kPrefix && is_same && is_torn);
      if (is_torn) image.lost.insert(image.lost.end(), atoms[i].begin(), atoms[i].end());
    }
    std::sort(image.lost.begin(), image.lost.end());
    ++chosen_count_;
    if (seen.insert(hash_of(image, base)).second) images_.push_back(std::move(image));
  };
  std::vector<bool> lost(count, false);
  add(lost);
  add(std::vector<bool>(count, true), true);
  constexpr std::size_t kAllMost = 16;
  if (count <= kAllMost && (std::size_t{1} << count) <= bounds.subsets) {
    made = 0;
    for (std::size_t subset = 1; subset + 1 < std::size_t{1} << count; ++subset) {
      for (std::size_t i = 0; i < count; ++i) lost[i] = (subset >> i & 1) != 0;
      add(lost);
    }
    return;
  }
  // What a filesystem is most likely to get wrong, for a quarter of the room: the journal came through and nothing else
  // did; one request was lost, or its second half.
  for (std::size_t i = 0; i < count; ++i) lost[i] = writes_[atoms[i].front()].kind == BlockKind::kPlain;
  add(lost);
  const std::vector<Span> requests = plain_requests(atoms);
  const std::size_t request_step = step_for(requests.size(), 8, bounds);
  for (std::size_t i = 0; i < requests.size(); i += request_step) {
    const Span& request = requests[i];
    for (const std::size_t begin : {request.begin, request.begin + (request.end - request.begin + 1) / 2}) {
      for (std::size_t atom = 0; atom < count; ++atom) lost[atom] = begin <= atom && atom < request.end;
      if (begin < request.end) add(lost);
    }
  }
  // One half of the room, at even distances.
  const std::size_t step = step_for(count, 6, bounds);
  for (std::size_t end = 1; end < count; end += step) {
    for (std::size_t i = 0; i < count; ++i) lost[i] = i >= end;
    add(lost);
  }
  for (const bool loses_one : {true, false}) {
    for (std::size_t one = 0; one < count; one += step) {
      lost.assign(count, !loses_one);
      lost[one] = loses_one;
      add(lost);
    }
  }
  std::mt19937_64 random(persist::mix(bounds.seed, moment));
  while (made < bounds.subsets) {
    const std::uint64_t share = 1 + random() % 7;
    for (std::size_t i = 0; i < count; ++i) lost[i] = random() % 8 < share;
    add(lost);
  }
}

std::unordered_map<std::uint64_t, std::uint32_t> CrashImages::newest(const Image& image) const {
  std::unordered_map<std::uint64_t, std::uint32_t> newest;
  auto lost = image.lost.begin();
  for (std::uint32_t write = 0; write < moments_[image.moment].writes; ++write) {
    if (lost != image.lost.end() && *lost == write) {
      ++lost;
    } else {
      newest[writes_[write].block] = write;
    }
  }
  return newest;
}

// Of the blocks that differ from the base, in any order, and of the marks.
std::uint64_t CrashImages::hash_of(const Image& image, const ImageBase& base) const {
  const auto newest_writes = newest(image);
  const auto base_of = [&](std::uint64_t block) { return base.bytes.subspan(block * block_bytes(), block_bytes()); };
  std::optional<ImageBase::Replayed> replayed;
  if (base.replay) {
    const std::vector<std::byte> zeroes(block_bytes());
    replayed = base.replay([&](std::uint64_t block) -> std::span<const std::byte> {
      const auto found = newest_writes.find(block);
      if (found == newest_writes.end()) return base_of(block);
      return writes_[found->second].payload == kZeroed ? zeroes : bytes_of(writes_[found->second]);
    });
  }
  std::uint64_t hash = persist::mix(persist::kHashStart, moments_[image.moment].marks);
  if (replayed) hash = persist::mix(hash, 1);
  const auto add = [&](std::uint64_t block, std::uint64_t of_bytes) {
    hash ^= persist::mix(persist::mix(persist::kHashStart, block), of_bytes);
  };
  for (const auto& [block, write] : newest_writes) {
    const bool is_hidden = replayed && (writes_[write].kind != BlockKind::kPlain || replayed->contains(block));
    const auto known = base_hashes_.find(block);
    if (is_hidden || (known != base_hashes_.end() && known->second == writes_[write].hash)) continue;
    add(block, writes_[write].hash);
  }
  if (!replayed) return hash;
  for (const auto& [block, bytes] : *replayed) {
    if (bytes.empty()) continue;
    const bool is_inside = (block + 1) * block_bytes() <= base.bytes.size();
    if (is_inside && std::equal(bytes.begin(), bytes.end(), base_of(block).begin())) continue;
    add(block, hash_bytes(bytes));
  }
  return hash;
}

std::span<const std::byte> CrashImages::bytes_of(const BlockWrite& write) const {
  return write.payload == kZeroed ? std::span<const std::byte>() : trace_->bytes(write.payload, block_bytes());
}

std::vector<CrashImages::Block> CrashImages::blocks_of(const Image& image) const {
  std::vector<Block> blocks;
  for (const auto& [block, write] : newest(image)) {
    const auto base = base_hashes_.find(block);
    if (base != base_hashes_.end() && base->second == writes_[write].hash) continue;
    blocks.push_back({block * block_bytes(), bytes_of(writes_[write])});
  }
  return blocks;
}

std::vector<std::string> CrashImages::marks_of(const Image& image) const {
  return {marks_.begin(), marks_.begin() + moments_[image.moment].marks};
}

std::string CrashImages::describe(const Image& image) const {
  const Moment& moment = moments_[image.moment];
  return fmt::format("the power fails after request {} of {}; blocks that no flush had covered: {}, of which lost: {}",
                     moment.requests, request_count(), moment.open.size(), image.lost.size());
}

}  // namespace crashcut::blocklayer
