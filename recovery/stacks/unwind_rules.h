// UnwindRules: how each function of a file keeps what its caller had in registers, by the tables that compilers leave
// for exceptions (.eh_frame: DWARF 5, section 6.4).
//
// Of a thread that waits in a system call only the stack pointer and the place in the code are known at first. Another
//   register becomes known where a function has saved it on the stack. What needs one that is not known, or a rule that
//   is not understood, has no answer: nothing is guessed.
// The bytes may be of a hostile file: each is looked at before it is used, and the work has bounds.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crashcut::stacks {

// As DWARF numbers those of x86-64.
inline constexpr unsigned kFramePointer = 6, kStackPointer = 7, kReturnAddress = 16, kRegisterCount = 17;

struct UnwindRow {
  struct Rule {
    enum class Kind : std::uint8_t {
      kSame,
      kUndefined,
      kSaved,           // on the stack, at frame + offset
      kOffset,          // it is frame + offset
      kRegister,        // it is in another register
      kSavedByProgram,  // on the stack, where a DWARF expression says
      kProgram,         // it is what a DWARF expression says
    };
    Kind kind = Kind::kSame;
    std::int64_t offset = 0;  // or the register's number
    std::string_view program{};
  };
  // The frame: the stack pointer of the caller after the call. A register and an offset, or an expression.
  unsigned frame_register = kRegisterCount;
  std::int64_t frame_offset = 0;
  std::string_view frame_program{};
  std::array<Rule, kRegisterCount> rules{};
  unsigned return_register = kReturnAddress;
  bool is_signal = false;  // the caller was interrupted there, and made no call
};

struct Registers {
  std::array<std::optional<std::uint64_t>, kRegisterCount> at{};
};
// Eight bytes of the thread's memory; none: they cannot be read.
using ReadWord = std::function<std::optional<std::uint64_t>(std::uint64_t address)>;

// The registers of the caller. None: it is not known where it goes on, or there is no caller.
std::optional<Registers> caller_of(const UnwindRow& row, const Registers& registers, const ReadWord& read);

class UnwindRules {
 public:
  // `address`: of the section, before it was loaded.
  UnwindRules(std::string frames, std::uint64_t address);

  std::optional<UnwindRow> row_at(std::uint64_t code) const;
  // The function that has this code.
  struct Range {
    std::uint64_t begin, end;
  };
  std::optional<Range> function_at(std::uint64_t code) const;

 private:
  struct Function {
    std::uint64_t begin, end;
    std::size_t common, own, own_end;  // places in frames_
  };
  const Function* find(std::uint64_t code) const;

  std::string frames_;  // rows point here
  std::uint64_t address_;
  std::vector<Function> functions_;  // by begin
};

}  // namespace crashcut::stacks
