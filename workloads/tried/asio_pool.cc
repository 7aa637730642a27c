// Boost.Asio: a pool of two threads runs three tasks; join() returns when all have run.
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <mutex>

int main() {
  boost::asio::thread_pool pool(2);
  std::mutex mutex;
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    boost::asio::post(pool, [&] {
      const std::lock_guard lock(mutex);
      ++done;
    });
  }
  pool.join();
  return done == 3 ? 0 : 1;
}
