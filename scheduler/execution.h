// Execution: one run of a program under one schedule; and Program, what can be run so.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/state.h"

namespace crashcut::scheduler {

// What an actor stands before.
struct Pending {
  ActorId actor;
  Operation operation;
};

// Whether there is anything to stand before: not for a thread that nobody created yet.
bool is_live(const State& state, const Operation& operation);

enum class Ending : std::uint8_t {
  kCompleted,     // every actor came to its end
  kProcessEnded,  // exit() or a failure ended them all
  kStuck,         // actors are left and none is enabled: a deadlock, or a livelock where one of them spins
  kAsleep,        // all that is enabled is explored elsewhere. Never under the optimal reduction
  kDepth,         // a thread's bound was hit and nobody else could go on
  kTooLong,       // it has as many steps as can be held: the program may not come to an end
  kCutShort,      // a data race, a hang or a signal that nobody can catch ended it, maybe before its prefix was done
  kStopped,       // its search was stopped, and it was ended before it was done: nothing is known of it
  kDiverged,      // the schedule could not be followed: the program did something else than before
};

// What to run: these actors first, then freely, but for sleepers, which wake when a step depends on theirs. What the
// last steps of the prefix will do is known only when they are done: a call on files does other things in another
// order.
struct RunRequest {
  std::vector<ActorId> prefix;
  std::vector<Step> sleep;          // as it stands after the first `sleep_from` of these
  std::uint32_t sleep_from = 0;     // on from there it is woken by what the steps turn out to do
  std::uint32_t depth_most = 0;     // steps an actor; 0: no bound
  std::uint32_t turn_most = 0;      // of the free part: steps in a row while others could go on; 0: no bound
  bool ends_with_prefix = false;    // a run again: nothing is taken after the prefix
  bool goes_on_after_race = false;  // a data race does not end it
  std::uint64_t seed = 0;  // after the prefix: each step by chance, the same for the same seed; 0: not by chance
};

// Where a step was taken for want of others (dependence.h): who else stood there for want of others, before what.
// Nothing else tells: they may have come to go on otherwise.
struct PassedOver {
  std::size_t step;
  Pending pending;
};

// What whoever runs the program wants to say about an execution; the search hands it on.
struct ExecutionNote {
  virtual ~ExecutionNote() = default;
};

struct Execution {
  std::vector<ObjectStart> objects;  // how each began
  std::vector<Step> steps;
  std::vector<Pending> pending;  // at the end: who was left, before what
  std::vector<PassedOver> passed_over;
  Ending ending = Ending::kCompleted;
  bool hit_depth = false;          // an actor was held back by its bound
  std::uint32_t left_running = 0;  // threads that the end of the process cut short, and that nobody had detached
  bool is_foreseen = false;        // not run: another that was run vouches for it (foresight.h)
  std::size_t foreseen_steps = 0;  // that were foreseen for it, whether it was run or not
  std::uint64_t outcome = 0;       // whatever tells results apart for the caller
  std::shared_ptr<const ExecutionNote> note;
};

// Whether an actor is left that assumed what does not hold (primitives/assume.h).
bool is_assumed_away(std::span<const Pending> pending);

// Whether the actor has taken all the steps that the bound lets it take; 0 is no bound.
bool is_exhausted(const Execution& execution, ActorId actor, std::uint32_t depth_most);

class Program {
 public:
  virtual ~Program() = default;
  virtual Execution run(const RunRequest& request) = 0;
};

// Director: decides, in one run, who goes next. Used by whatever runs the program.
class Director {
 public:
  explicit Director(const RunRequest& request) : request_(&request), sleep_(request.sleep), chance_(request.seed) {}

  // The next actor, or none: see ending(). `pending` lists every live actor.
  std::optional<ActorId> choose(const State& state, const std::vector<Pending>& pending);
  // After the chosen one's operation was applied.
  void note(const Step& step, const State& after);
  Ending ending() const { return ending_; }
  bool hit_depth() const { return hit_depth_; }
  std::size_t step_count() const { return taken_; }
  const std::vector<PassedOver>& passed_over() const { return passed_over_; }
  bool is_following_prefix() const { return taken_ < request_->prefix.size(); }

 private:
  // Of one actor. Who is first met waits from then on.
  struct Own {
    std::uint32_t steps = 0;
    std::size_t waits_since = 0;  // when it took its last step, or was met
    bool is_met = false;
  };
  bool is_asleep(ActorId actor) const;
  bool is_exhausted(ActorId actor);
  Own& own(ActorId actor);
  std::optional<ActorId> follow(const State& state, const std::vector<Pending>& pending);
  std::optional<ActorId> choose_freely(const State& state, const std::vector<Pending>& pending);
  std::optional<ActorId> choose_by_chance(const State& state, const std::vector<Pending>& pending);

  const RunRequest* request_;
  std::vector<Step> sleep_;
  std::uint64_t chance_;
  std::vector<Own> owns_;  // an actor
  std::vector<PassedOver> passed_over_;
  std::size_t taken_ = 0;
  std::size_t in_a_row_ = 0;  // steps of `last_`
  std::optional<ActorId> last_;
  Ending ending_ = Ending::kCompleted;
  bool hit_depth_ = false;
};

// Of sleepers, those that still sleep after `step`; `after` is the state then. A sleeper wakes when its step would
// not commute with this one.
void wake_sleepers(std::vector<Step>& sleep, const Step& step, const State& after);

}  // namespace crashcut::scheduler
