#include "recovery/threads/code.h"

#include <Zydis/Zydis.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace crashcut::recovery {
namespace {

using scheduler::runtime::Site;

// A file in memory, and its parts; whatever lies outside of it is empty.
class ElfFile {
 public:
  explicit ElfFile(const std::string& name) {
    const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat st {};
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
      void* at = mmap(nullptr, static_cast<std::size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) bytes_ = {static_cast<const char*>(at), static_cast<std::size_t>(st.st_size)};
    }
    if (fd >= 0) close(fd);
    const auto* header = at<Elf64_Ehdr>(0);
    const bool is_ours = header != nullptr && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                         header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == EM_X86_64;
    for (unsigned i = 0; is_ours && i < header->e_shnum; ++i) {
      if (const auto* section = at<Elf64_Shdr>(header->e_shoff + i * header->e_shentsize))
        sections_.push_back(*section);
    }
    if (is_ours && header->e_shstrndx < sections_.size()) names_ = content(sections_[header->e_shstrndx]);
  }
  ElfFile(const ElfFile&) = delete;
  ~ElfFile() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_.size()) return {};
    return bytes_.substr(section.sh_offset, section.sh_size);
  }
  std::string_view name(const Elf64_Shdr& section) const {
    if (section.sh_name >= names_.size()) return {};
    const std::string_view rest = names_.substr(section.sh_name);
    return rest.substr(0, rest.find('\0'));
  }
  const Elf64_Shdr* section_at(std::uint64_t address) const {
    for (const Elf64_Shdr& s : sections_) {
      if ((s.sh_flags & SHF_ALLOC) != 0 && address >= s.sh_addr && address - s.sh_addr < s.sh_size) return &s;
    }
    return nullptr;
  }
  // The code from there to the end of its section; empty where it is none.
  std::string_view code_at(std::uint64_t address) const {
    const Elf64_Shdr* section = section_at(address);
    if (section == nullptr || (section->sh_flags & SHF_EXECINSTR) == 0) return {};
    const std::string_view all = content(*section);
    return all.size() == section->sh_size ? all.substr(address - section->sh_addr) : std::string_view();
  }

 private:
  template <class T>
  const T* at(std::uint64_t offset) const {
    return offset <= bytes_.size() && bytes_.size() - offset >= sizeof(T)
               ? reinterpret_cast<const T*>(bytes_.data() + offset)
               : nullptr;
  }

  std::string_view bytes_, names_;
  std::vector<Elf64_Shdr> sections_;
};

// Reads numbers of .eh_frame one after the other.
class FrameReader {
 public:
  FrameReader(std::string_view bytes, std::uint64_t address) : bytes_(bytes), address_(address) {}
  bool is_at_end() const { return at_ >= bytes_.size(); }
  std::size_t at() const { return at_; }
  void go_to(std::size_t at) { at_ = at; }

  template <class T>
  T fixed() {
    T value{};
    if (bytes_.size() - std::min(at_, bytes_.size()) >= sizeof value)
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t leb128() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }
  std::string_view text() {
    const std::string_view rest = bytes_.substr(std::min(at_, bytes_.size()));
    const std::string_view found = rest.substr(0, rest.find('\0'));
    at_ += found.size() + 1;
    return found;
  }
  // A pointer as DWARF encodes it (DW_EH_PE_*); `is_length`: only its format counts.
  std::optional<std::uint64_t> pointer(std::uint8_t encoding, bool is_length) {
    const std::uint64_t here = address_ + at_;
    std::uint64_t value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = fixed<std::uint64_t>();
        break;
      case 0x02:
        value = fixed<std::uint16_t>();
        break;
      case 0x03:
        value = fixed<std::uint32_t>();
        break;
      case 0x0a:
        value = static_cast<std::uint64_t>(fixed<std::int16_t>());
        break;
      case 0x0b:
        value = static_cast<std::uint64_t>(fixed<std::int32_t>());
        break;
      default:
        return std::nullopt;
    }
    if (is_length || (encoding & 0x70) == 0) return value;
    return (encoding & 0x70) == 0x10 ? std::optional(here + value) : std::nullopt;
  }

 private:
  std::string_view bytes_;
  std::uint64_t address_;
  std::size_t at_ = 0;
};

using Functions = std::map<std::uint64_t, std::uint64_t>;  // begin, end

void add_function(Functions& functions, std::uint64_t begin, std::uint64_t bytes) {
  if (bytes == 0) return;
  std::uint64_t& end = functions[begin];
  end = std::max(end, begin + bytes);
}

// How a CIE's FDEs encode addresses.
std::uint8_t encoding_of(FrameReader in) {
  in.fixed<std::uint8_t>();  // version
  const std::string_view augmentation = in.text();
  in.leb128(), in.leb128(), in.leb128();
  if (!augmentation.starts_with('z')) return 0;
  in.leb128();
  for (const char c : augmentation.substr(1)) {
    if (c == 'R') return in.fixed<std::uint8_t>();
    if (c == 'L') in.fixed<std::uint8_t>();
    if (c == 'P') in.pointer(in.fixed<std::uint8_t>(), true);
  }
  return 0;
}

void add_unwound(Functions& functions, std::string_view frames, std::uint64_t address) {
  FrameReader in(frames, address);
  while (!in.is_at_end()) {
    std::uint64_t length = in.fixed<std::uint32_t>();
    if (length == 0xffffffff) length = in.fixed<std::uint64_t>();
    if (length == 0 || length > frames.size()) break;
    const std::size_t begin = in.at();
    const auto back = in.fixed<std::uint32_t>();
    if (back != 0 && back <= begin) {
      FrameReader cie = in;
      cie.go_to(begin - back + 8);  // after its length and its id
      const std::uint8_t encoding = encoding_of(cie);
      const auto from = in.pointer(encoding, false);
      const auto bytes = in.pointer(encoding, true);
      if (from && bytes) add_function(functions, *from, *bytes);
    }
    in.go_to(begin + length);
  }
}

void add_symbols(Functions& functions, std::string_view table) {
  for (std::size_t i = 0; i + sizeof(Elf64_Sym) <= table.size(); i += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, table.data() + i, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
      add_function(functions, symbol.st_value, symbol.st_size);
  }
}

Functions functions_of(const ElfFile& file) {
  Functions functions;
  for (const Elf64_Shdr& section : file.sections()) {
    if (file.name(section) == ".eh_frame") add_unwound(functions, file.content(section), section.sh_addr);
    if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) add_symbols(functions, file.content(section));
  }
  // Of two that overlap, the first goes up to the second: its boundary is one of instructions in both.
  for (auto it = functions.begin(); it != functions.end(); ++it) {
    if (const auto next = std::next(it); next != functions.end()) it->second = std::min(it->second, next->first);
  }
  return functions;
}

struct Instruction {
  std::uint64_t address;
  ZydisDecodedInstruction facts;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

class Decoder {
 public:
  Decoder() { ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64); }
  // Calls visit() with each instruction; without its operands, which are filled in by add_operands(). False where there
  // is something that is none.
  template <class Visit>
  bool for_each(const ElfFile& file, std::uint64_t begin, std::uint64_t end, Visit visit) {
    std::string_view code = file.code_at(begin);
    if (code.size() > end - begin) code = code.substr(0, end - begin);
    for (std::uint64_t at = begin; !code.empty();) {
      Instruction instruction;
      instruction.address = at;
      if (!ZYAN_SUCCESS(
              ZydisDecoderDecodeInstruction(&decoder_, &context_, code.data(), code.size(), &instruction.facts)))
        return false;
      visit(instruction);
      at += instruction.facts.length;
      code.remove_prefix(instruction.facts.length);
    }
    return true;
  }
  // Of the one that is being visited.
  bool add_operands(Instruction& instruction) {
    return ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&decoder_, &context_, &instruction.facts, instruction.operands,
                                                   instruction.facts.operand_count));
  }

 private:
  ZydisDecoder decoder_;
  ZydisDecoderContext context_;
};

const ZydisDecodedOperand* memory_operand(const Instruction& instruction) {
  for (unsigned i = 0; i < instruction.facts.operand_count_visible; ++i) {
    if (instruction.operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY) return &instruction.operands[i];
  }
  return nullptr;
}

std::uint8_t register_number(ZydisRegister name) {
  return name == ZYDIS_REGISTER_NONE ? Site::kNoRegister : static_cast<std::uint8_t>(ZydisRegisterGetId(name));
}

bool is_on_stack(const ZydisDecodedOperand& operand) {
  return operand.mem.base == ZYDIS_REGISTER_RSP && operand.mem.index == ZYDIS_REGISTER_NONE;
}

Site::Kind kind_of(const Instruction& instruction, const ZydisDecodedOperand& operand) {
  switch (instruction.facts.mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_INC:
    case ZYDIS_MNEMONIC_DEC:
    case ZYDIS_MNEMONIC_XADD:
      return Site::kCounts;
    // How compilers write a fence: it changes nothing.
    case ZYDIS_MNEMONIC_OR:
      return is_on_stack(operand) ? Site::kFence : Site::kTakes;
    default:
      return Site::kTakes;
  }
}

// An address that cannot be told from registers: 32 bits wide, or of another segment.
bool is_odd(const Instruction& instruction, const ZydisDecodedOperand& operand) {
  return instruction.facts.address_width != 64 || operand.mem.segment == ZYDIS_REGISTER_GS;
}

// Where it is one address, known here.
std::optional<std::uint64_t> fixed_address(const Instruction& instruction, const ZydisDecodedOperand& operand) {
  if (operand.mem.base != ZYDIS_REGISTER_RIP) return std::nullopt;
  return instruction.address + instruction.facts.length + static_cast<std::uint64_t>(operand.mem.disp.value);
}

Site make_site(const Instruction& instruction, const ZydisDecodedOperand& operand, Site::Kind kind) {
  Site site{};
  site.address = instruction.address;
  site.kind = kind;
  site.length = instruction.facts.length;
  site.bytes = static_cast<std::uint8_t>(std::clamp(operand.size / 8, 1, 16));
  site.writes = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  site.base = site.index = Site::kNoRegister;
  if (const auto address = fixed_address(instruction, operand)) {
    site.is_fixed = true;
    site.displacement = static_cast<std::int64_t>(*address);
    site.displacement_at = instruction.facts.raw.disp.offset;
    return site;
  }
  site.base = register_number(operand.mem.base);
  site.index = register_number(operand.mem.index);
  site.scale = operand.mem.scale;
  site.displacement = operand.mem.disp.value;
  site.is_thread_local = operand.mem.segment == ZYDIS_REGISTER_FS;
  return site;
}

// What a locked addition adds.
void add_amount(const Instruction& instruction, Site& site) {
  site.source = Site::kNoRegister;
  site.amount = 1;
  const ZydisMnemonic mnemonic = instruction.facts.mnemonic;
  site.is_negative = mnemonic == ZYDIS_MNEMONIC_SUB || mnemonic == ZYDIS_MNEMONIC_DEC;
  site.tells = mnemonic == ZYDIS_MNEMONIC_XADD;
  if (instruction.facts.operand_count_visible < 2) return;
  const ZydisDecodedOperand& operand = instruction.operands[1];
  if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) site.amount = static_cast<std::int32_t>(operand.imm.value.s);
  if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER)
    site.source = register_number(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value));
}

bool is_locked(const Instruction& instruction) {
  return (instruction.facts.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 ||
         instruction.facts.mnemonic == ZYDIS_MNEMONIC_XCHG;
}

// A plain access to one variable, by its address.
struct Look {
  std::uint64_t variable, address;
};

struct Found {
  std::vector<Site> sites;
  std::vector<Look> looks;
};

std::optional<std::uint64_t> variable_of(const Instruction& instruction) {
  const auto& raw = instruction.facts.raw;
  const bool is_relative =
      (instruction.facts.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0 && raw.modrm.mod == 0 && raw.modrm.rm == 5;
  if (!is_relative) return std::nullopt;
  return instruction.address + instruction.facts.length + static_cast<std::uint64_t>(raw.disp.value);
}

// Of a function: what is locked, fences and pauses; and plain accesses, whose variables may turn out to be atomic ones.
void find_in(const ElfFile& file, Decoder& decoder, std::uint64_t begin, std::uint64_t end, Found& all) {
  Found found;
  const bool is_code = decoder.for_each(file, begin, end, [&](Instruction& instruction) {
    Site bare{};
    bare.address = instruction.address;
    bare.length = instruction.facts.length;
    bare.kind = instruction.facts.mnemonic == ZYDIS_MNEMONIC_PAUSE ? Site::kPause : Site::kFence;
    if (bare.kind == Site::kPause || instruction.facts.mnemonic == ZYDIS_MNEMONIC_MFENCE)
      return found.sites.push_back(bare);
    if (!is_locked(instruction)) {
      if (const auto variable = variable_of(instruction)) found.looks.push_back({*variable, instruction.address});
      return;
    }
    const ZydisDecodedOperand* operand = decoder.add_operands(instruction) ? memory_operand(instruction) : nullptr;
    if (operand == nullptr || is_odd(instruction, *operand)) return;
    Site site = make_site(instruction, *operand, kind_of(instruction, *operand));
    if (site.kind == Site::kCounts) add_amount(instruction, site);
    found.sites.push_back(site);
  });
  if (!is_code) return;
  all.sites.insert(all.sites.end(), found.sites.begin(), found.sites.end());
  all.looks.insert(all.looks.end(), found.looks.begin(), found.looks.end());
}

// Plain accesses to the variables that locked instructions name by their addresses: the other side may be one of these.
void add_looks(const ElfFile& file, Decoder& decoder, Found& found) {
  std::set<std::uint64_t> shared;
  for (const Site& site : found.sites) {
    if (site.is_fixed && site.kind != Site::kFence) shared.insert(static_cast<std::uint64_t>(site.displacement));
  }
  for (const Look& look : found.looks) {
    if (!shared.contains(look.variable)) continue;
    bool is_first = true;
    constexpr std::uint64_t kLongest = 15;
    decoder.for_each(file, look.address, look.address + kLongest, [&](Instruction& instruction) {
      const bool is_it = std::exchange(is_first, false) && decoder.add_operands(instruction);
      const ZydisDecodedOperand* operand = is_it ? memory_operand(instruction) : nullptr;
      if (operand != nullptr && !is_odd(instruction, *operand))
        found.sites.push_back(make_site(instruction, *operand, Site::kLooks));
    });
  }
}

std::vector<Site> find_sites(const std::string& name) {
  const ElfFile file(name);
  Decoder decoder;
  Found found;
  for (const auto& [begin, end] : functions_of(file)) find_in(file, decoder, begin, end, found);
  add_looks(file, decoder, found);
  for (Site& site : found.sites) site.first = static_cast<std::uint8_t>(file.code_at(site.address)[0]);
  std::sort(found.sites.begin(), found.sites.end(), [](const Site& a, const Site& b) { return a.address < b.address; });
  return found.sites;
}

// What a way out of a function leaves in the register of results.
enum class Leaves { kUnknown, kResult, kNothing };

// What the instruction before a way out, or one before that, left.
Leaves left_by(const ElfFile& file, const Instruction& instruction) {
  const auto is_librarys = [&](std::uint64_t target) {
    const Elf64_Shdr* section = file.section_at(target);
    return section != nullptr && file.name(*section).starts_with(".plt");
  };
  for (unsigned i = 0; i < instruction.facts.operand_count; ++i) {
    const ZydisDecodedOperand& operand = instruction.operands[i];
    if (instruction.facts.mnemonic == ZYDIS_MNEMONIC_CALL || instruction.facts.mnemonic == ZYDIS_MNEMONIC_JMP) {
      ZyanU64 target = 0;
      if (i == 0 && operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
          ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&instruction.facts, &operand, instruction.address, &target))) {
        return is_librarys(target) ? Leaves::kNothing : Leaves::kResult;
      }
      if (i == 0) return Leaves::kResult;
    }
    const bool writes =
        operand.type == ZYDIS_OPERAND_TYPE_REGISTER && (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    if (writes && ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value) == ZYDIS_REGISTER_RAX)
      return Leaves::kResult;
  }
  return Leaves::kUnknown;
}

bool is_epilogue(const Instruction& instruction) {
  const ZydisMnemonic mnemonic = instruction.facts.mnemonic;
  return mnemonic == ZYDIS_MNEMONIC_LEAVE || mnemonic == ZYDIS_MNEMONIC_POP;
}

// A way out at `last`: back along the code that leads straight there.
Leaves leaves_at(const ElfFile& file, const std::vector<Instruction>& all, std::size_t last,
                 const std::set<std::uint64_t>& targets) {
  bool is_at_end = true;  // only what g++ writes at the end of every function came after it
  for (std::size_t i = last;; --i) {
    const Instruction& instruction = all[i];
    // The end of a function without a result, as g++ -O0 marks it.
    if (is_at_end && i < last && instruction.facts.mnemonic == ZYDIS_MNEMONIC_NOP) return Leaves::kNothing;
    is_at_end = is_at_end && (i == last || is_epilogue(instruction));
    const bool is_out = i == last && instruction.facts.mnemonic == ZYDIS_MNEMONIC_RET;
    if (const Leaves left = is_out ? Leaves::kUnknown : left_by(file, instruction); left != Leaves::kUnknown)
      return left;
    if (i == 0 || targets.contains(instruction.address)) return Leaves::kResult;
    const ZydisMnemonic before = all[i - 1].facts.mnemonic;
    if (before == ZYDIS_MNEMONIC_RET || before == ZYDIS_MNEMONIC_JMP) return Leaves::kResult;
  }
}

}  // namespace

const std::vector<Site>& sites_of(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<Site>> known;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = known.try_emplace(file);
  if (is_new) it->second = find_sites(file);
  return it->second;
}

std::vector<CallSite> calls_between(const std::string& name, std::uint64_t first, std::uint64_t last) {
  const ElfFile file(name);
  Decoder decoder;
  std::vector<CallSite> calls = {{first, false}};
  bool runs_on = true;
  const bool is_code = decoder.for_each(file, first, last, [&](const Instruction& instruction) {
    const ZydisInstructionCategory category = instruction.facts.meta.category;
    if (category == ZYDIS_CATEGORY_RET || category == ZYDIS_CATEGORY_UNCOND_BR) runs_on = false;
    if (category != ZYDIS_CATEGORY_CALL) return;
    calls.push_back({instruction.address + instruction.facts.length, runs_on});
    runs_on = true;
  });
  return is_code && calls.back().address == last ? calls : std::vector<CallSite>{};
}

bool leaves_no_result(const std::string& name, std::uint64_t function) {
  const ElfFile file(name);
  const Functions functions = functions_of(file);
  const auto found = functions.find(function);
  if (found == functions.end()) return false;
  Decoder decoder;
  std::vector<Instruction> all;
  std::set<std::uint64_t> targets;
  const bool is_code = decoder.for_each(file, found->first, found->second, [&](Instruction& instruction) {
    if (!decoder.add_operands(instruction)) return;
    ZyanU64 target = 0;
    const bool is_jump = instruction.facts.meta.category == ZYDIS_CATEGORY_COND_BR ||
                         instruction.facts.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
    if (is_jump && ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&instruction.facts, &instruction.operands[0],
                                                         instruction.address, &target)))
      targets.insert(target);
    all.push_back(instruction);
  });
  if (!is_code) return false;
  bool has_way_out = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ZydisMnemonic mnemonic = all[i].facts.mnemonic;
    ZyanU64 target = 0;
    const bool is_far =
        mnemonic == ZYDIS_MNEMONIC_JMP &&
        (!ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&all[i].facts, &all[i].operands[0], all[i].address, &target)) ||
         target < found->first || target >= found->second);
    if (mnemonic != ZYDIS_MNEMONIC_RET && !is_far) continue;
    has_way_out = true;
    if (leaves_at(file, all, i, targets) != Leaves::kNothing) return false;
  }
  return has_way_out;
}

}  // namespace crashcut::recovery
