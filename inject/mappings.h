// Mappings: the private, writable memory of this process, as /proc/self/maps lists it.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

namespace crashcut::inject {

struct AddressRange {
  std::uint64_t begin, end;
};

// A piece of private writable memory. It may be a part of a mapping.
struct Mapping {
  std::uint64_t begin, end;
  bool is_file, is_stack;
};

// The addresses of this library, whole pages.
AddressRange own_library();

using MappingVisitor = bool (*)(void* argument, const Mapping& mapping);
// Calls visit(argument, mapping) with each piece of memory outside of `left_out` until a call returns false. Returns
// false then, and if the list cannot be read or is longer than `room`, which it is read into.
bool visit_mappings(std::span<char> room, std::span<const AddressRange> left_out, MappingVisitor visit, void* argument);
template <class F>
bool for_each_mapping(std::span<char> room, std::span<const AddressRange> left_out, F&& visit) {
  return visit_mappings(
      room, left_out,
      [](void* f, const Mapping& mapping) { return (*static_cast<std::remove_reference_t<F>*>(f))(mapping); }, &visit);
}

}  // namespace crashcut::inject
