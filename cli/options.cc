#include "cli/options.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <charconv>
#include <sstream>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/suggestions.h"
#include "recovery/inprocess/protocol.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;

constexpr std::uint32_t kDepthMost = 64;
constexpr std::size_t kHelpColumn = 36, kHelpWidth = 100;
constexpr std::uint32_t kBytesMost = 1 << 20;
constexpr double kTimeMost_s = 1e9;
constexpr std::uint64_t kLimitMost_s = 1'000'000'000;

constexpr std::string_view kHiddenSeparator = "\x01--";

// In lines that fit into the column of descriptions; CLI11 indents them.
std::string wrapped(const std::string& description) {
  std::string text, line;
  std::istringstream words(description);
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kHelpWidth - kHelpColumn) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return text + line;
}

class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) { column_width(kHelpColumn); }
  std::string make_usage(const CLI::App*, std::string) const override { return "\nUsage: " + usage_ + "\n"; }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::stringstream out;
    CLI::detail::format_help(out, "  " + command->get_name(), wrapped(command->get_description()), kHelpColumn);
    return out.str();
  }

 private:
  std::string usage_;
};

template <class Number>
CLI::Validator between(Number least, Number most) {
  return CLI::Validator(
      [=](const std::string& text) {
        Number value{};
        // CLI11 takes "-5" for an unsigned number, and the largest for what is larger.
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool fits = error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most;
        return fits ? "" : fmt::format("'{}' is not a number from {} to {}", text, least, most);
      },
      "");
}

void add_search_options(CLI::App& command, Options& options) {
  command.add_option("--depth", options.depth, "crashes in a row: 2 crashes recovery too (default: 1)")
      ->type_name("N")
      ->check(between(std::uint32_t{1}, kDepthMost));
  command.add_option("--max-recoveries", options.max_recoveries, "stop after so many recoveries")
      ->type_name("N")
      ->check(between(std::uint64_t{1}, ~std::uint64_t{0}));
  command.add_option("--time", options.time_s, "stop after so long")
      ->type_name("SECONDS")
      ->check(between(0.001, kTimeMost_s));
  command.add_option("--jobs", options.jobs, "recoveries at a time (default: one a core)")
      ->type_name("N")
      ->check(between(std::uint32_t{1}, inprocess::kJobsMost));
  command.add_option("--seed", options.seed, "try states in another order, where a bound ends the search (default: 0)")
      ->type_name("N")
      ->check(between(std::uint64_t{0}, ~std::uint64_t{0}));
  add_memory_limit(command);
  add_report_options(command, options.reports);
}

tl::expected<fusefs::ModelOptions, std::string> make_model(const Options& options, std::string_view profile,
                                                           std::string_view data_mode) {
  fusefs::ModelOptions model;
  const auto name = fusefs::parse_profile(profile);
  if (!name) return tl::unexpected(name.error());
  const auto mode = fusefs::parse_data_mode(data_mode);
  if (!mode) return tl::unexpected(mode.error());
  model.profile = *name;
  model.data = *mode;
  model.sector_bytes = options.sector_bytes;
  model.block_bytes = options.block_bytes;
  for (const std::string& list : options.mount_options) {
    if (auto ok = fusefs::parse_mount_options(list, model); !ok)
      return tl::unexpected(ok.error() + ". (--out DIR is where the results go.)");
  }
  if (auto ok = fusefs::check_geometry(model); !ok) return tl::unexpected(ok.error());
  return model;
}

}  // namespace

tl::expected<std::string, Failure> absolute_directory(const std::string& named) {
  if (named.empty()) return named;
  boost::system::error_code error;
  if (!fs::is_directory(named, error)) {
    const std::string why = error ? error.message() : "it is not a directory";
    return result::wrong_use(fmt::format("Cannot start from {}: {}. --from names it.", named, why));
  }
  return fs::canonical(named).string();
}

std::shared_ptr<CLI::Formatter> usage_formatter(const std::string& usage) {
  return std::make_shared<UsageFormatter>(usage);
}

void add_model_options(CLI::App& command, Options& options) {
  command.add_option("--profile", options.profiles, "the model: ext4 (what today's kernel does; default), or paper")
      ->type_name("paper|ext4")
      ->allow_extra_args(false);
  command.add_option("--data", options.data_modes, "journaling mode (default: ordered)")
      ->type_name("ordered|journal|writeback")
      ->allow_extra_args(false);
  command.add_option("-o", options.mount_options, "mount options, e.g. nodelalloc,noauto_da_alloc,barrier=0")
      ->type_name("OPTS")
      ->allow_extra_args(false);
  command.add_option("--sector", options.sector_bytes, "what the disk writes in one piece (default: 512)")
      ->type_name("BYTES")
      ->check(between(std::uint32_t{1}, kBytesMost));
  command.add_option("--block", options.block_bytes, "the filesystem's block (default: 4096)")
      ->type_name("BYTES")
      ->check(between(std::uint32_t{1}, kBytesMost));
  command.add_option("--from", options.from_directory, "copy this tree onto the disk first (default: an empty disk)")
      ->type_name("DIR");
}

void add_options(CLI::App& command, Options& options) {
  command.formatter(usage_formatter(fmt::format("crashcut {} [options] prog [args...]", command.get_name())));
  command.prefix_command();
  add_model_options(command, options);
  add_search_options(command, options);
}

void add_main_limit(CLI::App& command, Options& options) {
  command
      .add_option("--main-limit", options.main_limit_s,
                  fmt::format("how long main() may take (default: {})", recovery::kMainLimit.count()))
      ->type_name("SECONDS")
      ->check(between(std::uint64_t{1}, kLimitMost_s));
}

void add_recovery_limit(CLI::App& command, Options& options) {
  command
      .add_option("--recovery-limit", options.recovery_limit_s,
                  fmt::format("how long one recovery may take; longer is a violation (default: {})",
                              recovery::kRecoveryLimit.count()))
      ->type_name("SECONDS")
      ->check(between(std::uint64_t{1}, kLimitMost_s));
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> hide_separators(std::vector<std::string> words) {
  std::replace(words.begin(), words.end(), std::string("--"), std::string(kHiddenSeparator));
  return words;
}

std::vector<std::string> show_separators(std::vector<std::string> words) {
  std::replace(words.begin(), words.end(), std::string(kHiddenSeparator), std::string("--"));
  return words;
}

std::vector<std::string> program_words(const CLI::App& command, std::string_view what) {
  std::vector<std::string> words = command.remaining();
  if (!words.empty() && words[0] == kHiddenSeparator) {
    words.erase(words.begin());
  } else if (!words.empty() && words[0].starts_with('-')) {
    const std::string name = words[0].substr(0, words[0].find('='));
    throw CLI::ParseError(
        fmt::format("{} has no option {}.{}", command.get_name(), name, suggestion(name, option_names(command))), 2);
  }
  if (words.empty() || words[0].empty())
    throw CLI::ParseError(fmt::format("{} needs a {}.", command.get_name(), what), 2);
  return show_separators(std::move(words));
}

// Whether a search that is gone on with takes this option as it is given now: bounds, and where reports go.
static bool may_differ(const std::string& option) {
  static constexpr std::string_view kOptions[] = {
      "--resume", "--time",     "--max-recoveries", "--max-executions", "--memory-limit", "--jobs", "--json",
      "--junit",  "--outcomes", "--quiet",          "--help",           "--github",       "--html"};
  return std::find(std::begin(kOptions), std::end(kOptions), option) != std::end(kOptions);
}

std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();  // "-o", "--file"
    if (may_differ(name)) continue;
    const bool is_flag = option->get_items_expected_max() == 0;
    for (const std::string& value : option->results()) {
      words.push_back(name);
      if (!is_flag) words.push_back(value);
    }
  }
  const std::vector<std::string> program = program_words(command);
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

tl::expected<recovery::Plan, Failure> make_plan(const Options& options, std::string_view profile,
                                                std::string_view data_mode) {
  auto model = make_model(options, profile, data_mode);
  if (!model) return tl::unexpected(Failure{result::Blame::kUser, model.error()});
  auto from = absolute_directory(options.from_directory);
  if (!from) return tl::unexpected(from.error());
  recovery::Plan plan;
  plan.model = *model;
  plan.from_named = options.from_directory;
  plan.from_directory = *from;
  plan.depth = options.depth;
  plan.seed = options.seed;
  plan.max_recoveries = options.max_recoveries;
  plan.time_limit = std::chrono::duration<double>(options.time_s);
  plan.main_limit = std::chrono::seconds(options.main_limit_s);
  plan.recovery_limit = std::chrono::seconds(options.recovery_limit_s);
  plan.crashcut = our_name();
  plan.memory_limit = memory_limit();
  plan.jobs = options.jobs == 0 ? count_cores() : options.jobs;
  plan.wants_states = options.reports.wants_page();
  plan.wants_all_states = !options.reports.html_file.empty();
  return plan;
}

tl::expected<recovery::Plan, Failure> make_plan(const Options& options) {
  const auto several = [](const char* option) {
    return tl::unexpected(Failure{
        result::Blame::kUser, fmt::format("{} was given more than once: crashcut compare is for several.", option)});
  };
  if (options.profiles.size() > 1) return several("--profile");
  if (options.data_modes.size() > 1) return several("--data");
  return make_plan(options, options.profiles.empty() ? "ext4" : options.profiles[0],
                   options.data_modes.empty() ? "ordered" : options.data_modes[0]);
}

CLI::Validator whole_between(std::uint64_t least, std::uint64_t most) { return between(least, most); }
CLI::Validator real_between(double least, double most) { return between(least, most); }

std::uint32_t count_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp<std::uint32_t>(static_cast<std::uint32_t>(CPU_COUNT(&set)), 1, inprocess::kJobsMost);
}

void add_resume_option(CLI::App& command, std::string& directory) {
  command
      .add_option(
          "--resume", directory,
          "go on with a search that was stopped, by the directory of its results; --time and the like may differ")
      ->type_name("DIR");
}

tl::expected<void, Failure> check_beside_resume(const CLI::App& command, const std::vector<std::string>& more) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool is_allowed = may_differ(name) || std::find(more.begin(), more.end(), name) != more.end();
    if (option->count() > 0 && !is_allowed) {
      return result::wrong_use(fmt::format(
          "--resume goes on with the program and the options that the search had: {} cannot be given with it.", name));
    }
  }
  if (command.remaining().empty()) return {};
  return result::wrong_use(
      fmt::format("--resume goes on with the program that the search had: {} cannot be given with it.",
                  command.remaining().front()));
}

}  // namespace crashcut::cli
