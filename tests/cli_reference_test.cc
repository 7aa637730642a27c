// crashcut: completions of shells and the manual page say what --help says.
#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

using Words = std::vector<std::string>;

class ReferenceTest : public CliTest {
 protected:
  std::string made(const std::string& what) {
    const Ran run = crashcut({"completion", what});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  }
  // "check", "run", ...: the words in the first column below "Subcommands:".
  Words commands() {
    std::istringstream lines(crashcut({"--help"}).out);
    Words names;
    bool is_list = false;
    for (std::string line; std::getline(lines, line);) {
      if (is_list && line.empty()) break;
      if (is_list && line.starts_with("    ") && line[4] != ' ') names.push_back(line.substr(4, line.find(' ', 4) - 4));
      is_list = is_list || line.starts_with("Subcommands");
    }
    return names;
  }
  // "--file", "-o": all that its --help lists below "Options:".
  Words options(const std::string& command) {
    std::istringstream lines(crashcut({command, "--help"}).out);
    Words names;
    bool is_list = false;
    for (std::string line; std::getline(lines, line);) {
      if (is_list && line.empty()) break;
      is_list = is_list || line == "Options:";
      if (!is_list || !line.starts_with("  -")) continue;
      std::string name = line.substr(2, line.find(' ', 2) - 2);
      std::istringstream both(name);
      while (std::getline(both, name, ',')) names.push_back(name);
    }
    return names;
  }
  bool has_program(const std::string& name) { return shell("command -v " + name).exit_code == 0; }
  Ran shell(const std::string& script) {
    std::ofstream(directory_ / "script") << script << "\n";
    const std::string command = "cd " + directory_.string() + " && bash script > out 2> err";
    const int status = std::system(command.c_str());
    return Ran{WEXITSTATUS(status), read_file(directory_ / "out"), read_file(directory_ / "err")};
  }
  // What bash offers for the last of the words.
  Words completed(const Words& words) {
    std::string script = "source completion; COMP_WORDS=(";
    for (const std::string& word : words) script += "'" + word + "' ";
    script += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
              "; _crashcut; for word in \"${COMPREPLY[@]}\"; do echo \"$word\"; done";
    std::istringstream lines(shell(script).out);
    Words found;
    for (std::string line; std::getline(lines, line);) found.push_back(line);
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_F(ReferenceTest, HasEveryCommandAndOptionOfHelp) {
  const std::string bash = made("bash"), zsh = made("zsh"), fish = made("fish"), man = made("man");
  const Words all = commands();
  EXPECT_GT(all.size(), 12u);
  for (const std::string& command : all) {
    SCOPED_TRACE(command);
    EXPECT_NE(bash.find("    " + command + ")\n"), std::string::npos);
    EXPECT_NE(zsh.find("    '" + command + ":"), std::string::npos);
    EXPECT_NE(fish.find(" -a " + command + " -d "), std::string::npos);
    EXPECT_NE(man.find(".SS " + command + "\n"), std::string::npos);
    const std::size_t in_bash = bash.find("    " + command + ")\n"), in_zsh = zsh.find("    " + command + ")\n"),
                      in_man = man.find(".SS " + command + "\n");
    for (const std::string& option : options(command)) {
      const std::string bare = option.substr(option.find_first_not_of('-'));
      EXPECT_NE(bash.substr(bash.find("options='", in_bash), 4000).find(option), std::string::npos) << option;
      EXPECT_NE(zsh.find("'*" + option + "[", in_zsh), std::string::npos) << option;
      EXPECT_NE(fish.find(" -n '__fish_seen_subcommand_from " + command + "'"), std::string::npos) << option;
      EXPECT_NE(fish.find((option.starts_with("--") ? " -l " : " -s ") + bare), std::string::npos) << option;
      std::string in_roff;
      for (const char c : option) in_roff += c == '-' ? "\\-" : std::string(1, c);
      EXPECT_NE(man.find("\\fB" + in_roff + "\\fR", in_man), std::string::npos) << option;
    }
  }
}

TEST_F(ReferenceTest, BashCompletes) {
  std::ofstream(directory_ / "completion") << made("bash");
  std::ofstream(directory_ / "save.c") << "";
  EXPECT_EQ(completed({"crashcut", "che"}), Words{"check"});
  EXPECT_EQ(completed({"crashcut", "help", "comp"}), (Words{"compare", "completion"}));
  EXPECT_EQ(completed({"crashcut", "run", "--jo"}), Words{"--jobs"});
  EXPECT_EQ(completed({"crashcut", "check", "--tear", ""}), (Words{"any", "none", "prefix"}));
  EXPECT_EQ(completed({"crashcut", "run", "--seed", ""}), Words{});
  EXPECT_EQ(completed({"crashcut", "run", "sa"}), Words{"save.c"});
  EXPECT_EQ(completed({"crashcut", "run", "--json", "sa"}), Words{"save.c"});
  const Words programs = completed({"crashcut", "check", "--", "bas"});
  EXPECT_NE(std::find(programs.begin(), programs.end(), "bash"), programs.end());
}

// Each is read by the program that it is for, as far as that is installed.
TEST_F(ReferenceTest, IsUnderstood) {
  for (const char* what : {"bash", "zsh", "fish", "man"}) std::ofstream(directory_ / what) << made(what);
  struct Row {
    const char *program, *command;
  };
  Words missing;
  for (const Row& row : {Row{"bash", "bash -n bash"}, Row{"zsh", "zsh -n zsh"}, Row{"fish", "fish --no-execute fish"},
                         Row{"groff", "groff -man -ww -z man"}}) {
    if (!has_program(row.program)) {
      missing.emplace_back(row.program);
      continue;
    }
    const Ran run = shell(row.command);
    EXPECT_EQ(run.exit_code, 0) << row.command;
    EXPECT_EQ(run.out + run.err, "") << row.command;
  }
  if (!missing.empty()) GTEST_SKIP() << "not installed: " << testing::PrintToString(missing);
}

TEST_F(ReferenceTest, RefusesOtherShells) {
  expect_refused({"completion", "tcsh"}, "tcsh");
  expect_refused({"completion"}, "completion needs bash|zsh|fish|man");
}

}  // namespace
}  // namespace crashcut
