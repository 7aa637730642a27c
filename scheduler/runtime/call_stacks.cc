#include "scheduler/runtime/call_stacks.h"

#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "inject/call_stack.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {
namespace {

bool is_known(std::uint64_t code) {
  for (std::uint32_t i = 0; i < g_control->loaded_count; ++i) {
    const LoadedFile& file = g_control->loaded[i];
    if (file.host == g_host && code >= file.base && code < file.end) return true;
  }
  return false;
}

// A file that lies where another one lay, which is gone, comes first.
void list_loaded() {
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    char room[kPathMost];
    const std::string_view path = path_of(*map, room);
    const std::uint32_t number = g_control->loaded_count;
    if (path.empty() || path.size() >= kPathMost || number == kLoadedMost) continue;
    LoadedFile& file = g_control->loaded[number];
    std::memcpy(file.path, path.data(), path.size());
    file.path[path.size()] = 0;
    file.base = map->l_addr;
    file.end = end_of_memory(*map);
    file.host = g_host;
    g_control->loaded_count = number + 1;
  }
}

}  // namespace

CallStack call_stack() {
  CallStack stack{};
  const bool was_on = std::exchange(g_world->is_on, false);  // the unwinder's locks are no steps
  stack.count = inject::unwind(stack.calls, kCallsMost, stack.frames);
  g_world->is_on = was_on;
  if (g_control->loaded_count == 0 || (stack.count > 0 && !is_known(stack.calls[0]))) list_loaded();
  return stack;
}

std::uint64_t end_of_memory(const link_map& map) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(map.l_addr);
  const bool is_executable = map.l_name[0] == 0;  // its header may lie elsewhere
  if (!is_executable && std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  const auto* parts =
      reinterpret_cast<const ElfW(Phdr)*>(is_executable ? getauxval(AT_PHDR) : map.l_addr + header->e_phoff);
  const std::uint64_t count = is_executable ? getauxval(AT_PHNUM) : header->e_phnum;
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (parts[i].p_type == PT_LOAD) end = std::max(end, map.l_addr + parts[i].p_vaddr + parts[i].p_memsz);
  }
  return end;
}

std::string_view path_of(const link_map& map, char (&room)[kPathMost]) {
  if (map.l_name[0] != 0) return map.l_name;
  const long length = kernel(SYS_readlink, "/proc/self/exe", room, kPathMost);
  return length > 0 && length < kPathMost ? std::string_view(room, static_cast<std::size_t>(length))
                                          : std::string_view();
}

}  // namespace crashcut::scheduler::runtime
