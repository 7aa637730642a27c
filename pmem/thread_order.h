// ThreadOrder: which stores of several threads come before which, whatever the schedule was in between.
//
// That is: a thread's own order, and "a thread reads what another one stored", through ordinary memory and calls that
//   synchronise too. The recorder notes these meetings (Recorder::notes_meetings), and the order is found from them.
// Times are numbers of operations (Log::op()), which are given when an instruction is executed. So a store that still
//   waited in a buffer when its thread read something is before that reading, not after.
// Two stores to one word without a reader between them order nothing. Take all that comes before some stores by this
//   order: the schedule that was run is one of the program, too, if the rest is left out of it. So where no store of it
//   was lost, a crash of that schedule explains what was found.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "persist/log.h"
#include "pmem/types.h"

namespace crashcut::pmem {

// Operations of thread `to` from `to_op` on come after those of thread `from` up to `from_op`.
struct Meeting {
  ThreadId from = 0, to = 0;
  std::uint32_t from_op = 0, to_op = 0;
  persist::EventId store = persist::kNoEvent;  // the store to persistent memory that was read; kNoEvent: something else
  PlaceId place = 0;                           // of the load
  // `store` is one of several of operation from_op. It comes before to_op, the others need not.
  bool is_piece = false;
};

class ThreadOrder {
 public:
  ThreadOrder() = default;
  explicit ThreadOrder(std::span<const Meeting> meetings);

  bool is_before(ThreadId thread, std::uint32_t op, ThreadId later_thread, std::uint32_t later_op) const;
  // Of a wide store a piece that another thread has read, and whether it alone comes before an operation. (May miss an
  // order: by a call that synchronises, if no operation lies between the reading and the call.)
  bool is_read_piece(persist::EventId store) const { return piece_readings_.contains(store); }
  bool is_piece_before(persist::EventId store, ThreadId later_thread, std::uint32_t later_op) const;

 private:
  // What operations of a thread come after, from `begin` on: by thread, one past the last operation.
  struct Version {
    std::uint32_t begin;
    std::vector<std::uint32_t> clock;
  };
  struct Reading {
    ThreadId thread;
    std::uint32_t op;  // of the thread, from which on it comes after the piece
  };
  const std::vector<std::uint32_t>* clock_at(ThreadId thread, std::uint32_t op) const;

  std::unordered_map<persist::EventId, std::vector<Reading>> piece_readings_;
  std::vector<std::vector<Version>> versions_;  // by thread, in the order of `begin`
};

}  // namespace crashcut::pmem
