// Mounted: filesystems of ours at a directory, served by a child process, for tests that are its clients.
//
// A process that waits on its own mount cannot be killed, so the server is another one. It ends, and unmounts, when
//   it is told to and when the test is gone.
// Threads: the constructor forks; the rest from one thread at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusefs/mount/mount.h"

namespace crashcut::tests {

// Why there can be no mount here; empty where there can.
std::string why_no_mount();

// What a disk holds at first, and a Medium that tells what it was asked.
class ListedDisk : public fusefs::Medium {
 public:
  struct File {
    std::string content;
    mode_t mode = S_IFREG | 0644;
    uid_t uid = 0;
    gid_t gid = 0;
  };
  // By path: "a", "d", "d/b". Directories come before what they hold.
  explicit ListedDisk(const std::map<std::string, File>& files);

  fusefs::Ino lookup(fusefs::Ino dir, std::string_view name) override;
  std::vector<std::string> possible_names(fusefs::Ino dir) override;
  mode_t type(fusefs::Ino ino) override;
  std::uint64_t size(fusefs::Ino ino) override;
  fusefs::Meta meta(fusefs::Ino ino) override;
  fusefs::Owner owner(fusefs::Ino ino) override;
  bool is_written(fusefs::Ino ino, std::uint64_t block) override;
  void read_bytes(fusefs::Ino ino, std::uint64_t offset, std::span<std::byte> out) override;
  fusefs::Ino first_free_ino() override;

  // The questions since the last time, a line each: "lookup . a", "size a", "bytes a 0 3".
  std::string take_log() { return std::exchange(log_, {}); }

 private:
  struct Inode {
    std::string path;
    File file;
    std::map<std::string, fusefs::Ino, std::less<>> names;
  };
  Inode& at(fusefs::Ino ino) { return inodes_.at(static_cast<std::uint64_t>(ino)); }

  std::map<std::uint64_t, Inode> inodes_;
  std::string log_;
};

class Mounted {
 public:
  struct Setup {
    fusefs::Mount::Caching caching = fusefs::Mount::Caching::kKept;
    // Each is a volume; show() switches. None: one empty disk whose operations are traced.
    std::vector<std::map<std::string, ListedDisk::File>> disks;
    bool has_special_files = false;  // "hello" to read, "note" to write; "note" is read back too
    std::uint64_t capacity_bytes = std::uint64_t{1} << 34;
    bool is_traced = true;
  };
  // Fails the test where it does not work.
  explicit Mounted(const Setup& setup);
  ~Mounted();
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  const std::string& directory() const { return directory_; }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  void show(std::size_t volume);
  void note_shared_mapping();
  bool was_read_by_pages();
  std::uint64_t request_count();
  std::string take_log();  // of the disk that is shown

  std::string trace_path() const { return base_ + "/trace"; }
  // As kill -9 does; the mount stays, and nothing answers there.
  void kill_server();
  // Unmounts, and gives the operations of the trace in words.
  std::vector<std::string> finish();

 private:
  std::string ask(const std::string& question);
  [[noreturn]] void serve(const Setup& setup, int channel);

  std::string base_;
  std::string directory_;
  pid_t server_ = -1;
  int channel_ = -1;
};

}  // namespace crashcut::tests
