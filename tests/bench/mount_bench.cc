// mount_bench: the mounted filesystem while it records, beside libfuse's passthrough example over a tmpfs.
//   mount_bench MOUNT_SERVER PASSTHROUGH_LL [--repeat N] [--core N]
// Everything is pinned to one core: client and server then talk without waking another. The two take turns; the best
//   of each is shown, because what disturbs only slows down. The verdict is the median of the rounds' ratios, by the
//   processor's time of client and server: other programs on the machine disturb that less, and both sides of a round
//   alike. On a quiet machine it is the wall clock's. Both see every write (no
//   writeback cache), both answer with one thread, names and attributes stay in the kernel's cache.
// Fails where ours is slower in one of the four.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "mount_bench: {} ({})\n", what, std::strerror(errno));
  std::exit(1);
}

// ---- time
// ---------------------------------------------------------------------------------------------------------------

// What the threads of a process have had of the processor.
double cpu_seconds(pid_t pid) {
  double seconds = 0;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), ignored)) {
    FILE* file = std::fopen((thread.path() / "schedstat").c_str(), "r");
    unsigned long long ns = 0;
    if (file && std::fscanf(file, "%llu", &ns) == 1) seconds += static_cast<double>(ns) * 1e-9;
    if (file) std::fclose(file);
  }
  return seconds;
}

pid_t server_pid = 0;  // of the mount that is measured; 0: none

// How many in a second, by the wall clock and by the processor's time of client and server.
struct Speed {
  double by_clock = 0;
  double by_cpu = 0;
  void keep_best(const Speed& other) {
    by_clock = std::max(by_clock, other.by_clock);
    by_cpu = std::max(by_cpu, other.by_cpu);
  }
};

class Timer {
 public:
  Speed stop(int count) const {
    const double clock = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    return Speed{count / clock, count / (used() - used_)};
  }

 private:
  static double used() { return cpu_seconds(getpid()) + (server_pid > 0 ? cpu_seconds(server_pid) : 0); }

  double used_ = used();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// ---- the four workloads
// -------------------------------------------------------------------------------------------------

Speed write_sequentially(const std::string& directory) {
  constexpr int kWrites = 50'000;
  const std::vector<char> block(4096, 'x');
  const int fd = open((directory + "/sequential").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
  const Timer timer;
  for (int i = 0; i < kWrites; ++i) {
    if (write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size())) fail("write");
  }
  const Speed speed = timer.stop(kWrites);
  close(fd);
  return speed;
}

Speed create_files(const std::string& directory) {
  constexpr int kFiles = 8'000;
  const std::vector<char> block(4096, 'x');
  mkdir((directory + "/files").c_str(), 0755);
  const Timer timer;
  for (int i = 0; i < kFiles; ++i) {
    const int fd = open(fmt::format("{}/files/{}", directory, i).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size())) fail("create");
    close(fd);
  }
  return timer.stop(kFiles);
}

Speed insert_rows(const std::string& directory, const char* journal, int count) {
  sqlite3* database = nullptr;
  if (sqlite3_open(fmt::format("{}/{}.db", directory, journal).c_str(), &database) != SQLITE_OK) fail("sqlite3_open");
  const auto run = [&](const std::string& text) {
    char* error = nullptr;
    if (sqlite3_exec(database, text.c_str(), nullptr, nullptr, &error) != SQLITE_OK)
      fail(fmt::format("{}: {}", text, error));
  };
  run(fmt::format("pragma journal_mode={}", journal));
  run("create table t (id integer primary key, text)");
  const Timer timer;
  for (int i = 0; i < count; ++i) run(fmt::format("insert into t values ({}, 'some text of a row')", i));
  const Speed speed = timer.stop(count);
  sqlite3_close(database);
  return speed;
}

struct Workload {
  const char* name;
  Speed (*run)(const std::string& directory);
  // Of a quiet machine of two cores, to know by how much this one differs.
  double passthrough, lazyfs;
};
constexpr Workload kWorkloads[] = {
    {"sequential 4 KiB writes/s", write_sequentially, 120'000, 36'700},
    {"4 KiB files created/s", create_files, 15'400, 3'000},
    {"sqlite inserts/s, rollback journal",
     [](const std::string& directory) { return insert_rows(directory, "delete", 1500); }, 3'280, 1'235},
    {"sqlite inserts/s, WAL", [](const std::string& directory) { return insert_rows(directory, "wal", 8000); }, 23'320,
     6'842},
};

// ---- the servers
// --------------------------------------------------------------------------------------------------------

dev_t device_of(const std::string& path) {
  struct stat now {};
  return stat(path.c_str(), &now) == 0 ? now.st_dev : 0;
}

// A server, once its mount is there. Ends with it.
class Server {
 public:
  Server(const std::vector<std::string>& command, std::string directory) : directory_(std::move(directory)) {
    const dev_t before = device_of(directory_);
    pid_ = fork();
    if (pid_ == 0) {
      std::vector<char*> words;
      for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      const int null = open("/dev/null", O_RDWR);
      dup2(null, STDOUT_FILENO);
      execv(words[0], words.data());
      _exit(127);
    }
    for (int i = 0; i < 1000 && device_of(directory_) == before; ++i) usleep(10'000);
    if (device_of(directory_) == before) fail(command[0] + " did not mount");
    server_pid = pid_;
  }
  ~Server() {
    server_pid = 0;
    umount(directory_.c_str());
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  std::string directory_;
  pid_t pid_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> programs;
  int repeat = 5, core = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--repeat" && i + 1 < argc) {
      repeat = std::atoi(argv[++i]);
    } else if (word == "--core" && i + 1 < argc) {
      core = std::atoi(argv[++i]);
    } else {
      programs.push_back(word);
    }
  }
  if (programs.size() != 2 || repeat < 1) {
    fmt::print(stderr, "usage: mount_bench MOUNT_SERVER PASSTHROUGH_LL [--repeat N] [--core N]\n");
    return 2;
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) fail("no such core");

  std::string base = "/dev/shm/crashcut_bench_XXXXXX";
  if (!mkdtemp(base.data())) fail("/dev/shm is not writable");
  const std::string mounted = base + "/mounted", behind = base + "/behind", native = base + "/native";
  std::vector<std::array<Speed, 3>> best(std::size(kWorkloads));
  std::vector<std::vector<double>> ratios(std::size(kWorkloads));
  for (int round = 0; round < repeat; ++round) {
    for (std::size_t i = 0; i < std::size(kWorkloads); ++i) {
      std::array<Speed, 3> now;
      const auto keep = [&](std::size_t column, const Speed& speed) { best[i][column].keep_best(now[column] = speed); };
      for (const std::string& directory : {mounted, behind, native}) std::filesystem::create_directory(directory);
      keep(0, kWorkloads[i].run(native));
      {
        const Server server(
            {programs[1], "-f", "-s", "-o", "source=" + behind + ",cache=always,no_writeback,no_xattr", mounted},
            mounted);
        keep(1, kWorkloads[i].run(mounted));
      }
      {
        const Server server({programs[0], mounted, base + "/trace"}, mounted);
        keep(2, kWorkloads[i].run(mounted));
      }
      ratios[i].push_back(now[2].by_cpu / now[1].by_cpu);
      for (const std::string& directory : {mounted, behind, native}) std::filesystem::remove_all(directory);
      std::filesystem::remove(base + "/trace");
    }
  }
  std::filesystem::remove_all(base);

  fmt::print("{:<36} {:>10} {:>12} {:>10} {:>7} {:>14}   elsewhere: {:>12} {:>8}\n", "", "tmpfs", "passthrough",
             "recording", "ratio", "ratio by CPU", "passthrough", "LazyFS");
  bool is_fast_enough = true;
  for (std::size_t i = 0; i < std::size(kWorkloads); ++i) {
    const auto [tmpfs, passthrough, recording] = best[i];
    std::sort(ratios[i].begin(), ratios[i].end());
    const double by_cpu = ratios[i][ratios[i].size() / 2];
    is_fast_enough = is_fast_enough && by_cpu >= 1;
    fmt::print("{:<36} {:>10.0f} {:>12.0f} {:>10.0f} {:>7.2f} {:>14.2f}              {:>12.0f} {:>8.0f}\n",
               kWorkloads[i].name, tmpfs.by_clock, passthrough.by_clock, recording.by_clock,
               recording.by_clock / passthrough.by_clock, by_cpu, kWorkloads[i].passthrough, kWorkloads[i].lazyfs);
  }
  fmt::print("mount_bench: {}\n",
             is_fast_enough ? "at least as fast as the passthrough in all four" : "SLOWER than the passthrough");
  return is_fast_enough ? 0 : 1;
}
