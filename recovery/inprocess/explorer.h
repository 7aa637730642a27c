// Explorer: answers the choices of one recovery.
//
// Beyond the path that it is to follow it either takes the first candidate each time, and the server runs the others
//   later from the beginning; or it forks (WorkMode::kBranch): a process that is asked among n candidates forks a
//   child for each but the last, waits for it, and goes on with the last itself. Either way each recovery costs one
//   fork at most (server.cc), and every sequence of answers is taken once. "First" is by AnswerOrder.
// Lives in the private arena, so that a fresh image can take it over (layers.cc). Threads: the model's lock.
#pragma once

#include "persist/fixed_cut.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/work.h"
#include "recovery/search/sampling.h"

namespace crashcut::inprocess {

class Explorer final : public persist::Chooser {
 public:
  explicit Explorer(RunRequest request);

  std::uint32_t choose(const persist::Choice& choice) override;
  // What the recovery that is forked next is to do: follow a path, and from its end on take the first answer of an
  // order; or be a sample, the number `round` of its strategy.
  void follow(WorkMode mode, const persist::Path& path, persist::AnswerOrder order);
  void sample(search::Strategy strategy, std::uint64_t round, std::uint64_t seed);

  // The crash of what was recorded, on top of the crashes so far; a model on the disk and the memory that it leaves.
  void add_crash(const Recorded& recorded);
  // Whether this recovery, which ended well, is to be crashed.
  bool wants_crash() const;
  bool has_written() const { return model_->recorder->recording().log.event_count() > 0; }
  // Ends the recording of this recovery and crashes it.
  void crash_again();
  // There is more of the path than this recovery has met so far.
  bool is_following() const { return position_ < request_.path.size(); }
  // An exploration, not a single run.
  bool is_exploring() const { return request_.kind == RequestKind::kExplore; }

  bool reached(std::string_view mark);
  std::uint32_t count_events_in() const;
  // How many marks main() had reached; decides it.
  std::uint32_t count_marks();
  const std::vector<Crash>& crashes() const { return crashes_; }
  // The persistent memory that this recovery finds; null without one.
  pmem::CrashView* memory() { return crashes_.back().memory.get(); }
  // A region that no execution before had.
  void add_region(const pmem::Region& region, const std::string& name);
  std::unique_ptr<Model>& model() { return model_; }
  bool has_chosen() const { return has_chosen_; }
  void clear_chosen() { has_chosen_ = false; }
  // A replay that ended before its path did, or went on after it.
  void check_replay_end();

 private:
  std::uint32_t answer(const persist::Choice& choice, std::uint32_t layer);
  std::uint32_t answer_from_cut(const persist::Choice& choice, std::uint32_t layer);
  bool wants_to_stand() const;
  std::uint32_t in_order(std::uint32_t position, std::uint32_t count) const;
  std::uint32_t branch(std::uint32_t count);
  std::uint32_t defer_others(std::uint32_t count);
  std::uint32_t layer_of(const persist::Log& log) const;
  void leave_others(std::uint32_t from, std::uint32_t count) const;
  void record_memory();
  void note_certain(persist::LocationId location, const persist::Candidate& candidate);
  const persist::Log& log_of(const Recorded& recorded);

  RunRequest request_;
  persist::AnswerOrder order_;
  WorkMode mode_ = WorkMode::kBranch;
  std::size_t position_ = 0;                    // in the path
  std::optional<persist::FixedCut> fixed_cut_;  // of the first crash
  std::mt19937_64 random_;
  std::optional<search::Sampler> sampler_;
  std::unique_ptr<persist::Log> log_with_flushes_;  // of main(), if some are added (Header::added)
  pmem::CrashMoment moment_;                        // of the first crash
  std::vector<Crash> crashes_;
  std::vector<std::unique_ptr<fusefs::Recorder>> recorders_;  // of the recoveries that crashed
  std::vector<std::unique_ptr<pmem::Recorder>> memory_recorders_;
  std::unique_ptr<Model> model_;
  bool has_chosen_ = false;
};

extern Explorer* g_explorer;

}  // namespace crashcut::inprocess
