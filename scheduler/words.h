// Words: how steps on an object of a primitive are told. A primitive says its own in its own file. The names of threads
// and objects are those of a run, and come from a Narrator.
#pragma once

#include <cstring>
#include <string>

#include "scheduler/primitive.h"

namespace crashcut::scheduler {

class Narrator {
 public:
  virtual ~Narrator() = default;
  virtual std::string object_text(ObjectId object) const = 0;                      // "mutex forks+40"
  virtual std::string actor_text(ActorId actor) const = 0;                         // "thread 1"
  virtual std::string holder_text(ActorId actor) const = 0;                        // "thread 1, which is down,"
  virtual std::string thread_text(ObjectId thread) const = 0;                      // whose object it is
  virtual std::string host_text(ObjectId host) const = 0;                          // "machine 1"
  virtual std::string place_text(ObjectId memory, std::uint8_t offset) const = 0;  // "counter"
};

// Functions that are null say nothing of their own.
struct Words {
  // What the operation does, whose first access is of this primitive: "lock mutex m". Null: plain_text().
  std::string (*operation)(const Narrator&, const Operation&) = nullptr;
  // Why the actor cannot do the access in this state: "waits for mutex m, which thread 1 holds". Empty: not by it.
  std::string (*waiting)(const Narrator&, const State&, ActorId, const Access&) = nullptr;
  // What else came of an access, wherever it stands in its operation: ": it is cancelled"
  const char* (*besides)(const Access&) = nullptr;
  // The object itself. Null: the primitive's name and the place.
  std::string (*object)(const Narrator&, ObjectId) = nullptr;
  // Whether the object stands for the very thread that does the access.
  bool (*is_own)(const Access&) = nullptr;
  bool (*is_held_by)(const Object&, ActorId) = nullptr;
};

// "lock mutex m"
inline std::string plain_text(const Narrator& narrator, const Access& access) {
  return std::string(primitive_of(access).verbs[access.verb]) + " " + narrator.object_text(access.object);
}

// " = EBUSY"; empty for other results than errors.
inline std::string error_text(std::int64_t result) {
  constexpr std::int64_t kErrorsEnd = 200;
  if (result == kNoResult || result <= 0 || result >= kErrorsEnd) return "";
  const char* name = strerrorname_np(static_cast<int>(result));
  return std::string(" = ") + (name != nullptr ? name : "?");
}

}  // namespace crashcut::scheduler
