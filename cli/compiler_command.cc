// crashcut cc, crashcut cxx: a compiler for programs whose memory crashcut is to see.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/commands.h"
#include "cli/compiler.h"
#include "cli/options.h"

namespace crashcut::cli {
namespace {

constexpr const char* kHelp =
    "Usage: crashcut {0} --pmem [--late] [--allow-asm=TEXT] WORDS...\n\n"
    "{1} that instruments accesses to memory for crashcut pmem. All other words are clang's.\n"
    "The program also runs without crashcut.\n\n"
    "  --pmem            for programs with persistent memory (needed)\n"
    "  --late            instrument after optimisation instead of before\n"
    "  --allow-asm=TEXT  leave assembly that contains TEXT as it is, unseen\n\n"
    "clang 14 is CRASHCUT_CLANG, clang-14 or clang.\n\n"
    "Example: crashcut {0} --pmem -g -O2 tree.{2} -o tree && crashcut pmem ./tree\n"
    "         CC=\"crashcut cc --pmem\" CXX=\"crashcut cxx --pmem\" cmake -B build\n";

struct Words {
  bool is_for_pmem = false;
  Instrumentation instrumentation;
  std::vector<std::string> of_clang;
};

// Ours can stand anywhere: build systems add words before and after theirs.
Words sort_words(const std::vector<std::string>& words) {
  constexpr std::string_view kAllow = "--allow-asm=";
  Words sorted;
  for (const std::string& word : words) {
    if (word == "--pmem") {
      sorted.is_for_pmem = true;
    } else if (word == "--late") {
      sorted.instrumentation.is_late = true;
    } else if (word.starts_with(kAllow)) {
      sorted.instrumentation.allowed_assembly.push_back(word.substr(kAllow.size()));
    } else {
      sorted.of_clang.push_back(word);
    }
  }
  return sorted;
}

int execute(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  fmt::print(stderr, "crashcut: Cannot run the compiler {}: {}.\n", command[0], std::strerror(errno));
  return 4;
}

int compile(const std::string& name, const std::vector<std::string>& words) {
  const bool is_cxx = name == "cxx";
  const Words sorted = sort_words(words);
  const bool asks_for_help = words.empty() || words == std::vector<std::string>{"--help"};
  if (asks_for_help || !sorted.is_for_pmem) {
    if (!asks_for_help) fmt::print(stderr, "crashcut: {} needs --pmem.\n\n", name);
    fmt::print(asks_for_help && !words.empty() ? stdout : stderr, kHelp, name, is_cxx ? "clang++" : "clang",
               is_cxx ? "cpp" : "c");
    return asks_for_help && !words.empty() ? 0 : 2;
  }
  auto command = pmem_compiler(is_cxx, sorted.instrumentation, sorted.of_clang);
  return command ? execute(std::move(*command)) : report_failure(command.error());
}

void add_compiler_command(CLI::App& app, const std::string& name, const std::string& what, int& exit_code) {
  CLI::App* command = app.add_subcommand(name, what);
  command->prefix_command();
  command->set_help_flag();  // --help is clang's if there are other words
  command->callback([command, name, &exit_code] { exit_code = compile(name, show_separators(command->remaining())); });
}

}  // namespace

void add_cc_command(CLI::App& app, int& exit_code) {
  add_compiler_command(app, "cc", "compile C so that crashcut pmem sees its memory: crashcut cc --pmem ...", exit_code);
}

void add_cxx_command(CLI::App& app, int& exit_code) {
  add_compiler_command(app, "cxx", "compile C++ so that crashcut pmem sees its memory: crashcut cxx --pmem ...",
                       exit_code);
}

}  // namespace crashcut::cli
