#include "recovery/source/places.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <map>
#include <utility>

namespace crashcut::source {
namespace {

using result::line_text;

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
using Texts = std::map<std::uint64_t, std::string>;  // by address

// The call that an inlined function was inlined for: the innermost one in another file, or else the innermost one.
std::string caller_of(const std::vector<SourceLine>& frames, const SourceLine* inlined) {
  const SourceLine* caller = nullptr;
  for (const SourceLine* frame = inlined + 1; frame < frames.data() + frames.size(); ++frame) {
    if (frame->file.empty()) continue;
    if (caller == nullptr) caller = frame;
    if (frame->file != inlined->file) return line_text(*frame);
  }
  return caller != nullptr ? line_text(*caller) : "";
}

void find_texts(Names& names, const std::string& file, Callers callers, Texts& texts) {
  for (auto& [address, text] : texts) {
    const std::vector<SourceLine> frames = names.frames_at(file, address);
    const SourceLine* best = best_of(frames);
    if (best == nullptr || best->file.empty()) {
      text = fmt::format("{}+{:#x}", file.substr(file.rfind('/') + 1), address);
      continue;
    }
    text = line_text(*best);
    const std::string caller = callers == Callers::kBeside ? caller_of(frames, best) : "";
    if (!caller.empty()) text += fmt::format(" ({})", caller);
  }
}

// Of an operation or a call.
template <class Told>
void name_stack(Names& names, Told& told) {
  const std::string code = std::exchange(told.code, "");
  std::vector<SourceLine> frames;
  for (Place at = find_place(code, 0); at.end != 0; at = find_place(code, at.end)) {
    const std::vector<SourceLine> found = names.frames_at(at.file, at.address);
    frames.insert(frames.end(), found.begin(), found.end());
  }
  told.stack = own_frames(std::move(frames));
}

void name_places(Names& names, const std::vector<std::string*>& texts, Callers callers) {
  std::map<std::string, Texts> files;
  for (const std::string* text : texts) {
    for (Place at = find_place(*text, 0); at.end != 0; at = find_place(*text, at.end)) files[at.file][at.address];
  }
  for (auto& [file, found] : files) find_texts(names, file, callers, found);
  for (std::string* text : texts) {
    for (Place at = find_place(*text, 0); at.end != 0;) {
      const std::string& name = files[at.file][at.address];
      text->replace(at.begin, at.end - at.begin, name);
      at = find_place(*text, at.begin + name.size());
    }
  }
}

}  // namespace

void name_source_places(Names& names, const std::vector<std::string*>& texts) {
  name_places(names, texts, Callers::kBeside);
}

void name_stacks(Names& names, std::vector<result::Operation>& operations) {
  for (result::Operation& operation : operations) name_stack(names, operation);
}

void name_source_places(Names& names, result::Story& story) {
  for (result::Crash& crash : story.crashes) {
    name_stacks(names, crash.operations);
    for (result::Call& call : crash.calls) name_stack(names, call);
  }
  std::vector<std::string*> texts;
  for_each_text(story, [&](std::string& text) { texts.push_back(&text); });
  name_places(names, texts, Callers::kNone);
}

}  // namespace crashcut::source
