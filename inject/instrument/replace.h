// Replacing the accesses of a module by calls of abi.h: which instruction is which call.
#pragma once

#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include "inject/instrument/emitter.h"

namespace crashcut::instrument {

// Memory that no other function and no other thread can know: local variables whose address is neither kept nor given
// to a function, and constants. What is on a stack is not persistent memory; a variable whose address leaves may be
// shared by threads. All accesses to one variable stay as they are, or none does.
class Locals {
 public:
  // Before the function is changed: a call of ours would count as a way out.
  explicit Locals(llvm::Function& function);
  bool is_local(const llvm::Value* address) const;
  // Also if its address leaves the function.
  static bool is_on_stack(const llvm::Value* address);

 private:
  llvm::DenseSet<const llvm::Value*> local_;
};

struct Replacing {
  Emitter& emit;
  const Locals& locals;
  const Options& options;
};

// Each of these replaces the instruction, or leaves it because it does not touch memory that matters, or reports a
// compile-time error.
void replace_accesses(Replacing& in, llvm::Function& function);
void replace_intrinsic(Replacing& in, llvm::IntrinsicInst& instruction);
void replace_assembly(Replacing& in, llvm::CallBase& instruction);
// The functions of string.h, libatomic, libpmem and the heap, by name, wherever the module uses them.
void replace_library_calls(Emitter& emit);
// Assembly outside of functions: only directives are known.
void check_module_assembly(llvm::Module& module, const Options& options);

// A compile-time error at the instruction's place in the source.
void report_error(const llvm::Instruction& instruction, const std::string& sentence);
void replace_by(llvm::Instruction& instruction, llvm::Value* value);

}  // namespace crashcut::instrument
