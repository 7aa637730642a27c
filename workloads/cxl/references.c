/* An allocator of objects that clients share by references. A machine is a client; the table says which object each of
 * its references leads to. The counts of references are in the objects. When a client has died, the other one takes its
 * references back: an object without any is free again, and so is a page without objects.
 *
 * A reference and its object's count do not change together. So a count is right only if nobody died in between, and
 * the next owner of the lock counts again.
 *
 * Argument: how many objects each client takes (2).
 *
 * MISTAKE_REFERENCE  the reference is not flushed
 * MISTAKE_NO_REPAIR  the next owner of the lock trusts the counts that the dead one left
 * MISTAKE_NO_FREE    a dead client's references are not taken back
 * MISTAKE_DIVIDE     a page is counted as used before it is laid out, and repair divides by the size of its objects */
#include "machines.h"

enum { kPages = 2, kPageBytes = 128, kObjectsMost = 2, kReferences = 4 };

struct page {
  volatile uint64_t object_bytes; /* 0: nobody uses it */
  volatile uint64_t counts[kObjectsMost];
} __attribute__((aligned(64)));
struct heap {
  struct guard guard;
  struct page pages[kPages];
  /* Of each client: 0, or where the object begins in the heap, plus 1. */
  volatile uint64_t references[kMachinesMost][kLineBytes / 8] __attribute__((aligned(64)));
};

static struct heap* g_heap;

static struct heap* the_heap(void) { return (struct heap*)crashcut_cxl("heap", sizeof(struct heap)); }
void crashcut_setup(void) { make_guard(&the_heap()->guard); }

static struct page* page_of(uint64_t reference) { return &g_heap->pages[(reference - 1) / kPageBytes]; }
static volatile uint64_t* count_of(uint64_t reference) {
  struct page* page = page_of(reference);
  return &page->counts[(reference - 1) % kPageBytes / page->object_bytes];
}
static void set_count(volatile uint64_t* count, uint64_t value) {
  *count = value;
  persist(count, 8);
}

/* Counts again; a page whose objects nobody refers to is left. */
static void repair(void) {
  for (int p = 0; p < kPages; ++p) {
    uint64_t counts[kObjectsMost] = {0}, all = 0;
    for (int m = 0; m < kMachinesMost; ++m) {
      for (int r = 0; r < kReferences; ++r) {
        const uint64_t reference = g_heap->references[m][r];
        if (reference == 0 || page_of(reference) != &g_heap->pages[p]) continue;
        ++counts[(reference - 1) % kPageBytes / page_of(reference)->object_bytes];
        ++all;
      }
    }
    for (int i = 0; i < kObjectsMost; ++i) set_count(&g_heap->pages[p].counts[i], counts[i]);
    if (all == 0) set_count(&g_heap->pages[p].object_bytes, 0);
  }
}

static void lay_out(struct page* page) { set_count(&page->object_bytes, kPageBytes / kObjectsMost); }

static void set_reference(int client, int reference, uint64_t value) {
  g_heap->references[client][reference] = value;
#ifndef MISTAKE_REFERENCE
  persist(&g_heap->references[client][reference], 8);
#endif
}

/* The reference leads to an object that nobody else has. */
static void take(int client, int reference) {
  enter(&g_heap->guard, repair);
  for (uint64_t p = 0; p < kPages; ++p) {
    struct page* page = &g_heap->pages[p];
    for (uint64_t i = 0; i < kObjectsMost; ++i) {
      if (page->counts[i] != 0) continue;
      const uint64_t begin = p * kPageBytes + i * (kPageBytes / kObjectsMost) + 1;
#ifdef MISTAKE_DIVIDE
      set_reference(client, reference, begin);
      if (page->object_bytes == 0) lay_out(page);
#else
      if (page->object_bytes == 0) lay_out(page);
      set_reference(client, reference, begin);
#endif
      set_count(&page->counts[i], 1);
      leave(&g_heap->guard);
      return;
    }
  }
  leave(&g_heap->guard);
  assert(0 && "there are objects for all");
}

static void give_back(int client, int reference) {
  const uint64_t value = g_heap->references[client][reference];
  if (value == 0) return;
  volatile uint64_t* count = count_of(value);
  assert(*count > 0);
  set_reference(client, reference, 0);
  set_count(count, *count - 1);
}

/* The client's machine has failed. */
static void take_back(int client) {
#ifndef MISTAKE_NO_FREE
  enter(&g_heap->guard, repair);
  for (int r = 0; r < kReferences; ++r) give_back(client, r);
  leave(&g_heap->guard);
#else
  (void)client;
#endif
}

/* Every object is referred to as often as it says, and one that a client holds is not free. */
static uint64_t check(void) {
  uint64_t held = 0;
  enter(&g_heap->guard, repair);
  for (int m = 0; m < kMachinesMost; ++m) {
    for (int r = 0; r < kReferences; ++r) {
      const uint64_t reference = g_heap->references[m][r];
      if (reference == 0) continue;
      ++held;
      assert(page_of(reference)->object_bytes != 0 && *count_of(reference) == 1);
    }
  }
  uint64_t counted = 0;
  for (int p = 0; p < kPages; ++p) {
    for (int i = 0; i < kObjectsMost; ++i) counted += g_heap->pages[p].counts[i];
  }
  assert(counted == held);
  leave(&g_heap->guard);
  return held;
}

int main(int argc, char** argv) {
  const int client = crashcut_machine(), count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 2;
  g_heap = the_heap();
  assert(count <= kReferences && count * crashcut_machines() <= kPages * kObjectsMost);
  if (crashcut_machines() == 1) crashcut_setup();
  for (int r = 0; r < count; ++r) take(client, r);
  if (client == 0) {
    enter(&g_heap->guard, repair);
    give_back(client, 0);
    leave(&g_heap->guard);
    return 0;
  }
  if (crashcut_wait_machine(0) == 1) {
    take_back(0);
    assert(check() == (uint64_t)count); /* only this client's are left */
  } else {
    assert(check() == (uint64_t)(2 * count - 1));
  }
  return 0;
}
