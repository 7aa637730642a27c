#include "tests/cxl_program.h"

#include <map>
#include <sstream>
#include <stdexcept>

namespace crashcut::tests {

namespace {

std::string trim(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, at)) parts.push_back(trim(part));
  return parts;
}

CxlOp parse_op(const std::string& text, const std::map<std::string, int>& words) {
  const auto word = [&](const std::string& name) {
    const auto found = words.find(trim(name));
    if (found == words.end()) throw std::invalid_argument(text);
    return found->second;
  };
  const auto blank = text.find(' ');
  const std::string verb = text.substr(0, blank), rest = blank == text.npos ? "" : trim(text.substr(blank));
  if (verb == "mfence") return {.kind = CxlOp::kMfence};
  if (verb == "sfence") return {.kind = CxlOp::kSfence};
  if (verb == "load") return {.kind = CxlOp::kLoad, .word = word(rest)};
  if (verb == "clflush") return {.kind = CxlOp::kClflush, .word = word(rest)};
  if (verb == "clflushopt") return {.kind = CxlOp::kClflushopt, .word = word(rest)};
  if (verb == "clwb") return {.kind = CxlOp::kClwb, .word = word(rest)};
  if (verb == "lock") return {.kind = CxlOp::kLock, .word = std::stoi(rest)};
  if (verb == "unlock") return {.kind = CxlOp::kUnlock, .word = std::stoi(rest)};
  if (verb == "wait") return {.kind = CxlOp::kWaitMachine, .word = std::stoi(rest)};
  if (verb == "xchg" || verb == "cas") {
    const auto parts = split(rest, ',');
    CxlOp op{.kind = verb == "cas" ? CxlOp::kCas : CxlOp::kXchg, .word = word(parts[0])};
    if (verb == "cas") op.expected = std::stoi(parts[1]);
    op.value = std::stoi(parts.back());
    return op;
  }
  CxlOp op{.kind = verb == "nt" ? CxlOp::kNonTemporal : verb == "fill" ? CxlOp::kFill : CxlOp::kStore};
  const auto sides = split(op.kind == CxlOp::kStore ? text : rest, '=');
  const auto names = split(sides[0], ',');
  op.word = word(names[0]);
  if (names.size() > 1) op.kind = CxlOp::kStoreBoth;
  op.is_loaded = sides[1][0] == 'r';
  op.value = op.is_loaded ? (sides[1].size() > 2 ? std::stoi(sides[1].substr(2)) : 0) : std::stoi(sides[1]);
  return op;
}

}  // namespace

CxlProgram parse_cxl_program(const std::string& layout, const std::string& text) {
  CxlProgram program;
  program.lines = 0;
  std::map<std::string, int> words;
  for (const std::string& line : split(layout, ' ')) {
    int word = 2 * program.lines++;
    for (const std::string& name : split(line, ',')) words[name] = word++;
  }
  program.machines = 0;
  for (const std::string& machine : split(text, '|')) {
    const std::size_t first = program.threads.size();
    for (const std::string& thread : split(machine, '&')) {
      program.threads.push_back({program.machines, {}});
      for (const std::string& op : split(thread, ';')) {
        if (!op.empty()) program.threads.back().ops.push_back(parse_op(op, words));
      }
    }
    if (program.threads.size() == first) program.threads.push_back({program.machines, {}});  // it does nothing
    program.threads[first].ops.push_back({.kind = CxlOp::kEnd});
    ++program.machines;
  }
  program.never_fails.resize(static_cast<std::size_t>(program.machines));
  return program;
}

std::string CxlProgram::to_text() const {
  static constexpr const char* kNames[] = {"store", "store both", "nt",     "fill",    "load",       "xchg",
                                           "cas",   "mfence",     "sfence", "clflush", "clflushopt", "clwb",
                                           "lock",  "unlock",     "wait",   "join",    "end"};
  std::ostringstream out;
  out << lines << " lines, failures " << failures_most << (has_global_flush ? ", gpf" : "")
      << (has_poison ? ", poison" : "");
  for (std::size_t i = 0; i < incoherent.size(); ++i)
    out << (incoherent[i] ? ", line " + std::to_string(i) + " is incoherent" : "");
  for (std::size_t i = 0; i < homes.size(); ++i) out << ", line " << i << " is of " << homes[i];
  out << ", never fails";
  for (const bool never : never_fails) out << ' ' << never;
  out << '\n';
  for (const Thread& thread : threads) {
    out << "machine " << thread.machine << ":";
    for (const CxlOp& op : thread.ops) {
      out << ' ' << kNames[op.kind] << ' ' << op.word;
      if (op.kind == CxlOp::kStore) out << " halves " << op.halves;
      if (op.kind <= CxlOp::kFill || op.kind == CxlOp::kXchg || op.kind == CxlOp::kCas) out << " = " << op.value;
      if (op.is_loaded) out << "+r";
      if (op.kind == CxlOp::kCas) out << " if " << op.expected;
      out << ';';
    }
    out << '\n';
  }
  return out.str();
}

CxlProgram random_cxl_program(std::mt19937_64& random, const CxlShape& shape) {
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
  CxlProgram program;
  program.lines = 1 + below(shape.lines_most);
  program.machines = shape.machines;
  program.never_fails.resize(static_cast<std::size_t>(shape.machines));
  const int extra = below(shape.threads_most + 1);
  for (int m = 0; m < shape.machines; ++m) program.threads.push_back({m, {}});
  for (int i = 0; i < extra; ++i) program.threads.push_back({below(shape.machines), {}});
  const auto make_op = [&](const CxlProgram::Thread& thread, bool& holds) {
    CxlOp op{.kind = CxlOp::kStore, .word = below(2 * program.lines), .value = 1 + below(3)};
    const int kind = below(shape.has_sync ? 22 : 18);
    if (kind < 6) {
      if (!shape.has_rare) return op;
      if (kind == 0) op.kind = below(2) == 0 ? CxlOp::kStoreBoth : CxlOp::kNonTemporal;
      if (kind == 1 && below(3) == 0) op.kind = CxlOp::kFill;
      if (kind == 2) op.halves = 1 + below(2);
      if (op.kind == CxlOp::kStore) op.is_loaded = below(5) == 0;
    } else if (kind < 11) {
      op.kind = CxlOp::kLoad;
    } else if (kind < 13) {
      op.kind = CxlOp::kClflush;
    } else if (kind < 14) {
      op.kind = shape.has_clwb && below(2) == 0 ? CxlOp::kClwb : CxlOp::kClflushopt;
    } else if (kind < 16) {
      op.kind = below(2) == 0 ? CxlOp::kSfence : CxlOp::kMfence;
    } else if (kind < 18) {
      op.kind = below(2) == 0 ? CxlOp::kXchg : CxlOp::kCas;
      op.expected = below(3);
    } else if (kind < 21) {
      op = {.kind = holds ? CxlOp::kUnlock : CxlOp::kLock, .word = 0};
      holds = !holds;
    } else if (thread.machine > 0 &&
               !holds) {  // only for machines with lower numbers, and not with a lock: no deadlocks
      op = {.kind = CxlOp::kWaitMachine, .word = below(thread.machine)};
    } else {
      op.kind = CxlOp::kLoad;
    }
    return op;
  };
  std::vector<bool> has_end(static_cast<std::size_t>(shape.machines));
  for (CxlProgram::Thread& thread : program.threads) {
    bool holds = false;
    const int count = 1 + below(shape.ops_most);
    for (int i = 0; i < count; ++i) thread.ops.push_back(make_op(thread, holds));
    if (holds) thread.ops.push_back({.kind = CxlOp::kUnlock, .word = 0});
    if (!has_end[static_cast<std::size_t>(thread.machine)]) thread.ops.push_back({.kind = CxlOp::kEnd});
    has_end[static_cast<std::size_t>(thread.machine)] = true;
  }
  return program;
}

}  // namespace crashcut::tests
