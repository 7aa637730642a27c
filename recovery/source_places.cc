#include "recovery/source_places.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <map>

#include "recovery/source_lines.h"

namespace crashcut::recovery {
namespace {

// "{file+0xaddress}" in a text.
struct Place {
  std::size_t begin, end;
  std::string file;
  std::uint64_t address;
};

// The first one at or after `from`; none: end is 0.
Place find_place(const std::string& text, std::size_t from) {
  for (std::size_t begin = text.find('{', from); begin != text.npos; begin = text.find('{', begin + 1)) {
    const std::size_t end = text.find('}', begin);
    if (end == text.npos) break;
    const std::size_t plus = text.rfind("+0x", end);
    if (plus == text.npos || plus < begin) continue;
    Place place{begin, end + 1, text.substr(begin + 1, plus - begin - 1), 0};
    const char* last = text.data() + end;
    const auto parsed = std::from_chars(text.data() + plus + 3, last, place.address, 16);
    if (parsed.ec == std::errc{} && parsed.ptr == last) return place;
  }
  return Place{0, 0, "", 0};
}

void for_each_text(result::Story& story, const std::function<void(std::string&)>& visit) {
  visit(story.wait);
  for (result::Crash& crash : story.crashes) {
    for (result::Operation& operation : crash.operations) {
      visit(operation.text);
      for (result::Event& event : operation.events) visit(event.text);
    }
    for (result::Call& call : crash.calls) {
      visit(call.text);
      for (result::Observation& observation : call.observations) {
        for (std::string& candidate : observation.candidates) visit(candidate);
      }
    }
  }
}

enum class Callers { kNone, kBeside };
using Names = std::map<std::uint64_t, std::string>;  // by address

std::string text_of(const SourceLine& line) { return fmt::format("{}:{}", line.file, line.line); }

// The call that an inlined function was inlined for: the innermost one in another file, or else the innermost one.
std::string caller_of(const std::vector<SourceLine>& stack) {
  for (std::size_t i = 1; i < stack.size(); ++i) {
    if (!stack[i].file.empty() && stack[i].file != stack.front().file) return text_of(stack[i]);
  }
  return stack.size() > 1 && !stack[1].file.empty() ? text_of(stack[1]) : "";
}

void find_names(const std::string& file, Callers callers, Names& names) {
  std::vector<std::uint64_t> addresses;
  for (const auto& [address, name] : names) addresses.push_back(address);
  const auto lines = find_source_lines(file, addresses);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    std::string& name = names[addresses[i]];
    if (lines[i].empty() || lines[i].front().file.empty()) {
      name = fmt::format("{}+{:#x}", file.substr(file.rfind('/') + 1), addresses[i]);
      continue;
    }
    name = text_of(lines[i].front());
    const std::string caller = callers == Callers::kBeside ? caller_of(lines[i]) : "";
    if (!caller.empty()) name += fmt::format(" ({})", caller);
  }
}

void name_places(const std::vector<std::string*>& texts, Callers callers) {
  std::map<std::string, Names> files;
  for (const std::string* text : texts) {
    for (Place at = find_place(*text, 0); at.end != 0; at = find_place(*text, at.end)) files[at.file][at.address];
  }
  for (auto& [file, names] : files) find_names(file, callers, names);
  for (std::string* text : texts) {
    for (Place at = find_place(*text, 0); at.end != 0;) {
      const std::string& name = files[at.file][at.address];
      text->replace(at.begin, at.end - at.begin, name);
      at = find_place(*text, at.begin + name.size());
    }
  }
}

}  // namespace

void name_source_places(const std::vector<std::string*>& texts) { name_places(texts, Callers::kBeside); }

void name_source_places(result::Story& story) {
  std::vector<std::string*> texts;
  for_each_text(story, [&](std::string& text) { texts.push_back(&text); });
  name_places(texts, Callers::kNone);
}

}  // namespace crashcut::recovery
