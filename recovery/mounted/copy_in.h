// Trees onto a disk of the model, through its trace.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "fusefs/filesystem.h"
#include "fusefs/traced.h"

namespace crashcut::mounted {

struct CopyProgress {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};
struct CopyOptions {
  std::set<std::string> left_out;                        // paths below the directory, as it is named
  std::optional<fusefs::Credentials> owner;              // of everything; none: as it is
  std::function<void(const CopyProgress&)> on_progress;  // may be empty
};
// A real directory's contents, with attributes, xattrs, hard links and holes. Returns a sentence about the first thing
// that could not be read, or nothing.
std::string copy_in(const std::string& directory, fusefs::Traced& changes, const CopyOptions& options = {});
// Another disk's, attributes and hard links too.
std::string copy_disk(fusefs::Filesystem& from, fusefs::Traced& changes);

}  // namespace crashcut::mounted
