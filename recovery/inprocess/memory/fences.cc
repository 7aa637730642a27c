// Fences and locked instructions in the code of the program and its libraries.
//
// Functions are those of the unwind tables, which are in memory. Data among the code belongs to none of them, and a
// function that does not decode to its end is left alone.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
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

void search_function(std::uint64_t begin, std::uint64_t bytes, bool is_libc) {
  const std::size_t before = g_site_count;
  const auto* code = reinterpret_cast<const std::uint8_t*>(begin);
  for (std::uint64_t at = 0; at < bytes;) {
    ZydisDecodedInstruction facts;
    if (!decode_facts(code + at, bytes - at, facts)) {
      g_site_count = before;
      return;
    }
    if (is_fence(facts)) {
      if (g_site_count == kSitesMost) tool_error("the program has more fences than crashcut can break into");
      g_sites[g_site_count++] = {begin + at, code[at], !is_libc};
    }
    at += facts.length;
  }
}

template <class T>
T read_at(std::uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

// The table of .eh_frame_hdr, as g++ and clang write it: distances of 32 bits.
void search_module(const Module& module) {
  constexpr std::uint8_t kHeader[] = {1, 0x1b, 0x03, 0x3b};  // version; encodings of the pointer, count and table
  const auto* header = std::find_if(module.headers, module.headers + module.count,
                                    [](const ElfW(Phdr) & h) { return h.p_type == PT_GNU_EH_FRAME; });
  if (header == module.headers + module.count || header->p_memsz < 12) return;
  const std::uint64_t table = module.base + header->p_vaddr;
  if (!module.holds(table, header->p_memsz, false) ||
      std::memcmp(reinterpret_cast<const void*>(table), kHeader, sizeof kHeader) != 0)
    return;
  const std::uint64_t count = std::min<std::uint64_t>(read_at<std::uint32_t>(table + 8), (header->p_memsz - 12) / 8);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto entry = table + 12 + i * 8;
    const std::uint64_t begin = table + static_cast<std::uint64_t>(read_at<std::int32_t>(entry));
    const std::uint64_t frame = table + static_cast<std::uint64_t>(read_at<std::int32_t>(entry + 4));
    if (!module.holds(frame, 16, false)) continue;
    const auto distance = static_cast<std::uint64_t>(read_at<std::int32_t>(frame + 8));
    const std::uint64_t bytes = read_at<std::uint32_t>(frame + 12);
    if (frame + 8 + distance == begin && module.holds(begin, bytes, true))
      search_function(begin, bytes, module.is_libc);
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
  search_module(module);
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
