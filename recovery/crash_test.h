// CrashTest: the model driven from C++: build a filesystem, do operations, see every state that a crash can leave.
//
//   CrashTest test({.data = DataMode::kOrdered});
//   auto& p = test.process();
//   ... p.openat(AT_FDCWD, "foo", O_CREAT | O_WRONLY, 0644) ...; test.barrier(); ... p.fsync(fd) ...
//   Report report = test.explore([](AfterCrash& after) {
//     if (after.size_of("foo") == 0) after.fail("foo is empty");
//     return std::to_string(after.size_of("foo"));
//   });
//
// The observer is pure by contract: what it does depends on nothing but what it reads of `after`, and it keeps
//   nothing between two calls. It may write: that reaches no other call. A deterministic observer gives each
//   distinguishable recovery exactly once.
// Threads: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusefs/crash_view.h"
#include "fusefs/filesystem.h"
#include "fusefs/process.h"
#include "persist/explore.h"

namespace crashcut {

// What a recovery finds.
class AfterCrash {
 public:
  AfterCrash(const fusefs::Recording& recording, persist::Cut& cut, persist::Chooser& chooser);
  ~AfterCrash();

  fusefs::Process& process() { return process_; }
  fusefs::Filesystem& filesystem() { return filesystem_; }
  bool reached(std::string_view mark) { return view_.reached(mark); }

  // Shorthands. Nothing where there is no such file.
  bool exists(std::string_view path);
  std::optional<std::uint64_t> size_of(std::string_view path);
  std::optional<std::string> contents_of(std::string_view path);

  // This state must not be.
  void fail(std::string why) { failure_ = std::move(why); }
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  fusefs::CrashView view_;
  fusefs::Filesystem filesystem_;
  fusefs::Process process_;
  std::optional<std::string> failure_;
};

// Returns the outcome in words: two recoveries of equal words are one outcome.
using Observer = std::function<std::string(AfterCrash&)>;

struct Violation {
  std::string why;
  std::string outcome;
  persist::Path path;                       // replays it: CrashTest::replay()
  std::vector<persist::EventId> persisted;  // the smallest cut of this recovery
};

struct Report {
  std::map<std::string, std::uint64_t> outcomes;  // and how many recoveries gave each
  std::vector<Violation> violations;              // the one with the smallest cut first
  std::uint64_t recoveries = 0;
  bool complete = false;  // false: the budget ended first, or the observer diverged
  bool diverged = false;  // the observer was not deterministic
};

class CrashTest {
 public:
  explicit CrashTest(const fusefs::ModelOptions& options = {});
  ~CrashTest();

  fusefs::Process& process() { return process_; }
  fusefs::Filesystem& filesystem() { return filesystem_; }
  // What the next operations are called in reports.
  void begin_op(std::string text) { recorder_.begin_op(std::move(text)); }
  // Everything so far is durable and is the starting state.
  void barrier() { filesystem_.make_durable(); }
  void mark(const std::string& text) { recorder_.mark(text); }

  // The first call ends the recording. May be called again, with other observers.
  Report explore(const Observer& observer, const persist::Budget& budget = {});
  // One recovery, by the answers that a violation holds.
  Report replay(const persist::Path& path, const Observer& observer);

  const fusefs::Recording& recording() const { return recorder_.recording(); }

 private:
  void seal();
  void run_once(persist::Cut& cut, persist::ChoiceTree& tree, const Observer& observer, Report& report) const;

  fusefs::Recorder recorder_;
  fusefs::Filesystem filesystem_;
  fusefs::Process process_;
  bool sealed_ = false;
};

}  // namespace crashcut
