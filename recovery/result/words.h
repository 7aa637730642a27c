// Words: how numbers, times, signals and text of unknown origin are written in reports.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace crashcut::result {

// "1 recovery", "2 recoveries"
std::string count_text(std::uint64_t count, std::string_view one, std::string_view many);
// "12%", or "less than 0.0001%". Never 100%: complete searches are described in other words.
std::string percent_text(double fraction);
// "90 s", "15 min", "3 h", "more than 1,000 years"
std::string time_text(double seconds);
// "1 second", "10 seconds"
std::string seconds_text(std::chrono::seconds time);
// "SIGSEGV"
std::string signal_text(int signal);
// Words with blanks between them, each made printable.
std::string joined(const std::vector<std::string>& words);

// Text of unknown origin on one line. Escaped are control characters, those that change the direction of writing or
// cannot be seen, and bytes that are no UTF-8.
std::string printable(std::string_view text);
// Lines of at most so many characters, between words if possible. `indent` begins all but the first.
std::vector<std::string> wrapped(std::string text, std::size_t width, std::string_view indent);
// What a recovery printed, on one line, without the newline at its end. Two outputs can look alike: see texts_of.
std::string outcome_text(std::string_view output);
// The same, printable; "(no output)" if it is empty.
std::string printable_outcome(const std::string& output);
// Outputs as `text` shows them. Outputs that it shows alike are put in quotes, with escapes, so that no two are the
// same.
std::vector<std::string> texts_of(const std::vector<std::string>& outputs,
                                  const std::function<std::string(const std::string&)>& text);
// The last line that is not blank: an assertion's text.
std::string last_line(std::string_view text);

}  // namespace crashcut::result
