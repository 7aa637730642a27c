#include "recovery/result/page.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "recovery/result/json.h"
#include "recovery/result/page_template.h"

namespace crashcut::result {
namespace {

using PageJson = nlohmann::ordered_json;

constexpr std::size_t kStepsMost = 5000, kStepsFirst = 1000;
constexpr std::size_t kTextBytesMost[] = {std::size_t{64} << 10, 8192, 1024, 256, 64, 16};
constexpr std::string_view kDataPlace = "@DATA@", kStylePlace = "@STYLE@", kScriptPlace = "@SCRIPT@";

// At most so many bytes, whole characters of UTF-8.
void cut_text(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  text += "\xe2\x80\xa6";  // an ellipsis
}

void cut_texts(PageJson& json, std::size_t most) {
  if (json.is_string()) {
    cut_text(json.get_ref<std::string&>(), most);
  } else if (json.is_structured()) {
    for (PageJson& part : json) cut_texts(part, most);
  }
}

// How many bytes of text there are at least, once each text is cut.
std::size_t count_bytes(const PageJson& json, std::size_t most) {
  if (json.is_string()) return std::min(json.get_ref<const std::string&>().size(), most);
  std::size_t bytes = 0;
  if (json.is_structured()) {
    for (const PageJson& part : json) bytes += count_bytes(part, most);
  }
  return bytes;
}

// The first steps of a long schedule, and the last ones, which lead to the violation.
void cut_steps(PageJson& result) {
  PageJson& violation = result.at("violation");
  if (violation.is_null()) return;
  const std::size_t count = violation.at("steps").size();
  violation["steps_left_out"] = count - std::min(count, kStepsMost);
  violation["steps_first"] = kStepsFirst;
  if (count <= kStepsMost) return;
  PageJson::array_t& steps = violation.at("steps").get_ref<PageJson::array_t&>();
  const auto first = steps.begin() + static_cast<std::ptrdiff_t>(kStepsFirst);
  steps.erase(first, steps.end() - static_cast<std::ptrdiff_t>(kStepsMost - kStepsFirst));
}

// As JSON that an HTML parser does not take for anything else: ASCII, without the characters that begin or end a tag,
// a comment or an entity.
std::string safe_text(const PageJson& document) {
  std::string safe;
  for (const char c : document.dump(-1, ' ', true, PageJson::error_handler_t::replace)) {
    if (c == '<') {
      safe += "\\u003c";
    } else if (c == '>') {
      safe += "\\u003e";
    } else if (c == '&') {
      safe += "\\u0026";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string bounded_text(PageJson document) {
  const std::size_t room = kPageBytesMost - kPageHtml.size() - kPageCss.size() - kPageJs.size();
  for (const std::size_t most : kTextBytesMost) {
    if (most < kTextBytesMost[0]) {
      for (PageJson& result : document) result.at("facts").erase("machine_runs");  // numbers: a part is of no use
    }
    if (count_bytes(document, most) > room) continue;
    cut_texts(document, most);
    std::string text = safe_text(document);
    if (text.size() <= room) return text;
  }
  return safe_text("The result is too large for a page: result.json has it.");
}

std::string filled(std::string_view place, std::string_view text, std::string page) {
  return page.replace(page.find(place), place.size(), text);
}

// Lines around each of these, and those between lines that are close together.
constexpr std::uint64_t kLinesAround = 3, kSourceLinesMost = 2000;
constexpr std::size_t kSourceLineMost = 400;

// The first place with a file: where the program itself made the call.
void note_place(const std::vector<SourceLine>& stack, std::map<std::string, std::set<std::uint64_t>>& places) {
  const auto at = std::find_if(stack.begin(), stack.end(), [](const SourceLine& line) { return !line.file.empty(); });
  if (at != stack.end()) places[at->file].insert(at->line);
}

// The source lines of a schedule: of each file the text from the first line to the last.
PageJson sources_json(const Result& result, const ReadSource& read_source) {
  PageJson sources = PageJson::object();
  if (!result.counterexample) return sources;
  std::map<std::string, std::set<std::uint64_t>> places;
  const Story& story = result.counterexample->story;
  for (const ScheduleStep& step : story.schedule) note_place(step.stack, places);
  for (const WaitingThread& thread : story.waiting) note_place(thread.stack, places);
  if (story.race) {
    for (const RaceAccess& access : story.race->accesses) note_place(access.stack, places);
  }
  for (const auto& [file, lines] : places) {
    const std::uint64_t first = *lines.begin() > kLinesAround ? *lines.begin() - kLinesAround : 1;
    const std::uint64_t last = std::min(*lines.rbegin() + kLinesAround, first + kSourceLinesMost);
    std::istringstream text(read_source(file));
    PageJson shown = PageJson::array();
    std::string line;
    for (std::uint64_t number = 1; number <= last && std::getline(text, line); ++number) {
      if (number < first) continue;
      cut_text(line, kSourceLineMost);
      shown.push_back(line);
    }
    if (!shown.empty()) sources[file] = {{"first", first}, {"lines", std::move(shown)}};
  }
  return sources;
}

PageJson with_sources(const Result& result, const std::string& crashcut, const ReadSource& read_source) {
  PageJson json = page_json(result, crashcut);
  json["separator"] = result.head.has_separator;
  json["sources"] = sources_json(result, read_source);
  return json;
}

std::string page_of(PageJson results) {
  for (PageJson& result : results) {
    cut_steps(result);
    result.erase("seconds");  // the same result is the same page
  }
  // The data comes last: nothing in it is taken for a place.
  return filled(kDataPlace, bounded_text(std::move(results)),
                filled(kScriptPlace, kPageJs, filled(kStylePlace, kPageCss, std::string(kPageHtml))));
}

}  // namespace

std::string page_text(const Result& result, const std::string& crashcut, const ReadSource& read_source) {
  return page_of(PageJson::array({with_sources(result, crashcut, read_source)}));
}

std::string page_text(const std::vector<Result>& rows, const std::string& crashcut, const ReadSource& read_source) {
  PageJson results = PageJson::array();
  for (const Result& row : rows) results.push_back(with_sources(row, crashcut, read_source));
  return page_of(std::move(results));
}

}  // namespace crashcut::result
