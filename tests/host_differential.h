// Differential: one random sequence of calls on a Process and in a directory of the host, compared result by result.
//
// Compared: every result, all attributes, contents and listings of the tree now and then, and on some calls which
//   of the times of every inode of the tree they change.
// Not compared: inode numbers, directory sizes, st_blocks, times as such; opening FIFOs and devices, behind which
//   the model has nothing.
// The calls themselves are tables, one a theme: host_ops_{names,files,attributes}.cc.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/host_system.h"

namespace crashcut::fusefs {

inline constexpr uid_t kNobody = 65534;

// A directory of the host, removed in the end.
class HostDirectory {
 public:
  HostDirectory();
  ~HostDirectory();
  int fd() const { return fd_; }
  bool is_ext4() const;

 private:
  std::string path_;
  int fd_ = -1;
};

// What the host lets a test see.
struct HostAbilities {
  bool makes_devices;      // whether we may make device nodes
  bool shows_every_ctime;  // two changes in a row have different ctimes (multigrain timestamps)
  bool updates_atime;      // as the relatime option says
};
const HostAbilities& host_abilities();

std::string describe(std::int64_t result);
std::string describe(const struct stat& stat);
std::string to_octal(mode_t mode);
std::string place_of(int dir, const std::string& path);
std::string join_sorted(std::vector<std::string> lines);
// "name:type" of all entries, read in buffers of some size.
std::vector<std::string> list_directory(System& system, int fd, std::size_t buffer_bytes);
std::string list_user_xattrs(System& system, int fd, const std::string& path, bool follow);
inline iovec part_of(const std::string& text) { return {const_cast<char*>(text.data()), text.size()}; }

class Differential {
 public:
  Differential(std::uint64_t seed, bool two_users);

  bool run(int steps);

  // ---- for the calls ----

  // Does it on both sides and compares what it says. The model goes first: what leads out of its tree, or where
  // it says `unasked`, must not be done to the host.
  using Act = std::function<std::string(System&)>;
  void both(const std::string& what, const Act& act, const std::string& unasked = "");

  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }
  bool chance(int percent) { return static_cast<int>(pick(100)) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[pick(values.size())];
  }
  int slot();      // mostly one that is open
  int dir_slot();  // for a path to start at; mostly -1
  std::string path();
  off_t offset();
  mode_t mode();
  std::string bytes();

  bool has_one_user() const { return users_.size() == 1; }
  bool is_directory(int slot);
  // What lies there, in the model; both sides are asked, as following a symlink is an access. 0 where nothing does.
  mode_t type_of(int dir, const std::string& path);
  // Of two paths where one is outside, only the host could say which fails first.
  bool is_outside(int dir, const std::string& path);

 private:
  struct User {
    std::unique_ptr<System> model;
    std::unique_ptr<System> host;
  };

  void add_user(const Credentials& who);
  void check_tree();
  void run_watching_times(const std::function<void()>& op);

  std::mt19937_64 random_;
  std::uint64_t seed_;
  HostDirectory host_;
  Filesystem filesystem_{{}};
  std::vector<User> users_;
  std::size_t user_ = 0;
  bool same_ = true;
  bool host_was_unasked_ = false;  // in this step
  std::vector<std::string> log_;
};

using HostOp = void (*)(Differential&);
// Frequent ones stand more than once.
std::span<const HostOp> name_ops();
std::span<const HostOp> file_ops();
std::span<const HostOp> attribute_ops();

}  // namespace crashcut::fusefs
