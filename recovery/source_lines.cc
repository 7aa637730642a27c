#include "recovery/source_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "recovery/process_output.h"

namespace crashcut::recovery {
namespace {

// "counter.c:12", "counter.c:12 (discriminator 2)", "??:0"
SourceLine line_of(const std::string& function, const std::string& place) {
  SourceLine line{function, "", 0};
  const auto colon = place.find(':');
  if (colon == place.npos || place.starts_with("??")) return line;
  line.file = place.substr(0, colon);
  std::from_chars(place.data() + colon + 1, place.data() + place.size(), line.line);
  return line;
}

}  // namespace

std::vector<std::vector<SourceLine>> find_source_lines(const std::string& executable,
                                                       const std::vector<std::uint64_t>& addresses,
                                                       const std::function<bool()>& is_late) {
  std::vector<std::vector<SourceLine>> all(addresses.size());
  if (addresses.empty() || (is_late && is_late())) return all;
  std::vector<std::string> command = {"addr2line", "-a", "-f", "-i", "-C", "-s", "-e", executable};
  for (const std::uint64_t address : addresses) command.push_back(fmt::format("{:#x}", address));
  std::istringstream lines(output_of(command, is_late));
  std::size_t number = 0;
  for (std::string function, place; std::getline(lines, function);) {
    if (function.starts_with("0x")) {
      ++number;
    } else if (std::getline(lines, place) && number >= 1 && number <= all.size() && function != "??") {
      all[number - 1].push_back(line_of(function, place));
    }
  }
  return all;
}

}  // namespace crashcut::recovery
