#include "inject/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <new>

#include "inject/end.h"
#include "inject/gate.h"

namespace crashcut::inject {

namespace {
constexpr std::size_t kRangeBytes = std::size_t{64} << 30;  // addresses, not memory
constexpr std::size_t kModelStackBytes = 1 << 20;
constexpr std::size_t kLarge = 64 * 1024;
constexpr std::size_t kHeaderBytes = 16;  // keeps the size of a block before it

constinit std::size_t g_bytes_most = 0;
constinit Arena g_shared;
constinit Arena g_private;
constinit Arena* g_active = nullptr;

// In its first bytes.
struct KeptBlock {
  void* next;
  std::size_t bytes;
};
// Large blocks have no size class of their own.
static_assert(size_class_of(kLarge).index < kSizeClasses - 1);

// The fewer pages are touched, the cheaper a fork is.
std::size_t rounded(std::size_t bytes) {
  return bytes > kLarge ? (bytes + 4095) / 4096 * 4096 : size_class_of(bytes).bytes;
}
}  // namespace

constinit Stack g_model_stack{};

void Arena::set_range(void* begin, std::size_t range_bytes, std::size_t bytes_most, int advice) {
  begin_ = top_ = static_cast<char*>(begin);
  end_ = begin_ + range_bytes;
  left_ = bytes_most;
  advice_ = advice;
}

void* Arena::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (size <= kLarge) {
    void*& list = free_[size_class_of(bytes).index];
    if (list != nullptr) {
      void* block = list;
      list = *static_cast<void**>(block);
      return block;
    }
  } else {
    if (void* block = take_kept(size)) {
      left_ -= size;
      return block;
    }
    top_ = begin_ + (used_bytes() + 4095) / 4096 * 4096;
  }
  if (size > left_ || size > static_cast<std::size_t>(end_ - top_)) return nullptr;
  void* block = top_;
  top_ += size;
  left_ -= size;
  return block;
}

// The smallest one that is large enough; what is left of it stays in the list. Null if there is none.
void* Arena::take_kept(std::size_t bytes) {
  void** best = nullptr;
  for (void** at = &free_[kSizeClasses - 1]; *at != nullptr; at = &static_cast<KeptBlock*>(*at)->next) {
    const std::size_t room = static_cast<KeptBlock*>(*at)->bytes;
    if (room >= bytes && (best == nullptr || room < static_cast<KeptBlock*>(*best)->bytes)) best = at;
  }
  if (best == nullptr) return nullptr;
  auto* block = static_cast<KeptBlock*>(*best);
  *best = block->next;
  if (block->bytes > bytes)
    *best = new (reinterpret_cast<char*>(block) + bytes) KeptBlock{block->next, block->bytes - bytes};
  return block;
}

void Arena::give_back(int advice) {
  for (void*& first = free_[kSizeClasses - 1]; first != nullptr;) {
    const KeptBlock block = *static_cast<KeptBlock*>(first);
    kernel(SYS_madvise, first, block.bytes, advice);
    first = block.next;
  }
}

void Arena::release(void* block, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (size > kLarge) {
    left_ += size;
    if (advice_ == kKept) {
      void*& first = free_[kSizeClasses - 1];
      first = new (block) KeptBlock{first, size};
    } else {
      kernel(SYS_madvise, block, size, advice_);
    }
    return;
  }
  void*& list = free_[size_class_of(bytes).index];
  *static_cast<void**>(block) = list;
  list = block;
}

// The kernel's result, as a pointer.
static std::byte* map(void* where, std::size_t bytes, long protection, long flags, int fd) {
  const long at = kernel(SYS_mmap, where, bytes, protection, flags | MAP_NORESERVE, fd, 0);
  return at < 0 && at > -4096 ? nullptr : reinterpret_cast<std::byte*>(at);
}

std::byte* map_private(std::size_t bytes) {
  return map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

std::byte* map_shared(std::size_t bytes) {
  return map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
}

std::byte* map_file(int fd, std::size_t bytes) {
  std::byte* guard = map(nullptr, kGuardBytes + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (guard == nullptr) return nullptr;
  std::byte* at = map(guard + kGuardBytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd);
  kernel(SYS_close, fd);
  return at;
}

bool map_arenas() {
  const long fd = kernel(SYS_memfd_create, "crashcut-recording", MFD_CLOEXEC);
  if (fd < 0 || kernel(SYS_ftruncate, fd, kRangeBytes) < 0) return false;
  std::byte* shared = map_file(static_cast<int>(fd), kRangeBytes);
  std::byte* own = map_private(kGuardBytes + kRangeBytes);
  std::byte* stack = map_private(kGuardBytes + kModelStackBytes);
  if (shared == nullptr || own == nullptr || stack == nullptr) return false;
  for (std::byte* begin : {own, stack}) kernel(SYS_mprotect, begin, kGuardBytes, PROT_NONE);
  g_shared.set_range(shared, kRangeBytes, kRangeBytes, MADV_REMOVE);
  g_private.set_range(own + kGuardBytes, kRangeBytes, kRangeBytes, MADV_DONTNEED);
  g_model_stack = {stack + kGuardBytes, stack + kGuardBytes + kModelStackBytes - 64};
  g_active = &g_shared;
  return true;
}

static std::uint64_t page_end_of(const void* p) { return (reinterpret_cast<std::uint64_t>(p) + 4095) / 4096 * 4096; }

AddressRange unused_private_arena() {
  return {page_end_of(g_private.begin() + g_private.used_bytes()), page_end_of(g_private.end())};
}
AddressRange whole_private_arena() { return {page_end_of(g_private.begin()), page_end_of(g_private.end())}; }
AddressRange model_stack() { return {page_end_of(g_model_stack.begin), page_end_of(g_model_stack.top)}; }

void limit_arenas(std::size_t bytes_most) {
  g_bytes_most = bytes_most;
  g_shared.set_bytes_most(bytes_most);
  g_private.set_bytes_most(bytes_most);
}

namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kRunBytesMost = std::size_t{8} << 20;
constinit char* g_shared_memory = nullptr;  // of the shared arena, while that records privately

bool is_zero(const char* page) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(page);
  std::uint64_t any = 0;
  for (std::size_t i = 0; i < kPageBytes / sizeof *words; ++i) any |= words[i];
  return any == 0;
}

void publish_run(const char* from, std::size_t bytes) {
  char* to = g_shared_memory + (from - g_shared.begin());
  kernel(SYS_madvise, to, bytes, MADV_POPULATE_WRITE);  // an older kernel has none: the copy faults
  std::memcpy(to, from, bytes);
}

}  // namespace

void record_privately() {
  std::byte* elsewhere = map(nullptr, kRangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (elsewhere == nullptr) return;
  const long moved =
      kernel(SYS_mremap, g_shared.begin(), kRangeBytes, kRangeBytes, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
  if (moved != reinterpret_cast<long>(elsewhere)) return;
  g_shared_memory = reinterpret_cast<char*>(elsewhere);
  if (map(g_shared.begin(), kRangeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1) ==
      nullptr)
    tool_error("cannot map memory for the models");
  kernel(SYS_madvise, g_shared.begin(), kRangeBytes, MADV_HUGEPAGE);
  std::memcpy(g_shared.begin(), g_shared_memory, g_shared.used_bytes());
  g_shared.keep_released();
}

// Pages that hold nothing are left out: large blocks that were released are holes.
void publish_arena() {
  if (g_shared_memory == nullptr) return;
  g_shared.give_back(MADV_DONTNEED);
  const char* const end = g_shared.begin() + (g_shared.used_bytes() + kPageBytes - 1) / kPageBytes * kPageBytes;
  for (const char* at = g_shared.begin(); at < end;) {
    const char* run = at;
    while (run < end && run < at + kRunBytesMost && !is_zero(run)) run += kPageBytes;
    if (run > at) publish_run(at, static_cast<std::size_t>(run - at));
    at = run < end && is_zero(run) ? run + kPageBytes : run;
  }
}

Arena& private_arena() { return g_private; }
Arena& shared_arena() { return g_shared; }

void use_arena(Arena& arena) { g_active = &arena; }

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
                       g_bytes_most >> 20);
  out_of_memory({text, end.size});
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

}  // namespace crashcut::inject

using crashcut::inject::allocate;
using crashcut::inject::release;

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
