#include "recovery/threads/joint_program.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "cxl/incoherent_primitive.h"
#include "recovery/threads/code.h"

namespace crashcut::recovery {

using inprocess::Session;
using scheduler::runtime::Details;
using scheduler::runtime::RealProgram;
using scheduler::runtime::ToolError;

// One of those that this process may run on.
static std::uint32_t processor_of(std::uint32_t worker) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0) return 0;
  std::uint32_t left = worker % static_cast<std::uint32_t>(CPU_COUNT(&allowed));
  for (std::uint32_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed) && left-- == 0) return i;
  }
  return 0;
}

// So long a thread that hung before runs on when its schedule is run again, until it is taken to hang again.
static constexpr std::chrono::milliseconds kHangs{300}, kHurried{200};

// To come to main() a machine has so long at least.
static constexpr double kStart_s = 5;

JointProgram::JointProgram(const ThreadPlan& plan, scheduler::runtime::NameTable& names, const Setup& setup)
    : plan_(plan), names_(names), setup_(setup) {
  cxl::incoherent::primitive();  // and those of lines and store buffers: their ids are those that the runtime has
  if (!setup.begins_late) begin();
}

void JointProgram::begin() {
  const ThreadPlan& plan = plan_;
  const Setup& setup = setup_;
  RealProgram::Setup program;
  program.spurious_most = plan.spurious_most;
  program.timeouts_most = plan.timeouts_most;
  program.policies = plan.policies;
  program.step_limit = std::chrono::nanoseconds(static_cast<std::int64_t>(plan.step_limit_s * 1e9));
  // Plain accesses of ordinary memory are not seen in code that is trapped: threads often wait for such a variable.
  if (plan.traps) program.hurry_limit = kHurried;
  program.is_opaque = setup.is_opaque;
  program.has_details = setup.has_details;
  program.is_reduced = plan.reduction != scheduler::ReductionName::kNone;
  program.racy_count = setup.racy_count;
  program.added_locks = plan.added_locks;
  program.is_strict_exit = plan.is_strict_exit;
  program.ignores_result = plan.ignores_result;
  program.stop_at_step = setup.stop_at_step;
  program.is_late = setup.is_late;
  if (setup.is_known_to_hang) program.hang_limit = std::min<std::chrono::nanoseconds>(program.step_limit, kHangs);
  program.is_restoring = setup.stop_at_step == 0;
  const bool is_hosted = !plan.machines.empty();
  if (setup.is_watching && !is_hosted && !plan.models_memory()) program.find_sites = sites_of;
  program.host_count = static_cast<std::uint32_t>(plan.machines.size());
  program.has_memory_model = plan.caches.has_value();
  program.has_outcomes = plan.wants_outcomes;
  program.failures_most = plan.failures_most;
  program.failing = plan.failing;
  program.cache_steps_most = plan.cache_steps_most;
  program.devices = plan.devices;
  for (const RegionRule& rule : plan.region_rules)
    program.region_rules.push_back({rule.name, rule.home, rule.is_incoherent});
  program.device_count = plan.failing_devices;
  if (plan.has_garbage) program.garbage = plan.seed + 1;
  if (is_hosted) program.processor = processor_of(setup.worker);
  program.launch = [&](std::uint32_t machine, int control_fd, int names_fd) {
    launch(plan, machine, control_fd, names_fd);
  };
  program.check_alive = [this] {
    const auto is_alive = [](const auto& session) { return session->is_alive(); };
    if (std::all_of(sessions_.begin(), sessions_.end(), is_alive)) return;
    if (program_->forked_count() == 0) throw ToolError{true, "The program ended before main()."};
    throw ToolError{false, scheduler::runtime::kKilledSentence};
  };
  program_ = std::make_unique<RealProgram>(program, names_);
  has_begun_.store(true, std::memory_order_release);
}

JointProgram::~JointProgram() = default;

void JointProgram::launch(const ThreadPlan& plan, std::uint32_t machine, int control_fd, int names_fd) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  Session::Setup setup;
  setup.program = plan.machines.empty() ? plan.executable : plan.machines[machine].executable;
  setup.arguments = plan.arguments;
  setup.memory = plan.memory;
  setup.traps = plan.traps;
  setup.memory_steps = plan.has_memory_steps();
  setup.recovers_by_main = plan.memory && !plan.has_store_buffers;
  if (plan.caches)
    setup.shared_memory = {plan.caches->has_global_flush, plan.caches->has_poison, plan.caches->poison_is_value};
  setup.notes = plan.notes;
  setup.counts_marks = plan.expects_prefix;
  setup.hold_answer = setup_.hold_answer;
  setup.on_held = setup_.on_held;
  setup.runtime = plan.runtime;
  setup.model = plan.model;
  setup.from_directory = plan.from_directory;
  setup.depth = plan.depth;
  setup.jobs = plan.jobs;
  setup.seed = plan.seed;
  setup.recovery_limit = plan.recovery_limit;
  if (!setup_.is_loud) setup.stdout_fd = setup.stderr_fd = null;
  setup.threads_control_fd = control_fd;
  setup.threads_names_fd = names_fd;
  if (!plan.machines.empty()) setup.threads_host = static_cast<int>(machine);
  setup.is_late = setup_.is_late;
  if (!plan.machines.empty()) setup.time_limit = std::chrono::duration<double>(std::max(plan.step_limit_s, kStart_s));
  auto session = Session::start(setup);
  close(null);
  if (!session && setup_.is_late && setup_.is_late()) throw scheduler::runtime::OutOfTime();
  if (!session) throw ToolError{session.error().blame == result::Blame::kUser, session.error().sentence};
  std::vector<pmem::AddedFlush> flushes;
  for (const ThreadPlan::MachineFlush& added : plan.added_flushes) {
    if (added.machine == machine) flushes.push_back(added.flush);
  }
  if (!flushes.empty()) (*session)->add_flushes(flushes);
  sessions_.push_back(std::move(*session));
  const inprocess::Execution& begun = sessions_.back()->execution();
  if (begun.kind == inprocess::ExecutionKind::kOutOfTime)
    throw ToolError{true, "Machine " + std::to_string(machine) +
                              " does not come to main(): what runs before it takes longer than --step-limit allows."};
  if (begun.kind == inprocess::ExecutionKind::kToolError)
    throw ToolError{begun.blame == result::Blame::kUser, begun.sentence};
}

scheduler::Execution JointProgram::run(const scheduler::RunRequest& request) {
  if (!has_begun()) begin();
  scheduler::Execution execution = program_->run(request);
  if (!setup_.has_digest || sessions_.size() > 1 || execution.ending == scheduler::Ending::kStopped) return execution;
  auto note = std::make_shared<JointNote>();
  if (const auto* details = dynamic_cast<const Details*>(execution.note.get())) static_cast<Details&>(*note) = *details;
  note->log = LogDigest::read(session().digest());
  execution.note = note;
  return execution;
}

}  // namespace crashcut::recovery
