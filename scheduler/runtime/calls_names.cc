// Names of temporary files: libc makes them from the time. Here they are the thread's own, and the same in every
// execution.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>

#include "scheduler/runtime/calls.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::size_t kPlaces = 6;
constexpr int kTriesMost = 1000;

// Puts letters in place of the six X before the suffix until `make` finds no such name there.
template <class Make>
int make_name(char* name, int suffix_bytes, Make&& make) {
  const std::size_t length = std::strlen(name),
                    suffix = suffix_bytes < 0 ? length : static_cast<std::size_t>(suffix_bytes);
  if (length < suffix + kPlaces || std::memcmp(name + length - suffix - kPlaces, "XXXXXX", kPlaces) != 0) {
    errno = EINVAL;
    return -1;
  }
  const int kept_errno = errno;
  unsigned char random[kPlaces];
  fill_random(random, kPlaces);
  // How many names are taken does not change the numbers that the thread gets later.
  for (int i = 0; i < kTriesMost; ++i, random[i % kPlaces] += static_cast<unsigned char>(i)) {
    for (std::size_t place = 0; place < kPlaces; ++place)
      name[length - suffix - kPlaces + place] = kLetters[random[place] % (sizeof kLetters - 1)];
    const int result = make(name);
    if (result >= 0) errno = kept_errno;
    if (result >= 0 || errno != EEXIST) return result;
  }
  return -1;
}

int make_file(char* name, int suffix_bytes, int flags) {
  return make_name(name, suffix_bytes, [&](const char* path) {
    return open(path, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
  });
}

}  // namespace

EXPORT(int, mkstemp)(char* name) { return make_file(name, 0, 0); }
EXPORT(int, mkstemp64)(char* name) { return make_file(name, 0, 0); }
EXPORT(int, mkostemp)(char* name, int flags) { return make_file(name, 0, flags); }
EXPORT(int, mkostemp64)(char* name, int flags) { return make_file(name, 0, flags); }
EXPORT(int, mkstemps)(char* name, int suffix_bytes) { return make_file(name, suffix_bytes, 0); }
EXPORT(int, mkstemps64)(char* name, int suffix_bytes) { return make_file(name, suffix_bytes, 0); }
EXPORT(int, mkostemps)(char* name, int suffix_bytes, int flags) { return make_file(name, suffix_bytes, flags); }
EXPORT(int, mkostemps64)(char* name, int suffix_bytes, int flags) { return make_file(name, suffix_bytes, flags); }
EXPORT(char*, mkdtemp)(char* name) {
  return make_name(name, 0, [](const char* path) { return mkdir(path, 0700); }) < 0 ? nullptr : name;
}

}  // namespace crashcut::scheduler::runtime
