// The runtime's own memory, apart from the program's heap. Given back as a whole after each execution.
#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::size_t kBytes = std::size_t{8} << 30;
constexpr int kClasses = 34;
char* g_begin = nullptr;
char* g_top = nullptr;
void* g_free[kClasses] = {};

void* allocate(std::size_t bytes) {
  if (g_begin == nullptr) {
    const long at = kernel(SYS_mmap, 0, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at < 0 && at > -4096) kernel(SYS_exit_group, 4);
    g_begin = g_top = reinterpret_cast<char*>(at);
  }
  const int log = bytes <= 16 ? 4 : 64 - __builtin_clzll(bytes - 1);
  if (void* block = g_free[log]) {
    g_free[log] = *static_cast<void**>(block);
    return block;
  }
  char* block = g_top;
  *reinterpret_cast<std::size_t*>(block) = static_cast<std::size_t>(log);
  g_top += (std::size_t{1} << log) + 16;
  if (g_top > g_begin + kBytes) kernel(SYS_exit_group, 4);
  return block + 16;
}

void release(void* p) {
  if (p == nullptr) return;
  const auto log = *reinterpret_cast<std::size_t*>(static_cast<char*>(p) - 16);
  *static_cast<void**>(p) = g_free[log];
  g_free[log] = p;
}

}  // namespace

void reset_arena() {
  g_top = g_begin;
  std::memset(g_free, 0, sizeof g_free);
}

bool is_arena_room(std::uint64_t address) {
  const auto begin = reinterpret_cast<std::uint64_t>(g_begin);
  return address >= begin && address < begin + kBytes;
}

}  // namespace crashcut::scheduler::runtime

using crashcut::scheduler::runtime::allocate;
using crashcut::scheduler::runtime::release;

void* operator new(std::size_t n) { return allocate(n); }
void* operator new[](std::size_t n) { return allocate(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
