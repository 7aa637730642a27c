// Medium: what a filesystem finds on its disk when it is mounted. After a crash each question decides a part of that.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusefs/types.h"

namespace crashcut::fusefs {

class Medium {
 public:
  virtual ~Medium() = default;
  // The inode under that name, or kNoIno.
  virtual Ino lookup(Ino dir, std::string_view name) = 0;
  // Every name that the directory may hold; lookup() says whether it does.
  virtual std::vector<std::string> possible_names(Ino dir) = 0;
  // Type bits (S_IFMT) of an inode: these are never in doubt.
  virtual mode_t type(Ino ino) = 0;
  virtual std::uint64_t size(Ino ino) = 0;
  virtual Meta meta(Ino ino) = 0;
  virtual Owner owner(Ino ino) = 0;
  // Whether the block holds data (a hole and an unwritten block read as NULs).
  virtual bool is_written(Ino ino, std::uint64_t block) = 0;
  // The blocks that may hold data, in any order; none if any block may. Decides nothing.
  virtual std::optional<std::vector<std::uint64_t>> possible_blocks(Ino) { return std::nullopt; }
  // Bytes from `offset` on, all of one sector. The rest of the sector stays undecided.
  virtual void read_bytes(Ino ino, std::uint64_t offset, std::span<std::byte> out) = 0;
  // The first inode number that the disk does not use.
  virtual Ino first_free_ino() = 0;
};

}  // namespace crashcut::fusefs
