// Recording: what a model hands upwards after a program ran: the log, and how to tell it in words.
//
// A model (ext4, memory, a drive) turns what a program does into events and derives its recording from this class.
//   Searching, minimising, stories and reports know recordings by this class alone.
// ModelSpec: which model it was, under which options. Only the model itself understands the settings; all others keep,
//   compare and print them.
// Threads: written by one recorder; read-only once the log is sealed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "persist/choices.h"
#include "persist/log.h"
#include "persist/operation_texts.h"

namespace crashcut::persist {

struct ModelSpec {
  using Setting = std::variant<bool, std::uint64_t, std::string>;

  std::string text;                                       // for people: "ext4 data=ordered sector=512 block=4096"
  std::vector<std::pair<std::string, Setting>> settings;  // all of them, in the model's own order

  bool operator==(const ModelSpec&) const = default;
};

// A mark that the program made: "saved", or its end.
struct Mark {
  std::string text;
  EventId event;
};

// Names of locations and values that are the same in every execution of a program, whatever the order of its calls.
class StableNames {
 public:
  virtual ~StableNames() = default;
  virtual std::uint64_t location(LocationId location) const = 0;
  // The name of the list that this location is part of (a directory's entries); 0 if there is no such list.
  virtual std::uint64_t listing(LocationId location) const = 0;
  virtual std::uint64_t value(LocationId location, Value value) const = 0;
};

class Recording {
  struct Own {
    Log log;
    OperationTexts ops;
  };
  std::unique_ptr<Own> own_;

 public:
  // The recording whose log and operations another recording uses too.
  struct Shared {
    Recording& whole;
  };

  Recording() : own_(std::make_unique<Own>()), log(own_->log), ops(own_->ops) {}
  explicit Recording(Shared shared) : log(shared.whole.log), ops(shared.whole.ops) {}
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Two models whose events one crash decides share one log: a file and persistent memory. Each knows its own events
  // and locations alone.
  Log& log;
  OperationTexts& ops;  // the operations in order; Log::op() points here

  // The same, with the texts that are made only when somebody asks for them.
  virtual std::vector<std::string> operations() const { return {ops.begin(), ops.end()}; }

  virtual ModelSpec model() const = 0;

  // What kind of event it is, in a word: "data", "fsync". Empty for an event that stands for a moment and leaves no
  // trace on the medium.
  virtual std::string_view kind_of(EventId event) const = 0;
  // Whether the event waits for other events and changes nothing itself: an fsync, a fence, a mark.
  virtual bool is_sync(EventId event) const = 0;
  // One event in words: "size of foo: 4".
  virtual std::string describe_event(EventId event) const = 0;
  virtual std::string describe_location(LocationId location) const = 0;
  virtual std::string describe_candidate(LocationId location, const Candidate& candidate) const = 0;

  // In the order in which the program made them.
  virtual std::vector<Mark> marks() const = 0;
  virtual bool is_mark(LocationId location) const = 0;

  // Null if recordings of this kind cannot be compared by locations and values alone.
  virtual std::unique_ptr<StableNames> stable_names() const = 0;
};

}  // namespace crashcut::persist
