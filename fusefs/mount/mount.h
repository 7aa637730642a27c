// Mount: a Filesystem at a place in the real directory tree, for any program: the FUSE front end.
//
// What is mounted stays; what it shows can be switched (show()): each crash state is a new generation of inodes, so
//   nothing that the kernel remembers of one state is taken for another's.
// Two ways to talk to the kernel:
//   kKept     names, attributes and pages stay in the kernel's caches: fast, for the program that is recorded.
//   kNothing  every question comes here, in the bytes that were asked for (direct I/O, no readahead, attributes only
//             when somebody asks for them), because on a crashed disk every answer is a decision.
// Requests are handled in the order in which the kernel sent them: closing a file is not waited for (RELEASE), and a
//   rename that overtook it would be another history.
// Stores to shared mappings reach us when the kernel writes pages back. Once note_shared_mapping() was called, dirty
//   pages are fetched before every operation whose place in the order matters.
// What the kernel's FUSE cannot do, or does not tell: COLLAPSE_RANGE, INSERT_RANGE and RENAME_WHITEOUT are refused;
//   the address of a buffer for O_DIRECT may be misaligned; what goes through a fifo does not change its times; a
//   store to a mapping changes times when it is fetched; chown() to nobody takes a stranger's setuid bits away.
//   With kNothing too: the offset of a descriptor that has appended may be wrong (the bytes are not); a user may go
//   through "." and ".." of a directory that is not his to search, and open a fifo that is not his (both unless the
//   kernel checks permissions); stores to shared mappings that were not written back when show() is called are lost.
// A read changes no atime (noatime).
// Threads: several serve the kernel; all other calls from any thread but a handler's own.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "fusefs/filesystem.h"
#include "fusefs/traced.h"

namespace crashcut::fusefs {

// A file in the hidden directory .crashcut of the root: not on the disk, not listed, not crashed.
struct SpecialFile {
  std::string name;
  std::function<std::string()> content;            // at the first read of each open; none: nothing to read
  std::function<void(std::string_view)> on_write;  // none: EACCES
};

// What a mount shows.
struct Volume {
  Filesystem& filesystem;
  Traced& changes;
  std::vector<SpecialFile> special_files;
};

// Which calls of the program led to the request that a thread waits for. `is_without`: it is known, without a look at
// the thread's memory, that there is nothing to tell of it.
class CallerStack {
 public:
  virtual ~CallerStack() = default;
  virtual CodeStack of(pid_t thread) = 0;
  virtual bool is_without(pid_t thread) = 0;
  // Of a write with O_DIRECT. A thread need not wait for those that it has submitted (libaio): then it is another call
  // that it waits in, and nothing is told.
  virtual CodeStack of_direct_write(pid_t thread, std::uint64_t offset, std::uint64_t bytes) = 0;
};

inline constexpr std::string_view kSpecialDirectory = ".crashcut";

class Mount {
 public:
  enum class Caching { kKept, kNothing };
  struct Setup {
    std::string directory;  // exists
    Caching caching = Caching::kKept;
    // With kKept it does. It reads all attributes of a file for that, where we read only what permissions depend on;
    // but it opens a FIFO or a device without asking us, so without this those are open to all.
    bool kernel_checks_permissions = false;
    bool allow_others = false;            // other users than the one who mounts; only root may
    CallerStack* caller_stack = nullptr;  // asked for each change, while its thread waits; may be none
    bool auto_unmount = false;  // a watcher (fusermount3) unmounts when this process dies; others may unmount it too
  };

  // The error is a sentence.
  static tl::expected<std::unique_ptr<Mount>, std::string> start(const Setup& setup, Volume& volume);
  // Unmounts, also when files are still open.
  ~Mount();
  // Unmounts what processes that were killed have left at our own directory. Allocates nothing.
  static void remove_leftover(const char* directory);

  // From now on the mount shows `volume`, which outlives that. Files that are open fail with ESTALE
  // when the kernel asks for something. With kKept this needs Linux 6.16 or later: before, the kernel keeps old names
  // for as long as it likes.
  void show(Volume& volume);
  // Runs `action` while no request is handled, and after all that were made before this call: nobody waits for the
  // closing of a file, which may still be on its way.
  void while_quiet(const std::function<void(Volume&)>& action);

  void note_shared_mapping();
  // Fetches what was stored to shared mappings. Does nothing where there are none.
  void fetch_mapped_stores();

  dev_t device() const;
  // How many requests the kernel has made.
  std::uint64_t request_count() const;
  // With kNothing: whether a read came in pages and not in the bytes that were asked for: through a mapping, execve(),
  // sendfile() or splice(). Stays so.
  bool was_read_by_pages() const;
  // Whether somebody else unmounted it.
  bool is_gone() const;

  struct Server;

 private:
  explicit Mount(std::unique_ptr<Server> server);
  void wait_until_gone();
  std::unique_ptr<Server> server_;
};

}  // namespace crashcut::fusefs
