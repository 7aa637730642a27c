// Places: the code addresses that touched persistent memory, numbered for a recording.
//
// An open hash table of return addresses. A place costs a multiplication and a comparison if its slot is its own.
#pragma once

#include <cstdint>
#include <vector>

#include "pmem/types.h"

namespace crashcut::inprocess {

class Places {
 public:
  // 0 is no place.
  pmem::PlaceId number_of(const void* code) {
    const auto address = reinterpret_cast<std::uint64_t>(code);
    for (std::uint64_t i = address * 0x9e3779b97f4a7c15 >> shift_;; i = (i + 1) & (slots_.size() - 1)) {
      const pmem::PlaceId place = slots_[i];
      if (place != 0 && addresses_[place] == address) [[likely]]
        return place;
      if (place == 0) return add(address, i);
    }
  }
  // By number.
  const std::vector<std::uint64_t>& addresses() const { return addresses_; }

 private:
  pmem::PlaceId add(std::uint64_t address, std::uint64_t slot) {
    addresses_.push_back(address);
    const auto place = static_cast<pmem::PlaceId>(addresses_.size() - 1);
    slots_[slot] = place;
    if (addresses_.size() > slots_.size() / 2) grow();
    return place;
  }
  void grow() {
    --shift_;
    slots_.assign(slots_.size() * 2, 0);
    for (pmem::PlaceId place = 1; place < addresses_.size(); ++place) {
      std::uint64_t i = addresses_[place] * 0x9e3779b97f4a7c15 >> shift_;
      while (slots_[i] != 0) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = place;
    }
  }

  int shift_ = 64 - 8;
  std::vector<pmem::PlaceId> slots_ = std::vector<pmem::PlaceId>(256);
  std::vector<std::uint64_t> addresses_{0};
};

}  // namespace crashcut::inprocess
