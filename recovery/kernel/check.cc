#include "recovery/kernel/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "persist/deadline.h"
#include "recovery/kernel/front_end.h"
#include "recovery/kernel/judged.h"
#include "recovery/result/token_bytes.h"
#include "recovery/result/words.h"
#include "recovery/search/channel.h"

namespace crashcut::kernel {
namespace {

using result::Bound;
using result::count_text;

std::uint64_t fact(const search::Tally& tally, const char* name) {
  const auto found = tally.facts.find(name);
  return found == tally.facts.end() ? 0 : found->second;
}

// What is known of the program from its run on crashcut's own disk.
tl::expected<std::unique_ptr<mounted::DiskFrontEnd>, Failure> open_known(const CheckPlan& plan) {
  auto known = mounted::DiskFrontEnd::open(plan.common, [] { return false; });
  if (!known) return tl::unexpected(known.error());
  return known;
}

tl::expected<std::unique_ptr<KernelFrontEnd>, Failure> open(const CheckPlan& plan) {
  if (const std::string missing = what_is_missing(plan.disk.filesystem); !missing.empty())
    return result::wrong_use(missing);
  auto known = open_known(plan);
  if (!known) return tl::unexpected(known.error());
  return KernelFrontEnd::open(plan, std::move(*known));
}

std::vector<result::Setting> execution_of(const mounted::Recorded& recorded) {
  return {
      {"exited", recorded.exited}, {"code", static_cast<std::uint64_t>(recorded.code)}, {"seconds", recorded.seconds}};
}

// The time was up, or there was a signal, before the program had been run on the kernel once.
result::Result stopped_before_search(const result::Head& head, const mounted::Recorded& recorded, Bound bound) {
  result::Result result;
  result.head = head;
  result.execution = execution_of(recorded);
  result.verdict = result::Verdict::kBounded;
  result.bound = bound;
  result.explored_fraction = 0;
  result.notes.emplace_back("no run of the program on the kernel came to its end, so no state was tried");
  return result;
}

}  // namespace

result::Head head_of(const CheckPlan& plan, const std::vector<std::string>& words) {
  result::Head head = mounted::head_of("check", plan.common, words);
  head.model = spec_of(plan.disk);
  head.settings.push_back({"runs", std::uint64_t{plan.disk.runs}, count_text(plan.disk.runs, "run", "runs")});
  return head;
}

namespace {

// The answers of a path if there is one more run: before, a single run was no choice.
void add_run_choice(search::Tally& tally) {
  for (auto& [key, known] : tally.classes) known.path.insert(known.path.begin(), 0);
}

// What an earlier check left, for a set that has more runs by now.
tl::expected<search::Rest, Failure> rest_of(const Left& before, const CheckPlan& plan, const ImageSet& images) {
  const auto earlier = ImageSet::open(plan.common.directory, plan.disk, plan.common.search.seed, before.runs.done);
  if (!earlier) return tl::unexpected(earlier.error());
  if ((*earlier)->fingerprint() != before.rest.fingerprint)
    return result::wrong_use("What was left of the search is of other runs than those that are there. Search it anew.");
  search::Rest rest = before.rest;
  rest.fingerprint = images.fingerprint();
  const std::size_t known_count = (*earlier)->candidate_run_count(), count = images.candidate_run_count();
  if (known_count == count) return rest;
  bool is_whole = false;  // nothing was begun, so what is left has the new runs in it
  for (const search::Unit& unit : std::exchange(rest.units, {})) {
    for (persist::Path& path : persist::paths_of(unit.part)) {
      is_whole = is_whole || path.empty();
      if (known_count == 1 && !path.empty()) path.insert(path.begin(), 0);
      rest.units.push_back({unit.question, std::move(path)});
    }
  }
  if (known_count == 1) {
    add_run_choice(rest.tree);
    add_run_choice(rest.samples);
  }
  for (std::size_t run = known_count; !is_whole && run < count; ++run)
    rest.units.push_back({0, {static_cast<std::uint32_t>(run)}});
  return rest;
}

// What a later check needs to go on; empty: nothing is left.
std::string rest_text(const CheckPlan& plan, const mounted::RecordPlan& program, const result::Head& head,
                      const mounted::Recorded& recorded, const RunsSoFar& runs, const search::Found& found,
                      double seconds) {
  if (!found.rest && runs.is_all && !plan.common.search.keeps_finished) return "";
  search::Rest rest = found.rest.value_or(search::Rest{{}, found.tally, {}, seconds, found.fingerprint, ""});
  std::string own;
  search::Json::to_cbor({{"kernel", encode_plan(plan)},
                         {"words", head.program},
                         {"program", program.program.words},
                         {"lines_are_marks", program.lines_are_marks},
                         {"wants_all", plan.common.search.wants_all},
                         {"recorded", {recorded.exited, recorded.code, recorded.seconds}},
                         {"runs", {runs.done, runs.calls, runs.is_all}}},
                        nlohmann::detail::output_adapter<char>(own));
  rest.own = std::move(own);
  return search::encode(rest);
}

// Says how far the verdict goes, and where an image is that the kernel refused.
void describe(const CheckPlan& plan, const ImageSet& images, const search::Tally& tally, Bound stopped,
              result::Result& result) {
  const std::string behind = fmt::format("{} of the program, {}", count_text(images.run_count(), "run", "runs"),
                                         count_text(images.image_count(), "different image", "different images"));
  if (result.verdict == result::Verdict::kVerified) {
    result.verdict = result::Verdict::kBounded;
    result.bound = stopped != Bound::kNone ? stopped : Bound::kKernel;
    result.coverage = behind;
  }
  result.counts_images = true;
  result.counts.operations = images.request_count();
  result.notes.push_back(fmt::format("{}; what the kernel might do otherwise is not part of this", behind));
  const std::string refused = fmt::format("{}/{}", plan.common.directory, kRefusedImage);
  if (access(refused.c_str(), F_OK) == 0)
    result.notes.push_back(fmt::format(
        "the first image that the kernel refused is kept: {} (fsck, debugfs or mount -o loop on a copy show what is "
        "wrong)",
        refused));
  if (!tally.not_deterministic.empty())
    result.notes.push_back(fmt::format("the checker is not deterministic: {}", tally.not_deterministic));
  result.facts = {{"runs", std::uint64_t{images.run_count()}},
                  {"images", images.image_count()},
                  {"not_deterministic", result::or_none(tally.not_deterministic)}};
  result.replay_options = mounted::replay_options(plan.common.directory);
}

}  // namespace

tl::expected<mounted::Checked, Failure> check(const CheckPlan& plan, const mounted::RecordPlan& program,
                                              const result::Head& head, const mounted::Recorded& recorded,
                                              const search::Hooks& hooks, const Left* before) {
  auto known = open_known(plan);
  if (!known) return tl::unexpected(known.error());
  const double limit_s = plan.common.search.time_limit.count();
  const persist::Deadline deadline(limit_s), runs_deadline(limit_s / 2);  // the other half is for the images
  Bound stopped = Bound::kNone;                                           // what ended the runs
  const auto should_stop = [&] {
    if (stopped == Bound::kNone && hooks.is_interrupted && hooks.is_interrupted()) stopped = Bound::kInterrupt;
    if (stopped == Bound::kNone) stopped = runs_deadline.hit();
    return stopped != Bound::kNone;
  };
  if (before == nullptr) {
    const auto made = make_base(program, plan.disk, should_stop);
    if (!made) return tl::unexpected(made.error());
  }
  const auto runs = record_runs(program, plan.disk, {(*known)->questions(), (*known)->histories()},
                                plan.common.search.seed, should_stop, before != nullptr ? before->runs : RunsSoFar{});
  if (!runs) return tl::unexpected(runs.error());
  if (runs->done == 0) return mounted::Checked{stopped_before_search(head, recorded, stopped)};
  auto front_end = KernelFrontEnd::open(plan, std::move(*known));
  if (!front_end) return tl::unexpected(front_end.error());
  std::optional<search::Rest> left;
  if (before != nullptr) {
    auto rest = rest_of(*before, plan, (*front_end)->images());
    if (!rest) return tl::unexpected(rest.error());
    left = std::move(*rest);
  }
  search::Plan search_plan = plan.common.search;
  search_plan.time_limit = std::chrono::duration<double>(deadline.seconds_left());
  search_plan.wants_states = false;  // an image has no story, and to mount it again would tell nothing
  auto found = search::check(**front_end, search_plan, hooks, left ? &*left : nullptr);
  if (!found) return tl::unexpected(found.error());
  mounted::Checked checked{std::move(found->result)};
  result::Result& result = checked.result;
  if (const std::uint64_t not_found = fact(found->tally, mounted::kCheckerNotFound);
      not_found > 0 && not_found == fact(found->tally, mounted::kCheckerRan)) {
    return result::wrong_use(fmt::format("The checker could not be run (status {}): {}", mounted::kNotFoundStatus,
                                         result.counterexample ? result.counterexample->story.errors : ""));
  }
  // What the program did is in no image: the sentence says which run and which moment it was.
  if (result.counterexample) result.counterexample->story.crashes.clear();
  result.head = head;
  result.execution = execution_of(recorded);
  describe(plan, (*front_end)->images(), found->tally, stopped, result);
  checked.rest = rest_text(plan, program, head, recorded, *runs, *found, result.seconds);
  if (checked.rest.empty()) unlink(judged_of(plan.common.directory).c_str());
  return checked;
}

bool is_rest(std::string_view text) {
  const auto rest = search::decode_rest(text);
  if (!rest) return false;
  const search::Json json = search::Json::from_cbor(rest->own, true, false);
  return json.is_object() && json.contains("kernel");
}

tl::expected<Stopped, std::string> read_rest(std::string_view text) {
  auto rest = search::decode_rest(text);
  if (!rest) return tl::unexpected(rest.error());
  Stopped stopped;
  stopped.left.rest = std::move(*rest);
  try {
    const search::Json json = search::Json::from_cbor(stopped.left.rest.own);
    stopped.words = json.at("words").get<std::vector<std::string>>();
    stopped.program.program.words = json.at("program").get<std::vector<std::string>>();
    stopped.program.lines_are_marks = json.at("lines_are_marks");
    stopped.program.limit = {};  // --time stops the runs
    stopped.recorded.exited = json.at("recorded").at(0);
    stopped.recorded.code = json.at("recorded").at(1);
    stopped.recorded.seconds = json.at("recorded").at(2);
    stopped.left.runs = {json.at("runs").at(0), json.at("runs").at(1), json.at("runs").at(2)};
    const bool makes_sense = decode_plan(json.at("kernel"), stopped.plan);
    stopped.plan.common.search.wants_all = json.at("wants_all");
    if (makes_sense && !stopped.words.empty() && !stopped.program.program.empty() && stopped.left.runs.done > 0)
      return stopped;
  } catch (const search::Json::exception&) {
  }
  return tl::unexpected(result::no_crashcut_wrote_it());
}

tl::expected<search::Replayed, Failure> replay(const KernelToken& token) {
  auto front_end = open(token.plan);
  if (!front_end) return tl::unexpected(front_end.error());
  auto replayed = search::replay(**front_end, token.token, 0);
  if (replayed) replayed->told.story.crashes.clear();
  return replayed;
}

tl::expected<int, Failure> open_shell(const KernelToken& token) {
  auto front_end = open(token.plan);
  if (!front_end) return tl::unexpected(front_end.error());
  return (*front_end)->open_shell(token.token.path);
}

tl::expected<void, Failure> write_image(const KernelToken& token, const std::string& file) {
  auto front_end = open(token.plan);
  if (!front_end) return tl::unexpected(front_end.error());
  return (*front_end)->save_image(token.token.path, file);
}

}  // namespace crashcut::kernel
