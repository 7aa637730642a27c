// DramPasts: what each byte of ordinary memory that was stored to by a thread carries along: the fences before that
// store.
//
// A thread that reads the byte comes after these fences. That is all that crashes need to know of ordinary memory.
// Does not model: the values, and the order of two stores to one byte. The reads tell which store was the last.
// Cost: a hash of the word's address. Words whose last stores have no fence before them are not kept.
// Threads: not synchronised.
#pragma once

#include <unordered_map>
#include <vector>

#include "persist/fences.h"
#include "pmem/types.h"

namespace crashcut::pmem {

class DramPasts {
 public:
  // A store of `thread` to these bytes has left its buffer; `past` are the fences before it.
  void store(WordNumber word, ByteMask bytes, ThreadId thread, persist::FenceSetId past);

  // Calls visit(past) for each store of a thread other than `reader` that these bytes come from.
  template <class Visit>
  void for_each_store_of_others(WordNumber word, ByteMask bytes, ThreadId reader, Visit&& visit) const {
    const auto found = words_.find(word);
    if (found == words_.end()) return;
    for (const Part& part : found->second) {
      if ((part.bytes & bytes) != 0 && part.thread != reader) visit(part.past);
    }
  }

 private:
  // Bytes of a word whose last store is the same one, or another one of the same thread with the same past.
  struct Part {
    ByteMask bytes;
    ThreadId thread;
    persist::FenceSetId past;
  };
  std::unordered_map<WordNumber, std::vector<Part>> words_;
};

}  // namespace crashcut::pmem
