#include "recovery/stacks/stack_depth.h"

#include <Zydis/Zydis.h>

#include <algorithm>

namespace crashcut::stacks {
namespace {

// What an instruction does with the stack pointer, and where it leads.
struct Effect {
  enum class Kind : std::uint8_t { kNone, kBy, kFromFramePointer, kUnknown };
  Kind kind = Kind::kNone;
  std::int64_t amount = 0;  // kBy: the depth grows by it; else what is added to the frame pointer
  bool goes_on = true;      // to the next instruction
  std::optional<std::uint64_t> target{};
};

constexpr std::int64_t kWord = 8;

bool is_stack_pointer(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
         ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value) == ZYDIS_REGISTER_RSP;
}

Effect change_of(const ZydisDecodedInstruction& facts, const ZydisDecodedOperand* operands) {
  using Kind = Effect::Kind;
  const bool writes_it = std::any_of(operands, operands + facts.operand_count, [](const ZydisDecodedOperand& operand) {
    return is_stack_pointer(operand) && (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  });
  if (!writes_it) return {};
  const ZydisDecodedOperand& to = operands[0];
  const ZydisDecodedOperand& from = operands[1];
  const bool is_whole = is_stack_pointer(to) && to.reg.value == ZYDIS_REGISTER_RSP;
  switch (facts.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
      return {facts.operand_width == 64 ? Kind::kBy : Kind::kUnknown, kWord};
    case ZYDIS_MNEMONIC_POP:
      return {facts.operand_width == 64 && !is_stack_pointer(to) ? Kind::kBy : Kind::kUnknown, -kWord};
    case ZYDIS_MNEMONIC_CALL:
      return {};
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_ADD:
      if (!is_whole || from.type != ZYDIS_OPERAND_TYPE_IMMEDIATE) break;
      return {Kind::kBy, facts.mnemonic == ZYDIS_MNEMONIC_SUB ? from.imm.value.s : -from.imm.value.s};
    case ZYDIS_MNEMONIC_LEA: {
      const bool is_plain = is_whole && from.mem.index == ZYDIS_REGISTER_NONE;
      if (is_plain && from.mem.base == ZYDIS_REGISTER_RSP) return {Kind::kBy, -from.mem.disp.value};
      if (is_plain && from.mem.base == ZYDIS_REGISTER_RBP) return {Kind::kFromFramePointer, from.mem.disp.value};
      break;
    }
    default:
      break;
  }
  return {Kind::kUnknown};
}

Effect effect_of(const ZydisDecodedInstruction& facts, const ZydisDecodedOperand* operands, std::uint64_t address) {
  const bool ends = facts.meta.category == ZYDIS_CATEGORY_RET || facts.mnemonic == ZYDIS_MNEMONIC_LEAVE ||
                    facts.mnemonic == ZYDIS_MNEMONIC_UD2 || facts.mnemonic == ZYDIS_MNEMONIC_HLT;
  if (ends) return {.goes_on = false};
  Effect effect = change_of(facts, operands);
  const bool is_jump = facts.meta.category == ZYDIS_CATEGORY_UNCOND_BR || facts.meta.category == ZYDIS_CATEGORY_COND_BR;
  effect.goes_on = facts.meta.category != ZYDIS_CATEGORY_UNCOND_BR;
  ZyanU64 target = 0;
  if (is_jump && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
      ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&facts, &operands[0], address, &target)))
    effect.target = target;
  return effect;
}

}  // namespace

StackDepth::StackDepth(std::string_view code, std::uint64_t address, const Begin& begin) : end_(address + code.size()) {
  if (!follow(code, address, begin)) instructions_.clear();
}

bool StackDepth::follow(std::string_view code, std::uint64_t address, const Begin& begin) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  std::vector<Effect> effects;
  for (std::uint64_t at = address; at < end_;) {
    const std::string_view rest = code.substr(at - address);
    ZydisDecodedInstruction facts;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, rest.data(), rest.size(), &facts, operands))) return false;
    effects.push_back(effect_of(facts, operands, at));
    instructions_.push_back({at});
    if (effects.back().kind == Effect::Kind::kUnknown) return false;
    at += facts.length;
  }
  const auto index_of = [&](std::uint64_t wanted) -> std::optional<std::size_t> {
    const auto found = std::lower_bound(instructions_.begin(), instructions_.end(), wanted,
                                        [](const Instruction& one, std::uint64_t a) { return one.address < a; });
    if (found == instructions_.end() || found->address != wanted) return std::nullopt;
    return static_cast<std::size_t>(found - instructions_.begin());
  };
  const auto first = index_of(begin.address);
  // The instruction before it sets the frame pointer, and nothing else.
  if (!first || *first == 0 || effects[*first - 1].kind != Effect::Kind::kNone || !effects[*first - 1].goes_on)
    return false;
  std::vector<std::size_t> open;
  bool is_clear = true;
  const auto reach = [&](std::size_t index, std::int64_t depth) {
    std::optional<std::int64_t>& known = instructions_[index].depth;
    is_clear = is_clear && (!known || *known == depth);
    if (!known) open.push_back(index);
    known = depth;
  };
  reach(*first, begin.depth);
  while (is_clear && !open.empty()) {
    const std::size_t index = open.back();
    open.pop_back();
    const Effect& effect = effects[index];
    std::int64_t depth = *instructions_[index].depth;
    if (effect.kind == Effect::Kind::kBy) depth += effect.amount;
    if (effect.kind == Effect::Kind::kFromFramePointer) depth = begin.frame_offset - effect.amount;
    if (effect.goes_on && index + 1 < instructions_.size()) reach(index + 1, depth);
    // Elsewhere lies another function.
    if (const auto target = effect.target ? index_of(*effect.target) : std::nullopt) reach(*target, depth);
  }
  return is_clear;
}

std::optional<std::int64_t> StackDepth::at(std::uint64_t address) const {
  auto found = std::upper_bound(instructions_.begin(), instructions_.end(), address,
                                [](std::uint64_t a, const Instruction& one) { return a < one.address; });
  if (found == instructions_.begin() || address >= end_) return std::nullopt;
  return (--found)->depth;
}

}  // namespace crashcut::stacks
