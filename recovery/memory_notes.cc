#include "recovery/memory_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "recovery/search/channel.h"
#include "recovery/source/places.h"

namespace crashcut::recovery {

using search::Json;

void MemoryNotes::add(MemoryNotes others) {
  constexpr std::size_t kNotesMost = 600;  // 100 of each kind, about
  for (std::size_t i = 0; i < others.notes.size(); ++i) {
    std::size_t known = 0;
    while (known < notes.size() && (notes[known].kind != others.notes[i].kind || about[known] != others.about[i]))
      ++known;
    if (known < notes.size()) {
      notes[known].count += others.notes[i].count;
    } else if (notes.size() < kNotesMost) {
      notes.push_back(std::move(others.notes[i]));
      about.push_back(std::move(others.about[i]));
    } else {
      ++left_out;
    }
  }
  left_out += others.left_out;
}

tl::expected<MemoryNotes, result::Failure> read_notes(inprocess::Session& session, source::Names& names) try {
  const auto lines = session.find_notes();
  if (!lines) return tl::unexpected(lines.error());
  MemoryNotes read;
  std::string_view text = *lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Json line = Json::parse(text.substr(0, end));
    if (line.contains("left_out")) {
      read.left_out = line.at("left_out");
    } else {
      read.notes.push_back({line.at("note"), line.at("place"), line.at("count"), line.at("text")});
      read.about.push_back(line.at("about"));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<std::string*> texts;
  for (result::MemoryNote& note : read.notes) texts.insert(texts.end(), {&note.place, &note.text});
  source::name_source_places(names, texts);
  return read;
} catch (const Json::exception& error) {
  return tl::unexpected(result::tools_failure(fmt::format("The runtime's notes cannot be read: {}.", error.what())));
}

void add_missing_flush(const inprocess::FlushSearch& search, source::Names& names, result::Counterexample& example) {
  auto found = inprocess::find_missing_flush(search);
  if (!found) {
    example.no_mend = "Which flush is missing could not be found out: " + found.error().sentence;
    return;
  }
  example.no_mend = std::move(found->why_none);
  if (found->mend) example.mends = {std::move(*found->mend)};
  std::vector<std::string*> texts{&example.no_mend};
  for (result::Mend& mend : example.mends) texts.insert(texts.end(), {&mend.text, &mend.place});
  source::name_source_places(names, texts);
}

}  // namespace crashcut::recovery
