// Estimate: how large a tree is that is not explored yet.
#pragma once

namespace crashcut::persist {

// How many runs a tree has, or a part of one: a guess, and two numbers that the truth is likely to lie between.
struct Estimate {
  double low = 1, likely = 1, high = 1;

  Estimate& operator+=(const Estimate& other) {
    low += other.low;
    likely += other.likely;
    high += other.high;
    return *this;
  }
};

}  // namespace crashcut::persist
