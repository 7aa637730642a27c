#include "recovery/mounted/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "recovery/mounted/versions.h"

namespace crashcut::mounted {
namespace {

using result::Fate;
using result::Operation;

// Whether an operation's text names the file: "write(notes.txt, 25 bytes at 0)", "rename(t, notes.txt)".
bool names(const Operation& operation, const std::string& path) {
  const std::size_t open = operation.text.find('(');
  for (std::size_t at = operation.text.find(path, open == std::string::npos ? 0 : open); at != std::string::npos;
       at = operation.text.find(path, at + 1)) {
    const char before = at == 0 ? '(' : operation.text[at - 1];
    const std::size_t end = at + path.size();
    const char after = end < operation.text.size() ? operation.text[end] : ')';
    if ((before == '(' || before == ' ' || before == '"' || before == ',') &&
        (after == ',' || after == ')' || after == '"' || after == ' '))
      return true;
  }
  return false;
}

// Without the process' name, which the table has.
std::string bare(const std::string& text) {
  const std::size_t colon = text.find(": ");
  const std::size_t open = text.find('(');
  return colon != std::string::npos && colon < open ? text.substr(colon + 2) : text;
}

std::string list(const std::vector<const Operation*>& operations) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (i == kMost) return text + fmt::format(" and {} more", operations.size() - kMost);
    text += (i == 0 ? "" : i + 1 == operations.size() ? " and " : ", ") + bare(operations[i]->text);
  }
  return text;
}

// The operations on what has the name `path` in the end, under the names that it had before: "rename(t, path)".
std::vector<bool> concerned(const std::vector<Operation>& operations, const std::string& path) {
  std::vector<bool> is_concerned(operations.size(), false);
  std::vector<std::string> paths{path};
  for (std::size_t i = operations.size(); i-- > 0;) {
    std::string text = bare(operations[i].text);
    constexpr std::string_view kFlag = ", RENAME_NOREPLACE)";
    if (text.ends_with(kFlag)) text.replace(text.size() - kFlag.size(), kFlag.size(), ")");
    const bool names_it =
        std::any_of(paths.begin(), paths.end(), [&](const std::string& name) { return names(operations[i], name); });
    is_concerned[i] = names_it;
    for (std::size_t k = 0; names_it && text.starts_with("rename(") && k < paths.size(); ++k) {
      const std::string end = ", " + paths[k] + ")";
      if (!text.ends_with(end)) continue;
      const std::string before = text.substr(7, text.size() - 7 - end.size());
      if (std::find(paths.begin(), paths.end(), before) == paths.end()) paths.push_back(before);
      break;
    }
  }
  return is_concerned;
}

// What of the program's doings on the file was on the disk, and what was not.
std::string why(const std::vector<Operation>& operations, const std::string& path) {
  std::vector<const Operation*> kept, lost;
  bool sync_between = false;
  const std::vector<bool> is_concerned = concerned(operations, path);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (!operation.has_events() || operation.is_durable() || operation.is_sync() || !is_concerned[i]) continue;
    (operation.fate() == Fate::kPersisted ? kept : lost).push_back(&operation);
  }
  if (lost.empty()) return "";
  // An fsync after the first of what was lost, that was done when the power went, would be our mistake; one that was
  // not is no help either. What a user can do is to add one.
  for (std::size_t i = static_cast<std::size_t>(lost.front() - operations.data()) + 1; i < operations.size(); ++i) {
    if (!operations[i].is_sync() || operations[i].events.empty()) continue;
    const std::string& kind = operations[i].events.front().kind;
    sync_between = sync_between || kind == "sync" || (kind != "mark" && is_concerned[i]);
  }
  std::string text = ": ";
  if (!kept.empty()) text += fmt::format("{} had persisted, ", list(kept));
  text += fmt::format("{} had not{}", list(lost), kept.empty() ? " persisted" : "");
  if (!sync_between) text += fmt::format("; no fsync of {} follows", path);
  return text;
}

std::string moment(const search::NarratedRun& told, std::string_view program) {
  std::string last;
  for (const Operation& operation : told.story.crashes.front().operations) {
    const bool is_mark = !operation.events.empty() && operation.events.front().kind == "mark";
    if (is_mark && operation.fate() == Fate::kPersisted && !operation.is_durable()) last = bare(operation.text);
  }
  if (last.empty()) return "";
  if (last.find(fmt::format("\"{}\"", kExitMark)) != std::string::npos || last == fmt::format("mark({})", kExitMark)) {
    return fmt::format("after `{}` had exited, ", program);
  }
  return fmt::format("after {}, ", last);
}

std::string checker_end(const search::Ending& ending) {
  return ending.is_slow ? "the checker did not end in time (--check-limit), was killed" : ending.finding.text;
}

}  // namespace

std::string explain(const Question& question, const search::NarratedRun& told, std::string_view program) {
  const search::Ending& ending = told.run.ending;
  if (told.story.crashes.empty()) return ending.outcome;
  const auto& operations = told.story.crashes.front().operations;
  const std::string when = moment(told, program);
  if (const auto* file = std::get_if<FileQuestion>(&question)) {
    std::string found = ending.finding.text;
    const std::string is = file->path + " is ";
    if (found.starts_with(is)) found = found.substr(is.size());
    if (const std::size_t after = found.find(" after \"");
        after != std::string::npos && ending.finding.kind == to_text(Finding::kNotDurable))
      found.resize(after);
    return fmt::format("{}a crash can leave {} {}{}", when, file->path, found, why(operations, file->path));
  }
  std::string message = ending.finding.message.empty() ? ending.errors : ending.finding.message;
  while (!message.empty() && message.back() == '\n') message.pop_back();
  const std::string said = message.empty() ? "and printed nothing" : fmt::format("and said: {}", message);
  const std::string_view crash =
      told.story.crashes.size() == 1 ? "a crash" : "a crash, and another one while the checker ran,";
  return fmt::format("{}{} can leave a state that the checker refuses: {} {}", when, crash, checker_end(ending), said);
}

}  // namespace crashcut::mounted
