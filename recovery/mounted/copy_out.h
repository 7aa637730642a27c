// A filesystem of the model as a plain tree on the real disk.
#pragma once

#include <string>

#include "fusefs/filesystem.h"

namespace crashcut::mounted {

// Makes `directory` and everything in it: names, hard links, contents, modes, symbolic links, times. Owners only as
// root. Returns a sentence about the first thing that could not be made, or nothing.
std::string copy_out(fusefs::Filesystem& filesystem, const std::string& directory);

}  // namespace crashcut::mounted
