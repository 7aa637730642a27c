#include "inject/program_function.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "inject/gate.h"

namespace crashcut::inject {

namespace {

struct Image {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  template <class T>
  const T* at(std::size_t offset, std::size_t count = 1) const {
    return offset <= size && count <= (size - offset) / sizeof(T) ? reinterpret_cast<const T*>(bytes + offset)
                                                                  : nullptr;
  }
};

struct Wanted {
  const char* name;
  const char* mangled;
};
bool is_wanted(const Wanted& wanted, const char* name) {
  return std::strcmp(name, wanted.name) == 0 || std::strcmp(name, wanted.mangled) == 0;
}

// The value of the symbol in one table, 0 where it is not there.
std::uint64_t find_in_table(const Image& image, const Elf64_Shdr& table, const Elf64_Shdr& strings,
                            const Wanted& wanted) {
  const std::size_t count = table.sh_size / sizeof(Elf64_Sym);
  const auto* symbols = image.at<Elf64_Sym>(table.sh_offset, count);
  const auto* text = image.at<char>(strings.sh_offset, strings.sh_size);
  if (symbols == nullptr || text == nullptr || strings.sh_size == 0 || text[strings.sh_size - 1] != 0) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Elf64_Sym& s = symbols[i];
    if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx == SHN_UNDEF || s.st_name >= strings.sh_size) continue;
    if (is_wanted(wanted, text + s.st_name)) return s.st_value;
  }
  return 0;
}

std::uint64_t find_in_image(const Image& image, const Wanted& wanted) {
  const auto* header = image.at<Elf64_Ehdr>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  const auto* sections = image.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return 0;
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const bool is_table = sections[i].sh_type == SHT_SYMTAB || sections[i].sh_type == SHT_DYNSYM;
    if (!is_table || sections[i].sh_link >= header->e_shnum) continue;
    if (const std::uint64_t value = find_in_table(image, sections[i], sections[sections[i].sh_link], wanted))
      return value;
  }
  return 0;
}

// Where the program was loaded, less where it asked to be.
std::uint64_t load_bias() {
  const auto* headers = reinterpret_cast<const Elf64_Phdr*>(getauxval(AT_PHDR));
  for (unsigned long i = 0; i < getauxval(AT_PHNUM); ++i) {
    if (headers[i].p_type == PT_PHDR) return reinterpret_cast<std::uint64_t>(headers) - headers[i].p_vaddr;
  }
  return 0;
}

}  // namespace

void (*find_program_function(const char* name, const char* mangled))() {
  if (void* exported = dlsym(RTLD_DEFAULT, name)) return reinterpret_cast<void (*)()>(exported);
  const long fd = kernel(SYS_open, "/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat st;
  std::uint64_t value = 0;
  if (kernel(SYS_fstat, fd, &st) == 0) {
    const long at = kernel(SYS_mmap, 0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at > 0 || at < -4095) {
      value = find_in_image({reinterpret_cast<const std::byte*>(at), static_cast<std::size_t>(st.st_size)},
                            {name, mangled});
      kernel(SYS_munmap, at, st.st_size);
    }
  }
  kernel(SYS_close, fd);
  return value == 0 ? nullptr : reinterpret_cast<void (*)()>(load_bias() + value);
}

}  // namespace crashcut::inject
