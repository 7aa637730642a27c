// Progress: how far a search is, the same for every search.
#pragma once

#include <cstdint>
#include <string>

namespace crashcut::persist {

// The part of the whole that is done, 0 to 1: a guess, and two numbers that the truth is likely to lie between.
struct Fraction {
  double low = 0, likely = 0, high = 0;

  Fraction() = default;
  Fraction(double exactly) : low(exactly), likely(exactly), high(exactly) {}
  Fraction(double from, double most_likely, double to) : low(from), likely(most_likely), high(to) {}
};

struct Progress {
  double seconds = 0;
  std::uint64_t executions = 0;
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;
  Fraction fraction{};
  double seconds_left = -1;  // an estimate; below 0: what the fraction says
  std::string part{};        // what the fraction is of, where that is not the whole
};

}  // namespace crashcut::persist
