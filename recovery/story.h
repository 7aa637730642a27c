// Story: one recovery as a person follows it: what the program did, what of it survived, what recovery then saw.
//
// Read from the JSON lines of the runtime (Reply in protocol.h). A story has a crash for each time that the power
//   went: the first is of main(), the others of the recovery before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace crashcut::recovery {

enum class Fate { kPersisted, kPartly, kLost };

struct Event {
  std::uint32_t id = 0;
  std::string kind;
  std::string text;
  bool durable = false;  // part of the starting state
  bool persisted = false;
};

struct Operation {
  std::string text;
  std::vector<Event> events;

  // All, some or none of its events; kLost for one without events.
  Fate fate() const;
  bool is_durable() const;  // nothing of it can be lost, and something could have been
  bool is_sync() const;     // it waits for others, and changes nothing itself
};

// What recovery found in one place, and what it might have found instead.
struct Observation {
  std::string location;
  std::vector<std::string> candidates;
  std::uint32_t taken = 0;
  std::uint32_t crash = 1;  // whose cut it decided; a second recovery also reads what the first crash left
};

struct Call {
  std::string text;
  std::vector<Observation> observations;  // made in the call
};

struct Crash {
  std::vector<Operation> operations;     // of what crashed; the first is the starting state
  std::vector<Call> calls;               // of the recovery that followed
  std::vector<std::uint32_t> persisted;  // events
};

struct Story {
  std::vector<Crash> crashes;
};

// `description` is Session::describe(), `trace` is SingleRun::trace. The error is a sentence.
tl::expected<Story, std::string> read_story(std::string_view description, std::string_view trace);

}  // namespace crashcut::recovery
