#include "inject/environment.h"

#include <stdlib.h>

#include <cstring>
#include <string_view>

namespace crashcut::inject {

// The place of the variable in the environment; null where there is none.
static char** find_entry(char** envp, const char* name) {
  const std::size_t length = std::strlen(name);
  for (char** at = envp; *at != nullptr; ++at) {
    if (std::strncmp(*at, name, length) == 0 && (*at)[length] == '=') return at;
  }
  return nullptr;
}

const char* find_variable(char** envp, const char* name) {
  char** at = find_entry(envp, name);
  return at == nullptr ? nullptr : *at + std::strlen(name) + 1;
}

const char* take_variable(char** envp, const char* name) {
  const char* value = find_variable(envp, name);
  if (char** at = find_entry(envp, name)) {
    for (; *at != nullptr; ++at) at[0] = at[1];
  }
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
  if (at == nullptr) return;
  if (const char* rest = std::strchr(*at, ':')) {
    std::memmove(*at + std::strlen("LD_PRELOAD="), rest + 1, std::strlen(rest + 1) + 1);
  } else {
    take_variable(envp, "LD_PRELOAD");
  }
}

}  // namespace crashcut::inject
