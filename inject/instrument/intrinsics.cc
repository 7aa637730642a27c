// Intrinsics that touch memory, flush it or are fences.
//
// An intrinsic of x86 that takes a pointer and is not known here is a compile-time error: it would be missed. General
// intrinsics that are not known here do not touch memory that a program has.
#include <llvm/IR/IntrinsicsX86.h>

#include "inject/instrument/replace.h"

namespace crashcut::instrument {

using namespace llvm;

namespace {

void replace_copy(Replacing& in, MemTransferInst& copy) {
  if (in.locals.is_local(copy.getRawDest()) && in.locals.is_local(copy.getRawSource())) return;
  const char* name = isa<MemMoveInst>(copy) ? "__crashcut_memmove" : "__crashcut_memcpy";
  IRBuilder<> build(&copy);
  in.emit.call(&copy, name, build.getInt8PtrTy(),
               {copy.getRawDest(), copy.getRawSource(), build.CreateZExtOrTrunc(copy.getLength(), build.getInt64Ty())});
  replace_by(copy, nullptr);
}

void replace_fill(Replacing& in, MemSetInst& fill) {
  if (in.locals.is_local(fill.getRawDest())) return;
  IRBuilder<> build(&fill);
  in.emit.call(&fill, "__crashcut_memset", build.getInt8PtrTy(),
               {fill.getRawDest(), build.CreateZExt(fill.getValue(), build.getInt32Ty()),
                build.CreateZExtOrTrunc(fill.getLength(), build.getInt64Ty())});
  replace_by(fill, nullptr);
}

unsigned lanes_of(const Value* vector) { return cast<FixedVectorType>(vector->getType())->getNumElements(); }

// One bit a lane, from the sign bits of a mask of x86 or from a mask of bits.
Value* lane_mask(Instruction* at, Value* mask, unsigned lanes) {
  IRBuilder<> build(at);
  Type* type = mask->getType();
  if (type->isIntegerTy()) {
    mask = build.CreateBitCast(mask, FixedVectorType::get(build.getInt1Ty(), type->getIntegerBitWidth()));
  } else if (!type->getScalarType()->isIntegerTy(1)) {
    Type* integers = VectorType::getInteger(cast<VectorType>(type));
    mask = build.CreateICmpSLT(build.CreateBitCast(mask, integers), Constant::getNullValue(integers));
  }
  if (lanes_of(mask) == lanes) return mask;
  std::vector<int> first(lanes);
  for (unsigned i = 0; i < lanes; ++i) first[i] = static_cast<int>(i);
  return build.CreateShuffleVector(mask, first);
}

// Lane i of a gather as a vector of one lane, and its bit.
Value* one_lane(Instruction* at, Value* vector, unsigned i) {
  IRBuilder<> build(at);
  return build.CreateShuffleVector(vector, ArrayRef<int>{static_cast<int>(i)});
}

Value* replace_gather(Replacing& in, Instruction& at, function_ref<Value*(unsigned)> address, unsigned lanes,
                      Value* mask, Value* others) {
  Value* result = others;
  for (unsigned i = 0; i < lanes; ++i) {
    Value* lane = in.emit.load_lanes(&at, address(i), one_lane(&at, others, i), one_lane(&at, mask, i));
    IRBuilder<> build(&at);
    result = build.CreateInsertElement(result, build.CreateExtractElement(lane, std::uint64_t{0}), i);
  }
  return result;
}

void replace_scatter(Replacing& in, Instruction& at, function_ref<Value*(unsigned)> address, unsigned lanes,
                     Value* mask, Value* value) {
  constexpr unsigned kLanesMost = 16;  // of an instruction
  for (unsigned first = 0; first < lanes; first += kLanesMost) {
    std::vector<Value*> addresses;
    std::vector<int> taken;
    for (unsigned i = first; i < std::min(lanes, first + kLanesMost); ++i) {
      addresses.push_back(address(i));
      taken.push_back(static_cast<int>(i));
    }
    IRBuilder<> build(&at);
    in.emit.scatter(&at, addresses, build.CreateShuffleVector(value, taken), build.CreateShuffleVector(mask, taken));
  }
}

// llvm.x86.avx2.gather.*, llvm.x86.avx512.[mask.]gather*: others, base, indices, mask, scale.
// llvm.x86.avx512.[mask.]scatter*: base, mask, indices, value, scale.
void replace_x86_lanes(Replacing& in, IntrinsicInst& call, bool is_gather) {
  Value* base = call.getArgOperand(is_gather ? 1 : 0);
  Value* indices = call.getArgOperand(2);
  Value* data = call.getArgOperand(is_gather ? 0 : 3);
  const auto scale = cast<ConstantInt>(call.getArgOperand(4))->getZExtValue();
  const unsigned lanes = std::min(lanes_of(indices), lanes_of(data));
  Value* mask = lane_mask(&call, call.getArgOperand(is_gather ? 3 : 1), lanes);
  const auto address = [&](unsigned i) {
    IRBuilder<> build(&call);
    Value* index = build.CreateSExt(build.CreateExtractElement(indices, i), build.getInt64Ty());
    Value* bytes = build.CreateMul(index, build.getInt64(scale));
    return build.CreateGEP(build.getInt8Ty(), build.CreatePointerCast(base, build.getInt8PtrTy()), bytes);
  };
  if (is_gather) {
    Value* result = replace_gather(in, call, address, lanes, mask, data);
    IRBuilder<> build(&call);
    for (unsigned i = lanes; i < lanes_of(data); ++i)  // the instruction clears them
      result = build.CreateInsertElement(result, Constant::getNullValue(data->getType()->getScalarType()), i);
    return replace_by(call, result);
  }
  replace_scatter(in, call, address, lanes, mask, data);
  replace_by(call, nullptr);
}

// The index in memory of each lane that is set: how many lanes before it are set.
std::vector<Value*> packed_indices(IRBuilder<>& build, Value* mask) {
  std::vector<Value*> indices;
  Value* before = build.getInt64(0);
  for (unsigned i = 0; i < lanes_of(mask); ++i) {
    indices.push_back(before);
    before = build.CreateAdd(before, build.CreateZExt(build.CreateExtractElement(mask, i), build.getInt64Ty()));
  }
  indices.push_back(before);  // all
  return indices;
}

// The lowest `count` lanes.
Value* first_lanes(IRBuilder<>& build, Value* count, unsigned lanes) {
  Type* wide = build.getIntNTy(128);
  Value* bits = build.CreateSub(build.CreateShl(ConstantInt::get(wide, 1), build.CreateZExt(count, wide)),
                                ConstantInt::get(wide, 1));
  return build.CreateBitCast(build.CreateTrunc(bits, build.getIntNTy(lanes)),
                             FixedVectorType::get(build.getInt1Ty(), lanes));
}

void replace_compress(Replacing& in, IntrinsicInst& call) {
  Value* value = call.getArgOperand(0);
  Value* mask = call.getArgOperand(2);
  IRBuilder<> build(&call);
  const std::vector<Value*> indices = packed_indices(build, mask);
  Value* packed = Constant::getNullValue(value->getType());
  for (unsigned i = 0; i < lanes_of(mask); ++i) {  // a lane that is not set is overwritten by the next that is
    Value* index = build.CreateAnd(indices[i], build.getInt64(lanes_of(mask) - 1));
    packed = build.CreateInsertElement(packed, build.CreateExtractElement(value, i), index);
  }
  in.emit.store_lanes(&call, call.getArgOperand(1), packed, first_lanes(build, indices.back(), lanes_of(mask)));
  replace_by(call, nullptr);
}

void replace_expand(Replacing& in, IntrinsicInst& call) {
  Value* mask = call.getArgOperand(1);
  Value* others = call.getArgOperand(2);
  IRBuilder<> build(&call);
  const std::vector<Value*> indices = packed_indices(build, mask);
  Value* packed = in.emit.load_lanes(&call, call.getArgOperand(0), Constant::getNullValue(others->getType()),
                                     first_lanes(build, indices.back(), lanes_of(mask)));
  IRBuilder<> after(&call);
  Value* result = others;
  for (unsigned i = 0; i < lanes_of(mask); ++i) {
    Value* index = after.CreateAnd(indices[i], after.getInt64(lanes_of(mask) - 1));
    Value* lane = after.CreateSelect(after.CreateExtractElement(mask, i), after.CreateExtractElement(packed, index),
                                     after.CreateExtractElement(others, i));
    result = after.CreateInsertElement(result, lane, i);
  }
  replace_by(call, result);
}

// maskmovdqu: value, mask, address.
void replace_maskmov(Replacing& in, IntrinsicInst& call) {
  Value* mask = lane_mask(&call, call.getArgOperand(1), 16);
  IRBuilder<> build(&call);
  Value* bits = build.CreateZExt(build.CreateBitCast(mask, build.getInt16Ty()), build.getInt64Ty());
  in.emit.call(&call, "__crashcut_store_nt_lanes", build.getVoidTy(),
               {call.getArgOperand(2), in.emit.in_temporary(&call, call.getArgOperand(0), 0), in.emit.size(1), bits});
  replace_by(call, nullptr);
}

void replace_movdir64b(Replacing& in, IntrinsicInst& call) {
  Type* line = IntegerType::get(in.emit.context(), 512);
  in.emit.store_nt(&call, call.getArgOperand(0), in.emit.load(&call, call.getArgOperand(1), line), /*is_whole=*/true);
  replace_by(call, nullptr);
}

void replace_flush_or_fence(Replacing& in, IntrinsicInst& call, const char* name) {
  in.emit.flush_or_fence(&call, name, call.arg_size() == 0 ? nullptr : call.getArgOperand(0));
  replace_by(call, nullptr);
}

// Gathers and scatters have some fifty names.
bool replace_x86_by_name(Replacing& in, IntrinsicInst& call) {
  StringRef name = call.getCalledFunction()->getName();
  if (!name.consume_front("llvm.x86.avx2.") && !name.consume_front("llvm.x86.avx512.")) return false;
  name.consume_front("mask.");
  const bool is_gather = name.startswith("gather"), is_scatter = name.startswith("scatter");
  if ((!is_gather && !is_scatter) || call.arg_size() != 5 || name.contains("pf.")) return false;
  replace_x86_lanes(in, call, is_gather);
  return true;
}

bool touches_memory(const IntrinsicInst& call) {
  if (!call.mayReadOrWriteMemory()) return false;
  for (const Use& argument : call.args()) {
    if (argument->getType()->isPtrOrPtrVectorTy() && !Locals::is_on_stack(argument)) return true;
  }
  return false;
}

void check_unknown(const Replacing& in, const IntrinsicInst& call) {
  const std::string name = call.getCalledFunction()->getName().str();
  const bool is_transaction = call.getIntrinsicID() == Intrinsic::x86_xbegin;
  const bool is_x86 = StringRef(name).startswith("llvm.x86.") && !StringRef(name).contains("pf.");
  const bool is_vector = StringRef(name).startswith("llvm.vp.") || StringRef(name).startswith("llvm.matrix.") ||
                         StringRef(name).contains(".element.unordered.atomic.");
  if (!is_transaction && !((is_x86 || is_vector) && touches_memory(call))) return;
  for (const std::string& allowed : in.options.allowed_assembly) {
    if (name.find(allowed) != std::string::npos) return;
  }
  report_error(call, "crashcut does not know the intrinsic " + name + ", which touches memory; --allow-asm=" + name +
                         " leaves it as it is, unseen");
}

}  // namespace

void replace_intrinsic(Replacing& in, IntrinsicInst& call) {
  if (auto* copy = dyn_cast<MemTransferInst>(&call)) return replace_copy(in, *copy);
  if (auto* fill = dyn_cast<MemSetInst>(&call)) return replace_fill(in, *fill);
  const auto argument = [&](unsigned i) { return call.getArgOperand(i); };
  const auto pointer_lane = [&](Value* pointers) {
    return [&call, pointers](unsigned i) { return IRBuilder<>(&call).CreateExtractElement(pointers, i); };
  };
  switch (call.getIntrinsicID()) {
    case Intrinsic::x86_sse2_clflush:
      return replace_flush_or_fence(in, call, "__crashcut_clflush");
    case Intrinsic::x86_clflushopt:
      return replace_flush_or_fence(in, call, "__crashcut_clflushopt");
    case Intrinsic::x86_clwb:
      return replace_flush_or_fence(in, call, "__crashcut_clwb");
    case Intrinsic::x86_sse_sfence:
      return replace_flush_or_fence(in, call, "__crashcut_sfence");
    case Intrinsic::x86_sse2_mfence:
      return replace_flush_or_fence(in, call, "__crashcut_mfence");
    case Intrinsic::x86_cldemote:  // a hint
      return;
    case Intrinsic::x86_directstore32:
    case Intrinsic::x86_directstore64:
    case Intrinsic::x86_mmx_movnt_dq:
      in.emit.store_nt(&call, argument(0), argument(1));
      return replace_by(call, nullptr);
    case Intrinsic::x86_movdir64b:
      return replace_movdir64b(in, call);
    case Intrinsic::x86_sse2_maskmov_dqu:
      return replace_maskmov(in, call);
    case Intrinsic::masked_load:
      if (in.locals.is_local(argument(0))) return;
      return replace_by(call, in.emit.load_lanes(&call, argument(0), argument(3), argument(2)));
    case Intrinsic::masked_store:
      if (in.locals.is_local(argument(1))) return;
      in.emit.store_lanes(&call, argument(1), argument(0), argument(3));
      return replace_by(call, nullptr);
    case Intrinsic::masked_gather:
      return replace_by(
          call, replace_gather(in, call, pointer_lane(argument(0)), lanes_of(argument(3)), argument(2), argument(3)));
    case Intrinsic::masked_scatter:
      replace_scatter(in, call, pointer_lane(argument(1)), lanes_of(argument(0)), argument(3), argument(0));
      return replace_by(call, nullptr);
    case Intrinsic::masked_compressstore:
      return replace_compress(in, call);
    case Intrinsic::masked_expandload:
      return replace_expand(in, call);
    case Intrinsic::x86_avx_maskload_ps:
    case Intrinsic::x86_avx_maskload_pd:
    case Intrinsic::x86_avx_maskload_ps_256:
    case Intrinsic::x86_avx_maskload_pd_256:
    case Intrinsic::x86_avx2_maskload_d:
    case Intrinsic::x86_avx2_maskload_q:
    case Intrinsic::x86_avx2_maskload_d_256:
    case Intrinsic::x86_avx2_maskload_q_256:
      return replace_by(call, in.emit.load_lanes(&call, argument(0), Constant::getNullValue(call.getType()),
                                                 lane_mask(&call, argument(1), lanes_of(&call))));
    case Intrinsic::x86_avx_maskstore_ps:
    case Intrinsic::x86_avx_maskstore_pd:
    case Intrinsic::x86_avx_maskstore_ps_256:
    case Intrinsic::x86_avx_maskstore_pd_256:
    case Intrinsic::x86_avx2_maskstore_d:
    case Intrinsic::x86_avx2_maskstore_q:
    case Intrinsic::x86_avx2_maskstore_d_256:
    case Intrinsic::x86_avx2_maskstore_q_256:
      in.emit.store_lanes(&call, argument(0), argument(2), lane_mask(&call, argument(1), lanes_of(argument(2))));
      return replace_by(call, nullptr);
    default:
      if (!replace_x86_by_name(in, call)) check_unknown(in, call);
  }
}

}  // namespace crashcut::instrument
