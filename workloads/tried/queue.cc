// A queue of one place: queue right|wrong
//
// "right" has a condition variable for each thing that is waited for. "wrong" has one for both and wakes one thread:
// the signal may go to a thread that waits for the other thing, and then all wait for ever. It takes four threads.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

class Queue {
 public:
  explicit Queue(bool is_right) : not_full_(is_right ? own_ : not_empty_) {}

  void put() {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return count_ == 0; });
    ++count_;
    not_empty_.notify_one();
  }
  void take() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [&] { return count_ == 1; });
    --count_;
    not_full_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_empty_, own_;
  std::condition_variable& not_full_;
  int count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Queue queue(argc > 1 && std::strcmp(argv[1], "right") == 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { queue.put(); });
    threads.emplace_back([&] { queue.take(); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
