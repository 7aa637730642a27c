// Server: a process that stands just before crashcut_recover(), with the crashed disk ready, and forks recoveries.
//
// It never runs the program itself, so its pages stay as they are: a recovery that it forks costs little more than
//   the fork. One server a job, each on its own core.
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/gate.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/work.h"

namespace crashcut::inprocess {

namespace {

// Longer recoveries are forked at their choices. A fork in a chain of forks costs about twice as much as one from
// a server: below this, running again what came before the choice is cheaper.
constexpr std::uint64_t kLongRecoveryNs = 500000;
constexpr int kLongInARow = 3;

bool is_stopped() { return g.header->stop.load(std::memory_order_relaxed) != 0; }

Child start_recovery(WorkMode mode, const persist::Path& path) {
  g_explorer->follow(mode, path);
  Slot* slot = take_slot();
  if (slot == nullptr) tool_error("too many processes");
  const Child child = fork_child(slot);
  if (child.pid < 0) tool_error("the system has no room for another process (fork failed)");
  if (child.pid == 0) run_recovery();
  return child;
}

void give_away(persist::ChoiceTree& tree, WorkMode mode) {
  for (persist::Path& path : tree.split()) add_work({mode, std::move(path)});
}

// Runs everything below the path, one recovery after the other. Long ones are handed on as branches.
void explore_again(const persist::Path& prefix) {
  persist::ChoiceTree tree(prefix);
  int long_in_a_row = 0;  // one may be long by chance
  do {
    if (is_stopped()) {
      g.header->bounded = 1;
      return;
    }
    if (is_work_wanted() && tree.run_count() != 0) give_away(tree, WorkMode::kAgain);
    std::uint64_t took = 0;
    const Child child = start_recovery(WorkMode::kAgain, tree.path());
    const int status = wait_for(child, &took);
    tree.begin_run();
    for (std::uint32_t i = 0; i < child.slot->choice_count; ++i) {
      // What comes after a second crash is explored by the child itself.
      tree.choose_among(*choice_count_at(*child.slot, i));
    }
    settle(child, status);
    if (tree.run_diverged() && !is_stopped()) tool_error("the recovery is not deterministic: run again, it met other choices");
    long_in_a_row = took > kLongRecoveryNs ? long_in_a_row + 1 : 0;
    if (long_in_a_row >= kLongInARow) {
      // The rest of the tree, nearest to the root first.
      while (true) {
        const std::vector<persist::Path> paths = tree.split();
        if (paths.empty()) return;
        for (const persist::Path& path : paths) add_work({WorkMode::kBranch, path});
      }
    }
  } while (tree.advance());
}

}  // namespace

void serve_recoveries() {
  Work work;
  while (take_work(work)) {
    if (work.mode == WorkMode::kAgain) {
      explore_again(work.path);
    } else {
      const Child child = start_recovery(work.mode, work.path);
      settle(child, wait_for(child));
    }
    work_done();
  }
  g.slot->outcome = Outcome::kInner;
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

}  // namespace crashcut::inprocess
