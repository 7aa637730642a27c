// oneTBB: parallel_reduce over a hundred numbers by two threads.
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_reduce.h>

int main() {
  const tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
  const int sum = tbb::parallel_reduce(
      tbb::blocked_range<int>(0, 100, 50), 0,
      [](const tbb::blocked_range<int>& range, int value) {
        for (int i = range.begin(); i < range.end(); ++i) value += i;
        return value;
      },
      [](int a, int b) { return a + b; });
  return sum == 4950 ? 0 : 1;
}
