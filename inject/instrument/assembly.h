// AsmEvaluator: what known instructions of inline assembly do, as calls of abi.h and ordinary instructions of LLVM.
//
// It keeps the value of each register that the assembly names, from the inputs through the statements to the outputs,
// and of three flags. An instruction that it does not know is refused; nothing is guessed.
// Assumes: the direction flag is clear, as the ABI has it.
#pragma once

#include <llvm/IR/InlineAsm.h>

#include <map>
#include <optional>
#include <set>

#include "inject/instrument/assembly_text.h"
#include "inject/instrument/replace.h"

namespace crashcut::instrument {

class AsmEvaluator {
 public:
  AsmEvaluator(Replacing& in, llvm::CallBase& call);

  // Whether the operand is memory that is not on this function's stack; nothing: it cannot be told.
  std::optional<bool> touches_memory(const AsmOperand& operand) const;
  // Writes what the statement does before the call. False: not known.
  bool evaluate(const AsmStatement& statement);
  // The registers that the statement names were neither read nor written by those that were evaluated.
  bool is_apart(const AsmStatement& statement) const;
  bool wrote_registers() const { return !written_.empty(); }
  // The outputs after all statements; null: a flag that is not kept. The assembly has outputs.
  llvm::Value* result();

 private:
  struct Operand {
    bool is_output = false, is_memory = false;
    std::string location;             // of a register: "ax", or "$2" for one that the compiler chooses
    llvm::Value* argument = nullptr;  // null for an output in a register
    llvm::Type* type = nullptr;       // of the register or of what the pointer points to
  };
  // An operand of a statement: memory at an address, a register, or a number.
  struct Place {
    llvm::Value* address = nullptr;
    std::string location;
    llvm::Value* number = nullptr;
    unsigned bytes = 0;  // 0: it does not tell
    bool is_memory() const { return address != nullptr; }
  };

  void read_constraints();
  const Operand* operand_of(const AsmOperand& operand) const;
  std::optional<Place> place(const AsmOperand& operand);
  llvm::Value* address(const AsmOperand& memory);
  llvm::Value* get(const Place& place, unsigned bytes);
  void put(const Place& place, llvm::Value* value);
  llvm::Value* get_register(const std::string& location, unsigned bytes);
  void put_register(const std::string& location, llvm::Value* value);
  void set_flags(llvm::Value* result);
  llvm::Value* condition(llvm::StringRef code);
  // The width of an instruction that is called `base` with or without a suffix; 0: another, or not told.
  unsigned width(const AsmStatement& statement, llvm::StringRef base, llvm::ArrayRef<Place> places) const;

  bool evaluate_flush(const AsmStatement& statement);
  bool evaluate_move(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_extension(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_vector_move(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_direct_store(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_exchange(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_cmpxchg(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_cmpxchg_pair(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_arithmetic(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_bit(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  bool evaluate_string(const AsmStatement& statement);
  bool evaluate_flags(const AsmStatement& statement, llvm::ArrayRef<Place> places);
  // What was there, after it was combined with the operand, locked or not.
  llvm::Value* modify(const AsmStatement& statement, const Place& place, int operation, llvm::Value* operand);
  llvm::Value* combine(int operation, llvm::Value* old, llvm::Value* operand);
  llvm::Type* integer(unsigned bytes) const;

  Replacing& in_;
  llvm::CallBase& call_;
  std::vector<Operand> operands_;
  std::map<std::string, llvm::Value*> registers_;
  std::set<std::string> read_, written_;
  llvm::Value* zero_flag_ = nullptr;
  llvm::Value* carry_flag_ = nullptr;
  llvm::Value* sign_flag_ = nullptr;
};

}  // namespace crashcut::instrument
