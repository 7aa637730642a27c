// StackDepth: how far below a function's frame its stack pointer is, at each place of its code, by its instructions.
//
// For functions that find their frame by the frame pointer, which is not known in a thread that waits in a system call.
//   Until the frame pointer is set, the unwind table counts the frame from the stack pointer; from there on pushes,
//   pops and constants are counted along all direct paths. Calls leave the stack pointer as it was. A function in which
//   it is changed otherwise (alloca, a realigned stack), or in which two paths differ, has no answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace crashcut::stacks {

class StackDepth {
 public:
  // Where the frame pointer was set: from there on the frame is `frame_offset` above it. The frame is `depth` above the
  // stack pointer there.
  struct Begin {
    std::uint64_t address;
    std::int64_t depth;
    std::int64_t frame_offset;
  };
  StackDepth() = default;
  // `code`: of the whole function, which begins at `address`.
  StackDepth(std::string_view code, std::uint64_t address, const Begin& begin);

  // In the instruction that this address is part of; before it changes the stack pointer.
  std::optional<std::int64_t> at(std::uint64_t address) const;

 private:
  struct Instruction {
    std::uint64_t address = 0;
    std::optional<std::int64_t> depth{};
  };
  bool follow(std::string_view code, std::uint64_t address, const Begin& begin);

  std::vector<Instruction> instructions_;  // empty: it is not known
  std::uint64_t end_ = 0;
};

}  // namespace crashcut::stacks
