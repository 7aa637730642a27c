#include "scheduler/normal_form.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <span>

#include "scheduler/dependence.h"
#include "scheduler/hash.h"
#include "scheduler/primitives/semaphore.h"

namespace crashcut::scheduler {

namespace {

constexpr std::uint32_t kNowhere = 0xffffffff;

bool is_plain(const Operation& x, std::uint8_t verb) {
  return x.size() == 1 && primitive_of(x[0].object) == PrimitiveId::kSemaphore && x[0].verb == verb &&
         x[0].result != kUseAfterDestroy;
}

// Whether `y` can never be moved before `x`, an earlier step of another actor, whatever the count.
bool is_blocked_by(const Operation& y, const Operation& x) {
  if (!are_dependent(x, y)) return false;
  // A post before a wait that was enabled: it still is, and the count after both is the same.
  if (is_plain_post(y) && is_plain_wait(x)) return x[0].object != y[0].object;
  // A wait before a post: where there was something to take without it, which Counts knows.
  if (is_plain_wait(y) && is_plain_post(x)) return x[0].object != y[0].object;
  return true;
}

std::int64_t change_by(const Operation& x, ObjectId semaphore) {
  std::int64_t change = 0;
  for (const Access& a : x) {
    if (a.object != semaphore) continue;
    if (a.verb == semaphore::kPost && a.result != kUseAfterDestroy) change += a.argument == 0 ? 1 : a.argument;
    if (semaphore::takes(a)) --change;
  }
  return change;
}

using scheduler::mix;  // not hidden by the one below

// What an operation is and did.
std::uint64_t mix(std::uint64_t hash, const Operation& operation) {
  for (const Access& a : operation) {
    hash = mix(hash, std::uint64_t{static_cast<std::uint32_t>(a.object)} << 8 | a.verb);
    hash = mix(hash, static_cast<std::uint64_t>(a.argument));
    hash = mix(hash, static_cast<std::uint64_t>(a.result));
  }
  // What was foreseen of a call on files is what it met elsewhere: the swaps hold if it met the same.
  return operation.footprint() == nullptr ? hash : mix(hash, reinterpret_cast<std::uintptr_t>(operation.footprint()));
}

// Of one semaphore: its count, and the changes by steps that are not taken yet, in the order of the execution: how low
// the count comes on the way from the front to a step. Cheap at the front, where most steps are taken.
class Counts {
 public:
  void begin(std::int64_t count) { count_ = count; }
  std::uint32_t append(std::int64_t change) {
    changes_.push_back(change);
    return static_cast<std::uint32_t>(changes_.size() - 1);
  }
  void build() {
    leaves_ = std::bit_ceil(std::max<std::size_t>(changes_.size(), 1));
    nodes_.resize(2 * leaves_);
    for (std::size_t i = 0; i < changes_.size(); ++i) nodes_[leaves_ + i] = leaf_of(changes_[i]);
    for (std::size_t i = leaves_; i-- > 1;) nodes_[i] = joined(nodes_[2 * i], nodes_[2 * i + 1]);
    is_taken_.assign(changes_.size(), false);
  }
  // The step at the place is not there; or is again.
  void remove(std::uint32_t place) { set(place, 0); }
  void put_back(std::uint32_t place) { set(place, changes_[place]); }
  void take(std::uint32_t place) {
    count_ += changes_[place];
    ++version_;
    is_taken_[place] = true;
    if (place != first_) return set(place, 0);
    while (first_ < is_taken_.size() && is_taken_[first_]) ++first_;
  }
  // The lowest count before the step at the place, all the way from the first that is not taken.
  std::int64_t lowest_before(std::uint32_t place) const {
    if (place <= first_) return count_;
    Node left, right;
    for (std::size_t i = leaves_ + first_, end = leaves_ + place; i < end; i /= 2, end /= 2) {
      if (i % 2 == 1) left = joined(left, nodes_[i++]);
      if (end % 2 == 1) right = joined(nodes_[--end], right);
    }
    return count_ + joined(left, right).lowest;
  }
  // Rises when a step is taken.
  std::uint64_t version() const { return version_; }

 private:
  struct Node {
    std::int64_t sum = 0, lowest = 0;
  };
  static Node leaf_of(std::int64_t change) { return {change, std::min<std::int64_t>(change, 0)}; }
  static Node joined(const Node& x, const Node& y) { return {x.sum + y.sum, std::min(x.lowest, x.sum + y.lowest)}; }
  void set(std::uint32_t place, std::int64_t change) {
    std::size_t i = leaves_ + place;
    nodes_[i] = leaf_of(change);
    for (i /= 2; i > 0; i /= 2) nodes_[i] = joined(nodes_[2 * i], nodes_[2 * i + 1]);
  }

  std::int64_t count_ = 0;
  std::uint64_t version_ = 0;
  std::uint32_t first_ = 0;  // all before it are taken
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> changes_;
  std::vector<bool> is_taken_;
  std::vector<Node> nodes_;  // a tree over the changes; taken ones are 0, but for those before first_
};

// What the normal form asks of a step, in little room.
struct StepKind {
  std::uint64_t hash;  // what it is and did
  std::uint64_t kind;  // the same for operations that depend on the same
  bool is_post, is_wait;
};

// The same for operations that depend on the same, given a hash of what they are and did.
std::uint64_t kind_of(std::uint64_t hash, const Operation& x) {
  for (const Access& a : x) {
    hash = mix(hash, static_cast<std::uint64_t>(a.observed));
    hash = mix(hash, static_cast<std::uint64_t>(a.expected));
    hash = mix(hash, a.seen_host);
    hash = mix(hash, std::uint64_t{a.offset} << 24 | std::uint64_t{a.bytes} << 16 | std::uint64_t{a.order} << 8 |
                         (a.is_observed ? 1 : 0));
  }
  return hash;
}

std::vector<StepKind> kinds_of(std::span<const Step> steps) {
  std::vector<StepKind> kinds;
  kinds.reserve(steps.size());
  for (const Step& step : steps) {
    const std::uint64_t hash = mix(1, step.operation);
    kinds.push_back(
        {hash, kind_of(hash, step.operation), is_plain_post(step.operation), is_plain_wait(step.operation)});
  }
  return kinds;
}

class Normaliser {
 public:
  // `order` are places in `steps`, a permutation that is an execution.
  Normaliser(std::span<const Step> steps, std::span<const StepKind> kinds, std::span<const ObjectStart> objects,
             std::vector<std::uint32_t> order)
      : steps_(steps), kinds_(kinds), order_(std::move(order)), is_alive_(order_.size(), true) {
    note_semaphores(objects);
    note_own();
    note_blockers();
  }

  // The places in normal order.
  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> ordered;
    ordered.reserve(order_.size());
    while (ordered.size() < order_.size()) {
      const Choice choice = choose();
      Own& own = owns_[choice.actor];
      bool is_last;
      do {
        const std::uint32_t k = own.next;
        is_last = !choice.takes_block || is_post(k);
        take(own, k);
        ordered.push_back(order_[k]);
      } while (!is_last);
    }
    return ordered;
  }

 private:
  // The steps of one actor, as far as they are left.
  struct Own {
    std::uint32_t next = kNowhere, last = kNowhere;
    // Why what it does up to its next post cannot come first, once that was looked at: another's step, or a count.
    std::uint32_t blocker = kNowhere, semaphore = kNowhere;
    std::uint64_t version = 0;
  };
  struct Choice {
    std::size_t actor;
    bool takes_block;
  };
  // The last of an actor's steps that touch an object and are alike.
  struct Touch {
    std::uint64_t kind;
    std::uint32_t actor, last;
  };
  // A step's change of a semaphore's count: its place in Counts.
  struct Change {
    std::uint32_t semaphore, place;
  };

  const Operation& operation(std::uint32_t k) const { return steps_[order_[k]].operation; }
  bool is_post(std::uint32_t k) const { return kinds_[order_[k]].is_post; }
  bool is_wait(std::uint32_t k) const { return kinds_[order_[k]].is_wait; }
  std::uint32_t actor(std::uint32_t k) const { return index(steps_[order_[k]].actor); }

  void note_semaphores(std::span<const ObjectStart> objects) {
    std::uint32_t objects_most = 0;
    for (const Step& step : steps_) {
      for (const Access& a : step.operation) objects_most = std::max(objects_most, index(a.object) + 1);
    }
    touches_.resize(objects_most);
    semaphore_of_.assign(objects_most, kNowhere);
    for (const ObjectStart& start : objects) {
      if (primitive_of(start.object) != PrimitiveId::kSemaphore || index(start.object) >= objects_most) continue;
      counts_[number_of(start.object)].begin(semaphore::count(start));
    }
    for (std::uint32_t k = 0; k < order_.size(); ++k) {
      first_change_.push_back(static_cast<std::uint32_t>(changes_.size()));
      const Operation& x = operation(k);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto is_same = [&](const Access& a) { return a.object == x[i].object; };
        if (primitive_of(x[i].object) != PrimitiveId::kSemaphore || std::any_of(x.begin(), x.begin() + i, is_same))
          continue;
        const std::uint32_t number = number_of(x[i].object);
        changes_.push_back({number, counts_[number].append(change_by(x, x[i].object))});
      }
    }
    first_change_.push_back(static_cast<std::uint32_t>(changes_.size()));
    for (Counts& counts : counts_) counts.build();
  }
  std::uint32_t number_of(ObjectId semaphore) {
    std::uint32_t& number = semaphore_of_[index(semaphore)];
    if (number == kNowhere) {
      number = static_cast<std::uint32_t>(counts_.size());
      counts_.emplace_back().begin(0);
    }
    return number;
  }
  std::span<const Change> changes_of(std::uint32_t k) const {
    return std::span(changes_).subspan(first_change_[k], first_change_[k + 1] - first_change_[k]);
  }

  void note_own() {
    next_own_.assign(order_.size(), kNowhere);
    has_post_.assign(order_.size(), false);
    for (std::uint32_t k = 0; k < order_.size(); ++k) {
      if (actor(k) >= owns_.size()) owns_.resize(actor(k) + 1);
      Own& own = owns_[actor(k)];
      (own.next == kNowhere ? own.next : next_own_[own.last]) = k;
      own.last = k;
    }
    for (std::uint32_t k = static_cast<std::uint32_t>(order_.size()); k-- > 0;) {
      has_post_[k] = is_post(k) || (next_own_[k] != kNowhere && has_post_[next_own_[k]]);
    }
  }

  // Of every step, the earlier ones of other actors that it can never pass. Of an actor's steps the last of these is
  // enough: they are taken in order. Of steps that are alike, too: what is blocked by one is blocked by all.
  void note_blockers() {
    for (const Step& step : steps_) {
      if (const ObjectId host = host_ended_by(step.operation); host != kNoHost) touches_of_hosts_[host];
    }
    std::vector<Touch> meets_all;  // steps that depend on every other
    std::vector<std::uint32_t> newest(owns_.size(), kNowhere);
    for (std::uint32_t k = 0; k < order_.size(); ++k) {
      first_blocker_.push_back(static_cast<std::uint32_t>(blockers_.size()));
      const Operation& x = operation(k);
      if (depends_on_all(x)) {
        for (std::uint32_t a = 0; a < newest.size(); ++a) {
          if (newest[a] != kNowhere && a != actor(k)) blockers_.push_back(newest[a]);
        }
        note_touch(meets_all, k, 0);
      } else {
        for (const Touch& touch : meets_all) {
          if (touch.actor != actor(k)) blockers_.push_back(touch.last);
        }
        const std::uint64_t kind = kinds_[order_[k]].kind;
        for (std::size_t i = 0; i < x.size(); ++i) add_blockers(k, touches_[index(x[i].object)]);
        for (std::size_t i = 0; i < x.size(); ++i) note_touch(touches_[index(x[i].object)], k, kind);
        note_hosts(k);
      }
      newest[actor(k)] = k;
    }
    first_blocker_.push_back(static_cast<std::uint32_t>(blockers_.size()));
  }
  void add_blockers(std::uint32_t k, const std::vector<Touch>& touches) {
    for (const Touch& touch : touches) {
      if (touch.actor != actor(k) && is_blocked_by(operation(k), operation(touch.last))) add_blocker(k, touch);
    }
  }
  // Of each host that ends: the end, and the steps that depend on it.
  void note_hosts(std::uint32_t k) {
    for (auto& [host, touches] : touches_of_hosts_) {
      const bool is_end = host_ended_by(operation(k)) == host;
      if (!is_end && !depends_on_host(operation(k), host)) continue;
      add_blockers(k, touches);
      note_touch(touches, k, is_end ? 1 : 0);
    }
  }
  void add_blocker(std::uint32_t k, const Touch& touch) {
    for (std::size_t i = first_blocker_[k]; i < blockers_.size(); ++i) {
      if (actor(blockers_[i]) != touch.actor) continue;
      blockers_[i] = std::max(blockers_[i], touch.last);
      return;
    }
    blockers_.push_back(touch.last);
  }
  void note_touch(std::vector<Touch>& touches, std::uint32_t k, std::uint64_t kind) const {
    const auto it = std::find_if(touches.begin(), touches.end(),
                                 [&](const Touch& t) { return t.actor == actor(k) && t.kind == kind; });
    if (it == touches.end()) {
      touches.push_back({kind, actor(k), k});
    } else {
      it->last = k;
    }
  }
  void take(Own& own, std::uint32_t k) {
    is_alive_[k] = false;
    for (const Change& change : changes_of(k)) counts_[change.semaphore].take(change.place);
    own.next = next_own_[k];
    own.blocker = own.semaphore = kNowhere;
  }

  // Of the steps that can come first: a post, then what is no wait, then a wait with all up to the next post, then a
  // wait alone; of several, the lowest actor's.
  Choice choose() {
    std::size_t plain = owns_.size(), lone = owns_.size();
    for (std::size_t a = 0; a < owns_.size(); ++a) {
      const std::uint32_t k = owns_[a].next;
      if (k == kNowhere || is_wait(k) || (!is_post(k) && plain != owns_.size()) || blocker_of(k) != kNowhere) continue;
      if (is_post(k)) return {a, false};
      plain = a;
    }
    if (plain != owns_.size()) return {plain, false};
    for (std::size_t a = 0; a < owns_.size(); ++a) {
      const std::uint32_t k = owns_[a].next;
      if (k == kNowhere || !is_wait(k) || blocker_of(k) != kNowhere || !is_wait_enabled(k, 0)) continue;
      if (is_block(owns_[a])) return {a, true};
      if (lone == owns_.size()) lone = a;
    }
    CHECK(lone != owns_.size());
    return {lone, false};
  }

  // Whether all that the actor does from its wait, its next step, to its next post can come first, in one piece.
  bool is_block(Own& own) {
    if (!has_post_[own.next] || (own.blocker != kNowhere && is_alive_[own.blocker])) return false;
    if (own.semaphore != kNowhere && own.version == counts_[own.semaphore].version()) return false;
    own.blocker = own.semaphore = kNowhere;
    std::int64_t taken = 0;
    std::uint32_t k = own.next, removed = own.next;
    bool is = true;
    while (true) {
      // The actor's own steps do not count on the way. Only another wait asks for that.
      if (is_wait(k)) {
        for (; removed != k; removed = next_own_[removed]) {
          for (const Change& change : changes_of(removed)) counts_[change.semaphore].remove(change.place);
        }
      }
      is = can_follow(own, k, taken);
      if (!is || is_post(k)) break;
      // A second wait finds less, whichever semaphore it is of.
      if (is_wait(k)) ++taken;
      k = next_own_[k];
    }
    for (std::uint32_t i = own.next; i != removed; i = next_own_[i]) {
      for (const Change& change : changes_of(i)) counts_[change.semaphore].put_back(change.place);
    }
    return is;
  }
  bool can_follow(Own& own, std::uint32_t k, std::int64_t taken) {
    own.blocker = blocker_of(k);
    if (own.blocker != kNowhere) return false;
    if (!is_wait(k) || is_wait_enabled(k, taken)) return true;
    own.semaphore = changes_of(k)[0].semaphore;
    own.version = counts_[own.semaphore].version();
    return false;
  }

  // A step of another actor that must come before this one.
  std::uint32_t blocker_of(std::uint32_t k) const {
    for (std::uint32_t i = first_blocker_[k]; i < first_blocker_[k + 1]; ++i) {
      if (is_alive_[blockers_[i]]) return blockers_[i];
    }
    return kNowhere;
  }
  // Whether the wait would be enabled all the way to the front, with `taken` units less.
  bool is_wait_enabled(std::uint32_t k, std::int64_t taken) const {
    const Change& change = changes_of(k)[0];
    return counts_[change.semaphore].lowest_before(change.place) > taken;
  }

  std::span<const Step> steps_;
  std::span<const StepKind> kinds_;
  std::vector<std::uint32_t> order_;
  std::vector<bool> is_alive_;
  std::vector<Own> owns_;                    // an actor
  std::vector<std::uint32_t> next_own_;      // a step: the actor's next
  std::vector<bool> has_post_;               // a step: whether the actor posts, then or later
  std::vector<std::vector<Touch>> touches_;  // an object
  std::map<ObjectId, std::vector<Touch>> touches_of_hosts_;
  std::vector<std::uint32_t> first_blocker_, blockers_;
  std::vector<Counts> counts_;
  std::vector<std::uint32_t> semaphore_of_;  // an object: its place in counts_
  std::vector<std::uint32_t> first_change_;  // a step
  std::vector<Change> changes_;
};

}  // namespace

bool is_plain_post(const Operation& x) { return is_plain(x, semaphore::kPost); }
bool is_plain_wait(const Operation& x) { return is_plain(x, semaphore::kWait); }

std::uint64_t normal_form(const Execution& execution) {
  const std::vector<StepKind> kinds = kinds_of(execution.steps);
  std::vector<std::uint32_t> order(execution.steps.size());
  std::iota(order.begin(), order.end(), 0u);
  // The second time on high counts: what the first had to leave behind a low one now finds its place.
  for (int pass = 0; pass < 2; ++pass)
    order = Normaliser(execution.steps, kinds, execution.objects, std::move(order)).run();
  std::uint64_t hash = 0;
  for (const std::uint32_t k : order) hash = mix(mix(hash, index(execution.steps[k].actor)), kinds[k].hash);
  return hash;
}

}  // namespace crashcut::scheduler
