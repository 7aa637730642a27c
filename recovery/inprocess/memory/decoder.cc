#include "recovery/inprocess/memory/decoder.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "recovery/inprocess/user_memory.h"

namespace crashcut::inprocess {

namespace {

constexpr const char* kLibrary = "libZydis.so.4.0";

struct Zydis {
  decltype(&ZydisDecoderInit) init;
  decltype(&ZydisDecoderDecodeInstruction) decode_facts;
  decltype(&ZydisDecoderDecodeFull) decode;
  decltype(&ZydisDisassembleIntel) disassemble;
};
constinit Zydis g_zydis{};
constinit ZydisDecoder g_decoder{};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const ZydisDecodedOperand* Instruction::memory() const {
  for (unsigned i = 0; i < facts.operand_count_visible; ++i) {
    if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY) return &operands[i];
  }
  return nullptr;
}

bool Instruction::has_prefix(std::uint8_t byte) const {
  return std::any_of(facts.raw.prefixes, facts.raw.prefixes + facts.raw.prefix_count,
                     [&](const auto& prefix) { return prefix.value == byte; });
}

bool load_decoder() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && find(library, "ZydisDecoderInit", g_zydis.init) &&
         find(library, "ZydisDecoderDecodeInstruction", g_zydis.decode_facts) &&
         find(library, "ZydisDecoderDecodeFull", g_zydis.decode) &&
         find(library, "ZydisDisassembleIntel", g_zydis.disassemble) &&
         ZYAN_SUCCESS(g_zydis.init(&g_decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
}

bool decode_facts(const std::uint8_t* code, std::size_t bytes, ZydisDecodedInstruction& facts) {
  ZydisDecoderContext context;
  return ZYAN_SUCCESS(g_zydis.decode_facts(&g_decoder, &context, code, bytes, &facts));
}

bool decode(std::uint64_t address, std::uint8_t first, Instruction& instruction) {
  instruction.address = address;
  const auto* code = reinterpret_cast<const std::uint8_t*>(address);
  // The program's code may end at the end of its page.
  const std::size_t readable = readable_bytes(code, kInstructionBytesMost);
  std::memset(instruction.bytes, 0, sizeof instruction.bytes);
  std::memcpy(instruction.bytes, code, readable);
  instruction.bytes[0] = first;
  return ZYAN_SUCCESS(
      g_zydis.decode(&g_decoder, instruction.bytes, readable, &instruction.facts, instruction.operands));
}

std::string describe(const Instruction& instruction) {
  ZydisDisassembledInstruction text;
  std::string described = "an instruction";
  if (ZYAN_SUCCESS(g_zydis.disassemble(ZYDIS_MACHINE_MODE_LONG_64, instruction.address, instruction.bytes,
                                       kInstructionBytesMost, &text)))
    described = text.text;
  described += " (";
  for (unsigned i = 0; i < instruction.facts.length; ++i)
    described += fmt::format("{}{:02x}", i == 0 ? "" : " ", instruction.bytes[i]);
  return described + ")";
}

}  // namespace crashcut::inprocess
