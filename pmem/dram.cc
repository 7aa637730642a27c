#include "pmem/dram.h"

namespace crashcut::pmem {

void DramPasts::store(WordNumber word, ByteMask bytes, ThreadId thread, persist::FenceSetId past) {
  auto found = words_.find(word);
  if (found == words_.end()) {
    if (past == persist::kNoFences) return;
    found = words_.try_emplace(word).first;
  }
  std::vector<Part>& parts = found->second;
  for (Part& part : parts) part.bytes = static_cast<ByteMask>(part.bytes & ~bytes);
  std::erase_if(parts, [](const Part& part) { return part.bytes == 0; });
  if (past != persist::kNoFences) parts.push_back(Part{bytes, thread, past});
  if (parts.empty()) words_.erase(found);
}

}  // namespace crashcut::pmem
