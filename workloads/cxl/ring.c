/* A ring buffer: machine 0 sends messages, machine 1 takes them, in order, each with its contents. One word says how
 * many messages and bytes were sent. A message is durable before that word counts it, and the word is durable before
 * the receiver is told. Each side watches the other one's machine.
 *
 * Argument: how many messages (3).
 *
 * MISTAKE_SLOT      the message is not flushed before it is counted
 * MISTAKE_SENT      the receiver is told before the word is durable
 * MISTAKE_COUNTERS  messages and bytes are counted one after the other, in two words */
#include "machines.h"

enum { kSlots = 2, kBytesOfMessage = 16 };

struct message {
  volatile uint64_t number, body;
} __attribute__((aligned(64)));
struct ring {
  sem_t filled, room;
  uint64_t sent __attribute__((aligned(64))); /* messages, and above them bytes: 32 bits each; atomic */
  uint64_t bytes __attribute__((aligned(64)));
  uint64_t taken __attribute__((aligned(64)));
  struct message slots[kSlots];
};

static struct ring* the_ring(void) { return (struct ring*)crashcut_cxl("ring", sizeof(struct ring)); }
static uint64_t body_of(uint64_t number) { return number * 31 + 7; }

void crashcut_setup(void) {
  assert(sem_init(&the_ring()->filled, 1, 0) == 0);
  assert(sem_init(&the_ring()->room, 1, kSlots) == 0);
}

static void count_sent(struct ring* ring, uint64_t messages) {
#ifdef MISTAKE_COUNTERS
  __atomic_store_n(&ring->sent, messages, __ATOMIC_RELEASE);
  persist(&ring->sent, 8);
  __atomic_store_n(&ring->bytes, messages * kBytesOfMessage, __ATOMIC_RELEASE);
  persist(&ring->bytes, 8);
#else
  __atomic_store_n(&ring->sent, messages | messages * kBytesOfMessage << 32, __ATOMIC_RELEASE);
#ifndef MISTAKE_SENT
  persist(&ring->sent, 8);
#endif
#endif
}
static uint64_t sent_messages(struct ring* ring) {
  const uint64_t sent = __atomic_load_n(&ring->sent, __ATOMIC_ACQUIRE);
#ifdef MISTAKE_COUNTERS
  const uint64_t bytes = __atomic_load_n(&ring->bytes, __ATOMIC_ACQUIRE);
#else
  const uint64_t bytes = sent >> 32;
#endif
  assert(bytes == (sent & 0xffffffff) * kBytesOfMessage);
  return sent & 0xffffffff;
}

static void send_messages(struct ring* ring, uint64_t count, const struct watch* receiver) {
  for (uint64_t n = 0; n < count; ++n) {
    if (receiver != NULL && is_over(receiver)) return;
    sem_wait(&ring->room);
    if (receiver != NULL && is_over(receiver)) return;
    struct message* slot = &ring->slots[n % kSlots];
    slot->number = n;
    slot->body = body_of(n);
#ifndef MISTAKE_SLOT
    persist(slot, sizeof *slot);
#endif
    count_sent(ring, n + 1);
    sem_post(&ring->filled);
  }
}

static void take_messages(struct ring* ring, uint64_t count, const struct watch* sender) {
  for (uint64_t n = 0; n < count; ++n) {
    const int was_over = sender != NULL && is_over(sender);
    if (!was_over) sem_wait(&ring->filled);
    if (n == sent_messages(ring)) {
      assert(sender != NULL && is_over(sender)); /* who is told finds a message, or the sender is gone */
      return;
    }
    const struct message* slot = &ring->slots[n % kSlots];
    assert(slot->number == n && slot->body == body_of(n));
    ring->taken = n + 1;
    persist(&ring->taken, 8);
    sem_post(&ring->room);
  }
}

static uint64_t g_count;
static void* take_here(void* ring) {
  take_messages((struct ring*)ring, g_count, NULL);
  return NULL;
}

int main(int argc, char** argv) {
  struct ring* ring = the_ring();
  static struct watch other;
  g_count = argc > 1 ? strtoul(argv[1], NULL, 10) : 3;
  if (crashcut_machines() == 1) {
    pthread_t receiver;
    crashcut_setup();
    assert(pthread_create(&receiver, NULL, take_here, ring) == 0);
    send_messages(ring, g_count, NULL);
    assert(pthread_join(receiver, NULL) == 0 && ring->taken == g_count);
    return 0;
  }
  other.machine = 1 - crashcut_machine();
  other.to_post = crashcut_machine() == 0 ? &ring->room : &ring->filled;
  begin_watch(&other);
  if (crashcut_machine() == 0)
    send_messages(ring, g_count, &other);
  else
    take_messages(ring, g_count, &other);
  return 0;
}
