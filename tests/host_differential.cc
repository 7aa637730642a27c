#include "tests/host_differential.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "fusefs/process.h"
#include "tests/process_fixture.h"

namespace crashcut::fusefs {

// ---- the host ----------------------------------------------------------------------------------------------------

HostDirectory::HostDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "crashcut-XXXXXX").string();
  path_ = ::mkdtemp(name.data());
  std::filesystem::create_directory(path_ + "/root");
  fd_ = ::open((path_ + "/root").c_str(), O_RDONLY | O_DIRECTORY);
  ::fchmod(fd_, 0777);
}

HostDirectory::~HostDirectory() {
  ::close(fd_);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

bool HostDirectory::is_ext4() const {
  struct statfs stat {};
  return ::fstatfs(fd_, &stat) == 0 && stat.f_type == EXT4_SUPER_MAGIC && stat.f_bsize == 4096;
}

namespace {

bool shows_every_ctime(int fd) {
  struct stat before {};
  struct stat after {};
  for (int i = 0; i < 20; ++i) {
    ::fchmod(fd, 0777);
    ::fstat(fd, &before);
    ::fchmod(fd, 0777);
    ::fstat(fd, &after);
    if (before.st_ctim.tv_nsec == after.st_ctim.tv_nsec) return false;
  }
  return true;
}

std::vector<gid_t> host_groups() {
  std::vector<gid_t> groups(64);
  int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return groups;
}

}  // namespace

const HostAbilities& host_abilities() {
  static const HostAbilities abilities = [] {
    HostDirectory directory;
    struct statvfs stat {};
    ::fstatvfs(directory.fd(), &stat);
    bool updates_atime = (stat.f_flag & ST_RELATIME) && !(stat.f_flag & (ST_NOATIME | ST_NODIRATIME));
    return HostAbilities{::mknodat(directory.fd(), "device", S_IFCHR | 0600, 0) == 0, shows_every_ctime(directory.fd()),
                         updates_atime};
  }();
  return abilities;
}

// ---- in words ----------------------------------------------------------------------------------------------------

std::string to_octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%o", mode);
  return text;
}

std::string place_of(int dir, const std::string& path) {
  std::string text = std::to_string(dir);
  return text.append(":'").append(path).append("' ");
}

std::string describe(const struct stat& stat) {
  std::string text = "mode " + to_octal(stat.st_mode) + " nlink " + std::to_string(stat.st_nlink) + " owner " +
                     std::to_string(stat.st_uid) + ":" + std::to_string(stat.st_gid);
  if (!S_ISDIR(stat.st_mode)) text += " size " + std::to_string(stat.st_size);
  if (S_ISCHR(stat.st_mode) || S_ISBLK(stat.st_mode)) text += " device " + std::to_string(stat.st_rdev);
  return text;
}

std::string describe(std::int64_t result) { return std::to_string(result); }

std::string join_sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> list_directory(System& system, int fd, std::size_t buffer_bytes) {
  std::vector<std::string> names;
  std::vector<std::byte> buffer(buffer_bytes);
  system.seek(fd, 0, SEEK_SET);
  for (;;) {
    std::int64_t used = system.getdents(fd, buffer);
    if (used < 0) return {describe(used)};
    if (used == 0) return names;
    for (auto& name : parse_dirents(std::span(buffer).first(static_cast<std::size_t>(used)))) names.push_back(name);
  }
}

std::string list_user_xattrs(System& system, int fd, const std::string& path, bool follow) {
  std::string names;
  std::int64_t result = system.list_xattr(fd, path, follow, names);
  if (result < 0) return describe(result);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < names.size(); at += std::strlen(&names[at]) + 1) {
    std::string name = &names[at];
    if (!name.starts_with("user.")) continue;
    std::string value;
    result = system.get_xattr(fd, path, follow, name, value);
    lines.push_back(name + "=" + value + describe(result));
  }
  return join_sorted(lines);
}

namespace {

std::string read_all(System& system, int fd) {
  std::string bytes(1 << 17, '\0');
  std::int64_t count = system.pread(fd, {bytes.data(), bytes.size()}, 0);
  if (count < 0) return describe(count);
  return describe(count) + " bytes, hash " +
         std::to_string(std::hash<std::string_view>{}({bytes.data(), static_cast<std::size_t>(count)}));
}

// Calls visit(path, stat) for everything at and below `path`, which is relative to the root of the tree.
template <class Visit>
void walk_tree(System& system, const std::string& path, Visit&& visit) {
  struct stat stat {};
  std::int64_t result = system.stat(AT_FDCWD, system.root() + path, stat, AT_SYMLINK_NOFOLLOW);
  visit(path, result, stat);
  if (result < 0 || !S_ISDIR(stat.st_mode)) return;
  auto fd = static_cast<int>(system.open_file(AT_FDCWD, system.root() + path, O_RDONLY | O_DIRECTORY, 0));
  if (fd < 0) return;
  std::vector<std::string> names = list_directory(system, fd, 4096);
  system.close_file(fd);
  std::sort(names.begin(), names.end());
  for (const std::string& entry : names) {
    std::string name = entry.substr(0, entry.find(':'));
    if (name != "." && name != "..") walk_tree(system, path + "/" + name, visit);
  }
}

std::string describe_file(System& system, const std::string& path) {
  auto fd = static_cast<int>(system.open_file(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0));
  if (fd < 0) return describe(fd);
  std::string text = list_user_xattrs(system, fd, "", true) + " " + read_all(system, fd);
  system.close_file(fd);
  return text;
}

std::string describe_tree(System& system) {
  std::string text;
  walk_tree(system, "", [&](const std::string& path, std::int64_t result, const struct stat& stat) {
    text += path + ": " + (result < 0 ? describe(result) : describe(stat));
    if (S_ISLNK(stat.st_mode)) {
      char target[4096];
      std::int64_t length = system.readlink(AT_FDCWD, system.root() + path, target);
      text += " -> " + std::string(target, static_cast<std::size_t>(length));
    }
    if (S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode)) text += " " + describe_file(system, system.root() + path);
    text += "\n";
  });
  return text;
}

// Which times of the tree's inodes change from start() to changes(). The inodes are held, so names may go meanwhile.
class TimesWatch {
 public:
  TimesWatch(System& system, std::vector<std::string> paths) : system_(system), paths_(std::move(paths)) {
    for (const std::string& path : paths_)
      fds_.push_back(static_cast<int>(system_.open_file(AT_FDCWD, system_.root() + path, O_PATH | O_NOFOLLOW, 0)));
    before_.resize(paths_.size());
  }
  ~TimesWatch() {
    for (int fd : fds_) system_.close_file(fd);
  }
  TimesWatch(const TimesWatch&) = delete;
  TimesWatch& operator=(const TimesWatch&) = delete;

  // What relatime does depends on whether the last access is older than the last change.
  void start(time_t atime) {
    const timespec times[2] = {{atime, 0}, {2, 0}};
    for (int fd : fds_) system_.utimens(fd, "", times, AT_EMPTY_PATH);
    for (std::size_t i = 0; i < fds_.size(); ++i) system_.stat(fds_[i], "", before_[i], AT_EMPTY_PATH);
  }
  std::string changes() {
    std::string text;
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      struct stat now {};
      system_.stat(fds_[i], "", now, AT_EMPTY_PATH);
      std::string changed;
      if (host_abilities().updates_atime && is_changed(now.st_atim, before_[i].st_atim)) changed += " atime";
      if (is_changed(now.st_mtim, before_[i].st_mtim)) changed += " mtime";
      if (host_abilities().shows_every_ctime && is_changed(now.st_ctim, before_[i].st_ctim)) changed += " ctime";
      if (!changed.empty()) text += "'" + paths_[i] + "':" + changed + "\n";
    }
    return text;
  }

 private:
  static bool is_changed(const timespec& a, const timespec& b) {
    return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec;
  }

  System& system_;
  std::vector<std::string> paths_;
  std::vector<int> fds_;
  std::vector<struct stat> before_;
};

}  // namespace

// ---- the driver --------------------------------------------------------------------------------------------------

Differential::Differential(std::uint64_t seed, bool two_users) : random_(seed), seed_(seed) {
  const auto owner = make_model_system(filesystem_, Credentials{});
  owner->chown(AT_FDCWD, ".", ::geteuid(), ::getegid(), 0);
  owner->chmod(AT_FDCWD, ".", 0777);
  add_user({.uid = ::geteuid(), .gid = ::getegid(), .groups = host_groups()});
  if (two_users) add_user({.uid = kNobody, .gid = kNobody, .groups = host_groups()});
}

void Differential::add_user(const Credentials& who) {
  users_.push_back({make_model_system(filesystem_, who), make_host_system(host_.fd(), who)});
}

bool Differential::run(int steps) {
  std::vector<HostOp> ops;
  for (auto table : {name_ops(), file_ops(), attribute_ops()}) ops.insert(ops.end(), table.begin(), table.end());
  for (int step = 0; step < steps && same_; ++step) {
    user_ = pick(users_.size());
    HostOp op = ops[pick(ops.size())];
    host_was_unasked_ = false;
    if (chance(25)) {
      run_watching_times([&] { op(*this); });
    } else {
      op(*this);
    }
    if (step % 20 == 19) check_tree();
  }
  check_tree();
  return same_;
}

void Differential::both(const std::string& what, const Act& act, const std::string& unasked) {
  if (!same_) return;
  User& user = users_[user_];
  std::string model = act(*user.model);
  log_.push_back("user " + std::to_string(user_) + ": " + what + " = " + model);
  if (model == describe(kOutside) || model == describe(-EXDEV) || model == unasked) {
    host_was_unasked_ = true;
    return;
  }
  std::string host = act(*user.host);
  if (model == host) return;
  same_ = false;
  std::string history;
  for (const std::string& line : log_) history += "  " + line + "\n";
  ADD_FAILURE() << "CRASHCUT_SEED=" << seed_ << "\n" << history << "the host says " << host;
}

void Differential::check_tree() {
  user_ = 0;
  both("tree", [](System& system) { return describe_tree(system); });
}

void Differential::run_watching_times(const std::function<void()>& op) {
  User& owner = users_[0];
  std::vector<std::string> paths;
  walk_tree(*owner.model, "", [&](const std::string& path, auto&&...) { paths.push_back(path); });
  // To walk it is to open and close directories, which drops record locks.
  walk_tree(*owner.host, "", [](auto&&...) {});
  TimesWatch model(*owner.model, paths);
  TimesWatch host(*owner.host, paths);
  constexpr time_t kFuture = 4'000'000'000;
  const time_t atime = chance(70) ? 1 : kFuture;
  model.start(atime);
  host.start(atime);
  op();
  if (host_was_unasked_) return;
  both("times since " + std::to_string(atime),
       [&](System& system) { return (&system == users_[user_].model.get() ? model : host).changes(); });
}

// ---- what is random ----------------------------------------------------------------------------------------------

int Differential::slot() {
  int slot = static_cast<int>(pick(kSlots));
  for (int tries = 0; tries < 3 && users_[user_].model->fd(slot) == kBadFd; ++tries)
    slot = static_cast<int>(pick(kSlots));
  return slot;
}

int Differential::dir_slot() { return chance(10) ? slot() : -1; }

std::string Differential::path() {
  auto name = [&]() -> std::string {
    if (chance(4)) return ".";
    if (chance(4)) return "..";
    return one_of<const char*>({"a", "b", "c", "d", "e"});
  };
  if (chance(1)) return "";
  std::string text = name();
  while (chance(35)) text += (chance(5) ? "//" : "/") + name();
  return chance(6) ? text + "/" : text;
}

off_t Differential::offset() {
  if (chance(2)) return -1;
  return static_cast<off_t>(chance(30) ? pick(5) * 4096 : pick(20000));
}

mode_t Differential::mode() {
  mode_t mode = one_of<mode_t>({0644, 0666, 0600, 0755, 0777, 0711, 0444, 0, 02755, 02777, 04755, 06777, 02666, 01775,
                                01777, 01777, 03777, 01770});
  return ::geteuid() == 0 ? mode : mode | 0700;
}

std::string Differential::bytes() {
  std::size_t count = chance(5) ? 0 : chance(50) ? pick(100) : pick(10000);
  return std::string(count, static_cast<char>('A' + pick(26)));
}

bool Differential::is_directory(int slot) {
  struct stat stat {};
  System& model = *users_[user_].model;
  return model.stat(model.fd(slot), "", stat, AT_EMPTY_PATH) == 0 && S_ISDIR(stat.st_mode);
}

mode_t Differential::type_of(int dir, const std::string& path) {
  struct stat found {};
  struct stat ignored {};
  User& user = users_[user_];
  std::int64_t result = user.model->stat(user.model->dir(dir), path, found, 0);
  host_was_unasked_ |= result == kOutside;
  if (result == kOutside) return 0;
  user.host->stat(user.host->dir(dir), path, ignored, 0);
  return result < 0 ? 0 : found.st_mode & S_IFMT;
}

bool Differential::is_outside(int dir, const std::string& path) {
  struct stat stat {};
  User& user = users_[user_];
  for (int flags : {AT_SYMLINK_NOFOLLOW, 0}) {
    bool outside = user.model->stat(user.model->dir(dir), path, stat, flags) == kOutside;
    host_was_unasked_ |= outside;
    if (outside) return true;
    user.host->stat(user.host->dir(dir), path, stat, flags);
  }
  return false;
}

}  // namespace crashcut::fusefs
