// Dwarf walk: small steps through debug information, for the files beside this one.
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <cstdint>
#include <string>

namespace crashcut::source {

// Deeper nesting is none that a compiler makes.
inline constexpr int kDepthMost = 128;

// Calls visit(child) for each child.
template <class Visit>
void for_each_child(Dwarf_Die& parent, Visit&& visit) {
  Dwarf_Die child;
  if (dwarf_child(&parent, &child) != 0) return;
  do {
    visit(child);
  } while (dwarf_siblingof(&child, &child) == 0);
}

// Calls visit(low, high) for each stretch of code of an entry.
template <class Visit>
void for_each_range(Dwarf_Die& die, Visit&& visit) {
  Dwarf_Addr base = 0, low = 0, high = 0;
  for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0;) {
    if (low < high) visit(low, high);
  }
}

// Calls visit(unit, tree) for each unit of a program: its entry, and the entry that has the children, which is another
// one if it lies in a file of its own (-gsplit-dwarf).
template <class Visit>
void for_each_unit(Dwarf* dwarf, Visit&& visit) {
  Dwarf_CU* unit = nullptr;
  Dwarf_Half version = 0;
  std::uint8_t type = 0;
  Dwarf_Die die, split;
  while (dwarf != nullptr && dwarf_get_units(dwarf, unit, &unit, &version, &type, &die, &split) == 0) {
    if (type == DW_UT_compile || type == DW_UT_skeleton) visit(die, split.addr != nullptr ? split : die);
  }
}

// Of an attribute that the entry has itself, or the one that it specifies or is an instance of. Empty, or false: none.
std::string text_of(Dwarf_Die& die, unsigned attribute);
bool number_of(Dwarf_Die& die, unsigned attribute, std::uint64_t& number);
bool entry_of(Dwarf_Die& die, unsigned attribute, Dwarf_Die& entry);

// "_Z6workeri"; empty: it has none of its own, as in C.
std::string linkage_name_of(Dwarf_Die& die);
// "worker(int)": the name of a function or variable, readable.
std::string name_of(Dwarf_Die& die);

// Whether a source file is of the system or the compiler, and not of the program.
bool is_library_source(const std::string& path);

}  // namespace crashcut::source
