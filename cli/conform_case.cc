#include "cli/conform_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <fstream>
#include <sstream>

#include "recovery/kernel/workloads.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using kernel::Workload;
using result::Failure;

tl::expected<std::string, Failure> beside_command(const std::string& name) {
  const std::string path = (fs::canonical("/proc/self/exe").parent_path() / "conform" / name).string();
  if (!fs::exists(path)) return result::tool_failed(fmt::format("There is no {}.", path));
  return path;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The arguments of the first "run: OPTIONS -- ARGUMENTS" in the comment that opens a litmus program.
std::vector<std::string> litmus_arguments(const fs::path& path) {
  constexpr std::string_view kRun = "run:", kBehind = " -- ";
  std::ifstream file(path.string());
  for (std::string line; std::getline(file, line) && line.find("*/") == std::string::npos;) {
    const std::size_t run = line.find(kRun);
    if (run == std::string::npos) continue;
    const std::size_t arguments = line.find(kBehind, run);
    return arguments == std::string::npos ? std::vector<std::string>{} : words_of(line.substr(arguments + 4));
  }
  return {};
}

constexpr const char* kCall = "--call";
constexpr const char* kProgram = "--program";

std::vector<std::string> calls_words(const Workload& workload) {
  std::vector<std::string> words{kCall};
  words.insert(words.end(), workload.begin(), workload.end());
  return words;
}

class CaseMaker {
 public:
  CaseMaker(std::string calls, std::string recover) : calls_(std::move(calls)), recover_(std::move(recover)) {}

  void add_sequences(const std::string& set, const std::vector<Workload>& workloads, const ConformSets& sets) {
    std::uint32_t taken = 0;
    for (std::size_t i = 0; i < workloads.size() && (sets.limit == 0 || taken < sets.limit); i += sets.step, ++taken)
      add_sequence(set, workloads[i]);
  }
  void add_sequence(const std::string& set, const Workload& workload) {
    made_.cases.push_back({.set = set,
                           .text = fmt::format("--call {}", fmt::join(workload, " ")),
                           .words = calls_words(workload),
                           .executable = calls_,
                           .kernel_arguments = workload,
                           .model_arguments = kernel::for_model(workload),
                           .looking = {.command = {{calls_}}, .is_read_only = true, .may_fail = false},
                           .operation = kernel::operation_of(workload)});
  }

  tl::expected<void, Failure> add_program(const std::string& set, const std::string& named,
                                          const std::vector<std::string>& arguments) {
    auto program = Program::prepare(named);
    if (!program) return tl::unexpected(program.error());
    const std::string executable = program->executable();
    const std::string typed = named + (arguments.empty() ? "" : fmt::format(" {}", fmt::join(arguments, " ")));
    made_.cases.push_back({.set = set,
                           .text = fmt::format("--program '{}'", typed),
                           .words = {kProgram, typed},
                           .executable = executable,
                           .kernel_arguments = arguments,
                           .model_arguments = arguments,
                           .looking = {.command = {{"/usr/bin/env", "LD_PRELOAD=" + recover_, executable}},
                                       .is_read_only = false,
                                       .may_fail = true},
                           .operation = ""});
    made_.compiled.push_back(std::move(*program));
    return {};
  }

  // False: it was stopped.
  tl::expected<bool, Failure> add_litmus(const ConformSets& sets, const std::function<bool()>& should_stop) {
    boost::system::error_code error;
    std::vector<fs::path> files;
    for (fs::directory_iterator at(sets.litmus, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".c") files.push_back(at->path());
    }
    if (error || files.empty())
      return result::wrong_use(fmt::format("--litmus {}: there are no programs in C in it.", sets.litmus));
    std::sort(files.begin(), files.end());
    std::uint32_t taken = 0;
    for (std::size_t i = 0; i < files.size() && (sets.limit == 0 || taken < sets.limit); i += sets.step, ++taken) {
      if (should_stop && should_stop()) return false;
      if (auto ok = add_program("litmus", files[i].string(), litmus_arguments(files[i])); !ok)
        return tl::unexpected(ok.error());
    }
    return true;
  }

  ConformCases take() { return std::move(made_); }

 private:
  std::string calls_, recover_;
  ConformCases made_;
};

}  // namespace

tl::expected<std::optional<ConformCases>, Failure> cases_of(const ConformSets& sets,
                                                            const std::function<bool()>& should_stop) {
  const auto calls = beside_command("calls");
  if (!calls) return tl::unexpected(calls.error());
  const auto recover = beside_command("recover.so");
  if (!recover) return tl::unexpected(recover.error());
  CaseMaker maker(*calls, *recover);
  if (!sets.calls.empty()) {
    maker.add_sequence("--call", sets.calls);
    return maker.take();
  }
  const bool has_others =
      sets.seq2_count > 0 || sets.random_count > 0 || !sets.litmus.empty() || !sets.programs.empty();
  if (sets.is_seq1 || !has_others) {
    maker.add_sequences("seq-1", kernel::seq1_workloads(), sets);
    maker.add_sequences("fdatasync", kernel::fdatasync_workloads(), sets);
  }
  maker.add_sequences("seq-2", kernel::seq2_workloads(sets.seq2_count, sets.seed), sets);
  maker.add_sequences("random", kernel::random_workloads(sets.random_count, sets.seed), sets);
  if (!sets.litmus.empty()) {
    const auto added = maker.add_litmus(sets, should_stop);
    if (!added) return tl::unexpected(added.error());
    if (!*added) return std::nullopt;
  }
  for (const std::string& text : sets.programs) {
    const std::vector<std::string> words = words_of(text);
    if (words.empty()) return result::wrong_use("--program is empty.");
    if (should_stop && should_stop()) return std::nullopt;
    if (auto ok = maker.add_program("programs", words[0], {words.begin() + 1, words.end()}); !ok)
      return tl::unexpected(ok.error());
  }
  return maker.take();
}

tl::expected<ConformCases, Failure> case_of(const std::vector<std::string>& words) {
  ConformSets sets;
  if (words.size() > 1 && words[0] == kCall) {
    sets.calls.assign(words.begin() + 1, words.end());
  } else if (words.size() == 2 && words[0] == kProgram) {
    sets.programs = {words[1]};
  } else {
    return result::wrong_use("It names no program that crashcut conform compares.");
  }
  auto cases = cases_of(sets);
  if (!cases) return tl::unexpected(cases.error());
  return std::move(**cases);
}

}  // namespace crashcut::cli
