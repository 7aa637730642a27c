// Defines abi.h for tests: each access is made and, if it is in the region that the program names, printed.
//
// "store8 +16 7" is a store of 8 bytes, 16 bytes into the region. Values are numbers up to 8 bytes and hexadecimal
// bytes beyond. Fences and locked instructions elsewhere are printed too: they order what is in the region.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "inject/instrument/abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

char* g_begin = nullptr;
size_t g_bytes = 0;

bool is_seen(const void* at) { return at >= g_begin && at < g_begin + g_bytes; }

__attribute__((format(printf, 1, 2))) void print(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  line[length] = '\n';
  if (g_begin != nullptr && write(1, line, static_cast<size_t>(length) + 1) < 0) _exit(99);
}

std::string offset(const void* at) {
  return is_seen(at) ? "+" + std::to_string(static_cast<const char*>(at) - g_begin) : "elsewhere";
}

std::string text_of(const void* value, size_t bytes) {
  if (bytes <= 8) {
    uint64_t number = 0;
    std::memcpy(&number, value, bytes);
    return std::to_string(number);
  }
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char*>(value)[i]);
    text += digits;
  }
  return text;
}

const char* order_name(int order) {
  static const char* const kNames[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  return order >= 0 && order <= 5 ? kNames[order] : "?";
}

const char* operation_name(int operation) {
  static const char* const kNames[] = {"xchg", "add",  "sub",  "and",   "nand",  "or",    "xor",  "max",
                                       "min",  "umax", "umin", "fadd4", "fsub4", "fadd8", "fsub8"};
  return operation >= 0 && operation < 15 ? kNames[operation] : "?";
}

template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if (is_seen(at)) print("load%zu %s", sizeof value, offset(at).c_str());
  return value;
}
template <class T>
void store(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
  if (is_seen(at)) print("store%zu %s %s", sizeof value, offset(at).c_str(), text_of(&value, sizeof value).c_str());
}

// The plain library does what is not only a copy.
template <class Function>
Function plain(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// The program's own: from here on accesses to the region are printed.
EXPORT void log_region(char* begin, size_t bytes) {
  g_begin = begin;
  g_bytes = bytes;
}
EXPORT void log_note(const char* text) { print("%s", text); }
EXPORT void __crashcut_module(uint32_t abi, const char* when) {
  if (getenv("LOG_MODULE") == nullptr) return;
  char line[64];
  const int length = snprintf(line, sizeof line, "module %u %s\n", abi, when);
  if (write(1, line, static_cast<size_t>(length)) < 0) _exit(99);
}

EXPORT uint8_t __crashcut_load1(const void* at) { return load<uint8_t>(at); }
EXPORT uint16_t __crashcut_load2(const void* at) { return load<uint16_t>(at); }
EXPORT uint32_t __crashcut_load4(const void* at) { return load<uint32_t>(at); }
EXPORT uint64_t __crashcut_load8(const void* at) { return load<uint64_t>(at); }
EXPORT void __crashcut_store1(void* at, uint8_t value) { store(at, value); }
EXPORT void __crashcut_store2(void* at, uint16_t value) { store(at, value); }
EXPORT void __crashcut_store4(void* at, uint32_t value) { store(at, value); }
EXPORT void __crashcut_store8(void* at, uint64_t value) { store(at, value); }
EXPORT void __crashcut_load(const void* at, void* to, size_t bytes) {
  std::memcpy(to, at, bytes);
  if (is_seen(at)) print("load %s %zu bytes", offset(at).c_str(), bytes);
}
EXPORT void __crashcut_store(void* at, const void* from, size_t bytes) {
  std::memcpy(at, from, bytes);
  if (is_seen(at)) print("store %s %s", offset(at).c_str(), text_of(from, bytes).c_str());
}
EXPORT void __crashcut_store_lanes(void* at, const void* from, size_t lane_bytes, uint64_t lanes) {
  plain<decltype(&__crashcut_store_lanes)>("__crashcut_store_lanes")(at, from, lane_bytes, lanes);
  if (is_seen(at)) print("store_lanes %s %zu bytes each, lanes %lx", offset(at).c_str(), lane_bytes, lanes);
}
EXPORT void __crashcut_scatter(void* const* to, const void* from, size_t lane_bytes, uint64_t lanes) {
  plain<decltype(&__crashcut_scatter)>("__crashcut_scatter")(to, from, lane_bytes, lanes);
  for (size_t i = 0; lanes >> i != 0; ++i)
    if ((lanes >> i & 1) != 0 && is_seen(to[i])) print("scatter %s %zu bytes", offset(to[i]).c_str(), lane_bytes);
}
EXPORT void __crashcut_load_lanes(const void* at, void* to, size_t lane_bytes, uint64_t lanes) {
  plain<decltype(&__crashcut_load_lanes)>("__crashcut_load_lanes")(at, to, lane_bytes, lanes);
  if (is_seen(at)) print("load_lanes %s %zu bytes each, lanes %lx", offset(at).c_str(), lane_bytes, lanes);
}
EXPORT void __crashcut_atomic_load(const void* at, void* to, size_t bytes, int order) {
  std::memcpy(to, at, bytes);
  if (is_seen(at)) print("atomic_load%zu %s %s", bytes, offset(at).c_str(), order_name(order));
}
EXPORT void __crashcut_atomic_store(void* at, const void* from, size_t bytes, int order) {
  std::memcpy(at, from, bytes);
  print("atomic_store%zu %s %s %s", bytes, offset(at).c_str(), text_of(from, bytes).c_str(), order_name(order));
}
EXPORT void __crashcut_rmw(int operation, void* at, const void* operand, void* old, size_t bytes, int order) {
  const std::string given = text_of(operand, bytes);
  plain<decltype(&__crashcut_rmw)>("__crashcut_rmw")(operation, at, operand, old, bytes, order);
  print("rmw%zu %s %s %s %s", bytes, operation_name(operation), offset(at).c_str(), given.c_str(), order_name(order));
}
EXPORT int __crashcut_cmpxchg(void* at, void* expected, const void* desired, size_t bytes, int order,
                              int failure_order) {
  const std::string wanted = text_of(expected, bytes), given = text_of(desired, bytes);
  const int is_done =
      plain<decltype(&__crashcut_cmpxchg)>("__crashcut_cmpxchg")(at, expected, desired, bytes, order, failure_order);
  print("cmpxchg%zu %s %s %s %s %s -> %d", bytes, offset(at).c_str(), wanted.c_str(), given.c_str(), order_name(order),
        order_name(failure_order), is_done);
  return is_done;
}
EXPORT void __crashcut_store_nt(void* at, const void* from, size_t bytes, int is_whole) {
  std::memcpy(at, from, bytes);
  if (is_seen(at))
    print("store_nt%s %s %zu bytes: %s", is_whole ? "_whole" : "", offset(at).c_str(), bytes,
          text_of(from, bytes).c_str());
}
EXPORT void* __crashcut_memmove(void* to, const void* from, size_t bytes) {
  if (is_seen(to) || is_seen(from)) print("memmove %s %s %zu", offset(to).c_str(), offset(from).c_str(), bytes);
  return std::memmove(to, from, bytes);
}
EXPORT void* __crashcut_memcpy(void* to, const void* from, size_t bytes) {
  if (is_seen(to) || is_seen(from)) print("memcpy %s %s %zu", offset(to).c_str(), offset(from).c_str(), bytes);
  return std::memmove(to, from, bytes);
}
EXPORT void* __crashcut_memset(void* to, int value, size_t bytes) {
  if (is_seen(to)) print("memset %s %d %zu", offset(to).c_str(), value, bytes);
  return std::memset(to, value, bytes);
}
EXPORT void __crashcut_clflush(const void* at) { print("clflush %s", offset(at).c_str()); }
EXPORT void __crashcut_clflushopt(const void* at) { print("clflushopt %s", offset(at).c_str()); }
EXPORT void __crashcut_clwb(const void* at) { print("clwb %s", offset(at).c_str()); }
EXPORT void __crashcut_sfence(void) { print("sfence"); }
EXPORT void __crashcut_mfence(void) { print("mfence"); }

namespace {

struct Memory {
  static uint8_t load1(const void* at, const void*) { return __crashcut_load1(at); }
  static uint64_t load8(const void* at, const void*) { return __crashcut_load8(at); }
  static void store1(void* at, uint8_t value, const void*) { __crashcut_store1(at, value); }
  static void store8(void* at, uint64_t value, const void*) { __crashcut_store8(at, value); }
  static void memmove(void* to, const void* from, size_t bytes, const void*) { __crashcut_memmove(to, from, bytes); }
  static void memset(void* to, int value, size_t bytes, const void*) { __crashcut_memset(to, value, bytes); }
  static void store_nt(void* at, const void* from, size_t bytes, int is_whole, const void*) {
    __crashcut_store_nt(at, from, bytes, is_whole);
  }
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

struct Heap {
  static void* allocate(size_t, size_t) { return nullptr; }
  static bool holds(const void*) { return false; }
  static void release(void*) {}
  static size_t bytes_of(const void*) { return 0; }
};

}  // namespace

#include "inject/instrument/libraries.inc"
