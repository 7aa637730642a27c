// The table of primitives, in the order of PrimitiveId.
#include <algorithm>
#include <iterator>

#include "scheduler/primitives/answer.h"
#include "scheduler/primitives/assume.h"
#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/futex.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/primitives/two_writers.h"
#include "scheduler/primitives/variable.h"

namespace crashcut::scheduler {

static constexpr const Primitive* kTable[] = {
    &process::kPrimitive,       //
    &thread::kPrimitive,        //
    &mutex::kPrimitive,         //
    &semaphore::kPrimitive,     //
    &condition::kPrimitive,     //
    &barrier::kPrimitive,       //
    &rwlock::kPrimitive,        //
    &two_writers::kPrimitive,   //
    &once::kPrimitive,          //
    &variable::kPrimitive,      //
    &timer::kPrimitive,         //
    &spin::kPrimitive,          //
    &futex::kPrimitive,         //
    &file::kPrimitive,          //
    &memory::kPrimitive,        //
    &assume::kPrimitive,        //
    &cancellation::kPrimitive,  //
    &stir::kPrimitive,          //
    &channel::kPrimitive,       //
    &signal::kPrimitive,        //
    &answer::kPrimitive,        //
    &host::kPrimitive,          //
};
static_assert(std::size(kTable) == static_cast<std::size_t>(PrimitiveId::kHost) + 1);

constinit std::array<const Primitive*, kPrimitivesMost> primitives = [] {
  std::array<const Primitive*, kPrimitivesMost> all{};
  std::copy(std::begin(kTable), std::end(kTable), all.begin());
  return all;
}();

PrimitiveId add_primitive(const Primitive& primitive) {
  const auto free = std::find(primitives.begin(), primitives.end(), nullptr);
  CHECK(free != primitives.end());
  *free = &primitive;
  return static_cast<PrimitiveId>(free - primitives.begin());
}

const char* misuse_text(std::int64_t result) {
  switch (result) {
    case kUnlockByNonOwner:
      return "unlocks a lock that another thread holds";
    case kUnlockOfUnlocked:
      return "unlocks a lock that nobody holds";
    case kDestroyWhileLocked:
      return "destroys a lock that is held";
    case kDestroyWhileWaitedFor:
      return "destroys an object that threads wait for";
    case kJoinTwice:
      return "joins a thread that was joined before";
    case kJoinOfDetached:
      return "joins a detached thread";
    case kDetachTwice:
      return "detaches a thread that was joined or detached before";
    case kWaitWithoutMutex:
      return "waits on a condition variable without holding the mutex";
    case kFreeTwice:
      return "frees memory that was freed before";
    case kFreeOfOther:
      return "frees what malloc() did not give";
    case kUseAfterFree:
      return "uses memory that was freed";
    case kUseAfterDestroy:
      return "uses an object that was destroyed";
    default:
      return "";
  }
}

}  // namespace crashcut::scheduler
