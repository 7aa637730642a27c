#include "recovery/result/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

namespace crashcut::result {
namespace {

// As a string of C.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out + "\"";
}

// How many bytes the letter beyond ASCII takes that the text begins with; 0 if it does not begin with one.
std::size_t letter_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                            : (first & 0xf0) == 0xe0        ? 3
                            : first >= 0xf0 && first < 0xf5 ? 4
                                                            : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  char32_t letter = first & (0x7f >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    letter = letter << 6 | (byte & 0x3f);
  }
  if (letter < (bytes == 3 ? 0x800u : bytes == 4 ? 0x10000u : 0x80u) || letter > 0x10ffff) return 0;
  // Controls, blanks that look like others, marks of direction, surrogates, private letters and those that cannot be
  // seen.
  constexpr std::pair<char32_t, char32_t> kUnseen[] = {
      {0x80, 0xa0},     {0xad, 0xad},     {0x61c, 0x61c},     {0x180e, 0x180e}, {0x2000, 0x200f},
      {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000},   {0xd800, 0xf8ff}, {0xfe00, 0xfe0f},
      {0xfeff, 0xfeff}, {0xfff0, 0xffff}, {0xe0000, 0x10ffff}};
  const bool is_seen = std::none_of(std::begin(kUnseen), std::end(kUnseen),
                                    [&](const auto& r) { return letter >= r.first && letter <= r.second; });
  return is_seen ? bytes : 0;
}

}  // namespace

std::string count_text(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string percent_text(double fraction) {
  constexpr double kLeast = 1e-6;
  if (fraction < kLeast) return "less than 0.0001%";
  if (fraction < 0.0995) return fmt::format("{:.2g}%", 100 * fraction);
  return fmt::format("{:.0f}%", std::min(99.0, 100 * fraction));
}

std::string time_text(double seconds) {
  constexpr double kMinute_s = 60, kHour_s = 3600, kDay_s = 86400, kYear_s = 365.25 * kDay_s;
  if (seconds < 2 * kMinute_s) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * kHour_s) return fmt::format("{:.0f} min", seconds / kMinute_s);
  if (seconds < 2 * kDay_s) return fmt::format("{:.0f} h", seconds / kHour_s);
  if (seconds < 2 * kYear_s) return fmt::format("{:.0f} days", seconds / kDay_s);
  if (seconds <= 1000 * kYear_s) return fmt::format("{:.0f} years", seconds / kYear_s);
  return "more than 1,000 years";
}

std::string seconds_text(std::chrono::seconds time) {
  return count_text(static_cast<std::uint64_t>(time.count()), "second", "seconds");
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + printable(word);
  return text;
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t bytes = byte < 0x80 ? 0 : letter_bytes(text.substr(i)); bytes > 0) {
      out += text.substr(i, bytes);
      i += bytes - 1;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\0') {
      out += "\\0";
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

std::string outcome_text(std::string_view output) {
  if (output.ends_with('\n')) output.remove_suffix(1);
  std::string one_line;
  for (const char c : output) one_line += c == '\n' ? std::string("; ") : std::string(1, c);
  return one_line;
}

std::string printable_outcome(const std::string& output) {
  const std::string text = outcome_text(output);
  return text.empty() ? "(no output)" : printable(text);
}

std::vector<std::string> texts_of(const std::vector<std::string>& outputs,
                                  const std::function<std::string(const std::string&)>& text) {
  std::vector<std::string> texts;
  for (const std::string& output : outputs) texts.push_back(text(output));
  // One in quotes may look like another as it is, which then needs them too.
  for (bool is_done = false; !is_done;) {
    is_done = true;
    std::map<std::string, int> counts;
    for (const std::string& one : texts) ++counts[one];
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (counts[texts[i]] == 1 || texts[i] == in_quotes(outputs[i])) continue;
      texts[i] = in_quotes(outputs[i]);
      is_done = false;
    }
  }
  return texts;
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  const std::size_t newline = text.rfind('\n');
  return std::string(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

std::vector<std::string> wrapped(std::string text, std::size_t width, std::string_view indent) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    const std::size_t space = text.rfind(' ', width);
    const std::size_t end = space == std::string::npos || space < width / 3 ? width : space;
    lines.push_back(text.substr(0, end));
    text = std::string(indent) + text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  lines.push_back(text);
  return lines;
}

}  // namespace crashcut::result
