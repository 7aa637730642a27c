#include "recovery/debug.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "recovery/result/words.h"
#include "recovery/run.h"

namespace crashcut::recovery {
namespace {

using Phase = HoldPoint::Phase;
using result::Failure;
using result::Fate;

// A person looks at the program: no watchdog is to end that.
constexpr std::chrono::hours kForever{24 * 365};

std::size_t end_at_crash(const std::vector<result::Operation>& operations) {
  const auto last = std::find_if(operations.rbegin(), operations.rend(),
                                 [](const result::Operation& o) { return o.fate() != Fate::kLost; });
  return static_cast<std::size_t>(operations.rend() - last);
}

}  // namespace

std::string encode(const HoldPoint& point) {
  return fmt::format("{}:{}", point.phase == Phase::kMain ? "main" : "recovery", point.number);
}

tl::expected<HoldPoint, std::string> decode_hold_point(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string phase = text.substr(0, colon);
  HoldPoint point{phase == "main" ? Phase::kMain : Phase::kRecovery};
  const char* end = text.data() + text.size();
  const auto [at, error] =
      std::from_chars(text.data() + (colon == std::string::npos ? text.size() : colon + 1), end, point.number);
  if ((phase != "main" && phase != "recovery") || error != std::errc() || at != end)
    return tl::unexpected(fmt::format("--hold {}: there is no such step.", text));
  return point;
}

std::vector<DebugStep> steps_of_main(const result::Story& story) {
  std::vector<DebugStep> steps;
  if (story.crashes.empty()) return steps;
  const std::vector<result::Operation>& operations = story.crashes.front().operations;
  const std::size_t end = end_at_crash(operations);
  for (std::size_t i = 1; i < end; ++i) {
    const char* crash = i + 1 == end ? "  (the power fails here at the earliest)" : "";
    steps.push_back({{Phase::kMain, static_cast<std::uint32_t>(i)},
                     fmt::format("{:<10} {}{}", "main()", result::printable(operations[i].text), crash)});
  }
  return steps;
}

std::vector<DebugStep> steps_of_recovery(const result::Story& story, const std::vector<std::uint32_t>& path) {
  std::vector<DebugStep> steps = {{{Phase::kRecovery, 0}, fmt::format("{:<10} begins", "recovery")}};
  std::uint32_t answers = 0;
  for (std::size_t layer = 0; layer < story.crashes.size(); ++layer) {
    for (const result::Call& call : story.crashes[layer].calls) {
      if (call.observations.empty()) continue;
      answers += static_cast<std::uint32_t>(call.observations.size());
      if (answers <= path.size())
        steps.push_back(
            {{Phase::kRecovery, answers}, fmt::format("{:<10} {}", "recovery", result::printable(call.text))});
    }
    ++answers;  // the next crash is an answer too
  }
  return steps;
}

tl::expected<std::vector<DebugStep>, Failure> debug_steps(const Plan& plan, const result::Token& token) {
  const auto replayed = replay(plan, token);
  if (!replayed) return tl::unexpected(replayed.error());
  std::vector<DebugStep> steps = steps_of_main(replayed->told.story);
  for (DebugStep& step : steps_of_recovery(replayed->told.story, token.path)) steps.push_back(std::move(step));
  return steps;
}

tl::expected<bool, Failure> hold_program(const Plan& plan, const result::Token& token, const HoldPoint& point,
                                         const OnHeld& on_held) {
  inprocess::Session::Setup setup = session_setup(plan);
  setup.main_limit = setup.recovery_limit = kForever;
  setup.on_held = on_held;
  if (point.phase == Phase::kMain) setup.hold_operation = point.number;
  if (point.phase == Phase::kRecovery) setup.hold_answer = inprocess::kHoldsAtBegin + point.number;
  const auto session = inprocess::Session::start(setup);
  if (!session) return tl::unexpected(session.error());
  if (point.phase == Phase::kMain) return (*session)->was_held();
  return (*session)->hold(token.path);
}

}  // namespace crashcut::recovery
