#include "persist/check.h"

#include <cstdio>
#include <cstdlib>

namespace crashcut {

void broken_invariant(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "crashcut: broken invariant at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace crashcut
