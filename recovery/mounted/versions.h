// Versions: marks, and what a filesystem holds.
//
// A promise is a mark that the program made itself or its successful exit; the lines that it printed are marks too,
//   but promise nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fusefs/filesystem.h"
#include "fusefs/recording.h"

namespace crashcut::mounted {

// The mark of a program that ended with status 0.
inline constexpr std::string_view kExitMark = "exit";
// "stdout 12: text" is the mark of the 12th line.
inline constexpr std::string_view kLinePrefix = "stdout ";

bool is_promise(std::string_view mark);

// Larger files are not read.
inline constexpr std::uint64_t kComparedBytesMost = std::uint64_t{1} << 30;

struct FileVersion {
  mode_t type = 0;         // S_IFMT bits; 0: there is no such file
  std::uint64_t size = 0;  // of a file
  std::string content;     // of a file, where it was read; a symbolic link's target

  bool exists() const { return type != 0; }
  bool operator==(const FileVersion&) const = default;
};

// Everything that a directory holds, by path without a leading slash, directories too; read in an order that does not
// depend on it. Contents are those of the files that `reads` says yes to.
using Reads = std::function<bool(const std::string& path)>;
std::map<std::string, FileVersion> files_of(fusefs::Filesystem& filesystem, const Reads& reads,
                                            fusefs::Ino directory = fusefs::kRootIno);
inline bool reads_all(const std::string&) { return true; }

// The inode of a path, or a negative errno. Symbolic links on the way are not followed.
fusefs::Errno find_path(fusefs::Filesystem& filesystem, std::string_view path, fusefs::Ino& out);

}  // namespace crashcut::mounted
