// Joint: the scheduler's runtime and the in-process model of files in one process: file calls are operations of the
// scheduler, and what an execution wrote is crashed and recovered by the coordinator.
//
// Who is who: the coordinator (recovery/inprocess/protocol.h) forks the scheduler's server, which forks runners
//   (scheduler/runtime/protocol.h). A runner's recording lies in the shared arena, where the coordinator finds it until
//   the next execution begins.
#pragma once

#include "fusefs/effects.h"
#include "scheduler/footprint.h"

namespace crashcut::joint {

// What the calls of one step touched.
class TouchList final : public fusefs::Effects {
 public:
  using fusefs::Effects::touch;
  void touch(std::uint64_t key, Part part, std::uint64_t begin, std::uint64_t end) override;
  fusefs::Ino fresh_ino() override;
  std::uint64_t fresh_name() override;
  Moment now() override;
  bool loosens() const override;
  void blocked_by(std::uint64_t lock) override { blocked_by_ = lock; }

  std::uint64_t blocked_by() const { return blocked_by_; }
  // Sorted, each thing once; the list is empty after it.
  scheduler::Footprint take();
  // Before the memory that it uses is given back.
  void forget() { scheduler::Footprint().swap(touches_); }

 private:
  scheduler::Footprint touches_;
  std::uint64_t blocked_by_ = 0;
};

// --- model.cc
void install_model();
// --- memory.cc: what the arena holds now belongs to all executions
void keep_memory();

}  // namespace crashcut::joint
