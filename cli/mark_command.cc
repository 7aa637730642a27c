// crashcut mark: a promise, made by a script that crashcut checks.
#include <fmt/format.h>

#include <cerrno>

#include "cli/commands.h"
#include "cli/options.h"
#include "include/crashcut.h"

namespace crashcut::cli {

void add_mark_command(CLI::App& app, int& exit_code) {
  auto text = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("mark", "in a program that crashcut check runs: what was promised is durable from here on");
  command->add_option("text", *text, "what to call this moment")->required()->type_name("TEXT");
  command->formatter(usage_formatter("crashcut mark TEXT"));
  command->footer("Exit codes: 0 done, 2 not running under crashcut check");
  command->callback([text, &exit_code] {
    const long result =
        syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MARK, text->c_str(), static_cast<long>(text->size()));
    if (result == 0) return;
    if (errno == ENAMETOOLONG) {
      fmt::print(stderr, "crashcut: The text of this mark is too long.\n");
      exit_code = 2;
      return;
    }
    fmt::print(stderr, "crashcut: mark has a meaning only in a program that crashcut check runs.\n");
    exit_code = 2;
  });
}

}  // namespace crashcut::cli
