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

// Whether the actor that stands before the operation exists: not if it is a thread that nobody created yet.
bool is_live(const State& state, const Operation& operation);

// Whether an actor that is left before the operation at the end is kept from something that it had to do.
bool is_left_undone(const State& state, const Operation& pending);

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

// What to run: the steps of these actors first, then any enabled actor that does not sleep. A sleeping actor wakes when
// a step depends on its own. What the last steps of the prefix do is known only when they are done: a call on files
// does other things in another order.
struct RunRequest {
  std::vector<ActorId> prefix;
  std::vector<Step> sleep;          // the sleepers after the first `sleep_from` steps of the prefix
  std::uint32_t sleep_from = 0;     // from there on the steps themselves, once they are done, wake sleepers
  std::uint32_t depth_most = 0;     // steps an actor; 0: no bound
  std::uint32_t turn_most = 0;      // of the free part: steps in a row while others could go on; 0: no bound
  bool ends_with_prefix = false;    // a run again: nothing is taken after the prefix
  bool goes_on_after_race = false;  // a data race does not end it
  std::uint64_t seed = 0;  // after the prefix: each step by chance, the same for the same seed; 0: not by chance
  // One schedule: by the seed, whatever the prefix was. Answers come at once.
  bool is_one_schedule = false;
};

// At a step by which time passed (dependence.h): another actor that was waiting for time to pass, and its next
// operation. The rest of the execution does not say so: that actor may have gone on for another reason.
struct PassedOver {
  std::size_t step;
  Pending pending;
};

// What a Program wants to say about an execution; the search hands it on.
struct ExecutionNote {
  virtual ~ExecutionNote() = default;
};

struct Execution {
  std::vector<ObjectStart> objects;  // how each began
  std::vector<Step> steps;
  std::vector<Pending> pending;  // the actors that are left at the end, and their next operations
  std::vector<PassedOver> passed_over;
  Ending ending = Ending::kCompleted;
  bool hit_depth = false;          // an actor was held back by its bound
  std::uint32_t left_running = 0;  // threads that were not detached and still ran when the process ended
  bool is_foreseen = false;        // not run: an execution of the same class was (foresight.h)
  std::size_t foreseen_steps = 0;  // how many steps foresight looked at, whether the execution was run or not
  std::uint64_t outcome = 0;       // for the caller: differs if results differ
  std::shared_ptr<const ExecutionNote> note;
};

// Whether an actor is left whose assumption does not hold (primitives/assume.h).
bool is_assumed_away(std::span<const Pending> pending);

// Whether the actor has taken all the steps that the bound lets it take; 0 is no bound.
bool is_exhausted(const Execution& execution, ActorId actor, std::uint32_t depth_most);

class Program {
 public:
  virtual ~Program() = default;
  virtual Execution run(const RunRequest& request) = 0;
};

// Director: chooses the next actor at every step of one run. Every Program uses it.
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
  std::optional<ActorId> choose_by_seed(const State& state, const std::vector<Pending>& pending);

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
