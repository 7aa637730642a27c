// Files: what the scheduler asks of the model of files, whose calls are operations (recovery/inprocess/).
//
// A call is one step or several: in the middle of a call that goes block by block the model calls go_on_later(), and
//   other threads may run. What a step read and changed is known when it is done, so it is recorded then (finish_step
//   in files.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "inject/call.h"
#include "scheduler/footprint.h"
#include "scheduler/operation.h"

namespace crashcut::scheduler::runtime {

struct FileCall : inject::Call {
  static constexpr int kLocksMost = 2;
  std::uint64_t locks[kLocksMost] = {};  // that it needs, by their keys; 0: none
};

struct FileModel {
  static constexpr long kNotOurs = INT64_MIN;         // the kernel does the call, as `a` has it
  static constexpr long kWouldBlock = INT64_MIN + 1;  // nothing was done: another thread holds the lock blocked_by()

  bool (*is_ours)(FileCall& call);                 // fills in the locks
  bool (*is_assumption)(const FileCall& call);     // an assumption that does not hold: the thread waits for ever
  std::uint64_t (*name_of)(const FileCall& call);  // tells calls of a thread apart, in all executions
  long (*execute)(FileCall& call);
  std::uint64_t (*observed_by)(const FileCall& call, long result);  // what its caller could learn from it
  std::uint64_t (*blocked_by)();                                    // the key of the lock
  // What was touched since the last time.
  Footprint (*take_footprint)();
  std::string_view (*text_of_call)();  // the call in words; empty if texts are not wanted
  void (*begin)(bool has_texts);       // an execution begins; end(): it ends
  void (*end)();
  std::string_view (*directory)();  // that the program is in; until the next call
};

extern const FileModel kFileModel;

// Does a system call of the program when the thread's turn has come. False if the kernel is to do the call, with the
// arguments as they are then.
bool do_file_call(inject::Call& call);
// In the middle of a call: other threads may run now.
void go_on_later();
// The running actor; 0 outside of executions. And a number that no other call of this actor gets.
std::uint32_t running_actor();
std::uint64_t next_ordinal();
// Descriptors of a thread have a range of their own: their numbers do not depend on which thread opens first. POSIX
// would give the lowest. Where the actor's range begins, and which range a number is in.
int first_fd_of(std::uint32_t actor);
std::uint64_t range_of_fd(int fd);
// Whether the steps alone decide the order of calls, and only one execution of each class is run. Not so if threads
// communicate by memory that crashcut does not see: they may rely on an order that is not known.
bool may_loosen();
// The steps of the execution so far; the one under way is not among them.
std::span<const Step> steps_so_far();

}  // namespace crashcut::scheduler::runtime
