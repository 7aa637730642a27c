// Requests about names, inodes and directories.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "fusefs/mount/server.h"

namespace crashcut::fusefs {

namespace {
constexpr std::uint64_t kUnknownSize = std::uint64_t{1} << 44;  // no file is larger
}  // namespace

// ---- what the handlers share ----------------------------------------------------------------------------------------

const std::string& Mount::Server::command_of(pid_t pid) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  auto& [command, asked] = commands[pid];
  const long age_ms = (now.tv_sec - asked.tv_sec) * 1000 + (now.tv_nsec - asked.tv_nsec) / 1'000'000;
  if (!command.empty() && age_ms < 20) return command;  // long enough to be cheap, short enough for an exec
  asked = now;
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/comm", pid);
  std::array<char, 64> text{};
  if (FILE* file = std::fopen(path.data(), "re")) {
    if (std::fgets(text.data(), text.size(), file)) text[std::strcspn(text.data(), "\n")] = 0;
    std::fclose(file);
  }
  if (text[0] != 0) command = text.data();
  return command;
}

namespace {

thread_local CodeStack t_stack;  // of the request that is being handled

bool is_change(const fuse_in_header& header) {
  switch (header.opcode) {
    case FUSE_SETATTR:
    case FUSE_SYMLINK:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
    case FUSE_RENAME:
    case FUSE_RENAME2:
    case FUSE_LINK:
    case FUSE_WRITE:
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_SETXATTR:
    case FUSE_REMOVEXATTR:
    case FUSE_CREATE:
    case FUSE_TMPFILE:
    case FUSE_FALLOCATE:
    case FUSE_COPY_FILE_RANGE:
      return true;
    case FUSE_OPEN:
      return header.len >= sizeof header + sizeof(fuse_open_in) &&
             (reinterpret_cast<const fuse_open_in*>(&header + 1)->flags & O_TRUNC) != 0;
    default:
      return false;
  }
}

}  // namespace

// To look at a process' memory may have to wait for another of its threads, which holds its map while it waits for an
// answer about a mapped page: somebody else must give it.
void Mount::Server::find_stack(const fuse_in_header& header) {
  t_stack.clear();
  const auto thread = static_cast<pid_t>(header.pid);
  if (setup.caller_stack == nullptr || thread == 0 || !is_change(header)) return;
  if (has_shared_mappings) {
    if (setup.caller_stack->is_without(thread)) return;
    let_another_thread_read();
  }
  const auto* write = header.opcode == FUSE_WRITE && header.len >= sizeof header + sizeof(fuse_write_in)
                          ? reinterpret_cast<const fuse_write_in*>(&header + 1)
                          : nullptr;
  const bool is_direct = write != nullptr && (write->flags & O_DIRECT) != 0;
  t_stack = is_direct ? setup.caller_stack->of_direct_write(thread, write->offset, write->size)
                      : setup.caller_stack->of(thread);
}

void Mount::Server::set_process(pid_t pid) {
  if (!volume->changes.names_processes()) return;
  volume->changes.set_process(pid, command_of(pid));
  volume->changes.set_stack(std::move(t_stack));
}

Credentials Mount::Server::caller_of(const fuse_ctx& context) {
  Credentials who{context.uid, context.gid, {}};
  std::ifstream status("/proc/" + std::to_string(context.pid) + "/status");
  constexpr std::string_view kGroups = "Groups:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kGroups)) continue;
    std::istringstream numbers(line.substr(kGroups.size()));
    for (gid_t group; numbers >> group;) who.groups.push_back(group);
  }
  return who;
}

Access Mount::Server::access_of(const fuse_ctx& context) {
  // The kernel has looked already where it keeps attributes, and uid 0 may do everything.
  if (keeps_caches() || context.uid == 0) return Access(volume->filesystem, Credentials{}, {});
  return Access(volume->filesystem, caller_of(context), {});
}

void Mount::Server::kill_privileges(const fuse_ctx& context, Ino ino) {
  if (context.uid == 0) return;
  Owner now;
  if (volume->filesystem.get_owner(ino, now) != 0 || !(now.mode & (S_ISUID | S_ISGID))) return;
  const Access who(volume->filesystem, caller_of(context), {});
  if (const mode_t lost = who.lost_privileges(now)) {
    volume->changes.setattr(ino, AttrChange{.mode = (now.mode & 07777) & ~lost});
  }
}

Errno Mount::Server::find(fuse_ino_t node, Ino& ino) const {
  if (!nodes.is_current(node)) return -ESTALE;
  if (nodes.is_special(node)) return -EPERM;
  ino = nodes.ino_of(node);
  return 0;
}

double Mount::Server::timeout() const {
  constexpr double kForever = 86400.0 * 365;
  return keeps_caches() ? kForever : 0;
}

Errno Mount::Server::fill_entry(fuse_req_t req, Ino ino, fuse_entry_param& out) {
  out = {};
  out.ino = nodes.node_of(ino);
  out.generation = nodes.generation();
  out.attr_timeout = out.entry_timeout = timeout();
  if (keeps_caches()) {
    if (const Errno error = volume->filesystem.getattr(ino, out.attr)) return error;
  } else {
    // A name is all that was asked for. The attributes are not valid for any time: whoever wants them sends GETATTR.
    out.attr.st_ino = static_cast<ino_t>(ino);
    // Whether a symlink may be used the kernel looks up here; they all have the same mode.
    out.attr.st_mode = volume->filesystem.type(ino);
    if (S_ISLNK(out.attr.st_mode)) out.attr.st_mode |= 0777;
    // The kernel counts names down when they go, and gives a file with none no name any more; we know whether it has
    // others.
    constexpr nlink_t kUnknownLinks = 1 << 20;
    out.attr.st_nlink = kUnknownLinks;
    // The kernel cuts off its pages, mappings too, at the size that it hears of last. One that is too large it corrects
    // itself, when a page comes out short.
    if (S_ISREG(out.attr.st_mode))
      out.attr.st_size = static_cast<off_t>(volume->filesystem.known_size(ino).value_or(kUnknownSize));
    // A device's number the kernel takes from here, once and for all.
    if (S_ISCHR(out.attr.st_mode) || S_ISBLK(out.attr.st_mode)) {
      struct stat device {};
      if (const Errno error = volume->filesystem.getattr(ino, device)) return error;
      out.attr.st_rdev = device.st_rdev;
    }
    out.attr.st_uid = fuse_req_ctx(req)->uid;
    out.attr.st_gid = fuse_req_ctx(req)->gid;
  }
  nodes.add_lookup(ino);
  return 0;
}

void Mount::Server::hold(Ino ino) {
  if (nodes.must_hold(ino)) volume->changes.add_open(ino);
}

// The kernel knows, where it was told how many there are (fs/namei.c, vfs_link()); elsewhere it is only asked of a file
// that had one more.
bool Mount::Server::has_no_name_left(Ino ino) {
  struct stat attributes {};
  return !keeps_caches() && lost_names.contains(ino) && volume->filesystem.getattr(ino, attributes) == 0 &&
         attributes.st_nlink == 0;
}

void Mount::Server::fetch_before_change() {
  if (!has_shared_mappings) return;
  let_another_thread_read();
  own_calls->sync();
}

namespace {

using Lock = std::unique_lock<std::mutex>;

// Begins a request that changes something whose place in the history matters.
Lock begin_change(fuse_req_t req, bool fetches_stores = true) {
  Mount::Server& server = server_of(req);
  if (fetches_stores) server.fetch_before_change();
  Lock lock(server.mutex);
  server.set_process(fuse_req_ctx(req)->pid);
  return lock;
}

Credentials creator(fuse_req_t req) { return Credentials{fuse_req_ctx(req)->uid, fuse_req_ctx(req)->gid, {}}; }

void reply_error(Lock& lock, fuse_req_t req, Errno error) {
  lock.unlock();
  fuse_reply_err(req, -error);
}

void reply_entry(Lock& lock, fuse_req_t req, Errno error, Ino ino) {
  fuse_entry_param entry;
  if (error == 0) error = server_of(req).fill_entry(req, ino, entry);
  lock.unlock();
  if (error != 0) {
    fuse_reply_err(req, -error);
  } else {
    fuse_reply_entry(req, &entry);
  }
}

// ---- special files
// ----------------------------------------------------------------------------------------------------

std::size_t find_special(const Volume& volume, std::string_view name) {
  const auto found = std::find_if(volume.special_files.begin(), volume.special_files.end(),
                                  [&](const SpecialFile& file) { return file.name == name; });
  return static_cast<std::size_t>(found - volume.special_files.begin());
}

struct stat special_attributes(const Mount::Server& server, fuse_ino_t node) {
  struct stat attributes {};
  attributes.st_ino = node;
  attributes.st_nlink = 1;
  if (server.nodes.special_index(node) == 0) {
    attributes.st_mode = S_IFDIR | 0555;
  } else {
    const SpecialFile& file = server.volume->special_files[server.nodes.special_index(node) - 1];
    attributes.st_mode = S_IFREG | (file.content ? 0444 : 0) | (file.on_write ? 0222 : 0);
  }
  return attributes;
}

void reply_special_entry(Lock& lock, fuse_req_t req, std::size_t index) {
  const Mount::Server& server = server_of(req);
  fuse_entry_param entry{};
  entry.ino = server.nodes.special_node(index);
  entry.generation = server.nodes.generation();
  entry.attr = special_attributes(server, entry.ino);
  lock.unlock();
  fuse_reply_entry(req, &entry);
}

// ---- names
// ------------------------------------------------------------------------------------------------------------

void on_init(void* userdata, fuse_conn_info* connection) {
  const auto& server = *static_cast<Mount::Server*>(userdata);
  connection->want &= ~(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);  // the kernel's own work between processes
  connection->want &=
      ~(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
  connection->want |= connection->capable & (FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_DIO | FUSE_CAP_EXPORT_SUPPORT);
  if (server.keeps_caches()) {
    connection->want |=
        connection->capable & (FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_EXPLICIT_INVAL_DATA);
  } else {
    connection->max_readahead = 0;
  }
  connection->time_gran = 1;
  // Pages that are written back must not wait behind each other, where a later request could overtake them.
  connection->max_background = 65535;
  connection->congestion_threshold = 65535;
}

void on_lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  if (server.nodes.is_current(parent) && server.nodes.is_special(parent)) {
    const std::size_t index = find_special(*server.volume, name);
    if (index == server.volume->special_files.size()) return reply_error(lock, req, -ENOENT);
    return reply_special_entry(lock, req, index + 1);
  }
  const bool has_special = parent == kRootNode && !server.volume->special_files.empty();
  if (has_special && name == kSpecialDirectory) return reply_special_entry(lock, req, 0);
  Ino dir{}, found{};
  Errno error = server.find(parent, dir);
  if (error == 0) error = server.access_of(req).check(dir, X_OK);
  if (error == 0) error = server.volume->filesystem.lookup(dir, name, found);
  if (error == -ENOENT && server.keeps_caches()) {
    lock.unlock();
    fuse_entry_param absent{};
    absent.entry_timeout = server.timeout();
    fuse_reply_entry(req, &absent);
    return;
  }
  reply_entry(lock, req, error, found);
}

void forget(Mount::Server& server, fuse_ino_t node, std::uint64_t count) {
  if (server.nodes.forget(node, count)) server.volume->changes.release(server.nodes.ino_of(node), false);
}

void on_forget(fuse_req_t req, fuse_ino_t node, uint64_t count) {
  {
    Mount::Server& server = server_of(req);
    Lock lock(server.mutex);
    forget(server, node, count);
  }
  fuse_reply_none(req);
}

void on_forget_multi(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
  {
    Mount::Server& server = server_of(req);
    Lock lock(server.mutex);
    for (std::size_t i = 0; i < count; ++i) forget(server, forgets[i].ino, forgets[i].nlookup);
  }
  fuse_reply_none(req);
}

template <class Make>
void make_node(fuse_req_t req, fuse_ino_t parent, const char* name, Make&& make) {
  Mount::Server& server = server_of(req);
  Lock lock = begin_change(req);
  Ino dir{}, made{};
  Errno error = server.find(parent, dir);
  if (error == 0 && parent == kRootNode && name == kSpecialDirectory) error = -EPERM;
  const Access access = server.access_of(req);
  if (error == 0) error = access.may_create(dir);
  if (error == 0) error = make(server.volume->changes, access, dir, made);
  reply_entry(lock, req, error, made);
}

void on_mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  make_node(req, parent, name, [&](Traced& changes, const Access& access, Ino dir, Ino& made) {
    const Errno error = access.strip_setgid(dir, mode);
    return error != 0 ? error : changes.create(dir, name, mode, rdev, creator(req), made);
  });
}

void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  make_node(req, parent, name, [&](Traced& changes, const Access&, Ino dir, Ino& made) {
    return changes.mkdir(dir, name, mode | S_IFDIR, creator(req), made);
  });
}

void on_symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  make_node(req, parent, name, [&](Traced& changes, const Access&, Ino dir, Ino& made) {
    return changes.symlink(dir, name, target, creator(req), made);
  });
}

void on_link(fuse_req_t req, fuse_ino_t node, fuse_ino_t parent, const char* name) {
  Mount::Server& server = server_of(req);
  Lock lock = begin_change(req);
  Ino ino{}, dir{};
  Errno error = server.find(node, ino);
  if (error == 0) error = server.find(parent, dir);
  const Access access = server.access_of(req);
  if (error == 0) error = access.may_create(dir);
  if (error == 0) error = access.may_link(ino);
  if (error == 0 && server.has_no_name_left(ino)) error = -ENOENT;
  if (error == 0) error = server.volume->changes.link(ino, dir, name);
  reply_entry(lock, req, error, ino);
}

void remove_name(fuse_req_t req, fuse_ino_t parent, const char* name, Errno (Traced::*remove)(Ino, std::string_view)) {
  Mount::Server& server = server_of(req);
  Lock lock = begin_change(req);
  Ino dir{}, victim{};
  Errno error = server.find(parent, dir);
  if (error == 0) error = server.volume->filesystem.lookup(dir, name, victim);
  if (error == 0) error = server.access_of(req).may_delete(dir, victim);
  if (error == 0) {
    server.hold(victim);
    server.lost_names.insert(victim);
    error = (server.volume->changes.*remove)(dir, name);
  }
  reply_error(lock, req, error);
}

void on_unlink(fuse_req_t req, fuse_ino_t parent, const char* name) { remove_name(req, parent, name, &Traced::unlink); }
void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) { remove_name(req, parent, name, &Traced::rmdir); }

// A directory that gets another parent is written to: its ".." (vfs_rename() in fs/namei.c).
Errno may_reparent(Mount::Server& server, const Access& access, Ino ino) {
  return S_ISDIR(server.volume->filesystem.type(ino)) ? access.check(ino, W_OK) : 0;
}

void on_rename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
               unsigned flags) {
  Mount::Server& server = server_of(req);
  Lock lock = begin_change(req);
  Ino from{}, to{}, moved{}, replaced{};
  Errno error = server.find(parent, from);
  if (error == 0) error = server.find(new_parent, to);
  if (error == 0) error = server.volume->filesystem.lookup(from, name, moved);
  const Access access = server.access_of(req);
  if (error == 0) error = access.may_delete(from, moved);
  if (error == 0) {
    const Errno absent = server.volume->filesystem.lookup(to, new_name, replaced);
    error = absent == 0 ? access.may_delete(to, replaced) : access.may_create(to);
    if (error == 0 && from != to) error = may_reparent(server, access, moved);
    if (error == 0 && from != to && absent == 0 && (flags & RENAME_EXCHANGE))
      error = may_reparent(server, access, replaced);
    if (absent == 0 && error == 0) {
      server.hold(replaced);
      server.lost_names.insert(replaced);
    }
  }
  if (error == 0) error = server.volume->changes.rename(from, name, to, new_name, flags);
  reply_error(lock, req, error);
}

void on_readlink(fuse_req_t req, fuse_ino_t node) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  Ino ino{};
  std::string target;
  Errno error = server.find(node, ino);
  if (error == 0) error = server.volume->filesystem.readlink(ino, target);
  if (error != 0) return reply_error(lock, req, error);
  lock.unlock();
  fuse_reply_readlink(req, target.c_str());
}

// ---- attributes
// -------------------------------------------------------------------------------------------------------

void reply_attributes(Lock& lock, fuse_req_t req, Errno error, Ino ino) {
  Mount::Server& server = server_of(req);
  struct stat attributes {};
  if (error == 0) error = server.volume->filesystem.getattr(ino, attributes);
  if (error != 0) return reply_error(lock, req, error == -ENOENT ? -ESTALE : error);
  lock.unlock();
  fuse_reply_attr(req, &attributes, server.timeout());
}

void on_getattr(fuse_req_t req, fuse_ino_t node, fuse_file_info*) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  if (server.nodes.is_current(node) && server.nodes.is_special(node)) {
    const struct stat attributes = special_attributes(server, node);
    lock.unlock();
    fuse_reply_attr(req, &attributes, 0);
    return;
  }
  Ino ino{};
  const Errno error = server.find(node, ino);
  reply_attributes(lock, req, error, ino);
}

std::optional<timespec> time_to_set(int to_set, int flag, int now_flag, const timespec& given) {
  if (to_set & now_flag) return timespec{0, UTIME_NOW};
  if (to_set & flag) return given;
  return std::nullopt;
}

// Whether the kernel would have said no to the change, had it known the attributes.
Errno may_change(const Access& access, Ino ino, const Owner& now, const struct stat& wanted, int to_set) {
  Errno error = 0;
  if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
    error = access.may_chown(now, to_set & FUSE_SET_ATTR_UID ? wanted.st_uid : -1,
                             to_set & FUSE_SET_ATTR_GID ? wanted.st_gid : -1);
  }
  constexpr int kNow = FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
  const bool sets_times = to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME);
  const bool only_now = (to_set & kNow) == kNow;
  if (error == 0 && ((to_set & FUSE_SET_ATTR_MODE) || (sets_times && !only_now))) error = access.check_owner(ino);
  if (error == 0 && only_now && access.check_owner(ino) != 0) error = access.check(ino, W_OK);
  if (error == 0 && (to_set & FUSE_SET_ATTR_SIZE)) error = access.check(ino, W_OK);
  return error;
}

// Without what the kernel adds to say how (FATTR_KILL_SUIDGID and the like).
constexpr int kSettable = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_SIZE |
                          FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;

void on_setattr(fuse_req_t req, fuse_ino_t node, struct stat* wanted, int to_set, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  {
    Lock lock(server.mutex);
    if (server.nodes.is_current(node) && server.nodes.is_special(node)) {  // O_TRUNC and the like: nothing to do
      const struct stat attributes = special_attributes(server, node);
      lock.unlock();
      fuse_reply_attr(req, &attributes, 0);
      return;
    }
  }
  // While it changes a size the kernel holds back the inode's dirty pages: waiting for them would be for ever.
  Lock lock = begin_change(req, !(to_set & FUSE_SET_ATTR_SIZE));
  Ino ino{};
  Errno error = server.find(node, ino);
  Owner now;
  const bool is_truncation = to_set & FUSE_SET_ATTR_SIZE;
  const bool is_chown = to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID);
  const uid_t caller = fuse_req_ctx(req)->uid;
  const bool may_need_owner = is_chown || (to_set & kSettable) == 0 || (to_set & FUSE_SET_ATTR_MODE) || caller != 0;
  if (error == 0 && may_need_owner) error = server.volume->filesystem.get_owner(ino, now);
  // A size that is set through an open file was permitted when it was opened.
  const bool was_permitted = is_truncation && info != nullptr && (to_set & kSettable) == FUSE_SET_ATTR_SIZE;
  const Access access = server.access_of(req);
  if (error == 0 && !was_permitted && !access.is_root()) error = may_change(access, ino, now, *wanted, to_set);

  AttrChange change;
  if (to_set & FUSE_SET_ATTR_MODE) {
    change.mode = wanted->st_mode & 07777;
    if (!access.is_root() && !access.in_group(now.gid))
      *change.mode &= ~mode_t{S_ISGID};  // setattr_prepare() in fs/attr.c
  }
  if (to_set & FUSE_SET_ATTR_UID) change.uid = wanted->st_uid;
  if (to_set & FUSE_SET_ATTR_GID) change.gid = wanted->st_gid;
  change.atime = time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, wanted->st_atim);
  change.mtime = time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, wanted->st_mtim);
  // HANDLE_KILLPRIV_V2: these bits are ours to take away.
  // Nothing to set is what chown() to the same owner and removing them before a write come as.
  const bool changes_nothing = (to_set & kSettable) == 0;
  const bool has_any =
      !S_ISDIR(now.mode) && (now.mode & (S_ISUID | S_ISGID));  // else nobody need ask who the caller is
  const bool kills = has_any && !change.mode && (is_chown || changes_nothing || (is_truncation && caller != 0));
  if (error == 0 && kills) {
    const Access who(server.volume->filesystem, server.caller_of(*fuse_req_ctx(req)), {});
    if (const mode_t lost = who.lost_privileges(now)) change.mode = (now.mode & 07777) & ~lost;
  }
  if (error == 0 && is_truncation) {
    Traced::Writer* const writer = info ? &file_of(info).writer : nullptr;
    error = server.volume->changes.truncate(ino, static_cast<std::uint64_t>(wanted->st_size), writer);
  }
  if (error == 0 && (changes_nothing || change.mode || change.uid || change.gid || change.atime || change.mtime)) {
    error = server.volume->changes.setattr(ino, change);
  }
  reply_attributes(lock, req, error, ino);
}

void on_access(fuse_req_t req, fuse_ino_t node, int mask) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  Ino ino{};
  Errno error = server.find(node, ino);
  if (error == -EPERM) return reply_error(lock, req, 0);  // special files tell their modes
  if (error == 0) error = server.access_of(req).check(ino, mask);
  reply_error(lock, req, error);
}

void on_statfs(fuse_req_t req, fuse_ino_t) {
  Mount::Server& server = server_of(req);
  struct statvfs answer {};
  {
    Lock lock(server.mutex);
    server.volume->filesystem.statfs(answer);
  }
  fuse_reply_statfs(req, &answer);
}

// ---- xattrs
// -----------------------------------------------------------------------------------------------------------

void reply_bytes(Lock& lock, fuse_req_t req, std::string_view bytes, size_t room) {
  lock.unlock();
  if (room == 0) {
    fuse_reply_xattr(req, bytes.size());
  } else if (bytes.size() > room) {
    fuse_reply_err(req, ERANGE);
  } else {
    fuse_reply_buf(req, bytes.data(), bytes.size());
  }
}

// As xattr_permission() in fs/xattr.c, where the kernel does not know the attributes. The names that it leaves to
// the filesystem are those that are nobody's, and user's.
Errno may_use_xattr(fuse_req_t req, Ino ino, std::string_view name, int mask) {
  Mount::Server& server = server_of(req);
  for (const std::string_view prefix : {"security.", "system.", "trusted."}) {
    if (name.starts_with(prefix)) return 0;
  }
  const Access access = server.access_of(req);
  if (mask == W_OK && name.starts_with("user.") && !access.is_root() && S_ISDIR(server.volume->filesystem.type(ino))) {
    Owner now;
    if (const Errno error = server.volume->filesystem.get_owner(ino, now)) return error;
    if ((now.mode & S_ISVTX) && now.uid != access.who().uid) return -EPERM;
  }
  return access.check(ino, mask);
}

void on_setxattr(fuse_req_t req, fuse_ino_t node, const char* name, const char* value, size_t size, int flags) {
  Mount::Server& server = server_of(req);
  Lock lock = begin_change(req);
  Ino ino{};
  Errno error = server.find(node, ino);
  if (error == 0) error = may_use_xattr(req, ino, name, W_OK);
  if (error == 0) error = server.volume->changes.set_xattr(ino, name, {value, size}, flags);
  reply_error(lock, req, error);
}

void on_getxattr(fuse_req_t req, fuse_ino_t node, const char* name, size_t size) {
  Mount::Server& server = server_of(req);
  if (std::string_view(name).starts_with(kOwnPrefix)) {  // our own: that it was answered is all that is wanted
    fuse_reply_err(req, ENODATA);
    return;
  }
  Lock lock(server.mutex);
  // The kernel asks for it by itself, before the first write to a file. Looking would decide the attributes of a
  // crashed disk for a program that did not ask; that its recovery works on programs with capabilities is unlikely.
  if (!server.keeps_caches() && std::strcmp(name, "security.capability") == 0) return reply_error(lock, req, -ENODATA);
  Ino ino{};
  std::string value;
  Errno error = server.find(node, ino);
  if (error == 0) error = may_use_xattr(req, ino, name, R_OK);
  if (error == 0) error = server.volume->filesystem.get_xattr(ino, name, value);
  if (error != 0) return reply_error(lock, req, error == -EPERM ? -ENODATA : error);
  reply_bytes(lock, req, value, size);
}

void on_listxattr(fuse_req_t req, fuse_ino_t node, size_t size) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  Ino ino{};
  std::vector<std::string> names;
  Errno error = server.find(node, ino);
  if (error == 0) error = server.volume->filesystem.list_xattr(ino, names);
  if (error != 0 && error != -EPERM) return reply_error(lock, req, error);
  std::string all;
  for (const std::string& name : names) all.append(name).push_back('\0');
  reply_bytes(lock, req, all, size);
}

void on_removexattr(fuse_req_t req, fuse_ino_t node, const char* name) {
  Mount::Server& server = server_of(req);
  Lock lock = begin_change(req);
  Ino ino{};
  Errno error = server.find(node, ino);
  if (error == 0) error = may_use_xattr(req, ino, name, W_OK);
  if (error == 0) error = server.volume->changes.remove_xattr(ino, name);
  reply_error(lock, req, error);
}

// ---- directories
// ------------------------------------------------------------------------------------------------------

void on_opendir(fuse_req_t req, fuse_ino_t node, fuse_file_info* info) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  if (server.nodes.is_current(node) && server.nodes.is_special(node)) {
    auto* file = new OpenFile{.generation = server.nodes.generation(), .ino = kNoIno, .special = 0};
    info->fh = reinterpret_cast<std::uint64_t>(file);
    lock.unlock();
    fuse_reply_open(req, info);
    return;
  }
  Ino ino{};
  Errno error = server.find(node, ino);
  if (error == 0) error = server.access_of(req).check(ino, R_OK);
  if (error != 0) return reply_error(lock, req, error);
  server.open(ino, *info);
  lock.unlock();
  fuse_reply_open(req, info);
}

void list_directory(fuse_req_t req, size_t size, off_t offset, fuse_file_info* info, bool plus) {
  Mount::Server& server = server_of(req);
  Lock lock(server.mutex);
  const OpenFile& file = file_of(info);
  if (file.generation != server.nodes.generation()) return reply_error(lock, req, -ESTALE);
  std::vector<char> buffer(size);
  std::size_t used = 0;
  std::uint64_t cookie = static_cast<std::uint64_t>(offset);
  std::vector<DirEntry> entries;
  bool is_full = file.special.has_value();
  while (!is_full) {
    entries.clear();
    if (const Errno error = server.volume->filesystem.readdir(file.ino, cookie, 64, entries))
      return reply_error(lock, req, error);
    if (entries.empty()) break;
    for (const DirEntry& entry : entries) {
      fuse_entry_param attributes{};
      attributes.attr.st_ino = static_cast<ino_t>(entry.ino);
      attributes.attr.st_mode = entry.type;
      const std::size_t room = size - used;
      const bool is_dot = entry.name == "." || entry.name == "..";
      if (plus && !is_dot) {
        const std::size_t wanted = fuse_add_direntry_plus(req, nullptr, 0, entry.name.c_str(), &attributes, 0);
        is_full = wanted > room;
        if (is_full) break;
        server.fill_entry(req, entry.ino, attributes);
      }
      const auto next = static_cast<off_t>(entry.cookie);
      const std::size_t wanted =
          plus ? fuse_add_direntry_plus(req, buffer.data() + used, room, entry.name.c_str(), &attributes, next)
               : fuse_add_direntry(req, buffer.data() + used, room, entry.name.c_str(), &attributes.attr, next);
      is_full = wanted > room;
      if (is_full) break;
      used += wanted;
      cookie = entry.cookie;
    }
  }
  lock.unlock();
  fuse_reply_buf(req, buffer.data(), used);
}

void on_readdir(fuse_req_t req, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  list_directory(req, size, offset, info, false);
}
void on_readdirplus(fuse_req_t req, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  list_directory(req, size, offset, info, true);
}

void on_fsyncdir(fuse_req_t req, fuse_ino_t node, int datasync, fuse_file_info*) {
  Mount::Server& server = server_of(req);
  Lock lock = begin_change(req);
  Ino ino{};
  Errno error = server.find(node, ino);
  if (error == 0) error = server.volume->changes.fsync(ino, datasync != 0);
  reply_error(lock, req, error);
}

fuse_lowlevel_ops make_operations() {
  fuse_lowlevel_ops table{};
  table.init = on_init;
  table.lookup = on_lookup;
  table.forget = on_forget;
  table.forget_multi = on_forget_multi;
  table.mknod = on_mknod;
  table.mkdir = on_mkdir;
  table.symlink = on_symlink;
  table.link = on_link;
  table.unlink = on_unlink;
  table.rmdir = on_rmdir;
  table.rename = on_rename;
  table.readlink = on_readlink;
  table.getattr = on_getattr;
  table.setattr = on_setattr;
  table.access = on_access;
  table.statfs = on_statfs;
  table.setxattr = on_setxattr;
  table.getxattr = on_getxattr;
  table.listxattr = on_listxattr;
  table.removexattr = on_removexattr;
  table.opendir = on_opendir;
  table.readdir = on_readdir;
  table.readdirplus = on_readdirplus;
  table.fsyncdir = on_fsyncdir;
  add_file_operations(table);
  return table;
}

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops table = make_operations();
  return table;
}

}  // namespace crashcut::fusefs
