#include "tests/recording_disk.h"

#include <fcntl.h>
#include <fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace crashcut::tests {

struct RecordingDisk::Server {
  std::filesystem::path directory;
  fuse* filesystem = nullptr;
  std::thread thread;
  std::mutex mutex;  // of what follows
  std::string image;
  std::vector<Entry> log;
};

namespace {

using Entry = RecordingDisk::Entry;
constexpr std::string_view kDisk = "/disk", kMark = "/mark";

}  // namespace

// Handlers of libfuse: each is called with the server as private data.
struct Handlers {
  using Server = RecordingDisk::Server;

  static Server& server() { return *static_cast<Server*>(fuse_get_context()->private_data); }

  static int get_attributes(const char* path, struct stat* found, fuse_file_info*) {
    *found = {};
    found->st_nlink = 1;
    if (path == std::string_view("/")) {
      found->st_mode = S_IFDIR | 0755;
      return 0;
    }
    found->st_mode = S_IFREG | 0644;
    if (path == kMark) return 0;
    if (path != kDisk) return -ENOENT;
    const std::lock_guard lock(server().mutex);
    found->st_size = static_cast<off_t>(server().image.size());
    return 0;
  }

  // Nothing stays in the kernel's cache: what the disk holds changes behind its back (RecordingDisk::reset).
  static int open(const char*, fuse_file_info* file) {
    file->direct_io = 1;
    return 0;
  }

  static int read(const char* path, char* bytes, std::size_t count, off_t offset, fuse_file_info*) {
    if (path != kDisk) return 0;
    const std::lock_guard lock(server().mutex);
    const std::string& image = server().image;
    if (static_cast<std::size_t>(offset) >= image.size()) return 0;
    count = std::min(count, image.size() - static_cast<std::size_t>(offset));
    std::memcpy(bytes, image.data() + offset, count);
    return static_cast<int>(count);
  }

  static void write_disk(std::uint64_t offset, std::string bytes) {
    server().image.replace(offset, bytes.size(), bytes);
    server().log.push_back({Entry::Kind::kWrite, offset, std::move(bytes)});
  }

  static int write(const char* path, const char* bytes, std::size_t count, off_t offset, fuse_file_info*) {
    const std::lock_guard lock(server().mutex);
    if (path == kMark) {
      server().log.push_back({Entry::Kind::kMark, 0, std::string(bytes, count)});
    } else if (static_cast<std::size_t>(offset) + count > server().image.size()) {
      return -ENOSPC;
    } else {
      write_disk(static_cast<std::uint64_t>(offset), std::string(bytes, count));
    }
    return static_cast<int>(count);
  }

  // The device zeroes or discards.
  static int allocate(const char*, int, off_t offset, off_t length, fuse_file_info*) {
    const std::lock_guard lock(server().mutex);
    if (static_cast<std::size_t>(offset + length) > server().image.size()) return -ENOSPC;
    write_disk(static_cast<std::uint64_t>(offset), std::string(static_cast<std::size_t>(length), '\0'));
    return 0;
  }

  static int flush_disk(const char*, int, fuse_file_info*) {
    const std::lock_guard lock(server().mutex);
    server().log.push_back({Entry::Kind::kFlush});
    return 0;
  }

  static int truncate(const char*, off_t, fuse_file_info*) { return 0; }  // O_TRUNC of who marks by a shell

  static fuse_operations table() {
    fuse_operations operations{};
    operations.getattr = get_attributes;
    operations.open = open;
    operations.read = read;
    operations.write = write;
    operations.fsync = flush_disk;
    operations.fallocate = allocate;
    operations.truncate = truncate;
    return operations;
  }
};

std::unique_ptr<RecordingDisk> RecordingDisk::serve(const std::filesystem::path& directory, std::uint64_t bytes) {
  if (access("/dev/fuse", R_OK | W_OK) != 0) return nullptr;
  auto server = std::make_unique<Server>();
  server->directory = directory;
  server->image.assign(bytes, '\0');
  static const fuse_operations operations = Handlers::table();
  char name[] = "recording_disk";
  char* arguments[] = {name};
  fuse_args none{1, arguments, 0};
  server->filesystem = fuse_new(&none, &operations, sizeof operations, server.get());
  fuse_opt_free_args(&none);  // fuse_new() made a copy of its own
  if (server->filesystem == nullptr) return nullptr;
  if (fuse_mount(server->filesystem, directory.c_str()) != 0) {
    fuse_destroy(server->filesystem);
    return nullptr;
  }
  server->thread = std::thread([filesystem = server->filesystem] { fuse_loop(filesystem); });
  return std::unique_ptr<RecordingDisk>(new RecordingDisk(std::move(server)));
}

RecordingDisk::RecordingDisk(std::unique_ptr<Server> server) : server_(std::move(server)) {}

RecordingDisk::~RecordingDisk() {
  umount2(server_->directory.c_str(), MNT_DETACH);  // ends the loop of the thread
  server_->thread.join();
  fuse_unmount(server_->filesystem);
  fuse_destroy(server_->filesystem);
}

std::filesystem::path RecordingDisk::disk() const { return server_->directory / "disk"; }
std::filesystem::path RecordingDisk::mark() const { return server_->directory / "mark"; }

void RecordingDisk::reset(const std::string& image) {
  const std::lock_guard lock(server_->mutex);
  server_->image = image;
  server_->log.clear();
}

std::vector<RecordingDisk::Entry> RecordingDisk::take_log() {
  const std::lock_guard lock(server_->mutex);
  return std::exchange(server_->log, {});
}

}  // namespace crashcut::tests
