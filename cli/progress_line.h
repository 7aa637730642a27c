// ProgressLine: how far a long search is, on stderr: one line that changes on a terminal, else one every few seconds.
#pragma once

#include <string>

#include "recovery/check.h"

namespace crashcut::cli {

// "90 s", "15 min", "3 h".
std::string time_text(double seconds);

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  void show(const recovery::Progress& progress);
  void clear();

 private:
  bool is_terminal_;
  bool is_shown_ = false;
  double next_s_;
};

}  // namespace crashcut::cli
