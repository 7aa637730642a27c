#include "recovery/mounted/record.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fusefs/mount/mount.h"
#include "recovery/mounted/command_runner.h"
#include "recovery/mounted/copy_in.h"
#include "recovery/mounted/histories.h"
#include "recovery/mounted/line_marks.h"
#include "recovery/mounted/sync_handlers.h"
#include "recovery/mounted/versions.h"
#include "recovery/sandbox/command.h"
#include "recovery/sandbox/sandbox.h"
#include "recovery/sandbox/syscall_watch.h"
#include "recovery/search/channel.h"
#include "recovery/stacks/caller_stacks.h"

namespace crashcut::mounted {
namespace {

using search::Json;

using fusefs::Mount;
using fusefs::Volume;
using sandbox::Answer;
using sandbox::Caller;
using sandbox::Outcome;

// The program's side: PID 1 of the sandbox.
class Recorder {
 public:
  Recorder(const sandbox::Inside& inside, const RecordPlan& plan, bool with_terminal)
      : inside_(inside), plan_(plan), with_terminal_(with_terminal) {}

  Json run() {
    pin_to_one_core();
    auto writer = fusefs::TraceWriter::create(
        trace_of(plan_.directory),
        fusefs::TraceHeader{
            .start = clock_.now(), .command = plan_.program.words, .pid_namespace = own_pid_namespace()});
    if (!writer) return failure(true, writer.error());
    writer_ = std::move(*writer);
    changes_.emplace(filesystem_, clock_, writer_.get());
    // A user namespace knows no other user than this one: the program could not write to a disk that root owns.
    if (geteuid() != 0) changes_->setattr(fusefs::kRootIno, fusefs::AttrChange{.uid = geteuid(), .gid = getegid()});
    volume_.emplace(
        Volume{filesystem_, *changes_, {{"stdout", nullptr, [this](std::string_view text) { on_stdout(text); }}}});
    if (!plan_.from_directory.empty()) {
      if (const std::string failed = copy_from(); !failed.empty())
        return failure(true, "The starting state could not be copied: " + failed);
    }
    auto mount = Mount::start(
        {.directory = disk_of(plan_.directory), .allow_others = geteuid() == 0, .caller_stack = &stacks_}, *volume_);
    if (!mount) return failure(true, mount.error());
    mount_ = std::move(*mount);
    stacks_.leave_out(mount_->device());
    auto watch = sandbox::SyscallWatch::start(handlers());
    if (!watch) return failure(false, watch.error());
    Json answer = run_all();
    mount_->fetch_mapped_stores();
    answer["requests"] = mount_->request_count();
    answer["io_uring"] = used_io_uring_.load();
    mount_.reset();
    writer_->finish();
    if (!writer_->error().empty()) return failure(true, writer_->error());
    return answer;
  }

 private:
  static Json failure(bool is_users, const std::string& sentence) {
    return {{"failure", sentence}, {"is_users", is_users}};
  }

  static std::uint64_t own_pid_namespace() {
    struct stat found;
    return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
  }

  // A request costs five times as much when the server runs on another core than its client.
  static void pin_to_one_core() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }

  Json run_all() {
    if (!plan_.setup.empty()) {
      if (Json failed = prepare(argv_of(plan_.setup), "The set-up command failed"); !failed.empty()) return failed;
    }
    mount_->fetch_mapped_stores();
    mount_->while_quiet([](Volume& volume) { volume.changes.make_durable(); });
    return run_program();
  }

  // A tree may be large, such as a repository with its history: the user sees how far the copy is.
  std::string copy_from() {
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds kSaidEvery{2};
    CopyOptions options{
        .left_out = {plan_.left_out.begin(), plan_.left_out.end()}, .owner = std::nullopt, .on_progress = {}};
    // In a user namespace others have no numbers.
    if (geteuid() != 0) options.owner = fusefs::Credentials{geteuid(), getegid(), {}};
    options.on_progress = [this, last = Clock::now()](const CopyProgress& progress) mutable {
      if (Clock::now() - last < kSaidEvery) return;
      last = Clock::now();
      fmt::print(stderr, "copying {}: {} files, {} MiB so far\n", plan_.from_directory, progress.files,
                 progress.bytes >> 20);
    };
    return copy_in(plan_.from_directory, *changes_, options);
  }

  // Those of the program's arguments that it will not find.
  std::vector<std::string> not_on_disk() {
    std::vector<std::string> names;
    for (const std::string& name : plan_.named_here) {
      fusefs::Ino ino{};
      if (find_path(filesystem_, name, ino) != 0) names.push_back(name);
    }
    return names;
  }

  // Null where it went well.
  Json prepare(std::vector<std::string> argv, std::string_view what_failed) {
    const std::string why = why_failed(sandbox::run(inside_, command_on_disk(plan_, std::move(argv))), plan_.limit);
    return why.empty() ? Json() : failure(true, fmt::format("{}: {}", what_failed, why));
  }

  Json run_program() {
    std::vector<std::string> argv = plan_.program.words;  // its name may have blanks
    if (plan_.lines_are_marks) {
      // The shell opens it: this process must not wait for its own mount.
      argv.insert(argv.begin(), {"/bin/sh", "-c", "exec \"$0\" \"$@\" >.crashcut/stdout"});
    }
    sandbox::Command command = command_on_disk(plan_, std::move(argv));
    command.stdin_fd = STDIN_FILENO;
    command.stdout_fd = stdout_fd();
    command.stderr_fd = STDERR_FILENO;
    command.with_terminal = with_terminal_;
    limit_program(command, plan_, with_terminal_);
    // Files that the kernel closes when it kills the program were not closed by the program.
    command.on_limit = [this] { mount_->while_quiet([](Volume& volume) { volume.changes.stop(); }); };
    command.should_stop = [this] { return writer_->has_failed() || !(why_stopped_ = find_shortage()).empty(); };
    std::vector<std::string> missing;
    mount_->while_quiet([&](Volume&) { missing = not_on_disk(); });
    is_program_running_ = true;
    const Outcome outcome = sandbox::run(inside_, command);
    if (outcome.end == Outcome::End::kNotStarted)
      return failure(true, fmt::format("The program could not be run: {}", outcome.why));
    const bool exited = outcome.end == Outcome::End::kExited;
    mount_->fetch_mapped_stores();
    flush_line();
    if (exited) {
      const std::string mark =
          outcome.code == 0 ? std::string(kExitMark) : fmt::format("{} {}", kExitMark, outcome.code);
      mount_->while_quiet([&](Volume& volume) {
        volume.changes.set_process(0, "");
        volume.changes.mark(mark);
      });
    }
    return {{"exited", exited},
            {"code", outcome.code},
            {"signal", outcome.signal},
            {"timed_out", outcome.end == Outcome::End::kTimedOut},
            {"why_stopped", why_stopped_},
            {"left_running", outcome.left_running},
            {"not_on_disk", missing},
            {"seconds", std::chrono::duration<double>(outcome.wall).count()}};
  }

  // Why there is too little memory for the program to run on, a clause; empty: there is enough.
  std::string find_shortage() const {
    if (plan_.is_memory_hit && plan_.is_memory_hit()) return "it took more memory than --memory-limit allows";
    // Exploring the recording takes as much memory again.
    if (plan_.memory_limit > 0 && writer_->model_bytes() > plan_.memory_limit / 2)
      return "its recording takes more memory than --memory-limit allows";
    return "";
  }

  // Under the mount's lock: the program waits, so the mark comes before whatever it does next.
  void on_stdout(std::string_view text) {
    [[maybe_unused]] const ssize_t written = write(stdout_fd(), text.data(), text.size());
    lines_.add(text);
  }

  int stdout_fd() const { return plan_.is_stdout_taken ? STDERR_FILENO : STDOUT_FILENO; }

  void flush_line() {
    if (lines_.has_part()) mount_->while_quiet([&](Volume&) { lines_.end(); });
  }

  sandbox::SyscallHandlers handlers() {
    sandbox::SyscallHandlers handlers = sync_handlers(mount_, &stacks_);
    handlers.on_sync_file_range = [this](const Caller& caller, const sandbox::SyncFileRange& range) {
      const auto found = caller.stat_fd(range.fd);
      if (found && found->device == mount_->device()) {
        fusefs::CodeStack stack = stacks_.of(caller.thread());
        mount_->while_quiet([&](Volume& volume) {
          volume.changes.set_stack(std::move(stack));
          volume.changes.sync_file_range(fusefs::Ino{found->inode}, static_cast<std::uint64_t>(range.offset),
                                         static_cast<std::uint64_t>(range.length), range.flags);
        });
      }
      return Answer::go_on();
    };
    handlers.on_io_uring = [this](const Caller&) {
      used_io_uring_ = true;
      return Answer::go_on();
    };
    handlers.on_barrier = [this](const Caller&) {
      mount_->fetch_mapped_stores();
      mount_->while_quiet([](Volume& volume) { volume.changes.make_durable(); });
      return Answer::with(0);
    };
    handlers.on_mark = [this](const Caller&, std::string_view text) {
      // Marks of the set-up are no promises of the program. One script may serve as both.
      if (!is_program_running_) return Answer::with(0);
      mount_->fetch_mapped_stores();
      mount_->while_quiet([&](Volume& volume) {
        volume.changes.set_process(0, "");
        volume.changes.mark(text);
      });
      return Answer::with(0);
    };
    return handlers;
  }

  const sandbox::Inside& inside_;
  const RecordPlan& plan_;
  bool with_terminal_;
  fusefs::TraceClock clock_;
  fusefs::Filesystem filesystem_{fusefs::Filesystem::Setup{.noatime = true, .clock = clock_.reader()}};
  std::unique_ptr<fusefs::TraceWriter> writer_;
  std::optional<fusefs::Traced> changes_;
  std::optional<Volume> volume_;
  stacks::CallerStacks stacks_;
  std::unique_ptr<Mount> mount_;
  std::string why_stopped_;
  LineMarks lines_{[this](const std::string& text) { changes_->mark(text); }};
  std::atomic<bool> used_io_uring_ = false;
  std::atomic<bool> is_program_running_ = false;
};

}  // namespace

std::string disk_of(const std::string& directory) { return directory + "/disk"; }
std::string trace_of(const std::string& directory) { return directory + "/trace"; }

sandbox::Options options_for_disk(const std::string& directory, bool with_terminal) {
  // In namespaces of its own a mount goes with them.
  char* const disk = realpath(disk_of(directory).c_str(), nullptr);
  const std::string where = disk ? disk : "";
  free(disk);
  return {.with_terminal = with_terminal, .cleanup = [where] { Mount::remove_leftover(where.c_str()); }};
}

sandbox::Options options_for_checkers(const std::string& directory, std::uint64_t pid_namespace, bool with_terminal) {
  // The program's processes are numbered from 2 on, and there are rarely so many.
  constexpr pid_t kFirstPid = 5000;
  sandbox::Options options = options_for_disk(directory, with_terminal);
  options.first_pid = kFirstPid;
  options.pid_namespace = pid_namespace;
  return options;
}

std::uint64_t stored_pid_namespace(const fusefs::TraceReader& trace) {
  const std::uint64_t number = trace.header().pid_namespace;
  if (number == 0) return 0;
  const std::string texts[] = {fmt::format("{}", number), fmt::format("{:x}", number)};
  const auto holds = [&](std::string_view bytes) {
    return std::any_of(std::begin(texts), std::end(texts),
                       [&](const std::string& text) { return bytes.find(text) != bytes.npos; });
  };
  fusefs::TraceReader::Cursor cursor(trace);
  for (fusefs::TraceOp op; cursor.next(op);) {
    const std::string_view data(reinterpret_cast<const char*>(op.data.data()), op.data.size());
    if (holds(op.text) || holds(op.name) || holds(op.to_name) || holds(data)) return number;
  }
  return 0;
}

tl::expected<Recorded, Failure> record(const RecordPlan& plan, bool with_terminal) {
  if (mkdir(disk_of(plan.directory).c_str(), 0755) != 0 && errno != EEXIST) {
    return result::wrong_use(fmt::format("Cannot make {}: {}.", disk_of(plan.directory), std::strerror(errno)));
  }
  auto sandbox = sandbox::Sandbox::start(
      [&](const sandbox::Inside& inside) {
        search::send(inside.socket, Recorder(inside, plan, with_terminal).run());
        return 0;
      },
      options_for_disk(plan.directory, with_terminal));
  if (!sandbox) return tl::unexpected(Failure{result::Blame::kTool, sandbox.error()});
  const auto answer = search::receive(sandbox->socket());
  sandbox->wait();
  if (!answer)
    return tl::unexpected(Failure{result::Blame::kTool,
                                  "The recording was ended from outside; the trace holds what was done until then."});
  if (answer->contains("failure")) {
    return tl::unexpected(Failure{answer->at("is_users").get<bool>() ? result::Blame::kUser : result::Blame::kTool,
                                  answer->at("failure")});
  }
  Recorded recorded;
  recorded.exited = answer->at("exited");
  recorded.code = answer->at("code");
  recorded.signal = answer->at("signal");
  recorded.timed_out = answer->at("timed_out");
  recorded.why_stopped = answer->at("why_stopped");
  recorded.out_of_memory = !recorded.why_stopped.empty();
  recorded.left_running = answer->at("left_running");
  recorded.used_io_uring = answer->at("io_uring");
  recorded.requests = answer->at("requests");
  recorded.seconds = answer->at("seconds");
  recorded.weak_sandbox = sandbox->why_weak();
  recorded.not_on_disk = answer->at("not_on_disk").get<std::vector<std::string>>();
  return recorded;
}

std::string not_on_disk_text(const std::vector<std::string>& names) {
  return fmt::format(
      "{} {} in the directory that crashcut was called in, and not on the modelled disk. {} Of a script, its whole "
      "path is enough: $PWD/{}.",
      fmt::join(names, ", "), names.size() == 1 ? "is" : "are", kHowFilesCome, names.front());
}

bool has_changed_something(const std::string& directory) {
  const auto trace = fusefs::TraceReader::open(trace_of(directory));
  if (!trace) return true;
  const auto known = known_paths_of(*trace, {});
  return !known || known->changes_something;
}

}  // namespace crashcut::mounted
