// crashcut conform: is every state that the kernel's ext4 shows one that the model allows?
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <fstream>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/conform_result.h"
#include "cli/conform_state.h"
#include "cli/conformer.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "cli/reports.h"
#include "cli/scratch_directory.h"
#include "recovery/kernel/filesystem.h"
#include "recovery/kernel/image_file.h"
#include "recovery/result/words.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Bound;
using result::Failure;
using result::wrong_use;

constexpr std::size_t kImagesMost = 20;  // of findings, that are kept
constexpr double kTimeMost_s = 1e9;
// A program spends most of its time waiting: for the kernel to mount, to commit, and to take a loop device back.
constexpr std::uint32_t kJobsACore = 4;

// As typed.
struct ConformOptions {
  ConformPlan plan;
  std::uint32_t jobs = 0;  // 0: kJobsACore
  double time_s = 0;
  bool shows_slack = false;
  std::string report, update, table;
  std::string resume;
  ReportOptions reports;
};

std::string slack_text(const std::string& mount, const ConformCase& one, const Compared& compared) {
  std::string text;
  for (const NotShown& not_shown : compared.not_shown)
    text += fmt::format("not shown ({}): {}\n  the model allows: {}\n  by the rule: {}\n", filesystem_of(mount),
                        one.text, not_shown.state, name_of(not_shown.rule));
  return text;
}

// A sentence or two about each state outside of the model.
std::string findings_text(const std::vector<ConformFinding>& findings) {
  std::string text;
  for (const ConformFinding& finding : findings) {
    text += fmt::format("outside ({}): {}\n  the kernel left: {}\n  {}\n", filesystem_of(finding.mount),
                        finding.program, finding.outside.state, finding.outside.how);
    for (const std::string& state : finding.allowed) text += fmt::format("  allowed: {}\n", state);
  }
  return text;
}

// Compares what is left of the state.
class Conformance {
 public:
  Conformance(const ConformOptions& options, const std::vector<ConformCase>& cases, const persist::Deadline& deadline,
              ConformState& state)
      : options_(options),
        cases_(cases),
        deadline_(deadline),
        state_(state),
        seconds_before_(state.seconds),
        line_(options.reports.quiet) {}

  tl::expected<Bound, Failure> run(std::uint32_t jobs, const std::string& directory) {
    const SearchSignals signals;
    Bound bound = Bound::kNone;
    for (std::size_t mount = 0; mount < state_.mounts.size() && bound != Bound::kInterrupt; ++mount) {
      // Each way to mount gets its part of the time that is left.
      const persist::Deadline part(deadline_.seconds_left() / static_cast<double>(state_.mounts.size() - mount));
      const ConformShare share{cases_, state_.left(mount), jobs, fmt::format("{}/{}", directory, mount), part};
      if (share.left.empty()) continue;
      if (deadline_.is_over()) return finished(Bound::kTime);
      const auto ended = compare_all(
          state_.plan.setup_of(mount), share,
          [&](std::size_t index, const Compared& compared) { take(mount, index, compared); }, [&] { show(); });
      if (!ended) return ended;
      if (*ended != Bound::kNone) bound = *ended;
    }
    return finished(bound);
  }

 private:
  Bound finished(Bound bound) {
    state_.seconds = seconds_before_ + deadline_.seconds();
    line_.clear();
    return bound;
  }

  void take(std::size_t mount, std::size_t index, const Compared& compared) {
    state_.add(mount, cases_[index], index, compared);
    if (!options_.shows_slack || options_.reports.quiet) return;
    line_.clear();
    print(options_.reports.out(), slack_text(state_.plan.mounts[mount], cases_[index], compared));
  }

  void show() {
    result::Progress progress;
    progress.seconds = deadline_.seconds();
    progress.violations = state_.findings.size();
    for (const ConformRow& row : state_.rows()) progress.recoveries += row.images;
    const auto all = static_cast<double>(state_.program_count());
    progress.fraction = static_cast<double>(state_.done_count()) / all;
    line_.show(progress);
  }

  const ConformOptions& options_;
  const std::vector<ConformCase>& cases_;
  const persist::Deadline& deadline_;
  ConformState& state_;
  double seconds_before_;
  ProgressLine line_;
};

// Puts the images of new findings, which are paths, into the directory of the results, and makes that if it is missing.
tl::expected<void, Failure> keep_images(ConformState& state, ReportOptions& reports) {
  for (std::size_t i = 0; i < state.findings.size(); ++i) {
    std::string& file = state.findings[i].outside.file;
    if (!file.starts_with('/')) continue;  // an earlier command kept it
    const std::string from = std::exchange(file, "");
    if (i >= kImagesMost) continue;
    if (reports.directory.empty()) {
      auto made = make_results_directory("");
      if (!made) return tl::unexpected(made.error());
      reports.directory = *made;
    }
    const std::string name = fmt::format("outside-{}.img", i + 1);
    const auto image = kernel::MappedFile::open(from);
    const sandbox::Fd to(
        open((reports.directory + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (image && to && kernel::write_sparse(to.get(), image->bytes())) file = name;
  }
  return {};
}

tl::expected<void, Failure> write_tables(const ConformOptions& options, const ConformState& state) {
  const ConformPlan& plan = state.plan;
  const std::string table =
      table_of(state.rows(), fmt::format("{} on the kernel each, at most {} images between two flushes, seed {}",
                                         result::count_text(plan.runs, "run", "runs"), plan.subsets, plan.sets.seed));
  if (!options.reports.quiet) print(options.reports.out(), findings_text(state.findings) + table);
  if (!options.report.empty() && !(std::ofstream(options.report) << table))
    return wrong_use(fmt::format("--report {}: it cannot be written.", options.report));
  if (options.update.empty()) return {};
  return update_file(options.update, options.table, fmt::format("`{}`, on {}", plan.command(), table));
}

tl::expected<int, Failure> finish(const ConformOptions& options, ConformState& state, const result::Head& head,
                                  Bound bound) {
  ReportOptions reports = options.reports;
  if (auto ok = keep_images(state, reports); !ok) return tl::unexpected(ok.error());
  if (auto ok = write_tables(options, state); !ok) return tl::unexpected(ok.error());
  result::Result result = result_of(state, head, bound, reports.directory);
  const bool has_rest = bound != Bound::kNone && state.case_count > 0;
  keep_rest(reports, kConformCommand, has_rest ? encode(state) : "", result);
  return report(reports, result);
}

tl::expected<void, Failure> check_options(const ConformOptions& options) {
  if (auto ok = check_reports(options.reports); !ok) return ok;
  if (!options.table.empty() && options.update.empty()) return wrong_use("--table names a table of --update FILE.");
  if (!options.update.empty() && !fs::is_regular_file(options.update))
    return wrong_use(fmt::format("--update {}: there is no such file.", options.update));
  if (!options.update.empty()) {
    if (auto ok = update_file(options.update, options.table, ""); !ok) return ok;
  }
  if (const std::string missing = kernel::what_is_missing({"ext4", ""}); !missing.empty()) return wrong_use(missing);
  return {};
}

// `state` is what an earlier command left, or null.
tl::expected<int, Failure> conform(ConformOptions options, std::optional<ConformState> state) {
  const persist::Deadline deadline(options.time_s);
  if (options.plan.mounts.empty()) options.plan.mounts.emplace_back("data=ordered");
  const ConformPlan plan = state ? state->plan : options.plan;
  const std::uint32_t jobs = options.jobs == 0 ? kJobsACore * count_cores() : options.jobs;
  const result::Head head = head_of(plan, jobs, options.time_s);
  print_head(options.reports, head);
  const auto cases = cases_of(plan.sets, [&] { return deadline.is_over(); });
  if (!cases) return tl::unexpected(cases.error());
  if (!*cases) {
    if (!state) state = ConformState::of(plan, {});
    return finish(options, *state, head, Bound::kTime);
  }
  if (state && (state->fingerprint != fingerprint_of((*cases)->cases) || state->case_count != (*cases)->cases.size()))
    return wrong_use("What was left is of other programs: they have changed since. Compare them anew.");
  if (!state) state = ConformState::of(plan, (*cases)->cases);
  const ScratchDirectory scratch;
  const auto ended = Conformance(options, (*cases)->cases, deadline, *state).run(jobs, scratch.path());
  if (!ended) return tl::unexpected(ended.error());
  return finish(options, *state, head, *ended);
}

tl::expected<int, Failure> start(ConformOptions options) {
  if (auto ok = check_options(options); !ok) return tl::unexpected(ok.error());
  if (auto ok = open_results(options.reports, {}); !ok) return tl::unexpected(ok.error());
  return conform(std::move(options), std::nullopt);
}

tl::expected<int, Failure> resume(ConformOptions options) {
  if (auto ok = check_options(options); !ok) return tl::unexpected(ok.error());
  const auto text = read_rest_file(options.resume);
  if (!text) return tl::unexpected(text.error());
  auto state = decode_conform(*text);
  if (!state) return wrong_use(fmt::format("{}: {}", options.resume, state.error()));
  options.reports.directory = fs::canonical(options.resume).string();
  return conform(std::move(options), std::move(*state));
}

void add_sets(CLI::App& command, ConformSets& sets) {
  command.add_flag("--seq1", sets.is_seq1, "all sequences of one operation (the default if nothing else is asked for)");
  command.add_option("--seq2", sets.seq2_count, "so many sequences of two operations, by the seed")->type_name("N");
  command.add_option("--random", sets.random_count, "so many sequences of three or four operations, by the seed")
      ->type_name("N");
  command
      .add_option("--litmus", sets.litmus,
                  "every program in C of this directory that has main() and crashcut_recover(), with the arguments of "
                  "the first `run:` in its opening comment")
      ->type_name("DIRECTORY");
  command
      .add_option("--program", sets.programs,
                  "this program with main() and crashcut_recover(), its arguments behind blanks; may be given more "
                  "than once")
      ->type_name("'PROG ARG...'")
      ->allow_extra_args(false);
  command.add_option("--call", sets.calls, "this sequence only, a call each: mkdir:A barrier creat:A/foo sync")
      ->type_name("CALL");
  command.add_option("--every", sets.step, "take every Nth of each set only, but every --program")
      ->type_name("N")
      ->check(whole_between(1, 1000000));
  command.add_option("--most", sets.limit, "take at most so many of each set")->type_name("N");
  command.add_option("--seed", sets.seed, "of the samples and of the images (default: 0)")->type_name("N");
}

void add_tables(CLI::App& command, ConformOptions& options) {
  command.add_flag("--slack", options.shows_slack,
                   "print what the model allows and the kernel did not show, with the rule that allows it");
  command.add_option("--report", options.report, "write the table to this file")->type_name("FILE");
  command
      .add_option("--update", options.update,
                  "put the table between the lines <!-- conform --> and <!-- conform: end --> of this file")
      ->type_name("FILE");
  command
      .add_option("--table", options.table,
                  "with --update: between the lines <!-- conform NAME --> and <!-- conform NAME: end -->")
      ->type_name("NAME");
}

}  // namespace

void add_conform_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ConformOptions>();
  CLI::App* command = app.add_subcommand(
      kConformCommand, "is every state that the kernel's ext4 shows one that the model allows? needs root");
  command->formatter(usage_formatter("crashcut conform [options]"));
  command
      ->add_option("-o", options->plan.mounts,
                   "mount options for both sides: data=journal, nodelalloc (default: data=ordered); may be given more "
                   "than once, a row each")
      ->type_name("OPTIONS")
      ->allow_extra_args(false);
  add_sets(*command, options->plan.sets);
  command->add_option("--runs", options->plan.runs, "runs on the kernel a program (default: 4)")
      ->type_name("N")
      ->check(whole_between(1, 100000));
  command->add_option("--subsets", options->plan.subsets, "images between two flushes, at most (default: 32)")
      ->type_name("N")
      ->check(whole_between(2, 1u << 20));
  command->add_option("--time", options->time_s, "stop after so long")
      ->type_name("SECONDS")
      ->check(real_between(0.001, kTimeMost_s));
  command->add_option("--jobs", options->jobs, "programs at a time (default: four a core, as each mostly waits)")
      ->type_name("N")
      ->check(whole_between(1, 64));
  add_memory_limit(*command);
  add_tables(*command, *options);
  add_document_options(*command, options->reports);
  add_out_option(
      *command, options->reports,
      "for the results: the report, images outside of the model, what --resume needs (default: crashcut.out/N "
      "if there is something to keep)");
  add_resume_option(*command, options->resume);
  command->footer(
      "A state that the kernel shows and the model does not allow is a bug of the model. The first image of\n"
      "each is kept: crashcut replay mounts it again and compares.\n\n"
      "Exit codes: 0 all states are allowed, 1 some are not, 2 wrong use, 3 a bound was hit or it was\n"
      "interrupted, and all states until then are allowed, 4 crashcut's own failure");
  command->callback([command, options, &exit_code] {
    const auto run = [&]() -> tl::expected<int, Failure> {
      if (options->resume.empty()) return start(*options);
      if (auto ok = check_beside_resume(*command, {"--report", "--update", "--table", "--slack"}); !ok)
        return tl::unexpected(ok.error());
      return resume(*options);
    };
    const auto code = run();
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
