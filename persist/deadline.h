// Deadline: when a search must end: when its time is up (--time), or as soon as the caller asks for it (a signal).
//
// What was found by then is still told. Telling has a short while more (is_past_telling()): a command ends at most two
//   seconds after its time, or after a signal.
// Threads: any number.
#pragma once

#include <atomic>
#include <chrono>

#include "persist/bound.h"

namespace crashcut::persist {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  // How long what was found may be told after the end.
  static constexpr std::chrono::milliseconds kTelling{1200};

  // The time begins now. 0 seconds: no bound on time. `stop`, where there is one, must outlive the deadline.
  explicit Deadline(double seconds = 0, const std::atomic<bool>* stop = nullptr)
      : began_(Clock::now()), limit_s_(seconds), stop_(stop) {}
  Deadline(const Deadline&) = delete;

  // kNone, kTime or kInterrupt.
  Bound hit() const {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
      Clock::rep never = 0;
      stopped_.compare_exchange_strong(never, Clock::now().time_since_epoch().count());
      return Bound::kInterrupt;
    }
    return limit_s_ > 0 && seconds() >= limit_s_ ? Bound::kTime : Bound::kNone;
  }
  bool is_over() const { return hit() != Bound::kNone; }
  // Telling must end, too.
  bool is_past_telling() const {
    switch (hit()) {
      case Bound::kInterrupt:
        return Clock::now() - Clock::time_point(Clock::duration(stopped_)) >= kTelling;
      case Bound::kTime:
        return seconds() - limit_s_ >= std::chrono::duration<double>(kTelling).count();
      default:
        return false;
    }
  }
  const std::atomic<bool>* stop() const { return stop_; }
  // Since it was made.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  // Above 0, as 0 would be no bound; 0 where there is none.
  double seconds_left() const {
    if (limit_s_ <= 0) return 0;
    const double left = limit_s_ - seconds();
    return left < 0.001 ? 0.001 : left;
  }

 private:
  Clock::time_point began_;
  double limit_s_;
  const std::atomic<bool>* stop_;
  mutable std::atomic<Clock::rep> stopped_{0};  // when it was first seen to be
};

}  // namespace crashcut::persist
