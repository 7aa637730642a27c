// The table of primitives, in the order of PrimitiveId.
#include <algorithm>
#include <iterator>

#include "primitives.h"  // the file of each line of table.inc: CMakeLists.txt writes it
#include "scheduler/primitive.h"

namespace crashcut::scheduler {

static constexpr const Primitive* kTable[] = {
#define PRIMITIVE(name, file) &file::kPrimitive,
#include "scheduler/primitives/table.inc"
#undef PRIMITIVE
};

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
