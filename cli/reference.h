// Reference: what --help is made of, as completions for shells and as a manual page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace crashcut::cli {

// An option of a command, or of crashcut itself.
struct OptionEntry {
  std::vector<std::string> names;  // "--file", "-o"
  std::string value;               // "FILE", "any|prefix|none"; empty: it takes none
  std::string text;

  // The words that it takes, if there are only these.
  std::vector<std::string> choices() const;
  bool takes_path() const;
};

struct CommandEntry {
  std::string name;
  std::string text;    // in a line
  std::string usage;   // "crashcut run [options] prog [args...]"
  std::string footer;  // more of it: examples, exit codes
  std::vector<OptionEntry> options;
};

// The commands of `app`, in its order; behind them crashcut itself, without a name.
std::vector<CommandEntry> commands_of(const CLI::App& app);

std::string bash_completion(const std::vector<CommandEntry>& commands);
std::string zsh_completion(const std::vector<CommandEntry>& commands);
std::string fish_completion(const std::vector<CommandEntry>& commands);
// In roff, section 1.
std::string manual_page(const std::vector<CommandEntry>& commands, const std::string& version);

}  // namespace crashcut::cli
