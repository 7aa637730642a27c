#include "cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "recovery/report.h"

namespace crashcut::cli {
namespace {

constexpr double kQuiet_s = 2;
constexpr double kInterval_s = 2;
constexpr double kTerminalInterval_s = 0.2;

std::string progress_text(const recovery::Progress& p) {
  std::string text = fmt::format("{}: {} recoveries, {} violations", time_text(p.seconds), p.recoveries, p.violations);
  // The estimator takes all subtrees of a choice to be of one size: early numbers are guesses.
  text += fmt::format("; an estimated {} done", recovery::percent_text(p.fraction));
  if (p.fraction <= 0) return text;
  return text + fmt::format(", {} left", time_text(p.seconds * std::max(0.0, 1 - p.fraction) / p.fraction));
}

}  // namespace

std::string time_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return seconds < 1e6 ? fmt::format("{:.0f} h", seconds / 3600) : "days";
}

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) == 1), next_s_(kQuiet_s) {}
ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(const recovery::Progress& progress) {
  if (progress.seconds < next_s_) return;
  next_s_ = progress.seconds + (is_terminal_ ? kTerminalInterval_s : kInterval_s);
  if (is_terminal_) {
    fmt::print(stderr, "\r\033[K{}", progress_text(progress));
    is_shown_ = true;
  } else {
    fmt::print(stderr, "{}\n", progress_text(progress));
  }
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (is_shown_) fmt::print(stderr, "\r\033[K");
  is_shown_ = false;
}

}  // namespace crashcut::cli
