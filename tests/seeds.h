// Seeds of the random tests: the same ones every time, CRASHCUT_LONG=1 for a hundred times as many, and
// CRASHCUT_SEED=n for the one that failed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace crashcut::tests {

inline bool is_long_run() {
  const char* text = std::getenv("CRASHCUT_LONG");
  return text != nullptr && std::string(text) == "1";
}

// Calls check(seed) for each seed, until one returns false. `count` is the number in a short run.
template <class Check>
void for_each_seed(std::uint64_t count, Check&& check) {
  if (const char* text = std::getenv("CRASHCUT_SEED")) {
    check(std::strtoull(text, nullptr, 10));
    return;
  }
  if (is_long_run()) count *= 100;
#ifdef __SANITIZE_THREAD__
  count = (count + 9) / 10;  // it makes a test of one thread ten times as slow, and finds nothing in it
#endif
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    if (!check(seed)) return;
  }
}

}  // namespace crashcut::tests
