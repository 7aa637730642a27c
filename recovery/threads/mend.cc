#include "recovery/threads/mend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "recovery/result/words.h"
#include "recovery/threads/code.h"
#include "recovery/threads/story.h"
#include "scheduler/primitives/mutex.h"

namespace crashcut::recovery {
namespace {

using scheduler::ActorId;
using scheduler::ObjectId;
using scheduler::PrimitiveId;
using scheduler::runtime::AddedLock;
using scheduler::runtime::FindingKind;

constexpr std::size_t kAttemptsMost = 40;
constexpr std::size_t kPartsMost = 6;  // pieces of code of one change
constexpr double kLeastSearch_s = 5;
constexpr std::uint64_t kPartBytesMost = 1 << 20;

using Stack = std::vector<std::uint64_t>;

// What the source says of addresses that calls return to. They are the same in each execution.
class Source {
 public:
  Source(const ThreadPlan& plan, const ThreadFinding& finding, const std::function<bool()>& is_late)
      : executable_(plan.executable), base_(finding.details.program_base), story_(plan, finding, is_late) {}

  // The outermost of the functions that were inlined into one another there, but for those of libraries; one of a
  // header only if there is no other. None: there are only those of libraries.
  const std::optional<result::SourceLine>& own_at(std::uint64_t at) {
    const auto [known, is_new] = own_.try_emplace(at);
    if (!is_new) return known->second;
    for (const result::SourceLine& line : story_.stack_of(
             {.actor = ActorId{0}, .writes = false, .is_atomic = false, .frees = false, .step = 0, .frames = {at}})) {
      if (!line.function.empty() && !line.is_library) known->second = line;
    }
    return known->second;
  }
  // Where the calls between two such addresses return to. Empty: not known.
  std::vector<CallSite> calls_between(std::uint64_t first, std::uint64_t last) const {
    if (last - first > kPartBytesMost) return {};
    std::vector<CallSite> calls = recovery::calls_between(executable_, first - base_, last - base_);
    for (CallSite& call : calls) call.address += base_;
    return calls;
  }
  // In the executable.
  std::uint64_t address_of(std::uint64_t at) const { return at - base_; }

 private:
  std::string executable_;
  std::uint64_t base_;
  ThreadStory story_;
  std::map<std::uint64_t, std::optional<result::SourceLine>> own_;
};

// What a thread did at one place in the code.
struct Touch {
  ActorId actor{};
  std::size_t step = 0;    // how many steps were taken before it
  std::uint64_t what = 0;  // the object, or eight bytes of memory
  std::string function;    // of the program's own code
  std::uint64_t at = 0;    // in it
};

// A piece of code, in one function. Addresses are those that calls return to; `last` is in it.
struct Part {
  std::string function;
  std::uint64_t first = 0, last = 0;

  friend auto operator<=>(const Part&, const Part&) = default;
};

struct Change {
  enum class Kind { kHold, kEarly, kNew };
  Kind kind = Kind::kNew;
  std::vector<Part> parts;     // by function
  ObjectId mutex{};            // that is held, or taken early
  std::uint64_t mutex_at = 0;  // its address
  std::string target, before;  // names of it, and of the mutex that it is taken before

  // What it costs at run time, roughly: a lock more, at so many places, for so long.
  auto cost() const {
    std::uint64_t bytes = 0;
    for (const Part& part : parts) bytes += part.last - part.first;
    return std::tuple(kind != Kind::kEarly, parts.size(), bytes, kind, parts, mutex_at);
  }
  friend bool operator<(const Change& a, const Change& b) { return a.cost() < b.cost(); }
};

// The parts with another one. Parts of one function become one.
void add_part(std::vector<Part>& parts, const Part& part) {
  const auto at =
      std::find_if(parts.begin(), parts.end(), [&](const Part& other) { return other.function == part.function; });
  if (at == parts.end()) {
    parts.push_back(part);
    std::sort(parts.begin(), parts.end());
  } else {
    at->first = std::min(at->first, part.first);
    at->last = std::max(at->last, part.last);
  }
}

// What a violation shows: who did what where.
class Evidence {
 public:
  Evidence(const ThreadPlan& plan, const ThreadFinding& finding, Source& source)
      : finding_(finding), source_(source), story_(plan, finding) {
    for (const auto& [object, address] : finding.details.addresses) addresses_[object] = address;
    add_steps();
    if (finding.details.race) add_race(*finding.details.race);
  }

  // Changes that may help against it, in no order.
  std::vector<Change> changes() const {
    std::vector<Change> all;
    if (finding_.details.kind == FindingKind::kDeadlock) {
      add_deadlock(all);
    } else {
      if (finding_.details.race) add_race_changes(*finding_.details.race, all);
      add_conflicts(all);
    }
    return all;
  }

 private:
  // The innermost call in a function of the program, from there on outwards.
  std::optional<std::pair<std::string, std::uint64_t>> own_call(const Stack& stack) const {
    for (const std::uint64_t at : stack) {
      if (const auto& own = source_.own_at(at)) return std::pair(own->function, at);
    }
    return std::nullopt;
  }

  void add_touch(ActorId actor, std::size_t step, std::uint64_t what, const Stack& stack) {
    if (const auto call = own_call(stack)) touches_.push_back({actor, step, what, call->first, call->second});
  }

  void add_steps() {
    const auto& steps = finding_.execution.steps;
    for (std::size_t i = 0; i < steps.size() && i < finding_.details.stacks.size(); ++i) {
      if (!story_.is_thread(steps[i].actor)) continue;
      for (const scheduler::Access& access : steps[i].operation) {
        switch (primitive_of(access.object)) {
          case PrimitiveId::kThread:
          case PrimitiveId::kSpin:
          case PrimitiveId::kProcess:
            break;
          default:
            add_touch(steps[i].actor, i, what_is(access.object), finding_.details.stacks[i]);
        }
      }
    }
  }

  // An object of memory is eight bytes at its address.
  std::uint64_t what_is(ObjectId object) const {
    const auto at = addresses_.find(object);
    return primitive_of(object) == PrimitiveId::kMemory && at != addresses_.end()
               ? at->second
               : std::uint64_t{1} << 63 | static_cast<std::uint32_t>(object);
  }

  void add_race(const scheduler::runtime::Race& race) {
    for (const auto* side : {&race.first, &race.second})
      add_touch(side->actor, side->step, race.address & ~std::uint64_t{7}, side->frames);
  }

  // Code that touches any of these: of each function, from its first such place to the last.
  std::vector<Part> parts_of(const std::set<std::uint64_t>& what) const {
    std::vector<Part> parts;
    for (const Touch& touch : touches_) {
      if (what.contains(touch.what)) add_part(parts, {touch.function, touch.at, touch.at});
    }
    return parts;
  }

  std::set<std::uint64_t> touched_by_others(ActorId actor) const {
    std::set<std::uint64_t> all;
    for (const Touch& touch : touches_) {
      if (touch.actor != actor) all.insert(touch.what);
    }
    return all;
  }

  // What a thread shares with others in a function, where another thread touched some of that in between.
  std::set<std::set<std::uint64_t>> cut_together() const {
    std::map<std::pair<ActorId, std::string>, std::vector<Touch>> by_function;
    for (const Touch& touch : touches_) {
      if (touched_by_others(touch.actor).contains(touch.what))
        by_function[{touch.actor, touch.function}].push_back(touch);
    }
    std::set<std::set<std::uint64_t>> all;
    for (const auto& [who, own] : by_function) {
      std::set<std::uint64_t> what;
      for (const Touch& touch : own) what.insert(touch.what);
      const bool is_cut = std::any_of(touches_.begin(), touches_.end(), [&, actor = who.first](const Touch& touch) {
        return touch.actor != actor && what.contains(touch.what) && own.front().step < touch.step &&
               touch.step < own.back().step;
      });
      if (is_cut && what.size() > 1) all.insert(what);
    }
    return all;
  }

  // Whether another thread touched the same between two touches of a thread in one function.
  bool is_cut_in_two(std::uint64_t what) const {
    std::map<std::pair<ActorId, std::string>, std::pair<std::size_t, std::size_t>> spans;
    for (const Touch& touch : touches_) {
      if (touch.what != what) continue;
      const auto [at, is_new] = spans.try_emplace({touch.actor, touch.function}, touch.step, touch.step);
      at->second.second = std::max(at->second.second, touch.step);
      at->second.first = std::min(at->second.first, touch.step);
    }
    return std::any_of(touches_.begin(), touches_.end(), [&](const Touch& touch) {
      return touch.what == what && std::any_of(spans.begin(), spans.end(), [&](const auto& span) {
               return span.first.first != touch.actor && span.second.first < touch.step &&
                      touch.step <= span.second.second;
             });
    });
  }

  void add_new_lock(std::vector<Part> parts, std::vector<Change>& all) const {
    if (!parts.empty() && parts.size() <= kPartsMost)
      all.push_back({.kind = Change::Kind::kNew, .parts = std::move(parts)});
  }

  void add_conflicts(std::vector<Change>& all) const {
    std::set<std::uint64_t> cut;
    for (const Touch& touch : touches_) {
      if (is_cut_in_two(touch.what)) cut.insert(touch.what);
    }
    for (const std::uint64_t what : cut) add_new_lock(parts_of({what}), all);
    for (const std::set<std::uint64_t>& what : cut_together()) add_new_lock(parts_of(what), all);
    if (cut.size() < 2) return;
    add_new_lock(parts_of(cut), all);
    // What the threads did altogether in these functions.
    const std::vector<Part> parts = parts_of(cut);
    std::vector<Part> whole;
    for (const Touch& touch : touches_) {
      const auto is_its = [&](const Part& part) { return part.function == touch.function; };
      if (std::any_of(parts.begin(), parts.end(), is_its)) add_part(whole, {touch.function, touch.at, touch.at});
    }
    add_new_lock(std::move(whole), all);
  }

  // The mutexes that the thread holds after so many steps.
  std::vector<ObjectId> held_after(std::size_t count, ActorId actor) const {
    scheduler::State state(finding_.execution.objects);
    const auto& steps = finding_.execution.steps;
    for (std::size_t i = 0; i < std::min(count, steps.size()); ++i) {
      scheduler::Operation operation = steps[i].operation;
      state.apply(steps[i].actor, operation);
    }
    std::vector<ObjectId> held;
    for (const scheduler::ObjectStart& start : finding_.execution.objects) {
      if (primitive_of(start.object) == PrimitiveId::kMutex &&
          scheduler::mutex::is_held_by(state.object(start.object), actor))
        held.push_back(start.object);
    }
    return held;
  }

  // "mutex m" where a variable of the program is that mutex, and so is the same in each execution of the code.
  std::optional<std::string> fixed_name(ObjectId mutex) const {
    const auto at = addresses_.find(mutex);
    if (at == addresses_.end() || at->second == 0) return std::nullopt;
    const std::string name = story_.object_text(mutex);
    constexpr std::string_view kKind = "mutex ";
    const bool is_whole = name.starts_with(kKind) && !name.starts_with("mutex at ") &&
                          name.find_first_of("+[", kKind.size()) == name.npos;
    return is_whole ? std::optional(name) : std::nullopt;
  }

  void add_race_changes(const scheduler::runtime::Race& race, std::vector<Change>& all) const {
    std::vector<Part> both;
    const scheduler::runtime::Race::Side* sides[] = {&race.first, &race.second};
    for (const auto* side : sides) {
      const auto call = own_call(side->frames);
      if (!call) return;
      add_part(both, {call->first, call->second, call->second});
    }
    add_new_lock(both, all);
    for (const auto* side : sides) {
      const auto* other = side == sides[0] ? sides[1] : sides[0];
      const std::vector<ObjectId> has = held_after(other->step, other->actor);
      for (const ObjectId mutex : held_after(side->step, side->actor)) {
        const auto name = fixed_name(mutex);
        if (!name || std::find(has.begin(), has.end(), mutex) != has.end()) continue;
        const auto call = own_call(other->frames);
        all.push_back({.kind = Change::Kind::kHold,
                       .parts = {{call->first, call->second, call->second}},
                       .mutex = mutex,
                       .mutex_at = addresses_.at(mutex),
                       .target = *name});
      }
    }
  }

  // Where the thread locked what it holds: the stack of that step.
  const Stack* stack_of_lock(ActorId actor, ObjectId mutex) const {
    const auto& steps = finding_.execution.steps;
    for (std::size_t i = std::min(steps.size(), finding_.details.stacks.size()); i-- > 0;) {
      const scheduler::Access& access = steps[i].operation[0];
      if (steps[i].actor == actor && access.object == mutex && access.verb != scheduler::mutex::kUnlock)
        return &finding_.details.stacks[i];
    }
    return nullptr;
  }

  // From the call that locked one mutex to the call that waits for the other: in the innermost function that both are
  // in, or are called from.
  std::optional<Part> part_between(const Stack& from, const Stack& to) const {
    for (const std::uint64_t end : to) {
      const auto at_end = source_.own_at(end);
      for (const std::uint64_t begin : from) {
        const auto& at_begin = source_.own_at(begin);
        if (at_end && at_begin && at_begin->function == at_end->function)
          return Part{at_end->function, std::min(begin, end), std::max(begin, end)};
      }
    }
    return std::nullopt;
  }

  void add_deadlock(std::vector<Change>& all) const {
    std::vector<Part> gates;
    const std::size_t steps = finding_.execution.steps.size();
    for (std::size_t i = 0; i < finding_.execution.pending.size(); ++i) {
      const scheduler::Pending& waiting = finding_.execution.pending[i];
      const ObjectId wanted = waiting.operation[0].object;
      if (!story_.is_thread(waiting.actor) || primitive_of(wanted) != PrimitiveId::kMutex) continue;
      if (i >= finding_.details.pending_stacks.size()) return;
      for (const ObjectId held : held_after(steps, waiting.actor)) {
        const Stack* locked = stack_of_lock(waiting.actor, held);
        if (locked == nullptr || held == wanted) continue;
        const auto part = part_between(*locked, finding_.details.pending_stacks[i]);
        if (part) add_part(gates, *part);
        const auto call = own_call(*locked);
        const auto name = fixed_name(wanted);
        if (!call || !name) continue;
        all.push_back({.kind = Change::Kind::kEarly,
                       .parts = {{call->first, call->second, call->second}},
                       .mutex = wanted,
                       .mutex_at = addresses_.at(wanted),
                       .target = *name,
                       .before = story_.object_text(held)});
      }
    }
    add_new_lock(std::move(gates), all);
  }

  const ThreadFinding& finding_;
  Source& source_;
  ThreadStory story_;
  std::map<ObjectId, std::uint64_t> addresses_;
  std::vector<Touch> touches_;
};

class Mending {
 public:
  Mending(const ThreadPlan& plan, const persist::Deadline& deadline, const ThreadFinding& finding)
      : plan_(plan),
        deadline_(deadline),
        finding_(finding),
        source_(plan, finding, [&] { return deadline.is_over(); }) {
    plan_.wants_all = false;
  }

  std::vector<result::Mend> find() {
    for (Change& change : Evidence(plan_, finding_, source_).changes()) waiting_.insert(std::move(change));
    std::vector<result::Mend> mends;
    std::set<Change::Kind> kinds;
    for (std::size_t i = 0; i < kAttemptsMost && !waiting_.empty() && !deadline_.is_over(); ++i) {
      const Change change = waiting_.extract(waiting_.begin()).value();
      // Where one change of a kind helps, a larger one is of no use; nor is a new mutex beside one that is there.
      const bool is_of_use = !kinds.contains(change.kind) && tried_.insert(change).second &&
                             !(change.kind == Change::Kind::kNew && kinds.contains(Change::Kind::kHold));
      if (!is_of_use) continue;
      if (const auto mend = attempt(change)) {
        mends.push_back(*mend);
        kinds.insert(change.kind);
      }
    }
    if (mends.size() > result::kMendsMost) mends.resize(result::kMendsMost);
    return mends;
  }

 private:
  std::optional<result::Mend> attempt(const Change& change) {
    ThreadPlan changed = plan_;
    changed.added_locks.clear();
    for (const Part& part : change.parts) add_locks(change, part, changed.added_locks);
    if (changed.added_locks.size() > scheduler::runtime::kAddedLocksMost) return std::nullopt;
    const auto found = check_threads(changed, {{}, &deadline_});
    if (!found || found->is_added_lock_unclear) return std::nullopt;
    if (found->finding) {
      if (change.kind != Change::Kind::kEarly) note_next(changed, change, *found->finding);
      return std::nullopt;
    }
    if (found->violations > 0 || found->search.executions == 0 || !found->not_repeatable.empty()) return std::nullopt;
    const bool is_complete = found->verdict == result::Verdict::kVerified;
    if (!is_complete && found->search.bound != result::Bound::kExecutions) return std::nullopt;
    return mend_of(change, *found, is_complete);
  }

  // The change with the code that still fails.
  void note_next(const ThreadPlan& changed, const Change& change, const ThreadFinding& finding) {
    if (!finding.replays || finding.crash) return;
    for (const Change& other : Evidence(changed, finding, source_).changes()) {
      if (other.kind != Change::Kind::kNew && !(other.kind == change.kind && other.mutex_at == change.mutex_at))
        continue;
      Change larger = change;
      for (const Part& part : other.parts) add_part(larger.parts, part);
      if (larger.parts != change.parts && larger.parts.size() <= kPartsMost) waiting_.insert(std::move(larger));
    }
  }

  // The code of the part's lines. Compilers copy lines and move them about: what comes from other lines is left out. A
  // call there ends the section, unless the code does not run on from it: then that is another way out.
  void add_locks(const Change& change, const Part& part, std::vector<AddedLock>& locks) {
    const bool is_early = change.kind == Change::Kind::kEarly;
    const auto lines = lines_of(part);
    const std::vector<CallSite> calls =
        is_early || !lines ? std::vector<CallSite>() : source_.calls_between(part.first, part.last);
    std::uint32_t section = locks.empty() ? 0 : locks.back().section + 1;
    if (calls.empty()) return locks.push_back({part.first, part.last + 1, section, change.mutex_at, is_early});
    bool is_in = false, has_left = false;
    for (const CallSite& call : calls) {
      const auto& own = source_.own_at(call.address);
      const bool is_of_part = own && own->file == lines->file && own->line >= lines->low && own->line <= lines->high;
      has_left = has_left && call.follows;
      if (is_of_part && has_left) ++section;
      if (is_of_part && is_in) {
        locks.back().end = call.address + 1;
      } else if (is_of_part) {
        locks.push_back({call.address, call.address + 1, section, change.mutex_at, false});
      }
      has_left = !is_of_part;
      is_in = is_of_part;
    }
  }

  result::Mend mend_of(const Change& change, const ThreadResult& found, bool is_complete) {
    std::vector<std::string> places;
    for (const Part& part : change.parts) places.push_back(place_text(part));
    result::Mend mend;
    mend.target = change.target;
    mend.executions = found.search.executions;
    mend.is_verified = is_complete;
    const std::string where = fmt::format("{}", fmt::join(places, " and "));
    std::string what;
    switch (change.kind) {
      case Change::Kind::kHold:
        mend.kind = "hold";
        mend.place = "around " + where;
        what = fmt::format("hold {} {}", change.target, mend.place);
        break;
      case Change::Kind::kEarly:
        mend.kind = "order";
        mend.place = "at " + where;
        what = fmt::format("lock {} before {} {}", change.target, change.before, mend.place);
        break;
      case Change::Kind::kNew:
        mend.kind = "lock";
        mend.place = "around " + where;
        what = fmt::format("one more mutex, held {}", mend.place);
    }
    mend.text =
        what + (!is_complete           ? fmt::format(": then none of {} fails; there are more.",
                                                     result::count_text(mend.executions, "execution", "executions"))
                : mend.executions == 1 ? std::string(": then the only execution does not fail.")
                                       : fmt::format(": then none of the {} executions fails.", mend.executions));
    return mend;
  }

  struct Lines {
    std::string file;
    std::uint64_t low, high;
  };
  // None: there is no debug information.
  std::optional<Lines> lines_of(const Part& part) {
    const auto first = source_.own_at(part.first), last = source_.own_at(part.last);
    if (!first || !last || first->file.empty() || first->file != last->file) return std::nullopt;
    return Lines{first->file, std::min(first->line, last->line), std::max(first->line, last->line)};
  }

  // "bank.c:12-14 (transfer)"; without debug information "0x1204-0x1220 (transfer)", as the executable has them.
  std::string place_text(const Part& part) {
    const bool is_operator = part.function.find("operator()") != part.function.npos;
    const std::string function = is_operator ? part.function : part.function.substr(0, part.function.find('('));
    std::string text;
    if (const auto lines = lines_of(part)) {
      text = fmt::format("{}:{}", lines->file, lines->low);
      if (lines->high != lines->low) text += fmt::format("-{}", lines->high);
    } else {
      text = fmt::format("{:#x}", source_.address_of(part.first));
      if (part.last != part.first) text += fmt::format("-{:#x}", source_.address_of(part.last));
    }
    return fmt::format("{} ({})", text, function);
  }

  ThreadPlan plan_;
  const persist::Deadline& deadline_;
  const ThreadFinding& finding_;
  Source source_;
  std::set<Change> waiting_, tried_;
};

}  // namespace

void add_lock_mends(const ThreadPlan& plan, const persist::Deadline& deadline, ThreadResult& result) {
  const bool is_looked_for = plan.wants_mends && result.finding && plan.machines.empty() && !plan.models_memory() &&
                             !result.finding->crash && result.finding->replays && !deadline.is_over();
  if (!is_looked_for) return;
  double limit_s = std::max(result.search.seconds, kLeastSearch_s);
  if (deadline.seconds_left() > 0) limit_s = std::min(limit_s, deadline.seconds_left());
  const persist::Deadline end(limit_s, deadline.stop());
  result.finding->mends = Mending(plan, end, *result.finding).find();
}

}  // namespace crashcut::recovery
