// Process: what is common to all processes of a program under test.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

namespace crashcut::inject {

// Where libc keeps a thread's id in its descriptor; -1 if that is not known.
long thread_id_offset();

// For text in shared memory: copies as much as there is room for, and a zero.
inline void copy_text(std::string_view from, std::span<char> to) {
  const std::size_t count = std::min(from.size(), to.size() - 1);
  std::memcpy(to.data(), from.data(), count);
  to[count] = 0;
}

}  // namespace crashcut::inject
