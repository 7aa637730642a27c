// Threads that meet in variables, by name: for tests of crashcut threads on instrumented programs. Each right program
// has its wrong twin.
#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <barrier>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

void run(std::vector<std::function<void()>> bodies) {
  std::vector<std::thread> threads;
  for (auto& body : bodies) threads.emplace_back(body);
  for (std::thread& thread : threads) thread.join();
}
void run(int n, std::function<void(int)> body) {
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < n; ++i) bodies.push_back([=] { body(i); });
  run(bodies);
}

std::atomic<int> a, turn;
std::atomic<int> wants[2];
std::atomic<bool> ready;
std::mutex mutex;
int counter, data;
char text[32], other_text[32];

__attribute__((noinline)) void increment() {
  int seen = counter;
  counter = seen + 1;  // the line that tests look for
}
__attribute__((noinline)) void step() {
  increment();
  asm volatile("");
}

void writers(int n) {
  run(n, [](int i) { a.store(i); });
}
void readers(int n) {
  run(n, [](int) { a.load(); });
}
void adders(int n) {
  run(n, [](int) { a.fetch_add(1, std::memory_order_relaxed); });
  assert(a == n);
}
void racing(int n) {
  run(n, [](int) { step(); });
  assert(counter == n);
}
void locked(int n) {
  run(n, [](int) {
    std::lock_guard hold(mutex);
    step();
  });
  assert(counter == n);
}

void message(std::memory_order out, std::memory_order in) {
  run({[=] {
         data = 7;
         ready.store(true, out);
       },
       [=] {
         if (ready.load(in)) assert(data == 7);
       }});
}
void fences(bool has_second) {
  run({[=] {
         data = 7;
         std::atomic_thread_fence(std::memory_order_release);
         ready.store(true, std::memory_order_relaxed);
       },
       [=] {
         if (!ready.load(std::memory_order_relaxed)) return;
         if (has_second) std::atomic_thread_fence(std::memory_order_acquire);
         assert(data == 7);
       }});
}

struct Config {
  int value = 5;
};
Config* plain_config;
std::atomic<Config*> atomic_config;
void checked_wrongly(int) {
  if (plain_config == nullptr) {
    std::lock_guard hold(mutex);
    if (plain_config == nullptr) plain_config = new Config;
  }
  assert(plain_config->value == 5);
}
void checked_rightly(int) {
  Config* found = atomic_config.load(std::memory_order_acquire);
  if (found == nullptr) {
    std::lock_guard hold(mutex);
    found = atomic_config.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = new Config;
      atomic_config.store(found, std::memory_order_release);
    }
  }
  assert(found->value == 5);
}

void peterson(int me) {
  wants[me] = 1;
  turn = 1 - me;
  while (wants[1 - me] == 1 && turn == 1 - me) {
  }
  step();
  wants[me] = 0;
}
// Says that it wants to enter after it has looked.
void peterson_wrong(int me) {
  turn = 1 - me;
  while (wants[1 - me] == 1 && turn == 1 - me) {
  }
  wants[me] = 1;
  step();
  wants[me] = 0;
}
void dekker(int me) {
  wants[me] = 1;
  while (wants[1 - me] == 1) {
    if (turn == me) continue;
    wants[me] = 0;
    while (turn != me) {
    }
    wants[me] = 1;
  }
  step();
  turn = 1 - me;
  wants[me] = 0;
}

std::atomic_flag flag;
void spinlock(int) {
  while (flag.test_and_set(std::memory_order_acquire)) {
  }
  step();
  flag.clear(std::memory_order_release);
}
void spinlock_yields(int) {
  while (flag.test_and_set()) std::this_thread::yield();
  step();
  flag.clear();
}
void spinlock_compares(int) {
  int free = 0;
  while (!a.compare_exchange_weak(free, 1)) free = 0;
  step();
  a.store(0);
}
// Gives up after some rounds: no livelock.
void tries_thrice() {
  for (int i = 0; i < 3; ++i) {
    if (ready.load()) return;
  }
}

int make() { return counter = 3; }
void local_static(int) {
  static int value = make();
  assert(value == 3);
}

struct Node {
  int value;
  Node* next;
};
std::atomic<Node*> head;
void push(int i) {
  Node* node = new Node{i, head.load(std::memory_order_relaxed)};
  while (!head.compare_exchange_weak(node->next, node, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void stack(int n) {
  run(n, push);
  int seen = 0;
  for (Node* node = head; node != nullptr; node = node->next) ++seen;
  assert(seen == n);
}

void latch(int n) {
  std::latch done(n);
  int results[8] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      results[i] = i + 1;
      done.count_down();
    });
  }
  done.wait();
  for (int i = 0; i < n; ++i) assert(results[i] == i + 1);
  for (std::thread& thread : threads) thread.join();
}
void barrier(int n) {
  std::barrier meeting(n);
  int results[8] = {};
  run(n, [&](int i) {
    results[i] = i + 1;
    meeting.arrive_and_wait();
    assert(results[(i + 1) % n] == (i + 1) % n + 1);
  });
}
void atomic_wait() {
  run({[] {
         data = 7;
         a.store(1);
         a.notify_one();
       },
       [] {
         a.wait(0);
         assert(data == 7);
       }});
}

// Whoever drops it last deletes it.
struct Counted {
  int value = 7;
  std::atomic<int> users{2};
  void drop(std::memory_order order) {
    assert(value == 7);
    if (users.fetch_sub(1, order) == 1) delete this;
  }
};
void counted(std::memory_order order) {
  auto* object = new Counted;
  run(2, [=](int) { object->drop(order); });
}

// Nodes are deleted as soon as they are taken off, though another may be looking at them.
void pop_and_delete(int) {
  Node* node = head.load();
  while (node != nullptr && !head.compare_exchange_weak(node, node->next)) continue;
  delete node;
}
void deleted_nodes() {
  push(1);
  push(2);
  run(2, pop_and_delete);
}

// All under the mutex, so no race: but the pointer outlives what it points to.
void deleted_under_mutex(bool forgets) {
  static int* place;
  place = new int(7);
  run({[=] {
         std::lock_guard lock(mutex);
         delete place;
         if (forgets) place = nullptr;
       },
       [] {
         std::lock_guard lock(mutex);
         if (place != nullptr) assert(*place == 7);
       }});
}

// libc locks the stream while it writes.
void stream() {
  FILE* log = std::fopen("log", "w");
  run(2, [=](int) {
    std::fprintf(log, "line\n");
    std::fflush(log);
  });
  assert(std::ftell(log) == 10);
  std::fclose(log);
}

// What has been waited for may be written to like any other memory.
void written_after_wait() {
  struct Message {
    std::atomic<int> is_there{0};
    int text = 0;
  };
  static Message message;
  run({[] {
         message.text = 7;
         message.is_there.store(1, std::memory_order_release);
       },
       [] {
         while (message.is_there.load(std::memory_order_acquire) == 0) continue;
         std::memset(static_cast<void*>(&message), 0, sizeof message);
       }});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int n = argc > 2 ? std::atoi(argv[2]) : 2;
  const std::map<std::string, std::function<void()>> programs = {
      {"writers", [=] { writers(n); }},
      {"readers", [=] { readers(n); }},
      {"adders", [=] { adders(n); }},
      {"racing", [=] { racing(n); }},
      {"locked", [=] { locked(n); }},
      {"message", [] { message(std::memory_order_release, std::memory_order_acquire); }},
      {"message-relaxed", [] { message(std::memory_order_relaxed, std::memory_order_relaxed); }},
      {"message-half", [] { message(std::memory_order_release, std::memory_order_relaxed); }},
      {"fences", [] { fences(true); }},
      {"fences-half", [] { fences(false); }},
      {"checked-wrongly", [=] { run(n, checked_wrongly); }},
      {"checked-rightly", [=] { run(n, checked_rightly); }},
      {"peterson", [] { run(2, peterson); }},
      {"peterson-wrong", [] { run(2, peterson_wrong); }},
      {"dekker", [] { run(2, dekker); }},
      {"spinlock", [=] { run(n, spinlock); }},
      {"spinlock-yields", [=] { run(n, spinlock_yields); }},
      {"spinlock-compares", [=] { run(n, spinlock_compares); }},
      {"waits-for-flag",
       [] {
         run({[] { ready = true; },
              [] {
                while (!ready) continue;
              }});
       }},
      {"waits-for-nothing",
       [] {
         run({[] {
           while (!ready) continue;
         }});
       }},
      {"waits-for-plain",
       [] {
         run({[] { data = 1; },
              [] {
                while (*const_cast<volatile int*>(&data) == 0) continue;
              }});
       }},
      {"tries",
       [] {
         run({[] { ready = true; }, tries_thrice});
       }},
      {"static", [=] { run(n, local_static); }},
      {"stack", [=] { stack(n); }},
      {"latch", [=] { latch(n); }},
      {"barrier", [=] { barrier(n); }},
      {"wait", atomic_wait},
      {"copy",
       [] {
         run({[] { std::memcpy(text, other_text, sizeof text); }, [] { text[9] = 'x'; }});
       }},
      {"neighbours",
       [] {
         run({[] { text[8] = 'x'; }, [] { text[9] = 'x'; }});
       }},
      {"counted", [] { counted(std::memory_order_acq_rel); }},
      {"counted-relaxed", [] { counted(std::memory_order_relaxed); }},
      {"deleted-nodes", deleted_nodes},
      {"deleted", [] { deleted_under_mutex(true); }},
      {"deleted-dangling", [] { deleted_under_mutex(false); }},
      {"written-after-wait", written_after_wait},
      {"stream", stream},
      {"before",
       [=] {
         data = 4;
         run(n, [](int) { assert(data == 4); });
       }},
  };
  const auto it = programs.find(what);
  if (it == programs.end()) return 2;
  it->second();
  return 0;
}
