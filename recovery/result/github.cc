#include "recovery/result/github.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "recovery/result/words.h"

namespace crashcut::result {
namespace {

constexpr std::size_t kAnnotationsMost = 10;  // GitHub shows no more errors, and no more warnings, of one step

struct SourcePlace {
  std::string file;
  std::uint64_t line;
  std::string text{};  // what was done there

  bool is_at(const SourcePlace& other) const { return file == other.file && line == other.line; }
};
using SourcePlaces = std::vector<SourcePlace>;

std::string escaped(std::string_view text, std::string_view also = "") {
  std::string out;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n' || also.find(c) != also.npos) {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}
std::string property(std::string_view name, std::string_view value) {
  return fmt::format("{}={}", name, escaped(value, ":,"));
}

// Adds the place that the text is: "tree.cpp:41"; of "pmem.h:20 (tree.cpp:41)" the caller. Nothing without debug
// information: "tree+0x12f4".
void add_place(std::string_view text, SourcePlaces& places) {
  if (const std::size_t caller = text.find(" ("); caller != text.npos && text.ends_with(')'))
    text = text.substr(caller + 2, text.size() - caller - 3);
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return;
  SourcePlace place{std::string(text.substr(0, colon)), 0};
  const auto read = std::from_chars(text.data() + colon + 1, text.data() + text.size(), place.line);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return;
  const bool is_known =
      std::any_of(places.begin(), places.end(), [&](const auto& other) { return place.is_at(other); });
  if (!is_known) places.push_back(std::move(place));
}
// The same for the part of the text that follows the last of these words.
void add_place_after(std::string_view word, std::string_view text, SourcePlaces& places) {
  if (const std::size_t at = text.rfind(word); at != text.npos) add_place(text.substr(at + word.size()), places);
}
void add_places(std::string_view text, std::string_view separator, SourcePlaces& places) {
  for (std::size_t end; (end = text.find(separator)) != text.npos; text.remove_prefix(end + separator.size()))
    add_place(text.substr(0, end), places);
  add_place(text, places);
}

// The innermost call of the stack that has a source line.
void add_call(const std::vector<SourceLine>& stack, const std::string& text, SourcePlaces& places) {
  const auto line = std::find_if(stack.begin(), stack.end(), [](const SourceLine& at) { return !at.file.empty(); });
  if (line != stack.end()) places.push_back({line->file, line->line, text});
}

SourcePlaces places_of(const Race& race) {
  SourcePlaces places;
  for (const RaceAccess& access : race.accesses) add_call(access.stack, access.text, places);
  return places;
}

// Where the threads of a deadlock wait: those that hold something which another one waits for.
SourcePlaces waiting_places(const Story& story) {
  SourcePlaces places;
  for (const WaitingThread& thread : story.waiting) {
    if (!thread.holds.empty()) add_call(thread.stack, thread.thread + " " + thread.text, places);
  }
  return places;
}

// An operation on files whose place is known.
void add_operation(const Operation& operation, SourcePlaces& places) {
  const SourceLine& line = operation.stack.front();
  SourcePlace place{line.file, line.line, operation.text};
  const bool is_known =
      std::any_of(places.begin(), places.end(), [&](const auto& other) { return place.is_at(other); });
  if (!line.file.empty() && !is_known) places.push_back(std::move(place));
}

// The stores and other operations that were lost. Stories name them so: "store of 8 bytes to log+0x40 at log.c:8", and
// in a schedule of machines "learn what is left: answer 2; lost: 8 bytes at letter, by machine 0 in main letter.c:17".
SourcePlaces lost_operations(const Story& story) {
  SourcePlaces places;
  for (const Crash& crash : story.crashes) {
    for (const Operation& operation : crash.operations) {
      if (!operation.has_events() || operation.is_sync() || operation.fate() == Fate::kPersisted) continue;
      if (!operation.stack.empty()) {
        add_operation(operation, places);
      } else if (operation.fate() == Fate::kLost) {
        add_place_after(" at ", operation.text, places);
      }
    }
  }
  for (const ScheduleStep& step : story.schedule) {
    constexpr std::string_view kLost = "; lost: ", kNext = ", and ";
    const std::size_t at = step.text.find(kLost);
    if (at == std::string::npos) continue;
    std::string_view lost = std::string_view(step.text).substr(at + kLost.size());
    lost = lost.substr(0, lost.find("; "));
    for (std::size_t end; (end = lost.find(kNext)) != lost.npos; lost.remove_prefix(end + kNext.size()))
      add_place_after(" ", lost.substr(0, end), places);
    add_place_after(" ", lost, places);
  }
  return places;
}

SourcePlaces blamed_places(const Counterexample& example) {
  if (example.story.race) return places_of(*example.story.race);
  if (example.finding.kind == "deadlock") return waiting_places(example.story);
  SourcePlaces places;
  for (const Mend& mend : example.mends) {
    constexpr std::string_view kAfter = "after ";  // "after list.c:36, list.c:40"; of files "before the rename"
    if (mend.place.starts_with(kAfter)) add_places(std::string_view(mend.place).substr(kAfter.size()), ", ", places);
  }
  return places.empty() ? lost_operations(example.story) : places;
}

std::string annotation(std::string_view level, const std::string& title, const SourcePlace* place,
                       const std::string& message, const FindSource& find_source) {
  std::string properties;
  if (place != nullptr)
    properties = fmt::format("{},line={},", property("file", find_source(place->file)), place->line);
  return fmt::format("::{} {}{}::{}\n", level, properties, property("title", title), escaped(message));
}

std::string violation_annotations(const Result& result, const std::string& crashcut, const FindSource& find_source) {
  const std::string title = fmt::format("crashcut {}: violation", result.head.command);
  if (!result.counterexample) {
    std::string message = result.unexplained;
    for (const Finding& finding : result.findings) message += (message.empty() ? "" : "\n") + finding.text;
    return annotation("error", title, nullptr, message, find_source);
  }
  const Counterexample& example = *result.counterexample;
  std::string rest;
  for (const Mend& mend : example.mends) rest += "\nmend: " + printable(mend.text);
  if (!result.token.empty())
    rest += fmt::format("\nreplay: {} replay {}{}", crashcut, result.replay_options, result.token);
  SourcePlaces places = blamed_places(example);
  if (places.size() > kAnnotationsMost) places.resize(kAnnotationsMost);
  const std::string sentence = printable(example.sentence);
  if (places.empty()) return annotation("error", title, nullptr, sentence + rest, find_source);
  std::string text;
  for (const SourcePlace& place : places) {
    const std::string here = place.text.empty() ? "" : fmt::format("\nhere: {}", printable(place.text));
    text += annotation("error", title, &place, sentence + here + rest, find_source);
  }
  return text;
}

std::string note_annotations(const Result& result, const FindSource& find_source) {
  std::string text;
  const std::size_t count = std::min(result.memory_notes.size(), kAnnotationsMost);
  for (std::size_t i = 0; i < count; ++i) {
    const MemoryNote& note = result.memory_notes[i];
    SourcePlaces places;
    add_place(note.place, places);
    text += annotation("warning", fmt::format("crashcut {}: {}", result.head.command, note.kind),
                       places.empty() ? nullptr : &places.front(), printable(note.text), find_source);
  }
  return text;
}

}  // namespace

std::string github_text(const Result& result, const std::string& crashcut, const FindSource& find_source) {
  std::string text = note_annotations(result, find_source);
  if (result.verdict == Verdict::kViolation) return violation_annotations(result, crashcut, find_source) + text;
  if (result.verdict == Verdict::kBounded) {
    text += annotation("warning", fmt::format("crashcut {}: bounded", result.head.command), nullptr,
                       fmt::format("Nothing was found, and not everything was tried: {}", clause_of(result.bound)),
                       find_source);
  }
  return text;
}

}  // namespace crashcut::result
