// Loads, stores and atomics; the walk over a function.
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>

#include "inject/instrument/abi.h"
#include "inject/instrument/replace.h"

namespace crashcut::instrument {

using namespace llvm;

namespace {

// The assembly's operand is the variable itself ("m"), not a pointer to it in a register.
bool is_memory_operand(const CallBase& call, const Use& use) {
  unsigned argument = 0;
  for (const InlineAsm::ConstraintInfo& constraint : cast<InlineAsm>(call.getCalledOperand())->ParseConstraints()) {
    const bool is_output = constraint.Type == InlineAsm::isOutput;
    if (constraint.Type == InlineAsm::isClobber || (is_output && !constraint.isIndirect)) continue;
    if (argument++ == call.getArgOperandNo(&use)) return constraint.isIndirect;
  }
  return false;
}

// Whether only this function's own instructions touch the variable, each by an address that leads back to it.
bool is_used_here_only(const Value& variable) {
  SmallVector<const Value*, 8> addresses = {&variable};
  while (!addresses.empty()) {
    for (const Use& use : addresses.pop_back_val()->uses()) {
      const User* user = use.getUser();
      const auto* store = dyn_cast<StoreInst>(user);
      const auto* call = dyn_cast<CallBase>(user);
      if (isa<GetElementPtrInst>(user) || isa<BitCastInst>(user)) {
        addresses.push_back(user);
      } else if (store != nullptr) {
        if (store->getValueOperand() == use.get()) return false;
      } else if (call != nullptr) {
        const bool is_argument = call->isArgOperand(&use);
        const bool is_fine = isa<IntrinsicInst>(call) ||
                             (is_argument && call->isInlineAsm() && is_memory_operand(*call, use)) ||
                             (is_argument && call->isByValArgument(call->getArgOperandNo(&use)));
        if (!is_fine) return false;
      } else if (!isa<LoadInst>(user) && !isa<ICmpInst>(user)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Locals::Locals(Function& function) {
  for (const Instruction& instruction : instructions(function)) {
    if (isa<AllocaInst>(instruction) && is_used_here_only(instruction)) local_.insert(&instruction);
  }
  for (const Argument& argument : function.args()) {
    if (argument.hasByValAttr() && is_used_here_only(argument)) local_.insert(&argument);
  }
}

bool Locals::is_local(const Value* address) const {
  const Value* object = getUnderlyingObject(address, /*MaxLookup=*/0);
  if (const auto* variable = dyn_cast<GlobalVariable>(object)) return variable->isConstant();
  return local_.contains(object);
}

bool Locals::is_on_stack(const Value* address) {
  const Value* object = getUnderlyingObject(address, /*MaxLookup=*/0);
  const auto* argument = dyn_cast<Argument>(object);
  return isa<AllocaInst>(object) || (argument != nullptr && argument->hasByValAttr());
}

void report_error(const Instruction& instruction, const std::string& sentence) {
  const auto* call = dyn_cast<CallBase>(&instruction);
  LLVMContext& context = instruction.getContext();
  if (call != nullptr && call->isInlineAsm()) {  // knows its line without -g too
    context.diagnose(DiagnosticInfoInlineAsm(instruction, sentence));
  } else {
    context.diagnose(DiagnosticInfoUnsupported(*instruction.getFunction(), sentence, instruction.getDebugLoc()));
  }
}

void replace_by(Instruction& instruction, Value* value) {
  if (value != nullptr && !instruction.getType()->isVoidTy()) {
    instruction.replaceAllUsesWith(value);
    if (!value->hasName()) value->takeName(&instruction);
  }
  instruction.eraseFromParent();
}

namespace {

// Address spaces other than 0 are relative to fs and gs.
bool is_ours(const Replacing& in, const Value* address) {
  return address->getType()->getPointerAddressSpace() == 0 && !in.locals.is_local(address);
}

void replace_load(Replacing& in, LoadInst& load) {
  if (!is_ours(in, load.getPointerOperand())) return;
  Value* value = load.isAtomic() ? in.emit.atomic_load(&load, load.getPointerOperand(), load.getType(),
                                                       in.emit.order(load.getOrdering()))
                                 : in.emit.load(&load, load.getPointerOperand(), load.getType());
  replace_by(load, value);
}

// Code generation heeds the request for integers of 4 and 8 bytes and for aligned vectors, and makes plain stores of
// the others.
bool is_nontemporal(const StoreInst& store, std::uint64_t bytes) {
  if (!store.hasMetadata(LLVMContext::MD_nontemporal)) return false;
  const Type* type = store.getValueOperand()->getType();
  if (type->isVectorTy()) return (bytes == 16 || bytes == 32 || bytes == 64) && store.getAlign().value() >= bytes;
  return (bytes == 4 || bytes == 8) && (type->isIntegerTy() || type->isPointerTy());
}

void replace_store(Replacing& in, StoreInst& store) {
  // A sequentially consistent store is a locked instruction, and a fence wherever it goes.
  const bool is_locked = store.getOrdering() == AtomicOrdering::SequentiallyConsistent;
  if (!is_ours(in, store.getPointerOperand()) && !(is_locked && store.getPointerAddressSpace() == 0)) return;
  Value* value = store.getValueOperand();
  if (store.isAtomic()) {
    in.emit.atomic_store(&store, store.getPointerOperand(), value, in.emit.order(store.getOrdering()));
  } else if (is_nontemporal(store, in.emit.bytes_of(value->getType()))) {
    in.emit.store_nt(&store, store.getPointerOperand(), value);
  } else {
    in.emit.store(&store, store.getPointerOperand(), value);
  }
  replace_by(store, nullptr);
}

int operation_of(const AtomicRMWInst& rmw) {
  const bool is_float = rmw.getType()->isFloatTy();
  switch (rmw.getOperation()) {
    case AtomicRMWInst::Xchg:
      return __CRASHCUT_XCHG;
    case AtomicRMWInst::Add:
      return __CRASHCUT_ADD;
    case AtomicRMWInst::Sub:
      return __CRASHCUT_SUB;
    case AtomicRMWInst::And:
      return __CRASHCUT_AND;
    case AtomicRMWInst::Nand:
      return __CRASHCUT_NAND;
    case AtomicRMWInst::Or:
      return __CRASHCUT_OR;
    case AtomicRMWInst::Xor:
      return __CRASHCUT_XOR;
    case AtomicRMWInst::Max:
      return __CRASHCUT_MAX;
    case AtomicRMWInst::Min:
      return __CRASHCUT_MIN;
    case AtomicRMWInst::UMax:
      return __CRASHCUT_UMAX;
    case AtomicRMWInst::UMin:
      return __CRASHCUT_UMIN;
    case AtomicRMWInst::FAdd:
      return is_float ? __CRASHCUT_FADD4 : __CRASHCUT_FADD8;
    case AtomicRMWInst::FSub:
      return is_float ? __CRASHCUT_FSUB4 : __CRASHCUT_FSUB8;
    default:
      return -1;
  }
}

// On a local variable too: a locked instruction is a fence wherever its operand is.
void replace_rmw(Replacing& in, AtomicRMWInst& rmw) {
  const int operation = operation_of(rmw);
  if (operation < 0) return report_error(rmw, "crashcut does not know this atomic operation");
  replace_by(rmw, in.emit.rmw(&rmw, operation, rmw.getPointerOperand(), rmw.getValOperand(),
                              in.emit.order(rmw.getOrdering())));
}

void replace_cmpxchg(Replacing& in, AtomicCmpXchgInst& exchange) {
  const auto [old, is_done] = in.emit.cmpxchg(&exchange, exchange.getPointerOperand(), exchange.getCompareOperand(),
                                              exchange.getNewValOperand(), in.emit.order(exchange.getSuccessOrdering()),
                                              in.emit.order(exchange.getFailureOrdering()));
  IRBuilder<> build(&exchange);
  Value* both = build.CreateInsertValue(UndefValue::get(exchange.getType()), old, 0);
  replace_by(exchange, build.CreateInsertValue(both, is_done, 1));
}

// Other orders are no instruction on x86.
void replace_fence(Replacing& in, FenceInst& fence) {
  if (fence.getOrdering() != AtomicOrdering::SequentiallyConsistent ||
      fence.getSyncScopeID() == SyncScope::SingleThread)
    return;
  in.emit.flush_or_fence(&fence, "__crashcut_mfence");
  replace_by(fence, nullptr);
}

// A structure that is passed by value is read at the call: it is copied to the stack.
void copy_structures(Replacing& in, CallBase& call) {
  for (unsigned i = 0; i < call.arg_size(); ++i) {
    if (!call.isByValArgument(i) || in.locals.is_local(call.getArgOperand(i))) continue;
    Type* type = call.getParamByValType(i);
    Value* from = call.getArgOperand(i);
    IRBuilder<> build(&*call.getFunction()->getEntryBlock().getFirstInsertionPt());
    build.SetCurrentDebugLocation(DebugLoc());
    AllocaInst* copy = build.CreateAlloca(type, nullptr, "crashcut.argument");
    copy->setAlignment(std::max(copy->getAlign(), call.getParamAlign(i).valueOrOne()));
    in.emit.call(&call, "__crashcut_memcpy", Type::getInt8PtrTy(in.emit.context()),
                 {copy, from, in.emit.size(in.emit.bytes_of(type))});
    call.setArgOperand(i, IRBuilder<>(&call).CreatePointerCast(copy, from->getType()));
  }
}

void replace_call(Replacing& in, CallBase& call) {
  if (call.isInlineAsm()) {
    replace_assembly(in, call);
  } else if (auto* intrinsic = dyn_cast<IntrinsicInst>(&call)) {
    replace_intrinsic(in, *intrinsic);
  } else if (!call.isMustTailCall()) {
    copy_structures(in, call);
  }
}

}  // namespace

void replace_accesses(Replacing& in, Function& function) {
  std::vector<Instruction*> all;
  for (Instruction& instruction : instructions(function)) all.push_back(&instruction);
  for (Instruction* instruction : all) {
    if (auto* load = dyn_cast<LoadInst>(instruction))
      replace_load(in, *load);
    else if (auto* store = dyn_cast<StoreInst>(instruction))
      replace_store(in, *store);
    else if (auto* rmw = dyn_cast<AtomicRMWInst>(instruction))
      replace_rmw(in, *rmw);
    else if (auto* exchange = dyn_cast<AtomicCmpXchgInst>(instruction))
      replace_cmpxchg(in, *exchange);
    else if (auto* fence = dyn_cast<FenceInst>(instruction))
      replace_fence(in, *fence);
    else if (auto* call = dyn_cast<CallBase>(instruction))
      replace_call(in, *call);
  }
}

}  // namespace crashcut::instrument
