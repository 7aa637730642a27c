// std::mutex in opposite orders.
// mend: lock mutex journal before mutex accounts at order.cpp:11 (pay): then none of the
#include <mutex>
#include <thread>

static std::mutex accounts, journal;
static int entries;

static void pay() {
  // mended: journal.lock();
  accounts.lock();
  // mended: if (false)
  journal.lock();
  ++entries;
  journal.unlock();
  accounts.unlock();
}
static void report() {
  journal.lock();
  accounts.lock();
  --entries;
  accounts.unlock();
  journal.unlock();
}

int main() {
  std::thread one(pay), other(report);
  one.join();
  other.join();
}
