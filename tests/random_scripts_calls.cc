// Calls on files, channels and signals.
#include <cerrno>

#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/variable.h"
#include "tests/random_scripts.h"

namespace crashcut::tests {

using namespace scheduler;

void RandomScripts::add_file_call(Script& script) {
  const auto what = static_cast<ScriptFiles::Call>(pick(5));
  const std::uint32_t number = pick(2);
  const std::int64_t value = 1 + pick(2);
  Operation call = file_call(what, number, value);
  const std::uint32_t locks = pick(6);
  const ObjectId lock = any(PrimitiveId::kFile);
  if (locks == 0) call.add({lock, file::kPass});
  if (locks == 1) call.add({lock, file::kAcquire});
  script.push_back(does(call));
  if (locks != 1) {
    if (pick(3) != 0) return;
    script.push_back(skip_if(pick(2), 1));
    return script.push_back(does(file_call(ScriptFiles::kWrite, number, value)));
  }
  Operation end(Access{file::kCalls, file::kGoOn, file_call(what, number, value)[0].argument});
  script.push_back(does(end.add({lock, file::kRelease})));
}

void RandomScripts::open_channels(Script& script) {
  script.push_back(does(channel::open(channels(), channel::kPipe, pick(4))));
  const channel::Kind kind = pick(2) == 0 ? channel::kCounter : channel::kSemaphore;
  const auto amount = static_cast<std::int64_t>(pick(2));
  if (pick(3) != 0)
    script.push_back(does(channel::open(channels(), kind, 0, amount)));
  else
    return;
  if (pick(4) == 0) script.push_back(does(channel::open(channels(), channel::kSet, 0)));
}

void RandomScripts::use(Script& script, std::int64_t fd, std::size_t steps) {
  static constexpr std::int64_t kHandles[] = {0, 1, 2, 4};
  Access access{channels(), channel::kUse, fd};
  script.push_back(does(access));
  for (const std::int64_t other : {std::int64_t{-EBADF}, kHandles[0], kHandles[1], kHandles[2], kHandles[3]}) {
    if (other != kHandles[fd - kFd]) script.push_back(skip_if(other, 0));
  }
  // Each jump leads behind what follows.
  for (std::size_t i = 0; i < 4; ++i) script[script.size() - 1 - i].count = i + steps;
}

void RandomScripts::add_channel_call(Script& script) {
  static constexpr std::int64_t kSizes[] = {1, 2, 4096, 65536};
  const std::int64_t size = kSizes[pick(4)];
  const std::int64_t fd = kFd + pick(4);
  channel::Interest interest;
  switch (pick(10)) {
    case 0:
    case 1:
      use(script, kFd, 1);
      return script.push_back(does(channel::on(channels(), channel::kRead, 0, size)));
    case 2:
    case 3:
      use(script, kFd + 1, 1);
      return script.push_back(does(channel::on(channels(), channel::kWrite, 0, size)));
    case 4:
      use(script, kFd + 2, 1);
      return script.push_back(does(channel::on(channels(), channel::kTake, 1)));
    case 5:
      use(script, kFd + 2, 1);
      return script.push_back(does(channel::on(channels(), channel::kAdd, 1, 1 + pick(2))));
    case 6: {
      Access access{channels(), pick(3) == 0 ? channel::kDuplicate : channel::kClose, fd};
      if (pick(5) == 0) access.verb = channel::kReplace;
      access.expected = access.verb == channel::kReplace ? kFd + pick(4) : 0;
      return script.push_back(does(access));
    }
    case 7: {
      for (std::int64_t handle = 0; handle < 4; ++handle) {
        const std::uint64_t bit = channel::bit_of(handle / 2, static_cast<channel::End>(handle % 2));
        if (pick(2) == 0) interest.looked |= bit;
        if (pick(2) == 0) interest.wanted |= bit & interest.looked;
      }
      Access poll = channel::poll(channels(), interest);
      poll.order = static_cast<std::uint8_t>(pick(2));  // it waits, or tries
      return script.push_back(does(poll));
    }
    case 8: {
      const std::uint32_t what = pick(3);
      use(script, kFd + pick(2), 1);
      const std::int64_t flags = pick(4);
      if (what == 0) return script.push_back(does(channel::on(channels(), channel::kSetFlags, 0, flags)));
      if (what == 1) return script.push_back(does(channel::on(channels(), channel::kResize, 0, 4096)));
      return script.push_back(does(channel::on(channels(), channel::kLook, 0, channel::kAmount)));
    }
    default: {
      use(script, kFd + 3, 2);
      const std::int64_t member = pick(3), wanted = pick(4);
      static constexpr std::int64_t kHows[] = {0, channel::kMember, channel::kMember | channel::kEdgeTriggered,
                                               channel::kMember | channel::kOneShot};
      script.push_back(
          does(channel::on(channels(), channel::kChangeSet, 2, channel::membership(member, wanted, kHows[pick(4)]))));
      Access poll = channel::on(channels(), channel::kPollSet, 2);
      poll.order = static_cast<std::uint8_t>(pick(2));  // it waits, or tries
      return script.push_back(does(poll));
    }
  }
}

void RandomScripts::add_signal_call(Script& script) {
  const ObjectId process = signals_of_process();
  const auto any_target = static_cast<std::int64_t>(pick(static_cast<std::uint32_t>(actor_count_) + 1)) - 1;
  const std::int64_t number = any_signal(), set = any_set();
  switch (pick(11)) {
    case 0:
    case 1:
    case 2:
      return script.push_back(does(signal::about(process, signal::kSend, any_target, number)));
    case 3:
    case 4:
      return script.push_back(does(signal::about(process, signal::kSetMask, self_, set)));
    case 5:
      return add_wait_for_signal(script, set);
    case 6:
      return script.push_back(does(signal::about(process, signal::kPending, self_)));
    case 7:
      return script.push_back(does(signal::action(process, number, static_cast<signal::Disposition>(pick(4)), set)));
    case 8:
      return script.push_back(does(Operation(variable::access(any(PrimitiveId::kVariable), variable::kAdd, 1))));
    case 9: {
      Access poll = channel::poll(channels(), {});
      poll.order = pick(3) == 0 ? channel::kTries : 0;
      return script.push_back(
          does_or_fails(Operation(poll).add(signal::about(process, signal::kReadable, self_, set))));
    }
    default:
      return add_wait_with_mask(script, set);
  }
}

void RandomScripts::add_wait_for_signal(Script& script, std::int64_t set) {
  const ObjectId process = signals_of_process();
  if (pick(4) != 0) script.push_back(does(signal::about(process, signal::kSetMask, self_, set)));
  const bool is_timed = !has_timer_ && (families_ & kTimers) != 0 && pick(2) == 0;
  const bool is_cancellable = (families_ & kCancels) != 0 && pick(2) == 0;
  if (is_cancellable) enter(script, is_timed ? 3 : 2);
  // Who reads from a signalfd is not asked for by who sends.
  const bool reads = !is_cancellable && pick(3) == 0;
  if (!reads) script.push_back(does(signal::about(process, signal::kExpect, self_, set)));
  if (is_timed) arm(script, 0);
  Access wait = signal::about(process, signal::kWait, self_, set);
  wait.order = pick(4) == 0 ? 1 : 0;  // it tries
  Operation operation(wait);
  if (is_timed) operation.add(take());
  if (is_cancellable) operation.add(own_cancellation(cancellation::kLeave));
  script.push_back(does_or_fails(operation));
}

void RandomScripts::add_wait_with_mask(Script& script, std::int64_t set) {
  Access mask = signal::about(signals_of_process(), signal::kSetMask, self_, set);
  mask.order = 1;
  script.push_back(does(mask));
  const std::int64_t after = any_set();
  if (pick(2) == 0) {
    script.push_back(does_or_fails(Operation(Access{signals_of(self_), signal::kSuspend})));
    return script.push_back(does(signal::about(signals_of_process(), signal::kSetMask, self_, after)));
  }
  const ObjectId s = any(PrimitiveId::kSemaphore);
  script.push_back(
      does_or_fails(Operation(semaphore::access(s, semaphore::kWait)).add({signals_of(self_), signal::kLeave, after})));
  script.push_back(does(signal::about(signals_of_process(), signal::kSetMask, self_, after)));
}

void RandomScripts::add_handlers(ScriptProgram& program) {
  program.signals.process = signals_of_process();
  for (const std::int64_t number : kNumbers) {
    Script handler;
    const ObjectId m = any(PrimitiveId::kMutex);
    const auto any_target = static_cast<std::int64_t>(pick(static_cast<std::uint32_t>(actor_count_)));
    switch (pick(8)) {
      case 0:
        if ((families_ & kMutexes) == 0) break;
        handler.push_back(does(mutex::access(m, mutex::kLock)));
        handler.push_back(does(mutex::access(m, mutex::kUnlock)));
        break;
      case 1:
        if ((families_ & kSemaphores) == 0) break;
        handler.push_back(does(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kPost)));
        break;
      case 2:
        if ((families_ & kConditions) == 0) break;
        handler.push_back(does(condition::access(any(PrimitiveId::kCondition), condition::kSignal)));
        break;
      case 3:
        // Once: what sends the signal again that it handles goes on for good.
        if (number != kNumbers[0]) break;
        handler.push_back(does(signal::about(signals_of_process(), signal::kSend, any_target, kNumbers[1])));
        break;
      case 4:
        if ((families_ & kFailures) == 0) break;
        handler.push_back(does(process::fail(number)));
        break;
      case 5:
      case 6:
        handler.push_back(does(variable::access(any(PrimitiveId::kVariable), variable::kAdd, 1)));
        break;
      default:
        break;
    }
    program.signals.handlers[number] = handler;
  }
}

}  // namespace crashcut::tests
