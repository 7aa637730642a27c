#include "inject/interpose.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#include "inject/environment.h"

// Keeps the arguments of the call that came here, whose slot is in r11, fills the table, and goes on with the call.
asm(R"(
  .text
  .type crashcut_first_call, @function
  .globl crashcut_first_call
  .hidden crashcut_first_call
crashcut_first_call:
  pushq %rax
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %r11
  subq $8, %rsp
  call crashcut_choose_functions
  addq $8, %rsp
  popq %r11
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  popq %rax
  jmp *(%r11)
)");

extern "C" void* __libc_stack_end;  // the loader's: where the kernel put argc

namespace crashcut::inject {

namespace {

struct Interposed {
  void* function;  // that the name leads to
  void* ours;
  const char* name;
};

extern "C" {
extern Interposed __start_crashcut_interposed[] __attribute__((visibility("hidden")));
extern Interposed __stop_crashcut_interposed[] __attribute__((visibility("hidden")));
}

bool g_is_chosen = false;
bool g_schedules_threads = false;
bool g_takes_callbacks = false;

// The environment as the kernel made it: libc's own is not set up yet.
char** first_environment() {
  auto** stack = static_cast<char**>(__libc_stack_end);
  const auto argument_count = reinterpret_cast<std::size_t>(stack[0]);
  return stack + 1 + argument_count + 1;
}

bool is_same(const char* a, const char* b) {
  for (; *a == *b; ++a, ++b) {
    if (*a == 0) return true;
  }
  return false;
}

// What a loaded library exports.
struct Exports {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  const std::uint16_t* versions = nullptr;
  const std::uint32_t* hashes = nullptr;  // DT_GNU_HASH

  explicit Exports(const link_map& library) {
    for (const Elf64_Dyn* d = library.l_ld; d->d_tag != DT_NULL; ++d) {
      // The loader has put addresses in place of offsets, but for the kernel's own library.
      const auto* at =
          reinterpret_cast<const char*>(d->d_un.d_ptr + (d->d_un.d_ptr < library.l_addr ? library.l_addr : 0));
      if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const Elf64_Sym*>(at);
      if (d->d_tag == DT_STRTAB) names = at;
      if (d->d_tag == DT_VERSYM) versions = reinterpret_cast<const std::uint16_t*>(at);
      if (d->d_tag == DT_GNU_HASH) hashes = reinterpret_cast<const std::uint32_t*>(at);
    }
  }

  // The symbol of that name, in the version that a program is linked with today.
  const Elf64_Sym* find(const char* name) const {
    constexpr std::uint16_t kHidden = 0x8000;
    if (hashes == nullptr || hashes[0] == 0) return nullptr;
    std::uint32_t wanted = 5381;
    for (const char* c = name; *c != 0; ++c) wanted = wanted * 33 + static_cast<unsigned char>(*c);
    const std::uint32_t bucket_count = hashes[0], first = hashes[1], bloom_words = hashes[2];
    const std::uint32_t* buckets = hashes + 4 + bloom_words * 2;
    const std::uint32_t* chains = buckets + bucket_count;
    std::uint32_t i = buckets[wanted % bucket_count];
    if (i < first) return nullptr;
    for (;; ++i) {
      const std::uint32_t hash = chains[i - first];
      const bool is_exported = symbols[i].st_shndx != SHN_UNDEF && (versions == nullptr || versions[i] < kHidden);
      if ((hash | 1) == (wanted | 1) && is_exported && is_same(names + symbols[i].st_name, name)) return &symbols[i];
      if ((hash & 1) != 0) return nullptr;  // the last of its bucket
    }
  }
};

bool begins_with(const char* name, const char* begin) {
  for (; *begin != 0; ++name, ++begin) {
    if (*name != *begin) return false;
  }
  return true;
}

// Of -fsanitize=thread; calls of memcpy() and the like are named so by crashcut flags.
bool is_callback(const char* name) { return begins_with(name, "__tsan_") || begins_with(name, "__wrap_mem"); }

void choose(Interposed& f) {
  const bool is_ours = g_schedules_threads || (g_takes_callbacks && is_callback(f.name));
  void* real = is_ours ? nullptr : find_real(f.name);
  f.function = real == nullptr ? f.ours : is_same(f.name, "syscall") ? direct_syscall(real) : real;
}

}  // namespace

bool schedules_threads() { return g_schedules_threads; }

// No function of libc's is called here: that of a library like libasan may stand in for it, and it calls functions that
// are being looked for. Not by dlsym() either: where it finds nothing, it allocates and frees memory.
void* find_real(const char* name) {
  bool is_after_us = false;
  for (const link_map* library = _r_debug.r_map; library != nullptr; library = library->l_next) {
    const Exports exports(*library);
    const Elf64_Sym* symbol = is_after_us ? exports.find(name) : nullptr;
    is_after_us = is_after_us || library->l_ld == _DYNAMIC;
    if (symbol == nullptr) continue;
    auto* at = reinterpret_cast<void*>(library->l_addr + symbol->st_value);
    return ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC ? reinterpret_cast<void* (*)()>(at)() : at;
  }
  return nullptr;
}

void crashcut_choose_functions() {
  if (g_is_chosen) return;
  g_is_chosen = true;
  g_schedules_threads = find_variable(first_environment(), kThreadsVariable) != nullptr;
  g_takes_callbacks = find_variable(first_environment(), kCallbacksVariable) != nullptr;
  for (Interposed* f = __start_crashcut_interposed; f != __stop_crashcut_interposed; ++f) choose(*f);
}

}  // namespace crashcut::inject
