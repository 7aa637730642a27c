/* Machines that insert keys into one index, each machine by several threads.
 *
 * Arguments: keys (4), threads a machine (1), "in-turn": a machine begins when the ones before it are gone.
 * The index defines put(), get() and repair(); put() and get() are called under the lock, unless the index has
 * INDEX_WITHOUT_LOCK. INDEX_SETUP is what it wants done before the machines start.
 *
 * A thread counts the keys that it has promised, in shared memory. Each key that was promised is found, whoever is
 * gone. A machine that waits for a dead one puts the key that the dead one may have been at. */
#undef main
#undef crashcut_recover

struct progress {
  volatile uint64_t promised; /* how many of the thread's keys */
} __attribute__((aligned(64)));
struct frame {
  struct guard guard;
  struct progress progress[kMachinesMost][kThreadsMost];
};

static struct frame* g_frame;
static unsigned g_keys, g_threads;

static struct frame* the_frame(void) { return (struct frame*)crashcut_cxl("frame", sizeof(struct frame)); }

#ifdef INDEX_WITHOUT_LOCK
static void begin_access(void) {}
static void end_access(void) {}
#else
static void begin_access(void) { enter(&g_frame->guard, repair); }
static void end_access(void) { leave(&g_frame->guard); }
#endif

/* The keys of a thread: every n-th one. */
static unsigned first_of(int machine, unsigned thread) { return (unsigned)machine * g_threads + thread; }
static unsigned stride(void) { return (unsigned)crashcut_machines() * g_threads; }

static void check(int machine, unsigned thread, unsigned promised) {
  for (unsigned i = first_of(machine, thread), n = 0; n < promised; i += stride(), ++n) {
    begin_access();
    const uint64_t value = get(key_of(i));
    end_access();
    assert(value == value_of(key_of(i)));
  }
}

/* The first key that was not promised is put, if it is not there. */
static void take_over(int machine, unsigned thread, unsigned promised) {
  const unsigned i = first_of(machine, thread) + promised * stride();
  if (i >= g_keys) return;
  begin_access();
  if (get(key_of(i)) == 0) put(key_of(i));
  end_access();
  check(machine, thread, promised + 1);
}

static void* insert_keys(void* number) {
  const unsigned thread = *(unsigned*)number;
  struct progress* own = &g_frame->progress[crashcut_machine()][thread];
  unsigned promised = 0;
  for (unsigned i = first_of(crashcut_machine(), thread); i < g_keys; i += stride()) {
    begin_access();
    put(key_of(i));
    end_access();
    own->promised = ++promised;
    persist(&own->promised, 8);
  }
  check(crashcut_machine(), thread, promised);
  return NULL;
}

void crashcut_setup(void) {
  make_guard(&the_frame()->guard);
#ifdef INDEX_SETUP
  INDEX_SETUP();
#endif
}

int main(int argc, char** argv) {
  const int machine = crashcut_machine(), is_in_turn = argc > 3 && strcmp(argv[3], "in-turn") == 0;
  g_keys = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 4;
  g_threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
  *kept_count() = g_keys;
  g_frame = the_frame();
  the_pool(); /* pointers lead there: it is mapped before the first one is followed */
  assert(crashcut_machines() <= kMachinesMost && g_threads >= 1 && g_threads <= kThreadsMost);
  if (crashcut_machines() == 1) crashcut_setup();
  for (int m = 0; is_in_turn && m < machine; ++m) crashcut_wait_machine(m);
  run_threads(g_threads, insert_keys);
  /* What the machines before this one had promised is there, also if they failed. */
  for (int m = 0; m < machine; ++m) {
    crashcut_wait_machine(m);
    for (unsigned t = 0; t < g_threads; ++t) {
      const unsigned promised = (unsigned)g_frame->progress[m][t].promised;
      check(m, t, promised);
      take_over(m, t, promised);
    }
  }
  return 0;
}
