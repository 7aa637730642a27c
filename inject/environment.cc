#include "inject/environment.h"

#include <stdlib.h>

#include <cstring>

namespace crashcut::inject {

// The value where the entry is that variable, else null. Called before libc's functions may be (interpose.cc).
static const char* value_in(const char* entry, const char* name) {
  for (; *name != 0; ++name, ++entry) {
    if (*entry != *name) return nullptr;
  }
  return *entry == '=' ? entry + 1 : nullptr;
}

static char** find_entry(char** envp, const char* name) {
  while (*envp != nullptr && value_in(*envp, name) == nullptr) ++envp;
  return envp;
}

const char* find_variable(char** envp, const char* name) {
  const char* entry = *find_entry(envp, name);
  return entry == nullptr ? nullptr : value_in(entry, name);
}

const char* take_variable(char** envp, const char* name) {
  const char* value = find_variable(envp, name);
  for (char** at = find_entry(envp, name); *at != nullptr; ++at) at[0] = at[1];
  return value;
}

bool parse_descriptors(const char* text, int& first, int& second) {
  char* rest = nullptr;
  first = static_cast<int>(std::strtol(text, &rest, 10));
  if (*rest != ',') return false;
  second = static_cast<int>(std::strtol(rest + 1, nullptr, 10));
  return true;
}

void restore_preload(char** envp) {
  char** at = find_entry(envp, "LD_PRELOAD");
  if (*at == nullptr) return;
  if (const char* rest = std::strchr(*at, ':')) {
    std::memmove(*at + std::strlen("LD_PRELOAD="), rest + 1, std::strlen(rest + 1) + 1);
  } else {
    take_variable(envp, "LD_PRELOAD");
  }
}

}  // namespace crashcut::inject
