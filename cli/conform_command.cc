// crashcut conform: is every state that the kernel's ext4 shows one that the model allows?
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <boost/filesystem.hpp>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/kernel_check.h"
#include "cli/options.h"
#include "cli/program.h"
#include "recovery/kernel/record.h"
#include "recovery/kernel/states.h"
#include "recovery/kernel/workloads.h"
#include "recovery/result/words.h"
#include "recovery/run.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using kernel::Workload;
using result::Failure;
using result::wrong_use;

struct ConformOptions {
  std::vector<std::string> mounts;  // "data=journal"
  bool is_seq1 = false;
  std::uint32_t seq2_count = 0, random_count = 0, limit = 0, step = 1;
  std::uint32_t runs = 4, subsets = 32;
  std::uint64_t seed = 0;
  bool shows_slack = false;
  std::string report, update;
  std::vector<std::string> calls;  // one workload by hand
};

// One way to mount, on both sides.
struct Row {
  std::string options;
  std::uint64_t programs = 0, images = 0, seen = 0, allowed = 0, outside = 0;
  std::map<std::string, std::uint64_t> slack{};  // states that the kernel did not show, by the last operation
};

constexpr std::string_view kTableBegin = "<!-- conform -->\n", kTableEnd = "<!-- conform: end -->\n";

// Mount options for the model: data=MODE, and the others.
tl::expected<fusefs::ModelOptions, Failure> model_of(const std::string& options) {
  fusefs::ModelOptions model;
  model.sector_bytes = model.block_bytes;  // the kernel's images tear in blocks
  std::istringstream words(options);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.starts_with("data=")) {
      const auto mode = fusefs::parse_data_mode(word.substr(5));
      if (!mode) return wrong_use(mode.error());
      model.data = *mode;
    } else if (auto ok = fusefs::parse_mount_options(word, model); !ok) {
      return wrong_use(ok.error());
    }
  }
  return model;
}

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// What the model allows; nothing where the search did not end.
tl::expected<std::set<std::string>, Failure> model_states(recovery::Plan plan, const Workload& workload) {
  plan.arguments = kernel::for_model(workload);
  plan.wants_all = true;
  const auto executed = recovery::execute(plan);
  if (!executed) return tl::unexpected(executed.error());
  const search::Hooks hooks{[](const result::Progress&) {}, is_interrupted};
  const auto checked = recovery::check(*executed, plan, recovery::head_of("conform", plan, workload), hooks);
  if (!checked) return tl::unexpected(checked.error());
  if (checked->result.verdict != result::Verdict::kVerified || checked->result.outcomes_cut)
    return result::tool_failed(fmt::format("The model's states of {} are too many.", fmt::join(workload, " ")));
  std::set<std::string> states;
  for (const result::Outcome& outcome : checked->result.outcomes) states.insert(without_newline(outcome.output));
  return states;
}

class Conformer {
 public:
  Conformer(const ConformOptions& options, std::string program, std::string directory)
      : options_(options), program_(std::move(program)), directory_(std::move(directory)) {}

  tl::expected<Row, Failure> compare(const std::string& mount, const std::vector<Workload>& workloads) {
    Row row{mount};
    const auto model = model_of(mount);
    if (!model) return tl::unexpected(model.error());
    recovery::Plan plan;
    const auto prepared = prepare_run(plan, program_);
    if (!prepared) return tl::unexpected(prepared.error());
    plan.model = *model;
    plan.jobs = 2;
    plan.main_stdout_fd = plan.main_stderr_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    DeviceOptions device;
    device.runs = options_.runs;
    device.subsets = options_.subsets;
    const std::string name = mount.empty() ? "kernel:ext4" : "kernel:ext4:" + mount;
    const auto disk = disk_plan_of(MountedOptions{}, device, name, false);
    if (!disk) return tl::unexpected(disk.error());
    mounted::RecordPlan program;
    program.directory = directory_;
    if (auto made = kernel::make_base(program, *disk); !made) return tl::unexpected(made.error());
    for (const Workload& workload : workloads) {
      if (is_interrupted()) break;
      const auto allowed = model_states(plan, workload);
      if (!allowed) return tl::unexpected(allowed.error());
      program.program.words = {program_};
      program.program.words.insert(program.program.words.end(), workload.begin(), workload.end());
      const auto found = kernel::find_states(program, *disk, {program_}, options_.seed);
      if (!found) return tl::unexpected(found.error());
      ++row.programs;
      row.images += found->images;
      row.seen += found->states.size();
      row.allowed += allowed->size();
      for (const std::string& state : *allowed) {
        if (found->states.contains(state)) continue;
        ++row.slack[kernel::operation_of(workload)];
        if (options_.shows_slack)
          fmt::print("not shown ({}): {}\n  the model allows: {}\n", name, fmt::join(workload, " "), state);
      }
      for (const auto& [state, how] : found->states) {
        if (allowed->contains(state)) continue;
        ++row.outside;
        fmt::print("outside ({}): {}\n  the kernel left: {}\n  {}\n", name, fmt::join(workload, " "), state, how);
        for (const std::string& one : *allowed) fmt::print("  allowed: {}\n", one);
      }
    }
    return row;
  }

 private:
  const ConformOptions& options_;
  std::string program_, directory_;
};

std::string table_of(const std::vector<Row>& rows, const std::string& what) {
  utsname system{};
  uname(&system);
  std::string text = fmt::format(
      "Linux {}; {}\n\n| mount options | programs | images | states seen | states allowed | outside |\n"
      "|---|---|---|---|---|---|\n",
      system.release, what);
  for (const Row& row : rows) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", row.options.empty() ? "(default)" : row.options,
                        row.programs, row.images, row.seen, row.allowed, row.outside);
  }
  text +=
      "\nAllowed by the model, and not shown by the kernel in these runs, by the last operation of the program:\n\n"
      "| mount options | not shown |\n|---|---|\n";
  for (const Row& row : rows) {
    std::string slack;
    for (const auto& [operation, count] : row.slack)
      slack += fmt::format("{}{} {}", slack.empty() ? "" : ", ", operation, count);
    text += fmt::format("| {} | {} |\n", row.options.empty() ? "(default)" : row.options,
                        slack.empty() ? "nothing" : slack);
  }
  return text;
}

std::string command_of(const ConformOptions& options) {
  std::string text = "crashcut conform";
  if (options.is_seq1) text += " --seq1";
  if (options.seq2_count > 0) text += fmt::format(" --seq2 {}", options.seq2_count);
  if (options.random_count > 0) text += fmt::format(" --random {}", options.random_count);
  if (options.step > 1) text += fmt::format(" --every {}", options.step);
  if (options.limit > 0) text += fmt::format(" --most {}", options.limit);
  text += fmt::format(" --runs {} --subsets {} --seed {}", options.runs, options.subsets, options.seed);
  for (const std::string& mount : options.mounts) text += " -o " + mount;
  return text;
}

// Puts the table between the two lines of the file that say where it belongs.
tl::expected<void, Failure> update_file(const std::string& path, const std::string& table) {
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::size_t begin = text.find(kTableBegin), end = text.find(kTableEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return wrong_use(fmt::format("--update {}: it has no lines <!-- conform --> and <!-- conform: end -->.", path));
  text.replace(begin + kTableBegin.size(), end - begin - kTableBegin.size(), table);
  if (!(std::ofstream(path) << text)) return wrong_use(fmt::format("--update {}: it cannot be written.", path));
  return {};
}

std::vector<Workload> workloads_of(const ConformOptions& options) {
  if (!options.calls.empty()) return {options.calls};
  std::vector<Workload> workloads;
  if (options.is_seq1 || (options.seq2_count == 0 && options.random_count == 0)) {
    workloads = kernel::seq1_workloads();
    const std::vector<Workload> others = kernel::fdatasync_workloads();
    workloads.insert(workloads.end(), others.begin(), others.end());
  }
  const std::vector<Workload> longer = kernel::seq2_workloads(options.seq2_count, options.seed);
  workloads.insert(workloads.end(), longer.begin(), longer.end());
  std::vector<Workload> taken;
  for (std::size_t i = 0; i < workloads.size(); i += options.step) taken.push_back(std::move(workloads[i]));
  if (options.limit > 0 && taken.size() > options.limit) taken.resize(options.limit);
  const std::vector<Workload> random = kernel::random_workloads(options.random_count, options.seed);
  taken.insert(taken.end(), random.begin(), random.end());
  return taken;
}

tl::expected<int, Failure> conform(const ConformOptions& options) {
  const std::string program = (fs::canonical("/proc/self/exe").parent_path() / "conform" / "calls").string();
  if (!fs::exists(program)) return result::tool_failed(fmt::format("There is no {}.", program));
  const fs::path directory = fs::temp_directory_path() / fs::unique_path("crashcut-conform-%%%%%%%%");
  fs::create_directories(directory);
  const std::vector<Workload> workloads = workloads_of(options);
  Conformer conformer(options, program, directory.string());
  std::vector<Row> rows;
  std::uint64_t outside = 0;
  tl::expected<int, Failure> code = 0;
  const SearchSignals signals;
  for (const std::string& mount : options.mounts.empty() ? std::vector<std::string>{"data=ordered"} : options.mounts) {
    auto row = conformer.compare(mount, workloads);
    if (!row) {
      code = tl::unexpected(row.error());
      break;
    }
    outside += row->outside;
    rows.push_back(std::move(*row));
  }
  boost::system::error_code error;
  fs::remove_all(directory, error);
  if (!code) return code;
  const std::string what = fmt::format("{} a row, {} each, at most {} images between two flushes, seed {}",
                                       result::count_text(workloads.size(), "program", "programs"),
                                       result::count_text(options.runs, "run", "runs"), options.subsets, options.seed);
  const std::string table = table_of(rows, what);
  fmt::print("{}", table);
  if (!options.report.empty() && !(std::ofstream(options.report) << table))
    return wrong_use(fmt::format("--report {}: it cannot be written.", options.report));
  if (!options.update.empty()) {
    if (auto ok = update_file(options.update, fmt::format("`{}`, on {}", command_of(options), table)); !ok)
      return tl::unexpected(ok.error());
  }
  fmt::print("{}: {} outside of the model\n", outside == 0 ? "conforms" : "violation",
             result::count_text(outside, "state", "states"));
  return outside == 0 ? 0 : 1;
}

}  // namespace

void add_conform_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ConformOptions>();
  CLI::App* command = app.add_subcommand(
      "conform", "is every state that the kernel's ext4 shows one that the model allows? needs root");
  command
      ->add_option("-o", options->mounts,
                   "mount options for both sides: data=journal, nodelalloc (default: data=ordered); may be given more "
                   "than once, a row each")
      ->type_name("OPTIONS")
      ->allow_extra_args(false);
  command->add_flag("--seq1", options->is_seq1, "all sequences of one operation (the default without --seq2)");
  command->add_option("--seq2", options->seq2_count, "so many sequences of two operations, by the seed")
      ->type_name("N");
  command->add_option("--random", options->random_count, "so many sequences of three or four operations, by the seed")
      ->type_name("N");
  command->add_flag("--slack", options->shows_slack, "print what the model allows and the kernel did not show");
  command->add_option("--update", options->update, "put the table between the lines of this file that say where")
      ->type_name("FILE");
  command->add_option("--every", options->step, "take every Nth sequence only, but all random ones")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000000u));
  command->add_option("--most", options->limit, "take at most so many")->type_name("N");
  command->add_option("--call", options->calls, "this sequence only, a call each: mkdir:A barrier creat:A/foo sync")
      ->type_name("CALL");
  command->add_option("--runs", options->runs, "runs on the kernel a sequence (default: 4)")
      ->type_name("N")
      ->check(CLI::Range(1u, 100000u));
  command->add_option("--subsets", options->subsets, "images between two flushes, at most (default: 32)")
      ->type_name("N")
      ->check(CLI::Range(2u, 1u << 20));
  command->add_option("--seed", options->seed, "of the sample and of the images (default: 0)")->type_name("N");
  command->add_option("--report", options->report, "write the table to this file")->type_name("FILE");
  command->footer(
      "A state that the kernel shows and the model does not allow is a bug of the model.\n\n"
      "Exit codes: 0 all states are allowed, 1 some are not, 2 wrong use, 4 crashcut's own failure");
  command->callback([options, &exit_code] {
    const auto code = conform(*options);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
