#include "inject/instrument/emitter.h"

#include <algorithm>

#include "inject/instrument/abi.h"

namespace crashcut::instrument {

using namespace llvm;

namespace {

bool is_register_width(std::uint64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

// Its bits as an integer. `value` is no aggregate.
Value* as_integer(IRBuilder<>& build, Value* value, const DataLayout& layout) {
  Type* type = value->getType();
  if (type->isPtrOrPtrVectorTy()) {
    value = build.CreatePtrToInt(value, layout.getIntPtrType(type));
    type = value->getType();
  }
  if (type->isIntegerTy()) return value;
  return build.CreateBitCast(value, build.getIntNTy(static_cast<unsigned>(layout.getTypeSizeInBits(type))));
}

Value* from_integer(IRBuilder<>& build, Value* bits, Type* type, const DataLayout& layout) {
  if (type->isPointerTy()) return build.CreateIntToPtr(bits, type);
  if (type->isPtrOrPtrVectorTy())
    return build.CreateIntToPtr(build.CreateBitCast(bits, layout.getIntPtrType(type)), type);
  return build.CreateBitCast(bits, type);
}

}  // namespace

Emitter::Emitter(Module& module)
    : module_(module),
      nothing_(Type::getVoidTy(module.getContext())),
      pointer_(Type::getInt8PtrTy(module.getContext())),
      int_(Type::getInt32Ty(module.getContext())),
      size_(Type::getInt64Ty(module.getContext())) {}

std::uint64_t Emitter::bytes_of(Type* type) const { return layout().getTypeStoreSize(type).getFixedSize(); }

Value* Emitter::size(std::uint64_t bytes) { return ConstantInt::get(size_, bytes); }
Value* Emitter::order(int of_c) { return ConstantInt::get(int_, static_cast<std::uint64_t>(of_c)); }

Value* Emitter::order(AtomicOrdering ordering) {
  switch (ordering) {
    case AtomicOrdering::Acquire:
      return order(__ATOMIC_ACQUIRE);
    case AtomicOrdering::Release:
      return order(__ATOMIC_RELEASE);
    case AtomicOrdering::AcquireRelease:
      return order(__ATOMIC_ACQ_REL);
    case AtomicOrdering::SequentiallyConsistent:
      return order(__ATOMIC_SEQ_CST);
    default:
      return order(__ATOMIC_RELAXED);
  }
}

Value* Emitter::call(Instruction* at, const std::string& name, Type* result, ArrayRef<Value*> arguments) {
  IRBuilder<> build(at);
  std::vector<Type*> types;
  std::vector<Value*> values;
  for (Value* argument : arguments) {
    if (argument->getType()->isPointerTy()) argument = build.CreatePointerCast(argument, pointer_);
    values.push_back(argument);
    types.push_back(argument->getType());
  }
  const FunctionCallee function = module_.getOrInsertFunction(name, FunctionType::get(result, types, false));
  CallInst* made = build.CreateCall(function, values);
  made->setTailCallKind(CallInst::TCK_NoTail);
  made->addFnAttr(Attribute::NoMerge);
  made->setDoesNotThrow();
  return made;
}

void Emitter::flush_or_fence(Instruction* at, const char* name, Value* address) {
  if (address == nullptr) {
    call(at, name, nothing_, {});
  } else {
    call(at, name, nothing_, {as_pointer(at, address)});
  }
}

AllocaInst* Emitter::temporary(Function& function, Type* type, int slot) {
  const std::uint64_t bytes = std::max<std::uint64_t>(bytes_of(type), 1);
  AllocaInst*& made = temporaries_[{&function, bytes, slot}];
  if (made == nullptr) {
    IRBuilder<> build(&*function.getEntryBlock().getFirstInsertionPt());
    build.SetCurrentDebugLocation(DebugLoc());
    made = build.CreateAlloca(ArrayType::get(build.getInt8Ty(), bytes), nullptr, "crashcut.temporary");
    std::uint64_t alignment = 16;
    while (alignment < bytes && alignment < 64) alignment *= 2;  // a vector's own
    made->setAlignment(Align(alignment));
  }
  return made;
}

Value* Emitter::in_temporary(Instruction* at, Value* value, int slot) {
  IRBuilder<> build(at);
  AllocaInst* memory = temporary(*at->getFunction(), value->getType(), slot);
  build.CreateAlignedStore(value, build.CreateBitCast(memory, value->getType()->getPointerTo()), memory->getAlign());
  return memory;
}

Value* Emitter::as_pointer(Instruction* at, Value* address) {
  IRBuilder<> build(at);
  if (address->getType()->isPointerTy()) return build.CreatePointerCast(address, pointer_);
  return build.CreateIntToPtr(address, pointer_);
}

Value* Emitter::convert(Instruction* at, Value* value, Type* type) {
  if (value->getType() == type) return value;
  IRBuilder<> build(at);
  Value* bits = as_integer(build, value, layout());
  const auto width = static_cast<unsigned>(layout().getTypeSizeInBits(type));
  return from_integer(build, build.CreateZExtOrTrunc(bits, build.getIntNTy(width)), type, layout());
}

Value* Emitter::load(Instruction* at, Value* from, Type* type) {
  IRBuilder<> build(at);
  const std::uint64_t bytes = bytes_of(type);
  if (bytes == 0) return UndefValue::get(type);
  if (type->isAggregateType()) {  // as code generation does it: member by member
    Value* whole = UndefValue::get(type);
    Value* typed = build.CreatePointerCast(from, type->getPointerTo());
    const unsigned count = type->isStructTy() ? type->getStructNumElements() : type->getArrayNumElements();
    for (unsigned i = 0; i < count; ++i) {
      Value* member =
          load(at, build.CreateConstInBoundsGEP2_32(type, typed, 0, i), ExtractValueInst::getIndexedType(type, i));
      whole = IRBuilder<>(at).CreateInsertValue(whole, member, i);
    }
    return whole;
  }
  if (!is_register_width(bytes) || type->isX86_FP80Ty()) {
    AllocaInst* memory = temporary(*at->getFunction(), type, 0);
    call(at, "__crashcut_load", nothing_, {from, memory, size(bytes)});
    return build.CreateAlignedLoad(type, build.CreateBitCast(memory, type->getPointerTo()), memory->getAlign());
  }
  Value* bits =
      call(at, "__crashcut_load" + std::to_string(bytes), build.getIntNTy(static_cast<unsigned>(bytes) * 8), {from});
  return convert(at, bits, type);
}

void Emitter::store(Instruction* at, Value* to, Value* value) {
  IRBuilder<> build(at);
  Type* type = value->getType();
  const std::uint64_t bytes = bytes_of(type);
  if (bytes == 0) return;
  if (type->isAggregateType()) {
    Value* typed = build.CreatePointerCast(to, type->getPointerTo());
    const unsigned count = type->isStructTy() ? type->getStructNumElements() : type->getArrayNumElements();
    for (unsigned i = 0; i < count; ++i)
      store(at, build.CreateConstInBoundsGEP2_32(type, typed, 0, i), build.CreateExtractValue(value, i));
    return;
  }
  if (!is_register_width(bytes) || type->isX86_FP80Ty()) {
    call(at, "__crashcut_store", nothing_, {to, in_temporary(at, value, 0), size(bytes)});
    return;
  }
  Value* bits = convert(at, value, build.getIntNTy(static_cast<unsigned>(bytes) * 8));
  call(at, "__crashcut_store" + std::to_string(bytes), nothing_, {to, bits});
}

void Emitter::store_nt(Instruction* at, Value* to, Value* value, bool is_whole) {
  call(at, "__crashcut_store_nt", nothing_,
       {as_pointer(at, to), in_temporary(at, value, 0), size(bytes_of(value->getType())), order(is_whole ? 1 : 0)});
}

namespace {

// <N x i1> as the low bits of an i64.
Value* mask_bits(Instruction* at, Value* mask) {
  IRBuilder<> build(at);
  const unsigned lanes = cast<FixedVectorType>(mask->getType())->getNumElements();
  return build.CreateZExt(build.CreateBitCast(mask, build.getIntNTy(lanes)), build.getInt64Ty());
}

}  // namespace

Value* Emitter::load_lanes(Instruction* at, Value* from, Value* others, Value* mask) {
  Type* type = others->getType();
  Value* memory = in_temporary(at, others, 0);
  call(at, "__crashcut_load_lanes", nothing_,
       {from, memory, size(bytes_of(type->getScalarType())), mask_bits(at, mask)});
  IRBuilder<> build(at);
  return build.CreateAlignedLoad(type, build.CreateBitCast(memory, type->getPointerTo()),
                                 cast<AllocaInst>(memory)->getAlign());
}

void Emitter::store_lanes(Instruction* at, Value* to, Value* value, Value* mask) {
  call(at, "__crashcut_store_lanes", nothing_,
       {to, in_temporary(at, value, 0), size(bytes_of(value->getType()->getScalarType())), mask_bits(at, mask)});
}

void Emitter::scatter(Instruction* at, ArrayRef<Value*> addresses, Value* value, Value* mask) {
  IRBuilder<> build(at);
  Value* all = UndefValue::get(FixedVectorType::get(build.getInt64Ty(), static_cast<unsigned>(addresses.size())));
  for (unsigned i = 0; i < addresses.size(); ++i)
    all = build.CreateInsertElement(all, build.CreatePtrToInt(addresses[i], build.getInt64Ty()), i);
  call(at, "__crashcut_scatter", nothing_,
       {in_temporary(at, all, 1), in_temporary(at, value, 0), size(bytes_of(value->getType()->getScalarType())),
        mask_bits(at, mask)});
}

Value* Emitter::atomic_load(Instruction* at, Value* from, Type* type, Value* order) {
  AllocaInst* memory = temporary(*at->getFunction(), type, 0);
  call(at, "__crashcut_atomic_load", nothing_, {from, memory, size(bytes_of(type)), order});
  IRBuilder<> build(at);
  return build.CreateAlignedLoad(type, build.CreateBitCast(memory, type->getPointerTo()), memory->getAlign());
}

void Emitter::atomic_store(Instruction* at, Value* to, Value* value, Value* order) {
  call(at, "__crashcut_atomic_store", nothing_,
       {to, in_temporary(at, value, 0), size(bytes_of(value->getType())), order});
}

Value* Emitter::rmw(Instruction* at, int operation, Value* to, Value* operand, Value* order) {
  Type* type = operand->getType();
  Value* given = in_temporary(at, operand, 0);
  AllocaInst* old = temporary(*at->getFunction(), type, 1);
  call(at, "__crashcut_rmw", nothing_,
       {this->order(operation), as_pointer(at, to), given, old, size(bytes_of(type)), order});
  IRBuilder<> build(at);
  return build.CreateAlignedLoad(type, build.CreateBitCast(old, type->getPointerTo()), old->getAlign());
}

std::pair<Value*, Value*> Emitter::cmpxchg(Instruction* at, Value* to, Value* expected, Value* desired, Value* order,
                                           Value* failure_order) {
  Type* type = desired->getType();
  Value* given = in_temporary(at, desired, 0);
  Value* memory = in_temporary(at, expected, 1);
  Value* is_done = call(at, "__crashcut_cmpxchg", int_,
                        {as_pointer(at, to), memory, given, size(bytes_of(type)), order, failure_order});
  IRBuilder<> build(at);
  Value* old = build.CreateAlignedLoad(type, build.CreateBitCast(memory, type->getPointerTo()),
                                       cast<AllocaInst>(memory)->getAlign());
  return {old, build.CreateICmpNE(is_done, build.getInt32(0))};
}

}  // namespace crashcut::instrument
