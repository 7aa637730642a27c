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

namespace crashcut::inprocess {

class Explorer final : public persist::Chooser {
 public:
  explicit Explorer(RunRequest request);

  std::uint32_t choose(const persist::Choice& choice) override;
  // What the recovery that is forked next is to do.
  void follow(WorkMode mode, const persist::Path& path);

  // The crash of what `recording` holds, on top of the crashes so far; a model on the disk that it leaves.
  void add_crash(const fusefs::Recording& recording);
  // Ends the recording of this recovery and crashes it. False where it wrote nothing.
  bool crash_again();

  // Whether the next layer is to be run after this recovery ended well.
  bool goes_on() const;
  bool reached(std::string_view mark) { return crashes_.back().view->reached(mark); }
  std::uint32_t count_events_in() const;
  const std::vector<Crash>& crashes() const { return crashes_; }
  std::unique_ptr<Model>& model() { return model_; }
  bool has_chosen() const { return has_chosen_; }
  void clear_chosen() { has_chosen_ = false; }
  // A replay that ended before its path did, or went on after it.
  void check_replay_end();

 private:
  std::uint32_t answer(const persist::Choice& choice, std::uint32_t layer);
  std::uint32_t answer_from_cut(const persist::Choice& choice, std::uint32_t layer);
  std::uint32_t in_order(std::uint32_t position, std::uint32_t count) const;
  std::uint32_t branch(std::uint32_t count);
  std::uint32_t defer_others(std::uint32_t count);
  std::uint32_t layer_of(const persist::Log& log) const;

  RunRequest request_;
  persist::AnswerOrder order_;
  WorkMode mode_ = WorkMode::kBranch;
  std::size_t position_ = 0;                    // in the path
  std::optional<persist::FixedCut> fixed_cut_;  // of the first crash
  std::vector<Crash> crashes_;
  std::vector<std::unique_ptr<fusefs::Recorder>> recorders_;  // of the recoveries that crashed
  std::unique_ptr<Model> model_;
  bool has_chosen_ = false;
};

extern Explorer* g_explorer;

}  // namespace crashcut::inprocess
