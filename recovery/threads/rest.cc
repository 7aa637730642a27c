#include "recovery/threads/rest.h"

#include <nlohmann/json.hpp>

#include "recovery/result/token_bytes.h"
#include "recovery/run_token.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

using nlohmann::json;
using scheduler::ActorId;
using scheduler::BranchSketch;
using scheduler::NodeSketch;
using scheduler::runtime::kActorsMost;
using scheduler::runtime::kRacyMost;
using scheduler::runtime::kStepsMost;

constexpr std::size_t kTextMost = std::size_t{16} << 20;

struct Damaged {};

template <class T>
T number(const json& from, T most) {
  if (!from.is_number_unsigned() || from.get<std::uint64_t>() > most) throw Damaged{};
  return from.get<T>();
}
ActorId actor_of(const json& from) { return static_cast<ActorId>(number<std::uint32_t>(from, kActorsMost - 1)); }

json to_json(const BranchSketch& branch) {
  json children = json::array();
  for (const BranchSketch& child : branch.children) children.push_back(to_json(child));
  return {index(branch.actor), branch.is_preemption, children};
}
BranchSketch branch_of(const json& from) {
  BranchSketch branch{actor_of(from.at(0)), from.at(1).get<bool>(), {}};
  for (const json& child : from.at(2)) branch.children.push_back(branch_of(child));
  return branch;
}

json to_json(const NodeSketch& node) {
  json sleep = json::array(), pending = json::array();
  for (const ActorId actor : node.sleep) sleep.push_back(index(actor));
  for (const BranchSketch& branch : node.pending) pending.push_back(to_json(branch));
  json done = json::array();
  for (const scheduler::Finished& finished : node.done) done.push_back({finished.branches, finished.leaves});
  return {node.depth, node.preemptions, node.started, done, sleep, pending};
}
NodeSketch node_of(const json& from) {
  NodeSketch node{number<std::uint32_t>(from.at(0), kStepsMost),
                  number<std::uint32_t>(from.at(1), ~0u),
                  number<std::uint64_t>(from.at(2), ~std::uint64_t{0}),
                  {},
                  {},
                  {}};
  for (std::size_t i = 0; i < node.done.size(); ++i)
    node.done[i] = {number<std::uint64_t>(from.at(3).at(i).at(0), ~std::uint64_t{0}),
                    number<std::uint64_t>(from.at(3).at(i).at(1), ~std::uint64_t{0})};
  for (const json& actor : from.at(4)) node.sleep.push_back(actor_of(actor));
  for (const json& branch : from.at(5)) node.pending.push_back(branch_of(branch));
  return node;
}

// Runs of an actor and a count.
json to_json(const std::vector<ActorId>& path) {
  json runs = json::array();
  for (const ActorId actor : path) {
    if (runs.empty() || runs.back()[0] != index(actor)) runs.push_back({index(actor), 0u});
    runs.back()[1] = runs.back()[1].get<std::uint32_t>() + 1;
  }
  return runs;
}
std::vector<ActorId> path_of(const json& from) {
  std::vector<ActorId> path;
  for (const json& run : from) {
    path.insert(path.end(), number<std::uint32_t>(run.at(1), kStepsMost), actor_of(run.at(0)));
    if (path.size() >= kStepsMost) throw Damaged{};
  }
  return path;
}

// What is crashed and how: as a token without a path, the directory that the disk starts as, the bound on recoveries,
// whether recordings are merged.
json crash_json(const ThreadPlan& plan) {
  return {result::encode(token_of("threads", plan.crash)), plan.crash.from_directory, plan.crash.max_recoveries,
          plan.merges_logs};
}
void read_crash(const json& from, ThreadPlan& plan) {
  const auto token = result::decode(from.at(0).get<std::string>());
  if (!token) throw Damaged{};
  const auto crash = plan_of(*token);
  if (!crash) throw Damaged{};
  plan.crash = *crash;
  plan.crash.from_directory = from.at(1).get<std::string>();
  plan.crash.max_recoveries = number<std::uint64_t>(from.at(2), ~std::uint64_t{0});
  plan.merges_logs = from.at(3).get<bool>();
}

ThreadPlan plan_of(const json& from) {
  ThreadPlan plan;
  plan.program = from.at("p").get<std::string>();
  plan.arguments = from.at("a").get<std::vector<std::string>>();
  plan.reduction = static_cast<scheduler::ReductionName>(
      number<std::uint32_t>(from.at("r"), static_cast<std::uint32_t>(scheduler::ReductionName::kOptimal)));
  plan.has_foresight = from.at("f").get<bool>();
  plan.goes_on = from.at("g").get<bool>();
  plan.is_strict_exit = from.at("q").get<bool>();
  const json& bounds = from.at("b");
  plan.bounds = {number<std::uint64_t>(bounds.at(0), ~std::uint64_t{0}), bounds.at(1).get<double>(),
                 number<std::uint32_t>(bounds.at(2), ~0u), number<std::uint32_t>(bounds.at(3), ~0u)};
  plan.spurious_most = number<std::uint32_t>(from.at("s"), 1000);
  plan.timeouts_most = number<std::uint32_t>(from.at("t"), 1000);
  plan.step_limit_s = from.at("l").get<double>();
  for (const json& policy : from.at("w")) {
    plan.policies.emplace_back(static_cast<scheduler::PrimitiveId>(number<std::uint32_t>(
                                   policy.at(0), static_cast<std::uint32_t>(scheduler::PrimitiveId::kFutex))),
                               number<std::uint32_t>(policy.at(1), scheduler::rwlock::kLastFirst));
  }
  read_crash(from.at("d"), plan);
  if (!plan.program.starts_with('/') || !(plan.step_limit_s > 0) || !(plan.bounds.time_most_s >= 0)) throw Damaged{};
  return plan;
}

ThreadRest rest_of(const json& from) {
  ThreadRest rest;
  rest.is_opaque = from.at("o").get<bool>();
  rest.is_instrumented = from.at("i").get<bool>();
  rest.ignores_result = from.at("v").get<bool>();
  rest.has_met = from.at("j").get<bool>();
  for (const json& actor : from.at("n"))
    rest.actors.push_back({number<std::uint32_t>(actor.at(0), kActorsMost), number<std::uint32_t>(actor.at(1), ~0u)});
  for (const json& place : from.at("m")) rest.racy.push_back(number<std::uint64_t>(place, ~std::uint64_t{0}));
  rest.sketch.path = path_of(from.at("x"));
  rest.uncrashed = path_of(from.at("u"));
  for (const json& node : from.at("y")) rest.sketch.nodes.push_back(node_of(node));
  const json& left_out = from.at("h");
  rest.sketch.hit_depth = left_out.at(0).get<bool>();
  rest.sketch.hit_timeouts = left_out.at(1).get<bool>();
  rest.sketch.hit_preemptions = left_out.at(2).get<bool>();
  rest.sketch.unstirred_waits = number<std::uint64_t>(left_out.at(3), ~std::uint64_t{0});
  rest.preemptions = number<std::uint32_t>(from.at("k"), ~0u);
  rest.sketch.depth = number<std::uint32_t>(from.at("z").at(0), ~0u);
  rest.sketch.depth_whole = number<std::uint32_t>(from.at("z").at(1), ~0u);
  const json& counts = from.at("c");
  std::uint64_t* const totals[] = {&rest.executions,  &rest.asleep,     &rest.foreseen,
                                   &rest.transitions, &rest.violations, &rest.assumed_away};
  for (std::size_t i = 0; i < std::size(totals); ++i)
    *totals[i] = number<std::uint64_t>(counts.at(i), ~std::uint64_t{0});
  rest.seconds = from.at("e").get<double>();
  if (rest.actors.empty() || rest.actors.size() > kActorsMost || rest.racy.size() > kRacyMost) throw Damaged{};
  return rest;
}

}  // namespace

std::string encode_rest(const ThreadPlan& plan, const ThreadRest& rest) {
  json policies = json::array(), actors = json::array(), nodes = json::array();
  for (const auto& [primitive, policy] : plan.policies)
    policies.push_back({static_cast<std::uint32_t>(primitive), static_cast<std::uint32_t>(policy)});
  for (const auto& actor : rest.actors) actors.push_back({actor.parent, actor.ordinal});
  for (const NodeSketch& node : rest.sketch.nodes) nodes.push_back(to_json(node));
  const json all = {
      {"p", plan.program},
      {"a", plan.arguments},
      {"r", static_cast<std::uint32_t>(plan.reduction)},
      {"f", plan.has_foresight},
      {"g", plan.goes_on},
      {"q", plan.is_strict_exit},
      {"v", rest.ignores_result},
      {"j", rest.has_met},
      {"b",
       {plan.bounds.executions_most, plan.bounds.time_most_s, plan.bounds.depth_most, plan.bounds.preemptions_most}},
      {"s", plan.spurious_most},
      {"t", plan.timeouts_most},
      {"l", plan.step_limit_s},
      {"w", policies},
      {"o", rest.is_opaque},
      {"i", rest.is_instrumented},
      {"n", actors},
      {"m", rest.racy},
      {"h",
       {rest.sketch.hit_depth, rest.sketch.hit_timeouts, rest.sketch.hit_preemptions, rest.sketch.unstirred_waits}},
      {"k", rest.preemptions},
      {"z", {rest.sketch.depth, rest.sketch.depth_whole}},
      {"x", to_json(rest.sketch.path)},
      {"y", nodes},
      {"u", to_json(rest.uncrashed)},
      {"d", crash_json(plan)},
      {"c", {rest.executions, rest.asleep, rest.foreseen, rest.transitions, rest.violations, rest.assumed_away}},
      {"e", rest.seconds}};
  return result::seal(kRestPrefix, all.dump());
}

tl::expected<std::pair<ThreadPlan, ThreadRest>, std::string> decode_rest(std::string_view text) {
  const auto body = result::unseal(kRestPrefix, text, kTextMost);
  if (!body) return tl::unexpected(body.error());
  try {
    const json all = json::parse(*body);
    return std::pair(plan_of(all), rest_of(all));
  } catch (const json::exception&) {
  } catch (const Damaged&) {
  }
  return tl::unexpected(result::no_crashcut_wrote_it());
}

}  // namespace crashcut::recovery
