#include "cli/bounds.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

namespace crashcut::cli {
namespace {

constexpr std::uint64_t kLeast = std::uint64_t{64} << 20;
constexpr std::chrono::milliseconds kBetweenLooks{200};
// After so long, a search that was told to stop takes no more memory. It may keep what it has: it still tells what it
// found.
constexpr std::chrono::milliseconds kPatience{3000};

struct Shared {
  std::atomic<bool> is_hit = false;
  std::atomic<bool> is_theirs = false;
};

struct State {
  std::uint64_t limit = 0;  // 0: not asked for yet
  Shared* shared = nullptr;
  std::atomic<int> polling = 0;
};
State g_state;

// ---- how much there is --------------------------------------------------------------------------------------------

// "memory.max", "memory/memory.limit_in_bytes"; no limit is "max" or a number without sense.
std::uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : ~std::uint64_t{0};
}

std::uint64_t machine_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name; file.ignore(256, '\n')) {
    std::uint64_t kib = 0;
    if (name == "MemTotal:" && file >> kib) return kib << 10;
  }
  return std::uint64_t{4} << 30;
}

std::uint64_t group_bytes() {
  // "0::/user.slice/...": control groups of version 2.
  std::uint64_t least =
      std::min(read_number("/sys/fs/cgroup/memory.max"), read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      least = std::min(least, read_number("/sys/fs/cgroup" + path + "/memory.max"));
  }
  return least;
}

// ---- how much is in use -------------------------------------------------------------------------------------------

struct Use {
  std::uint64_t all = 0;
  std::uint64_t theirs = 0;  // of processes that run another program than ours
};

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> found;
  const std::string tasks = fmt::format("/proc/{}/task", process);
  DIR* const directory = opendir(tasks.c_str());
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream file(fmt::format("{}/{}/children", tasks, entry->d_name));
    for (pid_t child = 0; file >> child;) found.push_back(child);
  }
  closedir(directory);
  return found;
}

// `root` and all below it, but not this process.
std::vector<pid_t> processes_of(pid_t root) {
  std::vector<pid_t> all{root};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const pid_t child : children_of(all[i])) {
      if (child != getpid()) all.push_back(child);
    }
  }
  return all;
}

std::uint64_t resident_bytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/statm", process));
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

// The pages that only this process has, and its part of shared pages; without mapped files.
std::uint64_t proportional_bytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", process));
  std::uint64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Pss_Anon:") && !line.starts_with("Pss_Shmem:")) continue;
    std::istringstream words(line);
    std::string name;
    std::uint64_t number = 0;
    if (words >> name >> number) kib += number;
  }
  return kib << 10;
}

bool runs_same_program(pid_t process, const struct stat& own) {
  struct stat found {};
  return stat(fmt::format("/proc/{}/exe", process).c_str(), &found) == 0 && found.st_dev == own.st_dev &&
         found.st_ino == own.st_ino;
}

// Looking at the pages is slow, so it is done only if the cheap number comes near the limit.
Use measure(pid_t root, std::uint64_t limit, const struct stat& own) {
  const std::vector<pid_t> processes = processes_of(root);
  std::uint64_t resident = 0;
  for (const pid_t process : processes) resident += resident_bytes(process);
  Use use;
  if (resident < limit / 2) return use;
  for (const pid_t process : processes) {
    const std::uint64_t bytes = proportional_bytes(process);
    use.all += bytes;
    if (!runs_same_program(process, own)) use.theirs += bytes;
  }
  return use;
}

// ---- the watch ----------------------------------------------------------------------------------------------------

[[noreturn]] void watch(pid_t parent, std::uint64_t limit, Shared& shared) {
  using Clock = std::chrono::steady_clock;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  setpgid(0, 0);  // Ctrl-C is not for us
  close_range(0, ~0U, 0);
  prctl(PR_SET_NAME, "crashcut-memory");
  struct stat own {};
  stat("/proc/self/exe", &own);
  Clock::time_point told{};
  for (;; std::this_thread::sleep_for(kBetweenLooks)) {
    const Use use = measure(parent, limit, own);
    if (use.all <= limit) continue;
    const auto now = Clock::now();
    if (!shared.is_hit) {
      shared.is_theirs = use.theirs > use.all / 2;
      shared.is_hit = true;
      told = now;
      kill(parent, SIGUSR1);
    } else if (now - told > kPatience && use.all / 5 * 4 > limit) {
      kill(parent, SIGUSR1);  // the second time it ends at once
    }
  }
}

void start_watch() {
  if (g_state.shared != nullptr) return;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  g_state.shared = new (memory) Shared();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) watch(parent, memory_limit(), *g_state.shared);
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
}

}  // namespace

tl::expected<std::uint64_t, std::string> parse_bytes(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return tl::unexpected(
        fmt::format("{}: {}. It is a number of bytes, or one with K, M, G or T after it: 512M, 2G, 1.5G", text, why));
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return refuse("it is not a size");
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view kSuffixes = "KMGT";
  if (!suffix.empty()) {
    const std::size_t power = kSuffixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(suffix[0]))));
    if (power == std::string_view::npos || suffix.size() > 1) return refuse("it is not a size");
    number *= std::pow(1024.0, static_cast<double>(power + 1));
  }
  if (number < static_cast<double>(kLeast)) return refuse("64M is the least that is of use");
  if (number > 1e18) return refuse("no machine has so much");
  return static_cast<std::uint64_t>(number);
}

std::uint64_t default_memory_limit() { return std::max(std::min(machine_bytes(), group_bytes()) / 2, kLeast); }

std::uint64_t memory_limit() {
  if (g_state.limit == 0) g_state.limit = default_memory_limit();
  return g_state.limit;
}

void add_memory_limit(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--memory-limit",
          [](const std::string& text) {
            const auto bytes = parse_bytes(text);
            if (!bytes) throw CLI::ValidationError("--memory-limit", bytes.error());
            g_state.limit = *bytes;
          },
          "stop where crashcut and what it runs take more memory, as 512M or 2G (default: half of the machine's)")
      ->type_name("SIZE");
  command.parse_complete_callback(start_watch);
}

bool is_memory_hit() { return g_state.shared != nullptr && g_state.shared->is_hit; }
bool is_memory_theirs() { return g_state.shared != nullptr && g_state.shared->is_theirs; }
void forget_memory_hit() {
  if (g_state.shared != nullptr) g_state.shared->is_hit = false;
}

MemoryPolled::MemoryPolled() { ++g_state.polling; }
MemoryPolled::~MemoryPolled() { --g_state.polling; }
bool is_memory_polled() { return g_state.polling > 0; }

}  // namespace crashcut::cli
