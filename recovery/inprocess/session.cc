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
#include <atomic>
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

bool wait_readable(int fd) {
  pollfd ready{fd, POLLIN, 0};
  return poll(&ready, 1, kTickMs) > 0;
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
  RequestKind doing{};                  // what was begun last
  std::optional<Failure> cannot_begin;  // that
  Reply reply{};                        // its answer, where it has ended
  std::atomic<bool> was_stopped{false};

  bool is_exploring() const { return doing == RequestKind::kExplore || doing == RequestKind::kSample; }
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
  tl::expected<bool, Failure> receive_reply();
  tl::expected<void, Failure> wait_for_execution();
  // Room for the numbers of a request.
  std::uint32_t* payload() { return reinterpret_cast<std::uint32_t*>(control + kRequestOffset); }
  void begin(Request request, std::span<const std::uint32_t> numbers);
  void send_request(const Request& request);
  Failure explain_end();
  Recovery recovery_at(std::uint64_t index) const;
  void drain(const OnRecovery& on_recovery, bool at_end);
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
  h.has_memory = setup.memory ? 1 : 0;
  h.memory_steps = setup.memory_steps ? 1 : 0;
  h.recovers_by_main = setup.recovers_by_main ? 1 : 0;
  if (setup.shared_memory) {
    h.has_shared_memory = 1;
    h.shared_has_global_flush = setup.shared_memory->has_global_flush ? 1 : 0;
    h.shared_has_poison = setup.shared_memory->has_poison ? 1 : 0;
    h.poison_is_value = setup.shared_memory->poison_is_value ? 1 : 0;
  }
  h.traps = setup.traps ? 1 : 0;
  h.instrumentation = setup.traps ? std::uint32_t{kTrapped} : 0;
  h.memory = setup.memory.value_or(pmem::MemoryModel{});
  h.notes = setup.notes;
  h.counts_marks = setup.counts_marks ? 1 : 0;
  h.hold_operation = setup.hold_operation;
  h.hold_answer = setup.hold_answer;
  h.added_sync_count = static_cast<std::uint32_t>(std::min<std::size_t>(setup.added_syncs.size(), kAddedSyncsMost));
  std::copy_n(setup.added_syncs.begin(), h.added_sync_count, h.added_syncs);
  h.depth = std::max(setup.depth, 1u);
  h.jobs = std::clamp(setup.jobs, 1u, kJobsMost);
  h.seed = setup.seed;
  h.fresh_images = setup.fresh_images;
  h.stand_after_ns = static_cast<std::uint64_t>(setup.stand_after.count());
  h.memory_bytes_most = setup.memory_bytes_most;
  if (!copy_text(setup.from_directory, h.from_directory) || !copy_text(setup.runtime, h.runtime_path))
    return fail(Blame::kUser, "a path is too long");
  return {};
}

// Kills what has run for too long; whoever reaps it knows why it died.
void Session::Impl::watch() {
  const std::uint64_t now = now_ns();
  const bool is_ending = header().stop != 0;
  const std::uint64_t patience_ns = is_exploring() ? kPatienceNs : 0;
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    Slot& s = slot(i);
    if (s.state.load(std::memory_order_relaxed) != SlotState::kTaken) {
      // Slots fill from the front; a long run of free ones has nothing behind it.
      if (i > 64 && i % 64 == 0 && s.pid == 0) break;
      continue;
    }
    const auto limit = static_cast<std::uint64_t>((i == 0 ? setup.main_limit : setup.recovery_limit).count());
    const std::uint64_t began = s.began_ns.load(std::memory_order_acquire);
    if (inject::is_late(began, now, limit)) {
      inject::kill_child(s, kKilled, began);
    } else if (is_ending && i != 0 && inject::is_late(began, now, patience_ns)) {
      inject::kill_child(s, kAbandoned, began);
    }
  }
}

Failure Session::Impl::explain_end() {
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
  }
  pid = -1;
  if (ended > 0 && WIFSIGNALED(status)) {
    return {Blame::kTool, fmt::format("the program's process was killed from outside or before main() (signal {}: {})",
                                      WTERMSIG(status), strsignal(WTERMSIG(status)))};
  }
  // Our own code ends with 0 or 4. With another code a static constructor of the program has ended it.
  const int code = ended > 0 ? WEXITSTATUS(status) : -1;
  return {code > 0 && code != 4 ? Blame::kUser : Blame::kTool,
          fmt::format("the program's process ended before main() (exit code {})", code)};
}

// The socket is readable. False where a signal came first.
tl::expected<bool, Failure> Session::Impl::receive_reply() {
  const ssize_t got = recv(socket.get(), &reply, sizeof reply, 0);
  if (got == static_cast<ssize_t>(sizeof reply)) return true;
  if (got < 0 && errno == EINTR) return false;
  return tl::make_unexpected(explain_end());
}

tl::expected<void, Failure> Session::Impl::wait_for_execution() {
  const auto limit_ns = static_cast<std::uint64_t>(setup.time_limit.count() * 1e9);
  const std::uint64_t begin = now_ns();
  for (;;) {
    if (wait_readable(socket.get())) {
      const auto received = receive_reply();
      if (!received) return tl::make_unexpected(received.error());
      if (*received) return {};
    }
    if (header().held_pid != 0) {
      setup.on_held(header().held_pid);
      return {};
    }
    watch();
    if (setup.is_late && setup.is_late()) return fail(Blame::kUser, "There was no time left.");
    if (limit_ns == 0 || now_ns() - begin < limit_ns) continue;
    header().execution = ExecutionKind::kOutOfTime;
    return {};
  }
}

void Session::Impl::begin(Request request, std::span<const std::uint32_t> numbers) {
  if (numbers.size() * sizeof numbers[0] > kRequestBytes / 2) {
    cannot_begin = Failure{Blame::kTool, "the request is too large"};
    return;
  }
  if (!numbers.empty()) memcpy(payload(), numbers.data(), numbers.size_bytes());
  request.length = static_cast<std::uint32_t>(numbers.size());
  header().max_recoveries = 0;
  send_request(request);
}

void Session::Impl::send_request(const Request& request) {
  cannot_begin = std::nullopt;
  doing = request.kind;
  was_stopped = false;
  header().stop = 0;
  // Where the process is gone, advance() finds the socket closed.
  if (pid <= 0) cannot_begin = Failure{Blame::kTool, "the program's process is gone"};
  if (pid > 0) [[maybe_unused]]
    const ssize_t sent = send(socket.get(), &request, sizeof request, MSG_NOSIGNAL);
}

Recovery Session::Impl::recovery_at(std::uint64_t index) const {
  const Record& r = reinterpret_cast<const Record*>(control + kRecordsOffset)[index];
  const std::byte* at = control + r.payload;
  Recovery out{r.kind};
  out.path.reserve(r.path_length);
  out.counts.reserve(r.path_length);
  if (r.kind == RecordKind::kHung && r.signal != 0)
    out.limit = std::chrono::duration_cast<std::chrono::seconds>(setup.recovery_limit);
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
  out.marks_reached = r.marks_reached;
  out.errors_cut = (r.output_cut & 2) != 0;
  return out;
}

void Session::Impl::drain(const OnRecovery& on_recovery, bool at_end) {
  const std::uint64_t count = header().record_count.load(std::memory_order_acquire);
  std::uint64_t heap_end = heap_punched;
  for (; records_read < count; ++records_read) {
    const Record& r = reinterpret_cast<const Record*>(control + kRecordsOffset)[records_read];
    if (r.committed.load(std::memory_order_acquire) == 0) {
      if (!at_end) break;
      continue;  // its writer was killed in between
    }
    const Recovery recovery = recovery_at(records_read);
    if (doing == RequestKind::kExplore) leaves.add(recovery.path, recovery.counts);
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
  if (auto executed = impl->wait_for_execution(); !executed) return tl::make_unexpected(executed.error());
  Session* session = new Session(std::move(impl));
  session->read_execution();
  return std::unique_ptr<Session>(session);
}

void Session::read_execution() {
  const Header& h = impl_->header();
  impl_->execution = {h.execution,       h.exit_code,       h.signal,       h.execution_text,
                      h.execution_blame, h.op_count,        h.event_count,  h.fingerprint,
                      h.threads_begun,   h.instrumentation, h.region_count, h.wants_threads != 0};
}

bool Session::was_held() const { return impl_->header().held_pid != 0; }

bool Session::has_recover() const { return impl_->header().has_recover != 0; }
std::uint64_t Session::stood_count() const { return impl_->header().stood_count; }
bool Session::wants_threads() const { return impl_->header().wants_threads != 0; }
bool Session::has_threaded_recoveries() const { return impl_->header().threaded_recoveries != 0; }

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
  h.is_lost = 0;
  h.diverged = 0;
  impl_->leaves = {};
  if (h.notes == 0) return;
  h.notes_left_out = 0;
  memset(impl_->control + kNotedLoadsOffset, 0, kNotedLoadsMost * sizeof(NotedLoad));
}

const Execution& Session::execution() const { return impl_->execution; }

void Session::begin_explore(std::span<const persist::Part> parts, std::uint64_t max_recoveries) {
  static const persist::Part kAll;
  if (parts.empty()) parts = {&kAll, 1};
  std::uint64_t bytes = 0;
  for (const persist::Part& part : parts) bytes += (part.size() + 1) * sizeof part[0];
  if (bytes > kRequestBytes / 2) {
    impl_->cannot_begin = Failure{Blame::kTool, "what is left of the search is too large"};
    return;
  }
  std::uint32_t* at = impl_->payload();
  // What is queued last is taken first.
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    *at++ = static_cast<std::uint32_t>(part->size());
    at = std::copy(part->begin(), part->end(), at);
  }
  Header& h = impl_->header();
  h.max_recoveries = max_recoveries == 0 ? 0 : h.recoveries + max_recoveries;
  impl_->send_request({.kind = RequestKind::kExplore, .length = static_cast<std::uint32_t>(at - impl_->payload())});
}

void Session::begin_sample(search::Strategy strategy, std::uint64_t seed, std::uint64_t count) {
  impl_->begin(
      {.kind = RequestKind::kSample, .strategy = static_cast<std::uint32_t>(strategy), .seed = seed, .count = count},
      {});
}

void Session::begin_replay(std::span<const std::uint32_t> path) { impl_->begin({.kind = RequestKind::kReplay}, path); }
void Session::begin_run_cut(std::span<const std::uint32_t> events, std::uint32_t drop) {
  impl_->begin({.kind = RequestKind::kRunCut, .drop = drop}, events);
}
void Session::begin_describe() { impl_->begin({.kind = RequestKind::kDescribe}, {}); }
void Session::begin_find_notes() { impl_->begin({.kind = RequestKind::kFindNotes}, {}); }
void Session::begin_find_flushes() { impl_->begin({.kind = RequestKind::kFindFlushes}, {}); }
void Session::begin_find_syncs() { impl_->begin({.kind = RequestKind::kFindSyncs}, {}); }
void Session::add_flushes(std::span<const pmem::AddedFlush> flushes) {
  Header& h = impl_->header();
  h.added_count = static_cast<std::uint32_t>(std::min<std::size_t>(flushes.size(), kAddedMost));
  std::copy_n(flushes.begin(), h.added_count, h.added);
  begin_again();
}
void Session::stop() {
  impl_->was_stopped = true;
  impl_->header().stop = 1;
}
int Session::fd() const { return impl_->socket.get(); }

tl::expected<bool, Failure> Session::advance(bool is_readable, const OnRecovery& on_recovery) {
  if (impl_->cannot_begin) return tl::make_unexpected(*impl_->cannot_begin);
  bool has_ended = false;
  if (is_readable) {
    const auto received = impl_->receive_reply();
    if (!received) return received;
    has_ended = *received;
  }
  impl_->watch();
  if (impl_->is_exploring()) {
    impl_->drain(on_recovery, has_ended);
    if (has_ended && impl_->reply.kind != ReplyKind::kDone)
      return fail(Blame::kTool, "the program's process could not start a recovery");
  }
  return has_ended;
}

std::vector<persist::Part> Session::left() const {
  const WorkQueue& queue = *reinterpret_cast<const WorkQueue*>(impl_->control + kWorkOffset);
  std::vector<persist::Part> left;
  for (const std::byte* at = queue.bytes + queue.used; at > queue.bytes;) {
    std::uint32_t tail[2];
    memcpy(tail, at - sizeof tail, sizeof tail);
    at -= sizeof tail + tail[0] * sizeof tail[0];
    const auto* numbers = reinterpret_cast<const std::uint32_t*>(at);
    persist::Part& part = left.emplace_back();
    if (static_cast<WorkMode>(tail[1]) == WorkMode::kRest) part.push_back(persist::kRestFollows);
    part.insert(part.end(), numbers, numbers + tail[0]);
  }
  return left;
}

bool Session::is_lost() const { return impl_->header().is_lost != 0; }
double Session::explored_count() const { return impl_->leaves.done(); }
persist::Estimate Session::explored_estimate() const { return impl_->leaves.estimate(); }

tl::expected<SingleRun, Failure> Session::single_run() {
  const Reply& reply = impl_->reply;
  impl_->records_read = impl_->header().record_count;
  SingleRun run;
  run.is_stopped = impl_->was_stopped;
  if (run.is_stopped) return run;
  if (reply.kind != ReplyKind::kDone) return fail(Blame::kTool, "the program's process could not run a recovery");
  run.recovery = impl_->recovery_at(reply.record);
  run.output = run.recovery.output;
  run.errors = run.recovery.errors;
  run.text = run.recovery.text;
  run.trace.assign(reinterpret_cast<const char*>(impl_->control + kReplyOffset), reply.text_bytes);
  run.diverged = reply.diverged != 0;
  return run;
}

tl::expected<std::string, Failure> Session::description() {
  const Reply& reply = impl_->reply;
  if (impl_->was_stopped) return std::string();
  if (reply.kind != ReplyKind::kDone)
    return fail(Blame::kTool, "the program's process could not describe its recording");
  return std::string(reinterpret_cast<const char*>(impl_->control + kReplyOffset), reply.text_bytes);
}

// Until what was begun has ended.
static tl::expected<void, Failure> wait_for(Session& session, const Session::OnRecovery& on_recovery = {}) {
  for (;;) {
    const auto ended = session.advance(wait_readable(session.fd()), on_recovery);
    if (!ended) return tl::make_unexpected(ended.error());
    if (*ended) return {};
  }
}

tl::expected<void, Failure> Session::explore(std::span<const persist::Part> parts, const OnRecovery& on_recovery,
                                             std::uint64_t max_recoveries) {
  begin_explore(parts, max_recoveries);
  return wait_for(*this, on_recovery);
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
  begin_replay(path);
  if (auto ok = wait_for(*this); !ok) return tl::make_unexpected(ok.error());
  return with_views(single_run());
}
tl::expected<SingleRun, Failure> Session::run_cut(std::span<const std::uint32_t> events, std::uint32_t drop) {
  begin_run_cut(events, drop);
  if (auto ok = wait_for(*this); !ok) return tl::make_unexpected(ok.error());
  return with_views(single_run());
}
tl::expected<bool, Failure> Session::hold(std::span<const std::uint32_t> path) {
  begin_replay(path);
  for (;;) {
    const auto ended = advance(wait_readable(fd()));
    if (!ended) return ended;
    if (*ended) return false;
    if (!was_held()) continue;
    impl_->setup.on_held(impl_->header().held_pid);
    return true;
  }
}
tl::expected<std::string, Failure> Session::description_of(void (Session::*begin)()) {
  (this->*begin)();
  if (auto ok = wait_for(*this); !ok) return tl::make_unexpected(ok.error());
  return description();
}
tl::expected<std::string, Failure> Session::describe() { return description_of(&Session::begin_describe); }
tl::expected<std::string, Failure> Session::find_flushes() { return description_of(&Session::begin_find_flushes); }
tl::expected<std::string, Failure> Session::find_syncs() { return description_of(&Session::begin_find_syncs); }
tl::expected<std::string, Failure> Session::find_notes() { return description_of(&Session::begin_find_notes); }

}  // namespace crashcut::inprocess
