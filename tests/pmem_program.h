// Small x86 programs for the tests of pmem/: as text, and at random.
//
// A memory of a few lines, of which three words each are used: bytes 0 to 15 and 56 to 63 of the line. So there are
// neighbours within a line and neighbours across two lines. Behind the persistent lines come words of ordinary memory.
// Addresses here are compact: 24 bytes a line. Every store fills all its bytes with one number.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace crashcut::tests {

struct PmemOp {
  enum Kind { kStore, kCopy, kNonTemporal, kLoad, kWait, kXchg, kCas, kMfence, kSfence, kClflush, kClflushopt, kMark };
  Kind kind;
  int address = 0;         // compact
  int bytes = 8;           // of stores and loads
  int value = 0;           // of a store, xchg and cas: the number that fills the bytes; of a mark: which
  int expected = 0;        // of a cas
  bool is_loaded = false;  // of a store: the value is the first byte that the last load saw, plus `value`
};

struct PmemProgram {
  static constexpr int kBytesPerLine = 24;

  int lines = 0;
  int dram_words = 0;
  int marks = 0;
  int atomic_bytes = 8;
  std::vector<std::vector<PmemOp>> threads;

  int persistent_bytes() const { return lines * kBytesPerLine; }
  int all_bytes() const { return persistent_bytes() + dram_words * 8; }
  bool is_persistent(int address) const { return address < persistent_bytes(); }
  static int line_of(int address) { return address / kBytesPerLine; }
  std::string to_text() const;
};

// The pieces in which a store leaves: compact addresses and numbers of bytes.
struct PmemPiece {
  int address, bytes;
};
std::vector<PmemPiece> pieces_of(const PmemProgram& program, const PmemOp& op);

// "x=1; clflush x || wait x; y=1". `layout` names the variables, one word each: blanks between lines, commas within a
// line, '@' before words of ordinary memory: "x,y z @flag". Operations: x=1, x=r+1 (r: the last load), nt x=1, xchg
// x,1, cas x,0,1, load x, wait x (for a number other than 0), wait x,2, copy x..y=1, mfence, sfence, clflush x,
// clflushopt x, mark 0.
struct PmemLayout {
  std::map<std::string, int> address;
};
PmemProgram parse_pmem_program(const std::string& layout, const std::string& text, PmemLayout* names = nullptr);

struct PmemShape {
  int threads = 1;
  int ops_max = 8;  // of a thread
  int lines_max = 3;
  int dram_words_max = 1;
  bool has_parts = true;  // stores and loads that are no whole words
  bool has_non_temporal = true;
  bool has_distinct_values = false;
  bool is_communicating = false;  // the second thread waits for a store of the first
};
PmemProgram random_pmem_program(std::mt19937_64& random, const PmemShape& shape);

// What a crash leaves: the persistent bytes, then how often each mark was reached.
using PmemOutcome = std::string;

}  // namespace crashcut::tests
