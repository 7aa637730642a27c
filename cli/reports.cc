#include "cli/reports.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/source_tree.h"
#include "recovery/result/github.h"
#include "recovery/result/json.h"
#include "recovery/result/junit.h"
#include "recovery/result/page.h"
#include "recovery/result/text.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;
using Written = tl::expected<void, Failure>;

constexpr const char* kRestFile = "rest";

// The verdict stands out on a terminal.
std::string with_colour(const std::string& text, result::Verdict verdict, std::FILE* out) {
  const char* no_colour = std::getenv("NO_COLOR");
  if (isatty(fileno(out)) != 1 || (no_colour != nullptr && *no_colour != 0)) return text;
  static constexpr std::string_view kColours[] = {"\033[32m", "\033[31m", "\033[33m"};
  const std::string word(result::to_text(verdict));
  // It begins the last line.
  const std::size_t last = text.rfind('\n', text.size() - 2);
  const std::size_t at = last == std::string::npos ? 0 : last + 1;
  if (text.compare(at, word.size(), word) != 0) return text;
  return text.substr(0, at) + std::string(kColours[static_cast<std::size_t>(verdict)]) + word + "\033[0m" +
         text.substr(at + word.size());
}

// Writes one file after the other, and keeps the first failure.
class Files {
 public:
  void write(const std::string& path, std::string_view text) {
    if (auto ok = write_json_file(path, text); !ok && written_) written_ = ok;
  }
  const Written& written() const { return written_; }

 private:
  Written written_;
};

void print_annotations(const ReportOptions& options, const result::Result& result) {
  if (!options.github) return;
  SourceTree sources(result.head.program);
  print(options.out(),
        result::github_text(result, "crashcut", [&](const std::string& name) { return sources.path_of(name); }));
}

}  // namespace

void add_document_options(CLI::App& command, ReportOptions& options) {
  command.add_option("--json", options.json_file, "write the result as JSON too (docs/json.md); - is stdout")
      ->type_name("FILE");
  command.add_option("--junit", options.junit_file, "write the result as JUnit XML too; - is stdout")
      ->type_name("FILE");
  command.add_flag("--github", options.github, "print annotations of GitHub too, at the lines to blame (docs/ci.md)");
  command.add_option("--html", options.html_file, "write the result as a page for a browser too; - is stdout")
      ->type_name("FILE");
  command.add_flag("--quiet", options.quiet, "print the verdict alone, and what it does not cover");
}

void add_report_options(CLI::App& command, ReportOptions& options) {
  add_document_options(command, options);
  command.add_flag("--outcomes", options.outcomes, "list every distinct outcome, and how often it came");
}

void add_out_option(CLI::App& command, ReportOptions& options, const std::string& text) {
  command.add_option("--out", options.out_directory, text)->type_name("DIR");
}

tl::expected<std::string, Failure> make_results_directory(const std::string& named) {
  const auto failed = [](const std::string& path) {
    return result::wrong_use(fmt::format(
        "Cannot make the directory {} for the results: {}. Name another one with --out.", path, std::strerror(errno)));
  };
  if (!named.empty()) {
    if (mkdir(named.c_str(), 0755) == 0) return fs::canonical(named).string();
    if (errno != EEXIST) return failed(named);
    return result::wrong_use(
        fmt::format("--out {}: it is there already. Results are never overwritten; name a new directory.", named));
  }
  if (mkdir(kResults, 0755) != 0 && errno != EEXIST) return failed(kResults);
  for (unsigned number = 1;; ++number) {
    const std::string path = fmt::format("{}/{}", kResults, number);
    if (mkdir(path.c_str(), 0755) == 0) return fs::canonical(path).string();
    if (errno != EEXIST) return failed(path);
  }
}

tl::expected<void, Failure> open_results(ReportOptions& options, const std::vector<std::string>& programs) {
  if (options.out_directory.empty()) return {};
  auto directory = make_results_directory(options.out_directory);
  if (!directory) return tl::unexpected(directory.error());
  options.directory = *directory;
  for (const std::string& program : programs) {
    const fs::path copy = fs::path(*directory) / fs::path(program).filename();
    boost::system::error_code error;
    fs::copy_file(program, copy, error);
    if (error) return result::wrong_use(fmt::format("Cannot write {}: {}.", copy.string(), error.message()));
  }
  return {};
}

Written check_reports(const ReportOptions& options) {
  std::map<std::string, std::string> written;  // the option that names a place
  const std::pair<const char*, std::string> files[] = {
      {"--json", options.json_file}, {"--junit", options.junit_file}, {"--html", options.html_file}};
  for (const auto& [option, path] : files) {
    const auto [other, is_new] = written.emplace(path, option);
    if (!path.empty() && !is_new) {
      return result::wrong_use(fmt::format("{} and {} would both be written to {}: name two places.", other->second,
                                           option, path == "-" ? "stdout" : path));
    }
    if (auto ok = check_json_file(path); !ok) return ok;
  }
  return {};
}

void print(std::FILE* out, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

void print_head(const ReportOptions& options, const result::Head& head) {
  if (!options.quiet) print(options.out(), result::head_text(head));
}

void keep_rest(ReportOptions& options, const std::string& command, const std::string& rest, result::Result& result) {
  std::vector<result::Result> rows{std::move(result)};
  keep_rest(options, command, rest, rows);
  result = std::move(rows.front());
}

void keep_rest(ReportOptions& options, const std::string& command, const std::string& rest,
               std::vector<result::Result>& rows) {
  if (rest.empty()) {
    if (!options.directory.empty()) unlink((options.directory + "/" + kRestFile).c_str());
    return;
  }
  const auto keep = [&]() -> Written {
    if (options.directory.empty()) {
      auto directory = make_results_directory("");
      if (!directory) return tl::unexpected(directory.error());
      options.directory = *directory;
    }
    return write_json_file(options.directory + "/" + kRestFile, rest + "\n");
  };
  const auto kept = keep();
  for (result::Result& row : rows) {
    if (!kept) {
      row.notes.push_back(fmt::format("What is left of the search could not be kept: {}", kept.error().sentence));
    } else {
      row.resume = fmt::format("{} {} --resume {}", our_name(), command, fs::relative(options.directory).string());
    }
  }
}

std::vector<result::Token> known_tokens() {
  constexpr std::size_t kResultsMost = 20;
  std::vector<std::pair<std::time_t, std::string>> files;
  boost::system::error_code error;
  for (fs::directory_iterator at(kResults, error), end; !error && at != end; at.increment(error)) {
    boost::system::error_code none;
    const fs::path file = at->path() / "token";
    if (const std::time_t time = fs::last_write_time(file, none); !none) files.emplace_back(time, file.string());
  }
  std::sort(files.rbegin(), files.rend());
  if (files.size() > kResultsMost) files.resize(kResultsMost);
  std::vector<result::Token> tokens;
  for (const auto& [time, path] : files) {
    std::string text;
    if (std::ifstream(path) >> text) {
      if (auto token = result::decode(text)) tokens.push_back(std::move(*token));
    }
  }
  return tokens;
}

tl::expected<std::string, Failure> read_rest_file(const std::string& named) {
  boost::system::error_code error;
  const std::string path = fs::is_directory(named, error) ? named + "/" + kRestFile : named;
  std::ifstream file(path);
  std::string text;
  if (file >> text) return text;
  return result::wrong_use(
      fmt::format("Cannot read {}: there is nothing to resume. --resume names the directory of the results of a search "
                  "that was stopped.",
                  path));
}

// What is the same in every command: --memory-limit stops a search as an interrupt does.
static result::Result with_memory_limit(result::Result result) {
  result.head.bounds.push_back({"memory_limit_bytes", memory_limit()});
  if (result.bound == result::Bound::kInterrupt && is_memory_hit()) result.bound = result::Bound::kMemory;
  if (result.bound == result::Bound::kMemory || result.bound == result::Bound::kMemoryInProgram ||
      result.bound == result::Bound::kRecordingCut) {
    result.notes.push_back(
        fmt::format("--memory-limit is {} MiB: a larger one, fewer --jobs or a shorter run of the program get further",
                    memory_limit() >> 20));
  }
  return result;
}

// One result, or one a model. JUnit and the page are read on other machines, where the command has its own name.
static const std::vector<std::string>& program_of(const result::Result& result) { return result.head.program; }
static const std::vector<std::string>& program_of(const std::vector<result::Result>& rows) {
  return rows.front().head.program;
}

// "page: crashcut.out/1/page.html": where a person finds the page. --html names one that the user knows, too; of both
// the user's own.
static std::string page_line(const ReportOptions& options) {
  const bool is_asked_for = !options.html_file.empty();
  if (options.quiet || options.is_stdout_taken() || (!is_asked_for && options.directory.empty())) return "";
  if (is_asked_for) return fmt::format("page: {}\n", options.html_file);
  const fs::path near = fs::path(options.directory + "/page.html").lexically_relative(fs::current_path());
  const bool is_below = !near.empty() && *near.begin() != "..";
  return fmt::format("page: {}\n", is_below ? near.string() : options.directory + "/page.html");
}

template <class Results>
static void write_documents(const ReportOptions& options, const Results& results, Files& files) {
  const std::string json = result::json_text(results, our_name());
  const std::string junit = result::junit_text(results, "crashcut");
  SourceTree sources(program_of(results));
  const auto read_source = [&](const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(sources.path_of(file)).rdbuf();
    return text.str();
  };
  const std::string page = options.wants_page() ? result::page_text(results, "crashcut", read_source) : "";
  if (!options.directory.empty()) {
    files.write(options.directory + "/result.json", json);
    files.write(options.directory + "/junit.xml", junit);
    files.write(options.directory + "/page.html", page);
  }
  files.write(options.json_file, json);
  files.write(options.junit_file, junit);
  files.write(options.html_file, page);
}

tl::expected<int, Failure> report(const ReportOptions& options, const result::Result& found) {
  const result::Result result = with_memory_limit(found);
  const bool is_violation = result.verdict == result::Verdict::kViolation;
  std::string text;
  if (!options.quiet) {
    if (options.outcomes && (result.has_recoveries || !result.outcomes.empty())) text += result::outcomes_text(result);
    if (is_violation) text += result::violation_text(result, result::Detail::kShort);
    if (!text.empty()) text += "\n";
  }
  print(options.out(), text);
  Files files;
  write_documents(options, result, files);
  if (!options.directory.empty() && !result.token.empty())
    files.write(options.directory + "/token", result.token + "\n");
  print_annotations(options, result);
  if (files.written()) print(options.out(), page_line(options));
  print(options.out(), with_colour(result::end_text(result, our_name()), result.verdict, options.out()));
  if (!files.written()) return tl::unexpected(files.written().error());
  return result::exit_code(result.verdict);
}

tl::expected<int, Failure> report_comparison(const ReportOptions& options, const std::vector<result::Result>& found,
                                             std::size_t expected_count) {
  std::vector<result::Result> rows;
  for (const result::Result& row : found) rows.push_back(with_memory_limit(row));
  if (!options.quiet) print(options.out(), result::comparison_text(rows));
  Files files;
  write_documents(options, rows, files);
  for (const result::Result& row : rows) print_annotations(options, row);
  if (files.written()) print(options.out(), page_line(options));
  const result::Verdict verdict = result::worst_of(rows, expected_count);
  print(options.out(),
        with_colour(result::comparison_end_text(rows, expected_count, our_name()), verdict, options.out()));
  if (!files.written()) return tl::unexpected(files.written().error());
  return result::exit_code(verdict);
}

}  // namespace crashcut::cli
