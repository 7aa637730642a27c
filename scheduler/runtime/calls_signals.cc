// Signals between threads: who sends, who blocks, who waits, and the handlers.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/signal_calls.h"

namespace crashcut::scheduler::runtime {

namespace {

// Of libc's functions, those by which signals come about between threads. Who uses none gets none.
constexpr const char* kUsers[] = {
    "kill",    "pthread_kill", "raise",        "gsignal",    "tgkill",     "killpg",  "sigqueue", "pthread_sigqueue",
    "sigwait", "sigwaitinfo",  "sigtimedwait", "sigsuspend", "sigpending", "signalfd"};
bool g_has_signals = false;
__attribute__((constructor(102))) void find_users_of_signals() { g_has_signals = do_objects_refer_to(kUsers); }

// A signal on its way.
struct Sent {
  std::int64_t target;  // a thread, or signal::kAnyThread
  std::uint32_t sender;
  siginfo_t info;
};
// Of one execution; the memory that it is in is forgotten with it.
struct Signals {
  ObjectId process{};
  std::vector<Sent> sent;
};
Signals* g_signals = nullptr;

// What the program asked for. What it begins with is the kernel's, from before main().
KernelSigaction g_first[NSIG] = {}, g_actions[NSIG] = {};
bool g_has_first = false;

bool has_handler(const KernelSigaction& action) {
  return action.handler != reinterpret_cast<void*>(SIG_DFL) && action.handler != reinterpret_cast<void*>(SIG_IGN);
}
bool is_ignored_by_default(int number) {
  return number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;
}
bool is_ignored(int number, const KernelSigaction& action) {
  return action.handler == reinterpret_cast<void*>(SIG_IGN) ||
         (action.handler == reinterpret_cast<void*>(SIG_DFL) && is_ignored_by_default(number));
}
bool is_stop(int number) { return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU; }
bool is_valid(long number) { return number >= 1 && number < NSIG; }

Access set_action_access(int number, const KernelSigaction& action) {
  const bool is_once = (action.flags & SA_RESETHAND) != 0;
  const signal::Disposition disposition = is_ignored(number, action) ? signal::kIgnored
                                          : !has_handler(action)     ? signal::kDefault
                                          : is_once                  ? signal::kHandledOnce
                                                                     : signal::kHandled;
  const std::int64_t own = (action.flags & SA_NODEFER) != 0 ? 0 : signal::bit_of(number);
  return signal::action(g_signals->process, number, disposition, static_cast<std::int64_t>(action.mask) | own);
}

Access about(signal::Verb verb, std::int64_t thread, std::int64_t argument = 0) {
  return signal::about(g_signals->process, verb, thread, argument);
}
Access about_self(signal::Verb verb, std::int64_t argument = 0) {
  return about(verb, index(current_actor().id), argument);
}

Sent take_sent(const Actor& actor, std::int64_t found) {
  const std::int64_t target = (found & signal::kOfProcess) != 0 ? signal::kAnyThread : std::int64_t{index(actor.id)};
  const auto is_it = [&](const Sent& s) { return s.target == target && s.info.si_signo == (found & 0xff); };
  const auto it = std::find_if(g_signals->sent.begin(), g_signals->sent.end(), is_it);
  const Sent sent = *it;
  g_signals->sent.erase(it);
  return sent;
}

[[noreturn]] void die(const Sent& sent) {
  char text[16];
  const int length = snprintf(text, sizeof text, "%u", sent.sender);
  fail(Failure::kSignal, sent.info.si_signo, {text, static_cast<std::size_t>(length)},
       reinterpret_cast<void*>(current_actor().caller));
}

enum class Handled { kNot, kAndRestarts, kAndFails };

// What the signal does to the thread, which blocks already what its handler blocks.
Handled handle(Actor& self, std::int64_t found) {
  Sent sent = take_sent(self, found);
  const int number = sent.info.si_signo;
  const KernelSigaction action = g_actions[number];
  if (is_ignored(number, action)) return Handled::kNot;
  if (is_stop(number) && !has_handler(action)) refuse("a signal that stops the process");
  if (!has_handler(action)) die(sent);
  if ((action.flags & SA_RESETHAND) != 0) g_actions[number] = {};
  self.mask = static_cast<std::uint64_t>(signal::mask(object_of(self.signals)));
  note_written();
  ucontext_t context{};
  if ((action.flags & SA_SIGINFO) != 0) {
    reinterpret_cast<void (*)(int, siginfo_t*, void*)>(action.handler)(number, &sent.info, &context);
  } else {
    reinterpret_cast<void (*)(int)>(action.handler)(number);
  }
  return (action.flags & SA_RESTART) != 0 ? Handled::kAndRestarts : Handled::kAndFails;
}

// Blocks these from now on. What is let in is handled before.
void set_mask(std::uint64_t mask, const void* caller);

void handle_at_once(std::int64_t found, const void* caller) {
  if ((found & ~signal::kNotKept) <= 0) return;
  Actor& self = current_actor();
  const std::uint64_t before = self.mask;
  handle(self, found & ~signal::kNotKept);
  set_mask(before, caller);
}

void set_mask(std::uint64_t mask, const void* caller) {
  Actor& self = current_actor();
  const std::int64_t found = perform(about_self(signal::kSetMask, static_cast<std::int64_t>(mask)), caller);
  self.mask = mask;
  handle_at_once(found, caller);
}

std::uint64_t without_unblockable(std::uint64_t mask) {
  return mask & ~static_cast<std::uint64_t>(signal::bit_of(SIGKILL) | signal::bit_of(SIGSTOP));
}

long change_mask(long how, const std::uint64_t* wanted, std::uint64_t* old, const void* caller) {
  Actor& self = current_actor();
  const std::uint64_t before = self.mask;
  if (wanted != nullptr) {
    if (how != SIG_BLOCK && how != SIG_UNBLOCK && how != SIG_SETMASK) return -EINVAL;
    const std::uint64_t after = without_unblockable(how == SIG_BLOCK     ? before | *wanted
                                                    : how == SIG_UNBLOCK ? before & ~*wanted
                                                                         : *wanted);
    if (g_has_signals && after != before) set_mask(after, caller);
    self.mask = after;
  }
  if (old != nullptr) *old = before;
  return 0;
}

long change_disposition(long number, const KernelSigaction* wanted, KernelSigaction* old, const void* caller) {
  if (!is_valid(number) || (wanted != nullptr && (number == SIGKILL || number == SIGSTOP))) return -EINVAL;
  const KernelSigaction before = g_actions[number];
  if (wanted != nullptr) {
    KernelSigaction asked = *wanted;
    asked.mask = without_unblockable(asked.mask);
    if (g_has_signals) perform(set_action_access(static_cast<int>(number), asked), caller);
    g_actions[number] = asked;
    // The faults of its own code come by the kernel, and its breakpoints.
    if (is_our_signal(static_cast<int>(number)) || number == SIGTRAP) {
      if (const long error = change_action(static_cast<int>(number), wanted, nullptr); error < 0) return error;
    }
  }
  if (old != nullptr) *old = before;
  return 0;
}

siginfo_t info_of(int number, int code) {
  siginfo_t info{};
  info.si_signo = number;
  info.si_code = code;
  info.si_pid = static_cast<pid_t>(kProgramPid);
  info.si_uid = static_cast<uid_t>(kernel(SYS_getuid));
  return info;
}

void send(std::int64_t target, const siginfo_t& info, const void* caller) {
  if (info.si_signo == SIGKILL) fail(Failure::kSignal, SIGKILL, "", caller);
  if (!g_has_signals) refuse("a signal that is sent by a system call of its own, not by a function of libc's");
  const std::int64_t result = perform(about(signal::kSend, target, info.si_signo), caller);
  if ((result & signal::kNotKept) == 0) g_signals->sent.push_back({target, index(current_actor().id), info});
  handle_at_once(result, caller);
}

Actor* thread_of_tid(long tid) {
  struct Wanted {
    long tid;
    Actor* found;
  };
  static Wanted wanted;
  wanted = {tid, nullptr};
  for_each_actor([](const Actor& actor) {
    if (!actor.is_helper() && !actor.is_over && kProgramPid + static_cast<long>(index(actor.id)) == wanted.tid)
      wanted.found = const_cast<Actor*>(&actor);
  });
  return wanted.found;
}

// kill(), sigqueue(): the process; tgkill() and the like: a thread.
long send_to_process(long pid, long number, const siginfo_t* given, const void* caller) {
  if (number != 0 && !is_valid(number)) return -EINVAL;
  if (pid != kProgramPid && number != 0) refuse("kill() of another process or of a group");
  if (number == 0) return pid == kProgramPid || pid <= 0 ? 0 : kernel(SYS_kill, pid, 0);
  siginfo_t info = given != nullptr ? *given : info_of(static_cast<int>(number), SI_USER);
  info.si_signo = static_cast<int>(number);
  send(signal::kAnyThread, info, caller);
  return 0;
}
long send_to_tid(long tid, long number, const siginfo_t* given, const void* caller) {
  if (number != 0 && !is_valid(number)) return -EINVAL;
  const Actor* target = thread_of_tid(tid);
  if (target == nullptr) return -ESRCH;
  if (number == 0) return 0;
  siginfo_t info = given != nullptr ? *given : info_of(static_cast<int>(number), SI_TKILL);
  info.si_signo = static_cast<int>(number);
  send(index(target->id), info, caller);
  return 0;
}

// sigwait() and its like. Nothing where the thread was cancelled.
std::optional<long> wait_for(std::uint64_t set, siginfo_t* out, const timespec* timeout, const void* caller) {
  const bool tries = timeout != nullptr && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
  const bool is_timed = timeout != nullptr && !tries;
  const auto wanted = static_cast<std::int64_t>(without_unblockable(set));
  if (is_cancelled_at_entry(caller)) return std::nullopt;
  // Once the thread expects a signal, a handler ends the wait: nothing comes between the two.
  if (is_timed) arm_timer(caller);
  perform(about_self(signal::kExpect, wanted), caller);
  Operation operation(about_self(signal::kWait, wanted));
  if (tries) operation.begin()->order = 1;
  if (is_timed) operation.add(take_timer());
  const std::int64_t found = perform(leave_cancellation_point(operation), caller, OnSignal::kFail);
  if (found == kInterrupted) {
    perform(about_self(signal::kExpect, 0), caller);
    return -EINTR;
  }
  if (is_cancelled()) return std::nullopt;
  if (found == 0) {
    if (is_timed) timed_out_after(timeout, ETIMEDOUT);
    return -EAGAIN;
  }
  const Sent sent = take_sent(current_actor(), found);
  if (out != nullptr) *out = sent.info;
  return sent.info.si_signo;
}

long pending_signals(std::uint64_t* out, const void* caller) {
  *out = g_has_signals
             ? static_cast<std::uint64_t>(perform(about_self(signal::kPending), caller)) & current_actor().mask
             : 0;
  return 0;
}

}  // namespace

bool has_signals() { return g_has_signals; }

void begin_signals(Actor& main) {
  if (!g_has_first) {
    for (int number = 1; number < NSIG; ++number) {
      kernel(SYS_rt_sigaction, number, 0, &g_first[number], 8);
      if (is_our_signal(number) || number == SIGTRAP) g_first[number] = asked_action(number);
    }
    g_first[SIGSYS] = {};
    g_has_first = true;
  }
  std::copy(std::begin(g_first), std::end(g_first), g_actions);
  if (!g_has_signals) return;
  std::int64_t ignored = 0;
  for (int number = 1; number < NSIG; ++number)
    ignored |= is_ignored(number, g_actions[number]) ? signal::bit_of(number) : 0;
  g_signals = new Signals;
  g_signals->process = own_object(PrimitiveId::kSignal, static_cast<ActorId>(kActorsMost + index(main.id)),
                                  is_hosted() ? 0 : 1, ignored);
  main.signals = own_object(PrimitiveId::kSignal, main.id, 1, 0);
  add_delivering_actor(main, g_signals->process);
}

// Static constructors may have made some.
void announce_handlers() {
  if (!g_has_signals) return;
  // On a host main() is any actor, not the first.
  if (is_hosted()) perform(about(signal::kAddThread, index(current_actor().id), 0), nullptr);
  for (int number = 1; number < NSIG; ++number) {
    if (has_handler(g_actions[number])) perform(set_action_access(number, g_actions[number]), nullptr);
  }
}

void add_signals_of(Actor& child, Operation& create) {
  child.mask = current_actor().mask;
  if (!g_has_signals) return;
  child.signals = own_object(PrimitiveId::kSignal, child.id, 0, static_cast<std::int64_t>(child.mask));
  add_delivering_actor(child, g_signals->process);
  create.add(about(signal::kAddThread, index(child.id), static_cast<std::int64_t>(child.mask)));
}
void let_signals_in(const Actor& actor, Operation& start) {
  if (g_has_signals) start.add({actor.signals, signal::kLetIn});
}
void end_signals_of(const Actor& actor, Operation& end) {
  if (g_has_signals) end.add(about(signal::kRemoveThread, index(actor.id))).add({actor.signals, signal::kShut});
}

void add_interruption(Actor& actor, Operation& operation) {
  if (!g_has_signals) return;
  const auto is_own = [&](const Access& a) { return a.object == actor.signals; };
  if (std::any_of(operation.begin(), operation.end(), is_own)) return;
  // In the middle of a call on files nothing interrupts.
  if (actor.is_holding_locks)
    operation.add({actor.signals, signal::kShut});
  else if (signal::lets_in(object_of(actor.signals)) == 0)
    operation.add({actor.signals, signal::kLetIn});
  else if (actor.has_other_mask && primitive_of(operation[0].object) != PrimitiveId::kSignal &&
           primitive_of(operation[0].object) != PrimitiveId::kTimer)
    operation.add({actor.signals, signal::kLeave, static_cast<std::int64_t>(actor.mask_after)});
  else
    operation.add({actor.signals, signal::kPass});
}

namespace {

// What an operation that waits does without waiting. None: it does nothing but wait.
std::optional<Operation> as_try(const Operation& operation, OnSignal on_signal) {
  Operation attempt;
  for (Access access : operation) {
    switch (primitive_of(access.object)) {
      case PrimitiveId::kSpin:
        return std::nullopt;
      case PrimitiveId::kSignal:
        if (access.verb == signal::kSuspend) return std::nullopt;
        access.order = 1;
        break;
      case PrimitiveId::kSemaphore:
        access.verb = semaphore::kTryWait;
        break;
      case PrimitiveId::kChannel:
        access.order = static_cast<std::uint8_t>(access.order | channel::kTries | channel::kGoesOn);
        break;
      case PrimitiveId::kTimer:
        if (on_signal == OnSignal::kRestart) continue;  // it waits on, up to the same time
        break;
      case PrimitiveId::kCancellation:
        continue;  // it has not left yet
      default:
        break;
    }
    attempt.add(access);
  }
  return attempt;
}

bool has_failed(const Operation& attempt) {
  const Access& first = attempt[0];
  switch (primitive_of(first.object)) {
    case PrimitiveId::kSemaphore:
      return first.result == EAGAIN;
    case PrimitiveId::kChannel:
      return channel::is_poll(first) ? first.result == 0 && readable_signals(attempt) == 0 : first.result == -EAGAIN;
    default:
      return first.result == 0;
  }
}

// What a call in the middle of which a handler runs must find again.
struct Kept {
  explicit Kept(Actor& actor)
      : self(actor),
        futex_word(actor.futex_word),
        is_sleeping(actor.is_sleeping),
        has_other_mask(actor.has_other_mask),
        is_in_cancellation_point(runtime::is_in_cancellation_point()) {
    std::copy(std::begin(self.file_locks), std::end(self.file_locks), file_locks);
    std::copy(std::begin(self.memory.granules), std::end(self.memory.granules), granules);
    self.is_sleeping = self.has_other_mask = false;
  }
  void restore() const {
    std::copy(std::begin(file_locks), std::end(file_locks), self.file_locks);
    std::copy(std::begin(granules), std::end(granules), self.memory.granules);
    self.futex_word = futex_word;
    self.is_sleeping = is_sleeping;
  }
  Actor& self;
  const volatile std::uint32_t* futex_word;
  bool is_sleeping, has_other_mask, is_in_cancellation_point;
  ObjectId file_locks[2];
  decltype(MemoryView::granules) granules;
};

}  // namespace

Heeded heed_delivery(Actor& self, const Operation& operation, OnSignal on_signal, const void* caller) {
  const std::int64_t found = self.done[self.done.size() - 1].result;
  const Kept kept(self);
  const std::uint64_t mask = self.mask;
  const bool may_interrupt = on_signal != OnSignal::kGoOn && has_handler(g_actions[found & 0xff]);
  std::optional<Operation> attempt = may_interrupt ? as_try(operation, on_signal) : std::nullopt;
  bool is_done = false;
  if (attempt) {
    wait_for_turn(*attempt, caller);
    attempt = self.done;
    is_done = !has_failed(*attempt);
  }
  bool is_interrupted = false;
  if (is_done && kept.has_other_mask) {
    // It does not come to let the signal in: that waits on.
    const Sent sent = take_sent(self, found);
    set_mask(self.mask_after, caller);
    send(sent.target, sent.info, caller);
  } else {
    const Handled handled = handle(self, found);
    const bool fails =
        handled == Handled::kAndFails || (handled == Handled::kAndRestarts && on_signal == OnSignal::kFail);
    is_interrupted = may_interrupt && !is_done && fails;
    // Who waited with other signals blocked blocks the former ones again.
    set_mask(is_interrupted && kept.has_other_mask ? self.mask_after : mask, caller);
  }
  kept.restore();
  if (is_done) self.done = *attempt;
  if (is_done || is_interrupted) return is_done ? Heeded::kIsDone : Heeded::kIsInterrupted;
  if (kept.is_in_cancellation_point) enter_cancellation_point_again(caller);
  self.has_other_mask = kept.has_other_mask;
  return Heeded::kStandsAgain;
}

void enter_call(const void* caller) {
  Actor& self = current_actor();
  if (!self.wants_other_mask) {
    if (!g_has_signals) return;
    // The operation that follows may be told by them from one before.
    std::uint64_t registers[std::size(crashcut_entry_registers)];
    std::copy(std::begin(crashcut_entry_registers), std::end(crashcut_entry_registers), registers);
    perform(Access{self.signals, signal::kPass}, caller);
    std::copy(std::begin(registers), std::end(registers), crashcut_entry_registers);
    return;
  }
  self.mask_after = self.mask;
  self.wants_other_mask = false;
  if (g_has_signals) {
    Access access = about_self(signal::kSetMask, static_cast<std::int64_t>(self.mask_meanwhile));
    access.order = 1;
    perform(access, caller);
  }
  self.mask = self.mask_meanwhile;
  self.has_other_mask = true;
}

Access look_for_signals(std::uint64_t set) {
  if (!g_has_signals) refuse("a signalfd that is made by a system call of its own, not by a function of libc's");
  return about_self(signal::kReadable, static_cast<std::int64_t>(without_unblockable(set)));
}
std::uint64_t readable_signals(const Operation& done) {
  for (const Access& access : done) {
    if (primitive_of(access.object) == PrimitiveId::kSignal && access.verb == signal::kReadable)
      return static_cast<std::uint64_t>(access.result);
  }
  return 0;
}

std::optional<long> take_signal(std::uint64_t set, bool tries, siginfo_t& out, const void* caller) {
  if (!g_has_signals) refuse("a signalfd that is made by a system call of its own, not by a function of libc's");
  if (is_cancelled_at_entry(caller)) return std::nullopt;
  Operation operation(about_self(signal::kWait, static_cast<std::int64_t>(without_unblockable(set))));
  if (tries) operation.begin()->order = 1;
  const std::int64_t found = perform(leave_cancellation_point(operation), caller, OnSignal::kRestart);
  if (found == kInterrupted) return -EINTR;
  if (is_cancelled()) return std::nullopt;
  if (found == 0) return -EAGAIN;
  out = take_sent(current_actor(), found).info;
  return 0;
}

void signal_broken_pipe(const void* caller) {
  const siginfo_t info = info_of(SIGPIPE, SI_USER);
  if (g_has_signals) return send(index(current_actor().id), info, caller);
  if (is_ignored(SIGPIPE, g_actions[SIGPIPE]) ||
      (current_actor().mask & static_cast<std::uint64_t>(signal::bit_of(SIGPIPE))) != 0)
    return;
  if (!has_handler(g_actions[SIGPIPE])) fail(Failure::kSignal, SIGPIPE, "", caller);
  refuse("a handler of SIGPIPE in a program that sends no signals");
}

bool wait_for_handler(const void* caller) {
  Actor& self = current_actor();
  if (is_cancelled_at_entry(caller)) return false;
  enter_call(caller);
  // Who gets no signal waits for good.
  if (self.signals == ObjectId{}) self.signals = own_object(PrimitiveId::kSignal, self.id, 0);
  Operation suspend(Access{self.signals, signal::kSuspend});
  leave_cancellation_point(suspend);
  if (suspend.size() > 1) suspend.add({self.signals, signal::kPass});  // the thread's own comes last
  return perform(suspend, caller, OnSignal::kFail) == kInterrupted || !is_cancelled();
}

int send_to_thread(Actor& target, int number, const void* caller) {
  if (number != 0 && !is_valid(number)) return EINVAL;
  if (number != 0) send(index(target.id), info_of(number, SI_TKILL), caller);
  return 0;
}

WithMask::WithMask(const std::uint64_t* mask, const void* caller) : caller_(caller), is_used_(mask != nullptr) {
  if (!is_used_) return;
  current_actor().wants_other_mask = true;
  current_actor().mask_meanwhile = without_unblockable(*mask);
}
WithMask::~WithMask() {
  if (!is_used_) return;
  Actor& self = current_actor();
  self.wants_other_mask = false;
  if (!self.has_other_mask) return;  // it did not come to wait, or an interruption ended that
  self.has_other_mask = false;
  if (g_has_signals) set_mask(self.mask_after, caller_);
  self.mask = self.mask_after;
}

Answer do_signal_call(long number, const long* a, const void* caller, long& result) {
  if (!is_scheduling() || current_actor().is_in_file_step) return Answer::kNotOurs;
  const auto set_at = [](long address) { return reinterpret_cast<std::uint64_t*>(address); };
  switch (number) {
    case SYS_rt_sigprocmask:
      result = change_mask(a[0], set_at(a[1]), set_at(a[2]), caller);
      return Answer::kDone;
    case SYS_rt_sigaction:
      result = change_disposition(a[0], reinterpret_cast<const KernelSigaction*>(a[1]),
                                  reinterpret_cast<KernelSigaction*>(a[2]), caller);
      return Answer::kDone;
    case SYS_rt_sigpending:
      result = pending_signals(set_at(a[0]), caller);
      return Answer::kDone;
    case SYS_kill:
      result = send_to_process(a[0], a[1], nullptr, caller);
      return Answer::kDone;
    case SYS_rt_sigqueueinfo:
      result = send_to_process(a[0], a[1], reinterpret_cast<const siginfo_t*>(a[2]), caller);
      return Answer::kDone;
    case SYS_tkill:
      result = send_to_tid(a[0], a[1], nullptr, caller);
      return Answer::kDone;
    case SYS_tgkill:
      result = send_to_tid(a[1], a[2], nullptr, caller);
      return Answer::kDone;
    case SYS_rt_tgsigqueueinfo:
      result = send_to_tid(a[1], a[2], reinterpret_cast<const siginfo_t*>(a[3]), caller);
      return Answer::kDone;
    case SYS_rt_sigtimedwait: {
      if (!g_has_signals) refuse("a wait for a signal");
      const auto got =
          wait_for(*set_at(a[0]), reinterpret_cast<siginfo_t*>(a[1]), reinterpret_cast<const timespec*>(a[2]), caller);
      if (!got) return Answer::kCancelled;
      result = *got;
      return Answer::kDone;
    }
    case SYS_pause:
      if (!wait_for_handler(caller)) return Answer::kCancelled;
      result = -EINTR;
      return Answer::kDone;
    // What comes by the clock.
    case SYS_alarm:
      if (a[0] != 0) refuse("alarm()");
      result = 0;
      return Answer::kDone;
    case SYS_setitimer: {
      const auto* wanted = reinterpret_cast<const itimerval*>(a[1]);
      if (wanted != nullptr && (wanted->it_value.tv_sec != 0 || wanted->it_value.tv_usec != 0)) refuse("setitimer()");
      if (a[2] != 0) *reinterpret_cast<itimerval*>(a[2]) = {};
      result = 0;
      return Answer::kDone;
    }
    case SYS_timer_create:
      refuse("timer_create()");
    case SYS_rt_sigsuspend: {
      const WithMask mask(set_at(a[0]), caller);
      if (!wait_for_handler(caller)) return Answer::kCancelled;
      result = -EINTR;
      return Answer::kDone;
    }
    default:
      return Answer::kNotOurs;
  }
}

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

EXPORT(int, pthread_kill)(pthread_t handle, int signal) {
  if (!is_scheduling())
    return reinterpret_cast<int (*)(pthread_t, int)>(crashcut::inject::find_real("pthread_kill"))(handle, signal);
  Actor* target = actor_of_handle(static_cast<std::uint64_t>(handle));
  return target == nullptr ? ESRCH : send_to_thread(*target, signal, CALLER);
}
// libc keeps one number for all threads here.
EXPORT(int, pthread_sigqueue)(pthread_t handle, int signal, const union sigval value) {
  if (!is_scheduling()) refuse("pthread_sigqueue() outside of main()");
  const Actor* target = actor_of_handle(static_cast<std::uint64_t>(handle));
  if (target == nullptr) return ESRCH;
  siginfo_t info = info_of(signal, SI_QUEUE);
  info.si_value = value;
  return static_cast<int>(-send_to_tid(kProgramPid + static_cast<long>(index(target->id)), signal, &info, CALLER));
}
