#include "recovery/source/elf_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <cstdlib>
#include <utility>

namespace crashcut::source {
namespace {

std::string build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t count = dwelf_elf_gnu_build_id(elf, &bytes);
  return count > 0 ? std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count)) : "";
}

std::uint32_t checksum_of(int fd) {
  boost::crc_32_type checksum;
  std::vector<char> part(1 << 20);
  off_t at = 0;
  for (ssize_t got; (got = pread(fd, part.data(), part.size(), at)) > 0; at += got)
    checksum.process_bytes(part.data(), static_cast<std::size_t>(got));
  return checksum.checksum();
}

}  // namespace

void ElfFile::Opened::open(const std::string& path) {
  fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  if (elf == nullptr || elf_kind(elf) != ELF_K_ELF) close();
}

void ElfFile::Opened::close() {
  if (elf != nullptr) elf_end(elf);
  if (fd >= 0) ::close(fd);
  *this = {};
}

ElfFile::ElfFile(const std::string& path, std::string debug_root) : path_(path), debug_root_(std::move(debug_root)) {
  elf_version(EV_CURRENT);
  own_.open(path);
}

ElfFile::~ElfFile() {
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  separate_.close();
  own_.close();
}

bool ElfFile::belongs_to(Elf* candidate, const std::string& path, std::optional<std::uint32_t> checksum) const {
  const std::string id = build_id_of(own_.elf), other_id = build_id_of(candidate);
  if (!id.empty() && !other_id.empty()) return id == other_id;
  if (!checksum) return false;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_same = checksum_of(fd) == *checksum;
  ::close(fd);
  return is_same;
}

bool ElfFile::try_separate(const std::string& path, std::optional<std::uint32_t> checksum) {
  separate_.open(path);
  if (separate_.elf != nullptr && belongs_to(separate_.elf, path, checksum)) return true;
  separate_.close();
  return false;
}

void ElfFile::find_separate() {
  if (own_.elf == nullptr || std::exchange(has_looked_for_separate_, true)) return;
  if (const std::string id = build_id_of(own_.elf); id.size() > 1) {
    std::string hex;
    for (const char byte : id) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    if (try_separate(fmt::format("{}/.build-id/{}/{}.debug", debug_root_, hex.substr(0, 2), hex.substr(2)), {})) return;
  }
  GElf_Word checksum = 0;
  const char* link = dwelf_elf_gnu_debuglink(own_.elf, &checksum);
  if (link == nullptr || *link == '\0') return;
  char* real = realpath(path_.c_str(), nullptr);
  const std::string whole = real != nullptr ? real : path_;
  std::free(real);
  const std::string folder = whole.substr(0, whole.rfind('/') + 1);
  for (const std::string& at : {folder + link, folder + ".debug/" + link, debug_root_ + folder + link}) {
    if (at != whole && try_separate(at, checksum)) return;
  }
}

Dwarf* ElfFile::debug_information() {
  if (own_.elf == nullptr || std::exchange(has_looked_for_dwarf_, true)) return dwarf_;
  const auto has_units = [](Dwarf* dwarf) {
    Dwarf_CU* unit = nullptr;
    return dwarf != nullptr && dwarf_get_units(dwarf, nullptr, &unit, nullptr, nullptr, nullptr, nullptr) == 0;
  };
  dwarf_ = dwarf_begin_elf(own_.elf, DWARF_C_READ, nullptr);
  if (has_units(dwarf_)) return dwarf_;
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  dwarf_ = nullptr;
  find_separate();
  if (separate_.elf != nullptr) dwarf_ = dwarf_begin_elf(separate_.elf, DWARF_C_READ, nullptr);
  return dwarf_;
}

void ElfFile::read_symbols_of(Elf* elf, unsigned section_type) {
  Elf_Scn* section = nullptr;
  while (elf != nullptr && (section = elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != section_type) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || header.sh_entsize == 0) continue;
    const std::uint64_t count = std::min<std::uint64_t>(header.sh_size, data->d_size) / header.sh_entsize;
    for (std::uint64_t i = 0; i < count && i < INT32_MAX; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      const int type = GELF_ST_TYPE(symbol.st_info);
      if ((type != STT_OBJECT && type != STT_FUNC) || symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr) symbols_.push_back({symbol.st_value, symbol.st_size, type == STT_FUNC, name});
    }
  }
}

void ElfFile::read_symbols() {
  if (std::exchange(has_read_symbols_, true)) return;
  read_symbols_of(own_.elf, SHT_SYMTAB);
  if (symbols_.empty()) {
    find_separate();
    read_symbols_of(separate_.elf, SHT_SYMTAB);
    read_symbols_of(own_.elf, SHT_DYNSYM);
  }
  std::stable_sort(symbols_.begin(), symbols_.end(),
                   [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
}

bool ElfFile::has_symbols() {
  read_symbols();
  return !symbols_.empty();
}

std::optional<Symbol> ElfFile::symbol_at(std::uint64_t address, bool is_function) {
  read_symbols();
  auto it = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                             [](std::uint64_t a, const Symbol& symbol) { return a < symbol.begin; });
  // Symbols of one place may be of different kinds and sizes.
  constexpr int kLookedAtMost = 64;
  for (int i = 0; i < kLookedAtMost && it != symbols_.begin(); ++i) {
    --it;
    if (it->is_function == is_function && address - it->begin < it->bytes) return *it;
  }
  return std::nullopt;
}

}  // namespace crashcut::source
