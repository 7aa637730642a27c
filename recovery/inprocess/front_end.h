// ProgramFrontEnd: a program that records and recovers inside itself, for the search.
//
// One worker, in this process: the Session shares the work out among its own processes, on as many cores as it was
//   given. It explores tens of thousands of recoveries a second, so nothing here is done for each of them but adding it
//   up.
// The recording stays in the program. The search is told its fingerprint, and the story of a recovery that is narrated.
#pragma once

#include "recovery/inprocess/prefixes.h"
#include "recovery/inprocess/session.h"
#include "recovery/search/front_end.h"

namespace crashcut::inprocess {

class ProgramFrontEnd final : public search::FrontEnd {
 public:
  // `token` says by what the program is found again. The session has executed it, and outlives this, as `prefixes` do:
  // what recoveries may print, null if that is not asked.
  ProgramFrontEnd(Session& session, result::Token token, const Prefixes* prefixes = nullptr)
      : session_(session), token_(std::move(token)), prefixes_(prefixes) {}

  search::RecordingFacts facts() const override;
  std::vector<std::string> subjects() const override { return {"recovery"}; }
  bool has_room(std::uint32_t worker_count) const override { return worker_count < 1; }
  tl::expected<std::unique_ptr<search::Worker>, Failure> start_worker(const search::WorkerSetup& setup) override;
  std::string explain(std::size_t, const search::NarratedRun& narrated) const override {
    const bool waits = narrated.run.ending.finding.kind == "hang" && !narrated.story.wait.empty();
    return narrated.run.ending.finding.text + (waits ? ": " + narrated.story.wait : "");
  }
  bool names_kind() const override { return true; }
  result::Names names(std::size_t) const override {
    result::Names names;
    if (session_.execution().region_count > 0) names.medium = "memory";
    return names;
  }
  result::Token token(std::size_t) const override { return token_; }

 private:
  Session& session_;
  result::Token token_;
  const Prefixes* prefixes_;
};

}  // namespace crashcut::inprocess
