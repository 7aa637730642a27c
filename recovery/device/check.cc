#include "recovery/device/check.h"

#include <fmt/format.h>

#include "blocklayer/repair.h"
#include "recovery/device/front_end.h"
#include "recovery/result/token_bytes.h"
#include "recovery/result/words.h"
#include "recovery/search/channel.h"
#include "recovery/search/mend.h"

namespace crashcut::device {
namespace {

using mounted::Checked;
using search::Json;

// What is searched, for who goes on with it.
std::string own_of(const CheckPlan& plan, const result::Head& head, const mounted::Recorded& recorded) {
  result::TokenWriter drive;
  drive.model(blocklayer::changes_of(plan.drive));
  std::string bytes;
  Json::to_cbor({{"device", drive.take()},
                 {"words", head.program},
                 {"checker", plan.common.checker.words},
                 {"check_limit", plan.common.check_limit.count()},
                 {"depth", plan.common.search.depth},
                 {"seed", plan.common.search.seed},
                 {"wants_all", plan.common.search.wants_all},
                 {"recorded",
                  {recorded.exited, recorded.code, recorded.signal, recorded.timed_out, recorded.left_running,
                   recorded.seconds}}},
                nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

// Throws what nlohmann::json throws; false where a value makes no sense.
bool read_own(const std::string& own, Stopped& stopped) {
  const Json json = Json::from_cbor(own);
  const std::string model = json.at("device");
  result::TokenReader in(model);
  const auto drive = blocklayer::options_of(in.model());
  if (!in.at_end() || !drive) return false;
  stopped.plan.drive = *drive;
  mounted::CheckPlan& plan = stopped.plan.common;
  stopped.words = json.at("words").get<std::vector<std::string>>();
  plan.checker.words = json.at("checker").get<std::vector<std::string>>();
  plan.check_limit = std::chrono::seconds(json.at("check_limit").get<std::uint32_t>());
  plan.search.depth = json.at("depth");
  plan.search.seed = json.at("seed");
  plan.search.wants_all = json.at("wants_all");
  const Json& recorded = json.at("recorded");
  stopped.recorded.exited = recorded.at(0);
  stopped.recorded.code = recorded.at(1);
  stopped.recorded.signal = recorded.at(2);
  stopped.recorded.timed_out = recorded.at(3);
  stopped.recorded.left_running = recorded.at(4);
  stopped.recorded.seconds = recorded.at(5);
  return !stopped.words.empty() && !plan.checker.empty() && plan.search.depth >= 1 &&
         plan.search.depth <= result::kDepthMost;
}

std::uint64_t fact(const search::Tally& tally, const char* name) {
  const auto found = tally.facts.find(name);
  return found == tally.facts.end() ? 0 : found->second;
}

std::vector<std::string> notes_of(const DeviceFrontEnd& front_end, const search::Tally& tally) {
  std::vector<std::string> notes;
  if (!tally.not_deterministic.empty())
    notes.push_back(fmt::format("the checker is not deterministic: {}", tally.not_deterministic));
  if (const std::uint64_t overlaps = front_end.recording().overlaps; overlaps > 0)
    notes.push_back(
        fmt::format("{} wrote sectors that another write in flight wrote too: the drive may take them in either order",
                    result::count_text(overlaps, "request", "requests")));
  if (front_end.trace().was_stopped())
    notes.emplace_back(
        "the program was stopped (--program-limit, --time); what it did until then was crashed, and its end is no "
        "promise");
  if (!front_end.trace().is_complete())
    notes.emplace_back("the recording was cut off; what came after it is not part of this");
  return notes;
}

}  // namespace

result::Head head_of(const CheckPlan& plan, const std::vector<std::string>& words) {
  result::Head head = mounted::head_of("check --device", plan.common, words);
  head.model = blocklayer::spec_of(plan.drive);
  return head;
}

tl::expected<Checked, Failure> check(const CheckPlan& plan, const result::Head& head, const mounted::Recorded& recorded,
                                     const search::Hooks& hooks, const search::Rest* before) {
  auto front_end = DeviceFrontEnd::open(plan);
  if (!front_end) return tl::unexpected(front_end.error());
  const auto begin = std::chrono::steady_clock::now();
  auto found = search::check(**front_end, plan.common.search, hooks, before);
  if (!found) return tl::unexpected(found.error());
  Checked checked{std::move(found->result)};
  result::Result& result = checked.result;
  if (const std::uint64_t not_found = fact(found->tally, mounted::kCheckerNotFound);
      not_found > 0 && not_found == fact(found->tally, mounted::kCheckerRan)) {
    return result::wrong_use(fmt::format("The checker could not be run (status {}): {}", mounted::kNotFoundStatus,
                                         result.counterexample ? result.counterexample->story.errors : ""));
  }
  if (plan.common.search.wants_mends) {
    search::add_mends<DeviceFrontEnd>(
        **front_end, {plan.common.search, hooks, begin}, &blocklayer::find_missing_flushes,
        [&](std::span<const persist::AddedSync> flushes) { return (*front_end)->with_flushes(flushes); }, result);
  }
  if ((*front_end)->trace().was_stopped() && result.verdict == result::Verdict::kVerified) {
    result.verdict = result::Verdict::kBounded;
    result.bound = result::Bound::kProgramLimit;
  }
  result.head = head;
  result.execution = {{"exited", recorded.exited},
                      {"code", static_cast<std::uint64_t>(recorded.code)},
                      {"signal", static_cast<std::uint64_t>(recorded.signal)},
                      {"timed_out", recorded.timed_out},
                      {"left_running", std::uint64_t{recorded.left_running}},
                      {"seconds", recorded.seconds}};
  result.counts.operations = (*front_end)->trace().request_count();
  result.notes = notes_of(**front_end, found->tally);
  result.facts = {{"overlapping_writes", (*front_end)->recording().overlaps},
                  {"not_deterministic", result::or_none(found->tally.not_deterministic)}};
  result.replay_options = mounted::replay_options(plan.common.directory);
  if (found->rest) {
    found->rest->own = own_of(plan, head, recorded);
    checked.rest = search::encode(*found->rest);
  }
  return checked;
}

bool is_rest(std::string_view text) {
  const auto rest = search::decode_rest(text);
  if (!rest) return false;
  const Json json = Json::from_cbor(rest->own, true, false);
  return json.is_object() && json.contains("device");
}

tl::expected<Stopped, std::string> read_rest(std::string_view text) {
  auto rest = search::decode_rest(text);
  if (!rest) return tl::unexpected(rest.error());
  Stopped stopped;
  stopped.rest = std::move(*rest);
  try {
    if (read_own(stopped.rest.own, stopped)) return stopped;
  } catch (const Json::exception&) {
  }
  return tl::unexpected(result::no_crashcut_wrote_it());
}

tl::expected<search::Replayed, Failure> replay(const DeviceToken& token) {
  auto front_end = DeviceFrontEnd::open(token.plan);
  if (!front_end) return tl::unexpected(front_end.error());
  return search::replay(**front_end, token.token, 0);
}

tl::expected<int, Failure> open_shell(const DeviceToken& token) {
  auto front_end = DeviceFrontEnd::open(token.plan);
  if (!front_end) return tl::unexpected(front_end.error());
  if (auto done = (*front_end)->visit(token.token.depth, token.token.path, ""); !done)
    return tl::unexpected(done.error());
  return 0;
}

tl::expected<void, Failure> write_image(const DeviceToken& token, const std::string& file) {
  auto front_end = DeviceFrontEnd::open(token.plan);
  if (!front_end) return tl::unexpected(front_end.error());
  return (*front_end)->visit(token.token.depth, token.token.path, file);
}

}  // namespace crashcut::device
