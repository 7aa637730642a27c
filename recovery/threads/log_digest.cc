#include "recovery/threads/log_digest.h"

#include <algorithm>

#include "persist/hash.h"

namespace crashcut::recovery {

namespace {

constexpr std::size_t kEventsMost = 20'000;  // the order of more is not worth comparing

class Hash {
 public:
  void add(std::uint64_t value) {
    a_ = persist::mix(a_, value);
    b_ = persist::mix(b_ + 0x632be59bd9b4e019, value);
  }
  std::pair<std::uint64_t, std::uint64_t> value() const { return {a_, b_}; }

 private:
  std::uint64_t a_ = 1, b_ = 2;
};

// Reads what is there; once something was not, ok() is false and everything reads as 0.
class DigestWords {
 public:
  explicit DigestWords(std::span<const std::uint64_t> words) : words_(words) {}
  std::uint64_t next(std::uint64_t most = ~std::uint64_t{0}) {
    if (at_ >= words_.size() || words_[at_] > most) ok_ = false;
    return ok_ ? words_[at_++] : 0;
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::uint64_t> words_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace

std::optional<LogDigest> LogDigest::read(std::span<const std::uint64_t> words) {
  DigestWords in(words);
  LogDigest log;
  const std::uint64_t event_count = in.next(kEventsMost), barrier_count = in.next(event_count);
  in.next();
  std::vector<std::uint32_t> barriers{0};
  for (std::uint64_t b = 0; in.ok() && b < barrier_count; ++b)
    barriers.push_back(static_cast<std::uint32_t>(in.next(event_count)));
  for (std::uint64_t e = 0; in.ok() && e < event_count; ++e) {
    const std::uint64_t epoch = in.next(barrier_count), own = in.next(barrier_count);
    Event event{in.next(1) == 1, {}};
    // A barrier's epoch is itself; it follows the barrier before it.
    const std::uint64_t follows = own != 0 ? own - 1 : epoch;
    if (follows != 0) event.before.push_back(barriers[follows]);
    const std::uint64_t count = in.next(event_count);
    for (std::uint64_t i = 0; in.ok() && i < count; ++i)
      event.before.push_back(static_cast<std::uint32_t>(in.next(e == 0 ? 0 : e - 1)));
    log.events_.push_back(std::move(event));
  }
  const std::uint64_t location_count = in.next();
  for (std::uint64_t l = 0; in.ok() && l < location_count; ++l) {
    Location location{in.next(), in.next(), {}};
    const std::uint64_t count = in.next(event_count);
    for (std::uint64_t i = 0; in.ok() && i < count; ++i) {
      const auto event = static_cast<std::uint32_t>(in.next(event_count - 1));
      location.history.push_back({event, in.next()});
    }
    if (!location.history.empty()) log.locations_.push_back(std::move(location));
  }
  if (!in.ok()) return std::nullopt;
  std::sort(log.locations_.begin(), log.locations_.end(),
            [](const Location& x, const Location& y) { return x.name < y.name; });
  return log;
}

LogDigest::Projection LogDigest::project(std::span<const std::uint64_t> names) const {
  constexpr std::uint32_t kUnseen = ~std::uint32_t{0};
  const auto is_seen = [&](std::uint64_t name) {
    return name != 0 && std::binary_search(names.begin(), names.end(), name);
  };
  Hash hash;
  // Events are numbered as they first come, location by location.
  std::vector<std::uint32_t> number(events_.size(), kUnseen);
  std::vector<std::uint32_t> in_order;
  for (const Location& location : locations_) {
    if (!is_seen(location.name) && !is_seen(location.listing)) continue;
    hash.add(location.name);
    hash.add(location.history.size());
    for (const Write& write : location.history) {
      if (number[write.event] == kUnseen) {
        number[write.event] = static_cast<std::uint32_t>(in_order.size());
        in_order.push_back(write.event);
      }
      hash.add(number[write.event]);
      hash.add(write.value);
    }
  }
  // Which of these come before which others, directly or not.
  const std::size_t words = (in_order.size() + 63) / 64;
  std::vector<std::uint64_t> below(events_.size() * words, 0);
  for (std::size_t e = 0; e < events_.size(); ++e) {
    for (const std::uint32_t p : events_[e].before) {
      for (std::size_t w = 0; w < words; ++w) below[e * words + w] |= below[p * words + w];
      if (number[p] != kUnseen) below[e * words + number[p] / 64] |= std::uint64_t{1} << number[p] % 64;
    }
  }
  Projection projection{hash.value(), std::vector<std::uint64_t>(words, 0)};
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    const std::uint32_t e = in_order[i];
    if (events_[e].is_durable) projection.order[i / 64] |= std::uint64_t{1} << i % 64;
    projection.order.insert(projection.order.end(), below.begin() + static_cast<std::ptrdiff_t>(e * words),
                            below.begin() + static_cast<std::ptrdiff_t>((e + 1) * words));
  }
  return projection;
}

// Whether all that it orders, and all that it has durable, the other does too.
static bool is_weaker(const std::vector<std::uint64_t>& order, const std::vector<std::uint64_t>& other) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if ((order[i] & ~other[i]) != 0) return false;
  }
  return true;
}

bool SeenLogs::has(const LogDigest& log) const {
  return std::any_of(views_.begin(), views_.end(), [&](const View& view) {
    const LogDigest::Projection mine = log.project(view.names);
    const auto known = view.orders.find(mine.history);
    if (known == view.orders.end()) return false;
    return std::any_of(known->second.begin(), known->second.end(),
                       [&](const std::vector<std::uint64_t>& order) { return is_weaker(order, mine.order); });
  });
}

void SeenLogs::add(const LogDigest& log, std::vector<std::uint64_t> names) {
  auto view = std::find_if(views_.begin(), views_.end(), [&](const View& v) { return v.names == names; });
  if (view == views_.end()) view = views_.insert(view, {std::move(names), {}});
  LogDigest::Projection mine = log.project(view->names);
  view->orders[mine.history].push_back(std::move(mine.order));
}

}  // namespace crashcut::recovery
