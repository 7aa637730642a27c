// Mappings: the private, writable memory of this process, as /proc/self/maps lists it.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

namespace crashcut::inject {

struct Mapping {
  std::uint64_t begin, end;
  bool is_file, is_stack;
};

// Calls visit(argument, mapping) with each until it says no. False where it did, or where the list cannot be read; it
// is read into `room`.
bool visit_mappings(std::span<char> room, bool (*visit)(void* argument, const Mapping& mapping), void* argument);
template <class F>
bool for_each_mapping(std::span<char> room, F&& visit) {
  return visit_mappings(
      room, [](void* f, const Mapping& mapping) { return (*static_cast<std::remove_reference_t<F>*>(f))(mapping); },
      &visit);
}

}  // namespace crashcut::inject
