// Containers, exceptions, virtual calls, long double, big structures by value.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

struct Shape {
  virtual ~Shape() = default;
  virtual long double area() const = 0;
};
struct Square : Shape {
  long double side;
  explicit Square(long double s) : side(s) {}
  long double area() const override { return side * side; }
};
struct Big {
  long values[9];
  bool flags[5];
};
static long total(Big big) {
  big.values[0] += 1;
  return big.values[0] + big.values[8] + big.flags[4];
}

int main() {
  std::map<std::string, std::vector<int>> map;
  std::unordered_map<int, std::string> hash;
  for (int i = 0; i < 500; ++i) {
    map["key" + std::to_string(i % 37)].push_back(i * 7 % 101);
    hash[i * 31] += std::to_string(i);
  }
  long sum = 0;
  for (auto& [key, values] : map) {
    std::sort(values.begin(), values.end(), std::greater<>());
    sum = sum * 31 + values[0] + static_cast<long>(key.size());
  }
  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < 5; ++i) shapes.push_back(std::make_unique<Square>(i + 0.5L));
  long double area = 0;
  for (const auto& shape : shapes) area += shape->area();
  int caught = 0;
  for (int i = 0; i < 10; ++i) {
    try {
      if (map.at("key" + std::to_string(30 + i)).empty()) throw std::runtime_error("empty");
    } catch (const std::out_of_range&) {
      ++caught;
    }
  }
  auto big = std::make_unique<Big>(Big{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {true, false, true, false, true}});
  std::printf("%ld %s %.3Lf %d %ld\n", sum, hash[31].c_str(), area, caught, total(*big));
}
