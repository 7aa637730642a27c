// The brute-force oracle of the drive: every state that a power failure can leave of a small request log.
//
// It follows the prose of blocklayer/drive.h and shares no code with it: for each moment at which the power can fail,
//   each subset of sectors that each write can leave, each order that writes in flight at the same time can have had,
//   each write that went elsewhere, each set of bad sectors. Exponential in everything.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace crashcut::tests {

struct OracleRequest {
  enum class Kind { kWrite, kZero, kDiscard, kFlush } kind = Kind::kWrite;
  int first = 0;
  int count = 0;
  bool is_fua = false;
  bool is_buffered = false;
  int value = 0;  // what a write writes; 0 is zeroes
};

// What happened, in order: a request was issued or completed, the program made a mark, all so far became durable.
struct OracleStep {
  enum class Kind { kIssue, kComplete, kMark, kDurable } kind;
  int request = 0;  // its index; of a mark: its number
};

struct OracleDrive {
  enum class Cache { kVolatile, kNone, kLies } cache = Cache::kVolatile;
  enum class Tear { kAny, kPrefix, kNone } tear = Tear::kAny;
  int atomic_sectors = 1;
  int boundary_sectors = 0;
  int faults = 0;
  bool has_bad_written = true, has_bad_any = false, has_misdirected = false,
       has_misdirected_any = false;  // the kinds of faults
};

inline constexpr int kUnreadable = -1, kGarbage = -2;

// One value a sector, then 1 or 0 a mark: whether the power failed after it.
using OracleImage = std::vector<int>;

std::set<OracleImage> all_images(const OracleDrive& drive, const std::vector<OracleRequest>& requests,
                                 const std::vector<OracleStep>& steps, int sector_count, int mark_count);

}  // namespace crashcut::tests
