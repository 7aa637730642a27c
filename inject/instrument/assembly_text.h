// The text of inline assembly, as LLVM has it ($0, ${0:b}, $$1, %rax), taken apart into statements.
//
// Knows: AT&T and Intel syntax, .att_syntax and .intel_syntax, comments, prefixes as words and as .byte, instructions
//   that are spelt as .byte. Does not know macros, expressions of symbols, segments: such an operand is kOther.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace crashcut::instrument {

struct AsmOperand {
  enum class Kind { kReference, kRegister, kImmediate, kMemory, kOther };
  Kind kind = Kind::kOther;
  int reference = -1;       // kReference: N of $N
  char modifier = 0;        // of the reference: b of ${0:b}
  std::string name;         // kRegister, in small letters, without %
  std::int64_t number = 0;  // kImmediate; kMemory: the displacement
  unsigned bytes = 0;       // Intel's "qword ptr"; 0 if it is not written
  // kMemory: a reference or a register each, or none.
  std::shared_ptr<AsmOperand> base, index;
  int scale = 1;
};

struct AsmStatement {
  std::string text;                   // as it is, without comments
  std::vector<std::string> prefixes;  // lock, rep, data16
  std::string mnemonic;               // in small letters; empty: a label
  std::vector<AsmOperand> operands;   // the destination last

  bool has_prefix(std::string_view prefix) const;
  bool is_label() const { return mnemonic.empty(); }
  bool is_directive() const { return !mnemonic.empty() && mnemonic[0] == '.'; }
};

std::vector<AsmStatement> parse_assembly(std::string_view text, bool is_intel);
// As the source has it, in one line: %0 for $0.
std::string as_in_source(std::string_view text);

// "ax" for rax, eax, ax and al; "r8" for r8d; "xmm0" for ymm0. Empty for ah and its like, and for no register.
std::string register_family(std::string_view name);
unsigned register_bytes(std::string_view name);

}  // namespace crashcut::instrument
