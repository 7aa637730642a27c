#include "recovery/threads/token.h"

#include <boost/crc.hpp>
#include <fmt/format.h>

#include "recovery/base64url.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

using scheduler::ActorId;
using scheduler::PrimitiveId;
using scheduler::runtime::kActorsMost;
using scheduler::runtime::kStepsMost;

constexpr std::size_t kTextMost = std::size_t{4} << 20;
constexpr std::uint64_t kStringMost = 4095;
constexpr std::uint64_t kArgumentsMost = 1024;

std::uint32_t crc_of(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

void put(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void put(std::string& out, std::string_view text) {
  put(out, text.size());
  out += text;
}

void put_fixed(std::string& out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

// Reads what is there; once something was not, ok() is false and everything reads as 0 or empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t number(std::uint64_t most) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value <= most ? value : fail();
    }
    return fail();
  }
  std::uint64_t fixed() {
    if (bytes_.size() < 8) return fail();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
    bytes_.remove_prefix(8);
    return value;
  }
  std::string text() {
    const std::uint64_t size = number(kStringMost);
    if (size > bytes_.size() || bytes_.substr(0, size).find('\0') != std::string_view::npos) fail();
    std::string value(bytes_.substr(0, ok_ ? size : 0));
    bytes_.remove_prefix(value.size());
    return value;
  }
  bool ok() const { return ok_; }
  void refuse() { fail(); }
  bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  std::uint64_t fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }
  std::string_view bytes_;
  bool ok_ = true;
};

// Runs of steps of one actor.
void put_schedule(std::string& out, const std::vector<ActorId>& schedule) {
  put(out, schedule.size());
  for (std::size_t i = 0; i < schedule.size();) {
    std::size_t end = i + 1;
    while (end < schedule.size() && schedule[end] == schedule[i]) ++end;
    put(out, index(schedule[i]));
    put(out, end - i);
    i = end;
  }
}

std::vector<ActorId> read_schedule(Reader& in) {
  std::vector<ActorId> schedule;
  const std::uint64_t length = in.number(kStepsMost - 1);
  while (in.ok() && schedule.size() < length) {
    const std::uint64_t actor = in.number(kActorsMost - 1);
    const std::uint64_t count = in.number(length - schedule.size());
    if (count == 0) return in.number(0), schedule.clear(), schedule;
    schedule.insert(schedule.end(), count, static_cast<ActorId>(actor));
  }
  return schedule;
}

void put_files(std::string& out, const ThreadToken& token) {
  const fusefs::ModelOptions& model = token.crash.model;
  put(out, token.crash.from_directory);
  put(out, static_cast<std::uint64_t>(model.profile));
  put(out, static_cast<std::uint64_t>(model.data));
  put(out, (model.delalloc ? 1u : 0) | (model.auto_da_alloc ? 2u : 0) | (model.dioread_nolock ? 4u : 0) | (model.barrier ? 8u : 0));
  put(out, model.sector_bytes);
  put(out, model.block_bytes);
  put(out, token.crash.depth);
  put(out, token.recovery ? 1 : 0);
  if (!token.recovery) return;
  put(out, token.recovery->fingerprint >> 32);
  put(out, token.recovery->fingerprint & 0xffffffff);
  put(out, token.recovery->path.size());
  for (const std::uint32_t answer : token.recovery->path) put(out, answer == inprocess::kCrashAgain ? 0 : std::uint64_t{answer} + 1);
}

void read_files(Reader& in, ThreadToken& token) {
  constexpr std::uint64_t kBlockMost = 1 << 20, kDepthMost = 64, kPathMost = 1'000'000;
  fusefs::ModelOptions& model = token.crash.model;
  token.crash.from_directory = in.text();
  model.profile = static_cast<fusefs::ProfileName>(in.number(1));
  model.data = static_cast<fusefs::DataMode>(in.number(2));
  const std::uint64_t flags = in.number(15);
  model.delalloc = (flags & 1) != 0;
  model.auto_da_alloc = (flags & 2) != 0;
  model.dioread_nolock = (flags & 4) != 0;
  model.barrier = (flags & 8) != 0;
  model.sector_bytes = static_cast<std::uint32_t>(in.number(kBlockMost));
  model.block_bytes = static_cast<std::uint32_t>(in.number(kBlockMost));
  token.crash.depth = static_cast<std::uint32_t>(in.number(kDepthMost));
  if (!fusefs::check_geometry(model) || token.crash.depth == 0) in.refuse();
  if (in.number(1) == 0) return;
  token.recovery.emplace();
  token.recovery->fingerprint = in.number(0xffffffff) << 32;
  token.recovery->fingerprint |= in.number(0xffffffff);
  const std::uint64_t length = in.number(kPathMost);
  for (std::uint64_t i = 0; in.ok() && i < length; ++i) token.recovery->path.push_back(static_cast<std::uint32_t>(in.number(0xffffffff)) - 1);
}

ThreadToken read_body(Reader& in, bool is_old) {
  ThreadToken token;
  token.program = in.text();
  const std::uint64_t arguments = in.number(kArgumentsMost);
  for (std::uint64_t i = 0; in.ok() && i < arguments; ++i) token.arguments.push_back(in.text());
  token.spurious_most = static_cast<std::uint32_t>(in.number(1000));
  token.timeouts_most = static_cast<std::uint32_t>(in.number(1000));
  const std::uint64_t policies = in.number(16);
  for (std::uint64_t i = 0; in.ok() && i < policies; ++i) {
    const auto primitive = static_cast<PrimitiveId>(in.number(static_cast<std::uint64_t>(PrimitiveId::kFutex)));
    token.policies.emplace_back(primitive, static_cast<std::int64_t>(in.number(2)));
  }
  const std::uint64_t actors = in.number(kActorsMost);
  for (std::uint64_t i = 0; in.ok() && i < actors; ++i) {
    const auto parent = static_cast<std::uint32_t>(in.number(kActorsMost - 1));
    const std::uint64_t ordinal = in.number(kActorsMost);
    token.actors.push_back({parent, ordinal == 0 ? scheduler::runtime::Names::kTimerOrdinal : static_cast<std::uint32_t>(ordinal - 1)});
  }
  token.schedule = read_schedule(in);
  if (is_old) return token;
  const std::uint64_t racy = in.number(scheduler::runtime::kRacyMost);
  for (std::uint64_t i = 0; in.ok() && i < racy; ++i) token.racy.push_back(in.fixed());
  return token;
}

}  // namespace

ThreadToken make_token(const ThreadPlan& plan, const ThreadFinding& finding) {
  ThreadToken token{plan.program, plan.arguments, plan.spurious_most, plan.timeouts_most, plan.policies, finding.actors, {}, finding.racy, {}, {}};
  token.crash.model = plan.crash.model;
  token.crash.from_directory = plan.crash.from_directory;
  token.crash.depth = plan.crash.depth;
  if (finding.crash) token.recovery = CrashReplay{finding.fingerprint, finding.crash->account.path};
  for (const scheduler::Step& step : finding.execution.steps) token.schedule.push_back(step.actor);
  return token;
}

ThreadPlan plan_of(const ThreadToken& token) {
  ThreadPlan plan;
  plan.program = token.program;
  plan.arguments = token.arguments;
  plan.spurious_most = token.spurious_most;
  plan.timeouts_most = token.timeouts_most;
  plan.policies = token.policies;
  plan.crash = token.crash;
  return plan;
}

std::string encode(const ThreadToken& token) {
  std::string out;
  put(out, token.program);
  put(out, token.arguments.size());
  for (const std::string& argument : token.arguments) put(out, argument);
  put(out, token.spurious_most);
  put(out, token.timeouts_most);
  put(out, token.policies.size());
  for (const auto& [primitive, policy] : token.policies) {
    put(out, static_cast<std::uint64_t>(primitive));
    put(out, static_cast<std::uint64_t>(policy));
  }
  put(out, token.actors.size());
  for (const scheduler::runtime::ActorName& actor : token.actors) {
    put(out, actor.parent);
    put(out, actor.ordinal == scheduler::runtime::Names::kTimerOrdinal ? 0 : std::uint64_t{actor.ordinal} + 1);
  }
  put_schedule(out, token.schedule);
  put(out, token.racy.size());
  for (const std::uint64_t place : token.racy) put_fixed(out, place);
  put_files(out, token);
  const std::uint32_t crc = crc_of(out);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(crc >> (8 * i) & 255);
  return std::string(kThreadTokenPrefix) + to_base64url(out);
}

tl::expected<ThreadToken, std::string> decode_threads(std::string_view text) {
  if (text.size() > kTextMost) return tl::unexpected(std::string("This is too long for a replay token."));
  const std::string damaged = "The replay token is damaged: was all of it copied?";
  const bool is_old = text.starts_with(kOldThreadTokenPrefix);
  if (!text.starts_with(kThreadTokenPrefix) && !is_old) return tl::unexpected(damaged);
  const auto bytes = from_base64url(text.substr(kThreadTokenPrefix.size()));
  if (!bytes || bytes->size() < 4) return tl::unexpected(damaged);
  const std::string_view body = std::string_view(*bytes).substr(0, bytes->size() - 4);
  std::uint32_t crc = 0;
  for (int i = 0; i < 4; ++i) crc |= std::uint32_t{static_cast<unsigned char>((*bytes)[body.size() + static_cast<std::size_t>(i)])} << (8 * i);
  if (crc != crc_of(body)) return tl::unexpected(damaged);
  Reader in(body);
  ThreadToken token = read_body(in, is_old);
  if (!is_old) read_files(in, token);
  if (!in.at_end() || !token.program.starts_with('/') || token.actors.empty()) {
    return tl::unexpected(std::string("The replay token holds what no crashcut writes."));
  }
  return token;
}

}  // namespace crashcut::recovery
