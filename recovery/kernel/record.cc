#include "recovery/kernel/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>

#include "blocklayer/mount/loop_device.h"
#include "recovery/device/devices.h"
#include "recovery/kernel/image_file.h"
#include "recovery/kernel/tree.h"
#include "recovery/mounted/command_runner.h"
#include "recovery/mounted/line_marks.h"
#include "recovery/mounted/record.h"
#include "recovery/mounted/versions.h"
#include "recovery/sandbox/command.h"
#include "recovery/sandbox/syscall_watch.h"
#include "recovery/search/channel.h"

namespace crashcut::kernel {
namespace {

namespace fs = boost::filesystem;
using blocklayer::LoopDevice;
using sandbox::Answer;
using sandbox::Caller;
using sandbox::Outcome;
using search::Json;

Json failure(bool is_users, const std::string& sentence) { return {{"failure", sentence}, {"is_users", is_users}}; }

// Whether there is something to read before `should_stop` says yes.
bool wait_for_answer(int socket, const std::function<bool()>& should_stop) {
  constexpr int kBetween_ms = 50;
  pollfd poll_fd{socket, POLLIN, 0};
  while (poll(&poll_fd, 1, should_stop ? kBetween_ms : -1) <= 0) {
    if (should_stop && should_stop()) return false;
  }
  return true;
}

}  // namespace

tl::expected<Json, Failure> in_sandbox(const std::string& directory,
                                       const std::function<Json(const sandbox::Inside&)>& function,
                                       const std::function<bool()>& should_stop) {
  sandbox::Options options = mounted::options_for_disk(directory);
  options.mode = sandbox::Mode::kNamespaces;  // without them the mounts could stay behind
  auto started = sandbox::Sandbox::start(
      [&](const sandbox::Inside& inside) {
        search::send(inside.socket, function(inside));
        return 0;
      },
      options);
  if (!started) return result::tool_failed(started.error());
  if (!wait_for_answer(started->socket(), should_stop)) return Json{{"stopped", true}};
  auto answer = search::receive(started->socket());
  started->wait();
  if (!answer) return result::tool_failed("A run on the kernel's filesystem was ended from outside.");
  if (answer->contains("failure"))
    return tl::unexpected(Failure{answer->at("is_users").get<bool>() ? result::Blame::kUser : result::Blame::kTool,
                                  answer->at("failure")});
  return *answer;
}

namespace {

std::string cannot_mount(const DiskPlan& disk, int error) {
  return fmt::format("The kernel does not mount a new {} with these options: {}.", disk.filesystem.text(),
                     std::strerror(error));
}

// ---- the disk before the program ------------------------------------------------------------------------------------

// cp -a of all entries but those that are left out.
std::vector<std::string> copy_command(const mounted::RecordPlan& program) {
  std::vector<std::string> argv{"cp", "-a", "--"};
  boost::system::error_code error;
  for (fs::directory_iterator at(program.from_directory, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (std::find(program.left_out.begin(), program.left_out.end(), path) == program.left_out.end())
      argv.push_back(path);
  }
  if (argv.size() == 3) return {};
  argv.push_back(mounted::disk_of(program.directory));
  return argv;
}

Json fill_base(const sandbox::Inside& inside, const mounted::RecordPlan& program, const DiskPlan& disk) {
  const std::string directory = mounted::disk_of(program.directory);
  const sandbox::Fd image(open(base_of(program.directory).c_str(), O_RDWR | O_CLOEXEC));
  if (!image) return failure(false, fmt::format("Cannot open the disk's image: {}.", std::strerror(errno)));
  auto loop = LoopDevice::attach(image.get(), LoopDevice::Io::kBuffered, disk.drive.sector_bytes);
  if (!loop) return failure(false, loop.error());
  if (const int error = mount_filesystem(disk.filesystem, loop->path(), directory, false); error != 0)
    return failure(true, cannot_mount(disk, error));
  std::string why;
  if (!program.from_directory.empty()) {
    if (auto argv = copy_command(program); !argv.empty())
      why =
          mounted::why_failed(sandbox::run(inside, mounted::command_on_disk(program, std::move(argv))), program.limit);
    if (!why.empty()) why = "The starting state could not be copied: " + why;
  }
  if (why.empty() && !program.setup.empty()) {
    why = mounted::why_failed(sandbox::run(inside, mounted::command_on_disk(program, mounted::argv_of(program.setup))),
                              program.limit);
    if (!why.empty()) why = "The set-up command failed: " + why;
  }
  const int error = unmount_filesystem(directory);
  if (!why.empty()) return failure(true, why);
  if (error != 0) return failure(false, fmt::format("The disk cannot be unmounted: {}.", std::strerror(error)));
  return {{"done", true}};
}

// ---- one run --------------------------------------------------------------------------------------------------------

// PID 1 of the sandbox.
class Run {
 public:
  Run(const sandbox::Inside& inside, const mounted::RecordPlan& program, const DiskPlan& disk, const Expected& expected,
      const Forcing& forcing, std::uint32_t number)
      : inside_(inside), program_(program), disk_(disk), expected_(expected), forcing_(forcing), number_(number) {}

  Json run() {
    if (Json failed = start_device(); !failed.empty()) return failed;
    Json answer = run_mounted();
    mount_.reset();
    writer_->finish();
    if (!writer_->error().empty()) return failure(true, writer_->error());
    if (device_->write_error() != 0) return failure(false, "The disk in memory could not be written.");
    return answer;
  }

 private:
  // Null where it went well.
  Json start_device() {
    auto base = MappedFile::open(base_of(program_.directory));
    if (!base) return failure(false, base.error());
    sandbox::Fd image = memory_copy(*base);
    if (!image) return failure(false, fmt::format("No memory for the disk: {}.", std::strerror(errno)));
    const blocklayer::DeviceHeader header{disk_.drive.sector_bytes, base->bytes().size(), {to_text(forcing_)}};
    auto writer = blocklayer::DeviceTraceWriter::create(run_of(program_.directory, number_), header);
    if (!writer) return failure(true, writer.error());
    writer_ = std::move(*writer);
    const int kept = dup(image.get());
    if (kept < 0) return failure(false, std::strerror(errno));
    device_ = device::RecordedDevice::over(kept, header, *writer_);
    // In the thread that serves: the program waits, so the mark comes before whatever it does next.
    device_->stdout_to = [this](std::string_view text) { lines_.add(text); };
    auto mount = blocklayer::DeviceMount::start(
        {.directory = device_directory(program_.directory), .allow_others = true, .is_below_loop = true}, *device_);
    if (!mount) return failure(false, mount.error());
    mount_ = std::move(*mount);
    return {};
  }

  Json run_mounted() {
    const std::string file = fmt::format("{}/{}", device_directory(program_.directory), blocklayer::kDeviceName);
    sandbox::Fd served(open(file.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!served) return failure(false, fmt::format("Cannot open the recording device: {}.", std::strerror(errno)));
    auto loop = LoopDevice::attach(served.get(), LoopDevice::Io::kDirect, disk_.drive.sector_bytes);
    if (!loop) return failure(false, loop.error());
    served.reset();
    const std::string directory = mounted::disk_of(program_.directory);
    if (const int error = mount_filesystem(disk_.filesystem, loop->path(), directory, false); error != 0)
      return failure(true, cannot_mount(disk_, error));
    Json answer = run_program();
    forcer_.reset();  // its file keeps the disk busy
    const int error = unmount_filesystem(directory);
    if (error != 0 && !answer.contains("failure"))
      return failure(false, fmt::format("The disk cannot be unmounted: {}.", std::strerror(error)));
    return answer;
  }

  Json run_program() {
    const std::string directory = mounted::disk_of(program_.directory);
    struct stat root {};
    if (stat(directory.c_str(), &root) != 0) return failure(false, std::strerror(errno));
    device_number_ = root.st_dev;
    forcer_.emplace(directory, disk_.filesystem, forcing_, *mount_);
    {
      const sandbox::Fd opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!opened || syncfs(opened.get()) != 0) return failure(false, "The new disk cannot be synced.");
    }
    mount_->between_requests([&] { writer_->make_durable(); });
    auto watch = sandbox::SyscallWatch::start(handlers());
    if (!watch) return failure(false, watch.error());
    std::vector<std::string> argv = program_.program.words;
    if (program_.lines_are_marks) {
      // The shell opens it: this process must not wait for its own mount.
      const std::string to = device_directory(program_.directory) + "/.crashcut/stdout";
      argv.insert(argv.begin(), {"/bin/sh", "-c", "to=$0; exec \"$@\" >\"$to\"", to});
    }
    sandbox::Command command = mounted::command_on_disk(program_, std::move(argv));
    command.on_limit = [this] { mount_->between_requests([&] { writer_->stop(); }); };
    is_program_running_ = true;
    const Outcome outcome = sandbox::run(inside_, command);
    is_program_running_ = false;
    if (const std::string why = mounted::why_failed(outcome, program_.limit); !why.empty())
      return failure(
          true, fmt::format("The program itself failed on {} (run {}): {}", disk_.filesystem.text(), number_, why));
    mount_->between_requests([&] {
      lines_.end();
      writer_->mark(mounted::kExitMark);
    });
    forcer_->at_end();
    if (!forcer_->error().empty()) return failure(false, forcer_->error());
    if (const std::string other = find_difference(); !other.empty()) return failure(true, other);
    return {{"calls", forcer_->call_count()}};
  }

  // A file that is not what the program left on crashcut's own disk, in a sentence.
  std::string find_difference() const {
    MountedTree tree(mounted::disk_of(program_.directory), {});
    for (const mounted::Question& question : expected_.questions) {
      const auto* const file = std::get_if<mounted::FileQuestion>(&question);
      if (file == nullptr || mounted::is_newest(*file, expected_.histories, tree)) continue;
      return fmt::format(
          "The program does not do the same every time: at the end of run {} on {}, {} is not what it was after the "
          "first run. Only a checker of your own (--check, without --file and --tree) can judge such a program.",
          number_, disk_.filesystem.text(), file->path);
    }
    return "";
  }

  sandbox::SyscallHandlers handlers() {
    sandbox::SyscallHandlers handlers;
    handlers.on_change = [this](const Caller& caller, std::optional<int> fd) {
      if (!is_program_running_) return;
      if (fd) {
        const auto found = caller.stat_fd(*fd);
        if (!found || found->device != device_number_) return;
      }
      forcer_->before_call();
    };
    handlers.on_barrier = [this](const Caller&) {
      const sandbox::Fd root(open(mounted::disk_of(program_.directory).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (root) syncfs(root.get());
      mount_->between_requests([&] { writer_->make_durable(); });
      return Answer::with(0);
    };
    handlers.on_mark = [this](const Caller&, std::string_view text) {
      if (is_program_running_) mount_->between_requests([&] { writer_->mark(text); });
      return Answer::with(0);
    };
    return handlers;
  }

  const sandbox::Inside& inside_;
  const mounted::RecordPlan& program_;
  const DiskPlan& disk_;
  const Expected& expected_;
  Forcing forcing_;
  std::uint32_t number_;
  std::unique_ptr<blocklayer::DeviceTraceWriter> writer_;
  std::unique_ptr<device::RecordedDevice> device_;
  std::unique_ptr<blocklayer::DeviceMount> mount_;
  std::optional<Forcer> forcer_;
  dev_t device_number_ = 0;
  mounted::LineMarks lines_{[this](const std::string& text) { writer_->mark(text); }};
  std::atomic<bool> is_program_running_ = false;
};

}  // namespace

std::string device_directory(const std::string& directory) { return directory + "/device"; }
std::string base_of(const std::string& directory) { return directory + "/base"; }
std::string run_of(const std::string& directory, std::uint32_t run) { return fmt::format("{}/run-{}", directory, run); }

tl::expected<bool, Failure> make_base(const mounted::RecordPlan& program, const DiskPlan& disk,
                                      const std::function<bool()>& should_stop) {
  for (const std::string& directory : {mounted::disk_of(program.directory), device_directory(program.directory)}) {
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
      return result::wrong_use(fmt::format("Cannot make {}: {}.", directory, std::strerror(errno)));
  }
  const std::string path = base_of(program.directory);
  {
    const sandbox::Fd image(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!image || ftruncate(image.get(), static_cast<off_t>(disk.bytes)) != 0)
      return result::wrong_use(fmt::format("Cannot make {}: {}.", path, std::strerror(errno)));
  }
  if (auto made = make_filesystem(disk.filesystem, path, disk.drive.sector_bytes); !made)
    return result::wrong_use(made.error());
  const auto filled = in_sandbox(
      program.directory, [&](const sandbox::Inside& inside) { return fill_base(inside, program, disk); }, should_stop);
  if (!filled) return tl::unexpected(filled.error());
  return !filled->contains("stopped");
}

tl::expected<RunsSoFar, Failure> record_runs(const mounted::RecordPlan& program, const DiskPlan& disk,
                                             const Expected& expected, std::uint64_t seed,
                                             const std::function<bool()>& should_stop, RunsSoFar runs) {
  std::vector<Forcing> forcings{{}};
  if (runs.done > 0) forcings = choose_forcings(disk.runs, runs.calls, seed);
  for (; runs.done < forcings.size(); ++runs.done) {
    const std::uint32_t run = runs.done + 1;
    if (should_stop()) return runs;
    const auto answer = in_sandbox(
        program.directory,
        [&](const sandbox::Inside& inside) {
          return Run(inside, program, disk, expected, forcings[run - 1], run).run();
        },
        should_stop);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->contains("stopped")) {
      unlink(run_of(program.directory, run).c_str());  // it has only a part of what the program does
      return runs;
    }
    if (run > 1) continue;
    runs.calls = answer->at("calls").get<std::uint32_t>();
    forcings = choose_forcings(disk.runs, runs.calls, seed);
  }
  runs.is_all = true;
  return runs;
}

}  // namespace crashcut::kernel
