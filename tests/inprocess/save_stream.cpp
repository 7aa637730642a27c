// std::ofstream, rename, std::filesystem; recovery throws.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "../../include/crashcut.h"

int main() {
  std::ofstream("a.tmp") << "hello";
  std::filesystem::rename("a.tmp", "a");
  crashcut_mark("saved");
}

void crashcut_recover() {
  std::ifstream in("a");
  std::stringstream s;
  if (in) s << in.rdbuf();
  std::cout << (in ? s.str() : "-") << " " << crashcut_reached("saved") << std::endl;
  if (crashcut_reached("saved") && s.str() != "hello") throw std::runtime_error("lost");
}
