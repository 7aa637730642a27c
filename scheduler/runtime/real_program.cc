#include "scheduler/runtime/real_program.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "scheduler/primitives/host.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::scheduler::runtime {

namespace {

[[noreturn]] void tool_failure(std::string sentence) { throw ToolError{false, std::move(sentence)}; }

int make_memory(const char* name, std::size_t bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    tool_failure(std::string("Cannot make shared memory: ") + std::strerror(errno) + ".");
  return fd;
}

void* map_memory(int fd, std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) tool_failure(std::string("Cannot map shared memory: ") + std::strerror(errno) + ".");
  return at;
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout = nullptr) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

NameTable::NameTable()
    : fd_(make_memory("crashcut-names", sizeof(Names))), names_(static_cast<Names*>(map_memory(fd_, sizeof(Names)))) {
  names_->actor_count = 1;
  names_->began_s = time(nullptr);
}
NameTable::~NameTable() {
  munmap(names_, sizeof(Names));
  close(fd_);
}
std::vector<ActorName> NameTable::actors() const {
  std::vector<ActorName> all;
  for (std::uint32_t i = 0; i < names_->actor_count; ++i)
    all.push_back({names_->actors[i].parent, names_->actors[i].ordinal});
  return all;
}
void NameTable::set_actors(const std::vector<ActorName>& actors) {
  for (std::size_t i = 0; i < actors.size() && i < kActorsMost; ++i)
    names_->actors[i] = {actors[i].parent, actors[i].ordinal};
  names_->actor_count = static_cast<std::uint32_t>(std::clamp<std::size_t>(actors.size(), 1, kActorsMost));
}

std::vector<std::uint64_t> NameTable::racy() const { return {names_->racy, names_->racy + names_->racy_count}; }
void NameTable::set_racy(const std::vector<std::uint64_t>& racy) {
  names_->racy_count = static_cast<std::uint32_t>(std::min<std::size_t>(racy.size(), kRacyMost));
  std::copy_n(racy.begin(), names_->racy_count.load(), names_->racy);
}

std::optional<NameTable::Meeting> NameTable::meeting() const {
  if (names_->has_met == 0) return std::nullopt;
  return Meeting{names_->met_in, names_->met_at, names_->has_met == kMet};
}

std::vector<Details::Region> NameTable::regions() const {
  std::vector<Details::Region> all;
  for (std::uint32_t i = 0; i < names_->region_count; ++i) {
    const Names::Region& region = names_->regions[i];
    all.push_back({region.name, kRegionsAt + region.offset, region.bytes.load()});
  }
  return all;
}

std::vector<std::string> NameTable::shared_files() const {
  std::vector<std::string> all;
  for (std::uint32_t i = 0; i < names_->used_count; ++i) {
    const Names::UsedFile& used = names_->used[i];
    if (used.writers == 0 || (used.users & (used.users - 1)) == 0) continue;
    std::string text = used.path;
    for (std::uint32_t host = 0; host < kHostsMost; ++host) {
      if ((used.users >> host & 1) != 0)
        text += (text == used.path ? " by machine " : ", machine ") + std::to_string(host);
    }
    all.push_back(text);
  }
  return all;
}

RealProgram::RealProgram(const Setup& setup, NameTable& names) : setup_(setup), names_(&names) {
  if (setup.host_count > kHostsMost) throw ToolError{true, "There are more machines than crashcut can run (16)."};
  control_fd_ = make_memory("crashcut-threads", setup.host_count > 0 ? kHostedBytes : sizeof(Control));
  control_ = static_cast<Control*>(map_memory(control_fd_, sizeof(Control)));
  control_->magic = kMagic;
  control_->spurious_most = setup.spurious_most;
  control_->timeouts_most = setup.timeouts_most;
  control_->is_restoring = setup.is_restoring ? 1 : 0;
  control_->stop_at_step = setup.stop_at_step;
  control_->is_opaque = setup.is_opaque ? 1 : 0;
  control_->has_texts = setup.has_details ? 1 : 0;
  control_->is_reduced = setup.is_reduced ? 1 : 0;
  control_->is_strict_exit = setup.is_strict_exit ? 1 : 0;
  control_->ignores_result = setup.ignores_result ? 1 : 0;
  control_->racy_count = setup.racy_count;
  CHECK(setup.added_locks.size() <= kAddedLocksMost);
  std::copy(setup.added_locks.begin(), setup.added_locks.end(), control_->added_locks);
  control_->added_lock_count = static_cast<std::uint32_t>(setup.added_locks.size());
  control_->is_watching = setup.find_sites ? 1 : 0;
  for (const auto& [primitive, policy] : setup.policies)
    control_->policy[static_cast<int>(primitive)] = static_cast<std::uint32_t>(policy);
  control_->host_count = setup.host_count;
  control_->failures_most = setup.failures_most;
  control_->failing = setup.failing;
  control_->cache_steps_most = setup.cache_steps_most;
  control_->processor = setup.processor;
  control_->has_memory_model = setup.has_memory_model ? 1 : 0;
  control_->garbage = setup.garbage;
  std::string devices;
  for (const std::string& device : setup.devices) devices += device + "\n";
  if (devices.size() >= sizeof control_->devices) throw ToolError{true, "The paths of --device are too long."};
  std::memcpy(control_->devices, devices.c_str(), devices.size() + 1);
  CHECK(setup.region_rules.size() <= kRegionRulesMost && setup.host_count + setup.device_count <= kHostsMost);
  control_->device_count = setup.device_count;
  for (const Setup::RegionRule& rule : setup.region_rules) {
    Control::RegionRule& own = control_->region_rules[control_->region_rule_count++];
    CHECK(rule.name.size() < sizeof own.name);
    std::memcpy(own.name, rule.name.c_str(), rule.name.size() + 1);
    own.home = rule.home ? *rule.home + 1 : 0;
    own.is_incoherent = rule.is_incoherent ? 1 : 0;
  }
  for (std::uint32_t i = 0; i < part_count(); ++i) setup.launch(i, control_fd_, names.fd());
}

HostPart& RealProgram::running_part() const { return control_->hosts[control_->running_host]; }
std::uint32_t RealProgram::part_count() const { return std::max(setup_.host_count, 1u); }

RealProgram::~RealProgram() {
  if (control_ != nullptr) control_->is_quitting = 1;
  if (control_ != nullptr) munmap(control_, sizeof(Control));
  if (control_fd_ >= 0) close(control_fd_);
}

// A thread that is asked to let others go on is asked again: it may just be in code that cannot be left.
static constexpr std::chrono::seconds kPatience{1};

void RealProgram::wait_for_reply(std::uint32_t request) {
  // A thread that was hurried yields, which is a step. If all that happens is that they yield to one another, they
  // compute for good.
  const auto only_yielded_since = [&](std::uint32_t first) {
    return std::all_of(control_->steps + first, control_->steps + control_->step_count,
                       [](const Step& step) { return primitive_of(step.operation[0].object) == PrimitiveId::kSpin; });
  };
  std::size_t hurries = 0;
  bool is_hurried = false;
  std::uint32_t steps = control_->step_count;
  auto since = std::chrono::steady_clock::now();
  while (control_->replies.load(std::memory_order_acquire) != request) {
    // Replies come within microseconds or so: waiting in the kernel costs more.
    for (int i = 0; i < 200 && control_->replies.load(std::memory_order_acquire) != request; ++i)
      __builtin_ia32_pause();
    const std::uint32_t seen = control_->replies.load(std::memory_order_acquire);
    if (seen == request) return;
    tell_sites();
    const timespec tick{0, 100'000'000};
    futex(control_->replies, FUTEX_WAIT, seen, &tick);
    if (control_->replies.load() == request) return;
    check_server();
    if (is_late()) {
      inject::kill_child(running_part().runner, inject::kAbandoned);
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    const std::int32_t pid = running_part().runner.pid;
    const bool is_known_hang = setup_.hang_limit.count() > 0 && control_->step_count >= control_->prefix_count;
    if (control_->step_count != steps || control_->is_waiting != 0) {
      if (!is_hurried || !only_yielded_since(steps)) hurries = 0;
      is_hurried = false;
      steps = control_->step_count;
      since = now;
    } else if (now - since <= (is_known_hang ? setup_.hang_limit : std::min(setup_.hurry_limit, setup_.step_limit)) ||
               pid <= 0) {
      continue;
    } else if (!is_known_hang && hurries <= 2 * names_->actors().size() &&
               now - since <= setup_.step_limit + kPatience) {
      // It may wait for a variable that is not seen: it lets others go on, if they can (gate.cc).
      if (!std::exchange(is_hurried, true)) ++hurries;
      kill(pid, SIGSYS);
    } else if (is_known_hang || now - since > setup_.step_limit) {
      inject::kill_child(running_part().runner, inject::kKilled);
      since = now;
    }
  }
}

void RealProgram::check_server() {
  const bool is_refused = control_->failure == Failure::kUnsupported && control_->forked_count == 0;
  if (is_refused) throw ToolError{true, std::string("Cannot run the program: ") + control_->text + "."};
  try {
    setup_.check_alive();
  } catch (const ToolError&) {
    // It had come to main(), and does not end from there on by itself.
    if (running_part().main_at != 0) tool_failure(kKilledSentence);
    throw;
  }
}

void RealProgram::tell_sites() {
  const std::uint32_t questions = control_->module_questions.load(std::memory_order_acquire);
  if (control_->module_answers.load() == questions) return;
  for (std::uint32_t& i = control_->answered_count; i < control_->module_count; ++i) {
    Module& module = control_->modules[i];
    const std::vector<Site>& sites = setup_.find_sites(module.path);
    module.first_site = site_count_;
    const bool is_too_much = sites.size() > kSitesMost - site_count_;
    if (is_too_much) control_->is_blind = 1;
    module.site_count = is_too_much ? 0 : static_cast<std::uint32_t>(sites.size());
    for (std::uint32_t k = 0; k < module.site_count; ++k) {
      Site& site = control_->sites[site_count_++];
      site = sites[k];
      site.address += module.base;
      if (site.is_fixed) site.displacement += static_cast<std::int64_t>(module.base);
    }
  }
  control_->module_answers.store(questions, std::memory_order_release);
  futex(control_->module_answers, FUTEX_WAKE, 1);
}

// To come to main() a machine has so long at least.
static constexpr std::chrono::seconds kStart{5};

// The server asks before there is a runner.
void RealProgram::answer_server() {
  const timespec tick{0, 100'000'000};
  const auto since = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < setup_.host_count; ++i) {
    while (control_->hosts[i].is_ready == 0) {
      if (std::chrono::steady_clock::now() - since > std::max<std::chrono::nanoseconds>(setup_.step_limit, kStart))
        throw ToolError{true, "Machine " + std::to_string(i) +
                                  " does not come to main(): crashcut_setup() takes longer than --step-limit allows."};
      futex(control_->hosts[i].is_ready, FUTEX_WAIT, 0, &tick);
      check_server();
      if (is_late()) throw OutOfTime();
    }
  }
  while (setup_.find_sites && control_->module_questions == 0) {
    futex(control_->module_questions, FUTEX_WAIT, 0, &tick);
    check_server();
    if (is_late()) throw OutOfTime();
  }
  tell_sites();
}

void RealProgram::put_sleep(const RunRequest& request) {
  control_->sleep_count = static_cast<std::uint32_t>(request.sleep.size());
  control_->sleep_from = request.sleep_from;
  std::uint32_t used = 0;
  for (std::size_t i = 0; i < request.sleep.size(); ++i) {
    control_->sleep[i] = request.sleep[i];
    const Footprint* footprint = request.sleep[i].operation.footprint();
    const auto count = static_cast<std::uint32_t>(footprint == nullptr ? 0 : footprint->size());
    if (count > kTouchesMost - used) tool_failure("A schedule has more to remember than the runtime can hold.");
    control_->sleep_footprints[i] = {used, count, footprint != nullptr};
    if (footprint != nullptr) std::copy(footprint->begin(), footprint->end(), control_->sleep_touches + used);
    used += count;
  }
}

// Makes the request; returns its number.
std::uint32_t RealProgram::ask(const RunRequest& request) {
  answer_server();
  if (request.prefix.size() >= kStepsMost || request.sleep.size() > kSleepMost)
    tool_failure("A schedule is longer than the runtime can follow.");
  control_->depth_most = request.depth_most;
  control_->turn_most = request.turn_most;
  control_->ends_with_prefix = request.ends_with_prefix;
  control_->goes_on_after_race = request.goes_on_after_race;
  control_->seed = request.seed;
  control_->is_one_schedule = request.is_one_schedule;
  control_->prefix_count = static_cast<std::uint32_t>(request.prefix.size());
  std::copy(request.prefix.begin(), request.prefix.end(), control_->prefix);
  put_sleep(request);
  for (std::uint32_t i = 0; i < part_count(); ++i) control_->hosts[i].runner.killed = inject::kNotKilled;
  control_->runner_end = inject::ChildEnd::kNone;
  const std::uint32_t number = control_->requests.load(std::memory_order_relaxed) + 1;
  control_->requests.store(number, std::memory_order_release);
  futex(control_->requests, FUTEX_WAKE, 1);
  return number;
}

int RealProgram::run_held(const RunRequest& request) {
  const std::uint32_t number = ask(request);
  const timespec tick{0, 10'000'000};
  std::uint32_t steps = control_->step_count;
  auto since = std::chrono::steady_clock::now();
  while (control_->is_held == 0 && control_->replies.load(std::memory_order_acquire) != number) {
    futex(control_->is_held, FUTEX_WAIT, 0, &tick);
    check_server();
    const std::int32_t pid = running_part().runner.pid;
    const auto now = std::chrono::steady_clock::now();
    if (std::exchange(steps, control_->step_count) != steps) since = now;
    if (now - since > setup_.step_limit && pid > 0) kill(pid, SIGSYS);  // as in wait_for_reply()
  }
  return control_->is_held == 0 ? 0 : control_->hosts[control_->is_held - 1].runner.pid.load();
}

Execution RealProgram::run(const RunRequest& request) {
  Execution stopped;
  stopped.ending = Ending::kStopped;
  std::uint32_t number = 0;
  try {
    number = ask(request);
  } catch (const OutOfTime&) {
    return stopped;  // the search has ended before this program was ready
  }
  wait_for_reply(number);
  if (control_->runner_end == inject::ChildEnd::kAbandoned) return stopped;
  check_runner_end();
  if (control_->failure == Failure::kUnsupported) {
    throw ToolError{true, std::string("The program called ") + control_->text + ", which crashcut " +
                              (setup_.host_count > 0 ? "cxl" : "threads") + " cannot follow."};
  }
  if (control_->failure == Failure::kToolError || control_->failure == Failure::kUserError)
    throw ToolError{control_->failure == Failure::kUserError, control_->text};
  Execution execution;
  for (std::uint32_t i = 0; i < control_->object_count; ++i) execution.objects.push_back(control_->objects[i].start);
  execution.steps.assign(control_->steps, control_->steps + control_->step_count);
  for (std::size_t i = 0; i < execution.steps.size(); ++i) {
    const FootprintFact& fact = control_->step_facts[i].footprint;
    const Touch* first = control_->touches + fact.first;
    execution.steps[i].operation.set_footprint(fact.is_known ? interned(Footprint(first, first + fact.count))
                                                             : nullptr);
  }
  execution.pending.assign(control_->pending, control_->pending + control_->pending_count);
  for (Pending& p : execution.pending) p.operation.set_footprint(nullptr);
  execution.passed_over.assign(control_->passed_over, control_->passed_over + control_->passed_over_count);
  execution.ending = control_->ending;
  execution.hit_depth = control_->hit_depth;
  execution.left_running = is_assumed_away(execution.pending) ? 0 : control_->left_running;
  const bool is_found = control_->failure != Failure::kNone || execution.ending == Ending::kStuck ||
                        control_->runner_end == inject::ChildEnd::kTooLate || control_->has_race ||
                        control_->is_added_lock_unclear;
  if (is_found || setup_.has_details || execution.ending == Ending::kDiverged) execution.note = details();
  const bool has_ended = execution.ending == Ending::kCompleted || execution.ending == Ending::kProcessEnded;
  if (setup_.has_outcomes && has_ended) {
    auto note = std::make_shared<Details>(*details());
    note->outcome = outcome_of(execution);
    execution.note = note;
  }
  return execution;
}

static std::string text_of(const Printed& printed) { return {printed.text, printed.bytes}; }

// Hosts are declared in their order, and none before them.
std::string RealProgram::outcome_of(const Execution& execution) const {
  if (setup_.host_count == 0) return text_of(control_->hosts[0].printed[0]);
  std::vector<ObjectId> hosts;
  for (const ObjectStart& start : execution.objects) {
    if (primitive_of(start.object) == PrimitiveId::kHost) hosts.push_back(start.object);
  }
  std::string text;
  for (std::uint32_t i = 0; i < hosts.size() && i < setup_.host_count; ++i) {
    bool has_failed = false;
    for (const Step& step : execution.steps) {
      for (const Access& access : step.operation) {
        if (access.object != hosts[i]) continue;
        if (access.verb == host::kFail) has_failed = true;
        if (access.verb == host::kRestart && access.result == 0) has_failed = false;
      }
    }
    const Printed& printed = control_->hosts[i].printed[0];
    if (has_failed || printed.bytes == 0) continue;
    text += "machine " + std::to_string(i) + ": " + text_of(printed);
    if (text.back() != '\n') text += '\n';
  }
  return text;
}

// A runner that died without a reply: by our hand, or by a signal that nobody can catch. Before a runner kills itself,
// the gate notes that.
void RealProgram::check_runner_end() {
  if (control_->runner_end == inject::ChildEnd::kNone) return;
  control_->pending_count = 0;
  control_->ending = Ending::kCutShort;
  switch (control_->runner_end) {
    case inject::ChildEnd::kTooLate:
      return;
    case inject::ChildEnd::kSignalled:
      control_->failure = Failure::kSignal;
      control_->failure_number = WTERMSIG(control_->runner_status);
      control_->failure_actor = control_->running_actor;
      return;
    case inject::ChildEnd::kExited:
      tool_failure("crashcut's own code inside the program ended with exit code " +
                   std::to_string(WEXITSTATUS(control_->runner_status)) + ".");
    default:
      tool_failure(kKilledSentence);
  }
}

static Race::Side side_of(const RaceSide& side) {
  return {static_cast<ActorId>(side.actor),
          side.writes,
          side.is_atomic,
          side.frees,
          side.step,
          {side.frames, side.frames + side.frame_count}};
}

static bool is_spin(const Operation& operation) {
  return std::any_of(operation.begin(), operation.end(), [](const Access& a) {
    return primitive_of(a.object) == PrimitiveId::kSpin ||
           (primitive_of(a.object) == PrimitiveId::kMemory && a.verb == memory::kAwait);
  });
}

static void add_frames(ActorId actor, const CallStack& stack, std::set<Details::Frame>& frames) {
  for (std::uint32_t i = 0; i < std::min(stack.count, kCallsMost); ++i)
    frames.insert({actor, stack.calls[i], stack.frames[i].begin, stack.frames[i].end});
}

static void add_stacks(const Control& control, Details& details) {
  const auto calls_of = [](const CallStack& stack) {
    return std::vector<std::uint64_t>(stack.calls, stack.calls + std::min(stack.count, kCallsMost));
  };
  std::set<Details::Frame> frames;
  for (std::uint32_t i = 0; i < control.step_count; ++i) {
    details.stacks.push_back(calls_of(control.step_stacks[i]));
    add_frames(control.steps[i].actor, control.step_stacks[i], frames);
  }
  for (std::uint32_t i = 0; i < control.pending_count; ++i) {
    details.pending_stacks.push_back(calls_of(control.pending_stacks[i]));
    add_frames(control.pending[i].actor, control.pending_stacks[i], frames);
  }
  details.frames.assign(frames.begin(), frames.end());
  for (std::uint32_t i = 0; i < std::min(control.loaded_count, kLoadedMost); ++i) {
    const LoadedFile& file = control.loaded[i];
    details.loaded.push_back({file.path, file.base, file.end, file.host});
  }
}

std::shared_ptr<const Details> RealProgram::details() const {
  auto made = std::make_shared<Details>();
  Details& d = *made;
  d.program_base = control_->hosts[0].program_base;
  d.main_at = control_->hosts[0].main_at;
  for (std::uint32_t i = 0; i < setup_.host_count; ++i) d.bases.push_back(control_->hosts[i].program_base);
  d.regions = names_->regions();
  d.is_result = control_->is_result;
  d.is_added_lock_unclear = control_->is_added_lock_unclear;
  d.number = control_->failure_number;
  d.actor = static_cast<ActorId>(control_->failure_actor);
  d.text = control_->text;
  if (setup_.host_count == 0) {
    const auto& printed = control_->hosts[0].printed;
    d.output = text_of(printed[0]);
    d.errors = text_of(printed[1]);
    d.output_cut = printed[0].bytes == kOutputMost;
    d.errors_cut = printed[1].bytes == kOutputMost;
  }
  switch (control_->failure) {
    case Failure::kSignal:
      d.kind = FindingKind::kSignal;
      break;
    case Failure::kAssertion:
      d.kind = FindingKind::kAssertion;
      break;
    case Failure::kMisuse:
      d.kind = FindingKind::kMisuse;
      break;
    case Failure::kExitCode:
      d.kind = FindingKind::kExitCode;
      break;
    case Failure::kThreadsLeft:
      d.kind = is_assumed_away({control_->pending, control_->pending_count}) ? FindingKind::kNone
                                                                             : FindingKind::kThreadsLeft;
      break;
    case Failure::kRace:
      d.kind = FindingKind::kRace;
      break;
    default:
      break;
  }
  if (control_->runner_end == inject::ChildEnd::kTooLate) {
    d.kind = FindingKind::kNoProgress;
    d.actor = static_cast<ActorId>(control_->running_actor);
  } else if (control_->ending == Ending::kStuck && !is_assumed_away({control_->pending, control_->pending_count})) {
    const bool spins = std::any_of(control_->pending, control_->pending + control_->pending_count,
                                   [](const Pending& p) { return is_spin(p.operation); });
    d.kind = spins ? FindingKind::kLivelock : FindingKind::kDeadlock;
  }
  if (control_->has_race) {
    d.race = Race{control_->race.address, side_of(control_->race.sides[0]), side_of(control_->race.sides[1])};
    if (d.kind == FindingKind::kNone) {
      d.kind = FindingKind::kRace;
      d.actor = d.race->second.actor;
    }
  }
  for (std::uint32_t i = 0; i < control_->step_count; ++i) {
    const StepFact& fact = control_->step_facts[i];
    d.callers.push_back(fact.caller);
    d.texts.emplace_back(control_->texts + fact.text_at, fact.text_bytes);
  }
  for (std::uint32_t i = 0; i < control_->pending_count; ++i) d.pending_callers.push_back(control_->pending_callers[i]);
  if (setup_.has_details) add_stacks(*control_, d);
  for (std::uint32_t i = 0; i < control_->object_count; ++i)
    d.addresses.emplace_back(control_->objects[i].start.object, control_->objects[i].address);
  for (const ActorFact& actor : control_->actors) d.routines.push_back(actor.routine);
  const std::uint32_t outside = control_->outside_count;
  for (std::uint32_t i = outside > kOutsideMost ? outside - kOutsideMost : 0; i < outside; ++i) {
    const OutsideCall& call = control_->outside[i % kOutsideMost];
    d.outside.push_back({static_cast<ActorId>(call.actor), call.step, call.text});
  }
  return made;
}

std::uint64_t RealProgram::restored_count() const { return control_->restored_count; }
std::uint64_t RealProgram::forked_count() const { return control_->forked_count; }
bool RealProgram::is_instrumented() const { return control_->is_instrumented != 0; }
bool RealProgram::has_unseen_host() const {
  return std::any_of(control_->hosts, control_->hosts + setup_.host_count,
                     [](const HostPart& host) { return host.is_ready != 0 && host.is_instrumented == 0; });
}
bool RealProgram::has_no_result() const { return control_->has_no_result; }

}  // namespace crashcut::scheduler::runtime
