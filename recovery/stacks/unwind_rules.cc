#include "recovery/stacks/unwind_rules.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace crashcut::stacks {
namespace {

using Rule = UnwindRow::Rule;
using Kind = Rule::Kind;

// Reads what is there; once something was not, ok() is false and everything reads as 0 or empty.
class Bytes {
 public:
  Bytes(std::string_view all, std::size_t at, std::size_t end, std::uint64_t address)
      : all_(all.substr(0, std::min(end, all.size()))), at_(std::min(at, all_.size())), address_(address) {}

  bool ok() const { return ok_; }
  bool is_at_end() const { return !ok_ || at_ == all_.size(); }
  std::size_t at() const { return at_; }

  template <class T>
  T fixed() {
    T value{};
    if (all_.size() - at_ < sizeof value) return fail(), value;
    std::memcpy(&value, all_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; ok_ && shift < 64; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return fail(), 0;
  }
  std::int64_t signed_number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; ok_ && shift < 64;) {
      const auto byte = fixed<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if ((byte & 0x40) != 0 && shift < 64) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
    return fail(), 0;
  }
  unsigned register_number() { return static_cast<unsigned>(std::min<std::uint64_t>(number(), ~0u)); }
  std::string_view text() {
    const std::size_t end = all_.find('\0', at_);
    if (end == all_.npos) return fail(), std::string_view();
    const std::string_view found = all_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  std::string_view block() {
    const std::uint64_t bytes = number();
    if (bytes > all_.size() - at_) return fail(), std::string_view();
    const std::string_view found = all_.substr(at_, bytes);
    at_ += bytes;
    return found;
  }
  void skip(std::uint64_t bytes) {
    if (bytes > all_.size() - at_) return fail();
    at_ += bytes;
  }
  // As DW_EH_PE_* say; `is_length`: only its format counts.
  std::uint64_t pointer(std::uint8_t encoding, bool is_length) {
    constexpr std::uint8_t kFormat = 0x0f, kBase = 0x70, kFromHere = 0x10;
    const std::uint64_t here = address_ + at_;
    std::uint64_t value = 0;
    switch (encoding & kFormat) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = fixed<std::uint64_t>();
        break;
      case 0x02:
        value = fixed<std::uint16_t>();
        break;
      case 0x03:
        value = fixed<std::uint32_t>();
        break;
      case 0x0a:
        value = static_cast<std::uint64_t>(fixed<std::int16_t>());
        break;
      case 0x0b:
        value = static_cast<std::uint64_t>(fixed<std::int32_t>());
        break;
      default:
        fail();
    }
    if (is_length || (encoding & kBase) == 0) return value;
    if ((encoding & kBase) != kFromHere) fail();
    return here + value;
  }
  void fail() {
    ok_ = false;
    at_ = all_.size();
  }

 private:
  std::string_view all_;
  std::size_t at_;
  std::uint64_t address_;  // of all_
  bool ok_ = true;
};

// What several functions have in common.
struct Common {
  std::uint64_t code_unit = 1;
  std::int64_t data_unit = 1;
  unsigned return_register = kReturnAddress;
  std::uint8_t encoding = 0;
  bool is_augmented = false, is_signal = false;
  std::size_t program = 0, program_end = 0;  // places in the section
};

// The end of the record that begins there; none: there is none. Leaves `in` behind its length.
std::optional<std::size_t> end_of_record(Bytes& in, std::size_t all) {
  std::uint64_t length = in.fixed<std::uint32_t>();
  if (length == 0xffffffff) length = in.fixed<std::uint64_t>();
  if (!in.ok() || length == 0 || length > all - in.at()) return std::nullopt;
  return in.at() + length;
}

std::optional<Common> read_common(std::string_view frames, std::size_t at, std::uint64_t address) {
  Bytes in(frames, at, frames.size(), address);
  const auto end = end_of_record(in, frames.size());
  if (!end || in.fixed<std::uint32_t>() != 0) return std::nullopt;
  const auto version = in.fixed<std::uint8_t>();
  const std::string_view augmentation = in.text();
  if ((version != 1 && version != 3) || (!augmentation.empty() && augmentation[0] != 'z')) return std::nullopt;
  Common common;
  common.code_unit = in.number();
  common.data_unit = in.signed_number();
  common.return_register = version == 1 ? in.fixed<std::uint8_t>() : in.register_number();
  common.is_augmented = !augmentation.empty();
  if (common.is_augmented) {
    const std::uint64_t bytes = in.number();
    const std::size_t begin = in.at();
    for (const char c : augmentation.substr(1)) {
      switch (c) {
        case 'R':
          common.encoding = in.fixed<std::uint8_t>();
          break;
        case 'L':
          in.fixed<std::uint8_t>();
          break;
        case 'P':
          in.pointer(in.fixed<std::uint8_t>(), true);
          break;
        case 'S':
          common.is_signal = true;
          break;
        default:
          return std::nullopt;
      }
    }
    if (!in.ok() || in.at() - begin > bytes) return std::nullopt;
    in.skip(bytes - (in.at() - begin));
  }
  common.program = in.at();
  common.program_end = *end;
  if (!in.ok() || in.at() > *end || common.return_register >= kRegisterCount) return std::nullopt;
  return common;
}

// Runs the instructions of a function up to the row of a place in its code.
class Program {
 public:
  Program(const Common& common, std::string_view frames, std::uint64_t address)
      : common_(common), frames_(frames), address_(address) {
    row_.return_register = common.return_register;
    row_.is_signal = common.is_signal;
    row_.rules[kStackPointer] = {Kind::kOffset};
  }

  // False: there is one that is not understood.
  bool run(std::size_t begin, std::size_t end, std::uint64_t location, std::uint64_t code) {
    Bytes in(frames_, begin, end, address_);
    location_ = location;
    while (!in.is_at_end() && location_ <= code) {
      if (!step(in)) return false;
    }
    return in.ok();
  }
  void keep_initial() { initial_ = row_; }
  const UnwindRow& row() const { return row_; }

 private:
  void set(unsigned number, Rule rule) {
    if (number < kRegisterCount) row_.rules[number] = rule;  // others have no part in calls
  }
  std::int64_t scaled(std::uint64_t factor) const {
    return static_cast<std::int64_t>(factor * static_cast<std::uint64_t>(common_.data_unit));
  }
  // The row is complete where the location is behind the code.
  void advance(std::uint64_t count) { location_ += count * common_.code_unit; }

  bool step(Bytes& in) {
    constexpr std::uint8_t kHigh = 0xc0, kLow = 0x3f;
    const auto code = in.fixed<std::uint8_t>();
    const unsigned low = code & kLow;
    switch (code & kHigh) {
      case DW_CFA_advance_loc:
        advance(low);
        return true;
      case DW_CFA_offset:
        set(low, {Kind::kSaved, scaled(in.number())});
        return true;
      case DW_CFA_restore:
        if (low < kRegisterCount) row_.rules[low] = initial_.rules[low];
        return true;
      default:
        return extended(code, in);
    }
  }

  bool extended(std::uint8_t code, Bytes& in) {
    switch (code) {
      case DW_CFA_nop:
        return true;
      case DW_CFA_set_loc:
        location_ = in.pointer(common_.encoding, false);
        return true;
      case DW_CFA_advance_loc1:
        return advance(in.fixed<std::uint8_t>()), true;
      case DW_CFA_advance_loc2:
        return advance(in.fixed<std::uint16_t>()), true;
      case DW_CFA_advance_loc4:
        return advance(in.fixed<std::uint32_t>()), true;
      case DW_CFA_remember_state:
        if (remembered_.size() == kRememberedMost) return false;
        return remembered_.push_back(row_), true;
      case DW_CFA_restore_state:
        if (remembered_.empty()) return false;
        row_ = remembered_.back();
        return remembered_.pop_back(), true;
      case DW_CFA_GNU_args_size:
        return in.number(), true;
      default:
        return frame(code, in) || rule(code, in);
    }
  }

  bool frame(std::uint8_t code, Bytes& in) {
    switch (code) {
      case DW_CFA_def_cfa:
        row_.frame_register = in.register_number();
        row_.frame_offset = static_cast<std::int64_t>(in.number());
        break;
      case DW_CFA_def_cfa_sf:
        row_.frame_register = in.register_number();
        row_.frame_offset = scaled(static_cast<std::uint64_t>(in.signed_number()));
        break;
      case DW_CFA_def_cfa_register:
        row_.frame_register = in.register_number();
        break;
      case DW_CFA_def_cfa_offset:
        row_.frame_offset = static_cast<std::int64_t>(in.number());
        break;
      case DW_CFA_def_cfa_offset_sf:
        row_.frame_offset = scaled(static_cast<std::uint64_t>(in.signed_number()));
        break;
      case DW_CFA_def_cfa_expression:
        row_.frame_program = in.block();
        row_.frame_register = kRegisterCount;
        return true;
      default:
        return false;
    }
    row_.frame_program = {};
    return true;
  }

  bool rule(std::uint8_t code, Bytes& in) {
    const unsigned number = in.register_number();
    switch (code) {
      case DW_CFA_offset_extended:
        return set(number, {Kind::kSaved, scaled(in.number())}), true;
      case DW_CFA_offset_extended_sf:
        return set(number, {Kind::kSaved, scaled(static_cast<std::uint64_t>(in.signed_number()))}), true;
      case DW_CFA_val_offset:
        return set(number, {Kind::kOffset, scaled(in.number())}), true;
      case DW_CFA_val_offset_sf:
        return set(number, {Kind::kOffset, scaled(static_cast<std::uint64_t>(in.signed_number()))}), true;
      case DW_CFA_restore_extended:
        if (number < kRegisterCount) row_.rules[number] = initial_.rules[number];
        return true;
      case DW_CFA_undefined:
        return set(number, {Kind::kUndefined}), true;
      case DW_CFA_same_value:
        return set(number, {Kind::kSame}), true;
      case DW_CFA_register:
        return set(number, {Kind::kRegister, in.register_number()}), true;
      case DW_CFA_expression:
        return set(number, {Kind::kSavedByProgram, 0, in.block()}), true;
      case DW_CFA_val_expression:
        return set(number, {Kind::kProgram, 0, in.block()}), true;
      default:
        return false;
    }
  }

  static constexpr std::size_t kRememberedMost = 64;
  const Common& common_;
  std::string_view frames_;
  std::uint64_t address_;
  std::uint64_t location_ = 0;
  UnwindRow row_, initial_;
  std::vector<UnwindRow> remembered_;
};

// A DWARF expression; none: it needs what is not known, or has an operation that such expressions have not.
class Expression {
 public:
  Expression(const Registers& registers, const ReadWord& read) : registers_(registers), read_(read) {}

  std::optional<std::uint64_t> value(std::string_view program, std::optional<std::uint64_t> first = {}) {
    stack_.clear();
    if (first) stack_.push_back(*first);
    Bytes in(program, 0, program.size(), 0);
    while (!in.is_at_end()) {
      if (!step(in)) return std::nullopt;
    }
    return in.ok() && !stack_.empty() ? std::optional(stack_.back()) : std::nullopt;
  }

 private:
  bool push(std::optional<std::uint64_t> value) {
    if (!value || stack_.size() == kStackMost) return false;
    stack_.push_back(*value);
    return true;
  }
  std::optional<std::uint64_t> pop() {
    if (stack_.empty()) return std::nullopt;
    const std::uint64_t value = stack_.back();
    stack_.pop_back();
    return value;
  }
  bool step(Bytes& in) {
    const auto code = in.fixed<std::uint8_t>();
    if (code >= DW_OP_lit0 && code <= DW_OP_lit31) return push(code - DW_OP_lit0);
    if (code >= DW_OP_breg0 && code <= DW_OP_breg31) {
      const unsigned number = code - DW_OP_breg0;
      const auto offset = static_cast<std::uint64_t>(in.signed_number());
      if (number >= kRegisterCount || !registers_.at[number]) return false;
      return push(*registers_.at[number] + offset);
    }
    switch (code) {
      case DW_OP_const1u:
        return push(in.fixed<std::uint8_t>());
      case DW_OP_const1s:
        return push(static_cast<std::uint64_t>(in.fixed<std::int8_t>()));
      case DW_OP_const2u:
        return push(in.fixed<std::uint16_t>());
      case DW_OP_const2s:
        return push(static_cast<std::uint64_t>(in.fixed<std::int16_t>()));
      case DW_OP_const4u:
        return push(in.fixed<std::uint32_t>());
      case DW_OP_const4s:
        return push(static_cast<std::uint64_t>(in.fixed<std::int32_t>()));
      case DW_OP_constu:
        return push(in.number());
      case DW_OP_consts:
        return push(static_cast<std::uint64_t>(in.signed_number()));
      case DW_OP_nop:
        return true;
      default:
        break;
    }
    const auto top = pop();
    if (!top) return false;
    switch (code) {
      case DW_OP_deref:
        return push(read_(*top));
      case DW_OP_dup:
        return push(top) && push(top);
      case DW_OP_drop:
        return true;
      case DW_OP_plus_uconst:
        return push(*top + in.number());
      default:
        break;
    }
    const auto below = pop();
    if (!below) return false;
    switch (code) {
      case DW_OP_plus:
        return push(*below + *top);
      case DW_OP_minus:
        return push(*below - *top);
      case DW_OP_and:
        return push(*below & *top);
      case DW_OP_or:
        return push(*below | *top);
      case DW_OP_shl:
        return push(*top < 64 ? *below << *top : 0);
      case DW_OP_ge:
        return push(static_cast<std::int64_t>(*below) >= static_cast<std::int64_t>(*top) ? 1 : 0);
      default:
        return false;
    }
  }

  static constexpr std::size_t kStackMost = 64;
  const Registers& registers_;
  const ReadWord& read_;
  std::vector<std::uint64_t> stack_;
};

std::optional<std::uint64_t> frame_of(const UnwindRow& row, const Registers& registers, Expression& expression) {
  if (!row.frame_program.empty()) return expression.value(row.frame_program);
  if (row.frame_register >= kRegisterCount || !registers.at[row.frame_register]) return std::nullopt;
  return *registers.at[row.frame_register] + static_cast<std::uint64_t>(row.frame_offset);
}

// What a call may leave otherwise: only its results and the callee's business.
bool is_kept_by_calls(unsigned number) {
  constexpr unsigned kRbx = 3, kR12 = 12, kR15 = 15;
  return number == kRbx || number == kFramePointer || (number >= kR12 && number <= kR15);
}

}  // namespace

std::optional<Registers> caller_of(const UnwindRow& row, const Registers& registers, const ReadWord& read) {
  Expression expression(registers, read);
  const auto frame = frame_of(row, registers, expression);
  if (!frame) return std::nullopt;
  const auto value_by = [&](unsigned number, const Rule& rule) -> std::optional<std::uint64_t> {
    switch (rule.kind) {
      case Kind::kSame:
        return is_kept_by_calls(number) ? registers.at[number] : std::nullopt;
      case Kind::kUndefined:
        return std::nullopt;
      case Kind::kSaved:
        return read(*frame + static_cast<std::uint64_t>(rule.offset));
      case Kind::kOffset:
        return *frame + static_cast<std::uint64_t>(rule.offset);
      case Kind::kRegister:
        return rule.offset < kRegisterCount ? registers.at[static_cast<std::size_t>(rule.offset)] : std::nullopt;
      case Kind::kSavedByProgram: {
        const auto place = expression.value(rule.program, frame);
        return place ? read(*place) : std::nullopt;
      }
      case Kind::kProgram:
        return expression.value(rule.program, frame);
    }
    return std::nullopt;
  };
  Registers caller;
  for (unsigned i = 0; i < kRegisterCount; ++i) caller.at[i] = value_by(i, row.rules[i]);
  caller.at[kReturnAddress] = caller.at[row.return_register];
  const bool goes_on = caller.at[kReturnAddress].value_or(0) != 0 && caller.at[kStackPointer];
  return goes_on ? std::optional(caller) : std::nullopt;
}

UnwindRules::UnwindRules(std::string frames, std::uint64_t address) : frames_(std::move(frames)), address_(address) {
  std::map<std::size_t, std::optional<Common>> commons;
  for (std::size_t at = 0; at < frames_.size();) {
    Bytes in(frames_, at, frames_.size(), address_);
    const auto end = end_of_record(in, frames_.size());
    if (!end) break;
    at = *end;
    const std::size_t here = in.at();
    const auto back = in.fixed<std::uint32_t>();
    if (back == 0 || back > here) continue;  // what functions have in common; or nonsense
    const auto [common, is_new] = commons.try_emplace(here - back);
    if (is_new) common->second = read_common(frames_, here - back, address_);
    if (!common->second) continue;
    const std::uint64_t begin = in.pointer(common->second->encoding, false);
    const std::uint64_t bytes = in.pointer(common->second->encoding, true);
    if (common->second->is_augmented) in.block();
    if (in.ok() && in.at() <= *end && bytes > 0 && begin + bytes > begin)
      functions_.push_back({begin, begin + bytes, here - back, in.at(), *end});
  }
  std::stable_sort(functions_.begin(), functions_.end(),
                   [](const auto& a, const auto& b) { return a.begin < b.begin; });
}

const UnwindRules::Function* UnwindRules::find(std::uint64_t code) const {
  auto function = std::upper_bound(functions_.begin(), functions_.end(), code,
                                   [](std::uint64_t a, const Function& f) { return a < f.begin; });
  return function == functions_.begin() || code >= (--function)->end ? nullptr : &*function;
}

std::optional<UnwindRules::Range> UnwindRules::function_at(std::uint64_t code) const {
  const Function* function = find(code);
  return function != nullptr ? std::optional(Range{function->begin, function->end}) : std::nullopt;
}

std::optional<UnwindRow> UnwindRules::row_at(std::uint64_t code) const {
  const Function* function = find(code);
  if (function == nullptr) return std::nullopt;
  const auto common = read_common(frames_, function->common, address_);
  if (!common) return std::nullopt;
  Program program(*common, frames_, address_);
  if (!program.run(common->program, common->program_end, 0, ~std::uint64_t{0})) return std::nullopt;
  program.keep_initial();
  if (!program.run(function->own, function->own_end, function->begin, code)) return std::nullopt;
  return program.row();
}

}  // namespace crashcut::stacks
