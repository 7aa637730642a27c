// crashcut completion: what shells and man know of crashcut, made from what --help is made of.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reference.h"

namespace crashcut::cli {

void add_completion_command(CLI::App& app, int& exit_code) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "print the completion of a shell, or the manual page");
  command->formatter(usage_formatter("crashcut completion bash|zsh|fish|man"));
  command->add_option("what", *what, "which of them")
      ->type_name("bash|zsh|fish|man")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish", "man"}).description(""));
  command->footer(
      "An install has them where shells and man look. By hand:\n"
      "  source <(crashcut completion bash)\n"
      "  crashcut completion zsh > \"${fpath[1]}/_crashcut\"\n"
      "  crashcut completion fish > ~/.config/fish/completions/crashcut.fish\n"
      "  crashcut completion man | man -l -\n");
  command->callback([&app, what, &exit_code] {
    const std::vector<CommandEntry> commands = commands_of(app);
    fmt::print("{}", *what == "bash"   ? bash_completion(commands)
                     : *what == "zsh"  ? zsh_completion(commands)
                     : *what == "fish" ? fish_completion(commands)
                                       : manual_page(commands, CRASHCUT_VERSION));
    exit_code = 0;
  });
}

}  // namespace crashcut::cli
