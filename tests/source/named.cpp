// What source_names_test.cc looks for in C++.
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#define HERE(label) __asm__ volatile(".globl " #label "\n" #label ":\n\tnop")

namespace store {
struct Base {
  long kept;
};
struct Entry : Base {
  std::mutex lock;
  std::atomic<int> count;
  std::array<int, 4> sizes;
};
struct Table {
  static Entry shared;
  int first;
  Entry entries[2][2];
};
Entry Table::shared;
Table table;

namespace {
__attribute__((noinline)) void insert(const std::string& key, int) {
  static Entry local;
  HERE(here_insert);  // line: insert
  __asm__ volatile("" : : "r"(&local), "r"(&key) : "memory");
}
}  // namespace
}  // namespace store

int main() {
  std::thread writer([] {
    HERE(here_lambda);  // line: lambda
    store::insert("key", 1);
  });
  writer.join();
}
