// Histories: the versions of files, in the order in which the program made them.
//
// A version of a path is what it held
//   - at the start, at each promise and at the end, whatever that was;
//   - when a rename, a link, a symlink, a mkdir or a mknod put something there;
//   - when the file was fsynced, written with O_SYNC or O_DSYNC, or when there was a sync;
//   - when the file was closed after it was written, made or cut, and nobody else was still writing to it.
// No version: what a file holds between two writes; a name that is gone; an empty file that had contents before and was
//   only closed, as it is about to be filled again; where the program was killed, what the kill closed or left.
// A promise is a mark that the program made itself or its successful exit.
//
// Memory: versions are known by the digests of their pieces, and a piece that did not change costs nothing. The
//   bytes of pieces are kept only where an expectation compares bytes; a piece that is only appended to is kept once.
// Threads: read-only once made.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "fusefs/profile.h"
#include "fusefs/trace.h"
#include "fusefs/trace_replay.h"
#include "recovery/mounted/versions.h"

namespace crashcut::mounted {

// Files are compared in pieces of so many bytes.
inline constexpr std::size_t kPieceBytes = 4096;
std::uint64_t digest_of(std::string_view bytes);

struct FileState {
  mode_t type = 0;                // S_IFMT bits; 0: there is no such file
  std::uint64_t size = 0;         // of a regular file
  std::uint64_t digest = 0;       // of a regular file's contents, of a symbolic link's target
  std::vector<fusefs::Ino> inos;  // of the files that the path named in this state
  std::uint64_t operation = 0;    // that made it a version
  std::string after;              // the same in words
  std::string mark;               // the first promise that was made in this state

  bool exists() const { return type != 0; }
  bool is_same(const FileState& other) const {
    return type == other.type && size == other.size && digest == other.digest;
  }
};

// The versions of one path: the start first, the newest last. Neighbours differ.
class FileHistory {
 public:
  const std::vector<FileState>& states() const { return states_; }
  // The version at an operation.
  std::size_t state_at(std::uint64_t operation) const;
  // Whether a piece of a version, which is a regular file of at least that length, has this digest.
  bool has_piece(std::size_t state, std::uint64_t index, std::uint64_t digest) const;
  // Its bytes, where they are kept.
  std::string_view piece(std::size_t state, std::uint64_t index) const;
  // All bytes that any version has in this piece, each once.
  std::vector<std::string_view> pieces_at(std::uint64_t index) const;

 private:
  friend class HistoryWalk;
  struct Piece {
    std::uint32_t state;  // from this version on
    std::uint64_t digest;
    std::uint32_t bytes = 0;  // into PieceHistory::bytes
    std::uint32_t length = 0;
  };
  struct PieceHistory {
    std::vector<Piece> pieces;
    std::vector<std::string> bytes;
  };
  const Piece* find_piece(std::size_t state, std::uint64_t index) const;

  std::vector<FileState> states_;
  std::vector<PieceHistory> pieces_;  // by index
};

struct Promise {
  std::string mark;
  std::uint64_t operation;
};

struct Histories {
  std::vector<Promise> promises;
  std::map<std::string, FileHistory> files;
  bool was_stopped = false;  // the program was killed: its end promises nothing
};

// `geometry` is the model's. Bytes are kept where `keeps_bytes`. The error is a sentence; a file that is too large to
// be compared is one.
tl::expected<Histories, fusefs::ReplayError> histories_of(const fusefs::TraceReader& trace,
                                                          const fusefs::ModelOptions& geometry,
                                                          const std::set<std::string>& paths, bool keeps_bytes,
                                                          const fusefs::ReplayLimits& limits = {});

// The paths that can be asked about: of every file and directory that was there at the start, at a promise or at the
// end.
struct KnownPaths {
  std::set<std::string> all;
  std::map<std::string, FileVersion> start, end;  // without contents, but for symbolic links
  bool was_stopped = false;
  bool changes_something = false;  // since the start
};
tl::expected<KnownPaths, fusefs::ReplayError> known_paths_of(const fusefs::TraceReader& trace,
                                                             const fusefs::ModelOptions& geometry,
                                                             const fusefs::ReplayLimits& limits = {});

}  // namespace crashcut::mounted
