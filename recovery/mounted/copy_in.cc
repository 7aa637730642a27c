#include "recovery/mounted/copy_in.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

namespace crashcut::mounted {
namespace {

using fusefs::Errno;
using fusefs::Filesystem;
using fusefs::Ino;
using fusefs::Traced;

constexpr std::size_t kCopiedBytes = 1 << 20;

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
  virtual bool can_read(const std::string&) { return true; }
  // The next byte at or after `offset` that is not in a hole; negative: there is none.
  virtual std::int64_t next_data(const std::string& key, std::uint64_t offset) = 0;
  virtual std::map<std::string, std::string> xattrs(const std::string& key) = 0;
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
  bool can_read(const std::string& key) override { return open_file(key); }
  std::int64_t next_data(const std::string& key, std::uint64_t offset) override {
    return open_file(key) ? lseek(fd_, static_cast<off_t>(offset), SEEK_DATA) : -1;
  }
  // Those that cannot be had are left out, as by cp -a.
  std::map<std::string, std::string> xattrs(const std::string& key) override {
    std::map<std::string, std::string> found;
    std::string names(64 << 10, '\0'), value(64 << 10, '\0');
    const ssize_t length = llistxattr(key.c_str(), names.data(), names.size());
    for (ssize_t at = 0; at < length;
         at += static_cast<ssize_t>(std::strlen(&names[static_cast<std::size_t>(at)])) + 1) {
      const char* name = &names[static_cast<std::size_t>(at)];
      const ssize_t got = lgetxattr(key.c_str(), name, value.data(), value.size());
      if (got >= 0) found[name] = value.substr(0, static_cast<std::size_t>(got));
    }
    return found;
  }
  std::int64_t read(const std::string& key, std::uint64_t offset, std::span<std::byte> out) override {
    return open_file(key) ? pread(fd_, out.data(), out.size(), static_cast<off_t>(offset)) : -1;
  }
  ~RealTree() override { close_file(); }

 private:
  bool open_file(const std::string& key) {
    if (fd_ >= 0 && key == key_) return true;
    close_file();
    fd_ = open(key.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    key_ = key;
    return fd_ >= 0;
  }
  void close_file() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  std::string key_;  // the file that is open
  int fd_ = -1;
};

class ModelTree final : public Source {
 public:
  explicit ModelTree(Filesystem& filesystem) : filesystem_(filesystem) {}
  bool list(const std::string& key, std::vector<Entry>& entries) override {
    std::vector<fusefs::DirEntry> found;
    if (filesystem_.readdir(ino(key), 0, ~std::size_t{0}, found) != 0) return false;
    for (const fusefs::DirEntry& entry : found) {
      if (entry.name != "." && entry.name != "..")
        entries.push_back({entry.name, std::to_string(static_cast<std::uint64_t>(entry.ino))});
    }
    return true;
  }
  bool stat(const std::string& key, struct stat& out) override { return filesystem_.getattr(ino(key), out) == 0; }
  std::string target(const std::string& key) override {
    std::string target;
    filesystem_.readlink(ino(key), target);
    return target;
  }
  std::int64_t next_data(const std::string& key, std::uint64_t offset) override {
    return filesystem_.seek(ino(key), offset, SEEK_DATA);
  }
  std::map<std::string, std::string> xattrs(const std::string& key) override {
    std::map<std::string, std::string> found;
    std::vector<std::string> names;
    filesystem_.list_xattr(ino(key), names);
    for (const std::string& name : names) filesystem_.get_xattr(ino(key), name, found[name]);
    return found;
  }
  std::int64_t read(const std::string& key, std::uint64_t offset, std::span<std::byte> out) override {
    return filesystem_.read(ino(key), offset, out);
  }

 private:
  static Ino ino(const std::string& key) { return Ino{std::stoull(key)}; }
  Filesystem& filesystem_;
};

class Copy {
 public:
  Copy(Source& source, Traced& changes, const CopyOptions& options)
      : source_(source), changes_(changes), options_(options) {}

  void copy_directory(const std::string& key, Ino to) {
    std::vector<Source::Entry> entries;
    if (!source_.list(key, entries)) return note("read", key);
    for (const Source::Entry& entry : entries) {
      if (!options_.left_out.contains(entry.key)) copy(entry, to);
    }
  }
  void copy_attributes(const std::string& key, const struct stat& found, Ino to) {
    for (const auto& [name, value] : source_.xattrs(key)) changes_.set_xattr(to, name, value, 0);
    const fusefs::Credentials owner = owner_of(found);
    changes_.setattr(to, fusefs::AttrChange{.mode = found.st_mode & 07777,
                                            .uid = owner.uid,
                                            .gid = owner.gid,
                                            .atime = found.st_atim,
                                            .mtime = found.st_mtim});
  }
  std::string failure;

 private:
  fusefs::Credentials owner_of(const struct stat& found) const {
    return options_.owner.value_or(fusefs::Credentials{found.st_uid, found.st_gid, {}});
  }

  void copy(const Source::Entry& entry, Ino dir) {
    struct stat found {};
    if (!source_.stat(entry.key, found)) return note("read", entry.key);
    const auto known = made_.find({found.st_dev, found.st_ino});
    if (known != made_.end() && !S_ISDIR(found.st_mode)) {
      check(changes_.link(known->second, dir, entry.name), entry.key);
      return;
    }
    Ino made{};
    Errno error = 0;
    if (S_ISDIR(found.st_mode)) {
      error = changes_.mkdir(dir, entry.name, found.st_mode, owner_of(found), made);
      if (error == 0) copy_directory(entry.key, made);
    } else if (S_ISLNK(found.st_mode)) {
      error = changes_.symlink(dir, entry.name, source_.target(entry.key), owner_of(found), made);
    } else {
      error = changes_.create(dir, entry.name, found.st_mode, found.st_rdev, owner_of(found), made);
      if (error == 0 && S_ISREG(found.st_mode)) copy_data(entry.key, made, static_cast<std::uint64_t>(found.st_size));
    }
    if (!check(error, entry.key)) return;
    if (found.st_nlink > 1) made_.emplace(std::pair(found.st_dev, found.st_ino), made);
    copy_attributes(entry.key, found, made);
    ++progress_.files;
    if (options_.on_progress) options_.on_progress(progress_);
  }

  void copy_data(const std::string& key, Ino to, std::uint64_t size) {
    std::vector<std::byte> piece(std::min<std::uint64_t>(size, kCopiedBytes));
    std::uint64_t end = 0;
    for (std::int64_t at = size == 0 ? -1 : source_.next_data(key, 0); at >= 0;) {
      const std::int64_t got = source_.read(key, static_cast<std::uint64_t>(at), piece);
      if (got < 0) return note("read", key);
      if (got == 0) break;
      const std::int64_t put =
          changes_.write(to, static_cast<std::uint64_t>(at), std::span(piece).first(static_cast<std::size_t>(got)), {});
      if (!check(put < 0 ? static_cast<Errno>(put) : 0, key)) return;
      end = static_cast<std::uint64_t>(at + got);
      progress_.bytes += static_cast<std::uint64_t>(got);
      if (options_.on_progress) options_.on_progress(progress_);
      at = source_.next_data(key, end);
    }
    if (end == 0 && size > 0 && !source_.can_read(key)) return note("read", key);
    if (end < size) check(changes_.truncate(to, size), key);  // it ends in a hole
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
  const CopyOptions& options_;
  CopyProgress progress_;
  std::map<std::pair<dev_t, ino_t>, Ino> made_;
};

}  // namespace

std::string copy_in(const std::string& directory, Traced& changes, const CopyOptions& options) {
  RealTree source;
  Copy copy(source, changes, options);
  struct stat found {};
  if (!source.stat(directory, found)) return fmt::format("Cannot read {}: {}.", directory, std::strerror(errno));
  copy.copy_directory(directory, fusefs::kRootIno);
  copy.copy_attributes(directory, found, fusefs::kRootIno);
  return copy.failure;
}

std::string copy_disk(Filesystem& from, Traced& changes) {
  ModelTree source(from);
  const CopyOptions options;
  Copy copy(source, changes, options);
  const std::string root = std::to_string(static_cast<std::uint64_t>(fusefs::kRootIno));
  copy.copy_directory(root, fusefs::kRootIno);
  if (struct stat found{}; source.stat(root, found)) copy.copy_attributes(root, found, fusefs::kRootIno);
  return copy.failure;
}

}  // namespace crashcut::mounted
