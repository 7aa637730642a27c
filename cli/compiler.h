// The compiler for programs with persistent memory: clang with our plugin (inject/instrument/plugin.cc).
//
// All words but crashcut's own go to clang as they are, so that it can be the CC of a configure script. The plugin fits
// one version of clang. It is found as CRASHCUT_CLANG, clang-14 or clang, in this order.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/result/failure.h"

namespace crashcut::cli {

struct Instrumentation {
  bool is_late = false;                       // after optimisation
  std::vector<std::string> allowed_assembly;  // --allow-asm
};

// The command that compiles, links, or answers a question, as `words` ask. Its first word is the path of clang.
tl::expected<std::vector<std::string>, result::Failure> pmem_compiler(bool is_cxx,
                                                                      const Instrumentation& instrumentation,
                                                                      const std::vector<std::string>& words);
// For a compiler that the user calls: what `crashcut flags --pmem` prints. For compiling and for linking. For gcc they
// are those of its callbacks (instrumentation.h).
tl::expected<std::vector<std::string>, result::Failure> pmem_flags(const std::string& compiler,
                                                                   const Instrumentation& instrumentation);

}  // namespace crashcut::cli
