// The inside of Mount: one FUSE session and what it serves.
#pragma once

#include <fuse_lowlevel.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "fusefs/access.h"
#include "fusefs/mount/mount.h"
#include "fusefs/mount/nodes.h"
#include "fusefs/mount/own_calls.h"

struct fuse_in_header;
struct fuse_write_in;

namespace crashcut::fusefs {

// An open description, from OPEN to RELEASE. Its address is the handle that the kernel keeps.
struct OpenFile {
  std::uint64_t generation;
  Ino ino;
  bool is_writable = false;
  Traced::Writer writer{};  // where it is writable
  // An O_SYNC write of this thread was handled whole with its range; the fsync that the kernel sends after it says
  // nothing new. 0: none was. (None comes after libaio's; then the thread's own next one is taken for it.)
  pid_t synced_by = 0;
  std::optional<std::size_t> special;  // index of the special file
  std::optional<std::string> content;  // of a special file, once it was read
};

struct Mount::Server {
  Setup setup;
  fuse_session* session = nullptr;
  std::unique_ptr<OwnCalls> own_calls;
  dev_t device = 0;

  // Guards everything below it, the volume too. One request at a time: the model has one history.
  std::mutex mutex;
  Volume* volume = nullptr;
  Nodes nodes;
  std::unordered_set<Ino> lost_names;  // files of this volume of which a name went
  // The kernel says when it closes one, but for those that are open when the mount ends.
  std::unordered_map<std::uint64_t, std::unique_ptr<OpenFile>> open_files;  // by fuse_file_info::fh
  struct Command {
    std::string name;
    timespec asked;  // when the name was looked up
  };
  std::unordered_map<pid_t, Command> commands;  // of processes

  std::atomic<bool> has_shared_mappings = false;
  std::atomic<bool> is_stopping = false;
  std::atomic<bool> was_read_by_pages = false;
  std::atomic<std::uint64_t> request_count = 0;
  std::uint64_t init_unique = 0;  // of the request whose answer is amended

  // Requests that were read while forgets were looked for, in their order. Only the thread that reads requests has it.
  std::deque<fuse_buf> received;

  std::mutex threads_mutex;
  std::condition_variable threads_changed;
  int thread_count = 0;
  bool is_gone = false;

  bool keeps_caches() const { return setup.caching == Caching::kKept; }

  // Reads requests and handles them, until the mount is gone or another thread took over.
  void serve();
  void start_thread();
  // The next request, into `buffer`; 0 or less: there is none.
  int receive(fuse_buf& buffer);
  void handle(fuse_buf& request);
  // The kernel has a queue of its own for FORGET, and reads up to eight later requests before it. A file that has lost
  // its last name is gone when the kernel forgets it, so every FORGET that was sent is handled before a request is.
  void handle_forgets();
  // Whether it is the destructor that asks.
  bool is_stop_request(const fuse_buf& request) const;
  // The handler that calls this will wait for other requests: somebody else must read them.
  void let_another_thread_read();

  // Stores to shared mappings come before the change that a handler is about to make.
  void fetch_before_change();

  // The calls that led to a request, for set_process(). Before `mutex` is taken.
  void find_stack(const fuse_in_header& header);

  // What the handlers share. All under `mutex`.
  void set_process(pid_t pid);
  const std::string& command_of(pid_t pid);
  Access access_of(const fuse_ctx& context);
  Access access_of(fuse_req_t req) { return access_of(*fuse_req_ctx(req)); }
  // The caller as it is, groups too: these are looked up in /proc, so only where somebody must know.
  Credentials caller_of(const fuse_ctx& context);
  // A writer without privileges takes the setuid and setgid bits away: ours to do (HANDLE_KILLPRIV_V2).
  void kill_privileges(const fuse_ctx& context, Ino ino);
  // The inode behind a number, or -ESTALE.
  Errno find(fuse_ino_t node, Ino& ino) const;
  Errno fill_entry(fuse_req_t req, Ino ino, fuse_entry_param& out);
  double timeout() const;
  // Before the last name of an inode may go.
  void hold(Ino ino);
  bool has_no_name_left(Ino ino);
  // An open description of `ino`, as OPEN and CREATE answer it.
  void open(Ino ino, fuse_file_info& info, Traced::Writer writer = {});
  void keep_open(OpenFile file, fuse_file_info& info);

  // Answers what does not go through the library: FUSE_TMPFILE, which it does not know, and FUSE_WRITE, where its
  // share of the time is felt.
  bool handle_raw(const fuse_buf& request);
  void handle_tmpfile(const fuse_in_header& header);
  void handle_write(const fuse_in_header& header);
  std::int64_t write(const fuse_in_header& header, const fuse_write_in& wanted, const char* bytes);
};

inline Mount::Server& server_of(fuse_req_t req) { return *static_cast<Mount::Server*>(fuse_req_userdata(req)); }
inline OpenFile& file_of(const fuse_file_info* info) { return *reinterpret_cast<OpenFile*>(info->fh); }

// The table of handlers.
const fuse_lowlevel_ops& operations();
// Those of handlers_files.cc.
void add_file_operations(fuse_lowlevel_ops& table);

}  // namespace crashcut::fusefs
