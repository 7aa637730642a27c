// What an instrumented program calls when it runs without crashcut: accesses are not noted, atomics are the
// processor's. Under crashcut threads, libcrashcut_runtime.so is loaded before and its functions are taken instead.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

#define SIZE(n)                                           \
  EXPORT void __tsan_read##n(void*) {}                    \
  EXPORT void __tsan_write##n(void*) {}                   \
  EXPORT void __tsan_read_write##n(void*) {}              \
  EXPORT void __tsan_unaligned_read##n(void*) {}          \
  EXPORT void __tsan_unaligned_write##n(void*) {}         \
  EXPORT void __tsan_unaligned_read_write##n(void*) {}    \
  EXPORT void __tsan_volatile_read##n(void*) {}           \
  EXPORT void __tsan_volatile_write##n(void*) {}          \
  EXPORT void __tsan_unaligned_volatile_read##n(void*) {} \
  EXPORT void __tsan_unaligned_volatile_write##n(void*) {}
SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit(void*) {}
EXPORT void __tsan_read_range(void*, std::size_t) {}
EXPORT void __tsan_write_range(void*, std::size_t) {}
EXPORT void __tsan_vptr_read(void**) {}
EXPORT void __tsan_vptr_update(void**, void*) {}
EXPORT void __tsan_ignore_thread_begin() {}
EXPORT void __tsan_ignore_thread_end() {}
EXPORT void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EXPORT void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

EXPORT int crashcut_exchange_failed() { return 1; }

EXPORT void* __wrap_memcpy(void* to, const void* from, std::size_t n) { return std::memcpy(to, from, n); }
EXPORT void* __wrap_memmove(void* to, const void* from, std::size_t n) { return std::memmove(to, from, n); }
EXPORT void* __wrap_memset(void* to, int value, std::size_t n) { return std::memset(to, value, n); }
EXPORT void* __tsan_memcpy(void* to, const void* from, std::size_t n) { return std::memcpy(to, from, n); }
EXPORT void* __tsan_memmove(void* to, const void* from, std::size_t n) { return std::memmove(to, from, n); }
EXPORT void* __tsan_memset(void* to, int value, std::size_t n) { return std::memset(to, value, n); }

// All as strong as they can be: what was asked for is allowed to be.
template <class T>
static bool compare_exchange(T* p, T* expected, T desired) {
  if constexpr (sizeof(T) == 16) {
    const T before = __sync_val_compare_and_swap(p, *expected, desired);
    const bool is_done = before == *expected;
    *expected = before;
    return is_done;
  } else {
    return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
}
template <class T, class Change>
static T modify(T* p, Change change) {
  T before = 0;
  while (!compare_exchange(p, &before, static_cast<T>(change(before)))) {
  }
  return before;
}
template <class T>
static T load(T* p) {
  if constexpr (sizeof(T) == 16) {
    return __sync_val_compare_and_swap(p, T{0}, T{0});
  } else {
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
  }
}

#define MODIFY(bits, T, name, result)                       \
  EXPORT T __tsan_atomic##bits##_##name(T* p, T y, int) {   \
    return modify(p, [y](T x) { return (void)x, result; }); \
  }
#define ATOMIC(bits, T)                                                                 \
  EXPORT T __tsan_atomic##bits##_load(T* p, int) { return load(p); }                    \
  EXPORT void __tsan_atomic##bits##_store(T* p, T y, int) {                             \
    modify(p, [y](T) { return y; });                                                    \
  }                                                                                     \
  MODIFY(bits, T, exchange, y)                                                          \
  MODIFY(bits, T, fetch_add, x + y)                                                     \
  MODIFY(bits, T, fetch_sub, x - y)                                                     \
  MODIFY(bits, T, fetch_and, x& y)                                                      \
  MODIFY(bits, T, fetch_or, x | y)                                                      \
  MODIFY(bits, T, fetch_xor, x ^ y)                                                     \
  MODIFY(bits, T, fetch_nand, ~(x & y))                                                 \
  EXPORT int __tsan_atomic##bits##_compare_exchange_strong(T* p, T* e, T d, int, int) { \
    return compare_exchange(p, e, d);                                                   \
  }                                                                                     \
  EXPORT int __tsan_atomic##bits##_compare_exchange_weak(T* p, T* e, T d, int, int) {   \
    return compare_exchange(p, e, d);                                                   \
  }                                                                                     \
  EXPORT T __tsan_atomic##bits##_compare_exchange_val(T* p, T e, T d, int, int) {       \
    compare_exchange(p, &e, d);                                                         \
    return e;                                                                           \
  }

ATOMIC(8, std::uint8_t)
ATOMIC(16, std::uint16_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)
#ifdef __SIZEOF_INT128__
ATOMIC(128, unsigned __int128)
#endif
