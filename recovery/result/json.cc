#include "recovery/result/json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "recovery/result/words.h"

namespace crashcut::result {
namespace {

using Json = nlohmann::ordered_json;

// What a report lists of each: the first so many.
constexpr std::size_t kOutcomesMost = 1000;
constexpr std::size_t kOutcomeBytesMost = std::size_t{1} << 20;  // of all of them
constexpr std::size_t kSubjectsMost = 10'000;
constexpr std::size_t kPathBytesMost = std::size_t{64} << 10;

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json settings_json(const std::vector<Setting>& settings);

template <class Held>
Json held_json(const Held& held) {
  return held;
}
Json held_json(const Setting::Rows& rows) {
  Json list = Json::array();
  for (const std::vector<Setting>& row : rows) list.push_back(settings_json(row));
  return list;
}

template <class Value>
Json value_json(const Value& value) {
  return std::visit([](const auto& held) { return held_json(held); }, value);
}

Json settings_json(const std::vector<Setting>& settings) {
  Json object = Json::object();
  for (const Setting& setting : settings) object[setting.name] = value_json(setting.value);
  return object;
}

Json model_json(const persist::ModelSpec& model) {
  Json object = {{"text", model.text}};
  for (const auto& [name, setting] : model.settings) object[name] = value_json(setting);
  return object;
}

Json counts_json(const Counts& counts) {
  return {{"executions", counts.executions},
          {"steps", counts.steps},
          {"foreseen", counts.foreseen},
          {"asleep", counts.asleep},
          {"random_executions", counts.random_executions},
          {"assumed_away_executions", counts.assumed_away_executions},
          {"crashed_executions", counts.crashed_executions},
          {"merged_executions", counts.merged_executions},
          {"restored_images", counts.restored_images},
          {"processes", counts.processes},
          {"recoveries", counts.recoveries},
          {"sampled", counts.sampled},
          {"assumed_away", counts.assumed_away},
          {"not_run", counts.not_run},
          {"violations", counts.violations},
          {"operations", counts.operations},
          {"events", counts.events}};
}

Json outcomes_json(const Result& result) {
  if (!result.has_recoveries && result.outcomes.empty()) return nullptr;
  std::vector<std::string> outputs;
  std::size_t bytes = 0;
  for (const Outcome& outcome : result.outcomes) {
    bytes += outcome.output.size();
    if (outputs.size() == kOutcomesMost || (bytes > kOutcomeBytesMost && !outputs.empty())) break;
    outputs.push_back(outcome.output);
  }
  // What the document makes of bytes that are no UTF-8, for all of them: two outcomes must not become one.
  const auto text = [](const std::string& output) {
    return Json::parse(Json(outcome_text(output)).dump(-1, ' ', false, Json::error_handler_t::replace))
        .get<std::string>();
  };
  const std::vector<std::string> texts = texts_of(outputs, text);
  Json list = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Outcome& outcome = result.outcomes[i];
    list.push_back({{"output", texts[i]},
                    {"stdout", outcome.output},
                    {"recoveries", outcome.recoveries},
                    {"violations", outcome.violations}});
  }
  return list;
}

Json finding_json(const Finding& finding) {
  return {{"kind", finding.kind},           {"subject", finding.subject}, {"text", finding.text},
          {"message", finding.message},     {"code", finding.code},       {"count", finding.count},
          {"token", or_null(finding.token)}};
}

Json findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) list.push_back(finding_json(finding));
  return list;
}

Json kinds_json(const std::vector<Finding>& findings) {
  Json kinds = Json::object();
  for (const Finding& finding : findings)
    kinds[finding.kind] = kinds.value(finding.kind, std::uint64_t{0}) + finding.count;
  return kinds;
}

Json not_run_json(const std::vector<NotRun>& reasons) {
  Json list = Json::array();
  for (const NotRun& reason : reasons) list.push_back({{"text", reason.sentence}, {"recoveries", reason.recoveries}});
  return list;
}

// The index is counted from the starting state, which is 0. Takes what it lists from `events_left`.
Json stack_json(const std::vector<SourceLine>& stack) {
  Json list = Json::array();
  for (const SourceLine& line : stack)
    list.push_back({{"function", line.function}, {"file", line.file}, {"line", line.line}});
  return list;
}
// Adds where in the program's source an operation, a call or a step was.
void add_place(const std::vector<SourceLine>& stack, Json& json) {
  const SourceLine line = stack.empty() ? SourceLine{} : stack.front();
  json["function"] = line.function;
  json["file"] = or_null(line.file);
  json["line"] = line.file.empty() ? Json(nullptr) : Json(line.line);
}

Json operation_json(const Operation& operation, std::size_t index, std::size_t& events_left) {
  static constexpr std::string_view kFates[] = {"yes", "partly", "no"};
  Json events = Json::array();
  std::uint64_t left_out = operation.left_out.all;
  for (const Event& event : operation.events) {
    if (events.size() == kEventsOfOperationMost || events_left == 0) {
      ++left_out;
      continue;
    }
    --events_left;
    events.push_back({{"event", event.id},
                      {"kind", event.kind},
                      {"text", event.text},
                      {"sync", event.is_sync},
                      {"durable", event.durable},
                      {"persisted", event.persisted || event.durable}});
  }
  const Json persisted =
      operation.has_events() ? Json(kFates[static_cast<std::size_t>(operation.fate())]) : Json(nullptr);
  Json json = {{"number", index}, {"text", operation.text}};
  add_place(operation.stack, json);
  json["persisted"] = persisted;
  json["sync"] = operation.is_sync();
  json["durable"] = operation.is_durable();
  json["events"] = std::move(events);
  json["events_left_out"] = left_out;
  return json;
}

// Between two processes: there may be 100,000 of them, so a list and no names.
Json whole_operation_json(const Operation& operation) {
  Json events = Json::array();
  for (const Event& event : operation.events)
    events.push_back({event.id, event.kind, event.text, event.is_sync, event.durable, event.persisted});
  const EventCounts& counts = operation.left_out;
  return {operation.text, std::move(events), counts.all, counts.persisted, counts.durable, counts.sync};
}

Operation operation_from(const Json& json) {
  Operation operation{json.at(0), {}, {json.at(2), json.at(3), json.at(4), json.at(5)}};
  for (const Json& event : json.at(1))
    operation.events.push_back(Event{event.at(0), event.at(1), event.at(2), event.at(3), event.at(4), event.at(5)});
  return operation;
}

Json call_json(const Call& call) {
  Json choices = Json::array();
  for (const Observation& o : call.observations) {
    choices.push_back({{"location", o.location},
                       {"candidates", o.candidates},
                       {"candidates_left_out", o.candidates_left_out},
                       {"taken", o.taken},
                       {"crash", o.crash}});
  }
  Json json = {{"text", call.text}};
  add_place(call.stack, json);
  json["choices"] = std::move(choices);
  return json;
}

Call call_from(const Json& json) {
  Call call{json.at("text"), {}};
  for (const Json& choice : json.at("choices")) {
    call.observations.push_back(Observation{choice.at("location"),
                                            choice.at("candidates").get<std::vector<std::string>>(), choice.at("taken"),
                                            choice.at("crash"), choice.at("candidates_left_out")});
  }
  return call;
}

// What a report or a page lists is bounded; between two processes all of it goes.
enum class Extent { kReport, kPage, kWhole };

Json operations_json(const std::vector<Operation>& operations, Extent extent) {
  Json list = Json::array();
  std::size_t events_left = kEventsMost;
  const std::size_t most = extent == Extent::kPage ? kPageOperationsMost : kOperationsMost;
  for (const std::size_t i : shown_operations(operations, most))
    list.push_back(operation_json(operations[i], i, events_left));
  return list;
}

// Ascending numbers as runs: the first, how many follow one another, and so on. Of millions of events most follow one
// another.
Json runs_json(const std::vector<std::uint32_t>& numbers) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    runs.push_back(numbers[i]);
    runs.push_back(end - i);
    i = end;
  }
  return runs;
}
std::vector<std::uint32_t> numbers_from_runs(const Json& runs) {
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i + 1 < runs.size(); i += 2) {
    const auto first = runs.at(i).get<std::uint32_t>(), count = runs.at(i + 1).get<std::uint32_t>();
    for (std::uint32_t k = 0; k < count; ++k) numbers.push_back(first + k);
  }
  return numbers;
}

Json crash_json(const Crash& crash, Extent extent) {
  Json operations = Json::array(), calls = Json::array(), persisted;
  std::uint64_t calls_left_out = crash.calls_left_out;
  if (extent == Extent::kWhole) {
    for (const Operation& operation : crash.operations) operations.push_back(whole_operation_json(operation));
    for (const Call& call : crash.calls) calls.push_back(call_json(call));
    persisted = runs_json(crash.persisted);
  } else {
    operations = operations_json(crash.operations, extent);
    const std::size_t call_count = std::min(crash.calls.size(), kCallsMost);
    for (std::size_t i = 0; i < call_count; ++i) calls.push_back(call_json(crash.calls[i]));
    calls_left_out += crash.calls.size() - call_count;
    const std::size_t persisted_count = std::min(crash.persisted.size(), kPersistedMost);
    persisted =
        std::vector(crash.persisted.begin(), crash.persisted.begin() + static_cast<std::ptrdiff_t>(persisted_count));
  }
  const std::size_t operations_left_out = crash.operations.size() - operations.size();
  return {{"earliest", crash.earliest},          {"latest", crash.latest},
          {"operations", std::move(operations)}, {"operations_left_out", operations_left_out},
          {"calls", std::move(calls)},           {"calls_left_out", calls_left_out},
          {"persisted", std::move(persisted)},   {"persisted_count", crash.persisted.size()}};
}

// UTF-8 without control characters, but for tabs and line ends.
bool is_plain_text(const std::string& bytes) {
  const auto is_control = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f;
  };
  if (std::any_of(bytes.begin(), bytes.end(), is_control)) return false;
  try {
    (void)Json(bytes).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;  // not UTF-8
  }
}

// Bytes as hexadecimal digits, and as text where they are some.
Json content_json(const FileContent& content) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : content.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  const bool is_text = is_plain_text(content.bytes);
  return {{"type", content.type},
          {"size", content.size},
          {"hex", std::move(hex)},
          {"text", is_text ? Json(content.bytes) : Json(nullptr)}};
}

FileContent content_from(const Json& json) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  FileContent content{json.at("type"), json.at("size")};
  const std::string hex = json.at("hex");
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    content.bytes += static_cast<char>(value(hex[i]) * 16 + value(hex[i + 1]));
  return content;
}

Json files_json(const std::vector<FileView>& files) {
  Json list = Json::array();
  for (const FileView& file : files) {
    list.push_back({{"path", file.path},
                    {"before", content_json(file.before)},
                    {"expected", content_json(file.expected)},
                    {"after", content_json(file.after)}});
  }
  return list;
}

Json story_json(const Story& story, Extent extent);

Json race_json(const Race& race) {
  Json accesses = Json::array();
  for (const RaceAccess& access : race.accesses) {
    accesses.push_back({{"thread", access.thread},
                        {"writes", access.writes},
                        {"frees", access.frees},
                        {"atomic", access.is_atomic},
                        {"step", access.step},
                        {"stack", stack_json(access.stack)}});
  }
  return {{"variable", race.variable}, {"accesses", std::move(accesses)}};
}

Json mends_json(const std::vector<Mend>& mends) {
  Json list = Json::array();
  for (const Mend& mend : mends) {
    list.push_back({{"kind", mend.kind},
                    {"target", or_null(mend.target)},
                    {"place", mend.place},
                    {"lines", mend.lines},
                    {"recoveries", mend.recoveries},
                    {"executions", mend.executions},
                    {"verified", mend.is_verified},
                    {"text", mend.text}});
  }
  return list;
}

Json names_json(const Names& names) {
  return {{"program", names.program}, {"recovery", names.recovery}, {"medium", names.medium}};
}

Json counterexample_json(const Counterexample& example, Extent extent) {
  Json json = finding_json(example.finding);
  json.erase("token");  // it is the result's own
  json["sentence"] = example.sentence;
  json["then"] = example.then ? finding_json(*example.then) : Json(nullptr);
  json["execution"] = example.execution;
  json["is_smallest"] = example.is_smallest;
  json["replays"] = example.was_run_again ? Json(example.replays) : Json(nullptr);
  // Whole choices: a path has one more than it has separators.
  const auto is_separator = [](char c) { return c == '.' || c == '/'; };
  std::size_t path_bytes = std::min(example.path.size(), kPathBytesMost);
  while (path_bytes > 0 && path_bytes < example.path.size() && !is_separator(example.path[path_bytes])) --path_bytes;
  json["path"] = example.path.substr(0, path_bytes);
  json["path_left_out"] =
      std::count_if(example.path.begin() + static_cast<std::ptrdiff_t>(path_bytes), example.path.end(), is_separator);
  json["mends"] = mends_json(example.mends);
  json["no_mend"] = or_null(example.no_mend);
  json["names"] = names_json(example.story.names);
  json.update(story_json(example.story, extent));
  return json;
}

// Where in the document's outcomes an outcome is.
using OutcomePlaces = std::unordered_map<std::string, std::size_t>;
OutcomePlaces outcome_places(const Result& result, std::size_t listed) {
  OutcomePlaces places;
  for (std::size_t i = 0; i < listed; ++i) places.emplace(result.outcomes[i].output, i);
  return places;
}

// "0:1 4:0": a text, as a list would take a line a number.
std::string held_text(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& held) {
  std::string text;
  for (const auto& [location, value] : held)
    text += (text.empty() ? "" : " ") + std::to_string(location) + ":" + std::to_string(value);
  return text;
}

Json states_json(const std::optional<States>& states, const OutcomePlaces& places, Extent extent) {
  if (!states) return nullptr;
  Json locations = Json::array(), list = Json::array();
  for (const HeldLocation& location : states->locations)
    locations.push_back({{"text", location.text}, {"values", location.values}});
  for (const State& state : states->list) {
    const auto place = places.find(state.outcome);
    list.push_back({{"subject", state.subject},
                    {"earliest", state.earliest},
                    {"latest", state.latest},
                    {"crashes", state.crashes},
                    {"outcome", place == places.end() ? Json(nullptr) : Json(place->second)},
                    {"violation", state.is_violation},
                    {"text", state.text},
                    {"example", state.is_example},
                    {"held", held_text(state.held)},
                    {"held_left_out", state.held_left_out},
                    {"kept", state.kept}});
  }
  return {{"names", names_json(states->names)},
          {"locations", std::move(locations)},
          {"list", std::move(list)},
          {"left_out", states->left_out},
          {"operations", operations_json(states->operations, extent)}};
}

Json memory_notes_json(const std::vector<MemoryNote>& notes) {
  Json list = Json::array();
  for (const MemoryNote& note : notes)
    list.push_back({{"kind", note.kind}, {"place", note.place}, {"count", note.count}, {"text", note.text}});
  return list;
}

std::vector<std::string> first_of(const std::vector<std::string>& all, std::size_t most) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), most))};
}

Json result_json(const Result& result, const std::string& crashcut, Extent extent) {
  Json outcomes = outcomes_json(result);
  const OutcomePlaces places = outcome_places(result, outcomes.size());
  const bool outcomes_cut = result.outcomes_cut || outcomes.size() < result.outcomes.size();
  return {{"format", kJsonFormat},
          {"command", result.head.command},
          {"program", result.head.program},
          {"model", model_json(result.head.model)},
          {"settings", settings_json(result.head.settings)},
          {"bounds", settings_json(result.head.bounds)},
          {"seed", result.head.seed},
          {"execution", settings_json(result.execution)},
          {"verdict", to_text(result.verdict)},
          {"exit_code", exit_code(result.verdict)},
          {"scope", result.scope},
          {"bound_hit", or_null(std::string(name_of(result.bound)))},
          {"explored_fraction", result.explored_fraction.likely},
          {"explored_fraction_range", {result.explored_fraction.low, result.explored_fraction.high}},
          {"coverage", or_null(result.coverage)},
          {"seconds", result.seconds},
          {"counts", counts_json(result.counts)},
          {"outcomes", std::move(outcomes)},
          {"outcomes_cut", outcomes_cut},
          {"subjects", first_of(result.subjects, kSubjectsMost)},
          {"subjects_left_out", result.subjects.size() - std::min(result.subjects.size(), kSubjectsMost)},
          {"kinds", kinds_json(result.findings)},
          {"violations", findings_json(result.findings)},
          {"violations_left_out", result.findings_left_out},
          {"not_run", not_run_json(result.not_run)},
          {"violation", result.counterexample ? counterexample_json(*result.counterexample, extent) : Json(nullptr)},
          {"states", states_json(result.states, places, extent)},
          {"unexplained", or_null(result.unexplained)},
          {"not_covered", result.not_covered},
          {"notes", result.notes},
          {"memory_notes", memory_notes_json(result.memory_notes)},
          {"memory_notes_left_out", result.memory_notes_left_out},
          {"facts", settings_json(result.facts)},
          {"token", or_null(result.token)},
          {"replay",
           result.token.empty() ? Json(nullptr) : Json(crashcut + " replay " + result.replay_options + result.token)},
          {"debug", or_null(result.debug)},
          {"resume", or_null(result.resume)}};
}

std::string dump(const Json& document) { return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string json_text(const Result& result, const std::string& crashcut) {
  return dump(result_json(result, crashcut, Extent::kReport));
}

std::string json_text(const std::vector<Result>& rows, const std::string& crashcut) {
  Json list = Json::array();
  for (const Result& row : rows) list.push_back(result_json(row, crashcut, Extent::kReport));
  return dump(list);
}

Json page_json(const Result& result, const std::string& crashcut) {
  return result_json(result, crashcut, Extent::kPage);
}

Json to_json(const Story& story) { return story_json(story, Extent::kWhole); }

namespace {

Json story_json(const Story& story, Extent extent) {
  Json steps = Json::array(), waiting = Json::array(), crashes = Json::array(), stacks = Json::array();
  std::map<std::vector<SourceLine>, std::size_t> numbers;
  // The same few stacks come again and again.
  const auto stack_number = [&](const std::vector<SourceLine>& stack) -> Json {
    if (stack.empty()) return nullptr;
    const auto [at, is_new] = numbers.try_emplace(stack, numbers.size());
    if (is_new) stacks.push_back(stack_json(stack));
    return at->second;
  };
  for (const ScheduleStep& step : story.schedule) {
    steps.push_back({{"thread", step.thread}, {"text", step.text}});
    add_place(step.stack, steps.back());
    if (story.machines > 0) steps.back()["machine"] = step.machine;
    if (step.is_failure) steps.back()["died_before"] = step.died_before;
    steps.back()["stack"] = stack_number(step.stack);
  }
  for (const WaitingThread& thread : story.waiting) {
    waiting.push_back({{"thread", thread.thread}, {"holds", thread.holds}, {"text", thread.text}});
    add_place(thread.stack, waiting.back());
    waiting.back()["stack"] = stack_number(thread.stack);
  }
  for (const Crash& crash : story.crashes) crashes.push_back(crash_json(crash, extent));
  return {{"steps", std::move(steps)},      {"waiting", std::move(waiting)},
          {"stacks", std::move(stacks)},    {"race", story.race ? race_json(*story.race) : Json(nullptr)},
          {"crashes", std::move(crashes)},  {"files", files_json(story.files)},
          {"stdout", story.output},         {"stderr", story.errors},
          {"stdout_cut", story.output_cut}, {"stderr_cut", story.errors_cut}};
}

}  // namespace

Story story_from_json(const Json& json) {
  Story story;
  for (const Json& from : json.at("crashes")) {
    Crash& crash = story.crashes.emplace_back();
    for (const Json& operation : from.at("operations")) crash.operations.push_back(operation_from(operation));
    for (const Json& call : from.at("calls")) crash.calls.push_back(call_from(call));
    crash.calls_left_out = from.at("calls_left_out");
    crash.persisted = numbers_from_runs(from.at("persisted"));
    crash.earliest = from.at("earliest");
    crash.latest = from.at("latest");
  }
  for (const Json& from : json.at("files")) {
    story.files.push_back({from.at("path"), content_from(from.at("before")), content_from(from.at("expected")),
                           content_from(from.at("after"))});
  }
  story.output = json.at("stdout");
  story.errors = json.at("stderr");
  story.output_cut = json.at("stdout_cut");
  story.errors_cut = json.at("stderr_cut");
  return story;
}

}  // namespace crashcut::result
