// Threads that meet in an atomic variable that nobody sees: it decides which mutex a thread locks. Two of them meet in
// a mutex before. "wrong": the third thread must not be the first to come.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace {

std::mutex before, own[3];
std::atomic<int> next_number{0};
bool is_wrong = false;

void take_number(bool is_third) {
  if (!is_third) std::lock_guard guard(before);
  const int number = next_number.fetch_add(1);
  if (is_wrong && is_third && number == 0) std::abort();
  std::lock_guard guard(own[number]);
}

}  // namespace

int main(int argc, char** argv) {
  is_wrong = argc > 1 && std::strcmp(argv[1], "wrong") == 0;
  std::thread a(take_number, false), b(take_number, false), c(take_number, true);
  a.join();
  b.join();
  c.join();
}
