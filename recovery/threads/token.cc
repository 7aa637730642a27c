#include "recovery/threads/token.h"

#include "persist/hash.h"
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
using scheduler::runtime::kActorsMost;
using scheduler::runtime::kStepsMost;

// Actors that are no threads: numbers behind those of threads, but for the first timer.
constexpr std::uint32_t kTimerOrdinal = scheduler::runtime::Names::kTimerOrdinal;
constexpr std::uint32_t kBesideMost = kTimerOrdinal - scheduler::runtime::Names::kFirstBeside;

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

std::string own_of(const ThreadToken& token) {
  TokenWriter out;
  out.number((token.is_reduced ? 1 : 0) + (token.is_strict_exit ? 2 : 0) + (token.ignores_result ? 4 : 0) +
             (token.recovery ? 8 : 0));
  out.number(token.spurious_most);
  out.number(token.timeouts_most);
  out.number(token.policies.size());
  for (const auto& [primitive, policy] : token.policies) {
    out.number(static_cast<std::uint64_t>(primitive));
    out.number(static_cast<std::uint64_t>(policy));
  }
  out.number(token.actors.size());
  for (const scheduler::runtime::ActorName& actor : token.actors) {
    out.number(actor.parent);
    const std::uint64_t beside = kTimerOrdinal - actor.ordinal;
    out.number(beside == 0 ? 0 : beside > kBesideMost ? std::uint64_t{actor.ordinal} + 1 : kActorsMost + beside);
  }
  put_schedule(out, token.schedule);
  out.number(token.racy.size());
  for (const std::uint64_t place : token.racy) out.fixed(place, 8);
  out.fixed(token.fingerprint, 8);
  return out.take();
}

// Whether a recovery follows.
bool read_own(TokenReader& in, ThreadToken& token) {
  const std::uint64_t flags = in.number(15);
  token.is_reduced = (flags & 1) != 0;
  token.is_strict_exit = (flags & 2) != 0;
  token.ignores_result = (flags & 4) != 0;
  token.spurious_most = static_cast<std::uint32_t>(in.number(1000));
  token.timeouts_most = static_cast<std::uint32_t>(in.number(1000));
  const std::uint64_t policies = in.number(16);
  for (std::uint64_t i = 0; in.ok() && i < policies; ++i) {
    const auto primitive = static_cast<PrimitiveId>(in.number(static_cast<std::uint64_t>(PrimitiveId::kFutex)));
    token.policies.emplace_back(primitive, static_cast<std::int64_t>(in.number(scheduler::rwlock::kLastFirst)));
  }
  const std::uint64_t actors = in.number(kActorsMost);
  for (std::uint64_t i = 0; in.ok() && i < actors; ++i) {
    const auto parent = static_cast<std::uint32_t>(in.number(kActorsMost - 1));
    const std::uint64_t ordinal = in.number(kActorsMost + kBesideMost);
    token.actors.push_back(
        {parent, ordinal == 0 ? kTimerOrdinal
                              : static_cast<std::uint32_t>(
                                    ordinal <= kActorsMost ? ordinal - 1 : kTimerOrdinal - (ordinal - kActorsMost))});
  }
  token.schedule = read_schedule(in);
  const std::uint64_t racy = in.number(scheduler::runtime::kRacyMost);
  for (std::uint64_t i = 0; in.ok() && i < racy; ++i) token.racy.push_back(in.fixed(8));
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
  ThreadToken token;
  token.is_reduced = plan.reduction != scheduler::ReductionName::kNone;
  token.is_strict_exit = plan.is_strict_exit;
  token.ignores_result = finding.ignores_result;
  token.spurious_most = plan.spurious_most;
  token.timeouts_most = plan.timeouts_most;
  token.policies = plan.policies;
  token.actors = finding.actors;
  token.racy = finding.racy;
  token.fingerprint = fingerprint_of(finding);
  token.crash = plan.crash;
  token.crash.arguments = plan.arguments;
  if (finding.crash) token.recovery = CrashReplay{finding.fingerprint, finding.crash_path};
  for (const scheduler::Step& step : finding.execution.steps) token.schedule.push_back(step.actor);
  return token;
}

ThreadPlan plan_of(const ThreadToken& token) {
  ThreadPlan plan;
  plan.program = token.crash.named;
  plan.arguments = token.crash.arguments;
  plan.reduction = token.is_reduced ? scheduler::ReductionName::kOptimal : scheduler::ReductionName::kNone;
  plan.is_strict_exit = token.is_strict_exit;
  plan.ignores_result = token.ignores_result;
  plan.spurious_most = token.spurious_most;
  plan.timeouts_most = token.timeouts_most;
  plan.policies = token.policies;
  plan.crash = token.crash;
  return plan;
}

std::string encode(const ThreadToken& token) {
  result::Token out = token_of("threads", token.crash);
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
  token.crash = *crash;
  TokenReader in(from.own);
  if (read_own(in, token)) token.recovery = CrashReplay{from.fingerprint, from.path};
  if (!in.at_end() || token.actors.empty()) return result::wrong_use(result::no_crashcut_wrote_it());
  return token;
}

}  // namespace crashcut::recovery
