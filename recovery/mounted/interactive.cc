#include "recovery/mounted/interactive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "fusefs/mount/mount.h"
#include "fusefs/trace_replay.h"
#include "recovery/mounted/copy_in.h"
#include "recovery/mounted/sync_handlers.h"
#include "recovery/mounted/versions.h"
#include "recovery/mounted/watched_command.h"
#include "recovery/result/words.h"
#include "recovery/search/following.h"

namespace crashcut::mounted {
namespace {

using fusefs::CrashView;
using fusefs::Filesystem;
using fusefs::Mount;
using fusefs::Volume;

constexpr std::size_t kStatesMost = 500;  // that are listed
constexpr std::chrono::seconds kListLimit{5};

struct State {
  persist::Path path;
  std::string text;
};

// The mark at which the plug is pulled.
std::string now_mark(std::uint64_t listing) { return fmt::format("listing {}", listing); }

// The power goes now, not earlier: what was synced before is there.
void pull_plug_at(const std::string& mark, const fusefs::Recording& recording, persist::Cut& cut) {
  search::Following reached;
  CrashView(recording, cut, reached).reached(mark);
}

// Everything of a disk, in an order that does not depend on what it holds.
std::map<std::string, FileVersion> read_tree(const fusefs::Recording& recording, persist::Cut& cut,
                                             persist::Chooser& chooser) {
  CrashView view(recording, cut, chooser);
  Filesystem filesystem(Filesystem::Setup{
      .medium = &view, .sector_bytes = recording.options.sector_bytes, .block_bytes = recording.options.block_bytes});
  return files_of(filesystem, reads_all);
}

std::string describe_file(const FileVersion* now, const FileVersion* then) {
  if (!then) return "missing";
  if (!now) return "there again";
  if (S_ISREG(then->type) && then->size == 0) return "empty";
  if (then->size > kComparedBytesMost) return fmt::format("{} bytes long", then->size);
  if (S_ISREG(then->type) && then->content.find_first_not_of('\0') == std::string::npos)
    return fmt::format("{} NUL bytes", then->content.size());
  if (S_ISREG(then->type)) return fmt::format("{} bytes, other than now", then->content.size());
  return "another";
}

// How a state differs from what the mount shows now.
std::string describe(const std::map<std::string, FileVersion>& now, const std::map<std::string, FileVersion>& then) {
  std::string text;
  const auto add = [&](const std::string& path, const FileVersion* a, const FileVersion* b) {
    text += (text.empty() ? "" : "; ") + result::printable(path) + ": " + describe_file(a, b);
  };
  for (const auto& [path, file] : now) {
    const auto found = then.find(path);
    if (found == then.end()) {
      add(path, &file, nullptr);
    } else if (!(found->second == file)) {
      add(path, &file, &found->second);
    }
  }
  for (const auto& [path, file] : then) {
    if (!now.contains(path)) add(path, nullptr, &file);
  }
  for (const auto& [path, file] : then) {
    if (file.size > kComparedBytesMost)
      text += fmt::format("{}{}: too large to be compared", text.empty() ? "" : "; ", result::printable(path));
  }
  return text.empty() ? "nothing is lost" : text;
}

// A process that unmounts the directory when this one is killed. fusermount3 does that too, but not where somebody sits
// in the mount, as a command does: it does not detach.
class Remover {
 public:
  // Before the mount is made: nothing of that is to stay open in the other process.
  explicit Remover(const std::string& directory) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    process_ = fork();
    if (process_ == 0) wait_and_remove(directory.c_str(), ends[0]);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    close(ends[0]);
    pipe_ = ends[1];
  }
  // The mount is gone: there is nothing to remove.
  ~Remover() {
    if (pipe_ < 0) return;
    [[maybe_unused]] const ssize_t told = write(pipe_, "", 1);
    close(pipe_);
    while (process_ > 0 && waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Remover(const Remover&) = delete;
  Remover& operator=(const Remover&) = delete;

 private:
  // All signals are blocked.
  [[noreturn]] static void wait_and_remove(const char* directory, int pipe) {
    setsid();
    // The reader of our output must see it end.
    close_range(0, STDERR_FILENO, 0);
    for (int i = 0; i <= STDERR_FILENO; ++i) open("/dev/null", O_RDWR);
    if (pipe > STDERR_FILENO + 1) close_range(STDERR_FILENO + 1, static_cast<unsigned>(pipe) - 1, 0);
    close_range(static_cast<unsigned>(pipe) + 1, ~0U, 0);
    [[maybe_unused]] const int moved = chdir("/");
    char told = 0;
    ssize_t got = 0;
    while ((got = read(pipe, &told, 1)) < 0 && errno == EINTR) {
    }
    if (got == 0) Mount::remove_leftover(directory);
    _exit(0);
  }

  pid_t process_ = -1;
  int pipe_ = -1;
};

class Session {
 public:
  explicit Session(const MountPlan& plan) : plan_(plan) {}

  // A disk that holds what `fill` puts there, all of it durable; what follows is recorded.
  tl::expected<void, Failure> start_disk(const std::function<std::string(fusefs::Traced&)>& fill) {
    auto disk = std::make_unique<Disk>();
    char path[] = "/tmp/crashcut.trace.XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0)
      return tl::unexpected(
          result::users_failure(fmt::format("Cannot make a file in /tmp for the trace: {}.", std::strerror(errno))));
    close(fd);
    auto writer = fusefs::TraceWriter::create(path, {.start = disk->clock.now(), .command = {"crashcut mount"}});
    // It is read by its descriptor: nothing is left behind, however we end.
    disk->trace_fd = open(path, O_RDONLY | O_CLOEXEC);
    unlink(path);
    unlink(fusefs::tail_of(path).c_str());
    if (!writer) return tl::unexpected(result::users_failure(writer.error()));
    disk->writer = std::move(*writer);
    disk->changes.emplace(disk->filesystem, disk->clock, disk->writer.get());
    if (const std::string failure = fill(*disk->changes); !failure.empty())
      return tl::unexpected(result::users_failure(failure));
    disk->changes->make_durable();
    disk->volume.emplace(Volume{disk->filesystem,
                                *disk->changes,
                                {{"states", [this] { return list(); }, nullptr},
                                 {"crash", nullptr, [this](std::string_view text) { ask_for(text); }},
                                 {"shown", [this] { return std::to_string(shown_.load()); }, nullptr}}});
    next_ = std::move(disk);
    return {};
  }

  tl::expected<int, Failure> serve(const std::function<void()>& on_mounted,
                                   const std::function<bool()>& is_interrupted) {
    disk_ = std::move(next_);
    const Remover remover(plan_.directory);
    auto mount = Mount::start({.directory = plan_.directory,
                               .caching = Mount::Caching::kNothing,
                               .kernel_checks_permissions = true,
                               .allow_others = geteuid() == 0,
                               .auto_unmount = true},
                              *disk_->volume);
    if (!mount) return tl::unexpected(result::users_failure(mount.error()));
    on_mounted();
    std::unique_ptr<WatchedCommand> command;
    if (!plan_.command.empty()) {
      auto started = WatchedCommand::start(plan_.command, plan_.directory, sync_handlers(*mount));
      if (!started) return tl::unexpected(result::users_failure(started.error()));
      command = std::move(*started);
    }
    while (!is_interrupted() && !(*mount)->is_gone() && !(command && command->has_ended())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::int64_t wanted = wanted_.exchange(-1);
      if (wanted < 0) continue;
      if (auto done = switch_to(**mount, static_cast<std::size_t>(wanted)); !done) return tl::unexpected(done.error());
    }
    return command && command->has_ended() ? command->exit_code() : 0;
  }

 private:
  struct Disk {
    ~Disk() {
      if (trace_fd >= 0) close(trace_fd);
    }
    fusefs::TraceClock clock;
    Filesystem filesystem{Filesystem::Setup{.noatime = true, .clock = clock.reader()}};
    int trace_fd = -1;
    std::unique_ptr<fusefs::TraceWriter> writer;
    std::optional<fusefs::Traced> changes;
    std::optional<Volume> volume;
  };

  // Under the mount's lock: nothing changes meanwhile.
  std::string list() {
    const std::string failure = find_states();
    if (!failure.empty()) return failure + "\n";
    std::string text;
    for (std::size_t i = 0; i < states_.size(); ++i) text += fmt::format("{:>5}  {}\n", i, states_[i].text);
    if (is_cut_) text += fmt::format("       ... and more than these {}\n", states_.size());
    return text;
  }

  std::string find_states() {
    disk_->changes->mark(now_mark(++listings_));
    disk_->writer->flush();
    auto trace = fusefs::TraceReader::open(fmt::format("/proc/self/fd/{}", disk_->trace_fd));
    if (!trace) return trace.error();
    auto replayed = fusefs::replay(*trace, plan_.model);
    if (!replayed) return replayed.error().sentence;
    recorder_ = std::move(replayed->recorder);
    const auto now = files_of(disk_->filesystem, reads_all);
    states_.clear();
    persist::Cut cut(recorder_->recording().log);
    persist::ChoiceTree tree;
    const auto deadline = std::chrono::steady_clock::now() + kListLimit;
    bool goes_on = true;
    while (goes_on && states_.size() < kStatesMost && std::chrono::steady_clock::now() < deadline) {
      cut.reset();
      pull_plug_at(now_mark(listings_), recorder_->recording(), cut);
      tree.begin_run();
      const auto then = read_tree(recorder_->recording(), cut, tree);
      states_.push_back(State{tree.path(), describe(now, then)});
      goes_on = tree.advance();
    }
    is_cut_ = goes_on;
    return "";
  }

  void ask_for(std::string_view text) {
    const std::string number(text);
    char* end = nullptr;
    const unsigned long long wanted = std::strtoull(number.c_str(), &end, 10);
    if (end != number.c_str() && wanted < states_.size()) wanted_ = static_cast<std::int64_t>(wanted);
  }

  tl::expected<void, Failure> switch_to(Mount& mount, std::size_t index) {
    search::Following chooser(states_[index].path);
    const fusefs::Recording& recording = recorder_->recording();
    persist::Cut cut(recording.log);
    pull_plug_at(now_mark(listings_), recording, cut);
    CrashView view(recording, cut, chooser);
    Filesystem crashed(Filesystem::Setup{
        .medium = &view, .sector_bytes = recording.options.sector_bytes, .block_bytes = recording.options.block_bytes});
    files_of(crashed, reads_all);  // decides it, in the order of the list
    auto started = start_disk([&](fusefs::Traced& changes) { return copy_disk(crashed, changes); });
    if (!started) return started;
    mount.show(*next_->volume);
    disk_ = std::move(next_);
    states_.clear();
    ++shown_;
    return {};
  }

  const MountPlan& plan_;
  std::unique_ptr<Disk> disk_, next_;
  std::unique_ptr<fusefs::Recorder> recorder_;  // of the states that were listed last
  std::vector<State> states_;
  std::uint64_t listings_ = 0;
  bool is_cut_ = false;
  std::atomic<std::int64_t> wanted_ = -1;
  std::atomic<std::uint64_t> shown_ = 0;
};

tl::expected<std::string, Failure> read_special(const std::string& directory, const char* name) {
  const std::string path = fmt::format("{}/.crashcut/{}", directory, name);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return tl::unexpected(result::users_failure(
        fmt::format("{} is not a mount of crashcut mount ({}).", directory, std::strerror(errno))));
  }
  std::string text, piece(1 << 16, '\0');
  ssize_t got;
  while ((got = read(fd, piece.data(), piece.size())) > 0) text.append(piece, 0, static_cast<std::size_t>(got));
  const int error = errno;
  close(fd);
  if (got < 0)
    return tl::unexpected(result::users_failure(fmt::format("Cannot read {}: {}.", path, std::strerror(error))));
  return text;
}

}  // namespace

tl::expected<int, Failure> serve_mount(const MountPlan& plan, const std::function<void()>& on_mounted,
                                       const std::function<bool()>& is_interrupted) {
  Session session(plan);
  auto started = session.start_disk([&](fusefs::Traced& changes) {
    return plan.from_directory.empty() ? "" : copy_in(plan.from_directory, changes);
  });
  if (!started) return tl::unexpected(started.error());
  return session.serve(on_mounted, is_interrupted);
}

tl::expected<std::string, Failure> list_states(const std::string& directory) {
  return read_special(directory, "states");
}

tl::expected<void, Failure> switch_to_state(const std::string& directory, std::uint64_t number) {
  const auto states = list_states(directory);
  if (!states) return tl::unexpected(states.error());
  if (("\n" + *states).find(fmt::format("\n{:>5}  ", number)) == std::string::npos) {
    return tl::unexpected(
        result::users_failure(fmt::format("There is no state {}: crashcut crash {} lists them.", number, directory)));
  }
  const auto before = read_special(directory, "shown");
  if (!before) return tl::unexpected(before.error());
  const std::string path = directory + "/.crashcut/crash";
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const std::string text = std::to_string(number);
  if (fd < 0 || write(fd, text.data(), text.size()) < 0)
    return tl::unexpected(result::users_failure(fmt::format("Cannot write to {}: {}.", path, std::strerror(errno))));
  close(fd);
  for (int tries = 0; tries < 500; ++tries) {
    const auto now = read_special(directory, "shown");
    if (now && *now != *before) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return tl::unexpected(Failure{result::Blame::kTool, fmt::format("The server of {} does not answer.", directory)});
}

}  // namespace crashcut::mounted
