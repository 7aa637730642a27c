// story_text(): a schedule as a list of steps, a crash as a table of operations and a list of calls.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "recovery/result/text.h"
#include "recovery/result/words.h"

namespace crashcut::result {
namespace {

// Longer stories are shown in part, unless the user asks for all.
constexpr std::size_t kRowsMost = 40;
constexpr std::size_t kRowsAtEnds = 3;  // shown of a long stretch of operations with one fate
constexpr std::size_t kCallLinesMost = 40;
constexpr std::size_t kCallsFirst = 10;
constexpr std::size_t kOutputLinesMost = 40;

std::string_view mark_of(const Operation& operation) {
  if (!operation.has_events()) return "";
  if (operation.is_sync()) return operation.fate() == Fate::kPersisted ? "done" : "not yet";
  switch (operation.fate()) {
    case Fate::kPersisted:
      return "yes";
    case Fate::kPartly:
      return "partly";
    case Fate::kLost:
      return "no";
  }
  return "";
}

bool survived(const Operation& operation) { return operation.fate() != Fate::kLost; }

// The operations before it made the starting state; the first always is part of it.
std::size_t find_first_in_doubt(const std::vector<Operation>& operations) {
  const auto last =
      std::find_if(operations.rbegin(), operations.rend(), [](const Operation& o) { return o.is_durable(); });
  const auto first = std::find_if(operations.begin(), operations.end(),
                                  [](const Operation& o) { return o.has_events() && !o.is_durable(); });
  const auto end = std::min(operations.rend() - last, first - operations.begin());
  return std::max<std::size_t>(static_cast<std::size_t>(end), operations.empty() ? 0 : 1);
}

// One past the last operation that left something on the disk: the power can have failed right after it.
std::size_t find_crash(const std::vector<Operation>& operations, std::size_t first) {
  const auto last = std::find_if(operations.rbegin(), operations.rend(), survived);
  return std::max(first, static_cast<std::size_t>(operations.rend() - last));
}

// "  [insert tree.cc:41]"; empty if that is not known.
std::string stack_text(const std::vector<SourceLine>& stack) {
  return stack.empty() ? "" : "  [" + printable(place_text(stack)) + "]";
}

class OperationTable {
 public:
  OperationTable(const std::vector<Operation>& operations, const Names& names, Detail detail)
      : operations_(operations),
        heading_(names.medium == Names().medium ? "on disk" : "kept"),
        first_(find_first_in_doubt(operations)),
        crash_(find_crash(operations, first_)),
        elide_(detail == Detail::kShort && operations.size() - first_ > kRowsMost) {}

  std::string text() {
    out_ = fmt::format("    {:7}    #  operation\n", heading_);
    if (first_ == 2) out_ += "    start      1  the starting state\n";
    if (first_ > 2) out_ += fmt::format("    start   {:>4}  the starting state\n", fmt::format("1-{}", first_ - 1));
    if (crash_ == first_) add_power_cut();
    const std::vector<std::size_t> shown = shown_operations(operations_);
    for (std::size_t i = first_; i < operations_.size();) {
      // Operations that no report lists.
      const auto next = std::lower_bound(shown.begin(), shown.end(), i);
      const std::size_t listed = next == shown.end() ? operations_.size() : *next;
      if (listed > i) {
        out_ += fmt::format("               :  ... {} more\n", listed - i);
        i = listed;
        continue;
      }
      std::size_t end = find_stretch_end(i);
      end = std::min(end, end_of_run(shown, next));
      add_stretch(i, end);
      i = end;
    }
    return out_;
  }

 private:
  // One past the last of the indices that follow `from` without a gap.
  static std::size_t end_of_run(const std::vector<std::size_t>& indices,
                                std::vector<std::size_t>::const_iterator from) {
    while (from + 1 != indices.end() && *(from + 1) == *from + 1) ++from;
    return *from + 1;
  }

  // A stretch has one fate, but for operations that leave nothing on a disk, and does not cross the power cut.
  std::size_t find_stretch_end(std::size_t begin) const {
    std::string_view fate = mark_of(operations_[begin]);
    std::size_t end = begin + 1;
    for (; end < operations_.size() && end != crash_; ++end) {
      const std::string_view mark = mark_of(operations_[end]);
      if (fate.empty()) fate = mark;
      if (!mark.empty() && mark != fate) break;
    }
    return end;
  }

  std::string_view fate_of(std::size_t begin, std::size_t end) const {
    const auto first = operations_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = operations_.begin() + static_cast<std::ptrdiff_t>(end);
    const auto found = std::find_if(first, last, [](const Operation& o) { return o.has_events(); });
    return found == last ? "" : mark_of(*found);
  }

  void add_stretch(std::size_t begin, std::size_t end) {
    const bool skip = elide_ && end - begin > 2 * kRowsAtEnds + 1;
    for (std::size_t i = begin; i < end; ++i) {
      if (skip && i == begin + kRowsAtEnds) {
        const std::size_t next = end - kRowsAtEnds;
        out_ += fmt::format("    {:<7}    :  ... {} more\n", fate_of(begin, end), next - i);
        i = next;
      }
      add_row(i);
    }
    if (end == crash_) add_power_cut();
  }

  void add_row(std::size_t index) {
    const Operation& operation = operations_[index];
    out_ += fmt::format("    {:<7} {:>4}  {}{}\n", mark_of(operation), index, printable(operation.text),
                        stack_text(operation.stack));
    if (operation.fate() != Fate::kPartly) return;
    for (const Event& event : operation.events) {
      out_ += fmt::format("                    {:<3}  {}\n", event.persisted || event.durable ? "yes" : "no",
                          printable(event.text));
    }
    if (operation.left_out.all > 0) {
      out_ += fmt::format("                         ... {} more, {} of them yes\n", operation.left_out.all,
                          operation.left_out.persisted);
    }
  }

  void add_power_cut() { out_ += "    ---------------- the power fails, at the earliest here ----------------\n"; }

  const std::vector<Operation>& operations_;
  std::string_view heading_;
  std::size_t first_;
  std::size_t crash_;
  bool elide_;
  std::string out_;
};

std::string observation_text(const Observation& observation) {
  std::string others;
  for (std::size_t i = 0; i < observation.candidates.size(); ++i) {
    if (i == observation.taken) continue;
    others += (others.empty() ? "" : ", ") + printable(observation.candidates[i]);
  }
  if (observation.candidates_left_out > 0) others += fmt::format(" and {} more", observation.candidates_left_out);
  const std::string taken =
      observation.taken < observation.candidates.size() ? printable(observation.candidates[observation.taken]) : "?";
  return fmt::format("      - {}: {} (not {})\n", printable(observation.location), taken, others);
}

std::string calls_text(const std::vector<Call>& calls, Detail detail) {
  if (calls.empty()) return "    nothing that a crash could change\n";
  std::string text;
  const bool skip = detail == Detail::kShort && calls.size() > kCallLinesMost;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (skip && i == kCallsFirst) {
      const std::size_t next = calls.size() - (kCallLinesMost - kCallsFirst);
      text += fmt::format("    ... {} more\n", next - i);
      i = next;
    }
    // On a mount the kernel stands between the checker and crashcut: what the checker saw is known, its calls are not.
    if (!calls[i].text.empty()) text += fmt::format("    {}{}\n", printable(calls[i].text), stack_text(calls[i].stack));
    for (const Observation& observation : calls[i].observations) text += observation_text(observation);
  }
  return text;
}

std::string stream_text(std::string_view name, std::string_view content, bool is_cut, Detail detail) {
  if (content.empty()) return "";
  std::string text = fmt::format("\n  {}:\n\n", name);
  for (std::size_t lines = 0; !content.empty(); ++lines) {
    if (detail == Detail::kShort && lines == kOutputLinesMost) {
      text += "    ...\n";
      break;
    }
    const std::size_t end = std::min(content.find('\n'), content.size());
    text += fmt::format("    {}\n", printable(content.substr(0, end)));
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return text + (is_cut ? "    ... (cut off)\n" : "");
}

}  // namespace

std::vector<std::string> schedule_lines(const Story& story) {
  std::vector<std::string> lines;
  for (const ScheduleStep& step : story.schedule) {
    lines.push_back(
        fmt::format("{:>4}  {:<12} {}{}", lines.size() + 1, step.thread, printable(step.text), stack_text(step.stack)));
  }
  return lines;
}

// Machines that failed and were not restarted.
static std::string down_text(const Story& story) {
  std::string text;
  for (std::uint32_t machine = 0; machine < story.machines; ++machine) {
    std::size_t since = 0;  // the step, from 1
    for (std::size_t i = 0; i < story.schedule.size(); ++i) {
      const ScheduleStep& step = story.schedule[i];
      if (step.is_failure && step.machine == machine) since = i + 1;
      if (step.text == fmt::format("restart machine {}", machine)) since = 0;
    }
    if (since > 0) text += fmt::format("          machine {} is down since step {}\n", machine, since);
  }
  return text.empty() ? "" : "\n" + text;
}

static std::string schedule_text(const Story& story) {
  if (story.schedule.empty() && story.waiting.empty()) return "";
  std::string text = "\n  The schedule that leads there:\n\n";
  for (const std::string& line : story.machines > 0 ? machine_columns(story) : schedule_lines(story))
    text += "    " + line + "\n";
  if (!story.waiting.empty()) text += "\n  Where the other threads are:\n\n";
  for (const WaitingThread& thread : story.waiting) {
    text += fmt::format("          {:<12} {}{}\n", thread.thread,
                        thread.holds.empty() ? "" : fmt::format("holds {}; ", fmt::join(thread.holds, ", ")),
                        thread.text + stack_text(thread.stack));
  }
  return text + down_text(story);
}

static std::string race_text(const Race& race) {
  std::string text = "\n  The data race: nothing orders these two accesses:\n";
  for (const RaceAccess& access : race.accesses) {
    text += fmt::format("\n    {}, after step {}\n", access.text, access.step);
    for (const SourceLine& line : access.stack)
      text += fmt::format("        {}{}\n", printable(line.function),
                          line.file.empty() ? "" : fmt::format(" at {}:{}", printable(line.file), line.line));
  }
  return text;
}

static std::string crash_text(const Story& story, std::size_t i, Detail detail) {
  const std::string who = i == 0 ? story.names.program : "that run of " + story.names.recovery;
  std::string text = fmt::format("\n  What {} did, and what of it {} held{}:\n\n", who, story.names.medium,
                                 i == 0 ? "" : " after a second crash");
  text += OperationTable(story.crashes[i].operations, story.names, detail).text();
  text += fmt::format("\n  What {}{} then did and saw:\n\n", story.names.recovery, i == 0 ? "" : ", run again,");
  return text + calls_text(story.crashes[i].calls, detail);
}

std::string story_text(const Story& story, Detail detail) {
  std::string text = schedule_text(story);
  if (story.race) text += race_text(*story.race);
  if (!story.schedule.empty() && !story.crashes.empty()) {
    text +=
        fmt::format("\n  Then the power failed{}:\n",
                    story.is_one_of_class ? " (calls that only the journal orders are shown in one of their orders; "
                                            "the disk may have had another one)"
                                          : "");
  }
  for (std::size_t i = 0; i < story.crashes.size(); ++i) text += crash_text(story, i, detail);
  text += stream_text("Output of " + story.names.recovery, story.output, story.output_cut, detail);
  return text + stream_text("Stderr of " + story.names.recovery, story.errors, story.errors_cut, detail);
}

}  // namespace crashcut::result
