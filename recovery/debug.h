// Debug: one recovery that a token names, for a debugger (crashcut gdb): its steps, and the program held at one of
// them.
//
// Steps are the operations of main() up to the crash, with the numbers that reports give them, the beginning of the
//   recovery, and then each call or load of the recovery that depended on the crash.
// The program is run anew for each step, and held there: main() after the operation, the recovery within the load.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/inprocess/session.h"
#include "recovery/plan.h"
#include "recovery/result/story.h"
#include "recovery/result/token.h"

namespace crashcut::recovery {

// Where the program is held.
struct HoldPoint {
  enum class Phase { kMain, kRecovery };
  Phase phase = Phase::kMain;
  std::uint32_t number = 0;  // an operation of main(); how many answers of its path the recovery has, 0: it begins
};
// "main:7", "recovery:0"
std::string encode(const HoldPoint& point);
tl::expected<HoldPoint, std::string> decode_hold_point(const std::string& text);

struct DebugStep {
  HoldPoint point;
  std::string text;
};
// Of main(), and of the recovery with this path. (Numbers of later steps are their places in the list.)
std::vector<DebugStep> steps_of_main(const result::Story& story);
std::vector<DebugStep> steps_of_recovery(const result::Story& story, const std::vector<std::uint32_t>& path);
tl::expected<std::vector<DebugStep>, result::Failure> debug_steps(const Plan& plan, const result::Token& token);

// on_held gets the process, which is gone when this returns. False: the program did not come there.
using OnHeld = std::function<void(int process)>;
tl::expected<bool, result::Failure> hold_program(const Plan& plan, const result::Token& token, const HoldPoint& point,
                                                 const OnHeld& on_held);

}  // namespace crashcut::recovery
