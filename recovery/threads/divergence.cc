#include "recovery/threads/divergence.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "recovery/threads/story.h"

namespace crashcut::recovery {

using scheduler::Execution;
using scheduler::Pending;
using scheduler::Step;
using scheduler::runtime::Details;

std::optional<std::size_t> first_difference(const Execution& expected, const Execution& found) {
  const auto is_same = [](const Step& x, const Step& y) {
    return x.actor == y.actor && x.operation.is_same_call(y.operation);
  };
  const auto [at, other] =
      std::mismatch(expected.steps.begin(), expected.steps.end(), found.steps.begin(), found.steps.end(), is_same);
  if (at == expected.steps.end() && other == found.steps.end() && expected.ending == found.ending) return std::nullopt;
  return static_cast<std::size_t>(at - expected.steps.begin());
}

namespace {

scheduler::RunRequest request_for(const Execution& execution) {
  scheduler::RunRequest request;
  request.prefix = schedule_of(execution);
  request.ends_with_prefix = true;
  return request;
}

std::string place(const std::vector<result::SourceLine>& stack) {
  return stack.empty() ? "" : fmt::format(" [{}]", result::place_text(stack));
}

// What came instead of the step that was expected.
std::string found_text(const ThreadStory& story, std::size_t step, const std::optional<Step>& expected,
                       const ThreadFinding& found) {
  const Execution& execution = found.execution;
  if (step < execution.steps.size()) {
    return fmt::format("{} did this instead: {}{}", story.actor_text(execution.steps[step].actor),
                       story.step_text(step), place(story.stack_of_step(step)));
  }
  if (!expected) return "the execution had ended";
  const auto stands = std::find_if(execution.pending.begin(), execution.pending.end(),
                                   [&](const Pending& p) { return p.actor == expected->actor; });
  if (stands == execution.pending.end()) return fmt::format("{} was not there", story.actor_text(expected->actor));
  const auto i = static_cast<std::size_t>(stands - execution.pending.begin());
  const bool is_same = stands->operation.is_same_call(expected->operation);
  return fmt::format("{} {}{}{}", story.actor_text(expected->actor),
                     is_same ? "could not" : "stood before this, and could not go on: ",
                     is_same ? "" : story.call_text(stands->operation), place(story.stack_of_pending(i)));
}

// Whether the bytes of rdrand or rdseed on registers (0f c7 f0 to ff) are in the program's code. They may be part of
// another instruction, and may never be run: it is said as what it may be.
bool has_random_instructions(const std::string& executable) {
  std::ifstream in(executable, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr part{};
    if (at > bytes.size() || bytes.size() - at < sizeof part) return false;
    std::memcpy(&part, bytes.data() + at, sizeof part);
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 || part.p_offset > bytes.size()) continue;
    const std::string_view code = std::string_view(bytes).substr(part.p_offset, part.p_filesz);
    for (std::size_t found = 0; (found = code.find("\x0f\xc7", found)) != code.npos; found += 2) {
      if (found + 2 < code.size() && static_cast<unsigned char>(code[found + 2]) >= 0xf0) return true;
    }
  }
  return false;
}

// The last calls of the thread on files that are not the model's, and of others before it.
std::string cause_text(const ThreadStory& story, std::size_t step, const std::optional<Step>& expected,
                       const Details& details) {
  constexpr std::size_t kCallsMost = 3;
  std::vector<std::string> calls;
  for (auto it = details.outside.rbegin(); it != details.outside.rend() && calls.size() < kCallsMost; ++it) {
    if (it->step > step) continue;
    calls.push_back(fmt::format("{} {} (after step {})", story.actor_text(it->actor), it->text, it->step));
  }
  if (!calls.empty()) {
    return fmt::format(
        "What may have brought it about, files that are not on the modelled disk: {}. Below its current directory the "
        "program's files begin the same in every execution.",
        fmt::join(calls, "; "));
  }
  const std::string who = expected ? story.actor_text(expected->actor) : "a thread";
  return fmt::format(
      "Something that crashcut does not see decides what {} does: an atomic variable or a data race in code that is "
      "not instrumented (crashcut flags), or something outside of the process.",
      who);
}

// `found` has the execution that did something else, with the names of its threads.
std::string text_of(const ThreadPlan& plan, const Diverged& diverged, const ThreadFinding& found, bool is_by_order) {
  const auto& [step, expected, execution, is_foreseen] = diverged;
  const ThreadStory story(plan, found);
  const std::string was_to =
      expected ? fmt::format("{} was to {}", story.actor_text(expected->actor), story.call_text(expected->operation))
               : std::string("the execution was to end");
  const std::string differs =
      fmt::format("At step {} {}; this time {}.", step + 1, was_to, found_text(story, step, expected, found));
  if (is_by_order) {
    return fmt::format(
        "an order of steps that should make no difference made one. {} Threads meet in variables that are not seen "
        "(compile with crashcut flags), so all orders are to be tried.",
        differs);
  }
  const char* instructions = has_random_instructions(plan.executable)
                                 ? " The program's code may have the instructions rdrand or rdseed, whose numbers "
                                   "crashcut cannot make the same; those of getrandom() it can."
                                 : "";
  return fmt::format("under the same schedule the program did something else than before. {} {}{}", differs,
                     cause_text(story, step, expected, found.details), instructions);
}

}  // namespace

std::optional<Diverged> compare(const Execution& expected, const Execution& found) {
  const auto step = first_difference(expected, found);
  if (!step) return std::nullopt;
  Diverged diverged{*step, std::nullopt, found, false};
  if (*step < expected.steps.size()) diverged.expected = expected.steps[*step];
  return diverged;
}

bool repeats(JointProgram& program, const Execution& found) {
  constexpr int kTimes = 3;
  for (int i = 0; i < kTimes; ++i) {
    const Execution again = program.run(request_for(found));
    if (again.ending == scheduler::Ending::kStopped) return true;  // there is no time to see that it does not
    const bool is_cut = found.ending == scheduler::Ending::kDiverged;
    const auto step = first_difference(found, again);
    if (step && !(is_cut && *step == found.steps.size())) return false;
  }
  return true;
}

std::string describe(const ThreadPlan& plan, const Diverged& diverged, bool is_by_order,
                     scheduler::runtime::NameTable& names, JointProgram& program,
                     const std::function<bool()>& is_late) {
  ThreadFinding found;
  found.execution = diverged.found;
  found.actors = names.actors();
  const scheduler::RunRequest request = request_for(diverged.found);
  if (const auto* details = dynamic_cast<const Details*>(diverged.found.note.get())) found.details = *details;
  auto addresses = found.details.addresses;
  const auto add_addresses = [&](const Details& details) {
    addresses.insert(addresses.end(), details.addresses.begin(), details.addresses.end());
  };
  try {
    // The table of names is the search's, so that the same objects have the same numbers.
    const auto racy_count = static_cast<std::uint32_t>(names.racy().size());
    JointProgram again(plan, names, {.has_details = true, .racy_count = racy_count, .is_late = is_late});
    const Execution execution = again.run(request);
    if (const auto* details = dynamic_cast<const Details*>(execution.note.get())) found.details = *details;
    found.details.pending_callers.clear();
    found.details.pending_stacks.clear();
    if (const auto same = first_difference(diverged.found, execution)) {
      found.details.callers.resize(std::min(found.details.callers.size(), *same));
      found.details.stacks.resize(std::min(found.details.stacks.size(), *same));
      found.details.texts.resize(std::min(found.details.texts.size(), *same));
    }
    add_addresses(found.details);
    const Execution other = program.run(request);
    if (const auto* details = dynamic_cast<const Details*>(other.note.get())) add_addresses(*details);
  } catch (const scheduler::runtime::ToolError&) {
    // The text then has fewer names.
  }
  found.details.addresses = std::move(addresses);
  return text_of(plan, diverged, found, is_by_order);
}

}  // namespace crashcut::recovery
