#include "recovery/inprocess/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>
#include <new>

#include "recovery/inprocess/gate.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {
constexpr std::size_t kRangeBytes = std::size_t{64} << 30;  // addresses, not memory
constexpr std::size_t kLarge = 64 * 1024;
constexpr std::size_t kHeaderBytes = 16;  // keeps the size of a block before it

constinit Arena g_shared;
constinit Arena g_private;
constinit Arena* g_active = nullptr;

// Four classes a power of two: the fewer pages are touched, the cheaper a fork is.
struct Class {
  int index;
  std::size_t bytes;
};
Class class_of(std::size_t bytes) {
  if (bytes <= 64) return {static_cast<int>((bytes + 15) / 16), (bytes + 15) / 16 * 16};
  const int power = std::bit_width(bytes - 1) - 1;  // 2^power < bytes <= 2^(power + 1)
  const std::size_t step = std::size_t{1} << (power - 2);
  const std::size_t steps = (bytes - (std::size_t{1} << power) + step - 1) / step;
  return {(power - 6) * 4 + 4 + static_cast<int>(steps), (std::size_t{1} << power) + steps * step};
}
std::size_t rounded(std::size_t bytes) { return bytes > kLarge ? (bytes + 4095) / 4096 * 4096 : class_of(bytes).bytes; }
}  // namespace

void Arena::set_range(void* begin, std::size_t range_bytes, std::size_t bytes_most, int advice) {
  begin_ = top_ = static_cast<char*>(begin);
  end_ = begin_ + range_bytes;
  left_ = bytes_most;
  advice_ = advice;
}

void* Arena::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (size <= kLarge) {
    void*& list = free_[class_of(bytes).index];
    if (list != nullptr) {
      void* block = list;
      list = *static_cast<void**>(block);
      return block;
    }
  } else {
    top_ = begin_ + (used_bytes() + 4095) / 4096 * 4096;
  }
  if (size > left_ || size > static_cast<std::size_t>(end_ - top_)) return nullptr;
  void* block = top_;
  top_ += size;
  left_ -= size;
  return block;
}

void Arena::release(void* block, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (size > kLarge) {
    kernel(SYS_madvise, block, size, advice_);
    left_ += size;
    return;
  }
  void*& list = free_[class_of(bytes).index];
  *static_cast<void**>(block) = list;
  list = block;
}

bool map_arenas() {
  const long fd = kernel(SYS_memfd_create, "crashcut-recording", MFD_CLOEXEC);
  if (fd < 0) return false;
  if (kernel(SYS_ftruncate, fd, kRangeBytes) < 0) return false;
  const long shared = kernel(SYS_mmap, 0, kRangeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  kernel(SYS_close, fd);
  if (shared < 0 && shared > -4096) return false;
  const long own =
      kernel(SYS_mmap, 0, kRangeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (own < 0 && own > -4096) return false;
  for (const long begin : {shared, own}) kernel(SYS_mprotect, begin, kGuardBytes, PROT_NONE);
  g_shared.set_range(reinterpret_cast<void*>(shared + kGuardBytes), kRangeBytes - kGuardBytes, kRangeBytes,
                     MADV_REMOVE);
  g_private.set_range(reinterpret_cast<void*>(own + kGuardBytes), kRangeBytes - kGuardBytes, kRangeBytes,
                      MADV_DONTNEED);
  g_active = &g_shared;
  return true;
}

void limit_arenas(std::size_t bytes_most) {
  g_shared.set_bytes_most(bytes_most);
  g_private.set_bytes_most(bytes_most);
}

Arena& private_arena() { return g_private; }
Arena& shared_arena() { return g_shared; }

void use_private_arena() {
  if (g_active == &g_private) return;
  g_active = &g_private;
  kernel(SYS_mprotect, g_shared.begin(), g_shared.end() - g_shared.begin(), PROT_READ);
}

// There is no memory to make a sentence in.
[[noreturn]] static void refuse_more() {
  char text[128];
  const auto end =
      fmt::format_to_n(text, sizeof text, "the program wrote more than the model can hold ({} MiB of recorded data)",
                       g.header == nullptr ? 0 : g.header->memory_bytes_most >> 20);
  user_error({text, end.size});
}

static void* allocate(std::size_t bytes) {
  // Before the arenas are mapped only the C++ runtime's own set-up may ask, and it must not.
  if (g_active == nullptr) kernel(SYS_exit_group, 4);
  const std::size_t size = bytes + kHeaderBytes;
  char* block = static_cast<char*>(g_active->allocate(size));
  if (block == nullptr) refuse_more();
  *reinterpret_cast<std::size_t*>(block) = size;
  return block + kHeaderBytes;
}

static void release(void* p) {
  if (p == nullptr) return;
  char* block = static_cast<char*>(p) - kHeaderBytes;
  if (g_active->contains(block)) g_active->release(block, *reinterpret_cast<std::size_t*>(block));
}

}  // namespace crashcut::inprocess

using crashcut::inprocess::allocate;
using crashcut::inprocess::release;

// Over-aligned types do not occur in the model; blocks are aligned to 16 bytes.
void* operator new(std::size_t n) { return allocate(n); }
void* operator new[](std::size_t n) { return allocate(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
