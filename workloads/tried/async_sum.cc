// std::async: two tasks, and a promise that one thread sets while another waits for it.
#include <future>
#include <thread>

int main() {
  std::future<int> a = std::async(std::launch::async, [] { return 1; });
  std::future<int> b = std::async(std::launch::async, [] { return 2; });
  std::promise<int> promise;
  std::thread setter([&] { promise.set_value(3); });
  const int sum = a.get() + b.get() + promise.get_future().get();
  setter.join();
  return sum == 6 ? 0 : 1;
}
