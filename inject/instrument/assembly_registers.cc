// The registers and operands of inline assembly, from its constraints; see assembly_meaning.cc for instructions.
#include <llvm/ADT/StringSwitch.h>

#include "inject/instrument/assembly.h"

namespace crashcut::instrument {

using namespace llvm;
using Kind = AsmOperand::Kind;

AsmEvaluator::AsmEvaluator(Replacing& in, CallBase& call) : in_(in), call_(call) { read_constraints(); }

Type* AsmEvaluator::integer(unsigned bytes) const { return IntegerType::get(call_.getContext(), bytes * 8); }

void AsmEvaluator::read_constraints() {
  const auto constraints = cast<InlineAsm>(call_.getCalledOperand())->ParseConstraints();
  unsigned argument = 0, output = 0;
  for (const InlineAsm::ConstraintInfo& constraint : constraints) {
    if (constraint.Type == InlineAsm::isClobber) continue;
    Operand operand;
    operand.is_output = constraint.Type == InlineAsm::isOutput;
    operand.is_memory = constraint.isIndirect;
    const StringRef code = constraint.Codes.empty() ? StringRef() : StringRef(constraint.Codes[0]);
    if (operand.is_output && !operand.is_memory) {
      Type* type = call_.getType();
      operand.type = type->isStructTy() ? type->getStructElementType(output) : type;
      ++output;
    } else {
      operand.argument = call_.getArgOperand(argument++);
      operand.type = operand.argument->getType();
      if (operand.is_memory) operand.type = operand.type->getPointerElementType();
    }
    unsigned tied = 0;
    if (code.startswith("{")) {
      const StringRef name = code.drop_front().drop_back();
      const std::string family = register_family(name.str());
      operand.location = family.empty() ? name.str() : family;  // "@ccz" too
    } else if (!code.getAsInteger(10, tied) && tied < operands_.size()) {
      operand.location = operands_[tied].location;
    } else {
      operand.location = "$" + std::to_string(operands_.size());
    }
    if (operand.argument != nullptr && !operand.is_memory) registers_[operand.location] = operand.argument;
    operands_.push_back(operand);
  }
}

const AsmEvaluator::Operand* AsmEvaluator::operand_of(const AsmOperand& operand) const {
  const auto index = static_cast<std::size_t>(operand.reference);
  return operand.kind == Kind::kReference && index < operands_.size() ? &operands_[index] : nullptr;
}

std::optional<bool> AsmEvaluator::touches_memory(const AsmOperand& operand) const {
  switch (operand.kind) {
    case Kind::kRegister:
    case Kind::kImmediate:
      return false;
    case Kind::kReference: {
      const Operand* named = operand_of(operand);
      if (named == nullptr) return std::nullopt;
      if (named->is_memory) return !Locals::is_on_stack(named->argument);
      return operand.modifier == 'a';  // the memory that it points to
    }
    case Kind::kMemory: {
      const std::string family = operand.base != nullptr ? register_family(operand.base->name) : "";
      return family != "sp" && family != "bp";
    }
    case Kind::kOther:
      return std::nullopt;
  }
  return std::nullopt;
}

bool AsmEvaluator::is_apart(const AsmStatement& statement) const {
  std::set<std::string> named = {"ax", "bx", "cx", "dx"};  // rdtsc, cpuid
  for (const AsmOperand& operand : statement.operands) {
    if (const Operand* of_call = operand_of(operand)) named.insert(of_call->location);
    if (operand.kind == Kind::kRegister) named.insert(register_family(operand.name));
  }
  return std::none_of(named.begin(), named.end(),
                      [&](const std::string& name) { return read_.count(name) + written_.count(name) > 0; });
}

Value* AsmEvaluator::get_register(const std::string& location, unsigned bytes) {
  const auto found = registers_.find(location);
  if (found == registers_.end()) return nullptr;
  read_.insert(location);
  return in_.emit.convert(&call_, found->second, integer(bytes));
}

// Writing 1 or 2 bytes of a register leaves the others, writing 4 clears them.
void AsmEvaluator::put_register(const std::string& location, Value* value) {
  Value*& now = registers_[location];
  const std::uint64_t bytes = in_.emit.bytes_of(value->getType());
  if (now != nullptr && bytes < 4 && in_.emit.bytes_of(now->getType()) > bytes) {
    const auto width = static_cast<unsigned>(in_.emit.bytes_of(now->getType()));
    Value* before = in_.emit.convert(&call_, now, integer(width));
    IRBuilder<> build(&call_);
    Value* upper = build.CreateAnd(before, build.CreateNot(ConstantInt::get(integer(width), (1u << bytes * 8) - 1)));
    value = build.CreateOr(upper, build.CreateZExt(value, integer(width)));
  }
  now = value;
  written_.insert(location);
}

Value* AsmEvaluator::address(const AsmOperand& memory) {
  IRBuilder<> build(&call_);
  Value* sum = build.getInt64(static_cast<std::uint64_t>(memory.number));
  for (const auto& [part, scale] : {std::pair{memory.base.get(), 1}, std::pair{memory.index.get(), memory.scale}}) {
    if (part == nullptr) continue;
    const Operand* named = operand_of(*part);
    if (named != nullptr && named->is_memory) return nullptr;
    const std::string location = named != nullptr ? named->location : register_family(part->name);
    Value* value = get_register(location, 8);
    if (value == nullptr) return nullptr;
    sum = build.CreateAdd(sum, build.CreateMul(value, build.getInt64(static_cast<std::uint64_t>(scale))));
  }
  return in_.emit.as_pointer(&call_, sum);
}

std::optional<AsmEvaluator::Place> AsmEvaluator::place(const AsmOperand& operand) {
  Place place;
  place.bytes = operand.bytes;
  const Operand* named = operand_of(operand);
  if (operand.kind == Kind::kImmediate) {
    place.number = ConstantInt::get(integer(8), static_cast<std::uint64_t>(operand.number));
  } else if (operand.kind == Kind::kRegister) {
    place.location = register_family(operand.name);
    place.bytes = register_bytes(operand.name);
    if (place.location.empty()) return std::nullopt;
  } else if (operand.kind == Kind::kMemory) {
    place.address = address(operand);
    if (place.address == nullptr) return std::nullopt;
  } else if (named == nullptr) {
    return std::nullopt;
  } else if (named->is_memory || operand.modifier == 'a') {
    place.address = in_.emit.as_pointer(&call_, named->argument);
    if (place.bytes == 0 && named->is_memory && !named->type->isAggregateType())
      place.bytes = static_cast<unsigned>(in_.emit.bytes_of(named->type));
  } else {
    place.location = named->location;
    const unsigned modified = StringSwitch<unsigned>(StringRef(&operand.modifier, 1))
                                  .Case("b", 1)
                                  .Case("w", 2)
                                  .Case("k", 4)
                                  .Case("q", 8)
                                  .Default(0);
    place.bytes = modified != 0 ? modified : static_cast<unsigned>(in_.emit.bytes_of(named->type));
    if (auto* number = dyn_cast_or_null<ConstantInt>(named->argument);
        number != nullptr && written_.count(place.location) == 0)
      place.number = number;
  }
  return place;
}

Value* AsmEvaluator::get(const Place& place, unsigned bytes) {
  if (place.is_memory() && !in_.locals.is_local(place.address))
    return in_.emit.load(&call_, place.address, integer(bytes));
  if (place.is_memory()) {
    IRBuilder<> build(&call_);
    Value* typed = build.CreateBitCast(place.address, integer(bytes)->getPointerTo());
    return build.CreateAlignedLoad(integer(bytes), typed, Align(1));
  }
  if (place.number != nullptr) return IRBuilder<>(&call_).CreateSExtOrTrunc(place.number, integer(bytes));
  return get_register(place.location, bytes);
}

void AsmEvaluator::put(const Place& place, Value* value) {
  if (!place.is_memory()) return put_register(place.location, value);
  if (!in_.locals.is_local(place.address)) return in_.emit.store(&call_, place.address, value);
  IRBuilder<> build(&call_);
  build.CreateAlignedStore(value, build.CreateBitCast(place.address, value->getType()->getPointerTo()), Align(1));
}

void AsmEvaluator::set_flags(Value* result) {
  IRBuilder<> build(&call_);
  zero_flag_ = build.CreateIsNull(result);
  sign_flag_ = build.CreateICmpSLT(result, Constant::getNullValue(result->getType()));
}

Value* AsmEvaluator::condition(StringRef code) {
  const bool is_not = code.consume_front("n");
  Value* flag = StringSwitch<Value*>(code)
                    .Cases("e", "z", zero_flag_)
                    .Cases("c", "b", "ae", carry_flag_)
                    .Case("s", sign_flag_)
                    .Default(nullptr);
  if (flag == nullptr) return nullptr;
  return is_not != (code == "ae") ? IRBuilder<>(&call_).CreateNot(flag) : flag;
}

unsigned AsmEvaluator::width(const AsmStatement& statement, StringRef base, ArrayRef<Place> places) const {
  StringRef suffix = statement.mnemonic;
  if (!suffix.consume_front(base) || suffix.size() > 1) return 0;
  if (!suffix.empty())
    return StringSwitch<unsigned>(suffix).Case("b", 1).Case("w", 2).Case("l", 4).Case("q", 8).Default(0);
  unsigned bytes = 0;
  for (const Place& place : places) {
    if (!place.location.empty() && place.number == nullptr) return place.bytes;
    if (place.is_memory()) bytes = place.bytes;
  }
  return bytes;
}

Value* AsmEvaluator::result() {
  Type* type = call_.getType();
  Value* whole = type->isStructTy() ? UndefValue::get(type) : nullptr;
  unsigned index = 0;
  for (const Operand& operand : operands_) {
    if (!operand.is_output || operand.is_memory) continue;
    Value* value = UndefValue::get(operand.type);
    IRBuilder<> build(&call_);
    if (StringRef code = operand.location; code.consume_front("@cc")) {
      Value* flag = condition(code);
      if (flag == nullptr) return nullptr;
      value = build.CreateZExtOrTrunc(flag, operand.type);
    } else if (const auto found = registers_.find(operand.location); found != registers_.end()) {
      value = in_.emit.convert(&call_, found->second, operand.type);
    }
    if (whole == nullptr) return value;
    whole = IRBuilder<>(&call_).CreateInsertValue(whole, value, index++);
  }
  return whole;
}

}  // namespace crashcut::instrument
