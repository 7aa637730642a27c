// RecordingDisk: a disk image served as a file by FUSE, and the log of what was done to it.
//
// A loop device stands on the file. The log has every write in the order in which the device made it, and where the
//   device flushed its cache. A prefix of the log is what a drive without reordering holds when the power goes.
// Does not model: a drive that writes in another order between two flushes.
// A second file, `mark`, takes marks into the same log, from any process that writes to it.
// Threads: the file is served by a thread of its own; the log is read when nothing is mounted on it any more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace crashcut::tests {

class RecordingDisk {
 public:
  struct Entry {
    enum class Kind { kWrite, kFlush, kMark } kind;
    std::uint64_t offset = 0;
    std::string bytes = {};  // of a write; the text of a mark
  };

  // Mounts at `directory`, which exists. Null where FUSE is not to be had.
  static std::unique_ptr<RecordingDisk> serve(const std::filesystem::path& directory, std::uint64_t bytes);
  ~RecordingDisk();

  std::filesystem::path disk() const;
  std::filesystem::path mark() const;
  // The disk holds `image` and the log is empty.
  void reset(const std::string& image);
  std::vector<Entry> take_log();

 private:
  struct Server;
  friend struct Handlers;  // of libfuse
  explicit RecordingDisk(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace crashcut::tests
