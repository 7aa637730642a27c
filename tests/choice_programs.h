// Programs that ask for the answers of a tree of choices, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "persist/choices.h"

namespace crashcut::persist {

// Asks for the answers of a tree in which every node of depth i has widths[i] children.
inline auto ask(std::vector<std::uint32_t> widths) {
  return [widths](ChoiceTree& tree) {
    for (std::uint32_t width : widths) tree.choose_among({width});
  };
}

// A program whose every choice hangs on all answers so far: a random tree of bounded depth.
struct RandomProgram {
  std::uint64_t seed;
  std::uint32_t depth_max;

  template <class Tree>
  void operator()(Tree& tree) const {
    std::uint64_t state = seed;
    for (std::uint32_t depth = 0; depth < depth_max; ++depth) {
      state = (state + 1) * 0x9e3779b97f4a7c15;
      state ^= state >> 29;
      if (state % 5 == 0) return;
      state +=
          tree.choose_among({static_cast<std::uint32_t>(2 + state / 5 % 3), static_cast<std::uint32_t>(state >> 32)});
    }
  }
};

}  // namespace crashcut::persist
