// Process: what all that fork have in common.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

namespace crashcut::inject {

// Where libc keeps a thread's id in its descriptor; -1 where that is not known. It is looked for once.
long thread_id_offset();
// In a child that was just forked: it ends when its parent does.
void end_with_parent(long parent);
// The status of wait(), and what the child used.
int wait_for_process(long pid, rusage* used = nullptr);

// For shared memory: as much as there is room for, and a zero.
inline void copy_text(std::string_view from, std::span<char> to) {
  const std::size_t count = std::min(from.size(), to.size() - 1);
  std::memcpy(to.data(), from.data(), count);
  to[count] = 0;
}

}  // namespace crashcut::inject
