// Operation: what an actor is about to do, or has done, that others can notice.
//
// An operation is a few accesses, each to one object by one verb: waiting on a condition variable is "enqueue"
//   on the condition and "unlock" on the mutex, in one step. It reads and changes these objects and nothing else, so
//   operations without a common object commute. Which operations on a common object commute, the primitives say
//   (primitive.h).
// Ids are dense and name the same actor, the same object, in every execution of one search.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "persist/check.h"
#include "scheduler/footprint.h"

namespace crashcut::scheduler {

enum class ActorId : std::uint32_t {};
inline constexpr std::uint32_t index(ActorId id) { return static_cast<std::uint32_t>(id); }

enum class PrimitiveId : std::uint8_t {
#define PRIMITIVE(name, file) name,
#include "scheduler/primitives/table.inc"
#undef PRIMITIVE
};

// The primitive is part of the id: a semaphore at the address of a former mutex is another object.
enum class ObjectId : std::uint32_t {};
inline constexpr std::uint32_t kObjectIndexBits = 24;
inline constexpr ObjectId make_object_id(PrimitiveId primitive, std::uint32_t number) {
  return static_cast<ObjectId>(static_cast<std::uint32_t>(primitive) << kObjectIndexBits | number);
}
inline constexpr PrimitiveId primitive_of(ObjectId id) {
  return static_cast<PrimitiveId>(static_cast<std::uint32_t>(id) >> kObjectIndexBits);
}
inline constexpr std::uint32_t index(ObjectId id) {
  return static_cast<std::uint32_t>(id) & ((1u << kObjectIndexBits) - 1);
}

inline constexpr ObjectId kNoHost{};

inline constexpr std::int64_t kNoResult = INT64_MIN;     // not executed yet
inline constexpr std::int64_t kNotDone = INT64_MAX - 1;  // a signal came instead

struct Access {
  ObjectId object;
  std::uint8_t verb;
  std::int64_t argument = 0;
  std::int64_t result = kNoResult;
  std::int64_t observed = 0;  // of the program's own memory, when it was executed
  // Of memory only (primitives/memory.h).
  std::int64_t expected = 0;
  std::uint8_t offset = 0, bytes = 0, order = 0;
  bool is_observed = false;
  bool is_interruption = false;  // of signals only: the operation was not done
  // The number, index(), of the host (primitives/host.h) whose failure would have changed the result; 0: no host's;
  // kAnyHost: that of one of several. Set when the access is executed.
  std::uint16_t seen_host = 0;
  static constexpr std::uint16_t kAnyHost = 0xffff;
  bool operator==(const Access&) const = default;
};
static_assert(sizeof(Access) == 48);

class Operation {
 public:
  static constexpr std::size_t kOwnMost = 4;
  static constexpr std::size_t kAccessesMost = kOwnMost + 1;  // one more for signals, which may interrupt any

  Operation() { accesses_[0] = Access{}; }
  Operation(const Access& first) { add(first); }
  // Most have one or two accesses, and each step is copied a dozen times: only what is there is copied.
  Operation(const Operation& other) { *this = other; }
  Operation& operator=(const Operation& other) {
    count_ = other.count_;
    is_opaque_ = other.is_opaque_;
    incarnation_ = other.incarnation_;
    failure_points_ = other.failure_points_;
    covered_failures_ = other.covered_failures_;
    host_ = other.host_;
    footprint_ = other.footprint_;
    accesses_[0] = other.accesses_[0];
    for (std::size_t i = 1; i < count_; ++i) accesses_[i] = other.accesses_[i];
    return *this;
  }
  Operation& add(const Access& access) {
    CHECK(count_ < kAccessesMost);
    accesses_[count_++] = access;
    return *this;
  }
  const Access* begin() const { return accesses_.data(); }
  const Access* end() const { return accesses_.data() + count_; }
  Access* begin() { return accesses_.data(); }
  Access* end() { return accesses_.data() + count_; }
  std::size_t size() const { return count_; }
  const Access& operator[](std::size_t i) const { return accesses_[i]; }
  // What the caller of the operation gets: the first access's result.
  std::int64_t result() const { return count_ == 0 ? 0 : accesses_[0].result; }
  // A signal came before the actor could do this; nothing was done (primitives/signal.h).
  bool is_interrupted() const { return count_ > 0 && accesses_[count_ - 1].is_interruption; }
  void set_interrupted(std::int64_t signal) {
    for (Access& access : *this) access.result = kNotDone;
    accesses_[count_ - 1].result = signal;
    accesses_[count_ - 1].is_interruption = true;
  }
  // After it the actor reads memory that crashcut does not see and that others write: it commutes with nothing.
  bool is_opaque() const { return is_opaque_; }
  void set_opaque() { is_opaque_ = true; }
  // What a call on files (primitives/file.h) touched. Null until it is done: then it may touch anything.
  const Footprint* footprint() const { return footprint_; }
  void set_footprint(const Footprint* footprint) { footprint_ = footprint; }
  // The host that the actor runs on, and how often that host had been restarted when the actor began.
  ObjectId host() const { return host_; }
  std::uint16_t incarnation() const { return incarnation_; }
  void set_host(ObjectId host, std::uint16_t incarnation = 0) {
    host_ = host;
    incarnation_ = incarnation;
  }
  // The hosts, a bit each, whose failure just before this step may make a difference: it takes something away from what
  // the failure could leave, or tells of it. Of a failure: its own host. Only for ReductionName::kOne.
  std::uint16_t failure_points() const { return failure_points_; }
  void set_failure_points(std::uint16_t hosts) { failure_points_ = hosts; }
  // The hosts, a bit each, of which an earlier failure left all that one just before this step could leave.
  std::uint16_t covered_failures() const { return covered_failures_; }
  void set_covered_failures(std::uint16_t hosts) { covered_failures_ = hosts; }
  // The same call, whatever came of it.
  bool is_same_call(const Operation& other) const;

 private:
  std::uint8_t count_ = 0;
  bool is_opaque_ = false;
  std::uint16_t incarnation_ = 0;
  std::uint16_t failure_points_ = 0, covered_failures_ = 0;
  ObjectId host_ = kNoHost;
  const Footprint* footprint_ = nullptr;
  union {
    std::array<Access, kAccessesMost> accesses_;  // the first, and all up to count_, are there
  };
};

// One operation executed by one actor.
struct Step {
  ActorId actor;
  Operation operation;
};

// How an object begins: the first numbers of what is kept of it (Object, state.h).
struct ObjectStart {
  ObjectId object;
  std::array<std::int64_t, 3> numbers{};
};

// "mutex 3 lock"
std::string to_text(const Operation& operation);

}  // namespace crashcut::scheduler
