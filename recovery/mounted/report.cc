#include "recovery/mounted/report.h"

#include <fmt/format.h>

#include "recovery/report.h"

namespace crashcut::mounted {
namespace {

using recovery::count_text;
using recovery::percent_text;
using recovery::printable;
using recovery::Verdict;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + printable(word);
  return text;
}

std::string expectation_text(const CheckPlan& plan) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const std::string& file : plan.files) add("file " + printable(file));
  for (const std::string& file : plan.backups) add("or its backup " + printable(file));
  if (plan.tree || (plan.files.empty() && plan.expects.empty() && plan.checker.empty())) add("every file old or new");
  for (const Expect expect : plan.expects) add(std::string(to_text(expect)));
  if (!plan.checker.empty()) add("checker " + joined(plan.checker.words));
  if (!plan.durable) add("durability not asked");
  return text;
}

std::string_view bound_text(Bound bound) {
  switch (bound) {
    case Bound::kNone:
      return "";
    case Bound::kRecoveries:
      return "--max-recoveries was reached";
    case Bound::kTime:
      return "--time was reached";
    case Bound::kInterrupt:
      return "it was interrupted";
    case Bound::kEnoughFound:
      return "enough was found";
    case Bound::kNotDeterministic:
      return "a state did not come out the same again";
    case Bound::kProgramLimit:
      return "the program was stopped";
  }
  return "";
}

std::string_view bound_name(Bound bound) {
  switch (bound) {
    case Bound::kNone:
      return "";
    case Bound::kRecoveries:
      return "max_recoveries";
    case Bound::kTime:
      return "time";
    case Bound::kInterrupt:
      return "interrupt";
    case Bound::kEnoughFound:
      return "enough_found";
    case Bound::kNotDeterministic:
      return "not_deterministic";
    case Bound::kProgramLimit:
      return "program_limit";
  }
  return "";
}

std::string coverage_text(const Explored& explored) {
  if (explored.bound == Bound::kNone || explored.bound == Bound::kProgramLimit) return "";
  std::string text = fmt::format("; {} after an estimated {} of the whole", bound_text(explored.bound),
                                 percent_text(explored.fraction));
  if (explored.sampled > 0) text += fmt::format(", {} of the recoveries sampled", explored.sampled);
  return text;
}

// "check failed (status 3)"
std::string kind_text(const ViolationKey& key) {
  return key.end.empty() ? std::string(to_text(key.finding)) : fmt::format("{} ({})", to_text(key.finding), key.end);
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Text between tags: its lines stay lines.
std::string xml_lines(std::string_view text) {
  std::string out;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    out += xml(text.substr(0, end)) + "\n";
  }
  return out + xml(text);
}

recovery::Account account_of(const Counterexample& example) {
  recovery::Account account;
  account.story = example.told.story;
  account.output = example.told.run.result.output;
  account.errors = example.told.run.result.errors;
  account.output_cut = example.told.run.result.output_cut;
  account.errors_cut = example.told.run.result.errors_cut;
  account.path = example.told.run.path;
  account.names = {"the program", example.is_of_checker ? "the checker" : "crashcut"};
  return account;
}

Json example_json(const Counterexample& example, const std::vector<Question>& questions) {
  Json crashes = Json::array();
  for (const recovery::Crash& crash : example.told.story.crashes) {
    Json operations = Json::array(), choices = Json::array();
    for (const recovery::Operation& operation : crash.operations) {
      Json events = Json::array();
      for (const recovery::Event& event : operation.events) {
        events.push_back({{"event", event.id},
                          {"kind", event.kind},
                          {"text", event.text},
                          {"persisted", event.persisted},
                          {"durable", event.durable}});
      }
      const recovery::Fate fate = operation.fate();
      const Json persisted = operation.events.empty() ? Json(nullptr)
                                                      : Json(fate == recovery::Fate::kPersisted ? "yes"
                                                             : fate == recovery::Fate::kPartly  ? "partly"
                                                                                                : "no");
      operations.push_back({{"text", operation.text}, {"persisted", persisted}, {"events", events}});
    }
    for (const recovery::Call& call : crash.calls) {
      for (const recovery::Observation& seen : call.observations) {
        choices.push_back({{"location", seen.location},
                           {"candidates", seen.candidates},
                           {"taken", seen.taken},
                           {"crash", seen.crash}});
      }
    }
    crashes.push_back({{"operations", operations}, {"choices", choices}});
  }
  const CommandResult& result = example.told.run.result;
  return {{"kind", to_text(example.key.finding)},
          {"subject", subject_of(questions[example.key.question])},
          {"outcome", example.key.message},
          {"sentence", example.sentence},
          {"is_smallest", example.is_smallest},
          {"replays", example.replays},
          {"path", example.told.run.path},
          {"crashes", crashes},
          {"code", result.code},
          {"signal", result.signal},
          {"stdout", result.output},
          {"stderr", result.errors}};
}

}  // namespace

std::string report_start(std::string_view command, const std::vector<std::string>& program, std::string_view model,
                         const CheckPlan& plan) {
  return fmt::format("crashcut {} -- {} | {} | {} | {} | seed {}\n", command, joined(program), model,
                     expectation_text(plan),
                     recovery::bounds_text(plan.depth, plan.max_recoveries, plan.time_limit, plan.jobs), plan.seed);
}

std::string report_recorded(const Recorded& recorded, const CheckPlan& plan) {
  std::string text = fmt::format("recorded: the program {} after {:.2f} s; trace: {}\n",
                                 recorded.timed_out ? "was stopped (--program-limit)" : "ended", recorded.seconds,
                                 trace_of(plan.directory));
  if (!recorded.not_on_disk.empty()) text += fmt::format("note: {}\n", not_on_disk_text(recorded.not_on_disk));
  if (recorded.left_running > 0 && !recorded.timed_out)
    text +=
        fmt::format("note: it left {} running; killed\n", count_text(recorded.left_running, "process", "processes"));
  if (recorded.used_io_uring) text += "note: it used io_uring; a sync_file_range through that is not seen\n";
  if (!recorded.weak_sandbox.empty())
    text += fmt::format("note: {}{}\n", recorded.weak_sandbox,
                        plan.jobs > 1 && !plan.checker.empty() ? "; so there is one job" : "");
  return text;
}

std::string report_outcomes(const CheckResult& result) {
  std::string text = "\nOutcomes:\n";
  const Tally& tally = result.explored.tally;
  for (const auto& [outcome, count] : tally.outcomes) {
    text += fmt::format("{} {:>8}  {}\n", count.violations > 0 ? '!' : ' ', count.recoveries,
                        outcome.empty() ? "(no output)" : printable(outcome));
  }
  if (tally.outcomes_cut) text += "            ... and others\n";
  return text;
}

std::string report_violation(const Counterexample& example, bool is_whole_story) {
  std::string text = fmt::format("\nviolation ({}): {}\n", to_text(example.key.finding), printable(example.sentence));
  text +=
      recovery::report_account(account_of(example), is_whole_story ? recovery::Detail::kAll : recovery::Detail::kShort);
  if (!example.is_smallest) text += "\n  The search did not end, so there may be a smaller cut that fails.\n";
  if (!example.replays) text += "\n  Run again, this state came out differently: the checker is not deterministic.\n";
  return text;
}

std::string report_classes(const CheckResult& result) {
  const auto& classes = result.explored.tally.classes;
  if (classes.size() < 2) return "";
  constexpr std::size_t kMost = 20;
  std::string text = "\n  All kinds of violation, and how many recoveries saw them:\n\n";
  std::size_t shown = 0;
  for (const auto& [key, found] : classes) {
    if (shown++ == kMost) return text + fmt::format("    ... and {} more\n", classes.size() - kMost);
    text += fmt::format("    {:>6}  {}: {}\n", found.count, kind_text(key),
                        key.message.empty() ? subject_of(result.questions[key.question]) : printable(key.message));
  }
  return text;
}

std::string report_end(const CheckResult& result, const std::string& crashcut) {
  const Tally& tally = result.explored.tally;
  std::string text;
  if (!tally.not_deterministic.empty())
    text += fmt::format("note: the checker is not deterministic: {}\n", tally.not_deterministic);
  if (result.explored.is_in_other_namespace) {
    text +=
        "note: the program stored the number of its process namespace (/proc/self/ns/pid), and the checkers ran in "
        "another one: to them "
        "a lock with that number is another machine's\n";
  }
  if (tally.read_by_pages)
    text +=
        "note: files were mapped or executed, so they were read in pages of 4096 bytes: states that differ only in the "
        "rest of a page count twice\n";
  if (result.was_stopped)
    text +=
        "note: the program was stopped (--program-limit); what it did until then was crashed, and its end is no "
        "promise\n";
  if (!result.trace_is_complete) text += "note: the recording was cut off; what came after it is not part of this\n";
  text += fmt::format("{}: ", recovery::to_text(result.verdict));
  const std::string recoveries = count_text(tally.recoveries, "recovery", "recoveries");
  if (result.verdict == Verdict::kViolation) {
    text += fmt::format("{} of {} failed", tally.violations, recoveries);
    for (const Finding finding :
         {Finding::kLost, Finding::kNotDurable, Finding::kUnexpected, Finding::kCheckFailed, Finding::kCheckHung}) {
      if (const std::uint64_t count = tally.count(finding)) text += fmt::format(", {} {}", count, to_text(finding));
    }
  } else {
    text += fmt::format("{}{}, none failed", result.verdict == Verdict::kVerified && tally.recoveries > 1 ? "all " : "",
                        recoveries);
  }
  if (tally.assumed_away > 0) text += fmt::format(" ({} assumed away)", tally.assumed_away);
  text += fmt::format("; {}, {}; {:.2f} s{}", count_text(result.operation_count, "operation", "operations"),
                      count_text(result.event_count, "event", "events"), result.explored.seconds,
                      coverage_text(result.explored));
  if (!result.token.empty()) text += fmt::format("; replay: {} replay {}", crashcut, result.token);
  return text + "\n";
}

Json to_json(const CheckPlan& plan, const std::vector<std::string>& program, const Recorded& recorded,
             const CheckResult& result) {
  const Tally& tally = result.explored.tally;
  Json outcomes = Json::array(), classes = Json::array(), expects = Json::array();
  for (const auto& [outcome, count] : tally.outcomes) {
    outcomes.push_back({{"output", outcome}, {"recoveries", count.recoveries}, {"violations", count.violations}});
  }
  for (const auto& [key, found] : tally.classes) {
    classes.push_back({{"kind", to_text(key.finding)},
                       {"subject", subject_of(result.questions[key.question])},
                       {"outcome", key.message},
                       {"end", key.end.empty() ? Json(nullptr) : Json(key.end)},
                       {"recoveries", found.count}});
  }
  for (const Expect expect : plan.expects) expects.push_back(to_text(expect));
  const auto or_null = [](bool is_given, Json value) { return is_given ? value : Json(nullptr); };
  return {{"format", 1},
          {"command", "check"},
          {"program", program},
          {"directory", plan.directory},
          {"model",
           {{"text", fusefs::describe(plan.model)},
            {"profile", fusefs::to_text(plan.model.profile)},
            {"data", fusefs::to_text(plan.model.data)},
            {"delalloc", plan.model.delalloc},
            {"auto_da_alloc", plan.model.auto_da_alloc},
            {"dioread_nolock", plan.model.dioread_nolock},
            {"barrier", plan.model.barrier},
            {"sector_bytes", plan.model.sector_bytes},
            {"block_bytes", plan.model.block_bytes}}},
          {"expectations",
           {{"files", plan.files},
            {"backups", plan.backups},
            {"tree", plan.tree},
            {"durable", plan.durable},
            {"expect", expects},
            {"checker", plan.checker.words}}},
          {"bounds",
           {{"depth", plan.depth},
            {"max_recoveries", or_null(plan.max_recoveries > 0, plan.max_recoveries)},
            {"time_s", or_null(plan.time_limit.count() > 0, plan.time_limit.count())},
            {"jobs", plan.jobs},
            {"check_limit_s", plan.check_limit.count()}}},
          {"seed", plan.seed},
          {"execution",
           {{"exited", recorded.exited},
            {"code", recorded.code},
            {"signal", recorded.signal},
            {"timed_out", recorded.timed_out},
            {"left_running", recorded.left_running},
            {"seconds", recorded.seconds},
            {"operations", result.operation_count},
            {"events", result.event_count}}},
          {"verdict", recovery::to_text(result.verdict)},
          {"exit_code", recovery::exit_code(result.verdict)},
          {"bound_hit", or_null(result.explored.bound != Bound::kNone, bound_name(result.explored.bound))},
          {"explored_fraction", result.explored.fraction},
          {"sampled", result.explored.sampled},
          {"seconds", result.explored.seconds},
          {"read_by_pages", tally.read_by_pages},
          {"in_other_namespace", result.explored.is_in_other_namespace},
          {"not_deterministic", or_null(!tally.not_deterministic.empty(), tally.not_deterministic)},
          {"counts",
           {{"recoveries", tally.recoveries},
            {"violations", tally.violations},
            {"lost", tally.count(Finding::kLost)},
            {"not_durable", tally.count(Finding::kNotDurable)},
            {"not_as_expected", tally.count(Finding::kUnexpected)},
            {"check_failed", tally.count(Finding::kCheckFailed)},
            {"check_hung", tally.count(Finding::kCheckHung)},
            {"assumed_away", tally.assumed_away}}},
          {"outcomes", outcomes},
          {"violations", classes},
          {"violation", result.counterexample ? example_json(*result.counterexample, result.questions) : Json(nullptr)},
          {"token", or_null(!result.token.empty(), result.token)}};
}

std::string to_junit(const std::vector<std::string>& program, const CheckResult& result) {
  const Tally& tally = result.explored.tally;
  const std::string suite = xml("crashcut check -- " + joined(program));
  std::string cases;
  std::size_t failures = 0;
  for (std::size_t i = 0; i < result.questions.size(); ++i) {
    // One failure a case, which readers count on; in it all that was found, the worst first.
    std::string type, message, lines;
    const auto add = [&](const ViolationKey& key, const std::string& line) {
      if (type.empty()) {
        type = to_text(key.finding);
        message = key.message.empty() ? kind_text(key) : key.message;
      }
      lines += xml_lines(line) + "\n";
    };
    const bool is_told = result.counterexample && result.counterexample->key.question == i;
    if (is_told)
      add(result.counterexample->key,
          fmt::format("{} | crashcut replay {}", result.counterexample->sentence, result.token));
    for (const auto& [key, found] : tally.classes) {
      if (key.question == i)
        add(key, fmt::format("{}: {}{}", kind_text(key), key.message.empty() ? "" : key.message + ": ",
                             count_text(found.count, "recovery", "recoveries")));
    }
    cases += fmt::format("  <testcase classname=\"crashcut\" name=\"{}\">", xml(subject_of(result.questions[i])));
    if (!type.empty()) {
      cases += fmt::format("\n    <failure type=\"{}\" message=\"{}\">{}</failure>", xml(type), xml(message), lines);
      ++failures;
    }
    cases += "</testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" "
      "time=\"{:.3f}\">\n{}</testsuite>\n",
      suite, result.questions.size(), failures, result.explored.seconds, cases);
}

}  // namespace crashcut::mounted
