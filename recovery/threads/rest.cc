#include "recovery/threads/rest.h"

#include <concepts>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "recovery/result/token_bytes.h"
#include "recovery/threads/token.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

using nlohmann::json;
using scheduler::ActorId;
using scheduler::BranchSketch;
using scheduler::Finished;
using scheduler::NodeSketch;

constexpr std::size_t kTextMost = std::size_t{256} << 20;

struct Damaged {};

// Each kind of value, written and read.
template <class T>
requires std::is_arithmetic_v<T> || std::same_as<T, std::string> json to_json(const T& value) { return value; }
void read(const json& from, bool& value) { value = from.get<bool>(); }
void read(const json& from, double& value) { value = from.get<double>(); }
void read(const json& from, std::string& value) { value = from.get<std::string>(); }
template <std::unsigned_integral T>
void read(const json& from, T& value) {
  if (!from.is_number_unsigned() || from.get<std::uint64_t>() > std::numeric_limits<T>::max()) throw Damaged{};
  value = from.get<T>();
}

using Seconds = std::chrono::duration<double>;
json to_json(Seconds value) { return value.count(); }
void read(const json& from, Seconds& value) { value = Seconds(from.get<double>()); }

json to_json(ActorId actor) { return index(actor); }
void read(const json& from, ActorId& actor) {
  std::uint32_t number = 0;
  read(from, number);
  if (number >= scheduler::runtime::kActorsMost) throw Damaged{};
  actor = static_cast<ActorId>(number);
}

json to_json(const BranchSketch& branch);
void read(const json& from, BranchSketch& branch);
json to_json(const NodeSketch& node);
void read(const json& from, NodeSketch& node);

template <class T>
json to_json(const std::vector<T>& all) {
  json array = json::array();
  for (const T& one : all) array.push_back(to_json(one));
  return array;
}
template <class T>
void read(const json& from, std::vector<T>& all) {
  if (!from.is_array() || from.size() >= scheduler::runtime::kStepsMost) throw Damaged{};
  for (const json& one : from) read(one, all.emplace_back());
}

json to_json(const BranchSketch& branch) {
  return {to_json(branch.actor), branch.is_preemption, to_json(branch.children)};
}
void read(const json& from, BranchSketch& branch) {
  read(from.at(0), branch.actor);
  read(from.at(1), branch.is_preemption);
  read(from.at(2), branch.children);
}

json to_json(const NodeSketch& node) {
  json done = json::array();
  for (const Finished& finished : node.done) done.push_back({finished.branches, finished.leaves});
  return {node.depth, node.preemptions, node.started, done, to_json(node.sleep), to_json(node.pending)};
}
void read(const json& from, NodeSketch& node) {
  read(from.at(0), node.depth);
  read(from.at(1), node.preemptions);
  read(from.at(2), node.started);
  for (std::size_t i = 0; i < node.done.size(); ++i) {
    read(from.at(3).at(i).at(0), node.done[i].branches);
    read(from.at(3).at(i).at(1), node.done[i].leaves);
  }
  read(from.at(4), node.sleep);
  read(from.at(5), node.pending);
}

struct Writer {
  json to = json::object();
  template <class T>
  void operator()(const char* name, const T& value) {
    to[name] = to_json(value);
  }
};
struct Reader {
  const json& from;
  template <class T>
  void operator()(const char* name, T& value) {
    read(from.at(name), value);
  }
};

// All that is written and read. `token` has the rest: how the program is run, its actors, and the path of the sketch.
void list(auto&& field, std::string& token, std::uint32_t& reduction, ThreadPlan& plan, ThreadRest& rest) {
  field("token", token);
  field("program", plan.program);
  field("from", plan.from_directory);
  field("reduction", reduction);
  field("foresight", plan.has_foresight);
  field("all", plan.wants_all);
  field("merges_logs", plan.merges_logs);
  field("max_executions", plan.executions_most);
  field("max_recoveries", plan.max_recoveries);
  field("time_s", plan.time_limit);
  field("steps", plan.steps_most);
  field("preemptions", plan.preemptions_most);
  field("step_limit_s", plan.step_limit_s);
  field("unbegun", rest.sketch.is_unbegun);
  field("nodes", rest.sketch.nodes);
  field("hit_depth", rest.sketch.hit_depth);
  field("hit_timeouts", rest.sketch.hit_timeouts);
  field("hit_preemptions", rest.sketch.hit_preemptions);
  field("unstirred_waits", rest.sketch.unstirred_waits);
  field("depth", rest.sketch.depth);
  field("depth_whole", rest.sketch.depth_whole);
  field("preemptions_of_round", rest.preemptions);
  field("opaque", rest.is_opaque);
  field("instrumented", rest.is_instrumented);
  field("met", rest.has_met);
  field("unexplored_crashes", rest.unexplored_crashes);
  field("executions", rest.counts.executions);
  field("asleep", rest.counts.asleep);
  field("foreseen", rest.counts.foreseen);
  field("transitions", rest.counts.transitions);
  field("seconds", rest.counts.seconds);
  field("violations", rest.violations);
  field("assumed_away", rest.assumed_away);
  field("seed", rest.seed);
  field("seeds_left", rest.seeds_left);
}

}  // namespace

std::string encode_rest(const ThreadPlan& asked, const ThreadRest& left) {
  ThreadPlan plan = asked;
  ThreadRest rest = left;
  ThreadToken held{plan, {rest.actors, rest.racy, rest.sketch.path}};
  held.plan.ignores_result = rest.ignores_result;
  std::string token = encode(held);
  // The token has names that mean something elsewhere; this is for here.
  std::vector<std::string> machines;
  for (const Machine& machine : plan.machines) machines.push_back(std::filesystem::absolute(machine.named).string());
  if (!machines.empty()) plan.program = machines[0];
  auto reduction = static_cast<std::uint32_t>(plan.reduction);
  Writer writer;
  list(writer, token, reduction, plan, rest);
  writer("machines", machines);
  writer.to["tally"] = search::to_json(rest.tally);
  std::string bytes;
  json::to_cbor(writer.to, nlohmann::detail::output_adapter<char>(bytes));
  return result::seal(kRestPrefix, std::move(bytes));
}

tl::expected<std::pair<ThreadPlan, ThreadRest>, std::string> decode_rest(std::string_view text) {
  const auto body = result::unseal(kRestPrefix, text, kTextMost);
  if (!body) return tl::unexpected(body.error());
  try {
    const json all = json::from_cbor(*body);
    const auto token = result::decode(all.at("token").get<std::string>());
    if (!token) throw Damaged{};
    const auto held = read_thread_token(*token);
    if (!held) throw Damaged{};
    std::pair<ThreadPlan, ThreadRest> decoded{held->plan, {}};
    auto& [plan, rest] = decoded;
    rest.actors = held->schedule.actors;
    rest.racy = held->schedule.racy;
    rest.sketch.path = held->schedule.steps;
    rest.ignores_result = std::exchange(plan.ignores_result, false);
    std::string unused;
    std::uint32_t reduction = 0;
    list(Reader{all}, unused, reduction, plan, rest);
    plan.reduction = static_cast<scheduler::ReductionName>(reduction);
    plan.seed = rest.seed;
    plan.seeds_most = rest.seeds_left;
    std::vector<std::string> machines;
    Reader{all}("machines", machines);
    if (machines.size() != plan.machines.size()) throw Damaged{};
    rest.tally = search::tally_from(all.at("tally"));
    for (std::size_t i = 0; i < machines.size(); ++i) plan.machines[i].named = machines[i];
    const bool is_possible = reduction <= static_cast<std::uint32_t>(scheduler::ReductionName::kOptimal) &&
                             rest.seeds_left > 0 && plan.program.starts_with('/') && plan.step_limit_s > 0 &&
                             plan.time_limit.count() >= 0;
    if (is_possible) return decoded;
  } catch (const json::exception&) {
  } catch (const Damaged&) {
  }
  return tl::unexpected(result::no_crashcut_wrote_it());
}

}  // namespace crashcut::recovery
