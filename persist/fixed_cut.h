// FixedCut: answers every choice of one log as one given cut does.
#pragma once

#include <vector>

#include "persist/choices.h"
#include "persist/log.h"

namespace crashcut::persist {

class FixedCut final : public Chooser {
 public:
  // The cut that holds exactly `events`, which are closed downwards; numbers that the log does not have are ignored.
  FixedCut(const Log& log, std::span<const EventId> events);

  // Leaves out the event and all that persists after it.
  void drop(EventId event);

  std::uint32_t choose(const Choice& choice) override;

 private:
  const Log& log_;
  std::vector<bool> in_;
};

}  // namespace crashcut::persist
