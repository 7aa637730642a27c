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

int parse_and_run(CLI::App& app, std::vector<std::string> words) try {
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  app.parse(std::move(words));
  return 0;
} catch (const CLI::Success& help) {
  return app.exit(help);
} catch (const CLI::ExtrasError& error) {
  std::string meant;
  for (const CLI::App* command : app.get_subcommands()) {
    for (const std::string& word : command->remaining()) {
      if (meant.empty()) meant = suggestion(word, option_names(*command));
    }
  }
  fmt::print(stderr, "crashcut: {}.{}\nSee crashcut --help, and crashcut COMMAND --help.\n", error.what(), meant);
  return 2;
} catch (const CLI::ParseError& error) {
  fmt::print(stderr, "crashcut: {}\nSee crashcut --help, and crashcut COMMAND --help.\n", error.what());
  return 2;
}

std::vector<std::string> command_names(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// "help check" is "check --help".
std::vector<std::string> with_help_last(std::vector<std::string> words) {
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.resize(std::min<std::size_t>(words.size(), 1));
  words.emplace_back("--help");
  return words;
}

int run(const std::vector<std::string>& typed) {
  const std::vector<std::string> words = with_help_last(typed);
  CLI::App app(kSummary);
  app.formatter(usage_formatter("crashcut COMMAND ..."));
  app.footer(std::string("crashcut help COMMAND tells more of a command.\n\n"
                         "Example: crashcut run save.c, where save.c has main() and crashcut_recover()\n\n") +
             kExitCodes);
  app.set_version_flag("-V,--version", "crashcut " CRASHCUT_VERSION);
  int exit_code = 0;
  add_check_command(app, exit_code);
  add_run_command(app, exit_code);
  add_replay_command(app, exit_code);
  add_compare_command(app, exit_code);
  add_mark_command(app, exit_code);
  add_mount_command(app, exit_code);
  add_crash_command(app, exit_code);
  add_threads_command(app, exit_code);
  add_gdb_command(app, exit_code);
  add_flags_command(app, exit_code);
  const std::vector<std::string> commands = command_names(app);
  const bool is_known = !words.empty() && (words[0].starts_with('-') ||
                                           std::find(commands.begin(), commands.end(), words[0]) != commands.end());
  if (!is_known) {
    fmt::print(stderr, "{}", app.help());
    if (!words.empty())
      fmt::print(stderr, "\ncrashcut: there is no command {}.{}\n", words[0], suggestion(words[0], commands));
    return 2;
  }
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
