// What C++ has for threads, each by its name.
#include <pthread.h>

#include <atomic>
#include <barrier>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <random>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex m;
static int value = 0;
static thread_local int own = 5;
static int gone = 0;
struct AtEnd {
  ~AtEnd() {
    std::lock_guard lock(m);
    ++gone;
  }
};
static thread_local AtEnd at_end;

template <class F>
static void two(F f) {
  std::thread a(f), b(f);
  a.join();
  b.join();
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "mutex") {
    two([] {
      std::lock_guard lock(m);
      ++value;
    });
    assert(value == 2);
  }
  if (what == "condition") {
    std::condition_variable changed;
    bool is_ready = false;
    std::thread waiter([&] {
      std::unique_lock lock(m);
      changed.wait(lock, [&] { return is_ready; });
    });
    {
      std::lock_guard lock(m);
      is_ready = true;
    }
    changed.notify_one();
    waiter.join();
  }
  if (what == "shared") {
    std::shared_mutex shared;
    std::thread writer([&] {
      std::unique_lock lock(shared);
      ++value;
    });
    two([&] { std::shared_lock lock(shared); });
    writer.join();
  }
  if (what == "latch") {
    std::latch done(2);
    std::thread a([&] { done.count_down(); }), b([&] { done.count_down(); });
    done.wait();
    a.join();
    b.join();
  }
  if (what == "barrier") {
    std::barrier meet(2);
    two([&] { meet.arrive_and_wait(); });
  }
  if (what == "semaphore") {
    std::counting_semaphore<2> semaphore(0);
    std::thread waiter([&] { semaphore.acquire(); });
    semaphore.release();
    waiter.join();
  }
  if (what == "once") {
    std::once_flag flag;
    two([&] { std::call_once(flag, [] { ++value; }); });
    assert(value == 1);
  }
  if (what == "once-throws") {
    std::once_flag flag;
    static int calls = 0;
    two([&] {
      try {
        std::call_once(flag, [] {
          if (calls++ == 0) throw 1;
          ++value;
        });
      } catch (int) {
      }
    });
    assert(value == 1 && calls == 2);
  }
  if (what == "throws") {
    two([] {
      try {
        throw 1;
      } catch (int) {
      }
    });
  }
  if (what == "random") {
    std::random_device device;
    const auto any = [&] { return device() % 3 + std::mt19937(device())() % 3; };
    std::thread thread([n = any()] {
      for (unsigned i = 0; i < n; ++i) std::lock_guard lock(m);
    });
    for (unsigned i = 0, n = any(); i < n; ++i) std::lock_guard lock(m);
    thread.join();
  }
  if (what == "elapsed") {
    const auto then = std::chrono::steady_clock::now();
    std::async(std::launch::async, [] { std::this_thread::sleep_for(std::chrono::seconds(2)); }).get();
    assert(std::chrono::steady_clock::now() - then >= std::chrono::seconds(2));
    std::promise<void> promise;
    std::thread thread([&] {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      promise.set_value();
    });
    promise.get_future().wait();
    assert(std::chrono::steady_clock::now() - then >= std::chrono::seconds(4));
    thread.join();
  }
  if (what == "atomic") {
    std::atomic<int> word{0};
    std::thread waiter([&] { word.wait(0); });
    word = 1;
    word.notify_one();
    waiter.join();
  }
  if (what == "future") assert(std::async(std::launch::async, [] { return 7; }).get() == 7);
  if (what == "unwind") {
    static int left = 0;
    struct Guard {
      ~Guard() { ++left; }
    };
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          Guard guard;
          pthread_exit(nullptr);
        },
        nullptr);
    pthread_join(thread, nullptr);
    assert(left == 1);
  }
  if (what == "local") {
    two([] {
      (void)&at_end;
      assert(++own == 6);
    });
    assert(gone == 2 && own == 5);
  }
}
