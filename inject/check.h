// CHECK inside the program under test: a broken invariant of ours must not look like the program's abort.
// Included before everything else in the library's copy of the models.
#pragma once

#include "persist/check.h"

namespace crashcut::inject {
[[noreturn]] void broken_invariant(const char* file, int line, const char* condition);
}

#undef CHECK
#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::crashcut::inject::broken_invariant(__FILE__, __LINE__, #condition); \
  } while (0)
