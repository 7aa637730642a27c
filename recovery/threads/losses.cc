#include "recovery/threads/losses.h"

#include <sstream>

namespace crashcut::recovery {

std::vector<StoreAtStake> read_losses(const std::string& text) {
  std::vector<StoreAtStake> stores;
  std::istringstream in(text);
  for (StoreAtStake s; in >> s.fate >> s.bytes >> s.address >> s.actor >> s.code;) {
    if (!stores.empty()) {
      StoreAtStake& last = stores.back();
      const bool is_next = last.fate == s.fate && last.code == s.code && last.actor == s.actor;
      if (is_next && last.address + last.bytes == s.address) {
        last.bytes += s.bytes;
        continue;
      }
    }
    stores.push_back(s);
  }
  return stores;
}

}  // namespace crashcut::recovery
