// reference_model: the persistency rules a second time, by brute force, to test the first implementation against.
//
// Models: bytes, sets of events and their order; every set of events that is closed downwards is built, one by
//   one, and looked at. Slow on purpose, and shares no code, not even a header, with persist/ and fusefs/.
// Does not model: descriptors (calls name their file by path), metadata besides names and sizes, collapse
//   and insert range, O_DIRECT, threads, second crashes.
// Source: the `paper` profile is section 3 of PerSeVerE (Fig. 7 and PB-INIT to PB-ATOM); the `ext4` profile is the
//   list of rules beside Ext4Model in the .cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace crashcut::reference {

enum class Profile { kPaper, kExt4 };
enum class Data { kOrdered, kJournal, kWriteback };

struct Options {
  Profile profile = Profile::kPaper;
  Data data = Data::kOrdered;
  bool delalloc = true;
  bool auto_da_alloc = true;
  bool dioread_nolock = true;
  bool barrier = true;
  int sector = 1;
  int block = 2;
};
std::string to_text(const Options& options);

enum class Call {
  kOpen,           // O_CREAT
  kOpenTrunc,      // O_CREAT | O_TRUNC
  kWrite,          // pwrite of bytes at number
  kWriteSync,      // the same, O_SYNC
  kWriteDsync,     // the same, O_DSYNC
  kAppend,         // bytes
  kTruncate,       // to number
  kFallocate,      // length bytes from number on
  kFallocateKeep,  // the same with FALLOC_FL_KEEP_SIZE
  kPunchHole,      // the same with FALLOC_FL_PUNCH_HOLE and KEEP_SIZE
  kZeroRange,      // the same with FALLOC_FL_ZERO_RANGE
  kRename,         // path to other, files and directories
  kLink,           // path, new name other
  kUnlink,         //
  kMkdir,          //
  kRmdir,          //
  kFsync,          // of a file or a directory; "" is the root
  kFdatasync,      //
  kSync,           //
  kSyncFileRange,  // starts the writeback of the whole file
  kClose,          // of a writable description
  kBarrier,        // all so far is durable
  kMark,           // named by path
};

// One call. A call that the running system would refuse (no such file, name taken) does nothing.
struct Op {
  Call call;
  std::string path = {};   // "x" or "d/x"
  std::string other = {};  // the second name
  int number = 0;
  std::string bytes = {};
  int length = 0;
};
using Program = std::vector<Op>;
std::string to_text(const Op& op);
std::string to_text(const Program& program);

// What a recovery that looks at everything sees: each path with the contents of its file. A directory is "d/" with no
// contents; a mark that was reached is "!m".
using State = std::map<std::string, std::string>;
std::string to_text(const State& state);

struct Outcome {
  std::set<State> states;
  std::uint64_t cuts = 0;
  bool complete = true;             // false: more cuts than asked for, states are not all
  State running;                    // what the program itself sees at its end
  std::vector<std::string> events;  // in words, with what each persists after
};
Outcome run(const Options& options, const Program& program, std::uint64_t most_cuts = 200'000);

}  // namespace crashcut::reference
