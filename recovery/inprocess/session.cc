#include "recovery/inprocess/session.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "persist/leaf_estimate.h"
#include "recovery/inprocess/elf_check.h"
#include "recovery/inprocess/launch.h"
#include "recovery/sandbox/fd.h"

namespace crashcut::inprocess {

namespace {

using sandbox::Fd;

constexpr int kTickMs = 20;
constexpr std::uint64_t kPunchBytes = std::uint64_t{64} << 20;
// A recovery that has run for longer when the exploration is stopped is not waited for.
constexpr std::uint64_t kPatienceNs = 200'000'000;

tl::unexpected<Failure> fail(Blame blame, std::string sentence) {
  return tl::make_unexpected(Failure{blame, std::move(sentence)});
}
tl::unexpected<Failure> fail_errno(const char* what) {
  return fail(Blame::kTool, fmt::format("{}: {}", what, strerror(errno)));
}

std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000 + static_cast<std::uint64_t>(t.tv_nsec);
}

tl::expected<std::string, Failure> real_path(const std::string& path) {
  char* found = realpath(path.c_str(), nullptr);
  if (found == nullptr) return fail(Blame::kUser, fmt::format("{}: {}", path, strerror(errno)));
  std::string result = found;
  free(found);
  return result;
}

bool copy_text(const std::string& from, char (&to)[kTextMost]) {
  if (from.size() >= kTextMost) return false;
  memcpy(to, from.c_str(), from.size() + 1);
  return true;
}

}  // namespace

struct Session::Impl {
  Setup setup;
  Execution execution{};
  Fd control_fd;
  Fd socket;
  pid_t pid = -1;
  std::byte* control = nullptr;
  std::uint64_t records_read = 0;
  persist::LeafEstimate leaves;
  std::uint64_t records_punched = 0;  // bytes
  std::uint64_t heap_punched = 0;
  bool is_exploring = false;

  Header& header() const { return *reinterpret_cast<Header*>(control); }
  Slot& slot(std::uint32_t i) const { return *reinterpret_cast<Slot*>(control + kSlotsOffset + i * kSlotBytes); }

  ~Impl() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    if (control != nullptr) munmap(control, kControlBytes);
  }

  tl::expected<void, Failure> make_control();
  void watch();
  tl::expected<Reply, Failure> wait_reply(const std::function<void()>& on_tick);
  tl::expected<Reply, Failure> ask(Request request, std::span<const std::uint32_t> path,
                                   std::span<const std::uint32_t> events, const std::function<void()>& on_tick);
  Recovery recovery_at(std::uint64_t index) const;
  void drain(const std::function<void(const Recovery&)>& on_recovery, bool at_end);
  tl::expected<SingleRun, Failure> single(Request request, std::span<const std::uint32_t> path,
                                          std::span<const std::uint32_t> events);
};

tl::expected<void, Failure> Session::Impl::make_control() {
  control_fd = Fd(memfd_create("crashcut-control", MFD_CLOEXEC));
  if (control_fd.get() < 0 || ftruncate(control_fd.get(), static_cast<off_t>(kControlBytes)) != 0)
    return fail_errno("cannot make the control file");
  void* at = mmap(nullptr, kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, control_fd.get(), 0);
  if (at == MAP_FAILED) return fail_errno("cannot map the control file");
  control = static_cast<std::byte*>(at);
  Header& h = header();
  h.magic = kMagic;
  h.version = kVersion;
  h.model = setup.model;
  h.depth = std::max(setup.depth, 1u);
  h.jobs = std::clamp(setup.jobs, 1u, kJobsMost);
  h.seed = setup.seed;
  h.max_recoveries = setup.max_recoveries;
  h.max_violations = setup.max_violations;
  h.fresh_images = setup.fresh_images;
  h.memory_bytes_most = setup.memory_bytes_most;
  if (!copy_text(setup.from_directory, h.from_directory) || !copy_text(setup.runtime, h.runtime_path))
    return fail(Blame::kUser, "a path is too long");
  return {};
}

// Kills what has run for too long; whoever reaps it knows why it died.
void Session::Impl::watch() {
  const std::uint64_t now = now_ns();
  const bool is_ending = is_exploring && header().stop != 0;
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    Slot& s = slot(i);
    if (s.state.load(std::memory_order_relaxed) != SlotState::kTaken) {
      // Slots fill from the front; a long run of free ones has nothing behind it.
      if (i > 64 && i % 64 == 0 && s.pid == 0) break;
      continue;
    }
    const std::uint64_t began = s.began_ns.load(std::memory_order_acquire);
    const auto limit = static_cast<std::uint64_t>((i == 0 ? setup.main_limit : setup.recovery_limit).count());
    if (began == 0 || now < began) continue;
    const bool is_late = now - began >= limit;
    if (!is_late && !(is_ending && i != 0 && now - began >= kPatienceNs)) continue;
    const pid_t process = s.pid;
    if (process <= 0) continue;
    std::uint32_t nobody = kNotKilled;
    if (!s.killed.compare_exchange_strong(nobody, is_late ? kKilled : kAbandoned)) continue;
    if (s.began_ns != began) {
      s.killed = kNotKilled;  // it has just begun another recovery
      continue;
    }
    kill(process, SIGKILL);
  }
}

tl::expected<Reply, Failure> Session::Impl::wait_reply(const std::function<void()>& on_tick) {
  while (true) {
    pollfd p{socket.get(), POLLIN, 0};
    const int ready = poll(&p, 1, kTickMs);
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    watch();
    if (on_tick) on_tick();
    if (ready <= 0 && setup.is_late && setup.is_late()) return fail(Blame::kUser, "There was no time left.");
    if (ready <= 0) continue;
    Reply reply;
    const ssize_t got = recv(socket.get(), &reply, sizeof reply, 0);
    if (got == static_cast<ssize_t>(sizeof reply)) return reply;
    if (got < 0 && errno == EINTR) continue;
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
    }
    pid = -1;
    if (ended > 0 && WIFSIGNALED(status)) {
      return fail(Blame::kTool,
                  fmt::format("the program's process was killed from outside or before main() (signal {}: {})",
                              WTERMSIG(status), strsignal(WTERMSIG(status))));
    }
    return fail(Blame::kTool, fmt::format("the program's process ended before main() (exit code {})",
                                          ended > 0 ? WEXITSTATUS(status) : -1));
  }
}

tl::expected<Reply, Failure> Session::Impl::ask(Request request, std::span<const std::uint32_t> path,
                                                std::span<const std::uint32_t> events,
                                                const std::function<void()>& on_tick) {
  if (pid <= 0) return fail(Blame::kTool, "the program's process is gone");
  if ((path.size() + events.size()) * 4 > kRequestBytes / 2) return fail(Blame::kTool, "the request is too large");
  request.path_length = static_cast<std::uint32_t>(path.size());
  request.event_count = static_cast<std::uint32_t>(events.size());
  std::byte* at = control + kRequestOffset;
  if (!path.empty()) memcpy(at, path.data(), path.size_bytes());
  if (!events.empty()) memcpy(at + path.size_bytes(), events.data(), events.size_bytes());
  if (send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request)) {
    return fail(Blame::kTool, "the program's process is gone");
  }
  return wait_reply(on_tick);
}

Recovery Session::Impl::recovery_at(std::uint64_t index) const {
  const Record& r = reinterpret_cast<const Record*>(control + kRecordsOffset)[index];
  const std::byte* at = control + r.payload;
  Recovery out{r.kind};
  if (r.kind == RecordKind::kHung) out.limit = std::chrono::duration_cast<std::chrono::seconds>(setup.recovery_limit);
  const std::span noted(reinterpret_cast<const NotedAnswer*>(at), r.path_length);
  for (const NotedAnswer& choice : noted) {
    out.path.push_back(choice.answer);
    out.counts.push_back(choice.count);
  }
  const char* text = reinterpret_cast<const char*>(at + noted.size_bytes());
  out.output = {text, r.output_bytes};
  out.errors = {text + r.output_bytes, r.error_bytes};
  out.text = {text + r.output_bytes + r.error_bytes, r.text_bytes};
  out.blame = r.blame;
  out.exit_code = r.exit_code;
  out.signal = r.signal;
  out.events_in = r.events_in;
  out.layer = r.layer;
  out.output_cut = (r.output_cut & 1) != 0;
  out.output_rest = r.output_rest;
  out.errors_cut = (r.output_cut & 2) != 0;
  return out;
}

void Session::Impl::drain(const std::function<void(const Recovery&)>& on_recovery, bool at_end) {
  const std::uint64_t count = header().record_count.load(std::memory_order_acquire);
  std::uint64_t heap_end = heap_punched;
  for (; records_read < count; ++records_read) {
    const Record& r = reinterpret_cast<const Record*>(control + kRecordsOffset)[records_read];
    if (r.committed.load(std::memory_order_acquire) == 0) {
      if (!at_end) break;
      continue;  // its writer was killed in between
    }
    const Recovery recovery = recovery_at(records_read);
    leaves.add(recovery.path, recovery.counts);
    if (on_recovery) on_recovery(recovery);
    heap_end = r.payload - kHeapOffset;
  }
  // What was read is given back. Records come almost in the order of their payloads; one chunk stays behind.
  const std::uint64_t done = records_read * sizeof(Record) / kPunchBytes * kPunchBytes;
  if (done > records_punched) {
    fallocate(control_fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(kRecordsOffset + records_punched), static_cast<off_t>(done - records_punched));
    records_punched = done;
  }
  if (heap_end > heap_punched + 2 * kPunchBytes) {
    const std::uint64_t to = (heap_end - kPunchBytes) / kPunchBytes * kPunchBytes;
    fallocate(control_fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(kHeapOffset + heap_punched), static_cast<off_t>(to - heap_punched));
    heap_punched = to;
  }
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

tl::expected<std::unique_ptr<Session>, Failure> Session::start(const Setup& setup) {
  auto impl = std::make_unique<Impl>();
  impl->setup = setup;
  const auto program = real_path(setup.program);
  if (!program) return tl::make_unexpected(program.error());
  impl->setup.program = *program;
  if (auto fits = check_executable(*program); !fits) return fail(Blame::kUser, fits.error());
  const auto runtime = real_path(setup.runtime);
  if (!runtime) return fail(Blame::kTool, fmt::format("crashcut's runtime is missing: {}", runtime.error().sentence));
  impl->setup.runtime = *runtime;
  if (!setup.from_directory.empty()) {
    const auto from = real_path(setup.from_directory);
    if (!from) return tl::make_unexpected(from.error());
    struct stat st;
    if (stat(from->c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
      return fail(Blame::kUser, fmt::format("{} is not a directory", *from));
    impl->setup.from_directory = *from;
  }
  if (auto made = impl->make_control(); !made) return tl::make_unexpected(made.error());
  auto launched = launch(impl->setup, impl->control_fd.get());
  if (!launched) return tl::make_unexpected(launched.error());
  impl->pid = launched->pid;
  impl->socket = std::move(launched->socket);
  const auto reply = impl->wait_reply({});
  if (!reply) return tl::make_unexpected(reply.error());
  Session* session = new Session(std::move(impl));
  session->read_execution();
  return std::unique_ptr<Session>(session);
}

void Session::read_execution() {
  const Header& h = impl_->header();
  impl_->execution = {h.execution, h.exit_code,   h.signal,      h.execution_text, h.execution_blame,
                      h.op_count,  h.event_count, h.fingerprint, h.threads_begun};
}

bool Session::has_recover() const { return impl_->header().has_recover != 0; }

bool Session::is_alive() const {
  const auto state_of = [](pid_t pid) {
    const Fd fd(open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
    char text[512] = {};
    const ssize_t got = fd.get() < 0 ? -1 : read(fd.get(), text, sizeof text - 1);
    const char* end = got <= 0 ? nullptr : strrchr(text, ')');
    return end == nullptr ? 'X' : end[2];
  };
  for (const pid_t pid : {impl_->pid, impl_->header().threads_pid}) {
    const char state = state_of(pid);
    if (state == 'X' || state == 'Z') return false;
  }
  return true;
}

std::span<const std::uint64_t> Session::digest() const {
  return {reinterpret_cast<const std::uint64_t*>(impl_->control + kDigestOffset),
          impl_->header().digest_bytes / sizeof(std::uint64_t)};
}

void Session::observe() { impl_->header().is_observing = 1; }

std::optional<std::vector<std::uint64_t>> Session::take_observed() {
  Header& h = impl_->header();
  std::vector<std::uint64_t> names;
  auto* slots = reinterpret_cast<std::uint64_t*>(impl_->control + kObservedOffset);
  const std::uint64_t count = h.observed_count.exchange(0);
  for (std::uint64_t i = 0; i < kObservedSlots && names.size() < count; ++i) {
    if (slots[i] != 0) names.push_back(std::exchange(slots[i], 0));
  }
  std::sort(names.begin(), names.end());
  if (count >= kObservedSlots / 2) return std::nullopt;
  return names;
}

void Session::begin_again() {
  Header& h = impl_->header();
  h.stop = 0;
  h.bounded = 0;
  h.recoveries = h.violations = h.tool_errors = 0;
  h.diverged = 0;
  impl_->leaves = {};
}

const Execution& Session::execution() const { return impl_->execution; }

tl::expected<void, Failure> Session::explore(std::span<const std::uint32_t> prefix,
                                             const std::function<void(const Recovery&)>& on_recovery,
                                             const std::function<void()>& on_idle) {
  const auto on_tick = [&] {
    impl_->drain(on_recovery, false);
    if (on_idle) on_idle();
  };
  impl_->is_exploring = true;
  const auto reply = impl_->ask({RequestKind::kExplore, 0, 0, kDropNothing}, prefix, {}, on_tick);
  impl_->is_exploring = false;
  impl_->drain(on_recovery, true);
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->kind != ReplyKind::kDone) return fail(Blame::kTool, "the program's process could not start a recovery");
  return {};
}

void Session::stop() { impl_->header().stop.store(1); }
void Session::set_limits(std::uint64_t max_recoveries, std::uint64_t max_violations) {
  Header& h = impl_->header();
  h.max_recoveries = max_recoveries;
  h.max_violations = max_violations;
  h.stop = 0;
}
bool Session::bounded() const { return impl_->header().bounded != 0; }
std::uint64_t Session::recoveries() const { return impl_->header().recoveries; }
std::uint64_t Session::violations() const { return impl_->header().violations; }
result::Fraction Session::explored_fraction() const {
  const persist::LeafEstimate& leaves = impl_->leaves;
  if (leaves.done() == 0) return 0;
  const persist::Estimate all = leaves.estimate();
  const auto part = [&](double of) { return std::clamp(leaves.done() / of, std::numeric_limits<double>::min(), 1.0); };
  return {part(all.high), part(all.likely), part(all.low)};
}

tl::expected<SingleRun, Failure> Session::Impl::single(Request request, std::span<const std::uint32_t> path,
                                                       std::span<const std::uint32_t> events) {
  const auto reply = ask(request, path, events, {});
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->kind != ReplyKind::kDone) return fail(Blame::kTool, "the program's process could not run a recovery");
  SingleRun run;
  run.recovery = recovery_at(reply->record);
  run.output = run.recovery.output;
  run.errors = run.recovery.errors;
  run.text = run.recovery.text;
  run.trace.assign(reinterpret_cast<const char*>(control + kReplyOffset), reply->text_bytes);
  run.diverged = reply->diverged != 0;
  records_read = header().record_count;
  return run;
}

// The strings of a run move with it.
static tl::expected<SingleRun, Failure> with_views(tl::expected<SingleRun, Failure> run) {
  if (run) {
    run->recovery.output = run->output;
    run->recovery.errors = run->errors;
    run->recovery.text = run->text;
  }
  return run;
}

tl::expected<SingleRun, Failure> Session::replay(std::span<const std::uint32_t> path) {
  return with_views(impl_->single({RequestKind::kReplay, 0, 0, kDropNothing}, path, {}));
}
tl::expected<SingleRun, Failure> Session::run_cut(std::span<const std::uint32_t> events, std::uint32_t drop) {
  return with_views(impl_->single({RequestKind::kRunCut, 0, 0, drop}, {}, events));
}
tl::expected<std::string, Failure> Session::describe() {
  const auto reply = impl_->ask({RequestKind::kDescribe, 0, 0, kDropNothing}, {}, {}, {});
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->kind != ReplyKind::kDone)
    return fail(Blame::kTool, "the program's process could not describe its recording");
  return std::string(reinterpret_cast<const char*>(impl_->control + kReplyOffset), reply->text_bytes);
}

}  // namespace crashcut::inprocess
