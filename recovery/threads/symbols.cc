#include "recovery/threads/symbols.h"

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace crashcut::recovery {
namespace {

// The bytes [offset, offset + count) as an array of T; empty where the file has not so many.
template <class T>
std::vector<T> read_array(const std::string& file, std::uint64_t offset, std::uint64_t bytes) {
  if (offset > file.size() || bytes > file.size() - offset) return {};
  std::vector<T> all(bytes / sizeof(T));
  std::copy_n(file.data() + offset, all.size() * sizeof(T), reinterpret_cast<char*>(all.data()));
  return all;
}

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

}  // namespace

Symbols Symbols::of(const std::string& executable) {
  std::ifstream in(executable, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  Symbols symbols;
  const auto headers = read_array<Elf64_Ehdr>(file, 0, sizeof(Elf64_Ehdr));
  if (headers.empty() || headers[0].e_shentsize != sizeof(Elf64_Shdr)) return symbols;
  const auto sections =
      read_array<Elf64_Shdr>(file, headers[0].e_shoff, std::uint64_t{headers[0].e_shnum} * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    for (const Elf64_Sym& s : read_array<Elf64_Sym>(file, section.sh_offset, section.sh_size)) {
      const int type = ELF64_ST_TYPE(s.st_info);
      if ((type != STT_OBJECT && type != STT_FUNC) || s.st_size == 0 || s.st_name >= strings.sh_size) continue;
      if (strings.sh_offset + s.st_name >= file.size()) continue;
      symbols.symbols_.push_back(
          {s.st_value, s.st_size, type == STT_FUNC, file.c_str() + strings.sh_offset + s.st_name});
    }
  }
  std::sort(symbols.symbols_.begin(), symbols.symbols_.end(),
            [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
  return symbols;
}

std::string Symbols::name(std::uint64_t address, bool is_function) const {
  auto it = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                             [](std::uint64_t a, const Symbol& s) { return a < s.begin; });
  while (it != symbols_.begin()) {
    --it;
    if (it->is_function != is_function) continue;
    if (address >= it->begin + it->bytes) return "";
    const std::string name = demangled(it->name);
    return is_function || address == it->begin ? name : name + "+" + std::to_string(address - it->begin);
  }
  return "";
}

}  // namespace crashcut::recovery
