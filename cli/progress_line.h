// ProgressLine: how far a long search is, on stderr: one line that changes on a terminal, else one every few seconds.
#pragma once

#include "recovery/check.h"

namespace crashcut::cli {

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
