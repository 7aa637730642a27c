#include "recovery/kernel/forcing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

namespace crashcut::kernel {
namespace {

namespace fs = boost::filesystem;

// The loop device takes the writes in other threads.
constexpr std::chrono::milliseconds kUntilWritesArrive{3};

}  // namespace

std::string to_text(const Forcing& forcing) {
  const char* const what = forcing.force == Force::kCommit      ? "a commit"
                           : forcing.force == Force::kWriteback ? "writeback and a commit"
                                                                : "writeback that is held up by the drive and a commit";
  if (forcing.force == Force::kNothing) return "nothing forced";
  return forcing.at == 0 ? fmt::format("{} before every call", what)
                         : fmt::format("{} before call {}", what, forcing.at);
}

std::vector<Forcing> choose_forcings(std::uint32_t count, std::uint32_t call_count, std::uint64_t seed) {
  std::vector<Forcing> forcings{
      {Force::kNothing}, {Force::kHeldWriteback, 0}, {Force::kCommit, 0}, {Force::kWriteback, 0}};
  std::vector<Forcing> single;
  for (std::uint32_t call = 1; call <= call_count + 1; ++call) {
    for (const Force force : {Force::kHeldWriteback, Force::kWriteback, Force::kCommit})
      single.push_back({force, call});
  }
  // Near the end all of the program's data is there to be written.
  std::reverse(single.begin(), single.end());
  if (single.size() + forcings.size() > count) {
    std::mt19937_64 random(seed);
    std::shuffle(single.begin(), single.end(), random);
  }
  forcings.insert(forcings.end(), single.begin(), single.end());
  if (forcings.size() > count) forcings.resize(count);
  return forcings;
}

Forcer::Forcer(const std::string& directory, const KernelFilesystem& filesystem, const Forcing& forcing,
               blocklayer::DeviceMount& device)
    : directory_(directory), type_(filesystem.type), forcing_(forcing), device_(device) {
  if (forcing.force == Force::kNothing) return;
  unrelated_ = sandbox::Fd(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!unrelated_) error_ = fmt::format("Cannot make a file without a name on the disk: {}.", std::strerror(errno));
}

void Forcer::before_call() {
  ++call_count_;
  if (forcing_.at == 0 || forcing_.at == call_count_) force();
}

void Forcer::at_end() {
  if (forcing_.at == 0 || forcing_.at > call_count_) force();
}

void Forcer::force() {
  switch (forcing_.force) {
    case Force::kNothing:
      return;
    case Force::kCommit:
      break;
    case Force::kWriteback:
      write_back(true);
      break;
    case Force::kHeldWriteback:
      device_.hold_arriving(true);
      write_back(false);
      std::this_thread::sleep_for(kUntilWritesArrive);
      device_.hold_arriving(false);
      break;
  }
  commit();
  if (forcing_.force == Force::kHeldWriteback) device_.release_held();
}

void Forcer::commit() {
  if (!unrelated_) return;
  bool is_done = false;
  if (type_ == "btrfs") {
    // fsync writes a log of the one file there; this commits the transaction, and leaves delayed data alone.
    __u64 transaction = 0;
    is_done = ioctl(unrelated_.get(), BTRFS_IOC_START_SYNC, &transaction) == 0 &&
              ioctl(unrelated_.get(), BTRFS_IOC_WAIT_SYNC, &transaction) == 0;
  } else {
    is_done = ftruncate(unrelated_.get(), static_cast<off_t>(++grown_)) == 0 && fsync(unrelated_.get()) == 0;
  }
  if (!is_done) error_ = fmt::format("The kernel could not be made to commit: {}.", std::strerror(errno));
}

void Forcer::write_back(bool waits) {
  const unsigned flags =
      waits ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER : SYNC_FILE_RANGE_WRITE;
  boost::system::error_code error;
  for (fs::recursive_directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    boost::system::error_code gone;
    if (fs::symlink_status(at->path(), gone).type() != fs::regular_file) continue;
    const sandbox::Fd file(open(at->path().c_str(), O_RDONLY | O_NOATIME | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file) sync_file_range(file.get(), 0, 0, flags);
  }
}

}  // namespace crashcut::kernel
