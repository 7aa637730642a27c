#include <algorithm>
#include <string_view>

#include "tests/posix_model.h"

namespace crashcut::tests {

std::string posix_outcome_text(const std::vector<PosixThreadEnd>& threads, int serials) {
  std::string text;
  for (const PosixThreadEnd& thread : threads) {
    for (const int result : thread.results) text += result == kPosixNone ? "- " : std::to_string(result) + " ";
    text += std::string(1, thread.how) + "; ";
  }
  return text + std::to_string(serials);
}

bool has_signals(const PosixProgram& program) {
  return std::any_of(program.threads.begin(), program.threads.end(), [](const std::vector<PosixCall>& calls) {
    return std::any_of(calls.begin(), calls.end(), [](const PosixCall& call) {
      return std::string_view(kPosixSignalCalls).find(call.what) != std::string_view::npos;
    });
  });
}

std::string posix_words(const PosixProgram& program) {
  std::string words;
  for (const PosixMutex kind : program.mutexes) words += static_cast<char>(kind);
  for (const int count : program.semaphores) words += static_cast<char>('0' + count);
  for (const int count : program.barriers) words += static_cast<char>('0' + count);
  words += program.handlers_block ? 'b' : 'n';
  for (const auto& thread : program.threads) {
    words += " ";
    for (const PosixCall& call : thread) words += std::string(1, call.what) + std::to_string(call.object);
    if (thread.empty()) words += ".";
  }
  return words;
}

}  // namespace crashcut::tests
