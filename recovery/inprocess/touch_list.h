// TouchList: what the file calls of a scheduled thread touch, for the scheduler.
#pragma once

#include "fusefs/effects.h"
#include "scheduler/footprint.h"

namespace crashcut::inprocess {

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

}  // namespace crashcut::inprocess
