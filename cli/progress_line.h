// ProgressLine: how far a long search is, on stderr: one line that changes on a terminal, else one every few seconds.
#pragma once

#include <string>

#include "recovery/search/plan.h"

namespace crashcut::cli {

class ProgressLine {
 public:
  // Quiet: nothing is shown.
  explicit ProgressLine(bool is_quiet);
  ~ProgressLine();
  void show(const result::Progress& progress);
  void clear();
  // For a search that shows how far it is, and ends when the user says so.
  search::Hooks hooks();

 private:
  bool is_quiet_, is_terminal_;
  bool is_shown_ = false;
  double next_s_;
};

}  // namespace crashcut::cli
