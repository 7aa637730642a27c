#include "recovery/search/kept_paths.h"

namespace crashcut::search {

void KeptPaths::add(const Entry& entry) {
  if (!wants(entry.outcome, entry.path.size())) return;
  const bool is_first = !outcomes_.contains(entry.outcome);
  // The first of an outcome takes the place of one that is like others.
  if (firsts_.size() + others_.size() >= kEntriesMost) {
    answers_ -= others_.back().path.size();
    others_.pop_back();
  }
  answers_ += entry.path.size();
  outcomes_.insert(entry.outcome);
  (is_first ? firsts_ : others_).push_back(entry);
}

void KeptPaths::add(const KeptPaths& other) {
  for (const auto* list : {&other.firsts_, &other.others_}) {
    for (const Entry& entry : *list) add(entry);
  }
}

std::vector<KeptPaths::Entry> KeptPaths::entries() const {
  std::vector<Entry> all = firsts_;
  all.insert(all.end(), others_.begin(), others_.end());
  return all;
}

}  // namespace crashcut::search
