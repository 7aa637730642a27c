// Unexplored: what a mount allows and the model of it does not explore, for reports.
#pragma once

#include <string_view>

#include "fusefs/profile.h"

namespace crashcut::fusefs {

// For a verdict, and a sentence. Both are empty where docs/ext4_model.md says all.
struct Unexplored {
  std::string_view scope, sentence;
};

inline Unexplored unexplored_of(const ModelOptions& options) {
  if (options.barrier) return {};
  return {" but for damage to the filesystem's own metadata, which barrier=0 allows",
          "Damage to the filesystem's own metadata, which is possible with barrier=0: link counts that do not fit, a "
          "name twice "
          "or gone, a disk that cannot be mounted. crashcut check --fs kernel:ext4:barrier=0 tries images of the "
          "kernel's disk."};
}

}  // namespace crashcut::fusefs
