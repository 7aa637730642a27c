#include "scheduler/runtime/world.h"

#include <pthread.h>
#include <setjmp.h>

#include <new>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "scheduler/dependence.h"
#include "scheduler/edges.h"
#include "scheduler/primitives/futex.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hold.h"
#include "scheduler/runtime/loops.h"

// How libc's pthread_exit() finds the place where a thread began; C's pthread_cleanup_push() uses them too.
extern "C" void __pthread_register_cancel(__pthread_unwind_buf_t*);
extern "C" void __pthread_unregister_cancel(__pthread_unwind_buf_t*);

namespace crashcut::scheduler::runtime {

Control* g_control = nullptr;
Names* g_names = nullptr;
void (*g_refuse_elsewhere)(const char* call) = nullptr;

void lock_names() {
  std::uint32_t free = 0;
  while (!g_names->lock.compare_exchange_weak(free, 1, std::memory_order_acquire)) free = 0;
}
void unlock_names() { g_names->lock.store(0, std::memory_order_release); }

namespace {

struct World {
  RunRequest request;
  std::optional<Director> director;
  State state;
  std::vector<Actor*> actors;      // by id; null where it is not in this execution
  Rounds rounds;
  std::vector<Pending> pending;
  Actor* current = nullptr;
  bool is_on = false;
  // What the clocks of those who released there showed, by object and channel. No clock has moved: nothing to pass on.
  std::unordered_map<std::uint64_t, std::uint64_t> clocks_ns;
  bool has_moved_clock = false;
};
World* g_world = nullptr;
// Somebody has slept or waited for a time in this execution.
bool g_may_wait_for_time = false;

// Where the objects of this execution are, by address. Open addressing; sized for kObjectsMost.
struct Place {
  std::uint64_t address;
  PrimitiveId primitive;
  std::uint32_t times;  // how often it was initialised
  ObjectId id;
  bool is_used;
};
constexpr std::uint32_t kPlaces = 1 << 14;
Place g_places[kPlaces];
std::uint32_t g_used_places[kPlaces];
std::uint32_t g_used_place_count = 0;

std::uint64_t hash(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}

std::uint32_t object_number(std::uint64_t key) {
  key |= 1;
  for (std::uint32_t i = static_cast<std::uint32_t>(hash(key)) % Names::kSlots;; i = (i + 1) % Names::kSlots) {
    Names::Slot& slot = g_names->slots[i];
    if (slot.key.load(std::memory_order_acquire) == key) return slot.number;
    if (slot.key.load(std::memory_order_acquire) != 0) continue;
    lock_names();
    if (slot.key.load(std::memory_order_relaxed) == 0) {
      if (g_names->object_count + 1 >= kObjectsMost) {
        unlock_names();
        refuse("too many synchronisation objects (65536)");
      }
      slot.number = ++g_names->object_count;
      slot.key.store(key, std::memory_order_release);
    }
    unlock_names();
    if (slot.key.load(std::memory_order_acquire) == key) return slot.number;
  }
}

ActorId actor_number(ActorId parent, std::uint32_t ordinal) {
  lock_names();
  std::uint32_t i = 1;
  for (; i < g_names->actor_count; ++i) {
    if (g_names->actors[i].parent == index(parent) && g_names->actors[i].ordinal == ordinal) break;
  }
  if (i == g_names->actor_count && i < kActorsMost) {
    g_names->actors[i] = {index(parent), ordinal};
    ++g_names->actor_count;
  }
  unlock_names();
  if (i >= kActorsMost) refuse("more than 1024 threads");
  return static_cast<ActorId>(i);
}

void declare(const ObjectStart& start, const void* address) {
  g_world->state.declare(start);
  const std::uint32_t i = g_control->object_count;
  if (i == kObjectsMost) refuse("too many synchronisation objects (65536)");
  g_control->objects[i] = {start, reinterpret_cast<std::uint64_t>(address)};
  g_control->object_count = i + 1;
}

// Objects of an actor's own: named by the actor.
ObjectId own_object(PrimitiveId primitive, ActorId actor, std::int64_t a) {
  const std::uint64_t key = hash(std::uint64_t{static_cast<std::uint8_t>(primitive)} << 56 | 0xac70 | std::uint64_t{index(actor)} << 16);
  const ObjectId id = make_object_id(primitive, object_number(key));
  declare({id, a}, nullptr);
  return id;
}

Actor* new_actor(ActorId id) {
  Actor* actor = new Actor;
  actor->id = id;
  if (index(id) >= g_world->actors.size()) g_world->actors.resize(index(id) + 1, nullptr);
  g_world->actors[index(id)] = actor;
  actor->random = hash(index(id) + 1);
  return actor;
}

// For crashcut, which cannot follow our pointers.
FootprintFact keep_footprint(const Footprint& footprint) {
  const std::uint32_t first = g_control->touch_count;
  if (footprint.size() > kTouchesMost - first) refuse("more file operations than can be held (4 million places touched)");
  for (const Touch& touch : footprint) g_control->touches[g_control->touch_count++] = touch;
  return {first, static_cast<std::uint32_t>(footprint.size()), true};
}

void record(const Step& step, std::uint64_t caller, const Footprint* footprint = nullptr, std::string_view text = {}) {
  const std::uint32_t i = g_control->step_count;
  g_control->steps[i] = step;
  StepFact fact{caller, {}, 0, 0};
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
  for (const Actor* actor : g_world->actors) {
    if (actor != nullptr && actor->has_pending) g_world->pending.push_back({actor->id, actor->pending});
  }
}

// Nobody can go on, or nobody may: the execution ends here.
[[noreturn]] void stop(Ending ending) {
  g_control->ending = ending;
  g_control->hit_depth = g_control->hit_depth || g_world->director->hit_depth();
  std::uint32_t count = 0;
  for (const Pending& p : g_world->pending) {
    g_control->pending_callers[count] = g_world->actors[index(p.actor)]->caller;
    g_control->pending[count++] = p;
  }
  g_control->pending_count = count;
  g_world->is_on = false;
  end_execution();
}

// What the futex holds now. Its address was noted when the object was met.
void observe(Actor& actor, Operation& operation) {
  for (Access& a : operation) {
    if (primitive_of(a.object) != PrimitiveId::kFutex || a.verb != futex::kWait) continue;
    a.observed = *actor.futex_word == static_cast<std::uint32_t>(a.argument) ? 1 : 0;
  }
}

// For crashcut: whom time might have passed for as well.
void keep_passed_over() {
  const std::vector<PassedOver>& all = g_world->director->passed_over();
  if (all.size() > kPassedOverMost) refuse("more sleeps and timed waits than can be held (100000)");
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

// Chooses who goes next and lets it; returns when the calling actor's operation is done.
void schedule() {
  while (true) {
    if (g_may_wait_for_time) let_time_pass(g_world->state, g_world->actors, g_control->timeouts_most, fingerprint);
    list_pending();
    const auto chosen = g_world->director->choose(g_world->state, g_world->pending);
    if (!chosen) stop(g_world->director->ending());
    keep_passed_over();
    if (g_control->step_count >= kStepsMost - 1) {
      g_control->hit_depth = true;
      stop(Ending::kDepth);
    }
    Actor& actor = *g_world->actors[index(*chosen)];
    actor.done = actor.pending;
    // A call on files is done by its actor, and recorded then.
    if (!is_file_call(actor.pending)) {
      Step step{actor.id, actor.pending};
      observe(actor, step.operation);
      observe_memory(actor.memory, g_world->state, step.operation);
      if (actor.is_resting) actor.rested_at.push_back(fingerprint());
      g_world->rounds.note_before(g_world->state, step.operation);
      g_world->state.apply(step);
      g_world->rounds.note(step);
      note_happened(step);
      pass_clock_on(actor, step);
      record(step, actor.caller);
      g_world->director->note(step, g_world->state);
      actor.done = step.operation;
    }
    if (actor.is_timer) {
      // Its next firing is for the next wait, as long as it may be early.
      actor.has_pending = ++actor.early_timeouts < g_control->timeouts_most;
      g_may_wait_for_time = true;
      continue;
    }
    actor.has_pending = false;
    if (is_for_want_of_others(actor.pending)) ++actor.sleeps_alone;
    Actor& caller = *g_world->current;
    if (&actor == &caller) return hold_if_asked();
    g_world->current = &actor;
    g_control->running_actor = index(actor.id);
    set_heap_actor(index(actor.id));
    switch_fibers(caller.fiber, actor.fiber);
    return hold_if_asked();
  }
}

void fiber_entry();

}  // namespace

bool is_scheduling() { return g_world != nullptr && g_world->is_on; }
bool is_executing() { return g_world != nullptr; }
Actor& current_actor() { return *g_world->current; }
std::uint64_t& own_clock_ns() {
  g_world->has_moved_clock = true;
  return current_actor().clock_ns;
}
void for_each_actor(void (*visit)(const Actor&)) {
  for (const Actor* actor : g_world->actors) {
    if (actor != nullptr) visit(*actor);
  }
}

void wait_for_turn(const Operation& operation, const void* caller) {
  Actor& self = current_actor();
  self.pending = operation;
  const PrimitiveId primitive = primitive_of(operation[0].object);
  // What lives on a futex is memory: where that is not seen, any step may matter to it.
  if (g_control->is_opaque != 0 || (primitive == PrimitiveId::kFutex && !g_is_instrumented)) self.pending.set_opaque();
  if (primitive != PrimitiveId::kMemory && primitive != PrimitiveId::kSpin) self.memory.looks.clear();
  self.has_pending = true;
  self.caller = reinterpret_cast<std::uint64_t>(caller);
  schedule();
  begin_segment();
}

void finish_turn(Operation& done, Footprint footprint, std::string_view text) {
  Actor& self = current_actor();
  if (g_control->is_opaque != 0) done.set_opaque();
  done.set_footprint(new Footprint(std::move(footprint)));
  Step step{self.id, done};
  g_world->state.apply(step);
  g_world->rounds.note(step);
  record(step, self.caller, done.footprint(), text);
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
  g_may_wait_for_time = self.is_resting = true;
  perform(spin::access(loop_object(), spin::kRest), caller);
  self.is_resting = false;
}

// What a loop that waits may do besides: yields, sleeps, and the cancellation points in them.
static bool is_part_of_loop(const Operation& operation) {
  const PrimitiveId primitive = primitive_of(operation[0].object);
  return primitive == PrimitiveId::kSpin || primitive == PrimitiveId::kCancellation;
}

static bool is_try(const Operation& operation) {
  const std::uint8_t verb = operation[0].verb;
  switch (primitive_of(operation[0].object)) {
    case PrimitiveId::kMutex: return verb == mutex::kTryLock;
    case PrimitiveId::kRwLock: return verb == rwlock::kTryRead || verb == rwlock::kTryWrite;
    case PrimitiveId::kSemaphore: return verb == semaphore::kTryWait;
    case PrimitiveId::kThread: return verb == thread::kTryJoin;
    default: return false;
  }
}

static bool is_lock(const Operation& operation) {
  const std::uint8_t verb = operation[0].verb;
  switch (primitive_of(operation[0].object)) {
    case PrimitiveId::kMutex: return verb == mutex::kLock;
    case PrimitiveId::kRwLock: return verb == rwlock::kRead || verb == rwlock::kWrite;
    default: return false;
  }
}

// Tries that fail, with nothing between them but other such tries, yields and sleeps. Yields and sleeps end no loop. The try
// that is looked for may be one before the loop (compilers move a loop's first round out of it), so it is given up for another
// after 1, 2, 4, ... that are not it (Brent's way to find a cycle).
static void note_try(Actor& self, const Operation& operation, const void* caller) {
  if (is_part_of_loop(operation)) return;
  if (!is_try(operation) || self.done.result() == 0) {
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

std::int64_t perform(const Operation& operation, const void* caller) {
  Actor& self = current_actor();
  end_segment();
  if (is_try(operation) || is_lock(operation)) rest_if_round(operation, caller);
  // It would fail again before another has taken a step. Where nobody can, it may: a loop that gives up comes to its end.
  if (self.failed_tries > kPolite && is_try(operation) && self.tried == operation[0].object && self.tried_at == caller) {
    note_sleep(true);
    perform(spin::access(loop_object(), spin::kSpin), caller);
    note_sleep(false);
  }
  if (!is_part_of_loop(operation)) self.yields_in_a_row = 0;
  wait_for_turn(operation, caller);
  note_try(self, operation, caller);
  for (const Access& a : self.done) {
    if (a.result != kNoResult && a.result < kMisuse) fail(Failure::kMisuse, a.result, misuse_text(a.result), caller);
  }
  if (g_world->state.is_over()) {
    list_pending();
    g_world->is_on = false;
    g_control->pending_count = 0;
    for (const Pending& p : g_world->pending) {
      g_control->pending_callers[g_control->pending_count] = g_world->actors[index(p.actor)]->caller;
      g_control->pending[g_control->pending_count++] = p;
    }
    g_control->ending = Ending::kProcessEnded;
    g_control->hit_depth = g_control->hit_depth || g_world->director->hit_depth();
  }
  return self.done.result();
}

ObjectId keyed_object(PrimitiveId primitive, std::uint64_t key) {
  return make_object_id(primitive, object_number(hash(key ^ std::uint64_t{static_cast<std::uint8_t>(primitive)} << 56)));
}

const Object& object_of(ObjectId id) { return g_world->state.object(id); }

ObjectId stamped_object_at(PrimitiveId primitive, const void* address, const ObjectStart& start, std::uint32_t& stamp, bool is_initialised) {
  constexpr std::uint32_t kStamp = 0xc4a5c007;
  // A new object in the place of an old one, made without a call: its bytes are those of the initialiser.
  const ObjectId id = object_at(primitive, address, start, is_initialised || stamp != kStamp);
  stamp = kStamp;
  return id;
}

ObjectId object_at(PrimitiveId primitive, const void* address, ObjectStart start, bool is_initialised) {
  const auto number = reinterpret_cast<std::uint64_t>(address);
  std::uint32_t i = static_cast<std::uint32_t>(hash(number ^ std::uint64_t{static_cast<std::uint8_t>(primitive)} << 56)) % kPlaces;
  for (; g_places[i].is_used; i = (i + 1) % kPlaces) {
    if (g_places[i].address == number && g_places[i].primitive == primitive) break;
  }
  Place& place = g_places[i];
  if (place.is_used && !is_initialised) return place.id;
  if (!place.is_used) {
    if (g_used_place_count + 1 >= kPlaces / 2) refuse("too many synchronisation objects at a time (8192)");
    g_used_places[g_used_place_count++] = i;
    place = {number, primitive, 0, {}, true};
  } else {
    ++place.times;
  }
  const std::uint64_t key = hash(hash(number) + static_cast<std::uint8_t>(primitive) + (std::uint64_t{place.times} << 8));
  place.id = make_object_id(primitive, object_number(key));
  start.object = place.id;
  declare(start, address);
  return place.id;
}

void arm_timer(const void* caller) {
  Actor& self = current_actor();
  g_may_wait_for_time = true;
  if (self.timer_actor == nullptr) {
    Actor* timer = new_actor(actor_number(self.id, Names::kTimerOrdinal));
    timer->is_timer = true;
    timer->timer = self.timer = own_object(PrimitiveId::kTimer, self.id, timer::kIdle);
    timer->pending = timer::access(self.timer, timer::kFire);
    timer->has_pending = g_control->timeouts_most > 0;
    self.timer_actor = timer;
  }
  // Where none is asked for, it is no bound that was hit.
  if (g_control->timeouts_most > 0 && !self.timer_actor->has_pending) g_control->hit_timeouts = true;
  perform(Operation(timer::access(self.timer, timer::kArm)), caller);
}

ObjectId loop_object() {
  Actor& self = current_actor();
  if (self.loop == ObjectId{}) self.loop = own_object(PrimitiveId::kSpin, self.id, spin::kFirst);
  return self.loop;
}

void wait_for_others(const void* caller) {
  const auto can_go = [](const Actor* actor) { return actor != nullptr && actor->has_pending && g_world->state.is_enabled(actor->id, actor->pending); };
  if (std::none_of(g_world->actors.begin(), g_world->actors.end(), can_go)) return;
  Operation spin(spin::access(loop_object(), spin::kSpin));
  spin.set_opaque();
  // Where the others have come to their ends meanwhile, it goes on. The first may follow at once, the second does not.
  note_sleep(true);
  perform(spin, caller);
  perform(spin, caller);
  note_sleep(false);
}

void clear_key(std::uint32_t key) {
  for (Actor* actor : g_world->actors) {
    if (actor != nullptr) actor->keys[key] = nullptr;
  }
}

void note_sleep(bool is_sleeping) {
  Actor& self = current_actor();
  self.is_sleeping = is_sleeping;
  g_may_wait_for_time = true;
}

ObjectId cancellation_object(Actor& actor) {
  if (actor.cancellation == ObjectId{}) actor.cancellation = own_object(PrimitiveId::kCancellation, actor.id, 0);
  return actor.cancellation;
}

Access take_timer() { return timer::access(current_actor().timer, timer::kTake); }

Actor* create_actor(void* (*routine)(void*), void* argument, std::size_t stack_bytes, const void* caller) {
  Actor& self = current_actor();
  const ActorId id = actor_number(self.id, self.child_count++);
  Actor* actor = new_actor(id);
  actor->routine = routine;
  actor->argument = argument;
  g_control->actors[index(id)].routine = reinterpret_cast<std::uint64_t>(routine);
  if (!make_fiber(actor->fiber, index(id), stack_bytes, fiber_entry)) {
    g_world->actors[index(id)] = nullptr;
    return nullptr;
  }
  actor->memory.stack_top = reinterpret_cast<std::uint64_t>(actor->fiber.stack_begin) + actor->fiber.stack_bytes;
  actor->thread = own_object(PrimitiveId::kThread, id, thread::kNone);
  actor->pending = thread::access(actor->thread, thread::kStart);
  if (g_control->is_opaque != 0) actor->pending.set_opaque();
  actor->clock_ns = self.clock_ns;
  perform(thread::access(actor->thread, thread::kCreate), caller);
  actor->has_pending = true;
  return actor;
}

void init_fiber_locale();

namespace {

// The last things that a thread does.
void finish_actor(Actor& actor) {
  actor.is_ending = true;
  run_tls_destructors();
  run_key_destructors(actor);
  // Robust mutexes that it still holds go to whoever comes next, with a word.
  for (std::uint32_t i = 0; i < g_used_place_count; ++i) {
    const Place& place = g_places[g_used_places[i]];
    if (place.primitive != PrimitiveId::kMutex) continue;
    const Object& m = g_world->state.object(place.id);
    if ((m.a & mutex::kRobust) != 0 && m.b == mutex::number_of(actor.id)) perform(mutex::access(place.id, mutex::kAbandon), nullptr);
  }
  perform(thread::access(actor.thread, thread::kExit), nullptr);
}

void fiber_entry() {
  init_fiber_locale();
  hold_if_asked();
  __pthread_unwind_buf_t end;
  if (__sigsetjmp(reinterpret_cast<__jmp_buf_tag*>(end.__cancel_jmp_buf), 0) == 0) {
    __pthread_register_cancel(&end);
    Actor& self = current_actor();
    self.result = self.routine(self.argument);
    __pthread_unregister_cancel(&end);
  }
  Actor& ending = current_actor();
  finish_actor(ending);
  // From here it is never chosen again.
  ending.is_over = true;
  schedule();
  __builtin_unreachable();
}

}  // namespace

void end_actor(void* result) {
  Actor& self = current_actor();
  self.result = result;
  self.is_ending = true;
  // It runs cleanup handlers and destructors on its way to where the thread began.
  static void (*real)(void*) = nullptr;
  if (real == nullptr) real = reinterpret_cast<void (*)(void*)>(find_real("pthread_exit"));
  real(result);
  __builtin_unreachable();
}

int run_main(int (*main)(int, char**, char**), int argc, char** argv, char** envp) {
  __pthread_unwind_buf_t end;
  if (__sigsetjmp(reinterpret_cast<__jmp_buf_tag*>(end.__cancel_jmp_buf), 0) == 0) {
    __pthread_register_cancel(&end);
    const int code = main(argc, argv, envp);
    __pthread_unregister_cancel(&end);
    return code;
  }
  // main is gone, the process goes on without it.
  finish_actor(current_actor());
  schedule();
  __builtin_unreachable();
}

Actor* actor_of_handle(std::uint64_t handle) {
  for (Actor* actor : g_world->actors) {
    if (actor != nullptr && !actor->is_timer && actor->fiber.fs_base == handle) return actor;
  }
  return nullptr;
}

void end_process(int code, bool runs_handlers, const void* caller) {
  Actor& self = current_actor();
  if (code != 0) {
    g_control->failure = Failure::kExitCode;
    g_control->failure_number = code;
    g_control->failure_actor = index(self.id);
  }
  perform(process::exit(code), caller);
  // Who still runs is cut short. A thread that was told to look after itself may.
  if (g_control->failure == Failure::kNone) {
    std::int64_t left = 0;
    for (const Actor* actor : g_world->actors) {
      if (actor == nullptr || actor == &self || actor->is_timer || index(actor->id) == 0) continue;
      const Object& thread = g_world->state.object(actor->thread);
      if (thread.a != thread::kFinished && thread.b != thread::kDetached) ++left;
    }
    if (left > 0) {
      g_control->failure = Failure::kThreadsLeft;
      g_control->failure_number = left;
      g_control->failure_actor = index(self.id);
    }
  }
  if (runs_handlers) {
    // Destructors and atexit() run as with one thread.
    static void (*real_exit)(int) = nullptr;
    if (real_exit == nullptr) real_exit = reinterpret_cast<void (*)(int)>(find_real("exit"));
    real_exit(code);
  }
  end_execution();
}

void fail(Failure failure, std::int64_t number, std::string_view text, const void* caller) {
  if (!is_scheduling()) {
    if (g_control->failure == Failure::kNone) {
      g_control->failure = failure;
      g_control->failure_number = number;
      g_control->failure_actor = g_control->running_actor;
    }
    end_execution();
  }
  Actor& self = current_actor();
  // It died in the middle of a call on files, by an argument of its own: what it did may be anything.
  if (self.is_in_file_step) {
    self.is_in_file_step = false;
    Footprint everything = g_file_model->take_footprint();
    finish_turn(self.done, std::move(everything), g_file_model->text_of_call());
  }
  char kept[512];
  const std::size_t length = std::min(text.size(), sizeof kept - 1);
  std::memcpy(kept, text.data(), length);
  kept[length] = 0;
  perform(process::fail(number), caller);
  g_control->failure = failure;
  g_control->failure_number = number;
  g_control->failure_actor = index(self.id);
  std::memcpy(g_control->text, kept, length + 1);
  end_execution();
}

void stop_at_race() {
  g_control->failure = Failure::kRace;
  g_control->failure_actor = index(current_actor().id);
  list_pending();
  stop(Ending::kCutShort);
}

void refuse(const char* call) {
  if (g_control == nullptr && g_refuse_elsewhere != nullptr) g_refuse_elsewhere(call);
  g_control->failure = Failure::kUnsupported;
  std::strncpy(g_control->text, call, kTextMost - 1);
  g_is_spent = true;
  end_execution();
}

void begin_world(const void* stack_top) {
  g_world = new World;
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
  g_world->director.emplace(request);
  g_control->step_count = g_control->object_count = g_control->pending_count = g_control->passed_over_count = 0;
  g_control->touch_count = g_control->text_bytes = 0;
  g_control->failure = Failure::kNone;
  g_control->hit_depth = g_control->hit_timeouts = false;
  g_may_wait_for_time = false;
  g_control->text[0] = 0;
  g_control->running_actor = 0;
  Actor* main = new_actor(ActorId{0});
  adopt_main(main->fiber);
  main->thread = own_object(PrimitiveId::kThread, ActorId{0}, thread::kStarted);
  g_world->current = main;
  main->memory.stack_top = reinterpret_cast<std::uint64_t>(stack_top);
  begin_accesses();
  set_heap_actor(0);
  g_world->is_on = true;
}

void end_world() {
  g_world = nullptr;
  end_accesses();
  for (std::uint32_t i = 0; i < g_used_place_count; ++i) g_places[g_used_places[i]].is_used = false;
  g_used_place_count = 0;
}

}  // namespace crashcut::scheduler::runtime
