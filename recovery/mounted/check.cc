#include "recovery/mounted/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "fusefs/repair.h"
#include "fusefs/unexplored.h"
#include "persist/deadline.h"
#include "recovery/mounted/front_end.h"
#include "recovery/mounted/source_lines.h"
#include "recovery/result/token_bytes.h"
#include "recovery/result/words.h"
#include "recovery/search/channel.h"
#include "recovery/search/mend.h"

namespace crashcut::mounted {
namespace {

using search::Json;

// Of larger recordings no mend is looked for, which takes a second recording, and no states are told, each of which
// tells all operations again.
constexpr std::size_t kSmallRecordingBytes = std::size_t{32} << 20;
// For the names in a report, where the search took all of --time.
constexpr std::chrono::seconds kNamingLeast{1};

// What is searched, for a later --resume.
std::string own_of(const CheckPlan& plan, const result::Head& head, const Recorded& recorded) {
  result::TokenWriter model;
  model.model(fusefs::changes_of(plan.model));
  std::vector<std::string> expects;
  for (const Expect expect : plan.expects) expects.emplace_back(to_text(expect));
  std::string bytes;
  Json::to_cbor({{"words", head.program},
                 {"files", plan.files},
                 {"backups", plan.backups},
                 {"tree", plan.tree},
                 {"durable", plan.durable},
                 {"expects", expects},
                 {"checker", plan.checker.words},
                 {"check_limit", plan.check_limit.count()},
                 {"model", model.take()},
                 {"depth", plan.search.depth},
                 {"seed", plan.search.seed},
                 {"wants_all", plan.search.wants_all},
                 {"remount", plan.remount},
                 {"recorded",
                  {recorded.exited, recorded.code, recorded.signal, recorded.timed_out, recorded.left_running,
                   recorded.seconds, recorded.why_stopped, recorded.was_cut}}},
                nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

// Throws what nlohmann::json throws; false where a value makes no sense.
bool read_own(const std::string& own, Stopped& stopped) {
  const Json json = Json::from_cbor(own);
  CheckPlan& plan = stopped.plan;
  stopped.words = json.at("words").get<std::vector<std::string>>();
  plan.files = json.at("files").get<std::vector<std::string>>();
  plan.backups = json.at("backups").get<std::vector<std::string>>();
  plan.tree = json.at("tree");
  plan.durable = json.at("durable");
  for (const Json& name : json.at("expects")) {
    const auto expect = parse_expect(name.get<std::string>());
    if (!expect) return false;
    plan.expects.insert(*expect);
  }
  plan.checker.words = json.at("checker").get<std::vector<std::string>>();
  plan.check_limit = std::chrono::seconds(json.at("check_limit").get<std::uint32_t>());
  const std::string bytes = json.at("model");
  result::TokenReader in(bytes);
  const auto model = fusefs::options_of(in.model());
  if (!in.at_end() || !model) return false;
  plan.model = *model;
  plan.search.depth = json.at("depth");
  plan.search.seed = json.at("seed");
  plan.search.wants_all = json.at("wants_all");
  plan.remount = json.at("remount");
  const Json& recorded = json.at("recorded");
  stopped.recorded.exited = recorded.at(0);
  stopped.recorded.code = recorded.at(1);
  stopped.recorded.signal = recorded.at(2);
  stopped.recorded.timed_out = recorded.at(3);
  stopped.recorded.left_running = recorded.at(4);
  stopped.recorded.seconds = recorded.at(5);
  stopped.recorded.why_stopped = recorded.at(6);
  stopped.recorded.out_of_memory = !stopped.recorded.why_stopped.empty();
  stopped.recorded.was_cut = recorded.at(7);
  return !stopped.words.empty() && plan.search.depth >= 1 && plan.search.depth <= result::kDepthMost;
}

std::uint64_t fact(const search::Tally& tally, const char* name) {
  const auto found = tally.facts.find(name);
  return found == tally.facts.end() ? 0 : found->second;
}

void describe_run(const CheckPlan& plan, const result::Head& head, const Recorded& recorded, result::Result& result) {
  result.head = head;
  result.head.model = fusefs::spec_of(plan.model);
  const fusefs::Unexplored unexplored = fusefs::unexplored_of(plan.model);
  result.scope += unexplored.scope;
  if (!unexplored.sentence.empty()) result.not_covered.emplace_back(unexplored.sentence);
  result.execution = {{"exited", recorded.exited},
                      {"code", static_cast<std::uint64_t>(recorded.code)},
                      {"signal", static_cast<std::uint64_t>(recorded.signal)},
                      {"timed_out", recorded.timed_out},
                      {"out_of_memory", recorded.out_of_memory},
                      {"left_running", std::uint64_t{recorded.left_running}},
                      {"seconds", recorded.seconds}};
}

// The time was up while the recording was still being read.
Checked stopped_before_search(const CheckPlan& plan, const result::Head& head, const Recorded& recorded,
                              result::Bound bound) {
  Checked checked;
  describe_run(plan, head, recorded, checked.result);
  checked.result.verdict = result::Verdict::kBounded;
  checked.result.bound = bound;
  checked.result.explored_fraction = 0;
  checked.result.notes.emplace_back(
      "the recording is large, and no state was tried: the search ended while it was still being read");
  return checked;
}

// The last operation of the trace is its end, and not the program's.
std::string operations_text(const DiskFrontEnd& front_end) {
  return result::count_text(front_end.trace().op_count() - 1, "operation", "operations");
}

// For a recording that has only the first part of what the program does: says which part was crashed, and how much of
// it was tried.
void say_what_is_covered(const DiskFrontEnd& front_end, result::Result& result) {
  const std::string operations = operations_text(front_end);
  if (result.bound == result::Bound::kNone) {
    result.bound = result::Bound::kRecordingCut;
    result.coverage = fmt::format("every crash of the program's first {} was tried", operations);
  } else if (result::is_partial(result.bound)) {
    result.coverage = fmt::format("an estimated {} of the crashes of the program's first {}, which were recorded",
                                  result::percent_text(result.explored_fraction.likely), operations);
  }
}

std::vector<std::string> notes_of(const DiskFrontEnd& front_end, const search::Tally& tally, const Recorded& recorded) {
  std::vector<std::string> notes;
  if (!tally.not_deterministic.empty())
    notes.push_back(fmt::format("the checker is not deterministic: {}", tally.not_deterministic));
  if (front_end.is_in_other_namespace())
    notes.emplace_back(
        "the program stored the number of its process namespace (/proc/self/ns/pid), and the checkers ran in another "
        "one: to them a lock with that number is another machine's");
  if (fact(tally, kReadByPages) > 0)
    notes.emplace_back(
        "files were mapped or executed, so they were read in pages of 4096 bytes: states that differ only in the rest "
        "of a page count twice");
  if (recorded.out_of_memory)
    notes.push_back(fmt::format("the program was stopped: {}; its end is no promise", recorded.why_stopped));
  if (recorded.was_cut) {
    notes.push_back(
        fmt::format("the recording takes more memory than --memory-limit leaves: what the program did after its first "
                    "{} is not explored",
                    operations_text(front_end)));
  } else if (front_end.was_stopped() && !recorded.out_of_memory) {
    notes.emplace_back(
        "the program was stopped (--program-limit, --time); what it did until then was crashed, and its end is no "
        "promise");
  }
  if (!front_end.trace().is_complete())
    notes.emplace_back("the recording was cut off; what came after it is not part of this");
  return notes;
}

}  // namespace

tl::expected<Checked, Failure> check(const CheckPlan& plan, const result::Head& head, Recorded& recorded,
                                     const search::Hooks& hooks, const search::Rest* before) {
  const persist::Deadline deadline(plan.search.time_limit.count());
  const auto is_interrupted = [&] { return hooks.is_interrupted && hooks.is_interrupted(); };
  auto front_end = DiskFrontEnd::open(plan, [&] { return is_interrupted() || deadline.is_over(); });
  if (!front_end) return tl::unexpected(front_end.error());
  if (!*front_end)
    return stopped_before_search(plan, head, recorded,
                                 is_interrupted() ? result::Bound::kInterrupt : result::Bound::kTime);
  search::Plan search_plan = plan.search;
  search_plan.time_limit = std::chrono::duration<double>(deadline.seconds_left());
  const bool is_small = (*front_end)->recording().memory_bytes() <= kSmallRecordingBytes;
  search_plan.wants_states = search_plan.wants_states && is_small;
  const auto begin = std::chrono::steady_clock::now();
  auto found = search::check(**front_end, search_plan, hooks, before);
  if (!found) return tl::unexpected(found.error());
  const search::Tally& tally = found->tally;
  Checked checked{std::move(found->result)};
  result::Result& result = checked.result;
  if (const std::uint64_t not_found = fact(tally, kCheckerNotFound);
      not_found > 0 && not_found == fact(tally, kCheckerRan)) {
    return result::wrong_use(fmt::format("The checker could not be run (status {}): {}", kNotFoundStatus,
                                         result.counterexample ? result.counterexample->story.errors : ""));
  }
  if (search_plan.wants_mends && is_small) {
    search::add_mends<DiskFrontEnd>(
        **front_end, {search_plan, hooks, begin}, &fusefs::find_missing_syncs,
        [&](std::span<const persist::AddedSync> syncs) { return (*front_end)->with_syncs(syncs); }, result);
  }
  if (result.counterexample || result.states) {
    auto end = std::chrono::steady_clock::time_point::max();
    if (plan.search.time_limit.count() > 0)
      end = std::chrono::steady_clock::now() + std::max<std::chrono::steady_clock::duration>(
                                                   std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                       std::chrono::duration<double>(deadline.seconds_left())),
                                                   kNamingLeast);
    SourceLines lines((*front_end)->trace(), end);
    if (result.counterexample) lines.add_to(result.counterexample->story);
    if (result.states) lines.add_to(*result.states);
  }
  recorded.was_cut = recorded.was_cut || (*front_end)->is_cut();
  const bool is_verified = result.verdict == result::Verdict::kVerified;
  if (recorded.was_cut || recorded.out_of_memory) {
    say_what_is_covered(**front_end, result);
  } else if ((*front_end)->was_stopped() && is_verified) {
    result.bound = result::Bound::kProgramLimit;
  }
  if (is_verified && result.bound != result::Bound::kNone) result.verdict = result::Verdict::kBounded;
  describe_run(plan, head, recorded, result);
  result.counts.operations = (*front_end)->trace().op_count();
  result.notes = notes_of(**front_end, tally, recorded);
  result.facts = {{"read_by_pages", fact(tally, kReadByPages) > 0},
                  {"in_other_namespace", (*front_end)->is_in_other_namespace()},
                  {"not_deterministic", result::or_none(tally.not_deterministic)}};
  result.replay_options = replay_options(plan.directory);
  if (found->rest) {
    found->rest->own = own_of(plan, head, recorded);
    checked.rest = search::encode(*found->rest);
  }
  return checked;
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

tl::expected<search::Replayed, Failure> replay(const CheckToken& token) {
  auto front_end = DiskFrontEnd::open(token.plan, token.question);
  if (!front_end) return tl::unexpected(front_end.error());
  auto replayed = search::replay(**front_end, token.token, 0);
  if (replayed)
    SourceLines((*front_end)->trace(), std::chrono::steady_clock::time_point::max()).add_to(replayed->told.story);
  return replayed;
}

tl::expected<int, Failure> open_shell(const CheckToken& token) {
  auto front_end = DiskFrontEnd::open(token.plan, token.question);
  if (!front_end) return tl::unexpected(front_end.error());
  const char* shell = std::getenv("SHELL");
  const CommandLine command{{shell && *shell ? shell : "/bin/sh"}};
  auto done = (*front_end)->visit(token.token.depth, token.token.path, true, [&](DiskFrontEnd::Visitor& visitor) {
    return visitor.run(command);
  });
  if (!done) return tl::unexpected(done.error());
  return 0;
}

tl::expected<void, Failure> write_image(const CheckToken& token, const std::string& directory) {
  auto front_end = DiskFrontEnd::open(token.plan, token.question);
  if (!front_end) return tl::unexpected(front_end.error());
  return (*front_end)->visit(token.token.depth, token.token.path, false, [&](DiskFrontEnd::Visitor& visitor) {
    return visitor.copy_to(directory);
  });
}

}  // namespace crashcut::mounted
