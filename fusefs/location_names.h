// Names of a recording's locations and values that are the same in all executions of a program, whatever the order of
// its calls. They find recordings that a recovery cannot tell apart. Inodes are numbered by the thread that made them
// (effects.h).
#pragma once

#include <string_view>
#include <vector>

#include "fusefs/recording.h"

namespace crashcut::fusefs {

// Gets the name of everything that a recovery looks at, even if nothing was ever written there.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void note(std::uint64_t name) = 0;
};

std::uint64_t name_of_entry(Ino dir, std::string_view name);
std::uint64_t name_of_listing(Ino dir);  // all entries
std::uint64_t name_of_size(Ino ino);
std::uint64_t name_of_meta(Ino ino);
std::uint64_t name_of_block_map(Ino ino, std::uint64_t block);
// `generation`: how many other blocks the file had in this place before.
std::uint64_t name_of_sector(Ino ino, std::uint64_t block, std::uint64_t generation, std::uint64_t sector);
// All sectors of a place in a file: what a recovery looks at if the file never had a block there.
std::uint64_t name_of_place(Ino ino, std::uint64_t block);
std::uint64_t name_of_mark(std::string_view text);

class LocationNames final : public persist::StableNames {
 public:
  explicit LocationNames(const Recording& recording);
  std::uint64_t location(persist::LocationId location) const override { return names_[location]; }
  // The listing that an entry is part of, the place of a sector; 0 for others.
  std::uint64_t listing(persist::LocationId location) const override;
  std::uint64_t value(persist::LocationId location, persist::Value value) const override;

 private:
  const Recording& recording_;
  std::vector<std::uint64_t> generations_;  // of each block
  std::vector<std::uint64_t> names_;        // of each location
};

}  // namespace crashcut::fusefs
