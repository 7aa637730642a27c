#include "recovery/json_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "recovery/report.h"

namespace crashcut::recovery {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no "none" for numbers and texts of ours: 0 and "" are written as null.
template <class T>
Json or_null(const T& value) {
  return value == T{} ? Json(nullptr) : Json(value);
}

Json model_json(const fusefs::ModelOptions& model) {
  return {{"text", fusefs::describe(model)},
          {"profile", fusefs::to_text(model.profile)},
          {"data", fusefs::to_text(model.data)},
          {"delalloc", model.delalloc},
          {"auto_da_alloc", model.auto_da_alloc},
          {"dioread_nolock", model.dioread_nolock},
          {"barrier", model.barrier},
          {"sector_bytes", model.sector_bytes},
          {"block_bytes", model.block_bytes}};
}

Json bounds_json(const Plan& plan) {
  return {{"depth", plan.depth},
          {"max_recoveries", or_null(plan.max_recoveries)},
          {"time_s", or_null(plan.time_limit.count())},
          {"jobs", plan.jobs},
          {"main_limit_s", plan.main_limit.count()},
          {"recovery_limit_s", plan.recovery_limit.count()}};
}

Json counts_json(const Survey& survey) {
  return {{"recoveries", survey.recoveries()},
          {"ok", survey.ok()},
          {"assumed_away", survey.assumed_away()},
          {"violations", survey.violations()},
          {"not_run", survey.tool_errors()}};
}

Json outcomes_json(const Survey& survey) {
  std::vector<std::string> outputs;
  for (const auto& [output, tally] : survey.outcomes()) outputs.push_back(output);
  // What dump() would make of bytes that are no UTF-8, for all of them.
  const auto text = [](const std::string& output) {
    return Json::parse(Json(outcome_text(output)).dump(-1, ' ', false, Json::error_handler_t::replace))
        .get<std::string>();
  };
  const std::vector<std::string> texts = texts_of(outputs, text);
  Json list = Json::array();
  for (const auto& [output, tally] : survey.outcomes()) {
    list.push_back({{"output", texts[list.size()]},
                    {"stdout", output},
                    {"recoveries", tally.recoveries},
                    {"violations", tally.violations}});
  }
  return list;
}

std::string_view kind_text(inprocess::RecordKind kind) {
  switch (kind) {
    case inprocess::RecordKind::kOk:
      return "ok";
    case inprocess::RecordKind::kAssumedAway:
      return "assumed_away";
    case inprocess::RecordKind::kExited:
      return "exit";
    case inprocess::RecordKind::kSignalled:
      return "signal";
    case inprocess::RecordKind::kHung:
      return "hang";
    case inprocess::RecordKind::kToolError:
      return "not_run";
  }
  return "";
}

Json failure_json(const FailureKind& failure) {
  return {{"kind", kind_text(failure.kind)},
          {"code", failure.code},
          {"text", to_text(failure)},
          {"message", failure.message}};
}

Json failures_json(const Survey& survey) {
  Json list = Json::array();
  for (const auto& [failure, count] : survey.failures()) {
    Json entry = failure_json(failure);
    entry["recoveries"] = count;
    list.push_back(std::move(entry));
  }
  return list;
}

Json not_run_json(const Survey& survey) {
  Json list = Json::array();
  for (const auto& [sentence, not_run] : survey.not_run()) {
    list.push_back({{"text", sentence}, {"recoveries", not_run.recoveries}});
  }
  return list;
}

Json operation_json(const Operation& operation) {
  static constexpr std::string_view kFates[] = {"yes", "partly", "no"};
  Json events = Json::array();
  for (const Event& event : operation.events) {
    events.push_back({{"event", event.id},
                      {"kind", event.kind},
                      {"text", event.text},
                      {"durable", event.durable},
                      {"persisted", event.persisted || event.durable}});
  }
  const Json persisted = operation.events.empty() ? Json(nullptr) : Json(kFates[static_cast<int>(operation.fate())]);
  return {{"text", operation.text}, {"persisted", persisted}, {"events", std::move(events)}};
}

Json call_json(const Call& call) {
  Json choices = Json::array();
  for (const Observation& o : call.observations) {
    choices.push_back({{"location", o.location}, {"candidates", o.candidates}, {"taken", o.taken}, {"crash", o.crash}});
  }
  return {{"text", call.text}, {"choices", std::move(choices)}};
}

Json crash_json(const Crash& crash) {
  Json operations = Json::array();
  for (const Operation& operation : crash.operations) operations.push_back(operation_json(operation));
  Json calls = Json::array();
  for (const Call& call : crash.calls) calls.push_back(call_json(call));
  return {{"operations", std::move(operations)}, {"recovery_calls", std::move(calls)}};
}

Json violation_json(const Counterexample& example) {
  const Account& account = example.account;
  Json violation = failure_json(account.failure);
  violation["is_smallest"] = example.is_smallest;
  violation["replays"] = example.replays;
  violation["path"] = inprocess::path_to_text(account.path);
  violation["crashes"] = Json::array();
  for (const Crash& crash : account.story.crashes) violation["crashes"].push_back(crash_json(crash));
  violation["stdout"] = account.output;
  violation["stderr"] = account.errors;
  return violation;
}

Json bound_json(Bound bound) {
  switch (bound) {
    case Bound::kNone:
      return nullptr;
    case Bound::kRecoveries:
      return "max_recoveries";
    case Bound::kTime:
    case Bound::kTimeInMain:
      return "time";
    case Bound::kInterrupt:
      return "interrupt";
    case Bound::kNotRun:
      return "not_run";
  }
  return nullptr;
}

}  // namespace

Json model_to_json(const fusefs::ModelOptions& model) { return model_json(model); }
Json outcomes_to_json(const Survey& survey) { return outcomes_json(survey); }
Json counterexample_to_json(const Counterexample& example) { return violation_json(example); }

Json to_json(const Plan& plan, const Result& result) {
  return {
      {"format", 1},
      {"program", plan.program},
      {"arguments", plan.arguments},
      {"from", or_null(plan.from_directory)},
      {"model", model_json(plan.model)},
      {"bounds", bounds_json(plan)},
      {"seed", plan.seed},
      {"execution",
       {{"operations", result.execution.op_count},
        {"events", result.execution.event_count},
        {"threads", result.execution.threads_begun + 1},
        {"fingerprint", fmt::format("{:016x}", result.execution.fingerprint)}}},
      {"verdict", to_text(result.verdict)},
      {"exit_code", exit_code(result.verdict)},
      {"not_covered", not_covered(result)},
      {"bound_hit", bound_json(result.bound)},
      {"explored_fraction", result.explored_fraction},
      {"seconds", result.seconds},
      {"counts", counts_json(result.survey)},
      {"outcomes", outcomes_json(result.survey)},
      {"failures", failures_json(result.survey)},
      {"not_run", not_run_json(result.survey)},
      {"violation", result.counterexample ? violation_json(*result.counterexample) : Json(nullptr)},
      {"token", or_null(result.token)},
      {"replay", result.token.empty() ? Json(nullptr) : Json(plan.crashcut + " replay " + result.token)},
  };
}

std::string dump(const Json& document) { return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace crashcut::recovery
