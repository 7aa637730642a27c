// Pipes, eventfds and epoll instances: what a step on them does. What they are, and which steps meet, is in channels.h.
#pragma once

#include "scheduler/channels.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::channel {

inline std::int64_t apply(State& state, ActorId, const Operation& operation, const Access& access) {
  Object& o = state.object(access.object);
  switch (access.verb) {
    case kOpen:
      return do_open(o, access.argument);
    case kDuplicate: {
      // `expected` has the lowest number that will do.
      const std::int64_t handle = handle_at(o, access.argument), fd = lowest_free(o, access.expected);
      if (handle < 0 || fd < 0) return handle < 0 ? handle : fd;
      hold(o, handle);
      insert(o, fd, handle);
      return fd;
    }
    case kReplace: {
      // `expected` has the number that is replaced.
      const std::int64_t handle = handle_at(o, access.argument);
      if (handle < 0) return handle;
      hold(o, handle);
      const std::int64_t replaced = do_close(o, access.expected);
      insert(o, access.expected, handle);
      return std::max<std::int64_t>(replaced, -1) + 1;
    }
    case kClose:
      return do_close(o, access.argument);
    case kUse: {
      const std::int64_t handle = handle_at(o, access.argument);
      if (handle >= 0) hold(o, handle);
      return handle;
    }
    case kDrop:
      return drop(o, handle_of(access.expected, static_cast<End>(access.argument))), 0;
    case kPoll:
      return readiness(o, interest_in(o, access));
    case kPollSet:
      return poll_set(o, access.expected);
    case kChangeSet:
      return change_set(o, access), 0;
    case kSetFlags:
      return field(o, access.expected, kFlags) = access.argument, 0;
    case kResize:
      return access.argument < field(o, access.expected, kAmount)
                 ? -EBUSY
                 : (field(o, access.expected, kCapacity) = access.argument, access.argument);
    case kLook:
      return field(o, access.expected, static_cast<Field>(access.argument));
    default:
      break;
  }
  const std::int64_t end = access.verb == kWrite ? kWriteEnd : kReadEnd;
  // A cancelled thread has read nothing.
  if (cancellation::is_heeded(state, operation))
    return drop(o, handle_of(access.expected, static_cast<End>(end))), -ECANCELED;
  const std::int64_t result = transfer(o, access);
  if (!is_unfinished(o, access, result)) drop(o, handle_of(access.expected, static_cast<End>(end)));
  return result;
}

inline bool dependent(const Access& x, const Access& y) { return meet(x, y, false); }
inline bool conflicting(const Access& x, const Access& y) { return meet(x, y, true); }

// A reader knows of what the writer did before; a thread that sees the end of a pipe, of what the closing thread did; a
// writer that had to wait for room, of what the reader did.
inline void edges(const Access& access, const EdgeVisitor& visit) {
  const auto data_of = [](std::int64_t channel) { return static_cast<std::uint32_t>(channel * 4); };
  const auto end_of = [](std::int64_t channel, std::int64_t end) {
    return static_cast<std::uint32_t>(channel * 4 + 1 + end);
  };
  const std::int64_t own = access.expected;
  if (ends_something(access)) {
    if (const std::int64_t ended = ended_handle(access); ended >= 0)
      visit(Edge::kRelease, end_of(ended / 2, ended % 2));
    return;
  }
  if (is_poll(access)) {
    const std::uint64_t polled = channels_of(access);
    for (std::int64_t i = 0; i < kPolledMost; ++i) {
      if ((polled >> i & 1) == 0) continue;
      visit(Edge::kAcquire, data_of(i));
      for (const End end : {kReadEnd, kWriteEnd}) visit(Edge::kAcquire, end_of(i, end));
    }
    return;
  }
  if (!is_transfer(access)) return;
  if (access.verb != kAdd) visit(Edge::kAcquire, data_of(own));
  if (access.verb == kAdd ? access.result == 0 : access.verb != kTake && access.result > 0)
    visit(Edge::kRelease, data_of(own));
  if (access.verb == kWrite) visit(Edge::kAcquire, end_of(own, kReadEnd));
  if (access.verb == kRead && access.result <= 0) visit(Edge::kAcquire, end_of(own, kWriteEnd));
}

// " = EPIPE"
inline std::string failure_text(const Access& a) { return a.result == kNoResult ? "" : error_text(-a.result); }
inline std::string transfer_text(const Access& a) {
  const std::string number = std::to_string(a.expected + 1), result = std::to_string(a.result);
  switch (a.verb) {
    case kRead:
      return "read pipe " + number + (a.result == 0 ? ": its end" : a.result > 0 ? ": " + result + " bytes" : "");
    case kWrite:
      return "write " + std::to_string(a.result > 0 ? a.result : a.argument) + " bytes to pipe " + number;
    case kTake:
      return "read eventfd " + number + (a.result > 0 ? ": " + result : "");
    default:
      return "add " + std::to_string(a.argument) + " to eventfd " + number;
  }
}
inline std::string operation_text(const Narrator&, const Operation& operation) {
  const Access& a = operation[0];
  const std::string argument = std::to_string(a.argument), number = std::to_string(a.expected + 1);
  if (is_transfer(a)) return transfer_text(a) + failure_text(a);
  switch (a.verb) {
    case kOpen:
      return (a.argument & 0xff) == kPipe  ? "make a pipe"
             : (a.argument & 0xff) == kSet ? "make an epoll instance"
                                           : "make an eventfd";
    case kDuplicate:
    case kReplace:
      return "duplicate descriptor " + argument;
    case kClose:
      return "close descriptor " + argument + failure_text(a);
    case kUse:
      return "begin a call on descriptor " + argument + failure_text(a);
    case kPoll:
      return std::string("poll descriptors") + (a.result == 0 ? ": none is ready" : "");
    case kPollSet:
      return "wait for events of epoll instance " + number + (a.result == 0 ? ": there are none" : "");
    case kDrop:
      return "end a call on a descriptor";
    default:
      return std::string(kVerbs[a.verb]) + " channel " + number;
  }
}
inline std::string waiting_text(const Narrator&, const State&, ActorId, const Access& a) {
  const std::string number = std::to_string(a.expected + 1);
  switch (a.verb) {
    case kRead:
      return "waits for data in pipe " + number;
    case kWrite:
      return "waits for room in pipe " + number;
    case kTake:
      return "waits until somebody adds to eventfd " + number;
    case kAdd:
      return "waits for room in eventfd " + number;
    default:
      return "waits until a descriptor is ready";
  }
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{.name = "channel",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = conflicting,
                                      .edges = edges,
                                      .words = &kWords};

}  // namespace crashcut::scheduler::channel
