// Expectations: what must hold of files after any crash, without a checker of the user's own.
//
// Each file is a question of its own, explored alone: that two files are each whole does not depend on reading them
//   in one recovery, and the states of one need not be multiplied by those of the other.
// A file is read only as far as the answer needs: its name, its size, its bytes until no version is left.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "fusefs/crash_view.h"
#include "recovery/mounted/versions.h"

namespace crashcut::mounted {

enum class Expect { kNoEmpty, kNoMissing, kNoGarbage, kPrefix };
tl::expected<Expect, std::string> parse_expect(std::string_view text);
std::string_view to_text(Expect expect);

// How a recovery ended.
enum class Finding {
  kFine,
  kLost,          // neither version can be found whole
  kNotDurable,    // a promise was made, and the version before it is back
  kUnexpected,    // --expect
  kCheckFailed,   // the checker said no
  kCheckHung,     // it did not end in time
  kAssumedAway,   // crashcut_assume()
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
  bool whole = true;    // the old or the new version, nothing else
  bool durable = true;  // and the new one after a promise
  std::set<Expect> expects;
};

// `versions` are versions_of() the recording that `view` and `filesystem` show.
Answer ask(const FileQuestion& question, const std::vector<Version>& versions, fusefs::CrashView& view,
           fusefs::Filesystem& filesystem);

// Every file of any version, for --tree: those that no version has are nobody's loss.
std::vector<std::string> all_files(const std::vector<Version>& versions);

}  // namespace crashcut::mounted
