// Reports: where a result is written to, the same for every command: text on stdout; JSON, JUnit, a page and
// annotations of GitHub if the user asks for them; JSON, JUnit and a page in the directory of the results too.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/result/failure.h"
#include "recovery/result/result.h"
#include "recovery/result/token.h"

namespace crashcut::cli {

struct ReportOptions {
  std::string json_file, junit_file, html_file;  // "-" is stdout
  std::string out_directory;                     // --out, as typed
  std::string directory;                         // for results, absolute; empty: none
  bool outcomes = false;
  bool quiet = false;   // the last line alone
  bool github = false;  // annotations of GitHub before it

  bool is_stdout_taken() const { return json_file == "-" || junit_file == "-" || html_file == "-"; }
  // A directory of results has a page, too.
  bool wants_page() const { return !html_file.empty() || !out_directory.empty() || !directory.empty(); }
  // Where text goes: if a document goes to stdout, nothing else does.
  std::FILE* out() const { return is_stdout_taken() ? stderr : stdout; }
};

// --json, --junit, --html, --github and --quiet; and with --outcomes, for commands whose recoveries have some.
void add_document_options(CLI::App& command, ReportOptions& options);
void add_report_options(CLI::App& command, ReportOptions& options);
void add_out_option(CLI::App& command, ReportOptions& options, const std::string& text);
// Whether the files can be written, so that a long search does not end in vain.
tl::expected<void, result::Failure> check_reports(const ReportOptions& options);

// Makes the directory of --out, which must be new, or, if `named` is empty, the first free crashcut.out/N. Returns its
// absolute path.
tl::expected<std::string, result::Failure> make_results_directory(const std::string& named);
// The same if --out was given. Copies the programs there, so that the directory can be replayed elsewhere.
tl::expected<void, result::Failure> open_results(ReportOptions& options, const std::vector<std::string>& programs);
// Where results go: never part of a starting state.
inline constexpr const char* kResults = "crashcut.out";

void print(std::FILE* out, std::string_view text);
// Unless --quiet was given.
void print_head(const ReportOptions& options, const result::Head& head);
// Writes what is left of a search into the directory of its results, and makes that directory if there is none. If
// nothing is left, removes what an earlier search left there. If this fails, the result gets a note.
void keep_rest(ReportOptions& options, const std::string& command, const std::string& rest, result::Result& result);
// The same for one program under several models.
void keep_rest(ReportOptions& options, const std::string& command, const std::string& rest,
               std::vector<result::Result>& rows);
// The tokens of the last results in crashcut.out: a search tries first what failed before.
std::vector<result::Token> known_tokens();
// Reads what keep_rest() wrote. `named` is the directory or the file.
tl::expected<std::string, result::Failure> read_rest_file(const std::string& named);
// Writes the whole report and returns the exit code. The verdict is printed even if a file cannot be written.
tl::expected<int, result::Failure> report(const ReportOptions& options, const result::Result& result);
// The same for one program under several models.
tl::expected<int, result::Failure> report_comparison(const ReportOptions& options,
                                                     const std::vector<result::Result>& rows,
                                                     std::size_t expected_count);

}  // namespace crashcut::cli
