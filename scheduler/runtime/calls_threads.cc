// Threads: create, join, detach, exit; keys; once. POSIX and C11.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <threads.h>
#include <unistd.h>

#include "scheduler/primitives/once.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/persistent_locks.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr int kRoundsMost = PTHREAD_DESTRUCTOR_ITERATIONS;
struct Key {
  bool is_used;
  void (*destructor)(void*);
};
// Part of the program's image: not among what the runtime remembers over executions. See key_table().
Key* key_table() {
  static Key* table = nullptr;
  // From the program's heap, in the server: every execution begins with the keys that static constructors made.
  if (table == nullptr) table = static_cast<Key*>(calloc(kKeysMost, sizeof(Key)));
  return table;
}
// Values of the one thread there is outside of executions.
void** lone_values() {
  static void** values = nullptr;
  if (values == nullptr) values = static_cast<void**>(calloc(kKeysMost, sizeof(void*)));
  return values;
}
void** values() { return is_scheduling() && current_actor().id != ActorId{0} ? current_actor().keys : lone_values(); }

// Made in the server, so that they are part of the image.
__attribute__((constructor(102))) void make_tables() {
  key_table();
  lone_values();
}

Actor* target_of(pthread_t handle) {
  return is_scheduling() ? actor_of_handle(static_cast<std::uint64_t>(handle)) : nullptr;
}

int join(pthread_t handle, void** result, thread::Verb verb, const void* caller, const timespec* until = nullptr) {
  Actor* actor = target_of(handle);
  if (actor == nullptr) return ESRCH;
  if (!is_time(until)) return EINVAL;
  if (actor == &current_actor() && (verb == thread::kJoin || verb == thread::kTimedJoin)) return EDEADLK;
  const bool waits = verb == thread::kJoin || verb == thread::kTimedJoin;
  if (waits) enter_cancellation_point(caller);
  if (verb == thread::kTimedJoin) arm_timer(caller);
  Operation operation = thread::access(actor->thread, verb);
  if (verb == thread::kTimedJoin) operation.add(take_timer());
  if (waits) leave_cancellation_point(operation);
  const std::int64_t done = timed_out_at(until, perform(operation, caller));
  end_if_cancelled();
  if (done == 0 && result != nullptr) *result = actor->result;
  return static_cast<int>(done);
}

int create(pthread_t* handle, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument,
           const void* caller) {
  if (!is_scheduling()) refuse_outside("pthread_create() outside of main(), in a static constructor or destructor");
  std::size_t stack_bytes = 0;
  int detached = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) {
    pthread_attr_getstacksize(attributes, &stack_bytes);
    pthread_attr_getdetachstate(attributes, &detached);
  }
  Actor* actor = create_actor(routine, argument, stack_bytes, caller);
  if (actor == nullptr) refuse("pthread_create() with a stack of more than 63 MB");
  *handle = static_cast<pthread_t>(actor->fiber.fs_base);
  __libc_single_threaded = 0;  // libstdc++ counts references without atomics where it is set
  if (detached == PTHREAD_CREATE_DETACHED) perform(thread::access(actor->thread, thread::kDetach), caller);
  return 0;
}

struct Stack {
  char* begin;
  std::size_t bytes;
};

// It grows down to its limit from where the kernel put the program's name. libc would ask the kernel's list of maps,
// which is a file.
Stack stack_of_main() {
  constexpr std::uint64_t kPage = 4096, kUnlimited_bytes = 8 << 20;
  const auto name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const std::uint64_t end = (reinterpret_cast<std::uint64_t>(name) + strlen(name) + kPage) & ~(kPage - 1);
  rlimit limit{};
  kernel(SYS_prlimit64, 0, RLIMIT_STACK, 0, &limit);
  const std::uint64_t bytes = limit.rlim_cur == RLIM_INFINITY ? kUnlimited_bytes : limit.rlim_cur & ~(kPage - 1);
  return {reinterpret_cast<char*>(end - bytes), bytes};
}

int call_once(int* control, void (*routine)(), const void* caller) {
  constexpr int kDoneBit = 2;
  if (!is_scheduling()) {
    if ((*control & kDoneBit) == 0) {
      routine();
      *control = kDoneBit;
    }
    return 0;
  }
  const ObjectStart start{{}, (*control & kDoneBit) != 0 ? once::kDone : once::kNotYet};
  ObjectId id = object_at(PrimitiveId::kOnce, control, start);
  // Another one in the place of one that is done.
  if ((*control & kDoneBit) == 0 && once::stage(object_of(id)) == once::kDone)
    id = object_at(PrimitiveId::kOnce, control, start, true);
  if (perform(once::access(id, once::kBegin), caller) != once::kMustRun) return 0;
  struct GiveUp {
    ObjectId id;
    const void* caller;
    bool is_armed = true;
    ~GiveUp() {
      // An exception left the routine: the next one begins anew.
      if (is_armed && is_scheduling()) perform(once::access(id, once::kGiveUp), caller);
    }
  } give_up{id, caller};
  routine();
  give_up.is_armed = false;
  *control = kDoneBit;
  perform(once::access(id, once::kEnd), caller);
  return 0;
}

}  // namespace

void run_key_destructors(Actor& actor) {
  void** own = index(actor.id) == 0 ? lone_values() : actor.keys;
  for (int round = 0; round < kRoundsMost; ++round) {
    bool any = false;
    for (std::uint32_t i = 0; i < kKeysMost; ++i) {
      const Key& key = key_table()[i];
      void* value = own[i];
      if (!key.is_used || key.destructor == nullptr || value == nullptr) continue;
      own[i] = nullptr;
      key.destructor(value);
      any = true;
    }
    if (!any) return;
  }
}

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

EXPORT_ON_OBJECT(int, pthread_create)
(pthread_t* handle, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument) {
  return create(handle, attributes, routine, argument, CALLER);
}
EXPORT(int, pthread_join)(pthread_t handle, void** result) { return join(handle, result, thread::kJoin, CALLER); }
EXPORT(int, pthread_tryjoin_np)(pthread_t handle, void** result) {
  return join(handle, result, thread::kTryJoin, CALLER);
}
EXPORT(int, pthread_timedjoin_np)(pthread_t handle, void** result, const struct timespec* until) {
  return join(handle, result, thread::kTimedJoin, CALLER, until);
}
EXPORT(int, pthread_clockjoin_np)(pthread_t handle, void** result, clockid_t, const struct timespec* until) {
  return join(handle, result, thread::kTimedJoin, CALLER, until);
}
EXPORT(int, pthread_detach)(pthread_t handle) { return join(handle, nullptr, thread::kDetach, CALLER); }
EXPORT(void, pthread_exit)(void* result) {
  if (!is_scheduling()) refuse_outside("pthread_exit() outside of main()");
  end_actor(result);
}
EXPORT(int, pthread_getattr_np)(pthread_t handle, pthread_attr_t* attributes) {
  if (!is_scheduling())
    return reinterpret_cast<int (*)(pthread_t, pthread_attr_t*)>(crashcut::inject::find_real("pthread_getattr_np"))(
        handle, attributes);
  const Actor* actor = target_of(handle);
  if (actor == nullptr) return ESRCH;
  const Stack stack =
      actor->fiber.stack_begin == nullptr ? stack_of_main() : Stack{actor->fiber.stack_begin, actor->fiber.stack_bytes};
  if (const int error = pthread_attr_init(attributes); error != 0) return error;
  return pthread_attr_setstack(attributes, stack.begin, stack.bytes);
}
EXPORT(int, pthread_once)(pthread_once_t* control, void (*routine)(void)) {
  return call_once(control, routine, CALLER);
}

EXPORT(int, pthread_key_create)(pthread_key_t* out, void (*destructor)(void*)) {
  for (std::uint32_t i = 0; i < kKeysMost; ++i) {
    if (key_table()[i].is_used) continue;
    key_table()[i] = {true, destructor};
    lone_values()[i] = nullptr;
    if (is_scheduling()) clear_key(i);
    *out = i;
    return 0;
  }
  return EAGAIN;
}
EXPORT(int, pthread_key_delete)(pthread_key_t key) {
  if (key >= kKeysMost || !key_table()[key].is_used) return EINVAL;
  key_table()[key].is_used = false;
  return 0;
}
EXPORT(int, pthread_setspecific)(pthread_key_t key, const void* value) {
  if (key >= kKeysMost || !key_table()[key].is_used) return EINVAL;
  values()[key] = const_cast<void*>(value);
  if (is_scheduling()) note_written();
  return 0;
}
EXPORT(void*, pthread_getspecific)(pthread_key_t key) { return key < kKeysMost ? values()[key] : nullptr; }

EXPORT(int, thrd_create)(thrd_t* handle, thrd_start_t routine, void* argument) {
  // The int that it returns comes back through the same register.
  const int error =
      create(handle, nullptr, reinterpret_cast<void* (*)(void*)>(reinterpret_cast<void*>(routine)), argument, CALLER);
  return error == 0 ? thrd_success : thrd_nomem;
}
EXPORT(int, thrd_join)(thrd_t handle, int* result) {
  void* value = nullptr;
  if (join(handle, &value, thread::kJoin, CALLER) != 0) return thrd_error;
  if (result != nullptr) *result = static_cast<int>(reinterpret_cast<std::intptr_t>(value));
  return thrd_success;
}
EXPORT(int, thrd_detach)(thrd_t handle) {
  return join(handle, nullptr, thread::kDetach, CALLER) == 0 ? thrd_success : thrd_error;
}
EXPORT(void, thrd_exit)(int result) {
  if (!is_scheduling()) refuse_outside("thrd_exit() outside of main()");
  end_actor(reinterpret_cast<void*>(static_cast<std::intptr_t>(result)));
}
EXPORT(void, call_once)(once_flag* flag, void (*routine)(void)) {
  crashcut::scheduler::runtime::call_once(reinterpret_cast<int*>(flag), routine, CALLER);
}
EXPORT(int, tss_create)(tss_t* key, tss_dtor_t destructor) {
  return pthread_key_create(key, destructor) == 0 ? thrd_success : thrd_error;
}
EXPORT(void, tss_delete)(tss_t key) { pthread_key_delete(key); }
EXPORT(int, tss_set)(tss_t key, void* value) {
  return pthread_setspecific(key, value) == 0 ? thrd_success : thrd_error;
}
EXPORT(void*, tss_get)(tss_t key) { return pthread_getspecific(key); }
