#include "tests/pmem_program.h"

#include <bit>
#include <sstream>
#include <stdexcept>

namespace crashcut::tests {

static const char* const kNames[] = {"store", "copy",   "nt",     "load",    "wait",       "xchg",
                                     "cas",   "mfence", "sfence", "clflush", "clflushopt", "mark"};

std::string PmemProgram::to_text() const {
  std::string text = std::to_string(lines) + " lines, " + std::to_string(dram_words) + " words of DRAM, atomic " +
                     std::to_string(atomic_bytes) + "\n";
  for (std::size_t t = 0; t < threads.size(); ++t) {
    text += "thread " + std::to_string(t) + ":\n";
    for (const PmemOp& op : threads[t]) {
      text += "  " + std::string(kNames[op.kind]) + " at " + std::to_string(op.address) + " bytes " +
              std::to_string(op.bytes) + " value " + (op.is_loaded ? "r+" : "") + std::to_string(op.value) +
              (op.kind == PmemOp::kCas ? " expected " + std::to_string(op.expected) : "") + "\n";
    }
  }
  return text;
}

// Whole words are 8 compact bytes too. A store of a width that is atomic, aligned to it, is one piece.
std::vector<PmemPiece> pieces_of(const PmemProgram& program, const PmemOp& op) {
  const bool is_power = std::has_single_bit(static_cast<unsigned>(op.bytes));
  const bool is_one_instruction = op.kind == PmemOp::kStore || op.kind == PmemOp::kXchg || op.kind == PmemOp::kCas;
  // Compact offset 16 of a line is byte 56: no multiple of 16.
  const int real = program.is_persistent(op.address) && op.address % PmemProgram::kBytesPerLine == 16
                       ? 56
                       : op.address % PmemProgram::kBytesPerLine;
  if (is_one_instruction && is_power && op.bytes <= program.atomic_bytes && real % op.bytes == 0) {
    return {{op.address, op.bytes}};
  }
  std::vector<PmemPiece> pieces;
  for (int at = op.address; at < op.address + op.bytes;) {
    const int bytes = std::min(op.address + op.bytes - at, 8 - at % 8);
    pieces.push_back({at, bytes});
    at += bytes;
  }
  return pieces;
}

static std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

static std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(" \n"), last = text.find_last_not_of(" \n");
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

static PmemOp parse_op(const std::string& text, const PmemLayout& names, PmemProgram& program) {
  std::istringstream stream(text);
  std::string word;
  stream >> word;
  const auto rest = [&] {
    std::string tail;
    std::getline(stream, tail);
    return trim(tail);
  };
  const auto at = [&](const std::string& name) { return names.address.at(trim(name)); };
  if (word == "mfence") return {.kind = PmemOp::kMfence};
  if (word == "sfence") return {.kind = PmemOp::kSfence};
  if (word == "clflush") return {.kind = PmemOp::kClflush, .address = at(rest())};
  if (word == "clflushopt") return {.kind = PmemOp::kClflushopt, .address = at(rest())};
  if (word == "load") return {.kind = PmemOp::kLoad, .address = at(rest())};
  if (word == "mark") {
    const int mark = std::stoi(rest());
    program.marks = std::max(program.marks, mark + 1);
    return {.kind = PmemOp::kMark, .value = mark};
  }
  if (word == "wait") {
    const auto parts = split(rest(), ',');
    return {.kind = PmemOp::kWait, .address = at(parts[0]), .value = parts.size() > 1 ? std::stoi(parts[1]) : 0};
  }
  if (word == "xchg") {
    const auto parts = split(rest(), ',');
    return {.kind = PmemOp::kXchg, .address = at(parts[0]), .value = std::stoi(parts[1])};
  }
  if (word == "cas") {
    const auto parts = split(rest(), ',');
    return {
        .kind = PmemOp::kCas, .address = at(parts[0]), .value = std::stoi(parts[2]), .expected = std::stoi(parts[1])};
  }
  const bool is_nt = word == "nt", is_copy = word == "copy";
  const auto sides = split(is_nt || is_copy ? rest() : text, '=');
  if (sides.size() != 2) throw std::invalid_argument(text);
  PmemOp op{.kind = is_nt ? PmemOp::kNonTemporal : is_copy ? PmemOp::kCopy : PmemOp::kStore};
  if (const auto dots = sides[0].find(".."); dots != std::string::npos) {
    op.address = at(sides[0].substr(0, dots));
    op.bytes = at(sides[0].substr(dots + 2)) + 8 - op.address;
  } else {
    op.address = at(sides[0]);
  }
  std::string value = trim(sides[1]);
  op.is_loaded = value.starts_with("r");
  if (op.is_loaded) value = value.size() > 2 ? value.substr(2) : "0";
  op.value = std::stoi(value);
  return op;
}

PmemProgram parse_pmem_program(const std::string& layout, const std::string& text, PmemLayout* names_out) {
  PmemProgram program;
  PmemLayout names;
  std::vector<std::string> dram;
  for (const std::string& line : split(layout, ' ')) {
    if (line.empty()) continue;
    if (line[0] == '@') {
      dram.push_back(line.substr(1));
      continue;
    }
    const auto words = split(line, ',');
    for (std::size_t i = 0; i < words.size(); ++i) {
      names.address[words[i]] = program.lines * PmemProgram::kBytesPerLine + static_cast<int>(i) * 8;
    }
    ++program.lines;
  }
  program.dram_words = static_cast<int>(dram.size());
  for (std::size_t i = 0; i < dram.size(); ++i) {
    names.address[dram[i]] = program.persistent_bytes() + static_cast<int>(i) * 8;
  }
  std::string rest = text;
  while (true) {
    const auto bars = rest.find("||");
    program.threads.emplace_back();
    for (const std::string& op : split(rest.substr(0, bars), ';')) {
      if (!trim(op).empty()) program.threads.back().push_back(parse_op(trim(op), names, program));
    }
    if (bars == rest.npos) break;
    rest = rest.substr(bars + 2);
  }
  if (names_out != nullptr) *names_out = names;
  return program;
}

// ---- random programs
// -------------------------------------------------------------------------------------------------

namespace {

class Random {
 public:
  Random(std::mt19937_64& random, const PmemShape& shape) : random_(random), shape_(shape) {}

  PmemProgram make() {
    program_.lines = 1 + below(shape_.lines_max);
    program_.dram_words = below(shape_.dram_words_max + 1);
    program_.marks = below(3) == 0 ? 1 : 0;
    program_.atomic_bytes = below(6) == 0 ? 16 : 8;
    for (int t = 0; t < shape_.threads; ++t) {
      program_.threads.emplace_back();
      const int count = 1 + below(shape_.ops_max);
      for (int i = 0; i < count; ++i) program_.threads.back().push_back(op());
    }
    if (shape_.is_communicating) communicate();
    return program_;
  }

 private:
  // The first thread stores to a word, perhaps by a locked instruction; the second waits for that.
  void communicate() {
    if (program_.dram_words == 0 && below(2) == 0) program_.dram_words = 1;
    const int address = program_.dram_words > 0 && below(3) != 0 ? program_.persistent_bytes() : word();
    const auto insert = [&](std::vector<PmemOp>& ops, const PmemOp& op) {
      ops.insert(ops.begin() + below(static_cast<int>(ops.size()) + 1), op);
    };
    insert(program_.threads[0],
           {.kind = below(4) == 0 ? PmemOp::kXchg : PmemOp::kStore, .address = address, .value = value()});
    insert(program_.threads[1], {.kind = PmemOp::kWait, .address = address, .bytes = 1});
  }

  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  int word() {
    const int words = program_.lines * 3 + program_.dram_words;
    return 8 * below(words);
  }
  int line() { return PmemProgram::kBytesPerLine * below(program_.lines); }
  int value() { return shape_.has_distinct_values ? ++last_value_ : 1 + below(3); }

  // A store or load of a part of a word, or of more than a word.
  void choose_bytes(PmemOp& op) {
    op.address = word();
    if (!shape_.has_parts || below(3) != 0) return;
    static constexpr int kWidths[] = {1, 2, 4, 4};
    op.bytes = kWidths[below(4)];
    op.address += below(8 - op.bytes + 1);
    if (below(2) == 0 || !program_.is_persistent(op.address)) return;
    // 9 to 16 bytes from the beginning of a line, or from its last word on into the next line.
    const bool crosses = program_.lines > 1 && below(2) == 0;
    op.bytes = below(2) == 0 ? 16 : 9 + below(8);
    op.address = crosses ? PmemProgram::kBytesPerLine * below(program_.lines - 1) + 16 : line();
  }

  PmemOp op() {
    const int kind = below(20);
    PmemOp op{.kind = PmemOp::kStore};
    if (kind < 8) {
      choose_bytes(op);
      op.kind = kind == 0                              ? PmemOp::kCopy
                : kind == 1 && shape_.has_non_temporal ? PmemOp::kNonTemporal
                                                       : PmemOp::kStore;
      op.value = value();
      op.is_loaded = !shape_.has_distinct_values && below(6) == 0;
      return op;
    }
    if (kind < 11) {
      op.kind = PmemOp::kClflush;
      op.address = line();
    } else if (kind < 14) {
      op.kind = PmemOp::kClflushopt;
      op.address = line();
    } else if (kind < 16) {
      op.kind = PmemOp::kSfence;
    } else if (kind == 16) {
      op.kind = PmemOp::kMfence;
    } else if (kind == 17) {
      op.kind = below(2) == 0 ? PmemOp::kXchg : PmemOp::kCas;
      op.address = word();
      op.value = value();
      op.expected = below(3);
    } else if (program_.marks > 0 && below(4) == 0) {
      op.kind = PmemOp::kMark;
    } else {
      op.kind = shape_.threads > 1 && below(2) == 0 ? PmemOp::kWait : PmemOp::kLoad;
      choose_bytes(op);
      if (op.kind == PmemOp::kWait) op.bytes = 1;
    }
    return op;
  }

  std::mt19937_64& random_;
  PmemShape shape_;
  PmemProgram program_;
  int last_value_ = 0;
};

}  // namespace

PmemProgram random_pmem_program(std::mt19937_64& random, const PmemShape& shape) {
  return Random(random, shape).make();
}

}  // namespace crashcut::tests
