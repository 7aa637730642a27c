// What each known instruction does.
#include <llvm/ADT/StringSwitch.h>

#include "inject/instrument/abi.h"
#include "inject/instrument/assembly.h"

namespace crashcut::instrument {

using namespace llvm;
using Kind = AsmOperand::Kind;

bool AsmEvaluator::evaluate_flush(const AsmStatement& statement) {
  const bool has_data16 = statement.has_prefix("data16");
  const char* name = StringSwitch<const char*>(statement.mnemonic)
                         .Case("clflush", has_data16 ? "__crashcut_clflushopt" : "__crashcut_clflush")
                         .Case("clflushopt", "__crashcut_clflushopt")
                         .Case("clwb", "__crashcut_clwb")
                         .Case("xsaveopt", has_data16 ? "__crashcut_clwb" : nullptr)
                         .Case("sfence", "__crashcut_sfence")
                         .Case("mfence", "__crashcut_mfence")
                         .Default(nullptr);
  if (name == nullptr) return false;
  if (StringRef(name).endswith("fence")) {
    in_.emit.flush_or_fence(&call_, name);
    return statement.operands.empty();
  }
  if (statement.operands.size() != 1) return false;
  const auto line = place(statement.operands[0]);
  if (!line || !line->is_memory()) return false;
  in_.emit.flush_or_fence(&call_, name, line->address);
  return true;
}

bool AsmEvaluator::evaluate_move(const AsmStatement& statement, ArrayRef<Place> places) {
  unsigned bytes = places.size() == 2 ? width(statement, "mov", places) : 0;
  if (bytes == 0 && statement.mnemonic == "movabs") bytes = 8;
  if (bytes == 0) return false;
  Value* value = get(places[0], bytes);
  if (value == nullptr) return false;
  put(places[1], value);
  return true;
}

// movzbl, movswq, movslq; movzx and movsx.
bool AsmEvaluator::evaluate_extension(const AsmStatement& statement, ArrayRef<Place> places) {
  StringRef rest = statement.mnemonic;
  if (places.size() != 2 || !rest.consume_front("mov")) return false;
  const bool is_signed = rest.startswith("s");
  if (!rest.consume_front("s") && !rest.consume_front("z")) return false;
  const auto bytes_of = [](StringRef letter) {
    return StringSwitch<unsigned>(letter).Case("b", 1).Case("w", 2).Case("l", 4).Case("q", 8).Default(0);
  };
  const bool is_short = rest == "x" || rest == "xd";  // widths by operands
  const unsigned from = is_short ? places[0].bytes : bytes_of(rest.take_front(1));
  const unsigned to = is_short ? places[1].bytes : rest.size() == 2 ? bytes_of(rest.take_back(1)) : places[1].bytes;
  if (from == 0 || to <= from || places[1].is_memory()) return false;
  Value* value = get(places[0], from);
  if (value == nullptr) return false;
  IRBuilder<> build(&call_);
  put(places[1], is_signed ? build.CreateSExt(value, integer(to)) : build.CreateZExt(value, integer(to)));
  return true;
}

bool AsmEvaluator::evaluate_vector_move(const AsmStatement& statement, ArrayRef<Place> places) {
  StringRef name = statement.mnemonic;
  name.consume_front("v");
  const bool is_whole =
      StringSwitch<bool>(name)
          .Cases("movdqa", "movdqu", "movaps", "movups", "movapd", "movupd", "lddqu", "movntdqa", true)
          .Cases("movdqa32", "movdqa64", "movdqu8", "movdqu16", "movdqu32", "movdqu64", true)
          .Default(false);
  const unsigned part = StringSwitch<unsigned>(name).Cases("movd", "movss", 4).Cases("movq", "movsd", 8).Default(0);
  if ((!is_whole && part == 0) || places.size() != 2) return false;
  const Place& in_register = places[0].is_memory() ? places[1] : places[0];
  const unsigned whole = in_register.bytes;
  const unsigned bytes = is_whole ? whole : part;
  if (in_register.is_memory() || bytes == 0 || (is_whole && bytes < 16)) return false;
  Value* value = get(places[0], bytes);
  if (value == nullptr) return false;
  const bool clears_rest = !is_whole && !places[1].is_memory() && whole > bytes;
  put(places[1], clears_rest ? IRBuilder<>(&call_).CreateZExt(value, integer(whole)) : value);
  return true;
}

// movnti and the like; movdiri, movdir64b.
bool AsmEvaluator::evaluate_direct_store(const AsmStatement& statement, ArrayRef<Place> places) {
  if (places.size() != 2) return false;
  StringRef name = statement.mnemonic;
  if (name == "movdir64b") {  // its destination is the address in a register
    Value* to = places[1].is_memory() ? nullptr : get(places[1], 8);
    if (to == nullptr || !places[0].is_memory()) return false;
    in_.emit.store_nt(&call_, to, in_.emit.load(&call_, places[0].address, integer(64)), /*is_whole=*/true);
    return true;
  }
  const bool is_vector = StringSwitch<bool>(name)
                             .Cases("movntdq", "movntps", "movntpd", "vmovntdq", "vmovntps", "vmovntpd", true)
                             .Default(false);
  unsigned bytes = is_vector ? places[0].bytes : name == "movntq" ? 8 : width(statement, "movnti", places);
  if (bytes == 0) bytes = width(statement, "movdiri", places);
  if (bytes == 0 || places[0].is_memory() || !places[1].is_memory()) return false;
  Value* value = get(places[0], bytes);
  if (value == nullptr) return false;
  in_.emit.store_nt(&call_, places[1].address, value);
  return true;
}

Value* AsmEvaluator::combine(int operation, Value* old, Value* operand) {
  IRBuilder<> build(&call_);
  switch (operation) {
    case __CRASHCUT_ADD:
      return build.CreateAdd(old, operand);
    case __CRASHCUT_SUB:
      return build.CreateSub(old, operand);
    case __CRASHCUT_AND:
      return build.CreateAnd(old, operand);
    case __CRASHCUT_OR:
      return build.CreateOr(old, operand);
    case __CRASHCUT_XOR:
      return build.CreateXor(old, operand);
    default:
      return operand;  // xchg
  }
}

Value* AsmEvaluator::modify(const AsmStatement& statement, const Place& place, int operation, Value* operand) {
  const auto bytes = static_cast<unsigned>(in_.emit.bytes_of(operand->getType()));
  const bool is_locked = statement.has_prefix("lock") || operation == __CRASHCUT_XCHG;
  if (is_locked && place.is_memory())
    return in_.emit.rmw(&call_, operation, place.address, operand, in_.emit.order(__ATOMIC_SEQ_CST));
  Value* old = get(place, bytes);
  if (old != nullptr) put(place, combine(operation, old, operand));
  return old;
}

// xchg, xadd: the register gets what was in the other operand.
bool AsmEvaluator::evaluate_exchange(const AsmStatement& statement, ArrayRef<Place> places) {
  if (places.size() != 2) return false;
  const bool is_xchg = StringRef(statement.mnemonic).startswith("xchg");
  const unsigned bytes = width(statement, is_xchg ? "xchg" : "xadd", places);
  if (bytes == 0) return false;
  const bool swaps = places[0].is_memory();
  const Place& other = places[swaps ? 0 : 1];
  const Place& in_register = places[swaps ? 1 : 0];
  if (in_register.is_memory() || in_register.location.empty() || (swaps && !is_xchg)) return false;
  Value* value = get_register(in_register.location, bytes);
  if (value == nullptr) return false;
  Value* old = modify(statement, other, is_xchg ? __CRASHCUT_XCHG : __CRASHCUT_ADD, value);
  if (old == nullptr) return false;
  if (!is_xchg) set_flags(combine(__CRASHCUT_ADD, old, value));
  put_register(in_register.location, old);
  return true;
}

bool AsmEvaluator::evaluate_cmpxchg(const AsmStatement& statement, ArrayRef<Place> places) {
  const unsigned bytes = places.size() == 2 ? width(statement, "cmpxchg", places) : 0;
  if (bytes == 0 || !statement.has_prefix("lock") || !places[1].is_memory()) return false;
  Value* expected = get_register("ax", bytes);
  Value* desired = get(places[0], bytes);
  if (expected == nullptr || desired == nullptr || places[0].is_memory()) return false;
  Value* order = in_.emit.order(__ATOMIC_SEQ_CST);
  const auto [old, is_done] = in_.emit.cmpxchg(&call_, places[1].address, expected, desired, order, order);
  zero_flag_ = is_done;
  put_register("ax", old);
  return true;
}

// cmpxchg8b, cmpxchg16b: dx:ax is compared, cx:bx is stored.
bool AsmEvaluator::evaluate_cmpxchg_pair(const AsmStatement& statement, ArrayRef<Place> places) {
  const unsigned half =
      StringSwitch<unsigned>(statement.mnemonic).Case("cmpxchg8b", 4).Case("cmpxchg16b", 8).Default(0);
  if (half == 0 || places.size() != 1 || !statement.has_prefix("lock") || !places[0].is_memory()) return false;
  IRBuilder<> build(&call_);
  const auto both = [&](const char* low, const char* high) -> Value* {
    Value* x = get_register(low, half);
    Value* y = get_register(high, half);
    if (x == nullptr || y == nullptr) return nullptr;
    return build.CreateOr(build.CreateZExt(x, integer(2 * half)),
                          build.CreateShl(build.CreateZExt(y, integer(2 * half)), std::uint64_t{half} * 8));
  };
  Value* expected = both("ax", "dx");
  Value* desired = both("bx", "cx");
  if (expected == nullptr || desired == nullptr) return false;
  Value* order = in_.emit.order(__ATOMIC_SEQ_CST);
  const auto [old, is_done] = in_.emit.cmpxchg(&call_, places[0].address, expected, desired, order, order);
  zero_flag_ = is_done;
  put_register("ax", build.CreateTrunc(old, integer(half)));
  put_register("dx", build.CreateTrunc(build.CreateLShr(old, std::uint64_t{half} * 8), integer(half)));
  return true;
}

// add, sub, and, or, xor with two operands; inc, dec, not with one.
bool AsmEvaluator::evaluate_arithmetic(const AsmStatement& statement, ArrayRef<Place> places) {
  static constexpr struct {
    const char* name;
    int operation;
    int operand;  // of those that have one themselves; else 0
  } kKnown[] = {{"add", __CRASHCUT_ADD, 0}, {"sub", __CRASHCUT_SUB, 0}, {"and", __CRASHCUT_AND, 0},
                {"or", __CRASHCUT_OR, 0},   {"xor", __CRASHCUT_XOR, 0}, {"inc", __CRASHCUT_ADD, 1},
                {"dec", __CRASHCUT_SUB, 1}, {"not", __CRASHCUT_XOR, -1}};
  for (const auto& known : kKnown) {
    const unsigned bytes = width(statement, known.name, places);
    if (bytes == 0 || places.size() != (known.operand == 0 ? 2 : 1)) continue;
    Value* operand = known.operand == 0 ? get(places[0], bytes)
                                        : ConstantInt::get(integer(bytes), static_cast<std::uint64_t>(known.operand));
    if (operand == nullptr) return false;
    Value* old = modify(statement, places.back(), known.operation, operand);
    if (old == nullptr) return false;
    if (known.operand == -1) return true;  // `not` changes no flag
    set_flags(combine(known.operation, old, operand));
    IRBuilder<> build(&call_);
    if (known.operand == 0 && known.operation == __CRASHCUT_ADD)
      carry_flag_ = build.CreateICmpULT(build.CreateAdd(old, operand), old);
    else if (known.operand == 0)
      carry_flag_ = known.operation == __CRASHCUT_SUB ? build.CreateICmpULT(old, operand) : build.getFalse();
    return true;
  }
  return false;
}

// bts, btr, btc: the bit's index can lead beyond the operand if it is in a register.
bool AsmEvaluator::evaluate_bit(const AsmStatement& statement, ArrayRef<Place> places) {
  for (const char* name : {"bts", "btr", "btc"}) {
    unsigned bytes = places.size() == 2 ? width(statement, name, places) : 0;
    if (bytes == 0) continue;
    Value* index = get(places[0], bytes);
    if (index == nullptr || places[0].is_memory() || bytes == 1) return false;
    IRBuilder<> build(&call_);
    const std::uint64_t bits = std::uint64_t{bytes} * 8;
    Place word = places[1];
    if (word.is_memory() && !places[0].location.empty()) {
      Value* steps = build.CreateSExt(build.CreateAShr(index, Log2_64(bits)), integer(8));
      word.address = build.CreateGEP(build.getInt8Ty(), word.address, build.CreateMul(steps, build.getInt64(bytes)));
    }
    Value* mask = build.CreateShl(ConstantInt::get(integer(bytes), 1), build.CreateAnd(index, bits - 1));
    const char kind = name[2];
    Value* old = modify(statement, word,
                        kind == 's'   ? __CRASHCUT_OR
                        : kind == 'r' ? __CRASHCUT_AND
                                      : __CRASHCUT_XOR,
                        kind == 'r' ? build.CreateNot(mask) : mask);
    if (old == nullptr) return false;
    IRBuilder<> after(&call_);
    carry_flag_ = after.CreateIsNotNull(after.CreateAnd(old, mask));
    return true;
  }
  return false;
}

// movs, stos, once or `rep`.
bool AsmEvaluator::evaluate_string(const AsmStatement& statement) {
  const StringRef name = statement.mnemonic;
  const bool is_copy = name.startswith("movs");
  if (!statement.operands.empty() || name.size() != 5 || (!is_copy && !name.startswith("stos"))) return false;
  const unsigned bytes =
      StringSwitch<unsigned>(name.take_back(1)).Case("b", 1).Case("w", 2).Cases("l", "d", 4).Case("q", 8).Default(0);
  const bool repeats = statement.has_prefix("rep") || statement.has_prefix("repe") || statement.has_prefix("repz");
  IRBuilder<> build(&call_);
  Value* to = get_register("di", 8);
  Value* from = get_register(is_copy ? "si" : "ax", 8);
  Value* count = repeats ? get_register("cx", 8) : build.getInt64(1);
  if (bytes == 0 || to == nullptr || from == nullptr || count == nullptr || statement.has_prefix("repne") ||
      statement.has_prefix("repnz"))
    return false;
  Value* destination = in_.emit.as_pointer(&call_, to);
  if (is_copy) {
    in_.emit.call(&call_, "__crashcut_rep_movs", build.getVoidTy(),
                  {destination, in_.emit.as_pointer(&call_, from), count, in_.emit.size(bytes)});
  } else {
    in_.emit.call(&call_, "__crashcut_rep_stos", build.getVoidTy(), {destination, from, count, in_.emit.size(bytes)});
  }
  Value* length = build.CreateMul(count, build.getInt64(bytes));
  put_register("di", build.CreateAdd(to, length));
  if (is_copy) put_register("si", build.CreateAdd(from, length));
  if (repeats) put_register("cx", build.getInt64(0));
  return true;
}

// setcc; sbb of a register with itself: -1 or 0.
bool AsmEvaluator::evaluate_flags(const AsmStatement& statement, ArrayRef<Place> places) {
  StringRef name = statement.mnemonic;
  IRBuilder<> build(&call_);
  if (name.startswith("sbb") && places.size() == 2 && !places[0].location.empty() &&
      places[0].location == places[1].location && carry_flag_ != nullptr) {
    put(places[1], build.CreateSExt(carry_flag_, integer(width(statement, "sbb", places))));
    return true;
  }
  if (!name.consume_front("set") || places.size() != 1) return false;
  Value* flag = condition(name);
  if (flag == nullptr) return false;
  put(places[0], build.CreateZExt(flag, integer(1)));
  return true;
}

bool AsmEvaluator::evaluate(const AsmStatement& statement) {
  if (statement.is_label() || statement.is_directive()) return false;
  if (statement.has_prefix("lock") && statement.operands.size() == 2 && statement.operands[1].kind == Kind::kMemory &&
      statement.operands[1].base != nullptr && register_family(statement.operands[1].base->name) == "sp") {
    // lock; addl $0,(%rsp): a fence and nothing else.
    const bool is_idle =
        statement.operands[0].kind == Kind::kImmediate && statement.operands[0].number == 0 &&
        (StringRef(statement.mnemonic).startswith("add") || StringRef(statement.mnemonic).startswith("or"));
    if (is_idle) in_.emit.flush_or_fence(&call_, "__crashcut_mfence");
    return is_idle;
  }
  if (evaluate_flush(statement) || evaluate_string(statement)) return true;
  std::vector<Place> places;
  for (const AsmOperand& operand : statement.operands) {
    const auto found = place(operand);
    if (!found) return false;
    places.push_back(*found);
  }
  const StringRef name = statement.mnemonic;
  if (statement.has_prefix("data16")) return false;
  if (name.startswith("xchg") || name.startswith("xadd")) return evaluate_exchange(statement, places);
  if (evaluate_cmpxchg_pair(statement, places) || evaluate_cmpxchg(statement, places)) return true;
  if (evaluate_arithmetic(statement, places) || evaluate_bit(statement, places)) return true;
  if (statement.has_prefix("lock")) return false;
  const bool is_vector_register =
      std::any_of(places.begin(), places.end(), [](const Place& p) { return !p.location.empty() && p.bytes >= 16; });
  if (is_vector_register && evaluate_vector_move(statement, places)) return true;
  return evaluate_direct_store(statement, places) || evaluate_move(statement, places) ||
         evaluate_extension(statement, places) || evaluate_flags(statement, places);
}

}  // namespace crashcut::instrument
