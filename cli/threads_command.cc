// crashcut threads: a threaded program under every schedule that can make a difference.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <charconv>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/result/text.h"
#include "recovery/threads/flush_mend.h"
#include "recovery/threads/known.h"
#include "recovery/threads/mend.h"
#include "recovery/threads/rest.h"
#include "recovery/threads/result.h"
#include "recovery/threads/token.h"
#include "scheduler/primitives/rwlock.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;
using scheduler::PrimitiveId;
namespace rwlock = scheduler::rwlock;

struct ThreadOptions {
  recovery::ThreadPlan plan;
  std::string reduction = "optimal";
  std::int64_t preemptions = -1;
  std::vector<std::string> policies;
  bool has_no_foresight = false;
  Options common;  // of its files; jobs; --json
  bool has_all_logs = false;
  std::string memory = "sc";
  std::string resume;
};

// "semaphore=fifo"
tl::expected<std::pair<PrimitiveId, std::int64_t>, Failure> parse_policy(const std::string& text) {
  struct Row {
    const char* text;
    PrimitiveId primitive;
    std::int64_t value;
  };
  static constexpr Row kRows[] = {
      {"semaphore=any", PrimitiveId::kSemaphore, scheduler::kArbitrary},
      {"semaphore=fifo", PrimitiveId::kSemaphore, scheduler::kFifo},
      {"semaphore=lifo", PrimitiveId::kSemaphore, scheduler::kLifo},
      {"cond=any", PrimitiveId::kCondition, scheduler::kArbitrary},
      {"cond=fifo", PrimitiveId::kCondition, scheduler::kFifo},
      {"cond=lifo", PrimitiveId::kCondition, scheduler::kLifo},
      {"futex=any", PrimitiveId::kFutex, scheduler::kArbitrary},
      {"futex=fifo", PrimitiveId::kFutex, scheduler::kFifo},
      {"futex=lifo", PrimitiveId::kFutex, scheduler::kLifo},
      {"mutex=any", PrimitiveId::kMutex, scheduler::kArbitrary},
      {"mutex=fifo", PrimitiveId::kMutex, scheduler::kFifo},
      {"mutex=lifo", PrimitiveId::kMutex, scheduler::kLifo},
      {"rwlock=none", PrimitiveId::kRwLock, rwlock::kNone},
      {"rwlock=any", PrimitiveId::kRwLock, rwlock::kNone},
      {"rwlock=readers", PrimitiveId::kRwLock, rwlock::kReaders},
      {"rwlock=writers", PrimitiveId::kRwLock, rwlock::kWriters},
      {"rwlock=fifo", PrimitiveId::kRwLock, rwlock::kInLine},
      {"rwlock=lifo", PrimitiveId::kRwLock, rwlock::kLastFirst},
  };
  for (const Row& row : kRows) {
    if (text == row.text) return std::pair(row.primitive, row.value);
  }
  return wrong_use(fmt::format("There is no policy {}: see crashcut threads --help.", text));
}

// What the options say.
tl::expected<recovery::ThreadPlan, Failure> read_plan(const ThreadOptions& options) {
  auto made = make_thread_plan(options.plan, options.common);
  if (!made) return made;
  recovery::ThreadPlan& plan = *made;
  if (options.reduction == "none") {
    plan.reduction = scheduler::ReductionName::kNone;
  } else if (options.reduction == "source") {
    plan.reduction = scheduler::ReductionName::kSource;
  } else if (options.reduction != "optimal") {
    return wrong_use(fmt::format("There is no reduction {}: it is none, source or optimal.", options.reduction));
  }
  for (const std::string& text : options.policies) {
    const auto policy = parse_policy(text);
    if (!policy) return tl::unexpected(policy.error());
    plan.policies.push_back(*policy);
  }
  plan.merges_logs = !options.has_all_logs;
  if (options.preemptions >= 0) plan.preemptions_most = static_cast<std::uint32_t>(options.preemptions);
  plan.has_foresight = !options.has_no_foresight;
  if (options.memory == "tso") {
    plan.memory = pmem::MemoryModel{};
    plan.has_store_buffers = true;
    plan.merges_logs = false;
  }
  return made;
}

// The first option or word that --resume does not allow, since the resumed search has it already; or empty.
std::string given_beside_resume(const CLI::App& command) {
  for (const char* option :
       {"--reduction", "--steps", "--preemptions", "--spurious", "--timeouts", "--policy", "--step-limit", "--all",
        "--strict-exit", "--no-foresight", "--depth", "--all-logs", "--seed"}) {
    if (command.count(option) > 0) return option;
  }
  return command.remaining().empty() ? "" : command.remaining().front();
}

// A program may fail only because a file of the current directory is not on the modelled disk.
void note_missing_files(const std::vector<std::string>& words, const std::string& disk, result::Result& result) {
  std::vector<std::string> names = named_here(words);
  std::erase_if(
      names, [&](const std::string& name) { return !disk.empty() && access((disk + "/" + name).c_str(), F_OK) == 0; });
  if (names.empty()) return;
  result.notes.push_back(fmt::format(
      "{} {} in the directory that crashcut was called in, and not on the modelled disk, on which the "
      "program starts. --from DIR copies a directory onto it (--from . the one that crashcut is called in).",
      fmt::join(names, ", "), names.size() == 1 ? "is" : "are"));
}

tl::expected<int, Failure> run(const ThreadOptions& options, const std::vector<std::string>& words) {
  ReportOptions reports = options.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  auto plan = read_plan(options);
  if (!plan) return tl::unexpected(plan.error());
  plan->wants_outcomes = reports.outcomes;
  plan->wants_all = plan->wants_all || reports.outcomes;
  plan->program = words[0];
  plan->arguments.assign(words.begin() + 1, words.end());
  plan->wants_mends = true;
  const auto program = prepare(*plan, words[0], how_compiled(*plan));
  if (!program) return tl::unexpected(program.error());
  if (plan->has_store_buffers && !is_memory_seen(plan->executable))
    return wrong_use(
        fmt::format("--memory tso is for programs whose accesses to memory are seen: compile {} with crashcut cc "
                    "--pmem or crashcut cxx --pmem, or name its source.",
                    words[0]));
  // Its atomic instructions are in crashcut's library, where threads are not seen to meet.
  if (!plan->has_store_buffers && is_memory_seen(plan->executable))
    return wrong_use(fmt::format(
        "{} was compiled by crashcut cc --pmem or crashcut cxx --pmem: its accesses to memory are seen with "
        "--memory tso. For sequentially consistent memory compile it as crashcut flags prints, or name its "
        "source.",
        words[0]));
  if (auto ok = open_results(reports, {program->path()}); !ok) return tl::unexpected(ok.error());
  return search_schedules(reports, *plan, words);
}

}  // namespace

bool is_rest_of_schedules(std::string_view text) { return text.starts_with(recovery::kRestPrefix); }

tl::expected<int, Failure> resume_schedules(std::string_view command, const std::string& directory,
                                            const Options& bounds, std::uint64_t executions_most) {
  ReportOptions reports = bounds.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  const auto text = read_rest_file(directory);
  if (!text) return tl::unexpected(text.error());
  auto decoded = recovery::decode_rest(*text);
  if (!decoded) return wrong_use(fmt::format("{}: {}", directory, decoded.error()));
  auto& [plan, rest] = *decoded;
  if (const std::string own = recovery::command_of(plan); own != command)
    return wrong_use(fmt::format("{} has a search of crashcut {}: crashcut {} goes on with it.", directory, own, own));
  const auto now = make_plan(bounds);
  if (!now) return tl::unexpected(now.error());
  if (bounds.time_s > 0) plan.time_limit = now->time_limit;
  if (executions_most > 0) plan.executions_most = executions_most;
  if (now->max_recoveries != 0) plan.max_recoveries = now->max_recoveries;
  plan.wants_outcomes = reports.outcomes;
  plan.jobs = now->jobs;
  plan.recovery_limit = now->recovery_limit;
  plan.crashcut = now->crashcut;
  std::vector<std::string> words = {plan.program};  // as it was named
  words.insert(words.end(), plan.arguments.begin(), plan.arguments.end());
  const auto program = prepare(plan, plan.program, how_compiled(plan));
  if (!program) return tl::unexpected(program.error());
  boost::system::error_code error;
  if (boost::filesystem::is_directory(directory, error))
    reports.directory = boost::filesystem::canonical(directory).string();
  return search_schedules(reports, plan, words, &rest);
}

Program::Compiled how_compiled(const recovery::ThreadPlan& plan) {
  if (plan.traps) return Program::Compiled::kPlain;
  return plan.models_memory() ? Program::Compiled::kPmem : Program::Compiled::kInstrumented;
}

tl::expected<int, Failure> search_schedules(ReportOptions reports, const recovery::ThreadPlan& plan,
                                            const std::vector<std::string>& words, const recovery::ThreadRest* rest) {
  const result::Head head = recovery::head_of(plan, words);
  print_head(reports, head);
  std::atomic<bool> stop{false};
  watch_stop(&stop);
  const persist::Deadline deadline(plan.time_limit.count(), &stop);
  ProgressLine line(reports.quiet);
  recovery::ThreadHooks hooks;
  hooks.on_progress = [&](const result::Progress& progress) { line.show(progress); };
  hooks.deadline = &deadline;
  // With --all everything is tried in any case.
  std::optional<recovery::ThreadResult> known;
  if (rest == nullptr && !plan.wants_all && plan.machines.empty())
    known = recovery::try_known(plan, known_tokens(), deadline);
  auto checked = known ? tl::expected<recovery::ThreadResult, Failure>(std::move(*known))
                       : recovery::check_threads(plan, hooks, rest);
  if (checked) recovery::add_lock_mends(plan, deadline, *checked);
  if (checked) recovery::add_flush_mends(plan, deadline, *checked);
  line.clear();
  if (!checked) return tl::unexpected(checked.error());
  const auto is_late = [&] { return deadline.is_past_telling(); };
  result::Result result = recovery::result_of(plan, head, *checked, our_name(), is_late);
  watch_stop(nullptr);
  if (plan.machines.empty()) note_missing_files(words, plan.from_directory, result);
  if (known) result.notes.emplace_back("It was found before and was tried first; the other schedules were not.");
  keep_rest(reports, recovery::command_of(plan), checked->rest ? recovery::encode_rest(plan, *checked->rest) : "",
            result);
  return report(reports, result);
}

void add_schedules_option(CLI::App& command, std::string& text, bool takes_seeds) {
  command
      .add_option("--schedules", text,
                  fmt::format("of the threads: one (default; --seed picks it), {}random:N, or all that can make a "
                              "difference",
                              takes_seeds ? "seeds:N (those of N seeds), " : ""))
      ->type_name("WHICH");
}

// "seeds:12": how many; none: it is not so.
static std::optional<std::uint64_t> count_behind(std::string_view prefix, const std::string& text) {
  std::uint64_t count = 0;
  if (!text.starts_with(prefix)) return std::nullopt;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + prefix.size(), end, count);
  if (error != std::errc() || at != end || count == 0) return std::nullopt;
  return count;
}

tl::expected<void, Failure> read_schedules(const std::string& text, recovery::ThreadPlan& plan) {
  using Schedules = recovery::ThreadPlan::Schedules;
  const auto random = count_behind("random:", text), seeds = count_behind("seeds:", text);
  const bool takes_seeds = !plan.machines.empty();
  if (text.empty() || text == "one" || (seeds && takes_seeds)) {
    plan.schedules = Schedules::kOne;
    plan.seeds_most = seeds.value_or(1);
  } else if (text == "all") {
    plan.schedules = Schedules::kAll;
  } else if (random) {
    plan.schedules = Schedules::kRandom;
    plan.random_most = *random;
  } else {
    return wrong_use(
        fmt::format("--schedules {}: it is one, {}random:N or all.", text, takes_seeds ? "seeds:N, " : ""));
  }
  return {};
}

tl::expected<int, Failure> replay_thread_token(const result::Token& from, const std::string& named,
                                               const std::string& from_directory, std::chrono::seconds recovery_limit,
                                               bool is_loud) {
  const auto token = recovery::read_thread_token(from);
  if (!token) return tl::unexpected(token.error());
  recovery::ThreadPlan plan = token->plan;
  plan.recovery_limit = recovery_limit;
  plan.from_directory = from_directory;
  const auto program = prepare(plan, named, how_compiled(plan));
  if (!program) return tl::unexpected(program.error());
  return replay_schedule(plan, *token, is_loud);
}

tl::expected<int, Failure> replay_schedule(const recovery::ThreadPlan& plan, const recovery::ThreadToken& token,
                                           bool is_loud) {
  const auto finding = recovery::replay_threads(plan, token.schedule, token.recovery, {.is_loud = is_loud});
  if (!finding) return tl::unexpected(finding.error());
  if (recovery::fingerprint_of(*finding) != token.fingerprint) {
    return wrong_use(
        fmt::format("The program did other things than when the token was made: it has changed since, or it depends on "
                    "something that crashcut does not see, its environment say. Run crashcut {} again.",
                    recovery::command_of(plan)));
  }
  const bool is_violation =
      finding->crash ? finding->is_crash_violation : finding->details.kind != scheduler::runtime::FindingKind::kNone;
  result::Counterexample told = recovery::counterexample_of(plan, *finding);
  told.was_run_again = told.replays = told.is_smallest = true;  // as far as this run tells
  if (is_loud) fmt::print("{}\n", result::counterexample_text(told, result::Detail::kAll));
  fmt::print("{}", result::replay_end_text(told, is_violation));
  return is_violation ? 1 : 0;
}

tl::expected<recovery::ThreadPlan, Failure> make_thread_plan(const recovery::ThreadPlan& schedules,
                                                             const Options& common) {
  auto rest = make_plan(common);
  if (!rest) return tl::unexpected(rest.error());
  recovery::ThreadPlan plan = schedules;
  rest->wants_all = schedules.wants_all;
  static_cast<recovery::Plan&>(plan) = *rest;
  return plan;
}

void add_execution_bounds(CLI::App& command, recovery::ThreadPlan& plan, Options& common) {
  command.add_option("--max-executions", plan.executions_most, "stop after so many executions")
      ->type_name("N")
      ->check(whole_between(1, ~std::uint64_t{0}));
  command.add_option("--time", common.time_s, "stop after so long")
      ->type_name("SECONDS")
      ->check(real_between(0.001, 1e9));
}

void add_schedule_options(CLI::App& command, recovery::ThreadPlan& plan, Options& common) {
  command
      .add_option("--step-limit", plan.step_limit_s,
                  "a thread that runs so long without an operation hangs (default: 10)")
      ->type_name("SECONDS")
      ->check(real_between(0.1, 1e6));
  command.add_option("--jobs", common.jobs, "executions at a time (default: one a core)")
      ->type_name("N")
      ->check(whole_between(1, 256));
  command
      .add_option("--seed", common.seed,
                  "try schedules and states in another order, where a bound ends the search (default: 0)")
      ->type_name("N")
      ->check(whole_between(0, ~std::uint64_t{0}));
  command.add_flag("--all", plan.wants_all, "go on after a violation");
}

void add_threads_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ThreadOptions>();
  recovery::ThreadPlan& plan = options->plan;
  CLI::App* command =
      app.add_subcommand("threads", "run a threaded program under every schedule that can make a difference");
  command->formatter(usage_formatter("crashcut threads [options] prog [args...]"));
  command->prefix_command();
  add_model_options(*command, options->common);
  command
      ->add_option("--max-recoveries", options->common.max_recoveries,
                   "stop after so many recoveries, of all executions")
      ->type_name("N")
      ->check(whole_between(1, ~std::uint64_t{0}));
  add_recovery_limit(*command, options->common);
  command->add_option("--depth", options->common.depth, "crashes in a row: 2 crashes recovery too (default: 1)")
      ->type_name("N")
      ->check(whole_between(1, 64));
  command->add_flag("--all-logs", options->has_all_logs,
                    "run the recoveries of every execution, also where those of another would be the same");
  command->add_option("--reduction", options->reduction, "optimal (default), source, or none: every schedule")
      ->type_name("NAME");
  command
      ->add_option("--memory", options->memory,
                   "how threads see each other's stores: sc (at once; default), tso (x86: stores wait in buffers; for\n"
                   "source, and for what crashcut cc --pmem compiled)")
      ->type_name("sc|tso")
      ->check(CLI::IsMember({"sc", "tso"}).description(""));
  add_execution_bounds(*command, plan, options->common);
  command->add_option("--steps", plan.steps_most, "no thread takes more steps than this")
      ->type_name("N")
      ->check(whole_between(1, 1'000'000));
  command
      ->add_option("--preemptions", options->preemptions,
                   "only schedules with at most so many, all of them: first those with none, then one, and so on")
      ->type_name("N")
      ->check(whole_between(0, 1000));
  command->add_option("--spurious", plan.spurious_most, "wake-ups without a signal, a thread (default: 0)")
      ->type_name("N")
      ->check(whole_between(0, 1000));
  command->add_option("--timeouts", plan.timeouts_most, "timed waits that run out, a thread (default: 2)")
      ->type_name("N")
      ->check(whole_between(0, 1000));
  command
      ->add_option(
          "--policy", options->policies,
          "who goes first of those who wait: mutex|rwlock|semaphore|cond|futex=any|fifo|lifo, rwlock=readers|writers")
      ->type_name("WHAT=WHO")
      ->allow_extra_args(false);
  add_schedule_options(*command, plan, options->common);
  command->add_flag("--strict-exit", plan.is_strict_exit,
                    "threads that still run when the process ends, and are not detached, are a violation");
  command->add_flag("--no-foresight", options->has_no_foresight, "semaphores' operations never commute by their count");
  command
      ->add_option(
          "--resume", options->resume,
          "go on with a search that was stopped, by the directory of its results; --time and the like may differ")
      ->type_name("DIR");
  add_out_option(*command, options->common.reports,
                 "keep the results there, with the program: for crashcut replay DIR");
  add_memory_limit(*command);
  add_report_options(*command, options->common.reports);
  command->footer(
      std::string("prog is a dynamically linked executable, or its source (.c, .cc, .cpp). Its standard input is\n"
                  "empty; --outcomes lists what it printed, and a violation shows what it had printed. Source is\n"
                  "compiled so that its variables are seen: atomic ones are operations, and data races are found.\n"
                  "So is what was compiled with crashcut flags. Of other programs the verdict is about lock and\n"
                  "thread calls; where their threads are seen to meet in atomic variables, it is bounded.\n\n"
                  "It starts on the modelled disk, as in crashcut run; where it has a crashcut_recover()\n"
                  "(crashcut.h), that runs on every state that a crash of every schedule can leave.\n\n"
                  "Example: crashcut threads --spurious 1 ./a.out 3\n\n") +
      kExitCodes);
  command->callback([command, options, &exit_code] {
    if (const std::string given = options->resume.empty() ? "" : given_beside_resume(*command); !given.empty()) {
      exit_code = report_failure(
          {result::Blame::kUser,
           fmt::format(
               "--resume goes on with the program and the options that the search had: {} cannot be given with it.",
               given)});
      return;
    }
    const auto code = options->resume.empty() ? run(*options, program_words(*command))
                                              : resume_schedules("threads", options->resume, options->common,
                                                                 options->plan.executions_most);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
