#include "recovery/threads/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "recovery/result/words.h"
#include "recovery/threads/losses.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/memory_words.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {

using namespace scheduler;
using result::SourceLine;

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
                       : runtime::Names::is_lane(actor.ordinal)          ? "buffer of "
                       : runtime::Names::is_answer(actor.ordinal)        ? "chance, for "
                       : runtime::Names::is_cache(actor.ordinal)         ? "cache of "
                                                                         : "the timer of ") +
                      parent);
    } else {
      names.push_back(fmt::format("thread {}", ++number));
    }
  }
  return names;
}

static const Words& words_of(ObjectId object) {
  static constexpr Words kNone;
  if (primitive_of(object) == PrimitiveId::kMemory) return memory::kWords;
  const Words* words = primitive_of(Access{object, 0}).words;
  return words != nullptr ? *words : kNone;
}

static bool is_start(const scheduler::Operation& operation) {
  return primitive_of(operation[0].object) == PrimitiveId::kThread && operation[0].verb == thread::kStart;
}

ThreadStory::ThreadStory(const ThreadPlan& plan, const ThreadFinding& finding, std::shared_ptr<source::Names> names)
    : finding_(&finding),
      region_rules_(plan.region_rules),
      names_of_code_(std::move(names)),
      end_(finding.execution.objects) {
  for (const Machine& machine : plan.machines) executables_.push_back(machine.executable);
  if (executables_.empty()) executables_.push_back(plan.executable);
  for (const auto& [object, address] : finding.details.addresses) {
    if (address != 0) addresses_[object] = address;
  }
  names_ = actor_names(finding.actors);
  for (const Step& step : finding.execution.steps) {
    for (const Access& access : step.operation) {
      const Words& words = words_of(access.object);
      if (words.is_own != nullptr && words.is_own(access)) threads_[access.object] = step.actor;
    }
    scheduler::Operation operation = step.operation;
    end_.apply(step.actor, operation);
  }
  for (const Pending& p : finding.execution.pending) {
    if (is_start(p.operation)) threads_[p.operation[0].object] = p.actor;
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

ThreadStory::Loaded ThreadStory::loaded_at(std::uint32_t machine, std::uint64_t address) const {
  const auto& loaded = finding_->details.loaded;
  for (auto file = loaded.rbegin(); file != loaded.rend(); ++file) {
    if (file->host == machine && address >= file->base && address < file->end)
      return {file->path, address - file->base};
  }
  return {executables_[machine < executables_.size() ? machine : 0], address - base_of(machine)};
}

std::string ThreadStory::name_of_place(std::uint64_t place) const {
  for (const auto& region : finding_->details.regions) {
    if (place < region.address || place >= region.address + region.bytes) continue;
    return place == region.address ? region.name : fmt::format("{}+{}", region.name, place - region.address);
  }
  const std::uint32_t machine = runtime::host_of(place);
  const std::uint64_t address = runtime::address_of(place);
  const Loaded loaded = loaded_at(machine, address);
  const std::string name = names_of_code_->variable_at(loaded.file, loaded.address);
  return name.empty() ? name_on_stack(machine, address) : name;
}

// A place on a stack may be several functions' in turn: then it has no name.
std::string ThreadStory::name_on_stack(std::uint32_t machine, std::uint64_t address) const {
  std::set<std::string> names;
  for (const runtime::Details::Frame& frame : finding_->details.frames) {
    if (address < frame.begin || address >= frame.end || machine_of(frame.actor) != machine) continue;
    // The address that a call returns to may be in the next scope.
    const Loaded code = loaded_at(machine, frame.call - 1);
    const std::string name = names_of_code_->local_at(code.file, {code.address, frame.begin, frame.end, address});
    if (!name.empty()) names.insert(name);
  }
  return names.size() == 1 ? *names.begin() : "";
}

std::vector<SourceLine> ThreadStory::lines_of(ActorId actor, const std::vector<std::uint64_t>& calls) const {
  std::vector<SourceLine> lines;
  for (const std::uint64_t call : calls) {
    // The address that a call returns to may be on the next line.
    const Loaded loaded = loaded_at(machine_of(actor), call - 1);
    if (loaded.file.ends_with("/libcrashcut_runtime.so")) continue;  // it calls what threads begin with
    const std::vector<SourceLine> frames = names_of_code_->frames_at(loaded.file, loaded.address);
    lines.insert(lines.end(), frames.begin(), frames.end());
  }
  return lines;
}

std::vector<SourceLine> ThreadStory::own_lines_of(ActorId actor, const std::vector<std::uint64_t>& calls) const {
  return source::own_frames(lines_of(actor, calls));
}

std::vector<SourceLine> ThreadStory::stack_of_step(std::size_t i) const {
  const runtime::Details& details = finding_->details;
  const ActorId actor = finding_->execution.steps[i].actor;
  if (i < details.stacks.size() && !details.stacks[i].empty()) return own_lines_of(actor, details.stacks[i]);
  if (i < details.callers.size() && details.callers[i] != 0) return own_lines_of(actor, {details.callers[i]});
  return {};
}

std::vector<SourceLine> ThreadStory::stack_of_pending(std::size_t i) const {
  const runtime::Details& details = finding_->details;
  const ActorId actor = finding_->execution.pending[i].actor;
  if (i < details.pending_stacks.size() && !details.pending_stacks[i].empty())
    return own_lines_of(actor, details.pending_stacks[i]);
  if (i < details.pending_callers.size() && details.pending_callers[i] != 0)
    return own_lines_of(actor, {details.pending_callers[i]});
  return {};
}

std::string ThreadStory::routine_text(ActorId actor) const {
  const runtime::Details& details = finding_->details;
  const std::uint64_t routine = index(actor) < details.routines.size() ? details.routines[index(actor)] : 0;
  if (routine == 0) return "";
  const std::vector<SourceLine> lines = lines_of(actor, {routine + 1});
  if (!lines.empty() && !lines.back().is_library) return lines.back().function;
  // A library's function, which calls the program's: the outermost one that was seen, or else the place of the start.
  const std::vector<Step>& steps = finding_->execution.steps;
  std::string start;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Access& access = steps[i].operation[0];
    const auto started = threads_.find(access.object);
    const bool is_start = started != threads_.end() && started->second == actor && access.verb == thread::kCreate;
    if (!is_start && steps[i].actor != actor) continue;
    const std::vector<SourceLine> stack = stack_of_step(i);
    if (stack.empty() || stack.back().is_library) continue;
    if (!is_start) return stack.back().function;
    start = result::line_text(stack.front());
  }
  return start.empty() ? "" : fmt::format("std::thread ({})", start);
}

// Hosts are the first objects, in the order of their numbers.
std::string ThreadStory::host_text(ObjectId host) const {
  std::uint32_t number = 0;
  for (const ObjectStart& start : finding_->execution.objects) {
    if (start.object == host) break;
    if (primitive_of(start.object) == PrimitiveId::kHost) ++number;
  }
  for (const RegionRule& rule : region_rules_) {
    if (number >= executables_.size() && rule.home == number) return "memory " + rule.name;
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
  const std::string function = routine_text(it->second);
  return actor_text(it->second) + (function.empty() ? "" : " (" + function + ")");
}

std::string ThreadStory::object_text(ObjectId object) const {
  const Words& words = words_of(object);
  if (words.object != nullptr) return words.object(*this, object);
  const std::string kind = primitive_of(Access{object, 0}).name;
  const auto it = addresses_.find(object);
  if (it == addresses_.end()) return kind;
  const std::string name = name_of_place(it->second);
  return name.empty() ? fmt::format("{} at {:#x}", kind, runtime::address_of(it->second)) : kind + " " + name;
}

std::string ThreadStory::operation_text(const scheduler::Operation& operation) const {
  if (operation.is_interrupted()) {
    scheduler::Operation before = operation;
    for (Access& access : before) access.result = kNoResult;
    return fmt::format("get {} before: {}", signal::name_of(operation[operation.size() - 1].result & 0xff),
                       call_text(before));
  }
  std::string text = call_text(operation);
  for (const Access& access : operation) {
    const Words& words = words_of(access.object);
    if (words.besides != nullptr) text += words.besides(access);
  }
  return text;
}

std::string ThreadStory::call_text(const scheduler::Operation& operation) const {
  // Not the program's: whether a file or segment of shared memory is there (scheduler/runtime/shared_files.h).
  if (primitive_of(operation[0].object) == PrimitiveId::kSemaphore && !addresses_.contains(operation[0].object))
    return operation.size() > 1 ? "make a file or segment of shared memory, or give it a size"
                                : "look for a file or segment of shared memory";
  const Words& words = words_of(operation[0].object);
  return words.operation != nullptr ? words.operation(*this, operation) : plain_text(*this, operation[0]);
}

std::string ThreadStory::step_text(std::size_t i) const {
  const scheduler::Operation& operation = finding_->execution.steps[i].operation;
  const std::vector<std::string>& texts = finding_->details.texts;
  if (primitive_of(operation[0].object) != PrimitiveId::kFile || i >= texts.size() || texts[i].empty()) {
    const bool has_place = i < texts.size() && texts[i].starts_with('@');
    if (has_place) return operation_text(operation) + " of " + variable_text(std::stoull(texts[i].substr(1)));
    const std::string losses = losses_text(i);
    return operation_text(operation) + (losses.empty() ? "" : "; " + losses);
  }
  return file::step_text(texts[i], operation);
}

std::string ThreadStory::variable_text(std::uint64_t address) const {
  const std::string name = name_of_place(address);
  return name.empty() ? fmt::format("{:#x}", runtime::address_of(address)) : name;
}

std::string ThreadStory::place_text(ObjectId memory, std::uint8_t offset) const {
  const auto it = addresses_.find(memory);
  return it == addresses_.end() ? "memory" : variable_text(it->second + offset);
}

std::string ThreadStory::access_text(const runtime::Race::Side& side, std::uint64_t address) const {
  return fmt::format("{} {}{} {}", actor_text(side.actor), side.is_atomic ? "atomically " : "",
                     side.frees    ? "frees"
                     : side.writes ? "writes"
                                   : "reads",
                     variable_text(address));
}

std::vector<SourceLine> ThreadStory::stack_of(const runtime::Race::Side& side) const {
  return lines_of(side.actor, side.frames);
}

std::string ThreadStory::source_text(ActorId actor, std::uint64_t code) const {
  return code == 0 ? "" : result::place_text(own_lines_of(actor, {code}));
}

std::string ThreadStory::losses_text(std::size_t i) const {
  static constexpr const char* kFates[] = {"in its caches", "kept", "lost", "poisoned"};
  const std::vector<std::string>& texts = finding_->details.texts;
  if (finding_->details.bases.empty() || i >= texts.size() || texts[i].empty()) return "";
  constexpr std::size_t kStoresMost = 8;
  std::vector<StoreAtStake> stores = read_losses(texts[i]);
  std::erase_if(stores, [](const StoreAtStake& store) { return store.fate == StoreAtStake::kFlushBegun; });
  std::string text;
  const StoreAtStake* before = nullptr;
  for (const StoreAtStake& store : std::span(stores).first(std::min(stores.size(), kStoresMost))) {
    if (before == nullptr || before->fate != store.fate)
      text += fmt::format("{}{}: ", text.empty() ? "" : "; ", kFates[store.fate & 3]);
    else
      text += ", and ";
    before = &store;
    const auto by = static_cast<ActorId>(store.actor);
    const std::string place = source_text(by, store.code);
    text += fmt::format("{} at {}, by {}{}", result::count_text(store.bytes, "byte", "bytes"),
                        variable_text(store.address), actor_text(by), place.empty() ? "" : " in " + place);
  }
  if (stores.size() > kStoresMost) text += fmt::format("; and {} more", stores.size() - kStoresMost);
  return text;
}

std::string ThreadStory::holder_text(ActorId actor) const {
  return actor_text(actor) + (end_.is_gone(actor) ? ", which is down," : "");
}

std::string ThreadStory::waiting_text(const Pending& pending) const {
  if (is_start(pending.operation)) return "has not begun";
  if (end_.is_enabled(pending.actor, pending.operation) || end_.is_over())
    return "stands before: " + operation_text(pending.operation);
  std::vector<std::string> parts;
  for (const Access& access : pending.operation) {
    const Words& words = words_of(access.object);
    if (words.waiting == nullptr) continue;
    std::string part = words.waiting(*this, end_, pending.actor, access);
    if (!part.empty()) parts.push_back(std::move(part));
  }
  return parts.empty() ? "stands before: " + operation_text(pending.operation)
                       : fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> ThreadStory::held_by(ActorId actor) const {
  std::vector<std::string> held;
  for (const ObjectStart& start : finding_->execution.objects) {
    const Words& words = words_of(start.object);
    if (words.is_held_by != nullptr && words.is_held_by(end_.object(start.object), actor))
      held.push_back(object_text(start.object));
  }
  return held;
}

}  // namespace crashcut::recovery
