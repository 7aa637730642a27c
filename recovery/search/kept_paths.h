// KeptPaths: the paths of recoveries whose states a report shows: the first of each outcome, then others.
//
// Bounded, as a search may run millions of recoveries and a path may have thousands of answers.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "persist/choices.h"

namespace crashcut::search {

class KeptPaths {
 public:
  struct Entry {
    std::size_t question = 0;
    std::uint64_t outcome = 0;  // a hash of the outcome and of how the recovery failed
    persist::Path path;
  };
  static constexpr std::size_t kEntriesMost = 1000;
  static constexpr std::size_t kAnswersMost = 200'000;  // of all paths

  // Whether add() keeps a path of so many answers. Most recoveries of a long search are not kept, and need not be
  // copied.
  bool wants(std::uint64_t outcome, std::size_t answers) const {
    if (firsts_.size() >= kEntriesMost || answers > kAnswersMost - answers_) return false;
    return firsts_.size() + others_.size() < kEntriesMost || !outcomes_.contains(outcome);
  }
  void add(const Entry& entry);
  void add(const KeptPaths& other);
  // The first of each outcome, then the others.
  std::vector<Entry> entries() const;

 private:
  std::unordered_set<std::uint64_t> outcomes_;
  std::vector<Entry> firsts_, others_;
  std::size_t answers_ = 0;
};

}  // namespace crashcut::search
