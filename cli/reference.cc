#include "cli/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace crashcut::cli {
namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

// In single quotes, for any of the shells.
std::string in_quotes(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry;
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  if (option.get_type_size() != 0) entry.value = option.get_type_name();
  entry.text = option.get_description();
  return entry;
}

CommandEntry entry_of(const CLI::App& app) {
  CommandEntry entry{app.get_name(), app.get_description(), "", app.get_footer()};
  constexpr std::string_view kUsage = "Usage: ";
  const std::string help = app.help();
  const std::size_t at = help.find(kUsage) + kUsage.size();
  entry.usage = help.substr(at, help.find('\n', at) - at);
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty() || option->get_positional()) continue;  // hidden; a word
    entry.options.push_back(entry_of(*option));
  }
  return entry;
}

std::string all_names(const CommandEntry& command) {
  std::vector<std::string> names;
  for (const OptionEntry& option : command.options) names.insert(names.end(), option.names.begin(), option.names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

// ---- bash -------------------------------------------------------------------------------------------------------

// What may follow an option, as the answer of a case on it.
std::string bash_values(const CommandEntry& command) {
  std::string text;
  for (const OptionEntry& option : command.options) {
    if (option.value.empty()) continue;
    const auto choices = option.choices();
    const std::string reply = !choices.empty()      ? fmt::format("COMPREPLY=($(compgen -W {} -- \"$current\"))",
                                                                  in_quotes(fmt::format("{}", fmt::join(choices, " "))))
                              : option.takes_path() ? "COMPREPLY=($(compgen -f -- \"$current\"))"
                                                    : "COMPREPLY=()";
    text += fmt::format("        {}) {}; return ;;\n", fmt::join(option.names, "|"), reply);
  }
  return text;
}

// ---- roff -------------------------------------------------------------------------------------------------------

std::string roff(const std::string& text) {
  std::string escaped = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  // A line that begins with a dot or a quote would be a request.
  escaped = replaced(replaced(escaped, "\n.", "\n\\&."), "\n'", "\n\\&'");
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string roff_options(const CommandEntry& command) {
  std::string text;
  for (const OptionEntry& option : command.options) {
    std::string names;
    for (const std::string& name : option.names)
      names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
    if (!option.value.empty()) names += fmt::format(" \\fI{}\\fR", roff(option.value));
    text += fmt::format(".TP\n{}\n{}\n", names, roff(option.text));
  }
  return text;
}

std::string roff_lines(const std::string& lines) {
  return lines.empty() ? "" : fmt::format(".PP\n.nf\n{}\n.fi\n", roff(lines));
}

}  // namespace

std::vector<std::string> OptionEntry::choices() const {
  const bool is_list = value.find('|') != std::string::npos && value.find_first_of("[<: ") == std::string::npos;
  auto words = is_list ? parts_of(value, '|') : std::vector<std::string>();
  // A word in capitals stands for something.
  const auto is_placeholder = [](const std::string& word) {
    return std::any_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  };
  if (std::any_of(words.begin(), words.end(), is_placeholder)) words.clear();
  return words;
}

bool OptionEntry::takes_path() const {
  return value == "FILE" || value == "DIR" || value == "DIRECTORY" || value == "PATH" || value == "COMMAND";
}

std::vector<CommandEntry> commands_of(const CLI::App& app) {
  std::vector<CommandEntry> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(entry_of(*command));
  commands.push_back(entry_of(app));
  return commands;
}

std::string bash_completion(const std::vector<CommandEntry>& commands) {
  std::string names, cases;
  for (const CommandEntry& command : commands) {
    if (command.name.empty()) continue;
    names += command.name + " ";
    const std::string values = bash_values(command);
    cases += fmt::format("    {})\n", command.name);
    if (!values.empty()) cases += fmt::format("      case $previous in\n{}      esac\n", values);
    cases += fmt::format("      options={} ;;\n", in_quotes(all_names(command)));
  }
  return fmt::format(
      "# Completion of crashcut for bash: made by `crashcut completion bash`.\n"
      "_crashcut() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} options=\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W {} -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "    help) COMPREPLY=($(compgen -W {} -- \"$current\")); return ;;\n"
      "{}"
      "  esac\n"
      "  if [[ $current == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
      "  elif [[ $previous == -- ]]; then\n"
      "    COMPREPLY=($(compgen -c -f -- \"$current\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _crashcut crashcut\n",
      in_quotes(names + "help " + all_names(commands.back())), in_quotes(names), cases);
}

std::string zsh_completion(const std::vector<CommandEntry>& commands) {
  // Brackets and colons end a part of what _arguments and _describe read.
  const auto plain = [](std::string text) {
    for (const char* special : {"[", "]", ":"}) text = replaced(text, special, std::string("\\") + special);
    return text;
  };
  std::string names, cases;
  for (const CommandEntry& command : commands) {
    if (command.name.empty()) continue;
    names += fmt::format("    {}\n", in_quotes(command.name + ":" + plain(command.text)));
    cases += fmt::format("    {})\n      _arguments \\\n", command.name);
    for (const OptionEntry& option : command.options) {
      std::string value;
      if (const auto choices = option.choices(); !choices.empty()) {
        value = fmt::format(":value:({})", fmt::join(choices, " "));
      } else if (option.takes_path()) {
        value = ":path:_files";
      } else if (!option.value.empty()) {
        value = fmt::format(":{}: ", plain(option.value));
      }
      for (const std::string& name : option.names)
        cases += fmt::format("        {} \\\n", in_quotes(fmt::format("*{}[{}]{}", name, plain(option.text), value)));
    }
    cases += "        '*::program: _normal' ;;\n";
  }
  return fmt::format(
      "#compdef crashcut\n"
      "# Completion of crashcut for zsh: made by `crashcut completion zsh`.\n"
      "_crashcut() {{\n"
      "  local -a commands\n"
      "  commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n{}"
      "  esac\n"
      "}}\n"
      "_crashcut \"$@\"\n",
      names, cases);
}

std::string fish_completion(const std::vector<CommandEntry>& commands) {
  std::string text = "# Completion of crashcut for fish: made by `crashcut completion fish`.\n";
  for (const CommandEntry& command : commands) {
    if (!command.name.empty())
      text += fmt::format("complete -c crashcut -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                          in_quotes(command.text));
    const std::string where =
        command.name.empty() ? "__fish_use_subcommand" : in_quotes("__fish_seen_subcommand_from " + command.name);
    for (const OptionEntry& option : command.options) {
      std::string names;
      for (const std::string& name : option.names)
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      std::string value;
      if (const auto choices = option.choices(); !choices.empty()) {
        value = fmt::format(" -x -a {}", in_quotes(fmt::format("{}", fmt::join(choices, " "))));
      } else if (!option.value.empty()) {
        value = option.takes_path() ? " -r" : " -x";
      }
      text += fmt::format("complete -c crashcut -n {}{}{} -d {}\n", where, names, value, in_quotes(option.text));
    }
  }
  return text;
}

std::string manual_page(const std::vector<CommandEntry>& commands, const std::string& version) {
  const CommandEntry& itself = commands.back();
  std::string text = fmt::format(
      ".\\\" Made by `crashcut completion man`.\n"
      ".TH CRASHCUT 1 \"\" \"crashcut {}\" \"User Commands\"\n"
      ".SH NAME\ncrashcut \\- pulls the plug on a program at every moment that matters\n"
      ".SH SYNOPSIS\n\\fB{}\\fR\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n{}.SH COMMANDS\n",
      version, roff(itself.usage), roff(itself.text), roff_options(itself));
  for (const CommandEntry& command : commands) {
    if (command.name.empty()) continue;
    text += fmt::format(".SS {}\n\\fB{}\\fR\n.PP\n{}\n{}{}", roff(command.name), roff(command.usage),
                        roff(command.text), roff_options(command), roff_lines(command.footer));
  }
  return text;
}

}  // namespace crashcut::cli
