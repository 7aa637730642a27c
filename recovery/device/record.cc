#include "recovery/device/record.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

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
    auto mount = blocklayer::DeviceMount::start({.directory = mounted::disk_of(plan_.program.directory),
                                                 .allow_others = geteuid() == 0,
                                                 .answers = plan_.answers},
                                                *device_);
    if (!mount) return failure(true, mount.error());
    mount_ = std::move(*mount);
    auto watch = sandbox::SyscallWatch::start(handlers());
    if (!watch) return failure(false, watch.error());
    Json answer = run_all();
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

  Json run_all() {
    if (!plan_.program.setup.empty()) {
      if (Json failed = prepare(); !failed.empty()) return failed;
    }
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
    std::vector<std::string> argv = mounted::argv_of(plan_.program.program);
    if (plan_.program.lines_are_marks) {
      // The shell opens it: this process must not wait for its own mount.
      argv.insert(argv.begin(), {"/bin/sh", "-c", "exec \"$0\" \"$@\" >.crashcut/stdout"});
    }
    sandbox::Command command = command_for(std::move(argv));
    command.stdin_fd = STDIN_FILENO;
    command.stdout_fd = stdout_fd();
    command.stderr_fd = STDERR_FILENO;
    command.with_terminal = with_terminal_;
    if (with_terminal_) command.limit.reset();
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
  const std::string disk = mounted::disk_of(plan.program.directory);
  if (mkdir(disk.c_str(), 0755) != 0 && errno != EEXIST)
    return result::wrong_use(fmt::format("Cannot make {}: {}.", disk, std::strerror(errno)));
  auto sandbox = sandbox::Sandbox::start(
      [&](const sandbox::Inside& inside) {
        search::send(inside.socket, Recorder(inside, plan, with_terminal).run());
        return 0;
      },
      mounted::options_for_disk(plan.program.directory, with_terminal));
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
