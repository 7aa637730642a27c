#include "inject/instrument/assembly_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

namespace crashcut::instrument {
namespace {

using Kind = AsmOperand::Kind;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

std::optional<std::int64_t> as_number(std::string_view text) {
  const std::string digits(trimmed(text));
  char* end = nullptr;
  const auto number = static_cast<std::int64_t>(std::strtoull(digits.c_str(), &end, 0));
  if (digits.empty() || *end != '\0') return std::nullopt;
  return number;
}

// "$(att$|intel$)": one of two texts for the two dialects.
std::string choose_dialect(std::string_view text, bool is_intel) {
  std::string chosen;
  int variant = -1;  // outside
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && std::string_view("(|)$").find(text[i + 1]) != std::string_view::npos) {
      const char c = text[++i];
      if (c == '(') variant = 0;
      if (c == '|' && variant >= 0) ++variant;
      if (c == ')') variant = -1;
      if (c == '$' && (variant < 0 || variant == is_intel)) chosen += "$$";
    } else if (variant < 0 || variant == is_intel) {
      chosen += text[i];
    }
  }
  return chosen;
}

// Statements end at a semicolon or a line's end. Comments are # and // to the line's end, and as in C.
std::vector<std::string> split_statements(const std::string& text) {
  std::vector<std::string> statements(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_line_comment = text[i] == '#' || text.compare(i, 2, "//") == 0;
    if (is_line_comment) {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (text.compare(i, 2, "/*") == 0) {
      const std::size_t end = text.find("*/", i + 2);
      i = end == std::string::npos ? text.size() : end + 1;
      continue;
    }
    if (i >= text.size() || text[i] == '\n' || text[i] == ';') {
      statements.emplace_back();
    } else {
      statements.back() += text[i];
    }
  }
  return statements;
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == separator && depth == 0) {
      parts.push_back(std::move(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trimmed(part).empty() || !parts.empty()) parts.push_back(std::move(part));
  return parts;
}

// "$0", "${0:b}".
std::optional<AsmOperand> parse_reference(std::string_view text) {
  if (text.size() < 2 || text[0] != '$') return std::nullopt;
  AsmOperand operand;
  operand.kind = Kind::kReference;
  std::string_view digits = text.substr(1);
  if (digits.front() == '{' && digits.back() == '}') {
    digits = digits.substr(1, digits.size() - 2);
    const std::size_t colon = digits.find(':');
    if (colon != std::string_view::npos) {
      if (digits.size() != colon + 2) return std::nullopt;
      operand.modifier = digits[colon + 1];
      digits = digits.substr(0, colon);
    }
  }
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); }))
    return std::nullopt;
  operand.reference = static_cast<int>(as_number(digits).value_or(-1));
  return operand;
}

std::optional<AsmOperand> parse_register(std::string_view text) {
  if (!text.empty() && text[0] == '%') text.remove_prefix(1);
  AsmOperand operand;
  operand.kind = Kind::kRegister;
  operand.name = in_small_letters(text);
  if (register_bytes(operand.name) == 0) return std::nullopt;
  return operand;
}

std::shared_ptr<AsmOperand> parse_part(std::string_view text) {
  text = trimmed(text);
  auto part = parse_reference(text);
  if (!part) part = parse_register(text);
  return part ? std::make_shared<AsmOperand>(*part) : nullptr;
}

// disp(base,index,scale)
AsmOperand parse_att_memory(std::string_view text) {
  AsmOperand operand;
  const std::size_t open = text.find('(');
  const std::string_view displacement = trimmed(text.substr(0, open));
  const auto number = displacement.empty() ? std::int64_t{0} : as_number(displacement);
  const std::vector<std::string> parts = split_at(text.substr(open + 1, text.size() - open - 2), ',');
  if (!number || parts.empty() || parts.size() > 3) return operand;
  operand.number = *number;
  if (!trimmed(parts[0]).empty() && (operand.base = parse_part(parts[0])) == nullptr) return operand;
  if (parts.size() > 1 && (operand.index = parse_part(parts[1])) == nullptr) return operand;
  if (parts.size() > 2) operand.scale = static_cast<int>(as_number(parts[2]).value_or(0));
  operand.kind = operand.scale == 0 ? Kind::kOther : Kind::kMemory;
  return operand;
}

AsmOperand parse_att(std::string_view text) {
  if (text.starts_with("$$")) {
    AsmOperand operand;
    const auto number = as_number(text.substr(2));
    if (number) operand.kind = Kind::kImmediate, operand.number = *number;
    return operand;
  }
  if (const auto reference = parse_reference(text)) return *reference;
  if (text.ends_with(')') && text.find(':') == std::string_view::npos) return parse_att_memory(text);
  if (text.starts_with('%')) return parse_register(text).value_or(AsmOperand{});
  return {};
}

// "[base + index*scale + displacement]", the brackets gone.
AsmOperand parse_intel_memory(std::string_view text) {
  AsmOperand operand;
  std::string sum(text);
  for (std::size_t at = 0; (at = sum.find('-', at)) != std::string::npos; at += 2) sum.insert(at, "+");
  for (const std::string& term : split_at(sum, '+')) {
    const std::vector<std::string> factors = split_at(trimmed(term), '*');
    if (const auto number = as_number(term)) {
      operand.number += *number;
    } else if (factors.size() == 2) {
      operand.index = parse_part(factors[0]);
      operand.scale = static_cast<int>(as_number(factors[1]).value_or(0));
      if (operand.index == nullptr || operand.scale == 0) return {};
    } else {
      auto part = parse_part(term);
      if (part == nullptr || (operand.base != nullptr && operand.index != nullptr)) return {};
      (operand.base == nullptr ? operand.base : operand.index) = part;
    }
  }
  operand.kind = Kind::kMemory;
  return operand;
}

AsmOperand parse_intel(std::string_view text) {
  static constexpr struct {
    std::string_view words;
    unsigned bytes;
  } kSizes[] = {{"byte ptr", 1},     {"word ptr", 2},     {"dword ptr", 4},   {"qword ptr", 8},
                {"xmmword ptr", 16}, {"ymmword ptr", 32}, {"zmmword ptr", 64}};
  const std::string small = in_small_letters(text);
  unsigned bytes = 0;
  for (const auto& size : kSizes) {
    if (small.starts_with(size.words)) {
      bytes = size.bytes;
      text = trimmed(text.substr(size.words.size()));
    }
  }
  AsmOperand operand;
  if (const auto reference = parse_reference(text)) {
    operand = *reference;
  } else if (text.starts_with('[') && text.ends_with(']')) {
    operand = parse_intel_memory(text.substr(1, text.size() - 2));
  } else if (const auto named = parse_register(text)) {
    operand = *named;
  } else if (const auto number = as_number(text)) {
    operand.kind = Kind::kImmediate;
    operand.number = *number;
  }
  operand.bytes = bytes;
  return operand;
}

bool is_prefix(std::string_view word) {
  static constexpr std::string_view kPrefixes[] = {"lock",  "rep",    "repe",    "repz",     "repne",
                                                   "repnz", "data16", "notrack", "xacquire", "xrelease"};
  return std::find(std::begin(kPrefixes), std::end(kPrefixes), word) != std::end(kPrefixes);
}

std::string_view first_word(std::string_view text) {
  return text.substr(
      0, std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); }) - text.begin());
}

// Bytes that are whole instructions, or prefixes of what follows; none of both: nothing.
std::optional<AsmStatement> decode(std::vector<std::int64_t> bytes) {
  static constexpr const char* kBases[] = {"rax", "rcx", "rdx", "rbx", "", "", "rsi", "rdi"};
  AsmStatement statement;
  while (!bytes.empty()) {
    const std::int64_t byte = bytes[0];
    const char* prefix = byte == 0x66   ? "data16"
                         : byte == 0xf0 ? "lock"
                         : byte == 0xf3 ? "rep"
                         : byte == 0x3e ? ""
                                        : nullptr;
    if (prefix == nullptr) break;
    if (*prefix != '\0') statement.prefixes.emplace_back(prefix);  // 0x3e does nothing here
    bytes.erase(bytes.begin());
  }
  if (bytes.empty()) return statement;
  if (bytes == std::vector<std::int64_t>{0x90}) {
    statement.mnemonic = "nop";
  } else if (bytes == std::vector<std::int64_t>{0x0f, 0x31}) {
    statement.mnemonic = "rdtsc";
  } else if (bytes.size() == 3 && bytes[0] == 0x0f && bytes[1] == 0xae) {
    const std::int64_t mode = bytes[2] >> 6, reg = bytes[2] >> 3 & 7, base = bytes[2] & 7;
    if (bytes[2] == 0xe8 || bytes[2] == 0xf0 || bytes[2] == 0xf8) {
      statement.mnemonic = bytes[2] == 0xe8 ? "lfence" : bytes[2] == 0xf0 ? "mfence" : "sfence";
      if (!statement.prefixes.empty()) return std::nullopt;  // pcommit
    } else if (mode == 0 && *kBases[base] != '\0' && (reg == 6 || reg == 7)) {
      statement.mnemonic = reg == 7 ? "clflush" : "xsaveopt";
      AsmOperand operand;
      operand.kind = Kind::kMemory;
      operand.base = parse_part(kBases[base]);
      statement.operands.push_back(operand);
    } else {
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  return statement;
}

class Parser {
 public:
  explicit Parser(bool is_intel) : is_intel_(is_intel) {}

  void parse(std::string_view text) {
    std::string_view rest = trimmed(text);
    if (rest.empty()) return;
    while (const std::size_t colon = label_end(rest)) {
      finish_bytes();
      parsed_.push_back({std::string(rest.substr(0, colon)), {}, "", {}});
      rest = trimmed(rest.substr(colon));
      if (rest.empty()) return;
    }
    AsmStatement statement;
    statement.text = std::string(rest);
    std::string word = in_small_letters(first_word(rest));
    while (is_prefix(word)) {
      statement.prefixes.push_back(word);
      rest = trimmed(rest.substr(word.size()));
      word = in_small_letters(first_word(rest));
    }
    statement.mnemonic = word;
    rest = trimmed(rest.substr(word.size()));
    if (word == ".byte") return note_bytes(rest, statement);
    finish_bytes();
    if (word.empty()) {  // prefixes alone: of the next statement
      prefixes_.insert(prefixes_.end(), statement.prefixes.begin(), statement.prefixes.end());
      prefix_text_ += statement.text + "; ";
      return;
    }
    if (word == ".intel_syntax" || word == ".att_syntax") is_intel_ = word == ".intel_syntax";
    if (!statement.is_directive()) {
      for (const std::string& operand : split_at(rest, ','))
        statement.operands.push_back(is_intel_ ? parse_intel(trimmed(operand)) : parse_att(trimmed(operand)));
      if (is_intel_) std::reverse(statement.operands.begin(), statement.operands.end());
    }
    add(std::move(statement));
  }

  std::vector<AsmStatement> finish() {
    finish_bytes();
    if (!prefixes_.empty()) add({"", {}, "?", {}});
    return std::move(parsed_);
  }

 private:
  // "1:" or "name:" at the start: how long it is.
  static std::size_t label_end(std::string_view text) {
    std::size_t n = 0;
    while (n < text.size() && (std::isalnum(static_cast<unsigned char>(text[n])) || text[n] == '_' || text[n] == '.' ||
                               text[n] == '$' || text[n] == '{' || text[n] == '}'))
      ++n;
    const bool is_operand = n > 0 && text[0] == '$';  // ${:uid} in a label's name
    return n > 0 && n < text.size() && text[n] == ':' && !is_operand ? n + 1 : 0;
  }

  void note_bytes(std::string_view list, const AsmStatement& statement) {
    for (const std::string& item : split_at(list, ',')) bytes_.push_back(as_number(item).value_or(-1));
    byte_text_ += statement.text + "; ";
  }
  void finish_bytes() {
    if (bytes_.empty()) return;
    auto decoded = decode(std::move(bytes_));
    const std::string text = std::move(byte_text_);
    bytes_.clear();
    byte_text_.clear();
    if (!decoded) return add({text, {}, ".byte", {}});
    if (decoded->mnemonic.empty()) {
      prefixes_.insert(prefixes_.end(), decoded->prefixes.begin(), decoded->prefixes.end());
      prefix_text_ += text;
      return;
    }
    decoded->text = text;
    add(std::move(*decoded));
  }
  void add(AsmStatement statement) {
    statement.prefixes.insert(statement.prefixes.begin(), prefixes_.begin(), prefixes_.end());
    statement.text = prefix_text_ + statement.text;
    prefixes_.clear();
    prefix_text_.clear();
    parsed_.push_back(std::move(statement));
  }

  bool is_intel_;
  std::vector<AsmStatement> parsed_;
  std::vector<std::string> prefixes_;
  std::string prefix_text_;
  std::vector<std::int64_t> bytes_;
  std::string byte_text_;
};

}  // namespace

bool AsmStatement::has_prefix(std::string_view prefix) const {
  return std::find(prefixes.begin(), prefixes.end(), prefix) != prefixes.end();
}

std::vector<AsmStatement> parse_assembly(std::string_view text, bool is_intel) {
  Parser parser(is_intel);
  for (const std::string& statement : split_statements(choose_dialect(text, is_intel))) parser.parse(statement);
  return parser.finish();
}

std::string as_in_source(std::string_view text) {
  std::string source;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = text.find('}', i);
    if (text.substr(i, 2) == "$$") {
      source += '$';
      ++i;
    } else if (text.substr(i, 2) == "${" && end != std::string_view::npos) {
      const std::string_view inner = text.substr(i + 2, end - i - 2);
      const std::size_t colon = std::min(inner.find(':'), inner.size());
      source += '%';
      source += inner.substr(std::min(colon + 1, inner.size()));
      source += inner.substr(0, colon);
      i = end;
    } else if (text[i] == '$') {
      source += '%';
    } else if (text[i] == '%') {
      source += "%%";
    } else if (text[i] == '\n') {
      if (!trimmed(text.substr(i)).empty()) source += "; ";
    } else if (text[i] != '\t' && text[i] != '\r') {
      source += text[i];
    }
  }
  return std::string(trimmed(source));
}

unsigned register_bytes(std::string_view name) {
  if (name.size() > 3 && name.substr(1, 2) == "mm" && std::isdigit(static_cast<unsigned char>(name[3])))
    return name[0] == 'x' ? 16 : name[0] == 'y' ? 32 : name[0] == 'z' ? 64 : 0;
  if (name.size() >= 2 && name[0] == 'r' && std::isdigit(static_cast<unsigned char>(name[1])))
    return name.back() == 'd' ? 4 : name.back() == 'w' ? 2 : name.back() == 'b' ? 1 : 8;
  const std::string_view family = name.size() == 3 && (name[0] == 'r' || name[0] == 'e') ? name.substr(1)
                                  : name.size() == 3                                     ? name.substr(0, 2)
                                                                                         : name;
  static constexpr std::string_view kFamilies[] = {"ax", "bx", "cx", "dx", "si", "di", "bp", "sp"};
  if (name == "al" || name == "bl" || name == "cl" || name == "dl" || name == "ah" || name == "bh" || name == "ch" ||
      name == "dh")
    return 1;
  if (std::find(std::begin(kFamilies), std::end(kFamilies), family) == std::end(kFamilies)) return 0;
  if (name.size() == 2) return 2;
  return name[0] == 'r' ? 8 : name[0] == 'e' ? 4 : name[2] == 'l' ? 1 : 0;
}

std::string register_family(std::string_view name) {
  const unsigned bytes = register_bytes(name);
  if (bytes == 0 || name.back() == 'h') return "";
  if (name.substr(1, 2) == "mm") return "xmm" + std::string(name.substr(3));
  if (name[0] == 'r' && std::isdigit(static_cast<unsigned char>(name[1])))
    return std::string(name.substr(0, bytes == 8 ? name.size() : name.size() - 1));
  if (name.size() == 2 && name[1] == 'l') return std::string(1, name[0]) + "x";
  if (name.size() == 3 && name[2] == 'l') return std::string(name.substr(0, 2));
  return std::string(name.size() == 3 ? name.substr(1) : name);
}

}  // namespace crashcut::instrument
