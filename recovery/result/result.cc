#include "recovery/result/result.h"

#include <algorithm>

namespace crashcut::result {

Setting::Value or_none(std::uint64_t bound) { return bound == 0 ? Setting::Value(nullptr) : Setting::Value(bound); }
Setting::Value or_none(double bound) { return bound == 0 ? Setting::Value(nullptr) : Setting::Value(bound); }
Setting::Value or_none(const std::string& text) {
  return text.empty() ? Setting::Value(nullptr) : Setting::Value(text);
}

Verdict worst_of(const std::vector<Result>& rows, std::size_t expected_count) {
  const auto has = [&](Verdict verdict) {
    return std::any_of(rows.begin(), rows.end(), [&](const Result& row) { return row.verdict == verdict; });
  };
  if (has(Verdict::kViolation)) return Verdict::kViolation;
  return has(Verdict::kBounded) || rows.size() < expected_count ? Verdict::kBounded : Verdict::kVerified;
}

}  // namespace crashcut::result
