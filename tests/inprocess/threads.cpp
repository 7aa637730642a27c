// Threads in main() and in recovery. With an argument those of main() run one after the other, so that each run
// is like the last.
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../../include/crashcut.h"

int main(int argc, char**) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([i] { std::ofstream("t" + std::to_string(i)) << i; });
    if (argc > 1) threads.back().join();
  }
  for (auto& t : threads) {
    if (t.joinable()) t.join();
  }
}

void crashcut_recover() {
  int found = 0;
  std::thread([&] {
    for (int i = 0; i < 3; ++i) {
      struct stat st;
      if (stat(("t" + std::to_string(i)).c_str(), &st) == 0) ++found;
    }
  }).join();
  std::printf("%d\n", found);
}
