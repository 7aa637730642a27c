#include "recovery/threads/token.h"

#include "persist/hash.h"
#include "recovery/result/token.h"
#include "recovery/result/token_bytes.h"
#include "recovery/run_token.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

using result::TokenReader;
using result::TokenWriter;
using scheduler::ActorId;
using scheduler::PrimitiveId;
using scheduler::ReductionName;
using scheduler::runtime::kActorsMost;
using scheduler::runtime::kStepsMost;

// Actors that are no threads, and main() of machines: numbers behind those of threads, but for the first timer.
constexpr std::uint32_t kTimerOrdinal = scheduler::runtime::Names::kTimerOrdinal;
constexpr std::uint32_t kBesideMost = kTimerOrdinal - scheduler::runtime::Names::kCacheOrdinal;

constexpr std::uint64_t kDevicesMost = scheduler::runtime::kRegionsMost;

// Runs of steps of one actor.
void put_schedule(TokenWriter& out, const std::vector<ActorId>& schedule) {
  out.number(schedule.size());
  for (std::size_t i = 0; i < schedule.size();) {
    std::size_t end = i + 1;
    while (end < schedule.size() && schedule[end] == schedule[i]) ++end;
    out.number(index(schedule[i]));
    out.number(end - i);
    i = end;
  }
}

std::vector<ActorId> read_schedule(TokenReader& in) {
  std::vector<ActorId> schedule;
  const std::uint64_t length = in.number(kStepsMost - 1);
  while (in.ok() && schedule.size() < length) {
    const std::uint64_t actor = in.number(kActorsMost - 1);
    const std::uint64_t count = in.number(length - schedule.size());
    if (count == 0) in.refuse();
    schedule.insert(schedule.end(), count, static_cast<ActorId>(actor));
  }
  return schedule;
}

void put_machines(TokenWriter& out, const ThreadPlan& plan) {
  out.number(plan.machines.size());
  for (const Machine& machine : plan.machines) {
    out.text(result::portable_path(machine.named));
    out.text(machine.id);
  }
  out.number(plan.failures_most);
  out.number(plan.failing);
  out.number(plan.has_garbage ? 1 : 0);
  out.number(plan.devices.size());
  for (const std::string& device : plan.devices) out.text(device);
}

void read_machines(TokenReader& in, ThreadPlan& plan) {
  const std::uint64_t count = in.number(scheduler::runtime::kHostsMost);
  if (count == 0) in.refuse();
  for (std::uint64_t i = 0; in.ok() && i < count; ++i) {
    Machine machine;
    machine.named = in.text();
    machine.id = in.text();
    plan.machines.push_back(std::move(machine));
  }
  plan.failures_most = static_cast<std::uint32_t>(in.number(1000));
  plan.failing = static_cast<std::uint32_t>(in.number((1u << scheduler::runtime::kHostsMost) - 1));
  plan.has_garbage = in.number(1) != 0;
  const std::uint64_t devices = in.number(kDevicesMost);
  for (std::uint64_t i = 0; in.ok() && i < devices; ++i) plan.devices.push_back(in.text());
}

// In place of a home; + how many steps caches take by themselves, - 1.
constexpr std::uint64_t kIncoherent = scheduler::runtime::kHostsMost + 1;

void put_rules(TokenWriter& out, const ThreadPlan& plan) {
  out.number(plan.region_rules.size());
  for (const RegionRule& rule : plan.region_rules) {
    out.text(rule.name);
    out.number(rule.is_incoherent ? kIncoherent + plan.cache_steps_most - 1 : rule.home ? *rule.home + 1 : 0);
  }
  out.number(plan.failing_devices);
}

void read_rules(TokenReader& in, ThreadPlan& plan) {
  const std::uint64_t rules = in.number(scheduler::runtime::kRegionRulesMost);
  for (std::uint64_t i = 0; in.ok() && i < rules; ++i) {
    RegionRule rule;
    rule.name = in.text();
    const std::uint64_t home = in.number(kIncoherent + kCacheStepsMost - 1);
    rule.is_incoherent = home >= kIncoherent;
    if (rule.is_incoherent) plan.cache_steps_most = static_cast<std::uint32_t>(home - kIncoherent + 1);
    if (home != 0 && !rule.is_incoherent) rule.home = static_cast<std::uint32_t>(home - 1);
    plan.region_rules.push_back(std::move(rule));
  }
  plan.failing_devices = static_cast<std::uint32_t>(in.number(scheduler::runtime::kHostsMost - plan.machines.size()));
}

std::string own_of(const ThreadToken& token) {
  TokenWriter out;
  const ThreadPlan& plan = token.plan;
  out.number((plan.reduction != ReductionName::kNone ? 1 : 0) + (plan.is_strict_exit ? 2 : 0) +
             (plan.ignores_result ? 4 : 0) + (token.recovery ? 8 : 0) + (plan.has_memory_steps() ? 16 : 0) +
             (plan.has_store_buffers ? 32 : 0) + (plan.expects_prefix ? 64 : 0) + (plan.traps ? 128 : 0));
  if (!plan.machines.empty())
    out.number(!plan.caches ? 0
                            : 1 + (plan.caches->has_global_flush ? 2 : 0) + (plan.caches->has_poison ? 4 : 0) +
                                  (plan.caches->poison_is_value ? 8 : 0) + (plan.region_rules.empty() ? 0 : 16));
  if (!plan.machines.empty()) put_machines(out, plan);
  if (!plan.region_rules.empty()) put_rules(out, plan);
  out.number(plan.spurious_most);
  out.number(plan.timeouts_most);
  out.number(plan.policies.size());
  for (const auto& [primitive, policy] : plan.policies) {
    out.number(static_cast<std::uint64_t>(primitive));
    out.number(static_cast<std::uint64_t>(policy));
  }
  out.number(token.schedule.actors.size());
  for (const scheduler::runtime::ActorName& actor : token.schedule.actors) {
    out.number(actor.parent);
    const std::uint64_t beside = kTimerOrdinal - actor.ordinal;
    out.number(beside == 0 ? 0 : beside > kBesideMost ? std::uint64_t{actor.ordinal} + 1 : kActorsMost + beside);
  }
  put_schedule(out, token.schedule.steps);
  out.number(token.schedule.racy.size());
  for (const std::uint64_t place : token.schedule.racy) out.fixed(place, 8);
  out.fixed(token.fingerprint, 8);
  return out.take();
}

// Whether a recovery follows.
bool read_own(TokenReader& in, bool has_machines, ThreadToken& token) {
  const std::uint64_t flags = in.number(255);
  ThreadPlan& plan = token.plan;
  plan.reduction = (flags & 1) != 0 ? ReductionName::kOptimal : ReductionName::kNone;
  plan.is_strict_exit = (flags & 2) != 0;
  plan.ignores_result = (flags & 4) != 0;
  plan.schedules = (flags & 16) != 0 ? ThreadPlan::Schedules::kAll : ThreadPlan::Schedules::kOne;
  plan.has_store_buffers = (flags & 32) != 0;
  plan.expects_prefix = (flags & 64) != 0;
  plan.traps = (flags & 128) != 0;
  std::uint64_t caches = 0;
  if (has_machines) {
    caches = in.number(31);
    if ((caches & 1) != 0) plan.caches = Caches{(caches & 2) != 0, (caches & 4) != 0, (caches & 8) != 0};
  }
  if (!plan.models_memory()) plan.schedules = ThreadPlan::Schedules::kAll;
  if (has_machines) read_machines(in, plan);
  if ((caches & 16) != 0) read_rules(in, plan);
  plan.spurious_most = static_cast<std::uint32_t>(in.number(1000));
  plan.timeouts_most = static_cast<std::uint32_t>(in.number(1000));
  const std::uint64_t policies = in.number(16);
  for (std::uint64_t i = 0; in.ok() && i < policies; ++i) {
    const auto primitive = static_cast<PrimitiveId>(in.number(static_cast<std::uint64_t>(PrimitiveId::kFutex)));
    plan.policies.emplace_back(primitive, static_cast<std::int64_t>(in.number(scheduler::rwlock::kLastFirst)));
  }
  const std::uint64_t actors = in.number(kActorsMost);
  for (std::uint64_t i = 0; in.ok() && i < actors; ++i) {
    const auto parent = static_cast<std::uint32_t>(in.number(kActorsMost - 1));
    const std::uint64_t ordinal = in.number(kActorsMost + kBesideMost);
    token.schedule.actors.push_back(
        {parent, ordinal == 0 ? kTimerOrdinal
                              : static_cast<std::uint32_t>(
                                    ordinal <= kActorsMost ? ordinal - 1 : kTimerOrdinal - (ordinal - kActorsMost))});
  }
  token.schedule.steps = read_schedule(in);
  const std::uint64_t racy = in.number(scheduler::runtime::kRacyMost);
  for (std::uint64_t i = 0; in.ok() && i < racy; ++i) token.schedule.racy.push_back(in.fixed(8));
  token.fingerprint = in.fixed(8);
  return (flags & 8) != 0;
}

}  // namespace

std::uint64_t fingerprint_of(const ThreadFinding& finding) {
  std::uint64_t hash = persist::kHashStart;
  const auto add = [&](std::uint64_t value) { hash = persist::mix(hash, value); };
  // Not the objects: their numbers are those of a search.
  for (const scheduler::Step& step : finding.execution.steps) {
    add(index(step.actor));
    for (const scheduler::Access& access : step.operation) {
      add(static_cast<std::uint64_t>(primitive_of(access.object)) << 8 | access.verb);
      if (primitive_of(access.object) != PrimitiveId::kFile) add(static_cast<std::uint64_t>(access.result));
    }
  }
  add(static_cast<std::uint64_t>(finding.details.kind));
  add(static_cast<std::uint64_t>(finding.details.number));
  return persist::mix_bytes(hash, finding.details.text);
}

ThreadToken make_token(const ThreadPlan& plan, const ThreadFinding& finding) {
  ThreadToken token{plan, {finding.actors, finding.racy, schedule_of(finding.execution)}, fingerprint_of(finding)};
  token.plan.ignores_result = finding.ignores_result;
  token.plan.seed = finding.seed;
  if (finding.crash) token.recovery = CrashReplay{finding.fingerprint, finding.crash_path};
  return token;
}

std::string encode(const ThreadToken& token) {
  result::Token out = token_of(token_command_of(token.plan), token.plan);
  if (token.recovery) {
    out.fingerprint = token.recovery->fingerprint;
    out.path = token.recovery->path;
  }
  out.own = own_of(token);
  return result::encode(out);
}

tl::expected<ThreadToken, result::Failure> read_thread_token(const result::Token& from) {
  const auto crash = plan_of(from);
  if (!crash) return tl::unexpected(crash.error());
  ThreadToken token;
  static_cast<Plan&>(token.plan) = *crash;
  token.plan.program = crash->named;
  TokenReader in(from.own);
  if (read_own(in, from.command == "cxl", token)) token.recovery = CrashReplay{from.fingerprint, from.path};
  if (!in.at_end() || token.schedule.actors.empty()) return result::wrong_use(result::no_crashcut_wrote_it());
  return token;
}

}  // namespace crashcut::recovery
