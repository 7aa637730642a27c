// Decoder: machine code of the program, by Zydis.
//
// The library is loaded (dlopen) only if accesses are trapped: each mapping more makes every fork of a recovery dearer.
// Debian has no static one. It allocates nothing. Threads: one.
#pragma once

#include <Zydis/Zydis.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace crashcut::inprocess {

inline constexpr std::size_t kInstructionBytesMost = 15;

struct Instruction {
  std::uint64_t address;
  std::uint8_t bytes[kInstructionBytesMost];
  ZydisDecodedInstruction facts;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

  // Of the one operand in memory that the instruction's text shows; null: none.
  const ZydisDecodedOperand* memory() const;
  bool has_prefix(std::uint8_t byte) const;
};

// Before system calls are modelled. False: there is no Zydis.
bool load_decoder();

// Its length and kind alone. False: no instruction.
bool decode_facts(const std::uint8_t* code, std::size_t bytes, ZydisDecodedInstruction& facts);
// `first` is its first byte, which may have been replaced by a trap.
bool decode(std::uint64_t address, std::uint8_t first, Instruction& instruction);
// "vpgatherdd ymm0, [rax+ymm1*4], ymm2 (c4 e2 6d 90 04 88)"
std::string describe(const Instruction& instruction);

}  // namespace crashcut::inprocess
