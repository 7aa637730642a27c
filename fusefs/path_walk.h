// PathWalk: from a path to an inode, or to a name in a directory, or out of the filesystem.
//
// Models: "." and "..", trailing slashes, symlinks (40 at most), search permission, PATH_MAX. Does not model: mounts
//   inside the tree, RESOLVE_* flags. Source: path_resolution(7), link_path_walk() in fs/namei.c.
// Invariant: looks up only the names that the kernel would; each may be a decision about a crashed disk.
// Threads: the caller serialises.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fusefs/access.h"
#include "fusefs/filesystem.h"

namespace crashcut::fusefs {

enum class LastComponent { kName, kDot, kDotDot, kRoot };

// What a path leads to: its last component, in a directory.
struct Place {
  Ino dir = kNoIno;
  std::string name;  // if last is kName
  LastComponent last = LastComponent::kRoot;
  bool slash = false;  // slashes follow the last component
  Ino ino = kNoIno;    // resolve(): kNoIno if the directory has no such name
};

class PathWalk {
 public:
  struct Mode {
    bool follow = true;   // a symlink as the last component
    bool create = false;  // open() with O_CREAT: a trailing slash is EISDIR
  };

  // `root` is the absolute path of the filesystem in the real system.
  PathWalk(Filesystem& filesystem, const Access& access, std::string_view root);

  // A relative path begins at `start`, which is kNoIno if the working directory is outside. Each returns 0, a negative
  // errno or kOutside.
  Errno find_parent(Ino start, std::string_view path, Place& out);  // does not look up the last component
  Errno resolve(Ino start, std::string_view path, Mode mode, Place& out);
  Errno find(Ino start, std::string_view path, bool follow, Ino& out);  // resolve(), and the name must exist

  // Where the last path that was kOutside leads.
  const std::string& outside() const { return outside_; }

  // `ino` is now under that name: for path_of(), so only directories matter.
  void note(const Place& place, Ino ino);
  // The absolute path of a directory; empty if it was removed.
  std::string path_of(Ino dir);

 private:
  struct Step {
    Place place;  // dir: where the walk is
    std::string rest;
    int links = 0;
  };
  struct DirName {
    Ino parent;
    std::string name;
  };

  Errno begin(Ino start, std::string_view path, Step& step);
  Errno enter(std::string path, Step& step);
  Errno walk_to_last(Step& step);
  Errno pass(Step& step);
  Errno look_up_last(Mode mode, Step& step, bool& ended);
  Errno climb(Step& step);
  Errno follow(Ino link, Step& step);
  bool find_name(Ino parent, Ino dir, std::string& out);

  Filesystem& filesystem_;
  const Access& access_;
  std::vector<std::string> root_;  // components
  std::string outside_;
  // Under which name each directory was met. A hint for path_of(), which would otherwise have to read whole
  // directories, and so decide about names that the program never asked for.
  std::unordered_map<Ino, DirName> names_;
};

}  // namespace crashcut::fusefs
