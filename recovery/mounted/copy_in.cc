#include "recovery/mounted/copy_in.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace crashcut::mounted {
namespace {

using fusefs::Errno;
using fusefs::Filesystem;
using fusefs::Ino;
using fusefs::Traced;

constexpr std::size_t kPieceBytes = 1 << 20;

// What a tree is copied from: inodes known by a key of the source's own.
class Source {
 public:
  struct Entry {
    std::string name;
    std::string key;  // path, or inode number
  };
  virtual ~Source() = default;
  virtual bool list(const std::string& key, std::vector<Entry>& entries) = 0;
  virtual bool stat(const std::string& key, struct stat& out) = 0;
  virtual std::string target(const std::string& key) = 0;
  // Bytes read, 0 at the end, negative where it failed.
  virtual std::int64_t read(const std::string& key, std::uint64_t offset, std::span<std::byte> out) = 0;
};

class RealTree final : public Source {
 public:
  bool list(const std::string& key, std::vector<Entry>& entries) override {
    DIR* directory = opendir(key.c_str());
    if (!directory) return false;
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") entries.push_back({name, key + "/" + name});
    }
    closedir(directory);
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return true;
  }
  bool stat(const std::string& key, struct stat& out) override { return lstat(key.c_str(), &out) == 0; }
  std::string target(const std::string& key) override {
    std::string target(4096, '\0');
    const ssize_t length = readlink(key.c_str(), target.data(), target.size());
    target.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    return target;
  }
  std::int64_t read(const std::string& key, std::uint64_t offset, std::span<std::byte> out) override {
    const int fd = open(key.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    const ssize_t got = pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    close(fd);
    return got;
  }
};

class ModelTree final : public Source {
 public:
  explicit ModelTree(Filesystem& filesystem) : filesystem_(filesystem) {}
  bool list(const std::string& key, std::vector<Entry>& entries) override {
    std::vector<fusefs::DirEntry> found;
    if (filesystem_.readdir(ino(key), 0, ~std::size_t{0}, found) != 0) return false;
    for (const fusefs::DirEntry& entry : found) {
      if (entry.name != "." && entry.name != "..") entries.push_back({entry.name, std::to_string(static_cast<std::uint64_t>(entry.ino))});
    }
    return true;
  }
  bool stat(const std::string& key, struct stat& out) override { return filesystem_.getattr(ino(key), out) == 0; }
  std::string target(const std::string& key) override {
    std::string target;
    filesystem_.readlink(ino(key), target);
    return target;
  }
  std::int64_t read(const std::string& key, std::uint64_t offset, std::span<std::byte> out) override { return filesystem_.read(ino(key), offset, out); }

 private:
  static Ino ino(const std::string& key) { return Ino{std::stoull(key)}; }
  Filesystem& filesystem_;
};

class Copy {
 public:
  Copy(Source& source, Traced& changes) : source_(source), changes_(changes) {}

  void copy_directory(const std::string& key, Ino to) {
    std::vector<Source::Entry> entries;
    if (!source_.list(key, entries)) return note("read", key);
    for (const Source::Entry& entry : entries) copy(entry, to);
  }
  std::string failure;

 private:
  void copy(const Source::Entry& entry, Ino dir) {
    struct stat found {};
    if (!source_.stat(entry.key, found)) return note("read", entry.key);
    const fusefs::Credentials owner{found.st_uid, found.st_gid, {}};
    const auto known = made_.find({found.st_dev, found.st_ino});
    if (known != made_.end() && !S_ISDIR(found.st_mode)) {
      check(changes_.link(known->second, dir, entry.name), entry.key);
      return;
    }
    Ino made{};
    Errno error = 0;
    if (S_ISDIR(found.st_mode)) {
      error = changes_.mkdir(dir, entry.name, found.st_mode, owner, made);
      if (error == 0) copy_directory(entry.key, made);
    } else if (S_ISLNK(found.st_mode)) {
      error = changes_.symlink(dir, entry.name, source_.target(entry.key), owner, made);
    } else {
      error = changes_.create(dir, entry.name, found.st_mode, found.st_rdev, owner, made);
      if (error == 0 && S_ISREG(found.st_mode)) copy_data(entry.key, made);
    }
    if (!check(error, entry.key)) return;
    made_.emplace(std::pair(found.st_dev, found.st_ino), made);
    changes_.setattr(made, fusefs::AttrChange{.mode = found.st_mode & 07777, .uid = found.st_uid, .gid = found.st_gid, .atime = found.st_atim, .mtime = found.st_mtim});
  }

  void copy_data(const std::string& key, Ino to) {
    std::vector<std::byte> piece(kPieceBytes);
    std::uint64_t offset = 0;
    for (;;) {
      const std::int64_t got = source_.read(key, offset, piece);
      if (got < 0) return note("read", key);
      if (got == 0) return;
      const std::int64_t put = changes_.write(to, offset, std::span(piece).first(static_cast<std::size_t>(got)), {});
      if (!check(put < 0 ? static_cast<Errno>(put) : 0, key)) return;
      offset += static_cast<std::uint64_t>(got);
    }
  }

  bool check(Errno error, const std::string& key) {
    if (error == 0) return true;
    errno = -error;
    note("copy", key);
    return false;
  }
  void note(const char* what, const std::string& key) {
    if (failure.empty()) failure = fmt::format("Cannot {} {}: {}.", what, key, std::strerror(errno));
  }

  Source& source_;
  Traced& changes_;
  std::map<std::pair<dev_t, ino_t>, Ino> made_;
};

}  // namespace

std::string copy_in(const std::string& directory, Traced& changes) {
  RealTree source;
  Copy copy(source, changes);
  copy.copy_directory(directory, fusefs::kRootIno);
  return copy.failure;
}

std::string copy_disk(Filesystem& from, Traced& changes) {
  ModelTree source(from);
  Copy copy(source, changes);
  copy.copy_directory(std::to_string(static_cast<std::uint64_t>(fusefs::kRootIno)), fusefs::kRootIno);
  return copy.failure;
}

}  // namespace crashcut::mounted
