// crashcut run: every recovery of one program under one model.
#include "cli/commands.h"
#include "cli/program_command.h"

namespace crashcut::cli {

void add_run_command(CLI::App& app, int& exit_code) {
  add_program_command(
      app, exit_code,
      {.name = "run",
       .description = "run a program's recovery on every state that a crash can leave",
       .footer = "prog is an executable with main() and crashcut_recover() (see crashcut.h), or its source\n"
                 "(.c, .cc, .cpp), which is compiled first. It starts on the modelled disk.\n\n"
                 "Example: crashcut run --data writeback --outcomes save.c notes.txt\n\n"});
}

}  // namespace crashcut::cli
