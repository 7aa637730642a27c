// A thread pool over a bounded queue, in C++. `early` ends it without waiting for its work: a job may be lost.
// Usage: pool WORKERS JOBS right|early
#include <cassert>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t most) : most_(most) {}
  void put(int job) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [&] { return jobs_.size() < most_; });
    jobs_.push_back(job);
    has_jobs_.notify_one();
  }
  // False at the end.
  bool take(int& job) {
    std::unique_lock lock(mutex_);
    has_jobs_.wait(lock, [&] { return !jobs_.empty() || is_closed_; });
    if (jobs_.empty() || is_cut_short_) return false;
    job = jobs_.front();
    jobs_.pop_front();
    has_room_.notify_one();
    return true;
  }
  void close(bool cuts_short) {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    is_cut_short_ = cuts_short;
    has_jobs_.notify_all();
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable has_room_, has_jobs_;
  std::deque<int> jobs_;
  bool is_closed_ = false, is_cut_short_ = false;
};

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int workers = std::atoi(argv[1]), jobs = std::atoi(argv[2]);
  const bool is_early = std::string(argv[3]) == "early";
  BoundedQueue queue(2);
  std::mutex mutex;
  int done = 0;
  std::vector<std::thread> pool;
  for (int i = 0; i < workers; ++i) {
    pool.emplace_back([&] {
      int job = 0;
      while (queue.take(job)) {
        std::lock_guard lock(mutex);
        done += job;
      }
    });
  }
  for (int i = 0; i < jobs; ++i) queue.put(1);
  queue.close(is_early);
  for (std::thread& thread : pool) thread.join();
  assert(done == jobs);
}
