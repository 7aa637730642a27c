#include "tests/block_oracle.h"

#include <algorithm>

namespace crashcut::tests {
namespace {

using Kind = OracleRequest::Kind;
constexpr int kNever = 1'000'000;

class Oracle {
 public:
  Oracle(const OracleDrive& drive, const std::vector<OracleRequest>& requests, const std::vector<OracleStep>& steps,
         int sector_count, int mark_count)
      : drive_(drive), requests_(requests), sector_count_(sector_count), mark_count_(mark_count) {
    step_count_ = static_cast<int>(steps.size());
    issued_.assign(requests.size(), kNever);
    completed_.assign(requests.size(), kNever);
    for (int at = 0; at < static_cast<int>(steps.size()); ++at) {
      const OracleStep& step = steps[static_cast<std::size_t>(at)];
      const auto number = static_cast<std::size_t>(step.request);
      if (step.kind == OracleStep::Kind::kIssue) issued_[number] = at;
      if (step.kind == OracleStep::Kind::kComplete) completed_[number] = at;
      if (step.kind == OracleStep::Kind::kMark) marks_.push_back({number, at});
      if (step.kind == OracleStep::Kind::kDurable) durable_ = at;
    }
    for (const OracleRequest& request : requests) went_to_.push_back(request.first);
    misdirect(0);
  }

  std::set<OracleImage> images;

 private:
  // This write and those behind it go to their places, or to where any other request begins, or anywhere.
  void misdirect(std::size_t w) {
    if (w == requests_.size()) return crash();
    misdirect(w + 1);
    const OracleRequest& write = requests_[w];
    if ((write.kind != Kind::kWrite && write.kind != Kind::kZero) || issued_[w] < durable_) return;
    if (fault_count_ == drive_.faults) return;
    std::set<int> places;
    for (const OracleRequest& other : requests_) {
      if (drive_.has_misdirected && other.kind != Kind::kFlush) places.insert(other.first);
    }
    for (int sector = 0; drive_.has_misdirected_any && sector < sector_count_; ++sector) places.insert(sector);
    ++fault_count_;
    for (const int place : places) {
      if (place == write.first || place + write.count > sector_count_) continue;
      went_to_[w] = place;
      misdirect(w + 1);
    }
    --fault_count_;
    went_to_[w] = write.first;
  }

  void crash() {
    for (end_ = durable_ + 1; end_ <= step_count_; ++end_) {
      left_.assign(requests_.size(), 0);
      choose_survivors(0);
    }
  }

  // The power fails before step end_. A write must be there whole by then.
  bool must_survive(std::size_t w) const {
    const OracleRequest& write = requests_[w];
    if (issued_[w] < durable_) return true;
    if (drive_.cache == OracleDrive::Cache::kLies || write.kind == Kind::kDiscard) return false;
    if (!write.is_buffered && (write.is_fua || drive_.cache == OracleDrive::Cache::kNone) && completed_[w] < end_)
      return true;
    for (std::size_t f = 0; f < requests_.size(); ++f) {
      const OracleRequest& flush = requests_[f];
      if (flush.is_buffered && drive_.cache != OracleDrive::Cache::kNone) continue;  // only written back
      if (flush.kind == Kind::kFlush && completed_[f] < end_ && completed_[w] < issued_[f]) return true;
    }
    return false;
  }

  // Whether these sectors of a write, as bits, are what a tear can leave.
  bool can_be_left(const OracleRequest& write, unsigned left) const {
    const unsigned all = (1u << write.count) - 1;
    if (left == 0 || left == all) return true;
    if (drive_.tear == OracleDrive::Tear::kNone) return false;
    const bool crosses = drive_.boundary_sectors > 0 && write.first / drive_.boundary_sectors !=
                                                            (write.first + write.count - 1) / drive_.boundary_sectors;
    if (write.count <= drive_.atomic_sectors && !crosses) return false;
    return drive_.tear == OracleDrive::Tear::kAny || (left & (left + 1)) == 0;
  }

  void choose_survivors(std::size_t w) {
    if (w == requests_.size()) return choose_order(0, OracleImage(static_cast<std::size_t>(sector_count_), 0));
    const OracleRequest& write = requests_[w];
    left_[w] = 0;
    if (write.kind == Kind::kFlush || issued_[w] >= end_) return choose_survivors(w + 1);
    const unsigned all = (1u << write.count) - 1;
    for (unsigned left = must_survive(w) ? all : 0; left <= all; ++left) {
      if (!can_be_left(write, left)) continue;
      left_[w] = left;
      choose_survivors(w + 1);
    }
  }

  bool has_left(std::size_t w, int sector) const {
    const int at = sector - went_to_[w];
    return requests_[w].kind != Kind::kFlush && at >= 0 && at < requests_[w].count && ((left_[w] >> at) & 1) != 0;
  }

  // A write can be the newest of a sector if no other survivor was issued after it had completed.
  void choose_order(int sector, OracleImage image) {
    if (sector == sector_count_) return choose_faults(0, fault_count_, image);
    bool is_written = false;
    for (std::size_t w = 0; w < requests_.size(); ++w) {
      if (!has_left(w, sector)) continue;
      is_written = true;
      bool can_be_newest = true;
      for (std::size_t other = 0; other < requests_.size(); ++other) {
        if (has_left(other, sector) && completed_[w] < issued_[other]) can_be_newest = false;
      }
      if (!can_be_newest) continue;
      image[static_cast<std::size_t>(sector)] = requests_[w].kind == Kind::kWrite ? requests_[w].value : 0;
      choose_order(sector + 1, image);
    }
    if (!is_written) choose_order(sector + 1, image);
  }

  // Sectors that a write was issued for before the power failed.
  bool can_be_bad(int sector) const {
    if (drive_.has_bad_any) return true;
    if (!drive_.has_bad_written) return false;
    for (std::size_t w = 0; w < requests_.size(); ++w) {
      const OracleRequest& r = requests_[w];
      const bool is_there = sector >= r.first && sector < r.first + r.count;
      if (r.kind != Kind::kFlush && is_there && issued_[w] < end_) return true;
    }
    return false;
  }

  void choose_faults(int sector, int count, OracleImage image) {
    if (sector == sector_count_) {
      image.resize(static_cast<std::size_t>(sector_count_ + mark_count_), 0);
      for (const auto& [mark, at] : marks_) {
        if (at < end_) image[static_cast<std::size_t>(sector_count_) + mark] = 1;
      }
      images.insert(image);
      return;
    }
    choose_faults(sector + 1, count, image);
    if (count == drive_.faults || !can_be_bad(sector)) return;
    for (const int fault : {kUnreadable, kGarbage}) {
      image[static_cast<std::size_t>(sector)] = fault;
      choose_faults(sector + 1, count + 1, image);
    }
  }

  const OracleDrive& drive_;
  const std::vector<OracleRequest>& requests_;
  int sector_count_, mark_count_;
  std::vector<int> issued_, completed_;  // the step
  std::vector<std::pair<std::size_t, int>> marks_;
  int end_ = 0;
  int step_count_ = 0;
  int fault_count_ = 0;         // writes that went elsewhere
  std::vector<int> went_to_;    // the first sector of each write
  int durable_ = -1;            // the last step that made all durable
  std::vector<unsigned> left_;  // of each request
};

}  // namespace

std::set<OracleImage> all_images(const OracleDrive& drive, const std::vector<OracleRequest>& requests,
                                 const std::vector<OracleStep>& steps, int sector_count, int mark_count) {
  return Oracle(drive, requests, steps, sector_count, mark_count).images;
}

}  // namespace crashcut::tests
