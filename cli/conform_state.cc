#include "cli/conform_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "persist/hash.h"
#include "recovery/result/token_bytes.h"

namespace crashcut::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "cf1";
constexpr std::size_t kBytesMost = std::size_t{64} << 20;

Json to_json(const ConformPlan& plan) {
  const ConformSets& sets = plan.sets;
  return {{"mounts", plan.mounts},     {"seq1", sets.is_seq1}, {"seq2", sets.seq2_count}, {"random", sets.random_count},
          {"most", sets.limit},        {"every", sets.step},   {"seed", sets.seed},       {"litmus", sets.litmus},
          {"programs", sets.programs}, {"calls", sets.calls},  {"runs", plan.runs},       {"subsets", plan.subsets}};
}

ConformPlan plan_from(const Json& json) {
  ConformPlan plan;
  plan.mounts = json.at("mounts").get<std::vector<std::string>>();
  plan.sets.is_seq1 = json.at("seq1");
  plan.sets.seq2_count = json.at("seq2");
  plan.sets.random_count = json.at("random");
  plan.sets.limit = json.at("most");
  plan.sets.step = json.at("every");
  plan.sets.seed = json.at("seed");
  plan.sets.litmus = json.at("litmus");
  plan.sets.programs = json.at("programs").get<std::vector<std::string>>();
  plan.sets.calls = json.at("calls").get<std::vector<std::string>>();
  plan.runs = json.at("runs");
  plan.subsets = json.at("subsets");
  return plan;
}

Json to_json(const ConformRow& row) {
  Json slack = Json::array();
  for (const auto& [rule, count] : row.slack) slack.push_back({static_cast<int>(rule), count});
  return {row.options, row.set,     row.total,   row.programs, row.images, row.chosen,
          row.seen,    row.allowed, row.outside, row.skipped,  slack,      row.damaged};
}

ConformRow row_from(const Json& json) {
  ConformRow row{.options = json.at(0),
                 .set = json.at(1),
                 .total = json.at(2),
                 .programs = json.at(3),
                 .images = json.at(4),
                 .chosen = json.at(5),
                 .seen = json.at(6),
                 .allowed = json.at(7),
                 .outside = json.at(8),
                 .skipped = json.at(9)};
  row.damaged = json.at(11);
  for (const Json& slack : json.at(10)) row.slack[static_cast<SlackRule>(slack.at(0).get<int>())] = slack.at(1);
  return row;
}

Json to_json(const ConformFinding& finding) {
  const OutsideState& outside = finding.outside;
  return {finding.mount,  finding.set,  finding.program, finding.words,   outside.state,  outside.how,
          outside.images, outside.file, outside.marks,   outside.replays, finding.allowed};
}

ConformFinding finding_from(const Json& json) {
  return {json.at(0),
          json.at(1),
          json.at(2),
          json.at(3).get<std::vector<std::string>>(),
          {json.at(4), json.at(5), json.at(6), json.at(7), json.at(8).get<std::vector<std::string>>(), json.at(9)},
          json.at(10).get<std::vector<std::string>>()};
}

bool makes_sense(const ConformState& state) {
  return state.mounts.size() == state.plan.mounts.size() && !state.mounts.empty() && state.plan.sets.step > 0 &&
         state.plan.runs > 0 && state.plan.subsets > 0 &&
         std::all_of(state.mounts.begin(), state.mounts.end(), [&](const ConformState::Mount& mount) {
           return !mount.rows.empty() && (mount.done.empty() || *mount.done.rbegin() < state.case_count);
         });
}

}  // namespace

std::vector<std::string> ConformPlan::words() const {
  std::vector<std::string> words;
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (sets.is_seq1) add({"--seq1"});
  if (sets.seq2_count > 0) add({"--seq2", std::to_string(sets.seq2_count)});
  if (sets.random_count > 0) add({"--random", std::to_string(sets.random_count)});
  if (!sets.litmus.empty()) add({"--litmus", sets.litmus});
  for (const std::string& program : sets.programs) add({"--program", program});
  if (!sets.calls.empty()) add({"--call"});
  words.insert(words.end(), sets.calls.begin(), sets.calls.end());
  if (sets.step > 1) add({"--every", std::to_string(sets.step)});
  if (sets.limit > 0) add({"--most", std::to_string(sets.limit)});
  add({"--runs", std::to_string(runs), "--subsets", std::to_string(subsets), "--seed", std::to_string(sets.seed)});
  for (const std::string& mount : mounts) add({"-o", mount});
  return words;
}

std::string ConformPlan::command() const {
  std::string text = "crashcut conform";
  for (const std::string& word : words())
    text += word.find(' ') == std::string::npos ? " " + word : fmt::format(" '{}'", word);
  return text;
}

std::uint64_t fingerprint_of(const std::vector<ConformCase>& cases) {
  std::uint64_t hash = persist::kHashStart;
  for (const ConformCase& one : cases) hash = persist::mix_bytes(persist::mix_bytes(hash, one.set), one.text);
  return hash;
}

ConformState ConformState::of(const ConformPlan& plan, const std::vector<ConformCase>& cases) {
  ConformState state;
  state.plan = plan;
  state.fingerprint = fingerprint_of(cases);
  state.case_count = cases.size();
  for (const std::string& options : plan.mounts) {
    Mount& mount = state.mounts.emplace_back();
    for (const ConformCase& one : cases) {
      if (mount.rows.empty() || mount.rows.back().set != one.set)
        mount.rows.push_back({.options = options, .set = one.set});
      ++mount.rows.back().total;
    }
  }
  return state;
}

void ConformState::add(std::size_t mount_index, const ConformCase& one, std::size_t index, const Compared& compared) {
  Mount& mount = mounts.at(mount_index);
  if (!mount.done.insert(index).second) return;
  const auto row =
      std::find_if(mount.rows.begin(), mount.rows.end(), [&](const ConformRow& r) { return r.set == one.set; });
  if (row == mount.rows.end()) return;
  if (compared.is_skipped) {
    ++row->skipped;
    return;
  }
  ++row->programs;
  row->images += compared.images;
  row->chosen += compared.chosen;
  row->seen += compared.seen;
  row->allowed += compared.allowed;
  row->damaged += compared.damaged;
  row->outside += compared.outside.size();
  for (const NotShown& not_shown : compared.not_shown) ++row->slack[not_shown.rule];
  for (const OutsideState& outside : compared.outside)
    findings.push_back({plan.mounts[mount_index], one.set, one.text, one.words, outside, compared.allowed_states});
}

std::vector<std::size_t> ConformState::left(std::size_t mount) const {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < case_count; ++i) {
    if (!mounts.at(mount).done.contains(i)) left.push_back(i);
  }
  return left;
}

std::uint64_t ConformState::done_count() const {
  std::uint64_t count = 0;
  for (const Mount& mount : mounts) count += mount.done.size();
  return count;
}

std::vector<ConformRow> ConformState::rows() const {
  std::vector<ConformRow> rows;
  for (const Mount& mount : mounts) {
    std::copy_if(mount.rows.begin(), mount.rows.end(), std::back_inserter(rows),
                 [](const ConformRow& row) { return row.programs + row.skipped > 0; });
  }
  return rows;
}

std::string encode(const ConformState& state) {
  Json mounts = Json::array(), findings = Json::array();
  for (const ConformState::Mount& mount : state.mounts) {
    Json rows = Json::array();
    for (const ConformRow& row : mount.rows) rows.push_back(to_json(row));
    mounts.push_back({{"rows", rows}, {"done", mount.done}});
  }
  for (const ConformFinding& finding : state.findings) findings.push_back(to_json(finding));
  std::string bytes;
  Json::to_cbor({{"plan", to_json(state.plan)},
                 {"fingerprint", state.fingerprint},
                 {"cases", state.case_count},
                 {"mounts", std::move(mounts)},
                 {"findings", std::move(findings)},
                 {"seconds", state.seconds}},
                nlohmann::detail::output_adapter<char>(bytes));
  return result::seal(kPrefix, std::move(bytes));
}

tl::expected<ConformState, std::string> decode_conform(std::string_view text) {
  const auto bytes = result::unseal(kPrefix, text, kBytesMost);
  if (!bytes) return tl::unexpected(bytes.error());
  try {
    const Json json = Json::from_cbor(*bytes);
    ConformState state;
    state.plan = plan_from(json.at("plan"));
    state.fingerprint = json.at("fingerprint");
    state.case_count = json.at("cases");
    for (const Json& from : json.at("mounts")) {
      ConformState::Mount& mount = state.mounts.emplace_back();
      for (const Json& row : from.at("rows")) mount.rows.push_back(row_from(row));
      mount.done = from.at("done").get<std::set<std::size_t>>();
    }
    for (const Json& finding : json.at("findings")) state.findings.push_back(finding_from(finding));
    state.seconds = json.at("seconds");
    if (makes_sense(state)) return state;
  } catch (const Json::exception&) {
  }
  return tl::unexpected(result::no_crashcut_wrote_it());
}

}  // namespace crashcut::cli
