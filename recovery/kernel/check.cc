#include "recovery/kernel/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include "persist/deadline.h"
#include "recovery/kernel/front_end.h"
#include "recovery/kernel/record.h"
#include "recovery/result/words.h"

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

tl::expected<result::Result, Failure> check(const CheckPlan& plan, const mounted::RecordPlan& program,
                                            const result::Head& head, const mounted::Recorded& recorded,
                                            const search::Hooks& hooks) {
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
  const auto made = make_base(program, plan.disk, should_stop);
  if (!made) return tl::unexpected(made.error());
  const auto runs = record_runs(program, plan.disk, {(*known)->questions(), (*known)->histories()},
                                plan.common.search.seed, should_stop);
  if (!runs) return tl::unexpected(runs.error());
  if (*runs == 0) return stopped_before_search(head, recorded, stopped);
  auto front_end = KernelFrontEnd::open(plan, std::move(*known));
  if (!front_end) return tl::unexpected(front_end.error());
  search::Plan search_plan = plan.common.search;
  search_plan.time_limit = std::chrono::duration<double>(deadline.seconds_left());
  auto found = search::check(**front_end, search_plan, hooks);
  if (!found) return tl::unexpected(found.error());
  const search::Tally& tally = found->tally;
  result::Result result = std::move(found->result);
  if (const std::uint64_t not_found = fact(tally, mounted::kCheckerNotFound);
      not_found > 0 && not_found == fact(tally, mounted::kCheckerRan)) {
    return result::wrong_use(fmt::format("The checker could not be run (status {}): {}", mounted::kNotFoundStatus,
                                         result.counterexample ? result.counterexample->story.errors : ""));
  }
  // What the program did is in no image: the sentence says which run and which moment it was.
  if (result.counterexample) result.counterexample->story.crashes.clear();
  const ImageSet& images = (*front_end)->images();
  const std::string behind = fmt::format("{} of the program, {}", count_text(images.run_count(), "run", "runs"),
                                         count_text(images.image_count(), "different image", "different images"));
  if (result.verdict == result::Verdict::kVerified) {
    result.verdict = result::Verdict::kBounded;
    result.bound = stopped != Bound::kNone ? stopped : Bound::kKernel;
    result.coverage = behind;
  }
  result.head = head;
  result.execution = execution_of(recorded);
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
  return result;
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
