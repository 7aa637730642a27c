// crashcut cxl: programs on machines that share memory, under every schedule, with every failure of a machine.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/threads/rest.h"
#include "recovery/threads/result.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::cli {
namespace {

using recovery::Machine;
using recovery::RegionRule;
using result::Failure;
using result::wrong_use;

constexpr std::uint32_t kMachinesMost = scheduler::runtime::kHostsMost;

struct CxlOptions {
  recovery::ThreadPlan plan;
  Options common;
  std::uint32_t machines = 0;  // 0: as many as programs are named
  std::int64_t failures = -1;  // all but one
  std::vector<std::uint32_t> never_fail;
  std::string schedules, poison;
  bool has_global_flush = false;
  std::vector<std::string> failing_devices, memory_of, incoherent;
  std::uint32_t cache_steps = 0;  // 0: not asked for
  std::string resume;
};

// What to run, and where an earlier search stopped.
struct Job {
  recovery::ThreadPlan plan;
  std::optional<recovery::ThreadRest> rest;
};

// Caches are modelled if all programs are compiled for it.
tl::expected<void, Failure> add_caches(const CxlOptions& options, recovery::ThreadPlan& plan) {
  const auto is_seen = [](const Machine& machine) { return is_memory_seen(machine.executable); };
  const auto count = std::count_if(plan.machines.begin(), plan.machines.end(), is_seen);
  if (count == 0) {
    if (!options.schedules.empty() || options.has_global_flush || !options.poison.empty() || !plan.region_rules.empty())
      return wrong_use(
          "--schedules, --gpf, --poison, --device-fails, --memory-of and --incoherent are about caches and memory that "
          "are modelled for programs that crashcut cc --pmem or crashcut cxx --pmem compiled.");
    return {};
  }
  if (count != static_cast<std::ptrdiff_t>(plan.machines.size())) {
    const auto other = std::find_if_not(plan.machines.begin(), plan.machines.end(), is_seen);
    return wrong_use(fmt::format(
        "{} was not compiled with crashcut cc --pmem, and other machines' programs were: compile all of them so.",
        other->named));
  }
  plan.caches = recovery::Caches{options.has_global_flush, !options.poison.empty(), options.poison == "value"};
  return read_schedules(options.schedules, plan);
}

// "./client:2": a program, and on how many machines it runs.
struct Named {
  std::string program;
  std::uint32_t count = 1;
};
tl::expected<Named, Failure> parse_named(const std::string& word) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string::npos || colon + 1 == word.size()) return Named{word};
  Named named{word.substr(0, colon)};
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data() + colon + 1, end, named.count);
  if (error == std::errc::invalid_argument || at != end) return Named{word};  // a colon of its name
  if (named.program.empty() || named.count == 0 || named.count > kMachinesMost)
    return wrong_use(fmt::format("{}: the number of machines is between 1 and {}.", word, kMachinesMost));
  return named;
}

tl::expected<void, Failure> add_machines(const CxlOptions& options, const std::vector<std::string>& words,
                                         recovery::ThreadPlan& plan) {
  if (options.machines > 0) {
    plan.machines.assign(options.machines, Machine{words[0], "", ""});
    plan.arguments.assign(words.begin() + 1, words.end());
  }
  for (const std::string& word : options.machines > 0 ? std::vector<std::string>() : words) {
    const auto named = parse_named(word);
    if (!named) return tl::unexpected(named.error());
    plan.machines.insert(plan.machines.end(), named->count, Machine{named->program, "", ""});
  }
  if (plan.machines.size() > kMachinesMost)
    return wrong_use(
        fmt::format("{} machines are more than crashcut can run ({}).", plan.machines.size(), kMachinesMost));
  return {};
}

tl::expected<void, Failure> add_failures(const CxlOptions& options, recovery::ThreadPlan& plan) {
  const auto count = static_cast<std::uint32_t>(plan.machines.size());
  plan.failures_most = options.failures < 0 ? count - 1 : static_cast<std::uint32_t>(options.failures);
  plan.failing = (1u << count) - 1;
  for (const std::uint32_t machine : options.never_fail) {
    if (machine >= count)
      return wrong_use(fmt::format("--never-fails {}: the last machine is machine {}.", machine, count - 1));
    plan.failing &= ~(1u << machine);
  }
  if (plan.failures_most == 0) plan.failing = 0;
  return {};
}

tl::expected<void, Failure> check_devices(const std::vector<std::string>& devices) {
  for (const std::string& device : devices) {
    const bool is_normal = device.starts_with('/') && device.find("//") == device.npos && !device.ends_with('/');
    if (!is_normal || device.size() >= scheduler::runtime::kRegionNameMost)
      return wrong_use(fmt::format("--device {}: it takes a whole path, of at most {} characters, as /dev/dax0.0.",
                                   device, scheduler::runtime::kRegionNameMost - 1));
  }
  return {};
}

// A region has one rule.
tl::expected<RegionRule*, Failure> add_rule(const std::string& option, const std::string& name,
                                            recovery::ThreadPlan& plan) {
  if (name.empty() || name.size() >= scheduler::runtime::kRegionNameMost)
    return wrong_use(fmt::format("{} {}: the name of shared memory has between 1 and {} characters.", option, name,
                                 scheduler::runtime::kRegionNameMost - 1));
  for (RegionRule& rule : plan.region_rules) {
    if (rule.name == name) return wrong_use(fmt::format("{} {}: there is another rule for this memory.", option, name));
  }
  if (plan.region_rules.size() == scheduler::runtime::kRegionRulesMost)
    return wrong_use(fmt::format("{} {}: there are rules for at most {} regions.", option, name,
                                 scheduler::runtime::kRegionRulesMost));
  return &plan.region_rules.emplace_back(RegionRule{name});
}

// "pool=1": memory, and the machine that it is of.
tl::expected<void, Failure> add_home(const std::string& word, recovery::ThreadPlan& plan) {
  const std::size_t at = word.rfind('=');
  std::uint32_t machine = 0;
  const char* end = word.data() + word.size();
  const auto [read, error] = at == word.npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                             : std::from_chars(word.data() + at + 1, end, machine);
  if (error != std::errc() || read != end)
    return wrong_use(fmt::format("--memory-of {}: it takes a name and the number of a machine, as pool=1.", word));
  if (machine >= plan.machines.size())
    return wrong_use(fmt::format("--memory-of {}: the last machine is machine {}.", word, plan.machines.size() - 1));
  const auto rule = add_rule("--memory-of", word.substr(0, at), plan);
  if (!rule) return tl::unexpected(rule.error());
  (*rule)->home = machine;
  return {};
}

tl::expected<void, Failure> add_rules(const CxlOptions& options, recovery::ThreadPlan& plan) {
  for (const std::string& word : options.memory_of) {
    if (auto ok = add_home(word, plan); !ok) return ok;
  }
  for (const std::string& name : options.incoherent) {
    const auto rule = add_rule("--incoherent", name, plan);
    if (!rule) return tl::unexpected(rule.error());
    (*rule)->is_incoherent = true;
  }
  if (!options.incoherent.empty() && (options.has_global_flush || !options.poison.empty()))
    return wrong_use(
        fmt::format("--incoherent {}: it is not for machines with --gpf or --poison, whose caches are "
                    "coherent. Leave one of the options out.",
                    options.incoherent[0]));
  if (options.cache_steps > 0) {
    if (options.incoherent.empty() || options.schedules == "all" || options.schedules.starts_with("random:"))
      return wrong_use(
          fmt::format("--cache-steps {}: it bounds what caches do by themselves with memory that --incoherent names, "
                      "where --schedules one or seeds:N searches. Other schedules have no such bound.",
                      options.cache_steps));
    plan.cache_steps_most = options.cache_steps;
  }
  for (const std::string& name : options.failing_devices) {
    const auto rule = add_rule("--device-fails", name, plan);
    if (!rule) return tl::unexpected(rule.error());
    const auto host = static_cast<std::uint32_t>(plan.machines.size()) + plan.failing_devices++;
    if (host >= kMachinesMost)
      return wrong_use(
          fmt::format("--device-fails {}: machines and devices that fail are at most {}.", name, kMachinesMost));
    (*rule)->home = host;
    plan.failing |= 1u << host;
  }
  return {};
}

// The programs, made ready; each once. `find` gives the path of one that a token names.
tl::expected<std::map<std::string, Program>, Failure> prepare_machines(
    recovery::ThreadPlan& plan, const std::function<tl::expected<std::string, Failure>(const Machine&)>& find) {
  const auto runtime = find_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  std::map<std::string, Program> programs;
  for (Machine& machine : plan.machines) {
    const auto path = find(machine);
    if (!path) return tl::unexpected(path.error());
    auto known = programs.find(*path);
    if (known == programs.end()) {
      auto program = Program::prepare(*path, Program::Compiled::kPmem);
      if (!program) return tl::unexpected(program.error());
      known = programs.emplace(*path, std::move(*program)).first;
    }
    machine.executable = known->second.executable();
    machine.id = known->second.id();
  }
  plan.runtime = *runtime;
  plan.program = plan.named = plan.machines[0].named;
  plan.executable = plan.machines[0].executable;
  plan.program_id = plan.machines[0].id;
  return programs;
}

tl::expected<Job, Failure> new_job(const CxlOptions& options, const std::vector<std::string>& words) {
  auto made = make_thread_plan(options.plan, options.common);
  if (!made) return tl::unexpected(made.error());
  recovery::ThreadPlan& plan = *made;
  if (auto ok = add_machines(options, words, plan); !ok) return tl::unexpected(ok.error());
  if (auto ok = add_failures(options, plan); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_devices(plan.devices); !ok) return tl::unexpected(ok.error());
  if (auto ok = add_rules(options, plan); !ok) return tl::unexpected(ok.error());
  return Job{std::move(plan), std::nullopt};
}

// What an earlier search left. Bounds that are given again are those of this run.
tl::expected<Job, Failure> read_job(const CxlOptions& options, const CLI::App& command) {
  const auto text = read_rest_file(options.resume);
  if (!text) return tl::unexpected(text.error());
  auto decoded = recovery::decode_rest(*text);
  if (!decoded) return wrong_use(fmt::format("{}: {}", options.resume, decoded.error()));
  auto& [plan, rest] = *decoded;
  if (plan.machines.empty()) return wrong_use(fmt::format("{} is of crashcut threads.", options.resume));
  const auto bounds = make_plan(options.common);
  if (!bounds) return tl::unexpected(bounds.error());
  if (command.count("--time") > 0) plan.time_limit = bounds->time_limit;
  if (command.count("--max-executions") > 0) plan.executions_most = options.plan.executions_most;
  plan.jobs = bounds->jobs;
  plan.crashcut = bounds->crashcut;
  return Job{std::move(plan), std::move(rest)};
}

// As they were typed, or as the search that is resumed has them.
std::vector<std::string> words_of(const recovery::ThreadPlan& plan) {
  std::vector<std::string> words;
  for (const Machine& machine : plan.machines) words.push_back(machine.named);
  words.insert(words.end(), plan.arguments.begin(), plan.arguments.end());
  return words;
}

tl::expected<int, Failure> run(const CxlOptions& options, const std::vector<std::string>& typed,
                               const CLI::App& command) {
  ReportOptions reports = options.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  auto job = options.resume.empty() ? new_job(options, typed) : read_job(options, command);
  if (!job) return tl::unexpected(job.error());
  recovery::ThreadPlan& plan = job->plan;
  const std::vector<std::string> words = job->rest ? words_of(plan) : typed;
  plan.wants_outcomes = reports.outcomes;
  plan.wants_all = plan.wants_all || reports.outcomes;
  plan.wants_mends = true;
  const auto programs = prepare_machines(plan, [](const Machine& machine) { return machine.named; });
  if (!programs) return tl::unexpected(programs.error());
  if (!job->rest) {
    if (auto ok = add_caches(options, plan); !ok) return tl::unexpected(ok.error());
  }
  std::vector<std::string> paths;
  for (const auto& [named, program] : *programs) paths.push_back(program.path());
  if (auto ok = open_results(reports, paths); !ok) return tl::unexpected(ok.error());
  return search_schedules(reports, plan, words, job->rest ? &*job->rest : nullptr);
}

}  // namespace

tl::expected<std::map<std::string, Program>, Failure> prepare_cxl_token(recovery::ThreadPlan& plan,
                                                                        const result::Token& token,
                                                                        const std::string& directory) {
  return prepare_machines(plan, [&](const Machine& machine) {
    result::Token of_machine = token;
    of_machine.program = machine.named;
    of_machine.program_id = machine.id;
    return find_program(of_machine, "", directory);
  });
}

tl::expected<int, Failure> replay_cxl_token(const result::Token& from, const std::string& directory, bool is_loud) {
  const auto token = recovery::read_thread_token(from);
  if (!token) return tl::unexpected(token.error());
  recovery::ThreadPlan plan = token->plan;
  const auto programs = prepare_cxl_token(plan, from, directory);
  if (!programs) return tl::unexpected(programs.error());
  return replay_schedule(plan, *token, is_loud);
}

void add_cxl_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CxlOptions>();
  recovery::ThreadPlan& plan = options->plan;
  CLI::App* command = app.add_subcommand("cxl", "run programs on machines that share memory, and let machines fail");
  command->formatter(
      usage_formatter("crashcut cxl [options] prog[:count]...\n"
                      "       crashcut cxl [options] --machines N prog [args...]"));
  command->prefix_command();
  command->add_option("--machines", options->machines, "so many machines, each of which runs prog")
      ->type_name("N")
      ->check(whole_between(1, kMachinesMost));
  command->add_option("--failures", options->failures, "at most so many failures (default: of all machines but one)")
      ->type_name("N")
      ->check(whole_between(0, 1000));
  command->add_option("--never-fails", options->never_fail, "a machine that does not fail, by its number from 0")
      ->type_name("M")
      ->allow_extra_args(false);
  add_schedules_option(*command, options->schedules, true);
  command->add_flag("--gpf", options->has_global_flush,
                    "global persistent flush: a machine that fails keeps all that had reached its caches");
  command
      ->add_option("--poison", options->poison,
                   "a line of which stores were lost is poisoned: loading from it raises SIGBUS, or gives a value")
      ->type_name("sigbus|value")
      ->check(CLI::IsMember({"sigbus", "value"}).description(""));
  command
      ->add_option("--device", plan.devices,
                   "a device that is shared memory of all machines: they open() and mmap() it. It need not exist")
      ->type_name("PATH")
      ->allow_extra_args(false);
  command
      ->add_option("--device-fails", options->failing_devices,
                   "the memory of this name lies on a device that may fail: then accesses raise SIGBUS everywhere")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      ->add_option("--memory-of", options->memory_of,
                   "the memory of this name is of machine M, and is gone when M fails: accesses raise SIGBUS")
      ->type_name("NAME=M")
      ->allow_extra_args(false);
  command
      ->add_option("--incoherent", options->incoherent,
                   "no hardware keeps the memory of this name coherent: machines see their own copies of its lines "
                   "until they flush them")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      ->add_option("--cache-steps", options->cache_steps,
                   "so many times caches write back or fetch lines of such memory by themselves, in an execution of "
                   "--schedules one or seeds (default: 1)")
      ->type_name("N")
      ->check(whole_between(1, recovery::kCacheStepsMost));
  command->add_flag("--garbage", plan.has_garbage,
                    "shared memory begins with garbage, which --seed decides, not zeroes");
  add_execution_bounds(*command, plan, options->common);
  add_schedule_options(*command, plan, options->common);
  add_out_option(*command, options->common.reports,
                 "keep the results there, with the programs: for crashcut replay DIR");
  command->add_option("--resume", options->resume, "go on with a search that stopped: the directory with its results")
      ->type_name("DIR");
  add_memory_limit(*command);
  add_report_options(*command, options->common.reports);
  command->footer(
      std::string("prog is a dynamically linked executable, or its source (.c, .cc, .cpp). crashcut_machine() of\n"
                  "crashcut.h tells it which machine it runs on, crashcut_cxl() gives it the shared memory. Locks,\n"
                  "semaphores, condition variables, barriers and futexes there work across machines.\n\n"
                  "Any machine may fail at any time while the others go on. Of the lines that it had in its\n"
                  "caches, each keeps a part of the stores. That is modelled for source, and for programs that\n"
                  "crashcut cc --pmem compiled; for others, shared memory is coherent and survives.\n\n"
                  "Example: crashcut cxl ./server ./client:2\n\n") +
      kExitCodes);
  command->callback([command, options, &exit_code] {
    if (!options->resume.empty()) {
      if (const auto ok = check_beside_resume(*command); !ok) {
        exit_code = report_failure(ok.error());
        return;
      }
    }
    const auto code =
        run(*options, options->resume.empty() ? program_words(*command) : std::vector<std::string>(), *command);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
