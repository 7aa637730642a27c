#include "cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/interrupts.h"
#include "recovery/result/text.h"

namespace crashcut::cli {
namespace {

constexpr double kQuiet_s = 2;
constexpr double kInterval_s = 2;
constexpr double kTerminalInterval_s = 0.2;

}  // namespace

ProgressLine::ProgressLine(bool is_quiet)
    : is_quiet_(is_quiet), is_terminal_(isatty(STDERR_FILENO) == 1), next_s_(kQuiet_s) {}
ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(const result::Progress& progress) {
  if (is_quiet_ || progress.seconds < next_s_) return;
  next_s_ = progress.seconds + (is_terminal_ ? kTerminalInterval_s : kInterval_s);
  if (is_terminal_) {
    fmt::print(stderr, "\r\033[K{}", result::progress_text(progress));
    is_shown_ = true;
  } else {
    fmt::print(stderr, "{}\n", result::progress_text(progress));
  }
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (is_shown_) fmt::print(stderr, "\r\033[K");
  is_shown_ = false;
}

search::Hooks ProgressLine::hooks() {
  return {[this](const result::Progress& progress) { show(progress); }, is_interrupted};
}

}  // namespace crashcut::cli
