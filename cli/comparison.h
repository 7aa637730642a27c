// Comparison: what crashcut compare keeps of rows that are finished or stopped, and how they share --time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "persist/deadline.h"
#include "recovery/result/result.h"

namespace crashcut::cli {

// --time is that of the whole comparison: a row may take its share of what is left.
class TimeShares {
 public:
  using Seconds = std::chrono::duration<double>;
  TimeShares(Seconds limit, std::size_t row_count) : deadline_(limit.count()), rows_left_(row_count) {}
  // Of the next row; 0: there is no bound.
  Seconds next() { return Seconds(deadline_.seconds_left() / static_cast<double>(rows_left_--)); }

 private:
  persist::Deadline deadline_;
  std::size_t rows_left_;
};

// One program under one model.
struct ComparedRow {
  result::Result result;
  std::string rest;  // of its search, finished or not (search::Plan::keeps_finished); empty: it cannot be gone on with
};

// A comparison that was stopped: enough to give the same command again, and to go on with its rows.
struct StoppedComparison {
  std::vector<std::string> words;  // of the command: its options, "--", the program
  std::string directory;           // where it was given: the program and its checker are found from there
  std::vector<std::string> rests;  // of the rows that were begun, in the order of the table; see ComparedRow::rest
};

std::string encode(const StoppedComparison& stopped);
// It is input from anywhere: the error is a sentence.
tl::expected<StoppedComparison, std::string> decode_comparison(std::string_view text);

// Whether another run could get further than these rows.
bool is_unfinished(const std::vector<ComparedRow>& rows, std::size_t expected_count);

}  // namespace crashcut::cli
