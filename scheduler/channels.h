// Channels: pipes, eventfds and epoll instances of the process, and the table of their descriptors. One object holds
// them all, since poll() looks at many at once. The runtime keeps the bytes in a pipe; here they are only counted.
//
// A call that may wait is two steps. "use" finds the channel that the descriptor names and holds it, as the kernel
//   does, so that another thread may close the descriptor meanwhile. The call proper is the second step and releases
//   the channel. "drop" only releases it.
// The ends of a pipe are open as long as a descriptor or a call holds them. An access's `expected` has the channel,
//   or those that are polled.
#pragma once

#include <algorithm>
#include <cerrno>
#include <limits>

#include "persist/hash.h"
#include "scheduler/primitive.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/signals.h"

namespace crashcut::scheduler::channel {

enum Verb : std::uint8_t {
  kOpen,
  kDuplicate,
  kReplace,
  kClose,
  kUse,
  kDrop,
  kRead,
  kWrite,
  kTake,
  kAdd,
  kPoll,
  kPollSet,
  kChangeSet,
  kSetFlags,
  kResize,
  kLook
};
inline constexpr const char* kVerbs[] = {"open",       "duplicate", "replace", "close", "use",  "drop",
                                         "read",       "write",     "take",    "add",   "poll", "poll set",
                                         "change set", "set flags", "resize",  "look"};
// What is read from a signalfd is among the signals (signals.h): here it is a descriptor and no more.
enum Kind : std::int64_t { kPipe, kCounter, kSemaphore, kSet, kSignals };
enum End : std::int64_t { kReadEnd, kWriteEnd };
// Of a set: kAmount what is wanted and kCapacity what is looked at (Interest); which of these tell once for each event,
// or once; which have told and are silent until there is another; what the last poll told.
enum Field : std::size_t {
  kKindOf,
  kAmount,
  kReaders,
  kWriters,
  kCapacity,
  kFlags,
  kEdges,
  kOnce,
  kSilent,
  kTold,
  kFields
};

inline constexpr std::int64_t kPipeBuf = 4096, kPipeBytes = 65536;
inline constexpr std::int64_t kFdFirst = 768, kFdEnd = 1024;
inline constexpr std::int64_t kPolledMost = 32;  // channels whose number is below can be polled
inline constexpr std::int64_t kNoRoom = -EMFILE;
inline constexpr std::int64_t kVeryMany = std::numeric_limits<std::int64_t>::max();
// Bits of `order`: the call does not wait, so a loop may wait by it; it looks at a set, which may hold any channel;
// where it fails for having to wait, it goes on holding what it was called on.
enum Manner : std::uint8_t { kTries = 1, kSeesAll = 2, kGoesOn = 4 };

// What is polled: of each channel below kPolledMost, whether its read end (low half) or its write end (high half) is.
struct Interest {
  std::uint64_t wanted = 0;  // data or room end the wait
  std::uint64_t looked = 0;  // so does the end of the other side: all that are polled
};
inline constexpr std::uint64_t bit_of(std::int64_t channel, End end) {
  return std::uint64_t{1} << (channel + (end == kWriteEnd ? kPolledMost : 0));
}

// What a channel's access looks at and changes: a bit a channel, those of higher numbers sharing them.
inline std::uint64_t mask_of(std::int64_t channel) { return std::uint64_t{1} << channel % kPolledMost; }

inline Access on(ObjectId channels, Verb verb, std::int64_t channel, std::int64_t argument = 0) {
  Access a{channels, verb, argument};
  a.expected = channel;
  return a;
}
inline Access poll(ObjectId channels, const Interest& interest) {
  Access a{channels, kPoll, static_cast<std::int64_t>(interest.wanted)};
  a.expected = static_cast<std::int64_t>(interest.looked);
  return a;
}
// Of both ends: the handle that "use" finds, from 0.
inline constexpr std::int64_t handle_of(std::int64_t channel, End end) { return channel * 2 + end; }
// Arguments of "open": the kind, flags of both ends, what it begins with. And of "read", "write", "take", "add",
// "drop": the end.
enum OpenFlag : std::int64_t { kNonblocking = 1 };
inline Access open(ObjectId channels, Kind kind, std::int64_t flags, std::int64_t amount = 0) {
  return {channels, kOpen, kind | flags << 8 | amount << 16};
}

// --- what is kept of them
// How many were opened.
inline auto& opened(auto& o) { return o.numbers[0]; }
// kFields numbers each.
inline auto& channels(auto& o) { return o.lists[0]; }
// Packed, ascending.
inline auto& descriptors(auto& o) { return o.lists[1]; }

// --- descriptors: number, handle
inline std::int64_t pack(std::int64_t fd, std::int64_t handle) { return fd << 32 | handle; }
inline std::int64_t fd_in(std::int64_t entry) { return entry >> 32; }
inline std::int64_t handle_in(std::int64_t entry) { return entry & 0xffffffff; }
inline std::int64_t handle_at(const Object& o, std::int64_t fd) {
  const auto it = std::lower_bound(descriptors(o).begin(), descriptors(o).end(), pack(fd, 0));
  return it != descriptors(o).end() && fd_in(*it) == fd ? handle_in(*it) : -EBADF;
}
inline std::int64_t lowest_free(const Object& o, std::int64_t from) {
  std::int64_t fd = std::max(from, kFdFirst);
  while (fd < kFdEnd && handle_at(o, fd) >= 0) ++fd;
  return fd < kFdEnd ? fd : kNoRoom;
}
inline void insert(Object& o, std::int64_t fd, std::int64_t handle) {
  descriptors(o).insert(std::lower_bound(descriptors(o).begin(), descriptors(o).end(), pack(fd, 0)), pack(fd, handle));
}

// --- channels
// A part of an execution may have calls on a channel without what made it: there it is empty.
inline std::int64_t& field(Object& o, std::int64_t channel, Field f) {
  const std::size_t at = static_cast<std::size_t>(channel) * kFields;
  if (channels(o).size() < at + kFields) channels(o).resize(at + kFields);
  return channels(o)[at + f];
}
inline std::int64_t field(const Object& o, std::int64_t channel, Field f) {
  const std::size_t at = static_cast<std::size_t>(channel) * kFields + f;
  return at < channels(o).size() ? channels(o)[at] : 0;
}
inline Field holders(std::int64_t end) { return end == kReadEnd ? kReaders : kWriters; }
inline void hold(Object& o, std::int64_t handle) { ++field(o, handle / 2, holders(handle % 2)); }
inline void let_go(Object& o, std::int64_t handle) { --field(o, handle / 2, holders(handle % 2)); }
inline bool is_nonblocking(const Object& o, std::int64_t handle) {
  return (field(o, handle / 2, kFlags) & (kNonblocking << handle % 2)) != 0;
}
inline std::int64_t room_in(const Object& o, std::int64_t channel) {
  return field(o, channel, kCapacity) - field(o, channel, kAmount);
}

// A counter's value is at most two below the largest of 64 bits.
inline bool fits(std::int64_t counter, std::int64_t added) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() - 1;
  return static_cast<std::uint64_t>(added) <= kMost - static_cast<std::uint64_t>(counter);
}

inline std::int64_t readiness(const Object& o, const Interest& interest);
// Of a set (epoll): an eventfd's two ends are one descriptor, so both halves name it.
inline Interest interest_of(const Object& o, std::int64_t set) {
  const auto heard = static_cast<std::uint64_t>(~field(o, set, kSilent));
  return {static_cast<std::uint64_t>(field(o, set, kAmount)) & heard,
          static_cast<std::uint64_t>(field(o, set, kCapacity)) & heard};
}

// poll()'s events of one end: data, room, the other side's end.
inline constexpr std::int64_t kIn = 1, kOut = 2, kHangUp = 4, kError = 8;
inline std::int64_t events_of(const Object& o, std::int64_t channel, End end) {
  const std::int64_t amount = field(o, channel, kAmount), kind = field(o, channel, kKindOf);
  // Nobody holds what is polled any more: a set forgets it.
  if (field(o, channel, kind == kPipe ? holders(end) : kReaders) == 0) return 0;
  switch (kind) {
    case kPipe:
      if (end == kReadEnd) return (amount > 0 ? kIn : 0) | (field(o, channel, kWriters) == 0 ? kHangUp : 0);
      return (room_in(o, channel) >= kPipeBuf ? kOut : 0) | (field(o, channel, kReaders) == 0 ? kError : 0);
    case kSignals:
      return 0;
    case kSet:
      return end == kReadEnd && readiness(o, interest_of(o, channel)) != 0 ? kIn : 0;
    default:
      return end == kReadEnd ? (amount != 0 ? kIn : 0) : (fits(amount, 1) ? kOut : 0);
  }
}
inline std::int64_t events_in(const Object& o, const Interest& interest, std::int64_t channel, End end) {
  const std::uint64_t bit = bit_of(channel, end);
  if ((interest.looked & bit) == 0) return 0;
  return events_of(o, channel, end) & ((interest.wanted & bit) != 0 ? ~std::int64_t{0} : kHangUp | kError);
}
// All that a polling thread learns: 0 if nothing is ready, else a number that tells what is.
inline std::int64_t readiness(const Object& o, const Interest& interest) {
  std::uint64_t hash = 0;
  for (std::int64_t channel = 0; channel < kPolledMost; ++channel) {
    for (const End end : {kReadEnd, kWriteEnd}) {
      const std::int64_t events = events_in(o, interest, channel, end);
      if (events != 0) hash = persist::mix(hash, static_cast<std::uint64_t>(events | handle_of(channel, end) << 8));
    }
  }
  return hash == 0 ? 0 : static_cast<std::int64_t>(hash >> 2 | 1);
}
inline Interest interest_in(const Object& o, const Access& a) {
  return a.verb == kPollSet ? interest_of(o, a.expected)
                            : Interest{static_cast<std::uint64_t>(a.argument), static_cast<std::uint64_t>(a.expected)};
}

inline bool can_write(const Object& o, std::int64_t channel, std::int64_t bytes) {
  return field(o, channel, kReaders) == 0 ||
         (bytes <= kPipeBuf ? room_in(o, channel) >= bytes : room_in(o, channel) > 0);
}

inline bool enabled(const State& state, ActorId, const Operation& operation, const Access& access) {
  if (access.verb < kRead || access.verb > kPollSet) return true;
  const Object& o = state.object(access.object);
  if (timer::is_fired(state, operation) || cancellation::is_heeded(state, operation)) return true;
  if ((access.order & kTries) != 0) return true;
  if (access.verb == kPoll || access.verb == kPollSet)
    return readiness(o, interest_in(o, access)) != 0 || signal::is_readable(state, operation);
  const std::int64_t amount = field(o, access.expected, kAmount);
  switch (access.verb) {
    case kRead:
      return is_nonblocking(o, handle_of(access.expected, kReadEnd)) || amount > 0 ||
             field(o, access.expected, kWriters) == 0;
    case kWrite:
      return is_nonblocking(o, handle_of(access.expected, kWriteEnd)) || can_write(o, access.expected, access.argument);
    case kTake:
      return is_nonblocking(o, handle_of(access.expected, kReadEnd)) || amount != 0;
    default:
      return is_nonblocking(o, handle_of(access.expected, kReadEnd)) || fits(amount, access.argument);
  }
}

// Something has happened there: sets that tell of each event once tell again.
inline void announce(Object& o, std::int64_t channel, End end) {
  if (channel >= kPolledMost) return;
  for (std::int64_t set = 0; set < opened(o); ++set) {
    if (field(o, set, kKindOf) == kSet)
      field(o, set, kSilent) &= ~(static_cast<std::int64_t>(bit_of(channel, end)) & field(o, set, kEdges));
  }
}
inline void drop(Object& o, std::int64_t handle) {
  let_go(o, handle);
  if (field(o, handle / 2, holders(handle % 2)) == 0)
    announce(o, handle / 2, handle % 2 == kReadEnd ? kWriteEnd : kReadEnd);
}

inline std::int64_t poll_set(Object& o, std::int64_t set) {
  const Interest interest = interest_of(o, set);
  std::uint64_t told = 0;
  for (std::int64_t channel = 0; channel < kPolledMost; ++channel) {
    for (const End end : {kReadEnd, kWriteEnd})
      told |= events_in(o, interest, channel, end) != 0 ? bit_of(channel, end) : 0;
  }
  const std::int64_t result = readiness(o, interest);
  field(o, set, kTold) = static_cast<std::int64_t>(told);
  field(o, set, kSilent) |= static_cast<std::int64_t>(told) & (field(o, set, kEdges) | field(o, set, kOnce));
  return result;
}

inline std::int64_t do_open(Object& o, std::int64_t argument) {
  const std::int64_t kind = argument & 0xff;
  const std::int64_t first = lowest_free(o, 0);
  const std::int64_t second = kind == kPipe && first >= 0 ? lowest_free(o, first + 1) : 0;
  if (first < 0 || second < 0) return kNoRoom;
  const std::int64_t channel = opened(o)++;
  field(o, channel, kKindOf) = kind;
  field(o, channel, kAmount) = argument >> 16;
  field(o, channel, kCapacity) = kind == kPipe ? kPipeBytes : 0;
  field(o, channel, kFlags) = argument >> 8 & 0xff;
  // An eventfd is read and written by one descriptor: the read end's, and it holds both.
  field(o, channel, kReaders) = field(o, channel, kWriters) = 1;
  insert(o, first, handle_of(channel, kReadEnd));
  if (kind == kPipe) insert(o, second, handle_of(channel, kWriteEnd));
  return first | second << 16 | channel << 32;
}

inline std::int64_t do_read(Object& o, std::int64_t channel, std::int64_t most) {
  std::int64_t& amount = field(o, channel, kAmount);
  if (amount == 0) return field(o, channel, kWriters) == 0 ? 0 : -EAGAIN;
  const std::int64_t taken = std::min(amount, most);
  amount -= taken;
  announce(o, channel, kWriteEnd);
  return taken;
}
inline std::int64_t do_write(Object& o, std::int64_t channel, std::int64_t bytes) {
  if (field(o, channel, kReaders) == 0) return -EPIPE;
  if (!can_write(o, channel, bytes)) return -EAGAIN;
  const std::int64_t taken = std::min(bytes, room_in(o, channel));
  field(o, channel, kAmount) += taken;
  announce(o, channel, kReadEnd);
  return taken;
}
inline std::int64_t do_take(Object& o, std::int64_t channel) {
  std::int64_t& count = field(o, channel, kAmount);
  if (count == 0) return -EAGAIN;
  const std::int64_t taken = field(o, channel, kKindOf) == kSemaphore ? 1 : count;
  count -= taken;
  announce(o, channel, kWriteEnd);
  if (taken > 0) return taken;
  // More than a result can tell.
  field(o, channel, kCapacity) = taken;
  return kVeryMany;
}
inline std::int64_t do_add(Object& o, std::int64_t channel, std::int64_t value) {
  if (!fits(field(o, channel, kAmount), value)) return -EAGAIN;
  field(o, channel, kAmount) = static_cast<std::int64_t>(static_cast<std::uint64_t>(field(o, channel, kAmount)) +
                                                         static_cast<std::uint64_t>(value));
  announce(o, channel, kReadEnd);
  return 0;
}

inline std::int64_t do_close(Object& o, std::int64_t fd) {
  const std::int64_t handle = handle_at(o, fd);
  if (handle < 0) return handle;
  drop(o, handle);
  std::erase(descriptors(o), pack(fd, handle));
  return handle;
}

// epoll_ctl(): the argument has the handle, what is wanted of it (kOut and kIn), and how it is told.
inline constexpr std::int64_t kMember = 1, kEdgeTriggered = 8, kOneShot = 16;
inline std::int64_t membership(std::int64_t handle, std::int64_t wanted, std::int64_t how) {
  return handle << 8 | wanted << 1 | how;
}
inline void change_set(Object& o, const Access& a) {
  const std::int64_t handle = a.argument >> 8, channel = handle / 2, wanted = a.argument >> 1 & 3;
  const bool is_pipe = field(o, channel, kKindOf) == kPipe, is_member = (a.argument & kMember) != 0;
  for (const End end : {kReadEnd, kWriteEnd}) {
    if (is_pipe && handle % 2 != end) continue;
    const auto bit = static_cast<std::int64_t>(bit_of(channel, end));
    const bool is_wanted = is_member && (wanted & (end == kReadEnd ? kIn : kOut)) != 0;
    field(o, a.expected, kAmount) = (field(o, a.expected, kAmount) & ~bit) | (is_wanted ? bit : 0);
    field(o, a.expected, kCapacity) = (field(o, a.expected, kCapacity) & ~bit) | (is_member ? bit : 0);
    field(o, a.expected, kEdges) =
        (field(o, a.expected, kEdges) & ~bit) | ((a.argument & kEdgeTriggered) != 0 ? bit : 0);
    field(o, a.expected, kOnce) = (field(o, a.expected, kOnce) & ~bit) | ((a.argument & kOneShot) != 0 ? bit : 0);
    field(o, a.expected, kSilent) &= ~bit;
  }
}

// A large write that waits for more room goes on holding the pipe, and so does a thread that only tried meanwhile.
inline bool is_unfinished(const Object& o, const Access& a, std::int64_t result) {
  if ((a.order & kGoesOn) != 0 && result == -EAGAIN) return true;
  return a.verb == kWrite && result >= 0 && result < a.argument && !is_nonblocking(o, handle_of(a.expected, kWriteEnd));
}

inline std::int64_t transfer(Object& o, const Access& access) {
  switch (access.verb) {
    case kRead:
      return do_read(o, access.expected, access.argument);
    case kWrite:
      return do_write(o, access.expected, access.argument);
    case kTake:
      return do_take(o, access.expected);
    default:
      return do_add(o, access.expected, access.argument);
  }
}

// --- what commutes
inline bool is_transfer(const Access& a) { return a.verb >= kRead && a.verb <= kAdd; }
inline bool is_poll(const Access& a) { return a.verb == kPoll || a.verb == kPollSet; }
inline bool is_of_table(const Access& a) { return a.verb <= kUse; }
inline bool gives_number(const Access& a) { return a.verb == kOpen || a.verb == kDuplicate; }
inline bool ends_something(const Access& a) { return a.verb == kReplace || a.verb == kClose || a.verb == kDrop; }
// What it lets go of; below 0: nothing.
inline std::int64_t ended_handle(const Access& a) {
  if (a.verb == kDrop) return handle_of(a.expected, static_cast<End>(a.argument));
  return a.verb == kReplace ? a.result - 1 : a.result;
}
inline bool changes_number(const Access& a, std::int64_t fd) {
  switch (a.verb) {
    case kOpen:
      return a.result >= 0 && ((a.result & 0xffff) == fd || (a.result >> 16 & 0xffff) == fd);
    case kDuplicate:
      return a.result == fd;
    case kReplace:
      return a.expected == fd;
    default:
      return a.verb == kClose && a.argument == fd;
  }
}
// The descriptor that it begins with; for those that look at the table.
inline bool looks_at_number(const Access& a, std::int64_t fd) { return a.verb != kOpen && a.argument == fd; }
inline std::int64_t own_number(const Access& a) { return a.verb == kReplace ? a.expected : a.argument; }

inline std::uint64_t channels_of(const Access& a) {
  if (a.verb == kPollSet || (a.order & kSeesAll) != 0) return ~std::uint64_t{0};
  const auto polled = static_cast<std::uint64_t>(a.expected);
  return a.verb == kPoll ? (polled & 0xffffffff) | polled >> 32 : mask_of(a.expected);
}

// `any_state`: whether in some state, not only where they were done.
inline bool tables_meet(const Access& x, const Access& y, bool any_state) {
  // Who holds one more changes nothing that another sees.
  if (x.verb == kUse && y.verb == kUse) return false;
  // Numbers are given lowest first.
  if (gives_number(x) && (any_state || y.verb != kUse)) return true;
  if (gives_number(y) && (any_state || x.verb != kUse)) return true;
  if (x.verb == kUse) return changes_number(y, x.argument);
  if (y.verb == kUse) return changes_number(x, y.argument);
  return own_number(x) == own_number(y) || looks_at_number(x, own_number(y)) || looks_at_number(y, own_number(x));
}

// An end is given up. A thread that finds data, or counts, does not look whether the ends are open; one that only holds
// an end has it open.
inline bool ending_meets(const Access& ending, const Access& y, bool any_state) {
  if (ends_something(y) || is_of_table(y)) return false;
  const std::int64_t handle = ended_handle(ending);
  if (!any_state && handle < 0) return false;
  if (is_poll(y)) return any_state || (channels_of(y) & mask_of(handle / 2)) != 0;
  const bool looks = y.verb == kRead || y.verb == kWrite;
  if (!looks || any_state) return looks;
  if (y.expected != handle / 2) return false;
  return y.verb == kRead ? handle % 2 == kWriteEnd && y.result <= 0 : handle % 2 == kReadEnd;
}

inline bool transfers_meet(const Access& x, const Access& y, bool any_state) {
  const auto failed_alike = [&] { return x.result == y.result && x.result <= 0; };
  if (x.verb != y.verb || any_state) return true;
  // Two that changed nothing, for the same reason. Two that added add up; two that both took could both take, in either
  // order.
  return !failed_alike() && !(x.verb == kTake && x.result > 0 && y.result > 0);
}

inline bool meet(const Access& x, const Access& y, bool any_state) {
  if (is_of_table(x) && is_of_table(y) && tables_meet(x, y, any_state)) return true;
  if (ends_something(x) && ending_meets(x, y, any_state)) return true;
  if (ends_something(y) && ending_meets(y, x, any_state)) return true;
  // Who polls may poll what is made now.
  const auto makes = [&](const Access& open, const Access& poll) {
    if (open.verb != kOpen || !is_poll(poll)) return false;
    return any_state || (open.result >= 0 && (channels_of(poll) & mask_of(open.result >> 32)) != 0);
  };
  if (makes(x, y) || makes(y, x)) return true;
  // What only makes, finds or ends descriptors does not look into channels.
  if (is_of_table(x) || is_of_table(y) || x.verb == kDrop || y.verb == kDrop) return false;
  if ((channels_of(x) & channels_of(y)) == 0) return false;
  const auto is = [&](Verb verb) { return x.verb == verb || y.verb == verb; };
  if (is(kChangeSet))
    return x.verb == y.verb ? x.expected == y.expected
                            : (is(kPollSet) && x.expected == y.expected) || ((x.order | y.order) & kSeesAll) != 0;
  // A set that told something may be silent then.
  const auto only_looks = [&](const Access& a) {
    return a.verb == kPoll || a.verb == kLook || (a.verb == kPollSet && !any_state && a.result == 0);
  };
  if (only_looks(x) && only_looks(y)) return false;
  // Whether a call waits does not matter to a thread that polls.
  if (is(kSetFlags) && (is_poll(x) || is_poll(y))) return false;
  if (is(kPollSet) && (x.verb == kLook || y.verb == kLook)) return false;
  if (is_transfer(x) && is_transfer(y)) return transfers_meet(x, y, any_state);
  return true;
}

}  // namespace crashcut::scheduler::channel
