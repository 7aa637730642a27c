// Two threads that take two locks in different orders.
#include <mutex>
#include <thread>

struct Slot {
  int used;
  std::mutex lock;
};
struct Table {
  int size;
  Slot slots[2];
} table;

static void take(int first) {
  std::lock_guard<std::mutex> one(table.slots[first].lock);      // line: first
  std::lock_guard<std::mutex> two(table.slots[1 - first].lock);  // line: second
  ++table.slots[first].used;
}

int main() {
  std::thread a(take, 0);  // line: thread
  std::thread b([] { take(1); });
  a.join();
  b.join();
}
