// Trees onto a disk of the model, through its trace.
#pragma once

#include <string>

#include "fusefs/filesystem.h"
#include "fusefs/traced.h"

namespace crashcut::mounted {

// A real directory's contents. Returns a sentence about the first thing that could not be read, or nothing.
std::string copy_in(const std::string& directory, fusefs::Traced& changes);
// Another disk's, attributes and hard links too.
std::string copy_disk(fusefs::Filesystem& from, fusefs::Traced& changes);

}  // namespace crashcut::mounted
