#include "cli/commands.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/interrupts.h"

namespace crashcut::cli {

std::string& our_name() {
  static std::string name = "crashcut";
  return name;
}

int report_failure(const result::Failure& failure) {
  if (is_interrupted()) {
    fmt::print(stderr, "bounded: interrupted before there was a result\n");
    return 3;
  }
  fmt::print(stderr, "crashcut: {}\n", failure.sentence);
  return failure.blame == result::Blame::kUser ? 2 : 4;
}

}  // namespace crashcut::cli
