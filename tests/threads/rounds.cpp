// Loops that lock or try, and come round to where they were, or do not.
#include <semaphore.h>

#include <cassert>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

static std::mutex a, b, c;
static int value = 0, rounds = 0;
static bool is_done = false, gave_up = false;

static void set_done() {
  std::lock_guard lock(a);
  is_done = true;
}
static void wait_until_done() {
  while (true) {
    std::lock_guard lock(a);
    if (is_done) return;
  }
}
// The rounds are counted in memory that others can read: none is like the one before.
static void give_up_in_time() {
  while (true) {
    a.lock();
    if (b.try_lock()) break;
    a.unlock();
    if (++rounds == 6) {
      gave_up = true;
      return;
    }
  }
  b.unlock();
  a.unlock();
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "scoped_lock") {
    const auto both = [](std::mutex& first, std::mutex& second) {
      std::scoped_lock lock(first, second);
      ++value;
    };
    std::thread other([&] { both(a, b); });
    both(b, a);
    other.join();
    assert(value == 2);
  }
  if (what == "poll" || what == "poll-too-late") {
    std::thread worker([] {
      { std::lock_guard lock(a); }
      set_done();
      std::lock_guard lock(c);
      value = 1;
    });
    wait_until_done();
    {
      std::lock_guard lock(c);
      assert(value == 0 || what == "poll");
    }
    worker.join();
  }
  if (what == "poll-for-ever") {
    std::thread worker([] { std::lock_guard lock(a); });
    wait_until_done();
    worker.join();
  }
  if (what == "poll-and-sleep") {
    std::thread worker(set_done);
    for (bool was_done = false; !was_done;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::lock_guard lock(a);
      was_done = is_done;
    }
    worker.join();
  }
  if (what == "poll-by-semaphore") {
    sem_t one;
    sem_init(&one, 0, 1);
    std::thread worker([&] {
      sem_wait(&one);
      is_done = true;
      sem_post(&one);
    });
    for (bool was_done = false; !was_done;) {
      sem_wait(&one);
      was_done = is_done;
      sem_post(&one);
    }
    worker.join();
  }
  if (what == "poll-for-each-other") {
    std::thread other(wait_until_done);
    wait_until_done();
    set_done();
    other.join();
  }
  if (what == "give-up") {
    std::thread holder([] {
      std::lock_guard lock(b);
      std::lock_guard inner(c);
    });
    give_up_in_time();
    holder.join();
    assert(!gave_up);
  }
}
