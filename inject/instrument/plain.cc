// What an instrumented program calls when it runs without crashcut: each access is the one that the instruction would
// have made. Where crashcut runs the program, the injected library is loaded before and its functions are taken
// instead.
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "inject/instrument/abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

typedef unsigned __int128 Word16;

// All atomics are as strong as they can be: an order that was asked for is the least that is promised.
template <class T>
bool compare_exchange(T* at, T* expected, T desired) {
  const T before = __sync_val_compare_and_swap(at, *expected, desired);
  const bool is_done = before == *expected;
  *expected = before;
  return is_done;
}

template <class T>
T combine(int operation, T x, T y) {
  const T sign = static_cast<T>(T{1} << (sizeof(T) * 8 - 1));  // flipped: signed order
  switch (operation) {
    case __CRASHCUT_ADD:
      return x + y;
    case __CRASHCUT_SUB:
      return x - y;
    case __CRASHCUT_AND:
      return x & y;
    case __CRASHCUT_NAND:
      return ~(x & y);
    case __CRASHCUT_OR:
      return x | y;
    case __CRASHCUT_XOR:
      return x ^ y;
    case __CRASHCUT_MAX:
      return (x ^ sign) > (y ^ sign) ? x : y;
    case __CRASHCUT_MIN:
      return (x ^ sign) < (y ^ sign) ? x : y;
    case __CRASHCUT_UMAX:
      return x > y ? x : y;
    case __CRASHCUT_UMIN:
      return x < y ? x : y;
    default:
      return y;
  }
}

template <class Float, class T>
T add_floats(T x, T y, int sign) {
  if constexpr (sizeof(Float) == sizeof(T)) {
    Float a, b;
    std::memcpy(&a, &x, sizeof a);
    std::memcpy(&b, &y, sizeof b);
    a += sign * b;
    std::memcpy(&x, &a, sizeof a);
  }
  return x;
}

template <class T>
T change(int operation, T x, T y) {
  switch (operation) {
    case __CRASHCUT_FADD4:
      return add_floats<float>(x, y, 1);
    case __CRASHCUT_FSUB4:
      return add_floats<float>(x, y, -1);
    case __CRASHCUT_FADD8:
      return add_floats<double>(x, y, 1);
    case __CRASHCUT_FSUB8:
      return add_floats<double>(x, y, -1);
    default:
      return combine(operation, x, y);
  }
}

template <class T>
void modify(int operation, void* at, const void* operand, void* old) {
  T y, before = 0;
  std::memcpy(&y, operand, sizeof y);
  while (!compare_exchange(static_cast<T*>(at), &before, static_cast<T>(change<T>(operation, before, y)))) {
  }
  std::memcpy(old, &before, sizeof before);
}

template <class T>
int compare_bytes_exchange(void* at, void* expected, const void* desired) {
  T e, d;
  std::memcpy(&e, expected, sizeof e);
  std::memcpy(&d, desired, sizeof d);
  const bool is_done = compare_exchange(static_cast<T*>(at), &e, d);
  std::memcpy(expected, &e, sizeof e);
  return is_done;
}

// Not every processor has clflushopt and clwb. clflush promises more.
bool has_feature(unsigned bit) {
  unsigned a, b = 0, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> bit & 1) != 0;
}
const bool g_has_clflushopt = has_feature(23), g_has_clwb = has_feature(24);

}  // namespace

EXPORT void __crashcut_module(uint32_t, const char*) {}

#define WIDTH(n, T)                                                               \
  EXPORT T __crashcut_load##n(const void* at) {                                   \
    return __atomic_load_n(static_cast<const volatile T*>(at), __ATOMIC_RELAXED); \
  }                                                                               \
  EXPORT void __crashcut_store##n(void* at, T value) {                            \
    __atomic_store_n(static_cast<volatile T*>(at), value, __ATOMIC_RELAXED);      \
  }
WIDTH(1, uint8_t)
WIDTH(2, uint16_t)
WIDTH(4, uint32_t)
WIDTH(8, uint64_t)

EXPORT void __crashcut_load(const void* at, void* to, size_t bytes) { std::memcpy(to, at, bytes); }
EXPORT void __crashcut_store(void* at, const void* from, size_t bytes) { std::memcpy(at, from, bytes); }
EXPORT void __crashcut_store_lanes(void* at, const void* from, size_t lane_bytes, uint64_t lanes) {
  for (size_t n = 0; lanes != 0; n += lane_bytes, lanes >>= 1)
    if ((lanes & 1) != 0) std::memcpy(static_cast<char*>(at) + n, static_cast<const char*>(from) + n, lane_bytes);
}
EXPORT void __crashcut_scatter(void* const* to, const void* from, size_t lane_bytes, uint64_t lanes) {
  for (size_t n = 0; lanes != 0; ++n, lanes >>= 1)
    if ((lanes & 1) != 0) std::memcpy(to[n], static_cast<const char*>(from) + n * lane_bytes, lane_bytes);
}
EXPORT void __crashcut_load_lanes(const void* at, void* to, size_t lane_bytes, uint64_t lanes) {
  __crashcut_store_lanes(to, at, lane_bytes, lanes);
}

EXPORT void __crashcut_rmw(int operation, void* at, const void* operand, void* old, size_t bytes, int) {
  switch (bytes) {
    case 1:
      return modify<uint8_t>(operation, at, operand, old);
    case 2:
      return modify<uint16_t>(operation, at, operand, old);
    case 4:
      return modify<uint32_t>(operation, at, operand, old);
    case 8:
      return modify<uint64_t>(operation, at, operand, old);
    default:
      return modify<Word16>(operation, at, operand, old);
  }
}
EXPORT int __crashcut_cmpxchg(void* at, void* expected, const void* desired, size_t bytes, int, int) {
  switch (bytes) {
    case 1:
      return compare_bytes_exchange<uint8_t>(at, expected, desired);
    case 2:
      return compare_bytes_exchange<uint16_t>(at, expected, desired);
    case 4:
      return compare_bytes_exchange<uint32_t>(at, expected, desired);
    case 8:
      return compare_bytes_exchange<uint64_t>(at, expected, desired);
    default:
      return compare_bytes_exchange<Word16>(at, expected, desired);
  }
}
EXPORT void __crashcut_atomic_load(const void* at, void* to, size_t bytes, int) {
  if (bytes == 16) {  // there is no load of that width: an exchange of 0 for 0
    Word16 zero = 0;
    std::memset(to, 0, 16);
    compare_bytes_exchange<Word16>(const_cast<void*>(at), to, &zero);
    return;
  }
  switch (bytes) {
    case 1:
      return __atomic_load(static_cast<const uint8_t*>(at), static_cast<uint8_t*>(to), __ATOMIC_SEQ_CST);
    case 2:
      return __atomic_load(static_cast<const uint16_t*>(at), static_cast<uint16_t*>(to), __ATOMIC_SEQ_CST);
    case 4:
      return __atomic_load(static_cast<const uint32_t*>(at), static_cast<uint32_t*>(to), __ATOMIC_SEQ_CST);
    default:
      return __atomic_load(static_cast<const uint64_t*>(at), static_cast<uint64_t*>(to), __ATOMIC_SEQ_CST);
  }
}
EXPORT void __crashcut_atomic_store(void* at, const void* from, size_t bytes, int order) {
  Word16 old;
  __crashcut_rmw(__CRASHCUT_XCHG, at, from, &old, bytes, order);
}

// The next fence waits for plain stores too.
EXPORT void __crashcut_store_nt(void* at, const void* from, size_t bytes, int) { std::memcpy(at, from, bytes); }

EXPORT void* __crashcut_memcpy(void* to, const void* from, size_t bytes) { return std::memmove(to, from, bytes); }
EXPORT void* __crashcut_memmove(void* to, const void* from, size_t bytes) { return std::memmove(to, from, bytes); }
EXPORT void* __crashcut_memset(void* to, int value, size_t bytes) { return std::memset(to, value, bytes); }

EXPORT void __crashcut_clflush(const void* at) {
  asm volatile("clflush %0" : : "m"(*static_cast<const char*>(at)) : "memory");
}
EXPORT void __crashcut_clflushopt(const void* at) {
  if (!g_has_clflushopt) return __crashcut_clflush(at);
  asm volatile("clflushopt %0" : : "m"(*static_cast<const char*>(at)) : "memory");
}
EXPORT void __crashcut_clwb(const void* at) {
  if (!g_has_clwb) return __crashcut_clflushopt(at);
  asm volatile("clwb %0" : : "m"(*static_cast<const char*>(at)) : "memory");
}
EXPORT void __crashcut_sfence(void) { asm volatile("sfence" : : : "memory"); }
EXPORT void __crashcut_mfence(void) { asm volatile("mfence" : : : "memory"); }

// A file that is mapped and shared: not persistent memory, and is_pmem says so.
EXPORT void* __crashcut_pmem_map_file(const char* path, size_t bytes, int flags, mode_t mode, size_t* mapped_bytes,
                                      int* is_pmem) {
  enum { kCreate = 1, kExclusive = 2, kSparse = 4, kTemporary = 8 };
  int open_flags = O_RDWR | O_CLOEXEC;
  if ((flags & kTemporary) != 0) {
    open_flags |= O_TMPFILE;
  } else if ((flags & kCreate) != 0) {
    open_flags |= O_CREAT | ((flags & kExclusive) != 0 ? O_EXCL : 0);
  }
  const int fd = open(path, open_flags, mode);
  if (fd < 0) return nullptr;
  int error = 0;
  if ((flags & kCreate) != 0) {
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) error = errno;
    if (error == 0 && (flags & kSparse) == 0) error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  }
  struct stat status = {};
  if (error == 0 && fstat(fd, &status) != 0) error = errno;
  void* at = MAP_FAILED;
  if (error == 0) {
    at = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) error = errno;
  }
  close(fd);
  errno = error;
  if (at == MAP_FAILED) return nullptr;
  if (mapped_bytes != nullptr) *mapped_bytes = static_cast<size_t>(status.st_size);
  if (is_pmem != nullptr) *is_pmem = 0;
  return at;
}
EXPORT int __crashcut_pmem_unmap(void* at, size_t bytes) { return munmap(at, bytes); }
EXPORT int __crashcut_pmem_is_pmem(const void*, size_t) { return 0; }
EXPORT int __crashcut_pmem_msync(const void* at, size_t bytes) {
  const uintptr_t page = reinterpret_cast<uintptr_t>(at) & ~uintptr_t{4095};
  return msync(reinterpret_cast<void*>(page), bytes + (reinterpret_cast<uintptr_t>(at) - page), MS_SYNC);
}

namespace {

// For strings.inc and libraries.inc. Nobody asks where an access was.
struct Memory {
  static uint8_t load1(const void* at, const void*) { return __crashcut_load1(at); }
  static uint64_t load8(const void* at, const void*) { return __crashcut_load8(at); }
  static void store1(void* at, uint8_t value, const void*) { __crashcut_store1(at, value); }
  static void store8(void* at, uint64_t value, const void*) { __crashcut_store8(at, value); }
  static void memmove(void* to, const void* from, size_t bytes, const void*) { std::memmove(to, from, bytes); }
  static void memset(void* to, int value, size_t bytes, const void*) { std::memset(to, value, bytes); }
  static void store_nt(void* at, const void* from, size_t bytes, int, const void*) { std::memcpy(at, from, bytes); }
  static void clwb(const void* at, const void*) { __crashcut_clwb(at); }
  static void sfence(const void*) { __crashcut_sfence(); }
  static void mfence(const void*) { __crashcut_mfence(); }
  static void atomic_load(const void* at, void* to, size_t bytes, int order, const void*) {
    __crashcut_atomic_load(at, to, bytes, order);
  }
  static void atomic_store(void* at, const void* from, size_t bytes, int order, const void*) {
    __crashcut_atomic_store(at, from, bytes, order);
  }
  static void rmw(int operation, void* at, const void* operand, void* old, size_t bytes, int order, const void*) {
    __crashcut_rmw(operation, at, operand, old, bytes, order);
  }
  static int cmpxchg(void* at, void* expected, const void* desired, size_t bytes, int order, int failure_order,
                     const void*) {
    return __crashcut_cmpxchg(at, expected, desired, bytes, order, failure_order);
  }
};

// Without crashcut no heap is persistent.
struct Heap {
  static void* allocate(size_t, size_t) { return nullptr; }
  static bool holds(const void*) { return false; }
  static void release(void*) {}
  static size_t bytes_of(const void*) { return 0; }
};

}  // namespace

#include "inject/instrument/libraries.inc"
