// Server: a process that stands just before crashcut_recover(), with the crashed disk ready, and forks recoveries.
//
// It never runs the program itself, so its pages stay as they are: a recovery that it forks costs little more than
//   the fork. One server a job, each on its own core.
//
// A series: where restoring is possible, the process that it forked does not end with its recovery. It records it,
//   moves the tree on, puts its memory back to what it was just before the recovery (snapshot.h) and runs the next.
//   The last recovery of a series ends as one that was forked for itself: its process ends and the server settles
//   it. Which one is the last is nobody's plan: one that dies, hangs, or asks the kernel for what restoring does not
//   undo (spend_image) is. So nothing is ever run twice, and all but the image's origin is as with a fork a recovery.
//
// Standing: a recovery that follows the path of an earlier one does not choose if half of what is left lies below its
//   next choice and it took long to come there. Its process becomes a server itself, which stands in the middle of the
//   recovery. It takes over the part of the tree below the choice and forks the recoveries of that part, and none of
//   them runs again what came before. Paths of such a server begin at its choice. When it has explored its part it
//   ends. For the server that forked it this was one run that ended at the choice. Servers stand in a chain: each is
//   deeper in the recovery than the one that forked it, and has half as much left. So if a recovery reads n records
//   that have some states each, n log n records are read again, and not n times n.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "inject/arena.h"
#include "inject/gate.h"
#include "inject/snapshot.h"
#include "persist/check.h"
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/models.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/work.h"

namespace crashcut::inprocess {

namespace {

// Longer recoveries are forked at their choices. A fork in a chain of forks costs about twice as much as one from
// a server: below this, running again what came before the choice is cheaper.
constexpr std::uint64_t kLongRecoveryNs = 500000;
constexpr std::uint32_t kLongInARow = 3;
constexpr std::uint32_t kNever = 0xffffffff;

// Taking a snapshot costs about as much as a fork: it must serve two recoveries more to be worth it.
constexpr std::uint64_t kSpentMost = 3;
constexpr std::uint64_t kRestoredLeast = 2;

// Servers that stand in a chain: each keeps a snapshot of some megabytes, and makes the forks of the next one dearer.
constexpr std::uint32_t kStandingMost = 16;
// Standing costs as much as so many times Header::stand_after_ns. It must save that.
constexpr std::uint64_t kStandingCost = 16;
// If the choice nearest to the root would give away less than this part of what is open, the part below the middle of
// the path is given away: somebody who takes one branch of a thousand is soon back.
constexpr std::uint64_t kGivenLeast = 32;
// Much less than the stack that programs are given: below it lies the main thread's.
constexpr std::uint64_t kOwnStackMost = 1 << 20;

// What a server and the process that it forked share. All that one recovery of a series leaves to the next is here.
struct Series {
  const Slot* server_slot;
  bool is_restoring;  // the process is to go on after its recovery
  bool is_over;       // the exploration was stopped; its last recovery is recorded, and what is left is in the queue
  bool is_spent;
  bool has_stood;     // its last process became a server
  bool cannot_stand;  // a process was to, and could not
  // The choices of the current recovery at which its process may stand, and how long it must have run there.
  std::uint32_t stand_from, stand_to;
  std::uint64_t stand_after_ns;
  std::uint64_t spent_count;  // processes that restoring could not keep
  std::uint64_t restored_count;
  std::uint32_t long_in_a_row;  // one may be long by chance
  std::uint64_t began_cpu_ns;   // processor time of the process when the current recovery began
  void* resume_at[5];           // of __builtin_setjmp
  inject::Snapshot snapshot;
  std::uint32_t number_count;
  // Of the tree, as the current recovery began: 4 a choice, and a choice takes 8 bytes of a slot.
  std::uint32_t numbers[kSlotBytes];
};
constinit Series* g_series = nullptr;
constinit std::uint32_t g_standing_count = 0;  // servers above this process that stand
void* g_standing_at[5];                        // of __builtin_setjmp, in the last of them

bool is_stopped() { return g.header->stop.load(std::memory_order_relaxed) != 0; }

// Recoveries after two crashes are forked at their choices. Threads of a recovery have stacks of their own, and so do
// trapped accesses.
bool may_stand() {
  const Header& header = *g.header;
  return header.has_memory != 0 && header.depth == 1 && header.traps == 0 && header.schedules_recoveries == 0 &&
         header.fresh_images == FreshImages::kRestored;
}

// Which part a bound on recoveries leaves is the seed's to say, not the clock's.
bool is_long(std::uint32_t long_in_a_row) {
  return long_in_a_row >= kLongInARow && g.header->max_recoveries == 0 && (!may_stand() || g_series->cannot_stand);
}

void make_series() {
  g_series = reinterpret_cast<Series*>(inject::map_shared(sizeof(Series)));
  if (g_series == nullptr) tool_error("the system has no memory for another process");
  g_series->server_slot = g.slot;
}

bool is_restoring_worthwhile(const Series& series) {
  const Header& header = *g.header;
  if (header.fresh_images == FreshImages::kForked || header.depth > 1 || header.schedules_recoveries != 0) return false;
  return series.spent_count < kSpentMost || series.restored_count >= kRestoredLeast * series.spent_count;
}

// The last choice at and below which so many answers are open; 0 if there are fewer.
std::size_t deepest_with(std::span<const std::uint32_t> open, std::uint64_t least) {
  std::uint64_t sum = 0;
  std::size_t at = open.size();
  while (at > 0 && sum < least) sum += open[--at];
  return at;
}

std::uint64_t sum_of(std::span<const std::uint32_t> open) {
  return std::accumulate(open.begin(), open.end(), std::uint64_t{0});
}

// From the choice below which half of what is left of the tree lies, to the last below which a quarter does.
void plan_standing(Series& series, const persist::ChoiceTree& tree) {
  const std::vector<std::uint32_t> open = tree.open_answers();
  const std::uint64_t all = sum_of(open), quarter = (all + 3) / 4;
  series.stand_from = all == 0 ? kNever : static_cast<std::uint32_t>(deepest_with(open, (all + 1) / 2));
  series.stand_to = static_cast<std::uint32_t>(deepest_with(open, quarter));
  const std::uint64_t least_ns = g.header->stand_after_ns;
  series.stand_after_ns = std::max(least_ns, least_ns * kStandingCost / std::max<std::uint64_t>(quarter, 1));
}

void keep_tree(Series& series, const persist::ChoiceTree& tree) {
  plan_standing(series, tree);
  const std::vector<std::uint32_t> numbers = tree.to_numbers();
  CHECK(numbers.size() <= std::size(series.numbers));
  std::memcpy(series.numbers, numbers.data(), numbers.size() * sizeof numbers[0]);
  series.number_count = static_cast<std::uint32_t>(numbers.size());
}

persist::ChoiceTree kept_tree(const Series& series) {
  return persist::ChoiceTree::from_numbers({series.numbers, series.number_count});
}

std::uint64_t used_cpu_ns() {
  timespec t;
  kernel(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000 + static_cast<std::uint64_t>(t.tv_nsec);
}

// Runs the recovery of this process, from its beginning or from the choice at which its server stands.
[[noreturn]] void begin_recovery_here() {
  if (g_standing_count == 0) run_recovery();
  set_dispatch(true);
  __builtin_longjmp(g_standing_at, 1);
}

// Runs recoveries until one is the last. The path of the first is set.
[[noreturn]] void run_series() {
  g.restorable = true;
  if (__builtin_setjmp(g_series->resume_at) == 0) {
    const inject::AddressRange left_out[] = {inject::unused_private_arena(), inject::model_stack()};
    if (!g_series->snapshot.take(left_out)) spend_image();
    g_series->began_cpu_ns = used_cpu_ns();
  } else {
    const persist::ChoiceTree tree = kept_tree(*g_series);
    g_explorer->follow(WorkMode::kAgain, tree.path(), tree.order());
  }
  begin_recovery_here();
}

// The order of the search; the rest of a tree has that of the search that left it.
persist::AnswerOrder own_order() { return persist::AnswerOrder(g.header->seed); }

Child start_recovery(WorkMode mode, const persist::Path& path, persist::AnswerOrder order = own_order()) {
  g_explorer->follow(mode, path, order);
  Slot* slot = take_slot();
  if (slot == nullptr) tool_error("too many processes");
  if (mode == WorkMode::kBranch && !path.empty() &&
      !append_stream(*slot, kStreamPrefix, path.data(), path.size() * sizeof path[0]))
    tool_error("the path of a recovery is too long");
  const Child child = fork_child(slot);
  if (child.pid < 0) tool_error("the system has no room for another process (fork failed)");
  if (child.pid == 0) mode == WorkMode::kAgain && g_series->is_restoring ? run_series() : begin_recovery_here();
  return child;
}

// Returns when the last recovery of the series has ended; its slot is not settled.
Child run_series_from(const persist::ChoiceTree& tree, int& status) {
  Series& series = *g_series;
  keep_tree(series, tree);
  series.is_restoring = is_restoring_worthwhile(series);
  series.is_over = series.is_spent = series.has_stood = false;
  series.began_cpu_ns = 0;
  const Child child = start_recovery(WorkMode::kAgain, tree.path(), tree.order());
  std::uint64_t used = 0;
  status = wait_for(child, &used);
  if (series.is_restoring && (series.is_spent || status != 0)) ++series.spent_count;
  const bool is_long = !series.has_stood && used > series.began_cpu_ns + kLongRecoveryNs;
  series.long_in_a_row = is_long ? series.long_in_a_row + 1 : 0;
  return child;
}

// From the beginning of the recovery, for others.
std::vector<persist::Path> from_beginning(std::vector<persist::Path> paths) {
  const persist::Path before = path_of(*g_series->server_slot);
  for (persist::Path& path : paths) path.insert(path.begin(), before.begin(), before.end());
  return paths;
}
persist::ChoiceTree from_beginning(const persist::ChoiceTree& tree) {
  return tree.after(path_of(*g_series->server_slot));
}

// The tree stands at its next run.
void give_away(persist::ChoiceTree& tree) {
  const std::vector<std::uint32_t> open = tree.open_answers();
  const std::uint64_t all = sum_of(open);
  const auto first = std::find_if(open.begin(), open.end(), [](std::uint32_t count) { return count != 0; });
  if (first != open.end() && (*first + 1) / 2 * kGivenLeast < all) {
    const persist::Path before = path_of(*g_series->server_slot);
    const std::size_t middle = deepest_with(open, all / 2);
    persist::Path path = tree.path();
    path.resize(middle);
    path.insert(path.begin(), before.begin(), before.end());
    add_work({WorkMode::kRest, tree.take_below(middle).after(path).to_numbers()});
    const bool has_more = tree.advance();
    CHECK(has_more);
    return;
  }
  for (persist::Path& path : from_beginning(tree.split().prefixes)) add_work({WorkMode::kAgain, std::move(path)});
}
void leave_tree(const persist::ChoiceTree& tree) { leave_work(from_beginning(tree)); }

// Tells the tree what the recovery in the slot chose among.
void note_run(persist::ChoiceTree& tree, Slot& slot) {
  tree.begin_run();
  // What comes after a second crash is explored by the child itself.
  for (std::uint32_t i = 0; i < slot.choice_count; ++i) tree.choose_among(*question_at(slot, i));
}

// Runs what is left of the tree, one recovery after the other. Long ones are handed on as branches.
void explore_again(persist::ChoiceTree tree) {
  g_series->long_in_a_row = 0;
  do {
    if (is_stopped()) return leave_tree(tree);
    if (is_work_wanted() && tree.run_count() != 0) give_away(tree);
    int status = 0;
    const Child child = run_series_from(tree, status);
    if (g_series->is_over) {
      settle(child, status);
      return;
    }
    tree = kept_tree(*g_series);
    note_run(tree, *child.slot);
    if (!settle(child, status)) return leave_tree(kept_tree(*g_series));
    if (tree.run_diverged()) {
      if (!is_stopped()) user_error("the recovery is not deterministic: run again, it met other choices");
      g.header->is_lost = 1;
      return;
    }
    if (is_long(g_series->long_in_a_row)) {
      // The rest of the tree, nearest to the root first.
      while (true) {
        std::vector<persist::Path> paths = from_beginning(tree.split().prefixes);
        if (paths.empty()) return;
        for (persist::Path& path : paths) add_work({WorkMode::kBranch, std::move(path)});
      }
    }
  } while (tree.advance());
}

[[noreturn]] void end_server() {
  g.slot->outcome = Outcome::kInner;
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

// The tree below the next choice of this process is the tree of a new series, and no longer of the old one.
void take_over_below() {
  persist::ChoiceTree tree = kept_tree(*g_series);
  const persist::ChoiceTree below = tree.take_below(g.slot->choice_count);
  keep_tree(*g_series, tree);
  g_series->has_stood = true;
  make_series();
  keep_tree(*g_series, below);
}

// Modelled files that the recovery left open: their numbers are to be free again.
void close_modelled_fds() {
  for (int fd : g.model->process->descriptors()) kernel(SYS_close, fd);
}

}  // namespace

void spend_series() {
  if (!g.restorable) return;
  g.restorable = false;
  g_series->is_spent = true;
}

bool can_stand() {
  const std::uint32_t choice = g.slot->choice_count;
  const std::uint64_t least_ns = g_series->stand_after_ns;
  if (choice < g_series->stand_from || choice > g_series->stand_to || !may_stand()) return false;
  const bool stands_here = g_standing_count != 0 && choice == 0;
  if (stands_here || is_stopped() || g_standing_count == kStandingMost) return false;
  // The time that has passed is cheaper to find out than the processor time, and not less.
  if (now_ns() - g.slot->began_ns < least_ns || used_cpu_ns() - g_series->began_cpu_ns < least_ns) return false;
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const std::uint64_t own_stack = reinterpret_cast<std::uint64_t>(g.envp) - here;  // wraps around above it
  const bool can =
      own_stack < kOwnStackMost && g.threads == 1 && !g.has_timer && g.model->process->descriptors().empty();
  if (!can) g_series->cannot_stand = true;
  return can;
}

void stand_at_choice() {
  hold_off_watchdog();
  g.slot->began_ns = 0;
  ++g.header->stood_count;
  g.restorable = false;
  take_over_below();
  ++g_standing_count;
  if (__builtin_setjmp(g_standing_at) != 0) return;
  explore_again(kept_tree(*g_series));
  end_server();
}

std::uint64_t image_break() { return g.restorable ? g_series->snapshot.program_break() : 0; }

void go_on_with_next() {
  Series& series = *g_series;
  const std::uint64_t cpu_ns = used_cpu_ns();
  const std::uint32_t long_in_a_row = cpu_ns > series.began_cpu_ns + kLongRecoveryNs ? series.long_in_a_row + 1 : 0;
  persist::ChoiceTree tree = kept_tree(series);
  note_run(tree, *g.slot);
  // The server, which does the same again, takes it from there.
  if (is_stopped() || tree.run_diverged() || is_long(long_in_a_row) || !tree.advance()) return;
  const Renewed renewed = settle_and_renew(*g.slot, *series.server_slot);
  if (renewed == Renewed::kBeingKilled) return;
  if (is_stopped()) {
    leave_tree(renewed == Renewed::kRecorded ? tree : kept_tree(series));
    g.slot->outcome = Outcome::kInner;
    series.is_over = true;
    return;
  }
  if (is_work_wanted()) give_away(tree);
  keep_tree(series, tree);
  series.long_in_a_row = long_in_a_row;
  ++series.restored_count;
  close_modelled_fds();
  series.snapshot.restore();
  series.began_cpu_ns = used_cpu_ns();
  __builtin_longjmp(series.resume_at, 1);
}

void serve_recoveries() {
  make_series();
  Work work;
  while (take_work(work)) {
    switch (work.mode) {
      case WorkMode::kAgain:
        explore_again(persist::ChoiceTree(work.numbers, {}, own_order()));
        break;
      case WorkMode::kRest:
        explore_again(persist::ChoiceTree::from_numbers(work.numbers));
        break;
      case WorkMode::kBranch:
        reap(start_recovery(work.mode, work.numbers));
        break;
    }
    work_done();
  }
  end_server();
}

void serve_samples(const Request& request) {
  make_series();
  std::mt19937_64 random(request.seed);
  for (std::uint64_t i = 0; i < request.count && !is_stopped(); ++i) {
    const std::uint64_t seed = random();
    bool is_done = false;
    while (!is_done && !is_stopped()) {
      g_explorer->sample(static_cast<search::Strategy>(request.strategy), i, seed);
      const Child child = start_recovery(WorkMode::kAgain, {});
      is_done = settle(child, wait_for(child));
    }
  }
  end_server();
}

}  // namespace crashcut::inprocess
