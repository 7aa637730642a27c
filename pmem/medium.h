// Medium: what persistent memory holds before a program writes: the ground that a Recorder records on.
//
// After a crash the medium is decided while it is read (pmem/crash_view.h). A recovery that only overwrites bytes does
//   not decide what they were.
#pragma once

#include "pmem/types.h"

namespace crashcut::pmem {

class Medium {
 public:
  virtual ~Medium() = default;
  // The bytes of `bytes`; all other bits of the result are 0. Decides them if they are not decided yet.
  virtual std::uint64_t read_word(WordNumber word, ByteMask bytes) = 0;
  // The bytes that are decided already, and their values; the other bits of `value` become 0. Decides nothing.
  virtual ByteMask known_bytes(WordNumber word, std::uint64_t& value) = 0;
};

}  // namespace crashcut::pmem
