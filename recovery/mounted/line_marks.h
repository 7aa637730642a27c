// LineMarks: lines that a program prints are marks: "stdout 3: saved".
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

#include "recovery/mounted/versions.h"

namespace crashcut::mounted {

class LineMarks {
 public:
  explicit LineMarks(std::function<void(const std::string&)> mark) : mark_(std::move(mark)) {}

  void add(std::string_view text) {
    line_ += text;
    for (std::size_t end; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1))
      mark_line(line_.substr(0, end));
  }
  // A line without an end is one, too, once the program has ended.
  bool has_part() const { return !line_.empty(); }
  void end() {
    if (has_part()) mark_line(line_);
    line_.clear();
  }

 private:
  void mark_line(const std::string& line) { mark_(fmt::format("{}{}: {}", kLinePrefix, ++count_, line)); }

  std::function<void(const std::string&)> mark_;
  std::string line_;
  std::uint64_t count_ = 0;
};

}  // namespace crashcut::mounted
