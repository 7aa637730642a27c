// CHECK: a broken invariant of crashcut itself. Active in every build: a checker that goes on after a
// broken invariant would report its own mistake as the program's.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                                 \
  do {                                                                                                   \
    if (!(condition)) [[unlikely]] {                                                                     \
      std::fprintf(stderr, "crashcut: broken invariant at %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                      \
    }                                                                                                    \
  } while (0)
