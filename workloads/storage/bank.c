/* A transfer between two accounts, a file each: 30 of alice's 100 to bob, who has none. No crash may make or lose
 * money, and a transfer that was confirmed stays.
 *
 * right: the new balances go to a log, which is durable before the accounts change and goes when they have.
 * two-saves: each account is replaced atomically and durably, but nothing ties the two together.
 * log-not-synced: the log is not durable before the accounts change. */
#include "atomic_save.h"
#include "storage.h"

typedef struct {
  uint64_t alice, bob, checksum;
} Balances;

static void save_number(const char* name, uint64_t number, SaveForm form) {
  must(atomic_save(name, &number, sizeof number, form));
}

static void apply(const Balances* balances) {
  save_number("alice", balances->alice, kSaveRight);
  save_number("bob", balances->bob, kSaveRight);
}

static void transfer(const Balances* after, SaveForm log_form) {
  must(atomic_save("transfer", after, sizeof *after, log_form));
  crashcut_mark("confirmed");
  apply(after);
  must(unlink("transfer"));
}

int main(int argc, char** argv) {
  if (is_recovery(argc, argv)) return 0;
  const Balances before = {.alice = 100, .bob = 0};
  Balances after = {.alice = 70, .bob = 30};
  after.checksum = checksum_of(&after, offsetof(Balances, checksum));
  apply(&before);
  crashcut_barrier();
  if (strcmp(argv[1], "right") == 0) {
    transfer(&after, kSaveRight);
  } else if (strcmp(argv[1], "log-not-synced") == 0) {
    transfer(&after, kSaveRenameOnly);
  } else if (strcmp(argv[1], "two-saves") == 0) {
    apply(&after);
    crashcut_mark("confirmed");
  } else {
    refuse_form(argv[1]);
  }
  return 0;
}

void crashcut_recover(void) {
  Balances found;
  if (read_file("transfer", &found, sizeof found) == sizeof found &&
      found.checksum == checksum_of(&found, offsetof(Balances, checksum))) {
    apply(&found);
  }
  uint64_t alice = 0, bob = 0;
  assert(read_file("alice", &alice, sizeof alice) == sizeof alice);
  assert(read_file("bob", &bob, sizeof bob) == sizeof bob);
  assert(alice + bob == 100);
  assert(bob == 30 || !crashcut_reached("confirmed"));
}
