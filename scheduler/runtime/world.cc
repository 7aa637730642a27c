#include "scheduler/runtime/world.h"

#include <algorithm>
#include <cstring>

#include "inject/end.h"
#include "inject/model.h"
#include "inject/process.h"
#include "scheduler/dependence.h"
#include "scheduler/edges.h"
#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/futex.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/call_stacks.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hold.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/own_world.h"
#include "scheduler/runtime/regions.h"
#include "scheduler/runtime/signal_calls.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

Control* g_control = nullptr;
Names* g_names = nullptr;
World* g_world = nullptr;

namespace {

Actor* g_current = nullptr;  // of this process

// For crashcut, which cannot follow our pointers.
FootprintFact keep_footprint(const Footprint& footprint) {
  const std::uint32_t first = g_control->touch_count;
  if (footprint.size() > kTouchesMost - first)
    refuse("more file operations than can be held (4 million places touched)");
  for (const Touch& touch : footprint) g_control->touches[g_control->touch_count++] = touch;
  return {first, static_cast<std::uint32_t>(footprint.size()), true};
}

// `actor` took the step.
void record(const Step& step, const Actor& actor, const Footprint* footprint, std::string_view text = {}) {
  const std::uint32_t i = g_control->step_count;
  g_control->steps[i] = step;
  if (g_control->has_texts != 0) g_control->step_stacks[i] = actor.calls;
  StepFact fact{actor.caller, {}, 0, 0};
  if (footprint != nullptr) fact.footprint = keep_footprint(*footprint);
  if (g_control->text_bytes + text.size() <= kTextsMost) {
    fact.text_at = g_control->text_bytes;
    fact.text_bytes = static_cast<std::uint32_t>(text.size());
    std::memcpy(g_control->texts + fact.text_at, text.data(), text.size());
    g_control->text_bytes += fact.text_bytes;
  }
  g_control->step_facts[i] = fact;
  g_control->step_count = i + 1;
}

void list_pending() {
  g_world->pending.clear();
  for (Actor* actor : g_world->actors) {
    if (actor == nullptr || !actor->has_pending) continue;
    actor->pending.set_host(actor->host_object, actor->incarnation);
    if (g_control->is_one_schedule && g_control->failing != 0) note_failure_points(*actor);
    g_world->pending.push_back({actor->id, actor->pending});
  }
}

// For crashcut: what the actors stood before at the end.
void keep_pending() {
  std::uint32_t count = 0;
  for (const Pending& p : g_world->pending) {
    const Actor& actor = *g_world->actors[index(p.actor)];
    g_control->pending_callers[count] = actor.caller;
    if (g_control->has_texts != 0) g_control->pending_stacks[count] = actor.calls;
    g_control->pending[count++] = p;
  }
  g_control->pending_count = count;
}

// Nobody can go on, or nobody may: the execution ends here.
[[noreturn]] void stop(Ending ending) {
  g_control->ending = ending;
  g_control->hit_depth = g_control->hit_depth || g_world->director->hit_depth();
  keep_pending();
  g_world->is_on = false;
  end_execution();
}

std::uint32_t word_at(const volatile std::uint32_t* word) {
  const auto address = reinterpret_cast<std::uint64_t>(word);
  std::int64_t content = 0;
  if (!kBufferModel.is_on() || !kBufferModel.peek(address & ~std::uint64_t{7}, content)) return *word;
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(content) >> address % 8 * 8);
}

// What the futex holds now. Its address was noted when the object was met.
void observe(Actor& actor, Operation& operation) {
  for (Access& a : operation) {
    if (primitive_of(a.object) != PrimitiveId::kFutex || a.verb != futex::kWait) continue;
    a.observed = word_at(actor.futex_word) == static_cast<std::uint32_t>(a.argument) ? 1 : 0;
  }
}

// The execution has as many steps, sleeps and timed waits as can be held; or a thread has slept alone as often as it
// may, and did something in between, which it may do for good: a heartbeat is no livelock.
bool is_too_long() {
  return g_control->step_count >= kStepsMost - 1 ||
         g_world->director->passed_over().size() + kActorsMost > kPassedOverMost ||
         (g_world->does_something_alone && !has_own_world());
}

// Its last sleeps alone tell whether it writes anything in between.
void note_sleep_alone(Actor& actor) {
  constexpr std::uint32_t kWatched = 4;
  ++actor.sleeps_alone;
  if (actor.sleeps_alone == kSleepsAloneMost - kWatched) {
    actor.is_watched = true;
    actor.written_when_alone = actor.written;
  }
  const bool has_written = actor.written != actor.written_when_alone;
  g_world->does_something_alone =
      g_world->does_something_alone || (actor.sleeps_alone == kSleepsAloneMost && has_written);
}

// For crashcut: whom time might have passed for as well.
void keep_passed_over() {
  const std::vector<PassedOver>& all = g_world->director->passed_over();
  for (std::uint32_t& i = g_control->passed_over_count; i < all.size(); ++i) g_control->passed_over[i] = all[i];
}

std::uint64_t fingerprint() { return g_world->rounds.fingerprint(g_world->state); }

// Clocks are the threads' own, but who hears of another's step does so later than that.
void pass_clock_on(Actor& actor, const Step& step) {
  if (!g_world->has_moved_clock || actor.is_timer) return;
  const auto meet = [&](Edge edge, std::uint64_t channel) {
    std::uint64_t& left_ns = g_world->clocks_ns[channel];
    std::uint64_t& behind_ns = edge == Edge::kAcquire ? actor.clock_ns : left_ns;
    behind_ns = std::max(actor.clock_ns, left_ns);
  };
  const auto meet_twice = [&](std::uint64_t channel) { meet(Edge::kAcquire, channel), meet(Edge::kRelease, channel); };
  constexpr std::uint64_t kUnseen = 0;
  if (step.operation.is_opaque()) return meet_twice(kUnseen);
  for (const Access& access : step.operation) {
    const std::uint64_t object = std::uint64_t{static_cast<std::uint32_t>(access.object)} << 32;
    for_each_edge(access, [&](Edge edge, std::uint32_t part) { meet(edge, object | part); });
    if (primitive_of(access.object) != PrimitiveId::kMemory) continue;
    memory::only_read(access) ? meet(Edge::kAcquire, object | access.offset) : meet_twice(object | access.offset);
  }
}

void take_step(Actor& actor) {
  actor.done = actor.pending;
  // A call on files is done by its actor, and recorded then; but one that a signal comes before touches nothing.
  const bool is_signalled = g_world->state.signal_before(actor.pending) != 0;
  if (is_file_call(actor.pending) && !is_signalled) return;
  Step step{actor.id, actor.pending};
  observe(actor, step.operation);
  observe_memory(actor.memory, g_world->state, step.operation);
  if (!actor.is_helper() && kBufferModel.is_on()) kBufferModel.observe(actor, step.operation);
  if (actor.is_resting) actor.rested_at.push_back(fingerprint());
  g_world->rounds.note_before(g_world->state, step.operation);
  g_world->state.apply(step);
  g_world->rounds.note(step);
  note_happened(step);
  if (!actor.is_helper() && kBufferModel.is_on()) kBufferModel.note(actor, step);
  pass_clock_on(actor, step);
  if (is_file_call(step.operation)) step.operation.set_footprint(&g_world->nothing);
  record(step, actor, step.operation.footprint());
  g_world->director->note(step, g_world->state);
  actor.done = step.operation;
  if (actor.lane_of != nullptr && primitive_of(step.operation[0].object) != PrimitiveId::kAnswer)
    kBufferModel.leave(actor, step.operation);
  if (actor.is_failure) kBufferModel.fail(actor.host);
  if (actor.is_cache) kBufferModel.act_by_itself(actor, step.operation);
}

// Takes steps until one of an actor with code was taken: that actor goes on. All of them are of this process, since the
// turn is given to the others' hosts meanwhile.
Actor& advance() {
  while (true) {
    if (g_world->may_wait_for_time) let_time_pass(g_world->state, g_world->actors, fingerprint);
    list_pending();
    if (is_too_long()) stop(Ending::kTooLong);
    const auto chosen = g_world->director->choose(g_world->state, g_world->pending);
    if (!chosen) stop(g_world->director->ending());
    keep_passed_over();
    Actor* actor = g_world->actors[index(*chosen)];
    if (!runs_here(*actor)) actor = &pass_turn_to(*actor);
    take_step(*actor);
    if (actor->is_failure || actor->is_cache) hold_host_if_asked(actor->host);
    if (actor->is_timer) {
      g_world->may_wait_for_time = true;
    } else if (!actor->is_helper()) {  // else the next signal, or failure, may follow
      actor->has_pending = false;
      if (waits_for_time(actor->pending)) note_sleep_alone(*actor);
      return *actor;
    }
  }
}

}  // namespace

void schedule() {
  Actor& actor = advance();
  g_control->running_actor = index(actor.id);
  Actor& caller = *g_current;
  if (&actor != &caller) {
    g_current = &actor;
    set_heap_actor(index(actor.id));
    switch_fibers(caller.fiber, actor.fiber);
  }
  hold_if_asked();
}

// What is added follows what is there: no other step has a text yet that is newer.
void add_to_last_step(std::string_view text) {
  StepFact& fact = g_control->step_facts[g_control->step_count - 1];
  if (g_control->text_bytes + text.size() > kTextsMost) return;
  if (fact.text_bytes == 0) fact.text_at = g_control->text_bytes;
  std::memcpy(g_control->texts + g_control->text_bytes, text.data(), text.size());
  fact.text_bytes += static_cast<std::uint32_t>(text.size());
  g_control->text_bytes += static_cast<std::uint32_t>(text.size());
}

void add_place_to_last_step(std::uint64_t address) {
  if (g_control->has_texts != 0) add_to_last_step("@" + std::to_string(place_of(address)));
}

bool is_scheduling() { return g_world != nullptr && g_world->is_on; }
bool is_executing() { return g_world != nullptr; }
Actor& current_actor() { return *g_current; }
Actor* current_or_null() { return g_current; }
std::uint64_t& own_clock_ns() {
  g_world->has_moved_clock = true;
  return current_actor().clock_ns;
}
void for_each_actor(void (*visit)(const Actor&)) {
  for (const Actor* actor : g_world->actors) {
    if (actor != nullptr && !actor->is_failure && !actor->is_cache && runs_here(*actor)) visit(*actor);
  }
}

static void stand_before(Actor& self, const Operation& operation, const void* caller) {
  self.pending = operation;
  add_interruption(self, self.pending);
  const PrimitiveId primitive = primitive_of(operation[0].object);
  // What lives on a futex is memory: where that is not seen, any step may matter to it.
  const bool is_call_beside_memory = is_file_call(operation) && kBufferModel.is_on();
  if (g_control->is_opaque != 0 || is_call_beside_memory || (primitive == PrimitiveId::kFutex && !g_is_instrumented))
    self.pending.set_opaque();
  if (!primitive_of(operation[0]).traits.is_memory && primitive != PrimitiveId::kSpin) self.memory.looks.clear();
  self.has_pending = true;
  self.caller = reinterpret_cast<std::uint64_t>(caller);
  if (g_control->has_texts != 0) self.calls = call_stack();
}

bool wait_for_turn(const Operation& operation, const void* caller, OnSignal on_signal) {
  Actor& self = current_actor();
  while (true) {
    stand_before(self, operation, caller);
    schedule();
    begin_segment();
    if (!self.done.is_interrupted()) return true;
    const Heeded heeded = heed_delivery(self, operation, on_signal, caller);
    if (heeded != Heeded::kStandsAgain) return heeded == Heeded::kIsDone;
    end_segment();
  }
}

// Each host has files of its own.
static void name_by_host(Footprint& footprint) {
  if (g_host_tag == 0) return;
  for (Touch& touch : footprint) touch.key = hash(touch.key ^ g_host_tag);
  std::stable_sort(footprint.begin(), footprint.end(), [](const Touch& x, const Touch& y) { return x.key < y.key; });
}

void finish_turn(Operation& done, Footprint footprint, std::string_view text) {
  Actor& self = current_actor();
  add_interruption(self, done);
  // Crashes of memory see every order of calls on files.
  if (g_control->is_opaque != 0 || kBufferModel.is_on()) done.set_opaque();
  done.set_host(self.host_object, self.incarnation);
  name_by_host(footprint);
  done.set_footprint(new Footprint(std::move(footprint)));
  Step step{self.id, done};
  g_world->state.apply(step);
  g_world->rounds.note(step);
  record(step, self, done.footprint(), text);
  g_world->director->note(step, g_world->state);
}

Rounds::Standing stand(std::uint64_t local) {
  const Actor& self = current_actor();
  std::vector<ObjectStart> objects;
  for (std::uint32_t i = 0; i < g_control->object_count; ++i) objects.push_back(g_control->objects[i].start);
  return g_world->rounds.stand(self.id, local, self.written, objects, {g_control->steps, g_control->step_count.load()});
}

void rest(const void* caller) {
  Actor& self = current_actor();
  g_world->may_wait_for_time = self.is_resting = true;
  perform(spin::access(loop_object(), spin::kRest), caller);
  self.is_resting = false;
}

// What a loop that waits may do besides: yields, sleeps, and the places in them where it may be cancelled or
// interrupted.
static bool is_part_of_loop(const Operation& operation) {
  const PrimitiveId primitive = primitive_of(operation[0].object);
  return primitive == PrimitiveId::kSpin || primitive == PrimitiveId::kCancellation ||
         (primitive == PrimitiveId::kSignal && operation[0].verb == signal::kPass) ||
         (primitive == PrimitiveId::kChannel && operation[0].verb == channel::kUse);
}

static bool is_try(const Operation& operation) {
  const std::uint8_t verb = operation[0].verb;
  switch (primitive_of(operation[0].object)) {
    case PrimitiveId::kMutex:
      return verb == mutex::kTryLock;
    case PrimitiveId::kRwLock:
      return verb == rwlock::kTryRead || verb == rwlock::kTryWrite;
    case PrimitiveId::kSemaphore:
      return verb == semaphore::kTryWait;
    case PrimitiveId::kThread:
      return verb == thread::kTryJoin;
    case PrimitiveId::kChannel:
      return (operation[0].order & channel::kTries) != 0;
    default:
      return false;
  }
}

// Of a try that is done. Whether a call on a channel found nothing: no data, no room, nothing ready.
static bool has_failed(const Operation& done) {
  if (primitive_of(done[0].object) != PrimitiveId::kChannel) return done.result() != 0;
  return channel::is_poll(done[0]) ? done.result() == 0 && readable_signals(done) == 0 : done.result() == -EAGAIN;
}

static bool is_lock(const Operation& operation) {
  const std::uint8_t verb = operation[0].verb;
  switch (primitive_of(operation[0].object)) {
    case PrimitiveId::kMutex:
      return verb == mutex::kLock;
    case PrimitiveId::kRwLock:
      return verb == rwlock::kRead || verb == rwlock::kWrite;
    case PrimitiveId::kSemaphore:
      return verb == semaphore::kWait;
    default:
      return false;
  }
}

// Tries that fail, with nothing between them but other such tries, yields and sleeps. Yields and sleeps end no loop.
// The try that is looked for may be one before the loop (compilers move a loop's first round out of it), so it is given
// up for another after 1, 2, 4, ... that are not it (Brent's way to find a cycle).
static void note_try(Actor& self, const Operation& operation, const void* caller) {
  if (is_part_of_loop(operation)) return;
  if (!is_try(operation) || !has_failed(self.done)) {
    self.failed_tries = self.others_most = 0;
  } else if (self.failed_tries > 0 && self.tried == operation[0].object && self.tried_at == caller) {
    ++self.failed_tries;
    self.others_failed = 0;
  } else if (self.failed_tries == 0 || ++self.others_failed >= self.others_most) {
    self.tried = operation[0].object;
    self.tried_at = caller;
    self.failed_tries = 1;
    self.others_failed = 0;
    self.others_most = std::max(1u, self.others_most * 2);
  }
}

// Waiting in a loop, and accesses of memory, execute no locked instruction unless they say so.
static bool synchronises(const Operation& operation) {
  const PrimitiveId primitive = primitive_of(operation[0].object);
  return !primitive_of(operation[0]).traits.is_memory && primitive != PrimitiveId::kSpin &&
         primitive != PrimitiveId::kAnswer;
}

std::int64_t perform(const Operation& operation, const void* caller, OnSignal on_signal) {
  Actor& self = current_actor();
  heed_added_locks(caller, false);
  if (synchronises(operation) && kBufferModel.is_on()) kBufferModel.synchronise(caller);
  end_segment();
  const bool has_entry = primitive_of(operation[0].object) != PrimitiveId::kChannel;  // of those, registers are noted
  if ((is_try(operation) && has_entry) || is_lock(operation)) rest_if_round(operation, caller);
  // It would fail again before another has taken a step. Where nobody can, it may: a loop that gives up comes to its
  // end.
  if (self.failed_tries > kPolite && is_try(operation) && self.tried == operation[0].object &&
      self.tried_at == caller) {
    note_sleep(true);
    perform(spin::access(loop_object(), spin::kSpin), caller);
    note_sleep(false);
  }
  if (!is_part_of_loop(operation)) self.yields_in_a_row = 0;
  if (!wait_for_turn(operation, caller, on_signal)) return kInterrupted;
  note_try(self, operation, caller);
  for (const Access& a : self.done) {
    if (a.result != kNoResult && a.result < kMisuse) fail(Failure::kMisuse, a.result, misuse_text(a.result), caller);
  }
  if (g_world->state.is_over()) {
    list_pending();
    g_world->is_on = false;
    keep_pending();
    g_control->ending = Ending::kProcessEnded;
    g_control->hit_depth = g_control->hit_depth || g_world->director->hit_depth();
  }
  return self.done.result();
}

const Object& object_of(ObjectId id) { return g_world->state.object(id); }

void wait_for_others(const void* caller) {
  const auto can_go = [](const Actor* actor) {
    return actor != nullptr && actor->has_pending && g_world->state.is_enabled(actor->id, actor->pending);
  };
  if (std::none_of(g_world->actors.begin(), g_world->actors.end(), can_go)) return;
  note_waiting();
  Operation spin(spin::access(loop_object(), spin::kSpin));
  spin.set_opaque();
  // Where the others have come to their ends meanwhile, it goes on. The first may follow at once, the second does not.
  note_sleep(true);
  perform(spin, caller);
  perform(spin, caller);
  note_sleep(false);
}

void note_sleep(bool is_sleeping) {
  Actor& self = current_actor();
  self.is_sleeping = is_sleeping;
  g_world->may_wait_for_time = true;
}

void stop_at_race() {
  g_control->failure = Failure::kRace;
  g_control->failure_actor = index(current_actor().id);
  list_pending();
  stop(Ending::kCutShort);
}

void refuse(const char* call) {
  if (g_control == nullptr) inject::unsupported(call);  // a recovery, or a static constructor
  g_control->failure = Failure::kUnsupported;
  inject::copy_text(call, g_control->text);
  g_is_spent = true;
  end_execution();
}

void refuse_outside(const char* call) {
  if (g_control == nullptr) inject::tell_models(&inject::Model::need_threads);
  refuse(call);
}

// What the request says; the reply is empty yet.
static void make_world() {
  g_world = new World;
  forget_objects();
  RunRequest& request = g_world->request;
  request.prefix.assign(g_control->prefix, g_control->prefix + g_control->prefix_count);
  request.sleep.assign(g_control->sleep, g_control->sleep + g_control->sleep_count);
  for (std::uint32_t i = 0; i < g_control->sleep_count; ++i) {
    const FootprintFact& fact = g_control->sleep_footprints[i];
    const Touch* first = g_control->sleep_touches + fact.first;
    request.sleep[i].operation.set_footprint(fact.is_known ? new Footprint(first, first + fact.count) : nullptr);
  }
  request.sleep_from = g_control->sleep_from;
  request.depth_most = g_control->depth_most;
  request.turn_most = g_control->turn_most;
  request.ends_with_prefix = g_control->ends_with_prefix;
  request.seed = g_control->seed;
  request.is_one_schedule = g_control->is_one_schedule;
  g_world->director.emplace(request);
  g_control->step_count = g_control->object_count = g_control->pending_count = g_control->passed_over_count = 0;
  g_control->touch_count = g_control->text_bytes = g_control->outside_count = 0;
  g_control->is_added_lock_unclear = false;
  g_control->failure = Failure::kNone;
  g_control->hit_depth = false;
  g_control->text[0] = 0;
  g_control->running_actor = g_control->left_running = 0;
  g_control->has_no_result = g_control->is_result = false;
  g_world->memory = begin_accesses();
}

// The running thread is this actor from now on.
static void adopt(Actor& main, const void* stack_top) {
  adopt_main(main.fiber);
  main.thread = own_object(PrimitiveId::kThread, main.id, thread::kStarted);
  g_current = &main;
  main.memory.stack_top = reinterpret_cast<std::uint64_t>(stack_top);
  begin_outside();
  begin_meetings();
  begin_signals(main);
  set_heap_actor(index(main.id));
}

void begin_world(const void* stack_top) {
  make_world();
  join_accesses(g_world->memory, stack_top);
  adopt(*new_actor(ActorId{0}), stack_top);
  g_world->is_on = true;
  announce_handlers();
}

void begin_hosted_world() {
  enter_common_heap(true);
  use_common_places();
  make_world();
  common_heap().world = g_world;
  restore_regions();
  begin_hosts();
  g_world->is_on = true;
}

// The first host has chosen; else the turn came here with the choice.
void join_hosted_world(const void* stack_top) {
  if (g_world == nullptr) {
    enter_common_heap(false);
    use_common_places();
    g_world = common_heap().world;
    join_accesses(g_world->memory, stack_top);
    take_step(*g_world->chosen);
    g_world->chosen->has_pending = false;
  } else {
    join_accesses(g_world->memory, stack_top);
    g_world->chosen = &advance();
  }
  Actor& main = *g_world->chosen;
  g_incarnation = main.incarnation;
  g_host_tag = tag_of(g_host, g_incarnation);
  g_control->running_actor = index(main.id);
  adopt(main, stack_top);
  announce_handlers();
}

void end_world() {
  g_world = nullptr;
  g_current = nullptr;
  end_accesses();
}

}  // namespace crashcut::scheduler::runtime
