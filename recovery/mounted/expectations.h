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

// `histories` are those of the trace that `view` and `filesystem` show, with the question's path among them.
Answer ask(const FileQuestion& question, const Histories& histories, fusefs::CrashView& view,
           fusefs::Filesystem& filesystem, const std::atomic<bool>* stop = nullptr);
// ask() throws it once `stop` is set: a large file takes a while to read.
struct QuestionStopped {};
// Whether the histories must keep bytes for it.
bool compares_bytes(const FileQuestion& question);

}  // namespace crashcut::mounted
