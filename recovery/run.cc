#include "recovery/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "fusefs/unexplored.h"
#include "recovery/inprocess/front_end.h"
#include "recovery/inprocess/missing_flush.h"
#include "recovery/inprocess/missing_sync.h"
#include "recovery/memory_notes.h"
#include "recovery/result/token_bytes.h"
#include "recovery/result/words.h"
#include "recovery/run_token.h"
#include "recovery/source/places.h"

namespace crashcut::recovery {
namespace {

using inprocess::ExecutionKind;
using inprocess::Session;
using result::Failure;
using result::or_none;
using result::Setting;
using search::Json;
using Clock = std::chrono::steady_clock;

// Of --time, where main() took nearly all: a limit of nothing would be none.
constexpr std::chrono::duration<double> kLeastTime{0.001};
// For the names in a report, where the search took all of --time.
constexpr std::chrono::milliseconds kNamingLeast{250};

// Crashing a program that fails by itself would explain nothing.
tl::expected<void, Failure> check_execution(const inprocess::Execution& execution, const Plan& plan) {
  const std::string_view kItself = "The program itself failed, before any crash was tried: main()";
  switch (execution.kind) {
    case ExecutionKind::kOutOfTime:
    case ExecutionKind::kOutOfMemory:
      return {};
    case ExecutionKind::kEnded:
      if (plan.memory && execution.exit_code == 0 && execution.region_count == 0)
        return tl::unexpected(result::users_failure(
            "main() ended without having asked for persistent memory (crashcut_pmem), so there is nothing to check. "
            "crashcut run is for files alone."));
      if (execution.exit_code == 0) return {};
      return tl::unexpected(
          result::users_failure(fmt::format("{} ended with status {}.", kItself, execution.exit_code)));
    case ExecutionKind::kKilled:
      return tl::unexpected(
          result::users_failure(fmt::format("{} was killed by {}.", kItself, result::signal_text(execution.signal))));
    case ExecutionKind::kHung:
      return tl::unexpected(result::users_failure(fmt::format("{} did not end within the limit of {} (--main-limit).",
                                                              kItself, result::seconds_text(plan.main_limit))));
    case ExecutionKind::kToolError:
      return tl::unexpected(Failure{execution.blame, execution.sentence});
    case ExecutionKind::kRunning:
      break;
  }
  return tl::unexpected(result::tools_failure("The runtime did not say how main() ended."));
}

std::vector<Setting> bounds_of(const Plan& plan) {
  return {{"depth", std::uint64_t{plan.depth}, fmt::format("depth {}", plan.depth)},
          {"max_recoveries", or_none(plan.max_recoveries),
           plan.max_recoveries == 0 ? "all recoveries" : fmt::format("at most {} recoveries", plan.max_recoveries)},
          {"time_s", or_none(plan.time_limit.count()),
           plan.time_limit.count() > 0 ? fmt::format("at most {:g} s", plan.time_limit.count()) : ""},
          {"jobs", std::uint64_t{plan.jobs}, result::count_text(plan.jobs, "job", "jobs")},
          {"main_limit_s", static_cast<std::uint64_t>(plan.main_limit.count())},
          {"recovery_limit_s", static_cast<std::uint64_t>(plan.recovery_limit.count())}};
}

// What is searched, to go on with it. The token has the arguments, the model, the depth and the seed.
std::string own_of(const Plan& plan, const result::Head& head) {
  std::string bytes;
  Json::to_cbor({{"words", head.program},
                 {"program", plan.program},
                 {"from", plan.from_directory},
                 {"token", result::encode(token_of(command_of(plan), plan))},
                 {"main_limit", plan.main_limit.count()},
                 {"recovery_limit", plan.recovery_limit.count()}},
                nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

// Source lines instead of code addresses.
void name_places(source::Names& names, result::Counterexample& example) {
  source::name_source_places(names, example.story);
  source::name_source_places(names, {&example.sentence});
}

void name_places(source::Names& names, result::States& states) {
  std::vector<std::string*> texts;
  for (result::HeldLocation& location : states.locations) {
    for (std::string& value : location.values) texts.push_back(&value);
  }
  for (result::Operation& operation : states.operations) {
    texts.push_back(&operation.text);
    for (result::Event& event : operation.events) texts.push_back(&event.text);
  }
  source::name_source_places(names, texts);
  source::name_stacks(names, states.operations);
}

// What recoveries may print, if that is asked.
tl::expected<std::optional<inprocess::Prefixes>, Failure> prefixes_of(const Executed& executed, const Plan& plan) {
  if (!plan.expects_prefix) return std::nullopt;
  auto prefixes = inprocess::Prefixes::find(*executed.session);
  if (!prefixes) return tl::unexpected(prefixes.error());
  return std::move(*prefixes);
}
const inprocess::Prefixes* pointer_to(const std::optional<inprocess::Prefixes>& prefixes) {
  return prefixes ? &*prefixes : nullptr;
}

// Early and late instrumentation see different stores: the optimiser merges and removes some in between. Trapped code
// has those that the compiler has left.
std::string instrumentation_text(std::uint32_t bits) {
  const bool is_early = (bits & inprocess::kInstrumentedEarly) != 0;
  const bool is_late = (bits & inprocess::kInstrumentedLate) != 0;
  const bool is_trapped = (bits & inprocess::kTrapped) != 0;
  const bool is_called_back = (bits & inprocess::kCalledBack) != 0;
  if (is_called_back && !is_early && !is_late) return "by -fsanitize=thread, the rest trapped";
  if (is_trapped && !is_early && !is_late) return "trapped";
  return std::string(is_early && is_late ? "early in part and late in part"
                     : is_late           ? "late"
                                         : "early") +
         (is_trapped ? ", the rest trapped" : "");
}

// The flush that a violation of persistent memory lacks, within the time that is left.
void find_missing_flush(const Executed& executed, const Plan& plan, const inprocess::Prefixes* prefixes,
                        const search::Hooks& hooks, Clock::time_point deadline, source::Names& names,
                        search::Found& found) {
  result::Counterexample& example = *found.result.counterexample;
  const inprocess::FlushSearch flushes{
      .session = *executed.session,
      .prefixes = prefixes,
      .path = found.path,
      .is_slow = example.finding.kind == "hang",
      .max_recoveries = plan.max_recoveries,
      .is_over = [&] { return Clock::now() >= deadline || (hooks.is_interrupted && hooks.is_interrupted()); },
  };
  if (example.replays && !flushes.is_over()) add_missing_flush(flushes, names, example);
}

// The sync that a violation of files lacks.
void find_missing_sync(const Executed& executed, const Plan& plan, const inprocess::Prefixes* prefixes,
                       const search::MendBounds& bounds, search::Found& found) {
  if (!search::can_mend(found.result)) return;
  search::Mends mends = inprocess::find_missing_syncs({.session = *executed.session,
                                                       .setup = session_setup(plan),
                                                       .prefixes = prefixes,
                                                       .path = found.path,
                                                       .is_slow = found.result.counterexample->finding.kind == "hang",
                                                       .plan = bounds.plan,
                                                       .is_over = search::mend_deadline(bounds, found.result.seconds)});
  found.result.counterexample->mends = std::move(mends.mends);
  found.result.counterexample->no_mend = std::move(mends.none);
}

// What a report says besides what was found.
void describe(const Executed& executed, const Plan& plan, const result::Head& head, result::Result& result) {
  const inprocess::Execution& execution = executed.session->execution();
  const std::uint64_t threads = execution.threads_begun + 1;
  result.head = head;
  result.execution = {{"threads", threads}, {"fingerprint", fmt::format("{:016x}", execution.fingerprint)}};
  result.subjects = {"recovery"};
  if (threads > 1) {
    result.not_covered = {fmt::format("Other interleavings of its {} threads: crashcut threads tries them.", threads)};
    result.scope = fmt::format(" for one interleaving of {} threads (crashcut threads tries the others)", threads);
  }
  const fusefs::Unexplored unexplored = fusefs::unexplored_of(plan.model);
  result.scope += unexplored.scope;
  if (!unexplored.sentence.empty()) result.not_covered.emplace_back(unexplored.sentence);
  if (plan.memory) {
    const std::string when = instrumentation_text(execution.instrumentation);
    result.execution.push_back({"instrumentation", when});
    result.scope += when == "trapped" ? " for code that was trapped as it is"
                                      : fmt::format(" for code that was instrumented {}", when);
  }
  result.replay_options = replay_options(plan);
  if (plan.memory && !result.token.empty())
    result.debug = fmt::format("{} gdb {}{}", plan.crashcut, result.replay_options, result.token);
}

}  // namespace

Session::Setup session_setup(const Plan& plan) {
  Session::Setup setup;
  setup.program = plan.executable;
  setup.arguments = plan.arguments;
  setup.runtime = plan.runtime;
  setup.model = plan.model;
  setup.memory = plan.memory;
  setup.traps = plan.traps;
  setup.notes = plan.notes;
  setup.counts_marks = plan.expects_prefix;
  setup.from_directory = plan.from_directory;
  setup.depth = plan.depth;
  setup.jobs = plan.jobs;
  setup.seed = plan.seed;
  setup.time_limit = plan.time_limit;
  setup.main_limit = plan.main_limit;
  setup.recovery_limit = plan.recovery_limit;
  if (plan.memory_limit > 0) setup.memory_bytes_most = plan.memory_limit / 2;  // recoveries need some too
  setup.stdout_fd = plan.main_stdout_fd;
  setup.stderr_fd = plan.main_stderr_fd;
  return setup;
}

result::Head head_of(const std::string& command, const Plan& plan, const std::vector<std::string>& words) {
  result::Head head;
  head.command = command;
  head.program = words;
  head.model = fusefs::spec_of(plan.model);
  if (plan.memory) {
    persist::ModelSpec memory = plan.memory->spec();
    memory.text += ", files on " + head.model.text;
    memory.settings.insert(memory.settings.end(), head.model.settings.begin(), head.model.settings.end());
    head.model = memory;
  }
  head.settings = {{"from", plan.from_directory,
                    plan.from_directory.empty() ? "" : "disk from " + result::printable(plan.from_directory)}};
  if (plan.expects_prefix) head.settings.push_back({"expect", std::string("prefix"), "expect prefix"});
  head.bounds = bounds_of(plan);
  head.seed = plan.seed;
  return head;
}

tl::expected<Executed, Failure> execute(const Plan& plan) {
  const auto begin = Clock::now();
  auto session = Session::start(session_setup(plan));
  if (!session) return tl::unexpected(session.error());
  if ((*session)->execution().wants_threads) return Executed{.session = nullptr, .wants_threads = true};
  if (auto ended = check_execution((*session)->execution(), plan); !ended) return tl::unexpected(ended.error());
  return Executed{std::move(*session), Clock::now() - begin};
}

tl::expected<Checked, Failure> check(const Executed& executed, const Plan& plan, const result::Head& head,
                                     const search::Hooks& hooks, const search::Rest* before) {
  Checked checked;
  const auto begin = Clock::now();
  const inprocess::Execution& execution = executed.session->execution();
  const bool is_out_of_memory = execution.kind == ExecutionKind::kOutOfMemory;
  if (is_out_of_memory || execution.kind == ExecutionKind::kOutOfTime) {
    checked.result.verdict = result::Verdict::kBounded;
    checked.result.bound = is_out_of_memory ? result::Bound::kMemoryInProgram : result::Bound::kTimeInProgram;
    checked.result.explored_fraction = 0;
    checked.result.seconds = executed.seconds.count();
    describe(executed, plan, head, checked.result);
    return checked;
  }
  search::Plan search_plan = plan;
  search_plan.wants_all = true;
  if (plan.time_limit.count() > 0) search_plan.time_limit = std::max(plan.time_limit - executed.seconds, kLeastTime);
  const auto prefixes = prefixes_of(executed, plan);
  if (!prefixes) return tl::unexpected(prefixes.error());
  inprocess::ProgramFrontEnd front_end(*executed.session, token_of(command_of(plan), plan), pointer_to(*prefixes));
  auto found = search::check(front_end, search_plan, hooks, before);
  if (!found) return tl::unexpected(found.error());
  const auto time = std::chrono::duration_cast<Clock::duration>(search_plan.time_limit);
  const Clock::time_point deadline = time.count() > 0 ? begin + time : Clock::time_point::max();
  source::Names names([end = std::max(deadline, Clock::now() + kNamingLeast)] { return Clock::now() >= end; });
  if (plan.notes != 0) {
    auto notes = read_notes(*executed.session, names);
    if (!notes) return tl::unexpected(notes.error());
    found->result.memory_notes = std::move(notes->notes);
    found->result.memory_notes_left_out = notes->left_out;
  }
  if (!plan.memory && plan.wants_mends)
    find_missing_sync(executed, plan, pointer_to(*prefixes), {search_plan, hooks, begin}, *found);
  if (plan.memory && found->result.counterexample)
    find_missing_flush(executed, plan, pointer_to(*prefixes), hooks, deadline, names, *found);
  checked.result = std::move(found->result);
  if (checked.result.counterexample) name_places(names, *checked.result.counterexample);
  if (checked.result.states) name_places(names, *checked.result.states);
  describe(executed, plan, head, checked.result);
  if (found->rest) {
    found->rest->own = own_of(plan, head);
    checked.rest = search::encode(*found->rest);
  }
  return checked;
}

tl::expected<search::Replayed, Failure> replay(const Plan& plan, const result::Token& token) {
  auto executed = execute(plan);
  if (!executed) return tl::unexpected(executed.error());
  if (const inprocess::Execution& execution = executed->session->execution();
      execution.kind == ExecutionKind::kOutOfMemory)
    return result::wrong_use(fmt::format("{} (--memory-limit).", execution.sentence));
  const auto prefixes = prefixes_of(*executed, plan);
  if (!prefixes) return tl::unexpected(prefixes.error());
  inprocess::ProgramFrontEnd front_end(*executed->session, token, pointer_to(*prefixes));
  auto replayed = search::replay(front_end, token, 0);
  source::Names names;
  if (replayed) name_places(names, replayed->told);
  return replayed;
}

tl::expected<Stopped, std::string> read_rest(const std::string& text) {
  auto rest = search::decode_rest(text);
  if (!rest) return tl::unexpected(rest.error());
  const auto not_ours = [] { return tl::unexpected(result::no_crashcut_wrote_it()); };
  try {
    Stopped stopped;
    const Json own = Json::from_cbor(rest->own);
    stopped.words = own.at("words").get<std::vector<std::string>>();
    auto token = result::decode(own.at("token").get<std::string>());
    const bool is_ours = token && (token->command == kRunCommand || token->command == kMemoryCommand);
    if (!is_ours || stopped.words.empty()) return not_ours();
    auto plan = plan_of(*token);
    if (!plan) return tl::unexpected(plan.error().sentence);
    stopped.plan = std::move(*plan);
    stopped.plan.from_directory = own.at("from");
    stopped.plan.main_limit = std::chrono::seconds(own.at("main_limit").get<std::uint32_t>());
    stopped.plan.recovery_limit = std::chrono::seconds(own.at("recovery_limit").get<std::uint32_t>());
    stopped.token = std::move(*token);
    stopped.token.program = own.at("program");
    stopped.rest = std::move(*rest);
    return stopped;
  } catch (const Json::exception&) {
    return not_ours();
  }
}

}  // namespace crashcut::recovery
