// Pool: all questions of a check, shared out among worker sandboxes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/mounted/plan.h"
#include "recovery/mounted/tally.h"
#include "recovery/result/result.h"

namespace crashcut::mounted {

using result::Bound;

struct PoolHooks {
  std::function<void(const result::Progress&)> on_progress;  // about ten times a second
  std::function<bool()> is_interrupted;
};

struct Explored {
  Tally tally;
  Bound bound = Bound::kNone;
  double fraction = 1;
  double seconds = 0;
  std::uint64_t sampled = 0;           // of the recoveries: not by the tree but by a strategy
  bool is_in_other_namespace = false;  // checkers did not run in CheckPlan::pid_namespace
};

class Pool {
 public:
  struct Setup {
    const CheckPlan& plan;
    const fusefs::Recording& recording;
    const Histories& histories;
    const std::vector<Question>& questions;
  };
  // Starts the workers: forks, so call it before there are threads.
  static tl::expected<std::unique_ptr<Pool>, Failure> start(const Setup& setup);
  ~Pool();

  tl::expected<Explored, Failure> explore(const PoolHooks& hooks);
  // One recovery, told.
  tl::expected<Told, Failure> tell(std::size_t question, const std::vector<std::uint32_t>& path);
  tl::expected<Run, Failure> run_cut(std::size_t question, const std::vector<std::uint32_t>& events,
                                     std::uint32_t drop);

 private:
  struct Impl;
  explicit Pool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace crashcut::mounted
