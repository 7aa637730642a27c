// Following: answers as a path says, as far as it goes; after that the newest of everything.
#pragma once

#include <span>

#include "persist/choices.h"

namespace crashcut::search {

class Following final : public persist::Chooser {
 public:
  explicit Following(std::span<const std::uint32_t> path = {}) : path_(path) {}
  std::uint32_t choose(const persist::Choice& choice) override {
    const std::uint32_t answer = at_ < path_.size() ? path_[at_++] : 0;
    return answer < choice.candidates.size() ? answer : 0;
  }

 private:
  std::span<const std::uint32_t> path_;
  std::size_t at_ = 0;
};

}  // namespace crashcut::search
