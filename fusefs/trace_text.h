// TraceText: the operations of a trace in words, by the names that files had at that moment.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusefs/filesystem.h"
#include "fusefs/trace.h"

namespace crashcut::fusefs {

// One operation, without who did it: "write(notes.txt, 25 bytes at 0)". `path_of` names the inodes.
std::string call_text(const TraceOp& op, const std::function<std::string(Ino)>& path_of);

class TraceText {
 public:
  // `filesystem` is the one that the operations are about to be done on.
  TraceText(const std::vector<TraceProcess>& processes, Filesystem& filesystem);

  // "write(notes.txt, 25 bytes at 0)"; "nano: write(...)" where several processes took part.
  // To be called once for each operation, in order, before it is done: the names follow.
  std::string describe(const TraceOp& op);

 private:
  struct Name {
    Ino dir{};
    std::string name;
    bool is_removed = false;
  };
  std::string path(Ino ino) const;
  void follow(const TraceOp& op);
  void set_name(Ino ino, Ino dir, std::string_view name);
  void remove_name(Ino dir, std::string_view name);
  Ino lookup(Ino dir, std::string_view name) const;

  const std::vector<TraceProcess>& processes_;
  Filesystem& filesystem_;
  std::unordered_map<std::uint64_t, Name> names_;  // by inode: the name it was made with or moved to
};

}  // namespace crashcut::fusefs
