#include "recovery/device/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "blocklayer/mount/loop_device.h"
#include "include/crashcut.h"
#include "recovery/device/devices.h"
#include "recovery/mounted/command_runner.h"
#include "recovery/mounted/line_marks.h"
#include "recovery/mounted/versions.h"
#include "recovery/sandbox/command.h"
#include "recovery/sandbox/syscall_watch.h"
#include "recovery/search/channel.h"

namespace crashcut::device {
namespace {

using sandbox::Answer;
using sandbox::Caller;
using sandbox::Outcome;
using search::Json;

// The program's side: PID 1 of the sandbox.
class Recorder {
 public:
  Recorder(const sandbox::Inside& inside, const RecordPlan& plan, bool with_terminal)
      : inside_(inside), plan_(plan), with_terminal_(with_terminal) {}

  Json run() {
    const blocklayer::DeviceHeader header{plan_.sector_bytes, plan_.bytes, plan_.program.program.words};
    auto writer = blocklayer::DeviceTraceWriter::create(mounted::trace_of(plan_.program.directory), header);
    if (!writer) return failure(true, writer.error());
    writer_ = std::move(*writer);
    auto device = RecordedDevice::create(plan_.program.directory, header, *writer_);
    if (!device) return failure(true, device.error());
    device_ = std::move(*device);
    device_->stdout_to = [this](std::string_view text) { on_stdout(text); };
    auto mount = blocklayer::DeviceMount::start({.directory = served_directory(),
                                                 .allow_others = geteuid() == 0,
                                                 .answers = plan_.answers,
                                                 .not_for_drive = {CRASHCUT_SYSCALL_NUMBER, SYS_sync},
                                                 .is_below_loop = plan_.has_loop},
                                                *device_);
    if (!mount) return failure(true, mount.error());
    mount_ = std::move(*mount);
    if (plan_.has_loop) {
      if (const std::string why = attach_loop(); !why.empty()) return failure(false, why);
    }
    auto watch = sandbox::SyscallWatch::start(handlers());
    if (!watch) return failure(false, watch.error());
    Json answer = run_all();
    if (plan_.has_loop) detach_loop();
    answer["requests"] = mount_->request_count();
    mount_.reset();
    writer_->finish();
    if (!writer_->error().empty()) return failure(true, writer_->error());
    if (device_->write_error() != 0)
      return failure(true, fmt::format("The device's contents could not be kept in {}: {}.", plan_.program.directory,
                                       std::strerror(device_->write_error())));
    return answer;
  }

 private:
  static Json failure(bool is_users, const std::string& sentence) {
    return {{"failure", sentence}, {"is_users", is_users}};
  }

  std::string served_directory() const {
    return plan_.has_loop ? plan_.program.directory + "/device" : mounted::disk_of(plan_.program.directory);
  }
  // Names in the program's directory, and where they lead.
  std::string link_to_device() const { return device_of(plan_.program.directory); }
  std::string link_to_hidden() const { return mounted::disk_of(plan_.program.directory) + "/.crashcut"; }

  // A sentence on what went wrong.
  std::string attach_loop() {
    const std::string file = fmt::format("{}/{}", served_directory(), blocklayer::kDeviceName);
    const sandbox::Fd served(open(file.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!served) return fmt::format("Cannot open the recording device: {}.", std::strerror(errno));
    auto loop = blocklayer::LoopDevice::attach(served.get(), blocklayer::LoopDevice::Io::kDirect, plan_.sector_bytes);
    if (!loop) return loop.error();
    loop_.emplace(std::move(*loop));
    if (symlink(loop_->path().c_str(), link_to_device().c_str()) != 0 ||
        symlink((served_directory() + "/.crashcut").c_str(), link_to_hidden().c_str()) != 0)
      return fmt::format("Cannot make {}: {}.", link_to_device(), std::strerror(errno));
    return "";
  }
  // What is still in the kernel's cache reaches the drive, without a flush, as on the last close of a disk.
  void detach_loop() {
    ioctl(loop_->fd(), BLKFLSBUF, 0);
    unlink(link_to_device().c_str());
    unlink(link_to_hidden().c_str());
    loop_.reset();
  }

  // Sectors of zeroes are not written. A sentence on what went wrong.
  std::string copy_from_file() {
    const sandbox::Fd file(open(plan_.from_file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fmt::format("Cannot open {}: {}.", plan_.from_file, std::strerror(errno));
    std::vector<std::byte> bytes(kCopiedAtATime);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    for (std::uint64_t at = 0; at < plan_.bytes; at += bytes.size()) {
      const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (got < 0) return fmt::format("Cannot read {}: {}.", plan_.from_file, std::strerror(errno));
      const std::uint64_t sectors = (static_cast<std::uint64_t>(got) + plan_.sector_bytes - 1) / plan_.sector_bytes;
      const std::span<std::byte> read(bytes.data(), sectors * plan_.sector_bytes);
      std::fill(read.begin() + got, read.end(), std::byte{0});
      if (std::all_of(read.begin(), read.end(), is_zero)) continue;
      device_->complete(device_->issue(
          {.kind = blocklayer::RequestKind::kWrite, .first = at / plan_.sector_bytes, .count = sectors}, read));
    }
    return "";
  }

  Json run_all() {
    if (!plan_.from_file.empty()) {
      std::string why;
      mount_->between_requests([&] { why = copy_from_file(); });
      if (!why.empty()) return failure(true, why);
    }
    if (!plan_.program.setup.empty()) {
      if (Json failed = prepare(); !failed.empty()) return failed;
    }
    if (loop_) fsync(loop_->fd());  // of the set-up
    mount_->between_requests([&] { writer_->make_durable(); });
    return run_program();
  }

  sandbox::Command command_for(std::vector<std::string> argv) const {
    sandbox::Command command = mounted::command_on_disk(plan_.program, std::move(argv));
    command.environment.push_back(fmt::format("{}={}", kDeviceVariable, device_of(plan_.program.directory)));
    return command;
  }

  // Null where it went well.
  Json prepare() {
    const std::string why = mounted::why_failed(
        sandbox::run(inside_, command_for(mounted::argv_of(plan_.program.setup))), plan_.program.limit);
    return why.empty() ? Json() : failure(true, "The set-up command failed: " + why);
  }

  Json run_program() {
    std::vector<std::string> argv = plan_.program.program.words;
    if (plan_.program.lines_are_marks) {
      // The shell opens it: this process must not wait for its own mount.
      argv.insert(argv.begin(), {"/bin/sh", "-c", "exec \"$0\" \"$@\" >.crashcut/stdout"});
    }
    sandbox::Command command = command_for(std::move(argv));
    command.stdin_fd = STDIN_FILENO;
    command.stdout_fd = stdout_fd();
    command.stderr_fd = STDERR_FILENO;
    command.with_terminal = with_terminal_;
    mounted::limit_program(command, plan_.program, with_terminal_);
    command.on_limit = [this] { mount_->between_requests([&] { writer_->stop(); }); };
    is_program_running_ = true;
    const Outcome outcome = sandbox::run(inside_, command);
    if (outcome.end == Outcome::End::kNotStarted)
      return failure(true, fmt::format("The program could not be run: {}", outcome.why));
    const bool exited = outcome.end == Outcome::End::kExited;
    mount_->between_requests([&] {
      lines_.end();
      if (exited)
        writer_->mark(outcome.code == 0 ? std::string(mounted::kExitMark)
                                        : fmt::format("{} {}", mounted::kExitMark, outcome.code));
    });
    return {{"exited", exited},
            {"code", outcome.code},
            {"signal", outcome.signal},
            {"timed_out", outcome.end == Outcome::End::kTimedOut},
            {"left_running", outcome.left_running},
            {"seconds", std::chrono::duration<double>(outcome.wall).count()}};
  }

  // In the thread that serves: the program waits, so the mark comes before whatever it does next.
  void on_stdout(std::string_view text) {
    [[maybe_unused]] const ssize_t written = write(stdout_fd(), text.data(), text.size());
    lines_.add(text);
  }
  int stdout_fd() const { return plan_.program.is_stdout_taken ? STDERR_FILENO : STDOUT_FILENO; }

  sandbox::SyscallHandlers handlers() {
    sandbox::SyscallHandlers handlers;
    handlers.on_barrier = [this](const Caller&) {
      mount_->between_requests([&] { writer_->make_durable(); });
      return Answer::with(0);
    };
    if (plan_.has_loop) {
      handlers.on_discard = [this](const Caller&, const sandbox::Discard& discard) {
        mount_->expect_discard(discard.offset, discard.length);
      };
    } else {
      handlers.on_sync = [this](const Caller& caller, std::optional<int> fd) {
        if (!fd) mount_->write_back(caller.thread());
        return Answer::go_on();
      };
    }
    handlers.on_mark = [this](const Caller&, std::string_view text) {
      // The set-up promises nothing of what the program does; a script may serve as both.
      if (is_program_running_) mount_->between_requests([&] { writer_->mark(text); });
      return Answer::with(0);
    };
    return handlers;
  }

  const sandbox::Inside& inside_;
  const RecordPlan& plan_;
  bool with_terminal_;
  static constexpr std::size_t kCopiedAtATime = 1 << 20;
  std::optional<blocklayer::LoopDevice> loop_;
  std::unique_ptr<blocklayer::DeviceTraceWriter> writer_;
  std::unique_ptr<RecordedDevice> device_;
  std::unique_ptr<blocklayer::DeviceMount> mount_;
  mounted::LineMarks lines_{[this](const std::string& text) { writer_->mark(text); }};
  std::atomic<bool> is_program_running_ = false;
};

}  // namespace

std::string device_of(const std::string& directory) {
  return fmt::format("{}/{}", mounted::disk_of(directory), blocklayer::kDeviceName);
}

tl::expected<mounted::Recorded, Failure> record(const RecordPlan& plan, bool with_terminal) {
  std::vector<std::string> directories{mounted::disk_of(plan.program.directory)};
  if (plan.has_loop) directories.push_back(plan.program.directory + "/device");
  for (const std::string& directory : directories) {
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
      return result::wrong_use(fmt::format("Cannot make {}: {}.", directory, std::strerror(errno)));
  }
  sandbox::Options options = mounted::options_for_disk(plan.program.directory, with_terminal);
  if (plan.has_loop) options.mode = sandbox::Mode::kNamespaces;  // without them the loop device could stay attached
  auto sandbox = sandbox::Sandbox::start(
      [&](const sandbox::Inside& inside) {
        search::send(inside.socket, Recorder(inside, plan, with_terminal).run());
        return 0;
      },
      options);
  if (!sandbox) return result::tool_failed(sandbox.error());
  const auto answer = search::receive(sandbox->socket());
  sandbox->wait();
  if (!answer)
    return result::tool_failed("The recording was ended from outside; the trace holds what was done until then.");
  if (answer->contains("failure"))
    return tl::unexpected(Failure{answer->at("is_users").get<bool>() ? result::Blame::kUser : result::Blame::kTool,
                                  answer->at("failure")});
  mounted::Recorded recorded;
  recorded.exited = answer->at("exited");
  recorded.code = answer->at("code");
  recorded.signal = answer->at("signal");
  recorded.timed_out = answer->at("timed_out");
  recorded.left_running = answer->at("left_running");
  recorded.requests = answer->at("requests");
  recorded.seconds = answer->at("seconds");
  recorded.weak_sandbox = sandbox->why_weak();
  return recorded;
}

}  // namespace crashcut::device
