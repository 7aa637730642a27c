/* A two-phase commit: a transfer from an account of machine 0 to one of machine 1. Machine 0 coordinates. Each machine
 * votes, the coordinator decides, each machine changes its own account. If the coordinator dies before it has decided,
 * the other machine decides that nothing happens. If a machine dies before it has changed its account, the other one
 * does that.
 *
 * A decision is made by one compare-and-swap, and is durable before anybody acts on it. An account's balance and
 * whether the transfer is in it are one word, so that it is changed once.
 *
 * MISTAKE_DECISION  the coordinator changes its account before the decision is durable
 * MISTAKE_APPLY     the balance and whether the transfer is in it are two words
 * MISTAKE_PRESUME   if the coordinator has died and all have voted yes, the other machine takes it for decided */
#include "machines.h"

enum { kBalance = 100, kAmount = 30 };
enum decision { kUndecided, kCommitted, kAborted };

struct account {
  uint64_t state;  /* the balance, and above it whether the transfer is in it; atomic */
  uint64_t has_it; /* MISTAKE_APPLY: the latter */
} __attribute__((aligned(64)));
struct transfer {
  sem_t voted, decided;
  volatile uint64_t votes[kMachinesMost][kLineBytes / 8] __attribute__((aligned(64)));
  uint64_t decision __attribute__((aligned(64))); /* atomic */
  struct account accounts[kMachinesMost];
};

static struct transfer* g_transfer;

static struct transfer* the_transfer(void) {
  return (struct transfer*)crashcut_cxl("transfer", sizeof(struct transfer));
}
void crashcut_setup(void) {
  struct transfer* transfer = the_transfer();
  assert(sem_init(&transfer->voted, 1, 0) == 0 && sem_init(&transfer->decided, 1, 0) == 0);
  for (int m = 0; m < kMachinesMost; ++m) transfer->accounts[m].state = kBalance;
}

static uint64_t load(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static uint64_t balance_of(int machine) { return load(&g_transfer->accounts[machine].state) & 0xffffffff; }

/* The first decision counts. */
static enum decision decide(enum decision wanted) {
  uint64_t found = kUndecided;
  __atomic_compare_exchange_n(&g_transfer->decision, &found, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  persist(&g_transfer->decision, 8);
  return (enum decision)load(&g_transfer->decision);
}

static void vote(int machine) {
  g_transfer->votes[machine][0] = 1;
  persist(&g_transfer->votes[machine][0], 8);
  sem_post(&g_transfer->voted);
}

/* Once, whoever does it, and however often. */
static void apply(int machine) {
  struct account* account = &g_transfer->accounts[machine];
  const uint64_t change = machine == 0 ? (uint64_t)-kAmount : kAmount;
#ifdef MISTAKE_APPLY
  if (load(&account->has_it) != 0) return;
  __atomic_store_n(&account->state, load(&account->state) + change, __ATOMIC_RELEASE);
  persist(account, sizeof *account);
  __atomic_store_n(&account->has_it, 1, __ATOMIC_RELEASE);
#else
  const uint64_t state = load(&account->state);
  if (state >> 32 != 0) return;
  __atomic_store_n(&account->state, (1ULL << 32) | (uint32_t)(state + change), __ATOMIC_RELEASE);
#endif
  persist(account, sizeof *account);
}

static void coordinate(struct watch* other) {
  vote(0);
  for (int i = 0; i < kMachinesMost && !(other != NULL && is_over(other)); ++i) sem_wait(&g_transfer->voted);
  int all = 1;
  for (int m = 0; m < crashcut_machines(); ++m) all = all && g_transfer->votes[m][0] != 0;
#ifdef MISTAKE_DECISION
  uint64_t found = kUndecided;
  if (all &&
      __atomic_compare_exchange_n(&g_transfer->decision, &found, kCommitted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    apply(0);
  persist(&g_transfer->decision, 8);
  if (!all) decide(kAborted);
#else
  if (decide(all ? kCommitted : kAborted) == kCommitted) apply(0);
#endif
  sem_post(&g_transfer->decided);
}

/* Waits for the decision; the coordinator may be gone. */
static void follow(struct watch* coordinator) {
  vote(1);
  sem_wait(&g_transfer->decided);
  enum decision decision = (enum decision)load(&g_transfer->decision);
  if (decision == kUndecided) {
    assert(is_over(coordinator));
#ifdef MISTAKE_PRESUME
    decision = g_transfer->votes[0][0] != 0 ? kCommitted : decide(kAborted);
#else
    decision = decide(kAborted);
#endif
  }
  if (decision == kCommitted) apply(1);
  /* What the coordinator has not done, if it is gone. */
  crashcut_wait_machine(0);
  if (load(&g_transfer->decision) == kCommitted) apply(0);
  const int is_done = balance_of(0) == kBalance - kAmount && balance_of(1) == kBalance + kAmount;
  assert(is_done || (balance_of(0) == kBalance && balance_of(1) == kBalance));
  assert(is_done == (load(&g_transfer->decision) == kCommitted));
}

int main(void) {
  static struct watch other;
  g_transfer = the_transfer();
  if (crashcut_machines() == 1) {
    crashcut_setup();
    vote(1);
    coordinate(NULL);
    if (load(&g_transfer->decision) == kCommitted) apply(1);
    assert(balance_of(0) == kBalance - kAmount && balance_of(1) == kBalance + kAmount);
    return 0;
  }
  other.machine = 1 - crashcut_machine();
  other.to_post = crashcut_machine() == 0 ? &g_transfer->voted : &g_transfer->decided;
  begin_watch(&other);
  if (crashcut_machine() == 0)
    coordinate(&other);
  else
    follow(&other);
  return 0;
}
