#include "fusefs/mount/mount.h"

#include <fmt/format.h>
#include <linux/fuse.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fusefs/mount/server.h"
#include "persist/check.h"

namespace crashcut::fusefs {
namespace {

constexpr std::uint64_t kDirectIoAllowMmap = std::uint64_t{1} << 36;  // FUSE_DIRECT_IO_ALLOW_MMAP, Linux 6.6

constexpr std::int32_t kNotifyIncEpoch = 8;  // FUSE_NOTIFY_INC_EPOCH, Linux 6.16

constexpr char kSettleName[] = "user.crashcut.settle";
constexpr char kStopName[] = "user.crashcut.stop";  // of the attribute that Mount asks itself for when it stops

thread_local bool was_relieved = false;  // another thread reads requests in this one's place

ssize_t read_channel(int fd, void* buffer, size_t length, void*) { return read(fd, buffer, length); }

// The library's answer to INIT lacks what it does not know of:
//   HANDLE_KILLPRIV_V2: without it the kernel asks for security.capability before every write;
//   DIRECT_IO_ALLOW_MMAP: without it a file with exact reads cannot be mapped (sqlite's WAL, lmdb).
ssize_t write_channel(int fd, iovec* parts, int count, void* userdata) {
  auto& server = *static_cast<Mount::Server*>(userdata);
  if (server.init_unique != 0 && count == 2 && parts[0].iov_len == sizeof(fuse_out_header)) {
    const auto& header = *static_cast<fuse_out_header*>(parts[0].iov_base);
    if (header.unique == server.init_unique && header.error == 0 && parts[1].iov_len >= sizeof(fuse_init_out)) {
      auto& answer = *static_cast<fuse_init_out*>(parts[1].iov_base);
      answer.flags |= FUSE_HANDLE_KILLPRIV_V2 | FUSE_INIT_EXT;
      if (!server.keeps_caches()) {
        answer.flags2 |= static_cast<std::uint32_t>(kDirectIoAllowMmap >> 32);
        answer.max_readahead = 0;
      }
      server.init_unique = 0;
    }
  }
  return writev(fd, parts, count);
}

bool is_forget(const fuse_buf& request) {
  const std::uint32_t opcode = static_cast<const fuse_in_header*>(request.mem)->opcode;
  return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET;
}

std::string mount_options(const Mount::Setup& setup) {
  std::string options = "fsname=crashcut,subtype=crashcut,noatime";  // a read changes nothing here
  if (setup.caching == Mount::Caching::kKept || setup.kernel_checks_permissions) options += ",default_permissions";
  if (setup.allow_others) options += ",allow_other";
  if (setup.auto_unmount) options += ",auto_unmount";
  return options;
}

std::string sentence_for_failed_mount(const std::string& directory, int error) {
  if (access("/dev/fuse", F_OK) != 0) {
    return "there is no /dev/fuse on this machine: load the kernel module fuse (modprobe fuse), or give the container "
           "the device";
  }
  if (access("/dev/fuse", R_OK | W_OK) != 0) return "no permission to open /dev/fuse: join its group, or run as root";
  return fmt::format(
      "cannot mount a FUSE filesystem at {} ({}); as root it works, and as another user where "
      "fusermount3 is installed (Debian: fuse3)",
      directory, std::strerror(error));
}

}  // namespace

// ---- requests -----------------------------------------------------------------------------------------------------

void Mount::Server::start_thread() {
  {
    const std::lock_guard lock(threads_mutex);
    ++thread_count;
  }
  std::thread([this] {
    serve();
    const std::lock_guard lock(threads_mutex);
    --thread_count;
    threads_changed.notify_all();
  }).detach();
}

void Mount::Server::let_another_thread_read() {
  if (was_relieved) return;
  was_relieved = true;
  start_thread();
}

void Mount::Server::serve() {
  was_relieved = false;
  fuse_buf buffer{};
  while (!was_relieved) {
    const int length = receive(buffer);
    if (length == -EINTR) continue;
    if (length <= 0) break;  // unmounted
    const bool is_last = is_stop_request(buffer);
    if (!is_forget(buffer)) handle_forgets();
    handle(buffer);
    if (is_last) break;
  }
  free(buffer.mem);
  if (was_relieved) return;
  for (const fuse_buf& unread : received) free(unread.mem);
  received.clear();
  const std::lock_guard lock(threads_mutex);
  is_gone = true;
  threads_changed.notify_all();
}

int Mount::Server::receive(fuse_buf& buffer) {
  if (received.empty()) return fuse_session_receive_buf(session, &buffer);
  free(buffer.mem);
  buffer = received.front();
  received.pop_front();
  return static_cast<int>(buffer.size);
}

void Mount::Server::handle(fuse_buf& request) {
  request_count.fetch_add(1, std::memory_order_relaxed);
  const auto& header = *static_cast<const fuse_in_header*>(request.mem);
  if (header.opcode == FUSE_INIT) init_unique = header.unique;
  find_stack(header);
  if (!handle_raw(request)) fuse_session_process_buf(session, &request);
}

void Mount::Server::handle_forgets() {
  {
    const std::lock_guard lock(mutex);
    if (!nodes.holds_any()) return;
  }
  // With several programs at work there may always be another request: a FORGET comes after eight of them.
  constexpr int kReadAhead = 16;
  pollfd channel{fuse_session_fd(session), POLLIN, 0};
  for (int i = 0; i < kReadAhead && poll(&channel, 1, 0) == 1; ++i) {
    fuse_buf buffer{};
    const int length = fuse_session_receive_buf(session, &buffer);
    if (length <= 0) {
      free(buffer.mem);
      return;
    }
    if (is_forget(buffer)) {
      handle(buffer);
      free(buffer.mem);
    } else {
      received.push_back(buffer);
    }
  }
}

bool Mount::Server::is_stop_request(const fuse_buf& request) const {
  const auto& header = *static_cast<const fuse_in_header*>(request.mem);
  constexpr std::size_t kNameOffset = sizeof(fuse_in_header) + sizeof(fuse_getxattr_in);
  if (!is_stopping || header.opcode != FUSE_GETXATTR || request.size < kNameOffset + sizeof(kStopName)) return false;
  return std::memcmp(static_cast<const char*>(request.mem) + kNameOffset, kStopName, sizeof(kStopName)) == 0;
}

// ---- life ---------------------------------------------------------------------------------------------------------

Mount::Mount(std::unique_ptr<Server> server) : server_(std::move(server)) {}

tl::expected<std::unique_ptr<Mount>, std::string> Mount::start(const Setup& setup, Volume& volume) {
  // The heap of a thread other than the first grows by a system call a page; the common one does not.
  mallopt(M_ARENA_MAX, 1);
  auto server = std::make_unique<Server>();
  server->setup = setup;
  server->volume = &volume;
  server->nodes.restart();

  std::string options = mount_options(setup);
  std::string program = "crashcut", flag = "-o";
  char* words[] = {program.data(), flag.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  server->session = fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), server.get());
  fuse_opt_free_args(&arguments);
  if (!server->session) return tl::unexpected(std::string("libfuse3 refused its options: ") + options);
  errno = 0;
  if (fuse_session_mount(server->session, setup.directory.c_str()) != 0) {
    std::string sentence = sentence_for_failed_mount(setup.directory, errno == 0 ? EPERM : errno);
    fuse_session_destroy(server->session);
    return tl::unexpected(std::move(sentence));
  }
  const fuse_custom_io channel{
      .writev = write_channel, .read = read_channel, .splice_receive = nullptr, .splice_send = nullptr};
  CHECK(fuse_session_custom_io(server->session, &channel, fuse_session_fd(server->session)) == 0);
  server->own_calls = std::make_unique<OwnCalls>(setup.directory, !setup.auto_unmount);
  server->start_thread();

  std::unique_ptr<Mount> mount(new Mount(std::move(server)));
  mount->server_->device = mount->server_->own_calls->find_device();
  if (mount->server_->device == 0) {
    return tl::unexpected(fmt::format("the mount at {} does not answer ({})", setup.directory, std::strerror(errno)));
  }
  return mount;
}

Mount::~Mount() {
  // The reading thread sits in read(2), and nothing but a request ends that.
  server_->is_stopping = true;
  server_->own_calls->ask_for(kStopName);
  wait_until_gone();
  server_->own_calls.reset();
  // Closes the channel, which fails every request that still waits, and unmounts lazily: a process that sits in the
  // mount does not keep it.
  fuse_session_unmount(server_->session);
  {
    std::unique_lock lock(server_->threads_mutex);
    server_->threads_changed.wait(lock, [&] { return server_->thread_count == 0; });
  }
  fuse_session_destroy(server_->session);
}

void Mount::remove_leftover(const char* directory) {
  // More than one, where several were killed.
  while (umount2(directory, MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
  }
  if (errno != EPERM) return;
  const pid_t pid = vfork();
  if (pid == 0) {
    execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", directory, nullptr);
    _exit(127);
  }
  if (pid > 0) waitpid(pid, nullptr, 0);
}

void Mount::show(Volume& volume) {
  {
    const std::lock_guard lock(server_->mutex);
    server_->volume = &volume;
    server_->nodes.restart();
    server_->lost_names.clear();
  }
  if (!server_->keeps_caches()) return;
  // The kernel forgets what it keeps: names by a new epoch (not in the library yet), the root's attributes as well. All
  // else is found by names.
  const fuse_out_header new_epoch{.len = sizeof(fuse_out_header), .error = kNotifyIncEpoch, .unique = 0};
  [[maybe_unused]] const ssize_t written = write(fuse_session_fd(server_->session), &new_epoch, sizeof(new_epoch));
  fuse_lowlevel_notify_inval_inode(server_->session, FUSE_ROOT_ID, -1, 0);
}

void Mount::while_quiet(const std::function<void(Volume&)>& action) {
  server_->own_calls->ask_for(kSettleName);
  const std::lock_guard lock(server_->mutex);
  action(*server_->volume);
}

void Mount::note_shared_mapping() { server_->has_shared_mappings = true; }

void Mount::fetch_mapped_stores() {
  if (server_->has_shared_mappings) server_->own_calls->sync();
}

dev_t Mount::device() const { return server_->device; }
std::uint64_t Mount::request_count() const { return server_->request_count; }
bool Mount::was_read_by_pages() const { return server_->was_read_by_pages; }

bool Mount::is_gone() const {
  const std::lock_guard lock(server_->threads_mutex);
  return server_->is_gone;
}

void Mount::wait_until_gone() {
  std::unique_lock lock(server_->threads_mutex);
  server_->threads_changed.wait(lock, [&] { return server_->is_gone; });
}

}  // namespace crashcut::fusefs
