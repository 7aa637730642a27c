#include "persist/fences.h"

#include <algorithm>

#include "persist/check.h"
#include "persist/hash.h"

namespace crashcut::persist {

FenceId Fences::add(EventId event, ScopeId scope, FenceSetId below) {
  CHECK(fences_.size() < kFirstLargeSet && above_.empty());
  if (by_scope_.size() <= scope) by_scope_.resize(scope + 1);
  const auto id = static_cast<FenceId>(fences_.size());
  const std::size_t first = below_.size();
  below_.resize(first + by_scope_.size(), 0);
  const auto take_over = [&](FenceId f) {
    const Fence& fence = fences_[f];
    for (std::uint32_t s = 0; s < fence.below_count; ++s) {
      below_[first + s] = std::max(below_[first + s], below_[fence.first_below + s]);
    }
  };
  if (!by_scope_[scope].empty()) take_over(by_scope_[scope].back());
  for (const FenceId f : members(below)) take_over(f);
  by_scope_[scope].push_back(id);
  const auto index = static_cast<std::uint32_t>(by_scope_[scope].size());
  below_[first + scope] = index;
  fences_.push_back(Fence{event, scope, index, first, static_cast<std::uint32_t>(by_scope_.size())});
  singles_.push_back(id);
  return id;
}

// A fence's row below names, for each scope, the last fence that is below it. Seen from there, it is the first one
// above, unless a later fence of that scope says less: rows do not fall, so the minimum over the later ones is the
// answer.
void Fences::seal() {
  const std::size_t width = by_scope_.size();
  above_.assign(fences_.size() * width, kNever);
  for (FenceId f = 1; f < fences_.size(); ++f) {
    const auto row = row_below(f);
    for (ScopeId s = 0; s < row.size(); ++s) {
      if (row[s] == 0) continue;
      std::uint32_t& first = above_[at(s, row[s]) * width + scope(f)];
      first = std::min(first, index(f));
    }
  }
  for (const auto& fences : by_scope_) {
    for (std::size_t i = fences.size(); i-- > 1;) {
      for (std::size_t s = 0; s < width; ++s) {
        std::uint32_t& first = above_[fences[i - 1] * width + s];
        first = std::min(first, above_[fences[i] * width + s]);
      }
    }
  }
  large_set_by_hash_ = {};
}

std::span<const std::uint32_t> Fences::row_below(FenceId f) const {
  return {below_.data() + fences_[f].first_below, fences_[f].below_count};
}

std::span<const std::uint32_t> Fences::row_above(FenceId f) const {
  return {above_.data() + f * by_scope_.size(), by_scope_.size()};
}

std::span<const FenceId> Fences::members(FenceSetId set) const {
  if (set == kNoFences) return {};
  if (set < kFirstLargeSet) return {singles_.data() + set, 1};
  const std::size_t i = set - kFirstLargeSet;
  return {large_sets_.data() + first_of_large_set_[i], first_of_large_set_[i + 1] - first_of_large_set_[i]};
}

bool Fences::is_at_or_below(FenceId low, FenceId high) const {
  const auto row = row_below(high);
  return scope(low) < row.size() && index(low) <= row[scope(low)];
}

bool Fences::reaches(FenceSetId low, FenceSetId high) const {
  for (const FenceId l : members(low)) {
    for (const FenceId h : members(high)) {
      if (is_at_or_below(l, h)) return true;
    }
  }
  return false;
}

// Both sets without the members that a member of the other implies. implies(f, g): a set with f needs no g.
template <class Implies>
FenceSetId Fences::unite(FenceSetId a, FenceSetId b, Implies&& implies) {
  if (a == b || b == kNoFences) return a;
  if (a == kNoFences) return b;
  united_.clear();
  const auto ours = members(a), others = members(b);
  for (const FenceId g : others) {
    if (std::none_of(ours.begin(), ours.end(), [&](FenceId f) { return implies(f, g); })) united_.push_back(g);
  }
  if (united_.empty()) return a;
  const bool has_all_others = united_.size() == others.size();
  const std::size_t kept_others = united_.size();
  for (const FenceId f : ours) {
    // A fence that is in both sets was left out of the others above.
    if (std::none_of(others.begin(), others.end(), [&](FenceId g) { return g != f && implies(g, f); })) {
      united_.push_back(f);
    }
  }
  if (has_all_others && united_.size() == kept_others) return b;
  return intern();
}

// The fences of one scope are a chain, and most sets have one member.
bool Fences::are_on_one_chain(FenceSetId a, FenceSetId b) const {
  return a != kNoFences && b != kNoFences && a < kFirstLargeSet && b < kFirstLargeSet && scope(a) == scope(b);
}

FenceSetId Fences::join(FenceSetId a, FenceSetId b) {
  if (are_on_one_chain(a, b)) return std::max(a, b);
  return unite(a, b, [&](FenceId f, FenceId g) { return is_at_or_below(g, f); });
}

FenceSetId Fences::meet(FenceSetId a, FenceSetId b) {
  if (are_on_one_chain(a, b)) return std::min(a, b);
  return unite(a, b, [&](FenceId f, FenceId g) { return is_at_or_below(f, g); });
}

// The number of the set in united_, the same one each time.
FenceSetId Fences::intern() {
  if (united_.size() == 1) return united_.front();
  std::sort(united_.begin(), united_.end());
  std::uint64_t hash = kHashStart;
  for (const FenceId f : united_) hash = mix(hash, f);
  const auto [begin, end] = large_set_by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (std::ranges::equal(members(it->second), united_)) return it->second;
  }
  const auto set = static_cast<FenceSetId>(kFirstLargeSet + first_of_large_set_.size() - 1);
  CHECK(set >= kFirstLargeSet);
  large_sets_.insert(large_sets_.end(), united_.begin(), united_.end());
  first_of_large_set_.push_back(large_sets_.size());
  large_set_by_hash_.emplace(hash, set);
  return set;
}

std::size_t Fences::memory_bytes() const {
  auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  std::size_t sum = bytes(fences_) + bytes(singles_) + bytes(by_scope_) + bytes(below_) + bytes(above_) +
                    bytes(large_sets_) + bytes(first_of_large_set_);
  for (const auto& fences : by_scope_) sum += bytes(fences);
  return sum;
}

}  // namespace crashcut::persist
