// Emitter: calls of abi.h, written into a function in place of an access.
//
// Each call has the source location of the instruction that it stands for, is no tail call (its return address says
//   where it is) and is not merged with another.
// Values that do not fit a register's 1, 2, 4 or 8 bytes go through temporaries: allocas of the function, one a size
//   and slot, used by one call at a time.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace crashcut::instrument {

struct Options {
  bool is_late = false;
  std::vector<std::string> allowed_assembly;  // texts; assembly that contains one stays as it is
};

class Emitter {
 public:
  explicit Emitter(llvm::Module& module);

  // All before `at`.
  llvm::Value* load(llvm::Instruction* at, llvm::Value* from, llvm::Type* type);
  void store(llvm::Instruction* at, llvm::Value* to, llvm::Value* value);
  void store_nt(llvm::Instruction* at, llvm::Value* to, llvm::Value* value, bool is_whole = false);
  llvm::Value* load_lanes(llvm::Instruction* at, llvm::Value* from, llvm::Value* others, llvm::Value* mask);
  void store_lanes(llvm::Instruction* at, llvm::Value* to, llvm::Value* value, llvm::Value* mask);
  // Lane i goes to addresses[i].
  void scatter(llvm::Instruction* at, llvm::ArrayRef<llvm::Value*> addresses, llvm::Value* value, llvm::Value* mask);
  llvm::Value* atomic_load(llvm::Instruction* at, llvm::Value* from, llvm::Type* type, llvm::Value* order);
  void atomic_store(llvm::Instruction* at, llvm::Value* to, llvm::Value* value, llvm::Value* order);
  // What was there before. `operation` is one of __crashcut_rmw.
  llvm::Value* rmw(llvm::Instruction* at, int operation, llvm::Value* to, llvm::Value* operand, llvm::Value* order);
  // What was there before, and an i1: whether it stored.
  std::pair<llvm::Value*, llvm::Value*> cmpxchg(llvm::Instruction* at, llvm::Value* to, llvm::Value* expected,
                                                llvm::Value* desired, llvm::Value* order, llvm::Value* failure_order);
  // A function that takes pointers and integers, and its arguments as they are.
  llvm::Value* call(llvm::Instruction* at, const std::string& name, llvm::Type* result,
                    llvm::ArrayRef<llvm::Value*> arguments);
  void flush_or_fence(llvm::Instruction* at, const char* name, llvm::Value* address = nullptr);

  // A pointer to memory of the function that holds the value.
  llvm::Value* in_temporary(llvm::Instruction* at, llvm::Value* value, int slot);
  llvm::AllocaInst* temporary(llvm::Function& function, llvm::Type* type, int slot);
  llvm::Value* as_pointer(llvm::Instruction* at, llvm::Value* address);
  // `type` may be an integer, a pointer, a float or a vector of the same or another width: bits are kept or cut off.
  llvm::Value* convert(llvm::Instruction* at, llvm::Value* value, llvm::Type* type);
  llvm::Value* size(std::uint64_t bytes);
  llvm::Value* order(llvm::AtomicOrdering ordering);
  llvm::Value* order(int of_c);
  std::uint64_t bytes_of(llvm::Type* type) const;

  llvm::Module& module() { return module_; }
  llvm::LLVMContext& context() { return module_.getContext(); }
  const llvm::DataLayout& layout() const { return module_.getDataLayout(); }

 private:
  llvm::Module& module_;
  llvm::Type* nothing_;
  llvm::Type* pointer_;
  llvm::IntegerType* int_;
  llvm::IntegerType* size_;
  std::map<std::tuple<llvm::Function*, std::uint64_t, int>, llvm::AllocaInst*> temporaries_;
};

}  // namespace crashcut::instrument
