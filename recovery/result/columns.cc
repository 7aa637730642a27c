// machine_columns(): the schedule of several machines, a column a machine.
#include <fmt/format.h>

#include <algorithm>

#include "recovery/result/text.h"
#include "recovery/result/words.h"

namespace crashcut::result {
namespace {

constexpr std::size_t kLineMost = 116, kNumberWidth = 6, kNarrowest = 28, kWidest = 56;

// The column says which machine it is: "thread 2 of machine 1" is "thread 2" there, and main() needs no name.
std::string thread_text(const ScheduleStep& step) {
  const std::string machine = fmt::format("machine {}", step.machine);
  if (step.thread == machine || step.is_failure) return "";
  if (step.thread.starts_with(machine + ", ")) return step.thread.substr(machine.size() + 2) + ": ";
  const std::string suffix = " of " + machine;
  const std::size_t at = step.thread.find(suffix);
  return (at == std::string::npos ? step.thread : std::string(step.thread).erase(at, suffix.size())) + ": ";
}

std::string cell_text(const ScheduleStep& step) {
  if (step.is_failure) {
    // "machine 0 fails; in its caches: ..."
    const std::size_t rest = step.text.find("; ");
    return "*** FAILS ***" +
           (step.died_before.empty() ? "" : fmt::format(" before: {}", fmt::join(step.died_before, "; "))) +
           (rest == std::string::npos ? "" : printable(step.text.substr(rest)));
  }
  return thread_text(step) + printable(step.text) +
         (step.stack.empty() ? "" : "  [" + printable(place_text(step.stack)) + "]");
}

}  // namespace

std::vector<std::string> machine_columns(const Story& story) {
  const std::size_t width = std::clamp((kLineMost - kNumberWidth) / story.machines - 2, kNarrowest, kWidest);
  std::string heading(kNumberWidth, ' ');
  for (std::uint32_t m = 0; m < story.machines; ++m)
    heading += fmt::format("{:<{}}", fmt::format("machine {}", m), width + 2);
  heading.erase(heading.find_last_not_of(' ') + 1);
  std::vector<std::string> lines = {heading};
  for (std::size_t i = 0; i < story.schedule.size(); ++i) {
    const ScheduleStep& step = story.schedule[i];
    bool is_first = true;
    for (const std::string& part : wrapped(cell_text(step), width, "  ")) {
      const std::string number = is_first ? fmt::format("{:>4}", i + 1) : "";
      lines.push_back(fmt::format("{:<{}}{}", number, kNumberWidth + step.machine * (width + 2), part));
      is_first = false;
    }
  }
  return lines;
}

}  // namespace crashcut::result
