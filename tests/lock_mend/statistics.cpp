// A method changes two numbers without a lock, another reads them.
// mend: one more mutex, held around statistics.cpp:27 (lambda in main) and statistics.cpp:28 (main): then none
#include <cassert>
#include <mutex>
#include <thread>

class Statistics {
 public:
  void note(int value) {
    // mended: const std::lock_guard lock(more_);
    sum_ += value;
    count_ += 1;
  }
  bool is_sound() {
    // mended: const std::lock_guard lock(more_);
    const int sum = sum_;
    return sum == 2 * count_;
  }

 private:
  // mended: std::mutex more_;
  int sum_ = 0, count_ = 0;
};

int main() {
  Statistics statistics;
  std::thread one([&] { statistics.note(2); });
  assert(statistics.is_sound());
  one.join();
}
