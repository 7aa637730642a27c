// PosixModel: what POSIX says of threads and the objects that they meet in, as a machine of small steps, and all that a
// small program can come to in it. Written from the text of POSIX.1-2017 alone; it shares no code with scheduler/.
//
// A program is a list of calls a thread. Thread 0 is main: only it joins others. A call that POSIX leaves undefined
//   where the thread stands (to unlock what it does not hold, to wait without the mutex) is not made: what a thread
//   holds it knows itself. Only main knows which threads it has joined. Another thread's signal to a joined thread has
//   no effect, as one to a thread that has ended: if the thread looked whether main has joined it, it would read a
//   variable that nothing orders.
// Where POSIX leaves something open that a run of one implementation cannot show, the machine takes what glibc does:
//   - a wait that times out does not consume a signal (POSIX: it may);
//   - readers get a lock that no writer holds, though writers wait;
//   - a thread that holds a lock for writing is not asked to lock it again (POSIX: it may deadlock or be told).
// Of a barrier's threads one is told so; which is not looked at, only how many.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace crashcut::tests {

inline constexpr int kPosixObjects = 2;  // of each kind

// One letter a call, and the number of its object; tests/threads/posix_script.c reads the same.
//   l t T u U !   mutex: lock, trylock, timedlock, unlock, unlock though it does not hold it, consistent
//   r w a b R W v rwlock: rdlock, wrlock, tryrdlock, trywrlock, timedrdlock, timedwrlock, unlock
//   p q Q s g     semaphore: wait, trywait, timedwait, post, getvalue
//   B             barrier: wait
//   o O           once: with a routine that does nothing, with one that waits for semaphore 0
//   c C n N       condition, with mutex 0: wait, timedwait, signal, broadcast
//   +             the variable that goes with the mutex of that number, which it holds: add one
//   j J k         thread: join, timedjoin, tryjoin
//   x y           thread: cancel; testcancel, of itself
//   K L           thread: pthread_kill, by the first signal, by the second
//   P m M S Z     signal: kill of the process, block, unblock; where it is blocked: sigwait, sigtimedwait
// Both signals have a handler, which counts how often it ran in its thread, and is installed without SA_RESTART. A
// result has kPosixHandled added for each of these runs before the call returned. As in Linux, what a thread sends
// itself, or what is pending when it changes its mask, comes before that call returns, and after a handler comes all
// else that has come meanwhile. A handler runs between two calls, or while one waits: not between what a call does and
// its return.
struct PosixCall {
  char what;
  int object;
};

enum class PosixMutex : char { kNormal = 'n', kRecursive = 'r', kErrorCheck = 'e', kRobust = 'd' };

struct PosixProgram {
  std::array<PosixMutex, kPosixObjects> mutexes{};
  std::array<int, kPosixObjects> semaphores{};  // counts
  std::array<int, kPosixObjects> barriers{};    // how many meet
  std::vector<std::vector<PosixCall>> threads;
  int spurious_most = 0;        // wake-ups without a signal, a thread
  bool handlers_block = false;  // each its own signal while it runs: they are installed without SA_NODEFER
};

struct PosixOutcomes {
  std::set<std::string> all;
  bool is_whole = true;  // not more states than were asked for
};

// What a thread's calls resulted in, and how it ended.
struct PosixThreadEnd {
  std::vector<int> results;  // a call; kPosixNone where it was not made, or did not return
  char how = 'B';            // E: it came to its end, C: it was cancelled, B: it waits for good
  auto operator<=>(const PosixThreadEnd&) const = default;
};
inline constexpr int kPosixNone = -1;
inline constexpr int kPosixHandled[kPosixObjects] = {1'000, 50'000};  // a signal
inline constexpr const char* kPosixSignalCalls = "KLPmMSZ";
std::string posix_outcome_text(const std::vector<PosixThreadEnd>& threads, int serials);

PosixOutcomes explore_posix(const PosixProgram& program, std::size_t states_most);

bool has_signals(const PosixProgram& program);
// Words of the command line: the objects, then the threads.
std::string posix_words(const PosixProgram& program);

}  // namespace crashcut::tests
