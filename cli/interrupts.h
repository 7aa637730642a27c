// Interrupts: SIGINT, SIGTERM and SIGHUP end a search in good order; what it found is still printed.
//
// The first signal stops the exploration. Where none is running yet, or at a second signal, or when nobody reads
//   our output any more (SIGPIPE), crashcut ends at once: its guard ends the compiler and removes the compiled
//   program, and its death takes the program under test along.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "cli/guard.h"

namespace crashcut::cli {

void install_interrupts();
bool is_interrupted();

// A search that the first signal stops; nullptr: none.
void watch_stop(std::atomic<bool>* stop);
// While one lives, the first signal only sets is_interrupted(): a search looks at that by itself.
class SearchSignals {
 public:
  SearchSignals();
  ~SearchSignals();
  SearchSignals(const SearchSignals&) = delete;
};
// While one lives, crashcut ends a second after `end`, if there is one: nothing has been found yet that could be told.
// A program that is being recorded is stopped at `end`; a copy of a large tree, say, is not.
class EndsInTime {
 public:
  explicit EndsInTime(std::optional<std::chrono::steady_clock::time_point> end);
  ~EndsInTime();
  EndsInTime(const EndsInTime&) = delete;
};
// The guard that is to finish before a sudden end; nullptr: none.
void watch_guard(Guard* guard);

}  // namespace crashcut::cli
