#include "recovery/mounted/source_lines.h"

#include <fmt/format.h>

#include "recovery/source/places.h"
#include "recovery/stacks/code_file.h"

namespace crashcut::mounted {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> texts_of(const fusefs::TraceReader& trace) {
  std::vector<bool> is_known;
  for (const fusefs::TraceCodeFile& file : trace.code_files()) {
    const auto now = stacks::CodeFile::open(file.path);
    is_known.push_back(now != nullptr && now->id() == file.id);
  }
  std::vector<std::string> texts;
  for (const fusefs::TraceStack& stack : trace.stacks()) {
    std::string& text = texts.emplace_back();
    for (const fusefs::TracePlace& place : stack) {
      if (is_known[place.file]) text += fmt::format("{{{}+{:#x}}}", trace.code_files()[place.file].path, place.address);
    }
  }
  return texts;
}

}  // namespace

SourceLines::SourceLines(const fusefs::TraceReader& trace, Clock::time_point end)
    : names_([end] { return Clock::now() >= end; }) {
  if (trace.code_files().empty()) return;
  texts_ = texts_of(trace);
  stack_of_.push_back(0);  // the starting state
  fusefs::TraceReader::Cursor cursor(trace);
  for (fusefs::TraceOp op; cursor.next(op);) stack_of_.push_back(op.stack);
}

void SourceLines::add_to(result::Story& story) {
  if (!story.crashes.empty()) add_to(story.crashes.front().operations);  // others are of the checker
}

void SourceLines::add_to(std::vector<result::Operation>& operations) {
  if (stack_of_.empty()) return;
  std::vector<result::Operation> shown;
  const std::vector<std::size_t> numbers = result::shown_operations(operations, result::kPageOperationsMost);
  for (const std::size_t i : numbers)
    shown.push_back({.code = i < stack_of_.size() ? texts_[stack_of_[i]] : std::string()});
  source::name_stacks(names_, shown);
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    // What made the system call has often no lines, such as the C library in a static program.
    std::erase_if(shown[k].stack, [](const result::SourceLine& line) { return line.file.empty(); });
    operations[numbers[k]].stack = std::move(shown[k].stack);
  }
}

}  // namespace crashcut::mounted
