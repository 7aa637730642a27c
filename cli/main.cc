// crashcut: pulls the plug on a program at every moment that matters.
#include <fmt/format.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/suggestions.h"
#include "cli/thread_commands.h"

namespace crashcut::cli {

namespace {

constexpr const char* kSummary =
    "crashcut pulls the plug on a program at every moment that matters, and shows what the program\n"
    "finds when the power comes back.";

// The command that CLI11 had recognised when it stopped; null: none.
const CLI::App* command_of(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? nullptr : commands.front();
}

// `command` may be null.
int report_wrong_use(const CLI::App* command, const std::string& sentence) {
  fmt::print(stderr, "crashcut: {}\nSee crashcut {}--help.\n", sentence,
             command == nullptr ? "" : command->get_name() + " ");
  return 2;
}

// "replay needs TOKEN|DIR: a token, or a directory of results, copied from anywhere".
std::string missing_word(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->count() == 0)
      return fmt::format("{} needs {}: {}.", command.get_name(), option->get_type_name(), option->get_description());
  }
  return command.get_name() + " needs more words.";
}

int parse_and_run(CLI::App& app, std::vector<std::string> words) try {
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  app.parse(std::move(words));
  return 0;
} catch (const CLI::Success& help) {
  return app.exit(help);
} catch (const CLI::RequiredError& error) {
  const CLI::App* command = command_of(app);
  return report_wrong_use(command, command == nullptr ? error.what() : missing_word(*command));
} catch (const CLI::ExtrasError& error) {
  std::string meant;
  for (const CLI::App* command : app.get_subcommands()) {
    for (const std::string& word : command->remaining()) {
      if (meant.empty()) meant = suggestion(word, option_names(*command));
    }
  }
  return report_wrong_use(command_of(app), fmt::format("{}.{}", error.what(), meant));
} catch (const CLI::ParseError& error) {
  return report_wrong_use(command_of(app), error.what());
}

// "--file" right before "--": CLI11 would take that for the value. Empty: there is none. What follows the program is
// the program's.
std::string option_without_value(const CLI::App& command, const std::vector<std::string>& words) {
  for (std::size_t i = 1; i + 1 < words.size() && words[i].starts_with('-') && words[i] != "--"; ++i) {
    const CLI::Option* option = command.get_option_no_throw(words[i]);
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    if (words[++i] == "--") return fmt::format("{} needs {} before --.", words[i - 1], option->get_type_name());
  }
  return "";
}

struct Command {
  const char* name;
  void (*add)(CLI::App& app, int& exit_code);
};

// In the order in which --help lists them.
constexpr Command kCommands[] = {
    {"check", add_check_command},     {"run", add_run_command},
    {"pmem", add_pmem_command},       {"replay", add_replay_command},
    {"compare", add_compare_command}, {"conform", add_conform_command},
    {"mark", add_mark_command},       {"mount", add_mount_command},
    {"crash", add_crash_command},     {"threads", add_threads_command},
    {"cxl", add_cxl_command},         {"gdb", add_gdb_command},
    {"flags", add_flags_command},     {"cc", add_cc_command},
    {"cxx", add_cxx_command},         {"completion", add_completion_command},
};

// The options of all commands take a millisecond to make: only those of the command that is called are made, but for
// --help, and for `completion`, which tells of all.
void add_commands(CLI::App& app, const std::string& called, int& exit_code) {
  const bool is_of_all = called.starts_with('-') || called.empty() || called == "completion";
  for (const Command& command : kCommands) {
    if (is_of_all || called == command.name) command.add(app, exit_code);
  }
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return names;
}

// "help check" is "check --help", "help" and "help help" are "--help", and "version" is "--version".
std::vector<std::string> as_options(std::vector<std::string> words) {
  if (words.empty()) return words;
  if (words[0] == "version") return {"--version"};
  if (words[0] != "help") return words;
  if (words.size() == 1 || words[1] == "help") return {"--help"};
  return {words[1], "--help"};
}

int run(const std::vector<std::string>& typed) {
  const std::vector<std::string> words = as_options(typed);
  CLI::App app(kSummary);
  app.formatter(usage_formatter("crashcut COMMAND ..."));
  app.footer(std::string("crashcut help COMMAND tells more of a command.\n\n"
                         "Example: crashcut run save.c, where save.c has main() and crashcut_recover()\n\n") +
             kExitCodes);
  app.set_version_flag("-V,--version", "crashcut " CRASHCUT_VERSION);
  int exit_code = 0;
  add_commands(app, words.empty() ? "" : words[0], exit_code);
  const std::vector<std::string> commands = command_names();
  const bool is_known = !words.empty() && (words[0].starts_with('-') ||
                                           std::find(commands.begin(), commands.end(), words[0]) != commands.end());
  if (words.empty()) {
    fmt::print(stderr, "{}", app.help());
    return 2;
  }
  if (!is_known)
    return report_wrong_use(nullptr,
                            fmt::format("there is no command {}.{}", words[0], suggestion(words[0], commands)));
  const CLI::App* command = words[0].starts_with('-') ? nullptr : app.get_subcommand(words[0]);
  if (const std::string missing = command == nullptr ? "" : option_without_value(*command, words); !missing.empty())
    return report_wrong_use(command, missing);
  const int parsed = parse_and_run(app, hide_separators(words));
  return parsed != 0 ? parsed : exit_code;
}

}  // namespace

}  // namespace crashcut::cli

int main(int argc, char** argv) try {
  // What our caller left open must not reach the program: its descriptors would have other numbers next time, and a
  // token would not fit.
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  crashcut::cli::install_interrupts();
  crashcut::cli::our_name() = argc > 0 ? argv[0] : "crashcut";
  return crashcut::cli::run({argv + std::min(argc, 1), argv + argc});
} catch (const std::exception& error) {
  fmt::print(stderr, "crashcut: crashcut itself failed: {}\n", error.what());
  return 4;
}
