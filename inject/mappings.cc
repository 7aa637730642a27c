#include "inject/mappings.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "inject/gate.h"

extern "C" {
// The linker makes them.
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace crashcut::inject {

namespace {

// The whole list; empty if it is longer than the room or cannot be read.
std::string_view read_list(std::span<char> room) {
  const long fd = kernel(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::size_t used = 0;
  long got = fd;
  while (got >= 0 && used < room.size() && (got = kernel(SYS_read, fd, room.data() + used, room.size() - used)) > 0)
    used += static_cast<std::size_t>(got);
  if (fd >= 0) kernel(SYS_close, fd);
  return got < 0 || used == room.size() ? std::string_view{} : std::string_view(room.data(), used);
}

// The kernel may have merged neighbouring mappings into one, so a range to leave out can lie inside a mapping.
bool visit_outside(const Mapping& m, std::span<const AddressRange> left_out, MappingVisitor visit, void* argument) {
  if (m.begin >= m.end) return true;
  if (left_out.empty()) return visit(argument, m);
  const AddressRange out = left_out.front();
  const std::span<const AddressRange> others = left_out.subspan(1);
  if (out.end <= m.begin || out.begin >= m.end) return visit_outside(m, others, visit, argument);
  Mapping below = m, above = m;
  below.end = std::max(m.begin, out.begin);
  above.begin = std::min(m.end, out.end);
  return visit_outside(below, others, visit, argument) && visit_outside(above, others, visit, argument);
}

}  // namespace

AddressRange own_library() {
  constexpr std::uint64_t kPage = 4096;
  return {reinterpret_cast<std::uint64_t>(__ehdr_start) / kPage * kPage,
          (reinterpret_cast<std::uint64_t>(_end) + kPage - 1) / kPage * kPage};
}

bool visit_mappings(std::span<char> room, std::span<const AddressRange> left_out, MappingVisitor visit,
                    void* argument) {
  std::string_view rest = read_list(room);
  if (rest.empty()) return false;
  while (!rest.empty()) {
    // "begin-end perms offset device inode name"
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size()));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    Mapping m{};
    const char* end = line.data() + line.size();
    const char* at = std::from_chars(line.data(), end, m.begin, 16).ptr;
    at = std::from_chars(at + 1, end, m.end, 16).ptr;
    if (at[2] != 'w' || at[4] != 'p') continue;
    m.is_stack = line.ends_with("[stack]");
    m.is_file = line.find('/') != line.npos;
    if (!visit_outside(m, left_out, visit, argument)) return false;
  }
  return true;
}

}  // namespace crashcut::inject
