// What the running kernel's ext4 leaves where the plug is pulled is among what the model allows.
//
// Calls (tests/inprocess/random_calls.c, block_calls.c) are made on a loop device that stands on a recording disk.
//   Every prefix of what the device wrote from the starting state on is a crash: the image is mounted again, and what
//   is found there must be an outcome of the same calls on the model. So a crash falls before, between and inside the
//   commits of the journal, and while the disk is unmounted at the end.
// Does not verify: that the model allows nothing else; a drive that writes in another order between two flushes.
// Skips where there is no root, no loop device, no /dev/fuse or no mkfs.ext4.
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string_view>

#include "tests/kernel_disk.h"
#include "tests/recording_disk.h"
#include "tests/seeds.h"

namespace crashcut {
namespace {

namespace fs = std::filesystem;
using tests::Mode;
using tests::output_of;
using Entry = tests::RecordingDisk::Entry;

constexpr std::uint64_t kDiskBytes = 12 << 20, kBlock = 4096;

// An ext4 mounted by a loop device, as long as this lives.
class LoopMount {
 public:
  LoopMount(int file, const std::string& directory, const char* options, unsigned long flags) : directory_(directory) {
    const int device = attach(file);
    if (device < 0) return;
    is_mounted_ = mount(name_.c_str(), directory.c_str(), "ext4", flags, options) == 0;
    close(device);  // it is detached with the mount
  }
  ~LoopMount() {
    if (is_mounted_ && umount(directory_.c_str()) != 0) {
      ADD_FAILURE() << "cannot unmount " << directory_ << ": " << strerror(errno);
    }
  }
  LoopMount(const LoopMount&) = delete;
  bool is_mounted() const { return is_mounted_; }

 private:
  // The device that stands on the file, -1 where there is none. Others look for free ones at the same time.
  int attach(int file) {
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) return -1;
    int device = -1;
    for (int tries = 0; device < 0 && tries < 100; ++tries) {
      name_ = fmt::format("/dev/loop{}", ioctl(control, LOOP_CTL_GET_FREE));
      device = open(name_.c_str(), O_RDWR | O_CLOEXEC);
      if (device < 0) break;
      loop_config config{};
      config.fd = static_cast<__u32>(file);
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
      if (ioctl(device, LOOP_CONFIGURE, &config) == 0) break;
      close(device);
      device = -1;
    }
    close(control);
    return device;
  }

  std::string directory_, name_;
  bool is_mounted_ = false;
};

// A program without its arguments shows what it finds.
struct Calls {
  std::string program, arguments;
  std::string command() const { return program + " " + arguments; }
};

struct State {
  std::size_t write = 0;  // of the device, since the starting state, after which the power went
  std::string shown;
};

class KernelStates : public tests::KernelDisk {
 protected:
  KernelStates() : KernelDisk("kernel_states") { fs::create_directories(directory_ / "fuse"); }
  ~KernelStates() override {
    disk_.reset();
    if (crashed_ >= 0) close(crashed_);
  }

  // Says what is missing.
  std::string make_disk() {
    if (std::string missing = enter_namespace(); !missing.empty()) return missing;
    const std::string base = at("base");
    if (!make_file_system(base, kDiskBytes, "-N 128 -E lazy_itable_init=0,lazy_journal_init=0")) return "mkfs.ext4";
    const auto journal = output_of(fmt::format("debugfs -R 'blocks <8>' {} 2>/dev/null", base));
    if (!journal) return "debugfs";
    std::istringstream blocks(*journal);
    for (std::uint64_t block; blocks >> block;) journal_.push_back(block);
    std::ifstream file(base, std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(file), {});
    disk_ = tests::RecordingDisk::serve(directory_ / "fuse", kDiskBytes);
    if (!disk_) return "/dev/fuse";
    crashed_ = memfd_create("crashed", MFD_CLOEXEC);
    return write_crashed(image_) && mount_crashed().is_mounted() ? "" : "loop device";
  }

  bool write_crashed(const std::string& image) {
    return pwrite(crashed_, image.data(), image.size(), 0) == static_cast<ssize_t>(image.size());
  }
  LoopMount mount_crashed() const { return {crashed_, at("mnt"), "", MS_RDONLY}; }

  // What the device wrote; nothing where something went wrong.
  std::vector<Entry> run_on_the_kernel(const Calls& calls) {
    disk_->reset(image_);
    const int file = open(disk_->disk().c_str(), O_RDWR | O_CLOEXEC);
    bool is_done = false;
    {
      const LoopMount mounted(file, at("mnt"), GetParam().mount_options, 0);
      is_done = mounted.is_mounted() &&
                output_of(fmt::format("cd {} && MARK={} exec {}", at("mnt"), disk_->mark().string(), calls.command()));
    }
    close(file);
    return is_done ? disk_->take_log() : std::vector<Entry>{};
  }

  // A block of the journal shows nothing before its commit block is there.
  bool may_show(std::uint64_t block, const std::string& bytes) const {
    static constexpr char kCommit[] = "\xc0\x3b\x39\x98\0\0\0\x02";
    const auto found = std::find(journal_.begin(), journal_.end(), block);
    return found == journal_.end() || found == journal_.begin() || bytes.starts_with(std::string(kCommit, 8));
  }

  // What is found after each crash, equal ones once.
  std::vector<State> crash_states(const std::vector<Entry>& log, const std::string& program) {
    std::vector<State> states;
    std::set<std::string> shown;
    std::string image = image_;
    bool has_begun = false;
    std::size_t write = 0;
    const auto look = [&] {
      std::string now = show_crashed(image, program);
      if (shown.insert(now).second) states.push_back({write, std::move(now)});
    };
    for (const Entry& entry : log) {
      if (entry.kind == Entry::Kind::kMark) {
        has_begun = true;
        look();
      }
      if (entry.kind != Entry::Kind::kWrite) continue;
      write += has_begun;
      for (std::uint64_t from = 0; from < entry.bytes.size(); from += kBlock) {
        const std::string bytes = entry.bytes.substr(from, kBlock);
        const std::uint64_t offset = entry.offset + from;
        if (image.compare(offset, bytes.size(), bytes) == 0) continue;
        image.replace(offset, bytes.size(), bytes);
        if (has_begun && may_show(offset / kBlock, bytes)) look();
      }
    }
    EXPECT_TRUE(has_begun);
    return states;
  }

  std::string show_crashed(const std::string& image, const std::string& program) {
    if (!write_crashed(image)) return "the image cannot be written";
    const LoopMount mounted = mount_crashed();
    if (!mounted.is_mounted()) return fmt::format("cannot be mounted: {}", strerror(errno));
    const auto shown = output_of(fmt::format("cd {} && exec {}", at("mnt"), program));
    return without_newline(shown.value_or("cannot be looked at"));
  }

  // Of all crashes, also those before the last sync.
  std::set<std::string> on_the_model(const Calls& calls) {
    std::set<std::string> outcomes;
    for (const std::string& output : model_outputs(calls.command(), GetParam().model_options))
      outcomes.insert(without_newline(output));
    return outcomes;
  }

  // Whether all that the kernel leaves is allowed.
  bool compare(const Calls& calls) {
    const std::vector<Entry> log = run_on_the_kernel(calls);
    if (log.empty()) {
      ADD_FAILURE() << "the kernel's side failed";
      return false;
    }
    const std::set<std::string> model = on_the_model(calls);
    std::string outside, all;
    for (const State& state : crash_states(log, calls.program)) {
      if (!model.contains(state.shown)) outside += fmt::format("  {} (write {})\n", state.shown, state.write);
    }
    for (const std::string& outcome : model) all += "  " + outcome + "\n";
    EXPECT_EQ(outside, "") << "the kernel left this, and the model allows only\n" << all;
    return outside.empty();
  }

  static std::string without_newline(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }

  std::unique_ptr<tests::RecordingDisk> disk_;
  std::string image_;                   // fresh
  std::vector<std::uint64_t> journal_;  // its blocks in order; the first is its superblock
  int crashed_ = -1;
};

TEST_P(KernelStates, OfRandomCallsAreAllowedByTheModel) {
  const std::string missing = make_disk();
  if (!missing.empty()) GTEST_SKIP() << "nothing to compare with: no " << missing;
  tests::for_each_seed(12, [&](std::uint64_t seed) {
    SCOPED_TRACE(fmt::format("CRASHCUT_SEED={0}; {1} {0} told, in an empty directory, says what is done", seed,
                             CRASHCUT_RANDOM_CALLS));
    return compare({CRASHCUT_RANDOM_CALLS, std::to_string(seed)});
  });
}

// Blocks that are converted, kept or moved in place, with data written to them afterwards.
constexpr const char* kBlockCalls[] = {
    "4 m z0,4 w0,4 s",              // ZERO_RANGE keeps the block
    "4 m z0,4 d0,4 m s",            //
    "4 m z0,4 w1,1 s",              // a part: NULs around it
    "8 m z0,8 w0,4 m s",            // the neighbour is zeroed on the disk where the extent is converted at once
    "12 m z0,12 w4,4 r m s",        //
    "8 m z0,8 w4,4 r D w0,4 m s",   //
    "8 m p2,4 w2,1 m s",            // parts of blocks
    "8 m p0,4 w0,4 m s",            // a hole is fresh
    "8 m a0,8 w0,4 m s",            // over written blocks
    "4 A4,8 w4,4 r m D w8,4 m s",   // over a hole
    "4 w4,4 m z4,4 w4,4 r m s",     // over delayed blocks
    "8 w8,4 r m z8,4 w8,4 r m s",   //
    "12 m c0,4 w0,4 m s",           // moved blocks
    "8 m i0,4 w0,8 m s",            //
    "12 m z4,4 c0,4 w0,4 m s",      //
    "12 m z4,8 i4,4 w8,4 d12,4 s",  //
};

TEST_P(KernelStates, OfCallsOnBlocksAreAllowedByTheModel) {
  const std::string missing = make_disk();
  if (!missing.empty()) GTEST_SKIP() << "nothing to compare with: no " << missing;
  for (const char* arguments : kBlockCalls) {
    SCOPED_TRACE(arguments);
    compare({CRASHCUT_BLOCK_CALLS, arguments});
  }
}

std::string random_block_calls(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::string_view choices) { return choices[random() % choices.size()]; };
  std::string calls = fmt::format("{}", (random() % 4) * 4 + (random() % 3 ? 0 : 2));
  for (std::uint64_t count = 2 + random() % 5; count > 0; --count) {
    const char call = pick("wwwwwdpzzZaAcit");
    const bool is_aligned = call == 'c' || call == 'i' || call == 'd' || random() % 2;
    const std::uint64_t offset = is_aligned ? random() % 4 * 4 : random() % 12;
    const std::uint64_t length = is_aligned ? (1 + random() % 3) * 4 : 1 + random() % 6;
    calls += call == 't' ? fmt::format(" t{}", offset) : fmt::format(" {}{},{}", call, offset, length);
    if (const char after = pick("mmsfDDrr        "); after != ' ') calls += fmt::format(" {}", after);
  }
  return calls + " m " + pick("sfDr");
}

TEST_P(KernelStates, OfRandomCallsOnBlocksAreAllowedByTheModel) {
  const std::string missing = make_disk();
  if (!missing.empty()) GTEST_SKIP() << "nothing to compare with: no " << missing;
  tests::for_each_seed(12, [&](std::uint64_t seed) {
    const std::string calls = random_block_calls(seed);
    SCOPED_TRACE(fmt::format("CRASHCUT_SEED={}: {}", seed, calls));
    return compare({CRASHCUT_BLOCK_CALLS, calls});
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, KernelStates,
                         testing::Values(Mode{"ordered", "data=ordered", "--data ordered"},
                                         Mode{"journal", "data=journal", "--data journal"},
                                         Mode{"writeback", "data=writeback", "--data writeback"},
                                         Mode{"nodelalloc", "nodelalloc", "-o nodelalloc"},
                                         Mode{"dioread_lock", "dioread_lock", "-o dioread_lock"},
                                         Mode{"noauto_da_alloc", "noauto_da_alloc", "-o noauto_da_alloc"}),
                         tests::name_of);

}  // namespace
}  // namespace crashcut
