// Random programs on a traced filesystem, and on filesystems that record directly beside it.
//
// Every call that a Traced has, in every mode, with arguments that often fail. The clocks of all are one, so that the
// recordings can be compared down to the times.
#pragma once

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fusefs/filesystem.h"
#include "fusefs/recorder.h"
#include "fusefs/traced.h"

namespace crashcut::tests {

using fusefs::Ino;

// One filesystem that is traced, and one a model that is recorded.
class TracedProgram {
 public:
  TracedProgram(std::uint64_t seed, const std::string& trace_path, std::uint32_t sector_bytes,
                std::uint32_t block_bytes, const std::vector<fusefs::ModelOptions>& models)
      : random_(seed), traced_fs_(setup(nullptr, sector_bytes, block_bytes)), block_bytes_(block_bytes) {
    fusefs::TraceHeader header{
        sector_bytes, block_bytes, kCapacity, clock_.now(), {"program", "--seed", std::to_string(seed)}};
    writer_ = fusefs::TraceWriter::create(trace_path, header).value();
    traced_ = std::make_unique<fusefs::Traced>(traced_fs_, clock_, writer_.get());
    for (const fusefs::ModelOptions& options : models) {
      recorders_.push_back(std::make_unique<fusefs::Recorder>(options));
      direct_.push_back(
          std::make_unique<fusefs::Filesystem>(setup(recorders_.back().get(), sector_bytes, block_bytes)));
    }
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (chance(30)) {
        const int who = pick(1, 3);
        traced_->set_process(100 + who, who == 3 && chance(50) ? "exec" : "sh");
      }
      step();
    }
  }
  void finish() {
    writer_->finish();
    for (auto& recorder : recorders_) recorder->seal();
  }

  fusefs::TraceWriter& writer() { return *writer_; }
  fusefs::Filesystem& traced_filesystem() { return traced_fs_; }
  const fusefs::Recording& recording(std::size_t model) const { return recorders_[model]->recording(); }
  std::uint64_t traced_calls() const { return traced_calls_; }
  // A call that came out differently beside the trace, which is a mistake of this test.
  bool has_diverged() const { return has_diverged_; }

 private:
  static constexpr std::uint64_t kCapacity = 96 * 1024;  // small, so that the disk is full at times

  fusefs::Filesystem::Setup setup(fusefs::Recorder* recorder, std::uint32_t sector_bytes, std::uint32_t block_bytes) {
    fusefs::Filesystem::Setup s;
    s.recorder = recorder;
    s.sector_bytes = sector_bytes;
    s.block_bytes = block_bytes;
    s.capacity_bytes = kCapacity;
    s.clock = clock_.reader();
    return s;
  }

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(pick(0, static_cast<int>(all.size()) - 1))];
  }
  std::uint64_t some_offset() {
    const auto blocks = static_cast<std::uint64_t>(pick(0, 4)) * block_bytes_;
    return chance(50) ? blocks : blocks + static_cast<std::uint64_t>(pick(0, static_cast<int>(block_bytes_)));
  }
  int some_blocks() const { return static_cast<int>(std::min<std::uint32_t>(5000, 20 * block_bytes_)); }
  std::string some_name() { return std::string(1, static_cast<char>('a' + pick(0, 5))); }

  // Does `call` on the traced filesystem, then on the others. Only what is traced is an operation of theirs.
  template <class Call>
  std::int64_t all(Call&& call) {
    const std::int64_t result = call(*traced_);
    // A fallocate that fails late has changed the file's times.
    const bool failed_late = is_fallocate_ && (result == -ENOSPC || result == -EINVAL);
    const bool is_traced = result > 0 || (result == 0 && !is_empty_write_) || failed_late;
    traced_calls_ += is_traced;
    for (std::size_t i = 0; i < direct_.size(); ++i) {
      if (is_traced) recorders_[i]->begin_op("");
      has_diverged_ |= call(*direct_[i]) != result;
    }
    return result;
  }
  template <class Make>
  void make(Make&& call, std::vector<Ino>& into) {
    Ino ino{};
    if (all([&](auto& fs) { return call(fs, ino); }) == 0) into.push_back(ino);
  }

  void step() {
    switch (pick(1, 24)) {
      case 1:
      case 2:
      case 3:
        return create();
      case 4:
        return make_special();
      case 5:
        return names();
      case 6:
        return rename();
      case 7:
        return attributes();
      case 8:
        return xattrs();
      case 9:
        return open_or_close();
      case 10:
        return resize();
      case 11:
        return fallocate();
      case 12:
        return sync();
      case 13:
        return marks();
      default:
        return write();
    }
  }

  void create() {
    const Ino dir = one_of(dirs_);
    const std::string name = some_name();
    const fusefs::Credentials who{static_cast<uid_t>(pick(0, 2000)), static_cast<gid_t>(pick(0, 2000)), {}};
    const mode_t mode = static_cast<mode_t>(pick(0, 07777));
    make([&](auto& fs, Ino& ino) { return fs.create(dir, name, S_IFREG | mode, 0, who, ino); }, files_);
  }
  void make_special() {
    const Ino dir = one_of(dirs_);
    const std::string name = some_name();
    const fusefs::Credentials who{1, 2, {}};
    switch (pick(1, 5)) {
      case 1:
        return make([&](auto& fs, Ino& ino) { return fs.create(dir, name, S_IFCHR | 0600, 0x103, who, ino); }, files_);
      case 2:
        return make([&](auto& fs, Ino& ino) { return fs.symlink(dir, name, "where/to", who, ino); }, files_);
      case 3:
        return make_tmpfile(dir, who);
      default:
        return make([&](auto& fs, Ino& ino) { return fs.mkdir(dir, name, 02755, who, ino); }, dirs_);
    }
  }
  void make_tmpfile(Ino dir, const fusefs::Credentials& who) {
    const std::size_t before = files_.size();
    make([&](auto& fs, Ino& ino) { return fs.tmpfile(dir, 0600, who, ino); }, files_);
    if (files_.size() > before) open(files_.back());
  }
  void names() {
    const Ino dir = one_of(dirs_);
    const Ino file = one_of(files_);
    const std::string name = some_name();
    const int which = pick(1, 5);
    all([&](auto& fs) {
      return which == 1 ? fs.rmdir(dir, name) : which <= 3 ? fs.unlink(dir, name) : fs.link(file, dir, name);
    });
  }
  void rename() {
    const Ino from_dir = one_of(dirs_);
    const Ino to_dir = one_of(dirs_);
    const std::string from = some_name();
    const std::string to = some_name();
    const unsigned flags = chance(70) ? 0 : chance(50) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    all([&](auto& fs) { return fs.rename(from_dir, from, to_dir, to, flags); });
  }
  void attributes() {
    const Ino ino = chance(70) ? one_of(files_) : one_of(dirs_);
    fusefs::AttrChange change;
    if (chance(50)) change.mode = static_cast<mode_t>(pick(0, 07777));
    if (chance(30)) change.uid = static_cast<uid_t>(pick(0, 70000));
    if (chance(30)) change.gid = static_cast<gid_t>(pick(0, 70000));
    if (chance(40)) change.atime = timespec{pick(-5, 5), pick(0, 999'999'999)};
    if (chance(40)) change.mtime = timespec{0, UTIME_NOW};
    all([&](auto& fs) { return fs.setattr(ino, change); });
  }
  void xattrs() {
    const Ino ino = one_of(files_);
    const std::string name = (chance(80) ? "user." : "") + some_name();
    const std::string value(static_cast<std::size_t>(pick(0, 1500)), 'v');
    const int flags = chance(70) ? 0 : chance(50) ? XATTR_CREATE : XATTR_REPLACE;
    const bool removes = chance(30);
    all([&](auto& fs) { return removes ? fs.remove_xattr(ino, name) : fs.set_xattr(ino, name, value, flags); });
  }
  void open(Ino ino) {
    fusefs::Owner owner;
    if (traced_fs_.get_owner(ino, owner) != 0) return;
    all([&](auto& fs) { return fs.add_open(ino), 0; });
    opens_.push_back(ino);
  }
  void open_or_close() {
    if (opens_.empty() || chance(50)) return open(chance(90) ? one_of(files_) : one_of(dirs_));
    const auto which = opens_.begin() + pick(0, static_cast<int>(opens_.size()) - 1);
    const Ino ino = *which;
    opens_.erase(which);
    const bool was_writable = chance(70);
    all([&](auto& fs) { return fs.release(ino, was_writable), 0; });
  }
  void resize() {
    const Ino ino = one_of(files_);
    const std::uint64_t size = chance(30) ? 0 : some_offset();
    all([&](auto& fs) { return fs.truncate(ino, size); });
  }
  void fallocate() {
    static const std::vector<int> kModes = {0,
                                            FALLOC_FL_KEEP_SIZE,
                                            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                            FALLOC_FL_ZERO_RANGE,
                                            FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                                            FALLOC_FL_COLLAPSE_RANGE,
                                            FALLOC_FL_INSERT_RANGE,
                                            0x40000000};
    const Ino ino = one_of(files_);
    const int mode = one_of(kModes);
    const std::uint64_t offset = some_offset();
    const std::uint64_t length = some_offset();
    is_fallocate_ = true;
    all([&](auto& fs) { return fs.fallocate(ino, mode, offset, length); });
    is_fallocate_ = false;
  }
  void sync() {
    const Ino ino = chance(80) ? one_of(files_) : one_of(dirs_);
    const int which = pick(1, 8);
    const std::uint64_t offset = some_offset();
    all([&](auto& fs) {
      if (which == 1) return fs.sync();
      return which <= 3 ? fs.sync_file_range(ino, offset, offset / 2, SYNC_FILE_RANGE_WRITE)
                        : fs.fsync(ino, which <= 5);
    });
  }
  void marks() {
    if (chance(15)) {
      all([&](auto& fs) { return fs.make_durable(), 0; });
      return;
    }
    const std::string text = "m" + std::to_string(pick(1, 3));
    const int count = ++mark_counts_[text];
    traced_->mark(text);
    ++traced_calls_;
    for (auto& recorder : recorders_) {
      recorder->begin_op("");
      recorder->mark(count == 1 ? text : text + " (" + std::to_string(count) + ")");
    }
  }
  void write() {
    const Ino ino = one_of(files_);
    const std::uint64_t offset = some_offset();
    std::vector<std::byte> bytes(chance(5) ? 0 : static_cast<std::size_t>(pick(1, chance(80) ? 40 : some_blocks())));
    for (std::byte& byte : bytes) byte = chance(10) ? std::byte{0} : static_cast<std::byte>(pick(0, 255));
    const fusefs::WriteFlags flags{.append = chance(30), .direct = chance(10), .dsync = chance(10), .sync = chance(5)};
    is_empty_write_ = bytes.empty();
    all([&](auto& fs) { return fs.write(ino, offset, bytes, flags); });
    is_empty_write_ = false;
  }

  std::mt19937_64 random_;
  fusefs::TraceClock clock_;
  fusefs::Filesystem traced_fs_;
  std::uint32_t block_bytes_;
  std::unique_ptr<fusefs::TraceWriter> writer_;
  std::unique_ptr<fusefs::Traced> traced_;
  std::vector<std::unique_ptr<fusefs::Recorder>> recorders_;
  std::vector<std::unique_ptr<fusefs::Filesystem>> direct_;
  std::vector<Ino> files_{Ino{999}};  // one that does not exist
  std::vector<Ino> dirs_{fusefs::kRootIno};
  std::vector<Ino> opens_;
  std::uint64_t traced_calls_ = 0;
  std::map<std::string, int> mark_counts_;
  bool is_fallocate_ = false;
  bool is_empty_write_ = false;
  bool has_diverged_ = false;
};

}  // namespace crashcut::tests
