#include "recovery/result/path.h"

namespace crashcut::result {

std::string path_text(std::span<const std::uint32_t> path) {
  if (path.empty()) return "-";
  std::string text;
  bool begins = true;
  for (std::uint32_t answer : path) {
    if (answer == kCrashAgain) {
      text += '/';
      begins = true;
      continue;
    }
    if (!begins) text += '.';
    text += std::to_string(answer);
    begins = false;
  }
  return text;
}

}  // namespace crashcut::result
