// DiskFrontEnd: a recorded program for the search: its trace under one model, and what is asked of its crash states.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "fusefs/trace_replay.h"
#include "recovery/mounted/plan.h"
#include "recovery/mounted/question.h"
#include "recovery/sandbox/sandbox.h"
#include "recovery/search/front_end.h"

namespace crashcut::mounted {

class DiskFrontEnd final : public search::FrontEnd {
 public:
  // Reads the trace in plan.directory, and finds the questions that the plan asks. None where `should_stop` said so; a
  // large trace takes a while. A recording that takes more than a part of plan.memory_limit is cut, in its file.
  static tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> open(const CheckPlan& plan,
                                                                   const std::function<bool()>& should_stop = {});
  // The same for one question that is known.
  static tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> open(const CheckPlan& plan, const Question& question);
  // The program with syncs that it did not do, and the same questions.
  tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> with_syncs(std::span<const persist::AddedSync> syncs) const;
  ~DiskFrontEnd() override;

  const fusefs::Recording& recording() const { return replayed_.recorder->recording(); }
  search::RecordingFacts facts() const override { return search::facts_of(recording()); }
  std::vector<std::string> subjects() const override;
  bool has_room(std::uint32_t worker_count) const override { return !is_alone_ && worker_count < 256; }
  tl::expected<std::unique_ptr<search::Worker>, Failure> start_worker(const search::WorkerSetup& setup) override;
  result::Names names(std::size_t question) const override;
  std::string explain(std::size_t question, const search::NarratedRun& told) const override;
  result::Token token(std::size_t question) const override;

  const fusefs::TraceReader& trace() const { return trace_; }
  const std::vector<Question>& questions() const { return questions_; }
  const Histories& histories() const { return histories_; }
  bool was_stopped() const { return was_stopped_; }                      // the program, by --program-limit
  bool is_cut() const { return is_cut_; }                                // the recording, by --memory-limit
  bool is_in_other_namespace() const { return is_in_other_namespace_; }  // checkers, see stored_pid_namespace()

  // In a sandbox with a disk: use(runner, recoverer); it returns what went wrong, a sentence.
  class Visitor;
  tl::expected<void, Failure> visit(std::uint32_t depth, const std::vector<std::uint32_t>& path, bool with_terminal,
                                    const std::function<std::string(Visitor&)>& use);

 private:
  DiskFrontEnd(const CheckPlan& plan, fusefs::TraceReader trace, fusefs::Replayed replayed);
  // Each is false, or none, where it was stopped.
  static tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> load(const CheckPlan& plan,
                                                                   const fusefs::ReplayLimits& limits);
  tl::expected<bool, Failure> find_questions(const fusefs::ReplayLimits& limits);
  tl::expected<bool, Failure> read_histories(const fusefs::ReplayLimits& limits);
  tl::expected<void, Failure> drop_unfinished();
  int work(const sandbox::Inside& inside, const search::WorkerSetup& setup) const;
  std::string program() const;

  CheckPlan plan_;
  fusefs::TraceReader trace_;
  fusefs::Replayed replayed_;
  std::uint64_t trace_sum_;
  std::uint64_t pid_namespace_;  // that checkers must run in, one worker then; 0: any
  Histories histories_;
  std::vector<Question> questions_;
  std::atomic<std::uint64_t>* image_count_;  // shared with the workers
  bool was_stopped_ = false;
  bool is_cut_ = false;
  bool is_alone_ = false;
  bool is_in_other_namespace_ = false;
};

// Access to one crash state: a command can run in it, or it is copied out.
class DiskFrontEnd::Visitor {
 public:
  virtual ~Visitor() = default;
  virtual std::string run(const CommandLine& command) = 0;  // at the terminal
  virtual std::string copy_to(const std::string& directory) = 0;
};

}  // namespace crashcut::mounted
