/* Transactions with an undo log: transfers between accounts, each of which changes two words in two lines. Old values
 * are durable in the log before a word changes; the log is emptied after all changes are durable.
 *
 * MISTAKE_LOG       the log's entry is not flushed before its count
 * MISTAKE_ADD       the second word is changed without being logged
 * MISTAKE_COMMIT    the log is emptied before the changes are durable
 * MISTAKE_RECOVERY  rolling back empties the log before the old values are durable (a second crash shows it) */
#include "pmem.h"

enum { kAccounts = 4, kStart = 1000, kEntries = 4 };

struct account {
  volatile uint64_t balance;
  char pad[kLineBytes - 8];
};
struct entry {
  volatile uint64_t* at;
  uint64_t old;
};
struct bank {
  struct account accounts[kAccounts];
  volatile uint64_t logged; /* entries of the transaction that is under way */
  char pad[kLineBytes - 8];
  struct entry entries[kEntries];
};

static struct bank* the_bank(void) { return (struct bank*)crashcut_pmem("bank", sizeof(struct bank)); }

static void add_to_transaction(struct bank* bank, volatile uint64_t* word) {
  struct entry* entry = &bank->entries[bank->logged];
  entry->at = word;
  entry->old = *word;
#ifndef MISTAKE_LOG
  persist(entry, sizeof *entry);
#endif
  bank->logged = bank->logged + 1;
  persist(&bank->logged, 8);
}

static void empty_log(struct bank* bank) {
  bank->logged = 0;
  persist(&bank->logged, 8);
}

static void transfer(struct bank* bank, unsigned from, unsigned to, uint64_t amount) {
  volatile uint64_t* const out = &bank->accounts[from].balance;
  volatile uint64_t* const in = &bank->accounts[to].balance;
  add_to_transaction(bank, out);
  *out = *out - amount;
  flush(out, 8);
#ifndef MISTAKE_ADD
  add_to_transaction(bank, in);
#endif
  *in = *in + amount;
#ifdef MISTAKE_COMMIT
  empty_log(bank);
  persist(in, 8);
#else
  persist(in, 8);
  empty_log(bank);
#endif
}

static void roll_back(struct bank* bank) {
  const uint64_t logged = bank->logged;
  if (logged == 0) return;
  assert(logged <= kEntries);
#ifdef MISTAKE_RECOVERY
  empty_log(bank);
#endif
  for (uint64_t i = logged; i-- > 0;) {
    const struct entry* entry = &bank->entries[i];
    assert((char*)entry->at >= (char*)bank && (char*)entry->at < (char*)(bank->accounts + kAccounts));
    *entry->at = entry->old;
    flush(entry->at, 8);
  }
  fence();
  empty_log(bank);
}

static unsigned from_of(unsigned i) { return i % kAccounts; }
static unsigned to_of(unsigned i) { return (i + 1) % kAccounts; }

/* Whether the accounts are as after so many transfers. */
static int is_after(const struct bank* bank, unsigned count) {
  uint64_t expected[kAccounts];
  for (unsigned i = 0; i < kAccounts; ++i) expected[i] = kStart;
  for (unsigned i = 0; i < count; ++i) expected[from_of(i)] -= i + 1, expected[to_of(i)] += i + 1;
  for (unsigned i = 0; i < kAccounts; ++i) {
    if (bank->accounts[i].balance != expected[i]) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  struct bank* bank = the_bank();
  for (unsigned i = 0; i < kAccounts; ++i) bank->accounts[i].balance = kStart;
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    transfer(bank, from_of(i), to_of(i), i + 1);
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  struct bank* bank = the_bank();
  roll_back(bank);
  unsigned promised = 0;
  while (promised < *kept_count() && crashcut_reached(promise(promised))) ++promised;
  const int is_done = promised < *kept_count() && is_after(bank, promised + 1);
  assert(is_done || is_after(bank, promised));
  printf("%u transfers\n", promised + (unsigned)is_done);
}
