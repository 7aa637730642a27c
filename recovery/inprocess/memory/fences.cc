// Fences and locked instructions in the code of the program and its libraries.
//
// Functions are those of the unwind tables, which are in memory, and those that the symbols of the file name with their
// size: assembly often has no unwind table. Data among the code belongs to none of the former, and a function that does
// not decode to its end is left alone. The latter may hold data, and are searched where control flow leads.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <string_view>

#include "recovery/inprocess/memory/trap.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

constexpr std::uint8_t kBreakpoint = 0xcc;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kSitesMost = std::size_t{1} << 20;

// Neither of the program's memory nor of an arena: made once, before anything is forked.
constinit FenceSite* g_sites = nullptr;
constinit std::size_t g_site_count = 0;

struct Module {
  std::uint64_t base;
  const ElfW(Phdr) * headers;
  std::size_t count;
  bool is_libc;  // or the loader

  // Whether all of the bytes are in a part of the file that is loaded, one with code if `is_code`.
  bool holds(std::uint64_t address, std::uint64_t bytes, bool is_code) const {
    return std::any_of(headers, headers + count, [&](const ElfW(Phdr) & h) {
      const std::uint64_t begin = base + h.p_vaddr;
      return h.p_type == PT_LOAD && (!is_code || (h.p_flags & PF_X) != 0) && address >= begin && bytes <= h.p_filesz &&
             address - begin <= h.p_filesz - bytes;
    });
  }
};

bool is_fence(const ZydisDecodedInstruction& facts) {
  switch (facts.mnemonic) {
    case ZYDIS_MNEMONIC_SFENCE:
    case ZYDIS_MNEMONIC_MFENCE:
      return true;
    case ZYDIS_MNEMONIC_XCHG:  // locked if an operand is in memory
      return (facts.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0 && facts.raw.modrm.mod != 3;
    default:
      return (facts.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0;
  }
}

void add_site(std::uint64_t address, std::uint8_t first, bool is_libc) {
  if (g_site_count == kSitesMost) tool_error("the program has more fences than crashcut can break into");
  g_sites[g_site_count++] = {address, first, !is_libc};
}

void search_function(std::uint64_t begin, std::uint64_t bytes, bool is_libc) {
  const std::size_t before = g_site_count;
  const auto* code = reinterpret_cast<const std::uint8_t*>(begin);
  for (std::uint64_t at = 0; at < bytes;) {
    ZydisDecodedInstruction facts;
    if (!decode_facts(code + at, bytes - at, facts)) {
      g_site_count = before;
      return;
    }
    if (is_fence(facts)) add_site(begin + at, code[at], is_libc);
    at += facts.length;
  }
}

// A function that is followed from its beginning. What only a computed jump leads to is not found.
class FollowedFunction {
 public:
  FollowedFunction(std::uint64_t begin, std::uint64_t bytes, bool is_libc)
      : begin_(begin), bytes_(bytes), is_libc_(is_libc) {}

  void search() {
    const std::size_t before = g_site_count;
    if (bytes_ > kBytesMost) return;
    g_seen.reset();
    push(0);
    while (waiting_ > 0) {
      if (!follow(g_waiting[--waiting_])) {
        g_site_count = before;
        return;
      }
    }
  }

 private:
  static constexpr std::size_t kBytesMost = 1 << 16, kWaitingMost = 1024;

  void push(std::uint64_t at) {
    if (at < bytes_ && !g_seen[at] && waiting_ < kWaitingMost) g_waiting[waiting_++] = static_cast<std::uint32_t>(at);
  }
  // Up to where control flow goes elsewhere. False: this is no instruction.
  bool follow(std::uint64_t at) {
    const auto* code = reinterpret_cast<const std::uint8_t*>(begin_);
    while (at < bytes_ && !g_seen[at]) {
      ZydisDecodedInstruction facts;
      if (!decode_facts(code + at, bytes_ - at, facts)) return false;
      g_seen.set(at);
      if (is_fence(facts)) add_site(begin_ + at, code[at], is_libc_);
      at += facts.length;
      const bool is_jump = facts.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
      if ((is_jump || facts.meta.category == ZYDIS_CATEGORY_COND_BR) && facts.raw.imm[0].is_relative)
        push(at + static_cast<std::uint64_t>(facts.raw.imm[0].value.s));
      if (is_jump || ends_flow(facts)) return true;
    }
    return true;
  }
  static bool ends_flow(const ZydisDecodedInstruction& facts) {
    switch (facts.mnemonic) {
      case ZYDIS_MNEMONIC_HLT:
      case ZYDIS_MNEMONIC_INT3:
      case ZYDIS_MNEMONIC_UD0:
      case ZYDIS_MNEMONIC_UD1:
      case ZYDIS_MNEMONIC_UD2:
        return true;
      default:
        return facts.meta.category == ZYDIS_CATEGORY_RET;
    }
  }

  static constinit std::bitset<kBytesMost> g_seen;
  static constinit std::uint32_t g_waiting[kWaitingMost];
  std::uint64_t begin_, bytes_;
  std::size_t waiting_ = 0;
  bool is_libc_;
};
constinit std::bitset<FollowedFunction::kBytesMost> FollowedFunction::g_seen;
constinit std::uint32_t FollowedFunction::g_waiting[FollowedFunction::kWaitingMost];

template <class T>
T read_at(std::uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

// The table of .eh_frame_hdr, as g++ and clang write it: distances of 32 bits, by address.
struct UnwindTable {
  std::uint64_t header = 0, count = 0;

  std::uint64_t begin(std::uint64_t i) const { return header + distance(header + 12 + i * 8); }
  std::uint64_t frame(std::uint64_t i) const { return header + distance(header + 16 + i * 8); }
  bool has(std::uint64_t function) const {
    std::uint64_t first = 0;
    for (std::uint64_t left = count; left > 0;) {
      const std::uint64_t half = left / 2;
      begin(first + half) < function ? (first += half + 1, left -= half + 1) : left = half;
    }
    return first < count && begin(first) == function;
  }

 private:
  static std::uint64_t distance(std::uint64_t at) { return static_cast<std::uint64_t>(read_at<std::int32_t>(at)); }
};

UnwindTable unwind_table_of(const Module& module) {
  constexpr std::uint8_t kHeader[] = {1, 0x1b, 0x03, 0x3b};  // version; encodings of the pointer, count and table
  const auto* header = std::find_if(module.headers, module.headers + module.count,
                                    [](const ElfW(Phdr) & h) { return h.p_type == PT_GNU_EH_FRAME; });
  if (header == module.headers + module.count || header->p_memsz < 12) return {};
  const std::uint64_t table = module.base + header->p_vaddr;
  if (!module.holds(table, header->p_memsz, false) ||
      std::memcmp(reinterpret_cast<const void*>(table), kHeader, sizeof kHeader) != 0)
    return {};
  return {table, std::min<std::uint64_t>(read_at<std::uint32_t>(table + 8), (header->p_memsz - 12) / 8)};
}

void search_unwound(const Module& module, const UnwindTable& table) {
  for (std::uint64_t i = 0; i < table.count; ++i) {
    const std::uint64_t begin = table.begin(i), frame = table.frame(i);
    if (!module.holds(frame, 16, false)) continue;
    const auto distance = static_cast<std::uint64_t>(read_at<std::int32_t>(frame + 8));
    const std::uint64_t bytes = read_at<std::uint32_t>(frame + 12);
    if (frame + 8 + distance == begin && module.holds(begin, bytes, true))
      search_function(begin, bytes, module.is_libc);
  }
}

// The module's file, where its symbols are.
class File {
 public:
  explicit File(const char* path) {
    const long fd = kernel(SYS_open, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat status;
    if (kernel(SYS_fstat, fd, reinterpret_cast<long>(&status)) == 0) {
      const long at = kernel(SYS_mmap, 0, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (at > 0) at_ = static_cast<std::uint64_t>(at), bytes_ = static_cast<std::uint64_t>(status.st_size);
    }
    kernel(SYS_close, fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (bytes_ != 0) kernel(SYS_munmap, static_cast<long>(at_), static_cast<long>(bytes_));
  }

  // Null: it has no `count` of them there.
  template <class T>
  const T* find(std::uint64_t offset, std::uint64_t count) const {
    if (offset > bytes_ || count > (bytes_ - offset) / sizeof(T) || (at_ + offset) % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(at_ + offset);
  }

 private:
  std::uint64_t at_ = 0, bytes_ = 0;
};

// A function without a size may end anywhere: it is left alone.
void search_named(const Module& module, const UnwindTable& unwound, const char* path) {
  const File file(path);
  const auto* header = file.find<ElfW(Ehdr)>(0, 1);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto* sections = file.find<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  for (unsigned s = 0; sections != nullptr && s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB && sections[s].sh_type != SHT_DYNSYM) continue;
    const std::uint64_t count = sections[s].sh_size / sizeof(ElfW(Sym));
    const auto* symbols = file.find<ElfW(Sym)>(sections[s].sh_offset, count);
    for (std::uint64_t i = 0; symbols != nullptr && i < count; ++i) {
      const ElfW(Sym)& symbol = symbols[i];
      const std::uint64_t begin = module.base + symbol.st_value;
      const bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
      if (is_function && symbol.st_size > 0 && !unwound.has(begin) && module.holds(begin, symbol.st_size, true))
        FollowedFunction(begin, symbol.st_size, module.is_libc).search();
    }
  }
}

bool is_searched(const dl_phdr_info& info) {
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(is_fence), &own);
  const std::string_view name = info.dlpi_name;
  const bool is_decoder = name.find("/libZy") != name.npos, is_kernels = name.find("linux-vdso") != name.npos;
  return info.dlpi_addr != reinterpret_cast<std::uint64_t>(own.dli_fbase) && !is_decoder && !is_kernels;
}

// Breakpoints are taken away for one instruction at a time, so the code stays writable.
void open_code(const Module& module) {
  for (std::size_t i = 0; i < module.count; ++i) {
    const ElfW(Phdr)& h = module.headers[i];
    if (h.p_type != PT_LOAD || (h.p_flags & PF_X) == 0) continue;
    const std::uint64_t begin = (module.base + h.p_vaddr) / kPage * kPage;
    const long protection = PROT_READ | PROT_WRITE | PROT_EXEC;
    if (kernel(SYS_mprotect, begin, module.base + h.p_vaddr + h.p_memsz - begin, protection) != 0)
      tool_error("the program's code cannot be changed, so its fences cannot be seen");
  }
}

int visit_module(dl_phdr_info* info, std::size_t, void*) {
  if (!is_searched(*info)) return 0;
  const std::string_view name = info->dlpi_name;
  const bool is_libc = name.find("/libc.so") != name.npos || name.find("/ld-linux") != name.npos;
  const Module module{info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, is_libc};
  const std::size_t before = g_site_count;
  const UnwindTable unwound = unwind_table_of(module);
  search_unwound(module, unwound);
  search_named(module, unwound, *info->dlpi_name == '\0' ? "/proc/self/exe" : info->dlpi_name);
  if (g_site_count > before) open_code(module);
  return 0;
}

}  // namespace

void break_into_fences() {
  const long at = kernel(SYS_mmap, 0, kSitesMost * sizeof(FenceSite), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at < 0 && at > -4096) tool_error("cannot map memory for breakpoints");
  g_sites = reinterpret_cast<FenceSite*>(at);
  dl_iterate_phdr(visit_module, nullptr);
  const auto before = [](const FenceSite& a, const FenceSite& b) { return a.address < b.address; };
  const auto same = [](const FenceSite& a, const FenceSite& b) { return a.address == b.address; };
  std::sort(g_sites, g_sites + g_site_count, before);
  g_site_count = static_cast<std::size_t>(std::unique(g_sites, g_sites + g_site_count, same) - g_sites);
  for (std::size_t i = 0; i < g_site_count; ++i) set_breakpoint(g_sites[i], true);
}

const FenceSite* find_fence(std::uint64_t address) {
  const FenceSite *begin = g_sites, *end = g_sites + g_site_count;
  const FenceSite* found = std::lower_bound(
      begin, end, address, [](const FenceSite& site, std::uint64_t wanted) { return site.address < wanted; });
  return found != end && found->address == address ? found : nullptr;
}

void set_breakpoint(const FenceSite& site, bool is_set) {
  *reinterpret_cast<volatile std::uint8_t*>(site.address) = is_set ? kBreakpoint : site.first;
}

}  // namespace crashcut::inprocess
