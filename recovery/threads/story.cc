#include "recovery/threads/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/futex.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {

using namespace scheduler;

std::uint32_t machine_of(const std::vector<runtime::ActorName>& actors, std::size_t actor) {
  using runtime::Names;
  // A parent has a smaller number than its children.
  while (actor != 0 && actor < actors.size()) {
    const runtime::ActorName& name = actors[actor];
    if (Names::is_main(name.ordinal)) return Names::host_of_main(name.ordinal);
    if (Names::is_failure(name.ordinal)) return name.ordinal - Names::kFailureOrdinal;
    if (name.parent >= actor) return 0;
    actor = name.parent;
  }
  return 0;
}

static std::string main_text(const runtime::ActorName& main) {
  const std::uint32_t restarts = runtime::Names::incarnation_of_main(main.ordinal);
  return fmt::format("machine {}{}", runtime::Names::host_of_main(main.ordinal),
                     restarts == 0   ? ""
                     : restarts == 1 ? ", restarted"
                                     : fmt::format(", restarted {} times", restarts));
}

std::vector<std::string> actor_names(const std::vector<runtime::ActorName>& actors) {
  using runtime::Names;
  std::vector<std::string> names;
  std::size_t number = 0;
  const bool has_machines = std::any_of(actors.begin(), actors.end(), [](const runtime::ActorName& actor) {
    return Names::is_main(actor.ordinal) || Names::is_failure(actor.ordinal);
  });
  for (std::size_t i = 0; i < actors.size(); ++i) {
    const auto& actor = actors[i];
    if (i == 0) {
      names.push_back(has_machines ? "machine 0" : "main");
    } else if (Names::is_main(actor.ordinal)) {
      names.push_back(main_text(actor));
    } else if (Names::is_failure(actor.ordinal)) {
      names.push_back("failure");
    } else if (has_machines && Names::is_thread(actor.ordinal)) {
      names.push_back(fmt::format("thread {} of machine {}", ++number, machine_of(actors, i)));
    } else if (!runtime::Names::is_thread(actor.ordinal)) {
      const std::string parent = actor.parent < names.size() ? names[actor.parent] : "?";
      names.push_back((actor.ordinal == runtime::Names::kStirOrdinal     ? "chance, for "
                       : actor.ordinal == runtime::Names::kCancelOrdinal ? "the end of "
                       : actor.ordinal == runtime::Names::kSignalOrdinal ? "to "
                                                                         : "the timer of ") +
                      parent);
    } else {
      names.push_back(fmt::format("thread {}", ++number));
    }
  }
  return names;
}

static bool is_heed(const Access& access) {
  return primitive_of(access.object) == PrimitiveId::kCancellation && access.verb != cancellation::kRequest &&
         access.verb != cancellation::kAct;
}

ThreadStory::ThreadStory(const ThreadPlan& plan, const ThreadFinding& finding, const std::function<bool()>& is_late)
    : finding_(&finding), is_late_(is_late), end_(finding.execution.objects) {
  for (const Machine& machine : plan.machines) executables_.push_back(machine.executable);
  if (executables_.empty()) executables_.push_back(plan.executable);
  for (const std::string& executable : executables_) symbols_.push_back(Symbols::of(executable));
  for (const auto& [object, address] : finding.details.addresses) {
    if (address != 0) addresses_[object] = address;
  }
  names_ = actor_names(finding.actors);
  for (const Step& step : finding.execution.steps) {
    const Access& first = step.operation[0];
    if (primitive_of(first.object) == PrimitiveId::kThread &&
        (first.verb == thread::kStart || first.verb == thread::kExit))
      threads_[first.object] = step.actor;
    for (const Access& access : step.operation) {
      if (is_heed(access)) threads_[access.object] = step.actor;
    }
    scheduler::Operation operation = step.operation;
    end_.apply(step.actor, operation);
  }
  for (const Pending& p : finding.execution.pending) {
    const Access& first = p.operation[0];
    if (primitive_of(first.object) == PrimitiveId::kThread && first.verb == thread::kStart)
      threads_[first.object] = p.actor;
  }
}

std::uint32_t ThreadStory::machine_of(ActorId actor) const {
  return recovery::machine_of(finding_->actors, index(actor));
}

bool ThreadStory::is_failure(ActorId actor) const {
  return index(actor) < finding_->actors.size() && runtime::Names::is_failure(finding_->actors[index(actor)].ordinal);
}

// What stood before an operation then stands there for good. A machine that was restarted has other threads.
std::vector<std::string> ThreadStory::died_before(std::size_t i) const {
  const std::vector<Step>& steps = finding_->execution.steps;
  if (!is_failure(steps[i].actor)) return {};
  std::size_t before = i;  // the failure of the same machine before this one, or the beginning
  while (before > 0 && steps[before - 1].actor != steps[i].actor) --before;
  std::vector<std::string> texts;
  for (const Pending& p : finding_->execution.pending) {
    const auto took = [&](const Step& step) { return step.actor == p.actor; };
    const auto first = steps.begin() + static_cast<std::ptrdiff_t>(before);
    const bool was_here = std::any_of(first, steps.begin() + static_cast<std::ptrdiff_t>(i), took);
    const bool has_not_begun = before == 0 && std::none_of(steps.begin(), steps.end(), took);
    if (!is_thread(p.actor) || machine_of(p.actor) != machine_of(steps[i].actor) || is_here(p)) continue;
    if (was_here || has_not_begun) texts.push_back(operation_text(p.operation));
  }
  return texts;
}

std::uint64_t ThreadStory::base_of(std::uint32_t machine) const {
  const runtime::Details& details = finding_->details;
  return machine < details.bases.size() ? details.bases[machine] : details.program_base;
}

std::string ThreadStory::name_of_place(std::uint64_t place) const {
  for (const auto& region : finding_->details.regions) {
    if (place < region.address || place >= region.address + region.bytes) continue;
    return place == region.address ? region.name : fmt::format("{}+{}", region.name, place - region.address);
  }
  const std::uint32_t machine = runtime::host_of(place);
  return symbols_of(machine).name_of_variable(runtime::address_of(place), base_of(machine));
}

std::string ThreadStory::place_text(ActorId actor, std::uint64_t caller) const {
  const std::uint32_t machine = machine_of(actor);
  return symbols_of(machine).name_of_function(caller, base_of(machine));
}

// Hosts are the first objects, in the order of their numbers.
std::string ThreadStory::host_text(ObjectId host) const {
  std::uint32_t number = 0;
  for (const ObjectStart& start : finding_->execution.objects) {
    if (start.object == host) break;
    if (primitive_of(start.object) == PrimitiveId::kHost) ++number;
  }
  return fmt::format("machine {}", number);
}

std::string ThreadStory::actor_text(ActorId actor) const {
  return index(actor) < names_.size() ? names_[index(actor)] : fmt::format("actor {}", index(actor));
}

bool ThreadStory::is_thread(ActorId actor) const {
  const auto& actors = finding_->actors;
  return index(actor) >= actors.size() || runtime::Names::is_thread(actors[index(actor)].ordinal);
}

std::string ThreadStory::thread_text(ObjectId object) const {
  const auto it = threads_.find(object);
  if (it == threads_.end()) return "a thread";
  const std::uint64_t routine =
      index(it->second) < finding_->details.routines.size() ? finding_->details.routines[index(it->second)] : 0;
  const std::string function = routine == 0 ? "" : place_text(it->second, routine);
  return actor_text(it->second) + (function.empty() ? "" : " (" + function + ")");
}

std::string ThreadStory::object_text(ObjectId object) const {
  Access access{object, 0};
  const std::string kind = primitive_of(access).name;
  if (primitive_of(object) == PrimitiveId::kThread || primitive_of(object) == PrimitiveId::kCancellation)
    return thread_text(object);
  if (primitive_of(object) == PrimitiveId::kHost) return host_text(object);
  const auto it = addresses_.find(object);
  if (it == addresses_.end()) return kind;
  const std::string name = name_of_place(it->second);
  return name.empty() ? fmt::format("{} at {:#x}", kind, runtime::address_of(it->second)) : kind + " " + name;
}

static std::string signal_name(std::int64_t number) {
  const char* abbreviation = sigabbrev_np(static_cast<int>(number));
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation) : fmt::format("signal {}", number);
}

std::string ThreadStory::operation_text(const scheduler::Operation& operation) const {
  if (operation.is_interrupted()) {
    scheduler::Operation before = operation;
    for (Access& access : before) access.result = kNoResult;
    return fmt::format("get {} before: {}", signal_name(operation[operation.size() - 1].result & 0xff),
                       call_text(before));
  }
  const bool is_end = std::any_of(operation.begin(), operation.end(),
                                  [](const Access& a) { return is_heed(a) && a.result == ECANCELED; });
  return call_text(operation) + (is_end ? ": it is cancelled" : "");
}

static const char* loop_text(std::uint8_t verb) {
  switch (verb) {
    case spin::kYield:
      return "yield";
    case spin::kWakeUp:
      return "wake up from a sleep";
    case spin::kGoRound:
      return "go round once more, as nobody else can go on";
    default:
      return "yield again and again";
  }
}

static std::string set_text(std::int64_t set) {
  std::vector<std::string> names;
  for (std::int64_t i = 1; i < static_cast<std::int64_t>(signal::kSignalsEnd); ++i) {
    if ((set & signal::bit_of(i)) != 0) names.push_back(signal_name(i));
  }
  return names.size() > 4 ? fmt::format("one of {} signals", names.size()) : fmt::format("{}", fmt::join(names, ", "));
}

std::string ThreadStory::signal_text(const Access& a) const {
  const std::int64_t taken = a.result > 0 ? a.result & 0xff : 0;
  const std::string handled = taken > 0 ? fmt::format(", and get {}", signal_name(taken)) : "";
  switch (a.verb) {
    case signal::kSend:
      return fmt::format(
          "send {} to {}{}", signal_name(a.argument),
          a.expected == signal::kAnyThread ? "the process" : actor_text(static_cast<ActorId>(a.expected)), handled);
    case signal::kDeliver:
      return taken > 0 ? signal_name(taken) + " comes" : "a signal comes";
    case signal::kSetMask:
      return a.argument == 0 ? "block no signal" + handled : fmt::format("block {}{}", set_text(a.argument), handled);
    case signal::kExpect:
      return "begin to wait for a signal";
    case signal::kWait:
      return taken > 0 ? "take " + signal_name(taken) : fmt::format("wait for {}", set_text(a.argument));
    case signal::kPending:
    case signal::kReadable:
      return "see which signals are pending";
    case signal::kAction:
      return fmt::format("set what {} does", signal_name(a.argument & 0xff));
    case signal::kAddThread:
      return "begin";
    case signal::kSuspend:
      return "wait for a signal's handler";
    default:
      return "begin a call that may wait";
  }
}

static std::string channel_text(const Access& a) {
  const auto pipe = [&] { return fmt::format("pipe {}", a.expected + 1); };
  const auto answer = [&] {
    if (a.result == kNoResult || a.result >= 0) return std::string();
    return fmt::format(" = {}", strerrorname_np(static_cast<int>(-a.result)) != nullptr
                                    ? strerrorname_np(static_cast<int>(-a.result))
                                    : "?");
  };
  switch (a.verb) {
    case channel::kOpen:
      return fmt::format("make {}", (a.argument & 0xff) == channel::kPipe  ? "a pipe"
                                    : (a.argument & 0xff) == channel::kSet ? "an epoll instance"
                                                                           : "an eventfd");
    case channel::kDuplicate:
    case channel::kReplace:
      return fmt::format("duplicate descriptor {}", a.argument);
    case channel::kClose:
      return fmt::format("close descriptor {}{}", a.argument, answer());
    case channel::kUse:
      return fmt::format("begin a call on descriptor {}{}", a.argument, answer());
    case channel::kRead:
      return fmt::format("read {}{}{}", pipe(),
                         a.result == 0  ? ": its end"
                         : a.result > 0 ? fmt::format(": {} bytes", a.result)
                                        : "",
                         answer());
    case channel::kWrite:
      return fmt::format("write {} bytes to {}{}", a.result > 0 ? a.result : a.argument, pipe(), answer());
    case channel::kTake:
      return fmt::format("read eventfd {}{}{}", a.expected + 1, a.result > 0 ? fmt::format(": {}", a.result) : "",
                         answer());
    case channel::kAdd:
      return fmt::format("add {} to eventfd {}{}", a.argument, a.expected + 1, answer());
    case channel::kPoll:
      return fmt::format("poll descriptors{}", a.result == 0 ? ": none is ready" : "");
    case channel::kPollSet:
      return fmt::format("wait for events of epoll instance {}{}", a.expected + 1,
                         a.result == 0 ? ": there are none" : "");
    case channel::kDrop:
      return "end a call on a descriptor";
    default:
      return fmt::format("{} channel {}", channel::kVerbs[a.verb], a.expected + 1);
  }
}

std::string ThreadStory::call_text(const scheduler::Operation& operation) const {
  const Access& first = operation[0];
  const std::string object = object_text(first.object);
  const bool failed = first.result != kNoResult && first.result > 0 && first.result < 200;
  const auto plain = [&] {
    std::string text = fmt::format("{} {}", primitive_of(first).verbs[first.verb], object);
    const PrimitiveId kind = primitive_of(first.object);
    if (failed && (kind == PrimitiveId::kMutex || kind == PrimitiveId::kRwLock || kind == PrimitiveId::kSemaphore) &&
        first.verb != 6 /* rwlock unlock */) {
      text += fmt::format(" = {}", strerrorname_np(static_cast<int>(first.result)) != nullptr
                                       ? strerrorname_np(static_cast<int>(first.result))
                                       : "?");
    }
    return text;
  };
  switch (primitive_of(first.object)) {
    case PrimitiveId::kProcess:
      return first.verb == process::kExit ? fmt::format("exit({})", first.argument) : "fail";
    case PrimitiveId::kHost:
      return first.verb == host::kStart     ? "start"
             : first.verb == host::kEnd     ? "end"
             : first.verb == host::kFail    ? object + " fails"
             : first.verb == host::kRestart ? "restart " + object
             : first.result == kNoResult
                 ? "wait for " + object
                 : fmt::format("wait for {}: it has {}", object, first.result == host::kFailed ? "failed" : "ended");
    case PrimitiveId::kThread:
      if (first.verb == thread::kStart) return "start";
      return first.verb == thread::kExit ? "end" : plain();
    case PrimitiveId::kCondition:
      if (first.verb == condition::kEnqueue)
        return fmt::format("wait for {}, unlocking {}", object, object_text(operation[1].object));
      if (first.verb == condition::kWake) {
        const char* why = first.result == ETIMEDOUT                    ? " (timeout)"
                          : first.result == condition::kWokeForNothing ? " (spurious)"
                                                                       : "";
        const Access* lock = std::find_if(operation.begin(), operation.end(), [](const Access& a) {
          return primitive_of(a.object) == PrimitiveId::kMutex;
        });
        return fmt::format("wake up from {}{}{}", object, why,
                           lock == operation.end() ? "" : ", locking " + object_text(lock->object));
      }
      return plain();
    case PrimitiveId::kSemaphore:
      // Not the program's: whether a file or segment of shared memory is there (scheduler/runtime/shared_files.h).
      if (!addresses_.contains(first.object))
        return operation.size() > 1 ? "make a file or segment of shared memory, or give it a size"
                                    : "look for a file or segment of shared memory";
      return plain();
    case PrimitiveId::kBarrier:
      return fmt::format("{} {}", first.verb == barrier::kArrive ? "arrive at" : "leave", object);
    case PrimitiveId::kFile:
      return "a call on files";
    case PrimitiveId::kTimer:
      return first.verb == timer::kArm ? "set the timer" : "run out";
    case PrimitiveId::kStir:
      return first.verb == stir::kStir ? "a spurious wake-up comes" : "come to a wait that may end for nothing";
    case PrimitiveId::kMemory:
      return memory_text(first);
    case PrimitiveId::kCancellation:
      if (first.verb == cancellation::kAct) return "its cancellation is acted upon";
      return is_heed(first) ? std::string("see whether it is cancelled") : "cancel " + object;
    case PrimitiveId::kAssume:
      return "assume what does not hold";
    case PrimitiveId::kSpin:
      return loop_text(first.verb);
    case PrimitiveId::kChannel:
      return channel_text(first);
    case PrimitiveId::kSignal:
      return signal_text(first);
    case PrimitiveId::kFutex:
      if (first.verb == futex::kWait && first.result == EAGAIN)
        return fmt::format("not wait for {}: it has changed", object);
      return first.verb == futex::kWait   ? "wait for " + object
             : first.verb == futex::kWake ? "wake who waits for " + object
                                          : "wake up from " + object;
    default:
      return plain();
  }
}

std::string ThreadStory::step_text(std::size_t i) const {
  const scheduler::Operation& operation = finding_->execution.steps[i].operation;
  const std::vector<std::string>& texts = finding_->details.texts;
  if (primitive_of(operation[0].object) != PrimitiveId::kFile || i >= texts.size() || texts[i].empty())
    return operation_text(operation);
  const bool waits = operation.size() > 1 && operation[operation.size() - 1].verb == file::kTry;
  return texts[i] + (operation[0].verb == file::kGoOn ? ", the next block" : waits ? ", and has to wait" : "");
}

std::string ThreadStory::variable_text(std::uint64_t address) const {
  const std::string name = name_of_place(address);
  return name.empty() ? fmt::format("{:#x}", runtime::address_of(address)) : name;
}

std::string ThreadStory::memory_text(const Access& access) const {
  const auto it = addresses_.find(access.object);
  const std::string place = it == addresses_.end() ? "memory" : variable_text(it->second + access.offset);
  if (access.verb == memory::kAwait) return fmt::format("read {} after a loop that waited for it", place);
  const char* plain = (access.order & memory::kPlain) != 0 ? "plainly " : "";
  const char* failed = access.verb == memory::kCompareExchange && access.result == memory::kSame ? " (failed)" : "";
  return fmt::format("{}{} {}{}", plain, memory::kVerbs[access.verb], place, failed);
}

std::string ThreadStory::access_text(const runtime::Race::Side& side, std::uint64_t address) const {
  return fmt::format("{} {}{} {}", actor_text(side.actor), side.is_atomic ? "atomically " : "",
                     side.frees    ? "frees"
                     : side.writes ? "writes"
                                   : "reads",
                     variable_text(address));
}

std::vector<SourceLine> ThreadStory::stack_of(const runtime::Race::Side& side) const {
  std::vector<std::uint64_t> addresses;
  // They are where calls return to: the call is before.
  const std::uint32_t machine = machine_of(side.actor);
  for (const std::uint64_t frame : side.frames) addresses.push_back(frame - 1 - base_of(machine));
  std::vector<SourceLine> stack;
  const auto lines = find_source_lines(executables_[machine < executables_.size() ? machine : 0], addresses, is_late_);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    stack.insert(stack.end(), lines[i].begin(), lines[i].end());
    if (!lines[i].empty()) continue;
    const std::string function = place_text(side.actor, side.frames[i]);
    if (!function.empty()) stack.push_back({function, "", 0});
  }
  return stack;
}

static std::string channel_waiting_text(const Access& a) {
  switch (a.verb) {
    case channel::kRead:
      return fmt::format("waits for data in pipe {}", a.expected + 1);
    case channel::kWrite:
      return fmt::format("waits for room in pipe {}", a.expected + 1);
    case channel::kTake:
      return fmt::format("waits until somebody adds to eventfd {}", a.expected + 1);
    case channel::kAdd:
      return fmt::format("waits for room in eventfd {}", a.expected + 1);
    default:
      return "waits until a descriptor is ready";
  }
}

std::string ThreadStory::holder_text(ActorId actor) const {
  return actor_text(actor) + (end_.is_gone(actor) ? ", which is down," : "");
}

std::string ThreadStory::waiting_text(const Pending& pending) const {
  const Access& first = pending.operation[0];
  if (primitive_of(first.object) == PrimitiveId::kThread && first.verb == thread::kStart) return "has not begun";
  if (end_.is_enabled(pending.actor, pending.operation) || end_.is_over())
    return "stands before: " + operation_text(pending.operation);
  std::vector<std::string> parts;
  for (const Access& access : pending.operation) {
    const Object& o = end_.object(access.object);
    const std::string object = object_text(access.object);
    switch (primitive_of(access.object)) {
      case PrimitiveId::kMutex:
        if (mutex::owner(o) == 0) break;
        parts.push_back(mutex::owner(o) == index(pending.actor) + 1
                            ? fmt::format("waits for {}, which it holds itself", object)
                            : fmt::format("waits for {}, which {} holds", object,
                                          holder_text(static_cast<ActorId>(mutex::owner(o) - 1))));
        break;
      case PrimitiveId::kRwLock:
        if (rwlock::writer(o) != 0)
          parts.push_back(fmt::format("waits for {}, which {} holds for writing", object,
                                      holder_text(static_cast<ActorId>(rwlock::writer(o) - 1))));
        else if (!rwlock::readers(o).empty())
          parts.push_back(fmt::format("waits for {}, which {} holds for reading", object,
                                      holder_text(static_cast<ActorId>(rwlock::readers(o)[0]))));
        else
          parts.push_back(fmt::format("waits for {}, where others go first", object));
        break;
      case PrimitiveId::kSemaphore:
        parts.push_back(fmt::format("waits for {}, whose count is {}", object, semaphore::count(o)));
        break;
      case PrimitiveId::kCondition:
        parts.push_back(fmt::format("waits for {}, which nobody signals", object));
        break;
      case PrimitiveId::kFutex:
        parts.push_back(fmt::format("waits for {}, which nobody wakes", object));
        break;
      case PrimitiveId::kBarrier:
        parts.push_back(
            fmt::format("waits at {}: {} of {} have arrived", object, barrier::arrived(o), barrier::size(o)));
        break;
      case PrimitiveId::kAssume:
        parts.push_back("waits for good: what it assumed does not hold");
        break;
      case PrimitiveId::kHost:
        parts.push_back(fmt::format("waits until {} ends or fails", object));
        break;
      case PrimitiveId::kThread:
        parts.push_back(fmt::format("waits for the end of {}", object));
        break;
      case PrimitiveId::kChannel:
        parts.push_back(channel_waiting_text(access));
        break;
      case PrimitiveId::kSignal:
        if (access.verb == signal::kWait)
          parts.push_back(fmt::format("waits for {}, which nobody sends", set_text(access.argument)));
        if (access.verb == signal::kSuspend) parts.push_back("waits for a signal, which nobody sends");
        break;
      case PrimitiveId::kOnce:
        parts.push_back(fmt::format("waits for the end of {}", object));
        break;
      case PrimitiveId::kFile:
        if (file::holder(o) != 0)
          parts.push_back(
              fmt::format("waits for a call on files by {}", actor_text(static_cast<ActorId>(file::holder(o) - 1))));
        break;
      case PrimitiveId::kMemory:
        if (access.verb == memory::kAwait)
          parts.push_back(fmt::format(
              "loops: it waits until somebody changes {}",
              variable_text(addresses_.contains(access.object) ? addresses_.at(access.object) + access.offset : 0)));
        break;
      case PrimitiveId::kSpin:
        parts.push_back("loops: it waits for something that nobody is left to do");
        break;
      default:
        break;
    }
  }
  return parts.empty() ? "stands before: " + operation_text(pending.operation)
                       : fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> ThreadStory::held_by(ActorId actor) const {
  std::vector<std::string> held;
  for (const ObjectStart& start : finding_->execution.objects) {
    const Object& o = end_.object(start.object);
    const PrimitiveId kind = primitive_of(start.object);
    const std::int64_t owner = kind == PrimitiveId::kMutex    ? mutex::owner(o)
                               : kind == PrimitiveId::kRwLock ? rwlock::writer(o)
                                                              : 0;
    const bool is_owner = owner == std::int64_t{index(actor)} + 1;
    const bool is_reader =
        kind == PrimitiveId::kRwLock && std::find(rwlock::readers(o).begin(), rwlock::readers(o).end(),
                                                  std::int64_t{index(actor)}) != rwlock::readers(o).end();
    if (is_owner || is_reader) held.push_back(object_text(start.object));
  }
  return held;
}

}  // namespace crashcut::recovery
