// CHECK: a broken invariant of crashcut itself. Active in every build: a checker that goes on after a
// broken invariant would report its own mistake as the program's.
#pragma once

namespace crashcut {

// Reports the broken invariant and ends the process. crashcut prints it and aborts (check.cc). The library that is
// loaded into programs under test has its own: a broken invariant of ours must not look like the program's abort.
[[noreturn]] void broken_invariant(const char* file, int line, const char* condition);

}  // namespace crashcut

#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::crashcut::broken_invariant(__FILE__, __LINE__, #condition); \
  } while (0)
