#include "fusefs/places.h"

#include <algorithm>
#include <unordered_set>

#include "persist/check.h"

namespace crashcut::fusefs {

using persist::Candidate;
using persist::EventId;
using persist::kNoEvent;
using persist::LocationId;
using persist::LocationWrite;
using persist::Origin;
using persist::SharedPlace;
using persist::Value;

std::span<const LocationWrite> Places::history(BlockId id, std::uint32_t sector) const {
  const LocationId location = block(id).sectors[sector];
  return location == kNoLocation ? std::span<const LocationWrite>{} : recording_.log.history(location);
}

// Whether some data of the block is there for certain.
bool Places::is_written(BlockId id, std::uint32_t sector) const {
  const auto writes = history(id, sector);
  if (writes.empty()) return false;
  if (recording_.log.is_chain(block(id).sectors[sector])) return cut_.is_in(writes.front().event);
  return std::any_of(writes.begin(), writes.end(), [&](const LocationWrite& w) { return cut_.is_in(w.event); });
}

// With *in* closed downwards and *out* upwards: what is to be in is not out, what is to be out is not in, and nothing
// that is to be in lies above something that is to be out.
bool Places::is_possible(const Option& option) const {
  const auto is_out = [&](EventId e) { return cut_.is_out(e); };
  const auto is_in = [&](EventId e) { return cut_.is_in(e); };
  if (std::any_of(option.in.begin(), option.in.end(), is_out)) return false;
  if (std::any_of(option.out.begin(), option.out.end(), is_in)) return false;
  return std::none_of(option.in.begin(), option.in.end(), [&](EventId high) {
    return std::any_of(option.out.begin(), option.out.end(), [&](EventId low) { return cut_.is_below(low, high); });
  });
}

std::unordered_set<BlockId> Places::placed_blocks() const {
  std::unordered_set<BlockId> placed;
  for (const auto& [shown, place] : cut_.places()) placed.insert(place.members.begin(), place.members.end());
  return placed;
}

// Whether it is freed for certain, and all of its data is there for certain.
bool Places::is_settled(BlockId id) const {
  if (!cut_.is_in(block(id).freed_by) || !cut_.is_in(block(id).freed_at)) return false;
  for (std::uint32_t sector = 0; sector < block(id).sectors.size(); ++sector) {
    const auto writes = history(id, sector);
    if (!writes.empty() && !cut_.is_in(writes.back().event)) return false;
  }
  return true;
}

// Adds an option for each run of writes of option.source that can be the newest there. option.out has the first write
// of each newer block of the place.
void Places::add_runs(const Reading& reading, Option option, std::vector<Option>& options) const {
  const auto writes = history(option.source, reading.sector);
  const LocationId location = block(option.source).sectors[reading.sector];
  std::size_t first = 0;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (cut_.is_in(writes[i].event)) first = i;
  }
  const std::size_t in_count = option.in.size();
  const std::size_t out_count = option.out.size();
  for (std::size_t i = first; i < writes.size();) {
    std::size_t last = i;
    const auto joins = [&](std::size_t next) {
      return next < writes.size() && writes[next].chained && !cut_.is_out(writes[next].event) &&
             reading.same.is_same(writes[i].value, writes[next].value);
    };
    while (joins(last + 1)) ++last;
    option.in.resize(in_count);
    option.out.resize(out_count);
    option.in.push_back(writes[i].event);
    for (std::size_t later = last + 1; later < writes.size(); ++later) {
      option.out.push_back(writes[later].event);
      if (recording_.log.is_chain(location)) break;  // the rest lie above it
    }
    option.candidate = Candidate{static_cast<std::int32_t>(i), static_cast<std::int32_t>(last), writes[i].value,
                                 location, option.candidate.origin};
    if (is_possible(option)) options.push_back(option);
    i = last + 1;
  }
}

// From one that is part of the place already.
void Places::add_member_options(const Reading& reading, std::size_t member, std::vector<Option>& options) const {
  const auto& members = reading.place.members;
  Option option{{}, members[member]};
  option.candidate.origin = member == reading.at  ? Origin::kHere
                            : member > reading.at ? Origin::kLater
                                                  : Origin::kEarlier;
  for (std::size_t newer = member + 1; newer < members.size(); ++newer) {
    if (const auto writes = history(members[newer], reading.sector); !writes.empty()) {
      option.out.push_back(writes.front().event);
    }
  }
  add_runs(reading, std::move(option), options);
}

// Nothing of all that has persisted: what the place held before.
void Places::add_initial_option(const Reading& reading, std::vector<Option>& options) const {
  const LocationId own = block(reading.id).sectors[reading.sector];
  Option option{Candidate{-1, -1, recording_.log.initial(own), own}, kNoBlock};
  for (const BlockId member : reading.place.members) {
    const auto writes = history(member, reading.sector);
    if (!writes.empty()) option.out.push_back(writes.front().event);
  }
  if (is_possible(option)) options.push_back(std::move(option));
}

// From one that joins the place before the member number `insert_at`.
void Places::add_newcomer(const Reading& reading, BlockId id, std::size_t insert_at,
                          std::vector<Option>& options) const {
  const auto& [members, shown] = reading.place;
  Option option{{}, id, insert_at};
  const bool is_later = insert_at > reading.at;
  option.candidate.origin = is_later ? Origin::kLater : Origin::kEarlier;
  if (insert_at > 0) option.in.push_back(block(members[insert_at - 1]).freed_at);
  if (insert_at < members.size()) option.in.push_back(block(id).freed_at);
  if (is_later) {
    option.out = block(id).allocations;
    option.out.push_back(block(reading.id).freed_by);
  } else {
    option.in.push_back(block(id).freed_by);
  }
  for (const auto& [sector, source] : shown) {
    const auto at = std::find(members.begin(), members.end(), source);
    const bool is_older = source == kNoBlock || at < members.begin() + static_cast<std::ptrdiff_t>(insert_at);
    if (is_older && !history(id, sector).empty()) option.out.push_back(history(id, sector).front().event);
  }
  for (std::size_t newer = insert_at; newer < members.size(); ++newer) {
    if (const auto writes = history(members[newer], reading.sector); !writes.empty()) {
      option.out.push_back(writes.front().event);
    }
  }
  add_runs(reading, std::move(option), options);
}

void Places::add_takers(const Reading& reading, std::size_t insert_at, std::vector<Option>& options) const {
  const auto& members = reading.place.members;
  const BlockRecord& giver = block(members[insert_at - 1]);
  if (giver.freed_at == kNoEvent || cut_.is_in(block(reading.id).freed_by)) return;
  const persist::Log& log = recording_.log;
  std::unordered_set<BlockId> seen;
  for (BlockId id = giver.first_taker; id < recording_.blocks.size(); ++id) {
    const auto writes = history(id, reading.sector);
    if (writes.empty() || block(id).from_below) continue;
    // A sync before it has committed the freeing; so it has for all that follow.
    if (log.cover(block(reading.id).freed_by) <= log.epoch(writes.front().event)) break;
    if (!is_freed_before(members[insert_at - 1], id) || reading.elsewhere.contains(id)) continue;
    if (insert_at < members.size() && !is_freed_before(id, members[insert_at])) continue;
    const auto& allocations = block(id).allocations;
    const bool is_unseen =
        std::all_of(allocations.begin(), allocations.end(), [&](EventId e) { return cut_.is_out(e); });
    if (is_unseen && !seen.insert(recording_.look_alikes[id]).second) continue;
    add_newcomer(reading, id, insert_at, options);
  }
}

void Places::add_givers(const Reading& reading, std::size_t insert_at, std::vector<Option>& options) const {
  const auto& members = reading.place.members;
  if (block(members[insert_at]).from_below) return;  // it has had its place since before
  const auto end = std::partition_point(recording_.freed.begin(), recording_.freed.end(),
                                        [&](BlockId id) { return is_freed_before(id, members[insert_at]); });
  std::unordered_set<BlockId> seen;
  // The last one first: of several that leave the same behind, it has the fewest other takers.
  for (auto i = end - recording_.freed.begin(); i-- > 0;) {
    const BlockId id = recording_.freed[static_cast<std::size_t>(i)];
    if (id == reading.id || block(id).from_below || reading.elsewhere.contains(id)) continue;
    if (insert_at > 0 && !is_freed_before(members[insert_at - 1], id)) continue;
    if (is_settled(id) && !seen.insert(recording_.leftovers[id]).second) continue;
    add_newcomer(reading, id, insert_at, options);
  }
}

Value Places::read(BlockId id, std::uint32_t sector, const persist::SameToReader& same) {
  const auto known = cut_.places().find(id);
  const bool is_alone = known == cut_.places().end();
  // Nobody can have its place after it, and nothing that was there before shows.
  if (is_alone && block(id).freed_at == kNoEvent && is_written(id, sector)) {
    return cut_.read(block(id).sectors[sector], chooser_, same);
  }
  const SharedPlace place = is_alone ? SharedPlace{{id}, {}} : known->second;
  for (const auto& [shown, source] : place.shown) {
    if (shown == sector) return cut_.read(block(source == kNoBlock ? id : source).sectors[sector], chooser_, same);
  }
  const auto found = std::find(place.members.begin(), place.members.end(), id);
  const auto at = static_cast<std::size_t>(found - place.members.begin());
  Reading reading{id, sector, same, place, at, placed_blocks()};
  reading.elsewhere.insert(id);
  std::vector<Option> options;
  bool has_newcomers = false;
  bool is_bottom = false;
  // Newest first: a block that was in the place later hides those before it where its data has persisted for certain.
  for (std::size_t member = place.members.size(); member-- > 0 && !is_bottom;) {
    const std::size_t before = options.size();
    if (member >= at) add_takers(reading, member + 1, options);
    has_newcomers |= options.size() != before;
    add_member_options(reading, member, options);
    is_bottom = is_written(place.members[member], sector);
    if (is_bottom || member > at) continue;
    const std::size_t own = options.size();
    add_givers(reading, member, options);
    has_newcomers |= options.size() != own;
  }
  if (!has_newcomers && place.members.size() == 1) return cut_.read(block(id).sectors[sector], chooser_, same);
  if (!is_bottom) add_initial_option(reading, options);
  CHECK(!options.empty());
  std::size_t taken = 0;
  if (options.size() > 1) {
    std::vector<Candidate> candidates;
    for (const Option& option : options) candidates.push_back(option.candidate);
    taken = chooser_.choose(persist::Choice{recording_.log, block(id).sectors[sector], candidates});
    CHECK(taken < options.size());
  }
  const Value value = options[taken].candidate.value;
  take(reading, options[taken]);
  return value;
}

void Places::take(const Reading& reading, const Option& option) {
  for (const EventId e : option.in) cut_.include(e);
  for (const EventId e : option.out) cut_.exclude(e);
  SharedPlace place = reading.place;
  if (option.insert_at <= place.members.size()) {
    place.members.insert(place.members.begin() + static_cast<std::ptrdiff_t>(option.insert_at), option.source);
  }
  place.shown.emplace_back(reading.sector, option.source);
  cut_.places()[reading.id] = std::move(place);
}

}  // namespace crashcut::fusefs
