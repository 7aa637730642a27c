// Expectations: what must hold of files after any crash, without a checker of the user's own.
//
// Each file is a question of its own, explored alone: that two files are each whole does not depend on reading them
//   in one recovery, and the states of one need not be multiplied by those of the other.
// A file is read only as far as the answer needs: its name, its size, its bytes until no version is left.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "fusefs/crash_view.h"
#include "fusefs/trace_bytes.h"
#include "recovery/mounted/histories.h"

namespace crashcut::mounted {

enum class Expect { kNoEmpty, kNoMissing, kNoGarbage, kPrefix };
tl::expected<Expect, std::string> parse_expect(std::string_view text);
std::string_view to_text(Expect expect);

// How a recovery ended.
enum class Finding {
  kFine,
  kLost,         // no version can be found whole
  kNotDurable,   // a promise was made, and a version before it is back
  kUnexpected,   // --expect
  kCheckFailed,  // the checker said no
  kCheckHung,    // it did not end in time
  kAssumedAway,  // crashcut_assume()
};
inline bool is_violation(Finding finding) { return finding != Finding::kFine && finding != Finding::kAssumedAway; }
std::string_view to_text(Finding finding);  // "lost", "not durable", ...

struct Answer {
  Finding finding = Finding::kFine;
  std::string outcome;  // "notes.txt is empty": two recoveries of equal words are one outcome
  std::string promise;  // kNotDurable: the mark
};

// What is asked of one file.
struct FileQuestion {
  std::string path;
  std::vector<std::string> backups;
  bool whole = true;    // some version, nothing else
  bool durable = true;  // and after a promise none that is older
  std::set<Expect> expects;
};

// A crashed disk as the questions see it: one of the model, or one that the kernel mounted.
class AskedDisk {
 public:
  struct File {
    mode_t type = 0;    // S_IFMT bits; 0: there is no such file
    fusefs::Ino ino{};  // as the histories number files; 0 if they do not know this disk's numbers
  };
  virtual ~AskedDisk() = default;
  // Symbolic links on the way are not followed. What is read next is of the file that was found last.
  virtual File find(const std::string& path) = 0;
  virtual std::uint64_t size() = 0;
  virtual std::string target() = 0;
  // Less than `length` bytes at the end of the file, and where it cannot be read.
  virtual std::string read(std::uint64_t offset, std::size_t length) = 0;
  // Whether the program had made the mark when the power failed.
  virtual bool reached(const std::string& mark) = 0;
};

// `histories` are those of the program that left the disk, with the question's path among them.
Answer ask(const FileQuestion& question, const Histories& histories, AskedDisk& disk,
           const std::atomic<bool>* stop = nullptr);
// The same on a crash of the model. `trace` has the bytes that were written: null if they are not mapped.
Answer ask(const FileQuestion& question, const Histories& histories, fusefs::CrashView& view,
           fusefs::Filesystem& filesystem, const fusefs::TraceBytes* trace, const std::atomic<bool>* stop);
// ask() throws it once `stop` is set: a large file takes a while to read.
struct QuestionStopped {};
// Whether the file is the version that the program left at its end, whole.
bool is_newest(const FileQuestion& question, const Histories& histories, AskedDisk& disk);
// Whether the histories must keep bytes for it.
bool compares_bytes(const FileQuestion& question);

}  // namespace crashcut::mounted
