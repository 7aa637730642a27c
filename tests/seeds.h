// Seeds of the random tests: the same ones every time, CRASHCUT_LONG=1 for a hundred times as many, and
// CRASHCUT_SEED=n for the one that failed. Under a sanitizer a tenth of them: it makes a test three to fifteen times as
// slow, and the errors that it finds are in the code, which a tenth of the cases runs through as well.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace crashcut::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

inline bool is_long_run() {
  const char* text = std::getenv("CRASHCUT_LONG");
  return text != nullptr && std::string(text) == "1";
}

// How many cases of a kind a run must have had at least that has `count` of them without a sanitizer. A twentieth, as
// a tenth of the seeds may have less than their share.
inline std::uint64_t least_of(std::uint64_t count) { return kIsSanitized ? count / 20 : count; }

// Calls check(seed) for each seed, until one returns false. `count` is the number in a short run.
template <class Check>
void for_each_seed(std::uint64_t count, Check&& check) {
  if (const char* text = std::getenv("CRASHCUT_SEED")) {
    check(std::strtoull(text, nullptr, 10));
    return;
  }
  if (is_long_run()) count *= 100;
  if (kIsSanitized) count = (count + 9) / 10;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    if (!check(seed)) return;
  }
}

}  // namespace crashcut::tests
