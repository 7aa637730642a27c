#include "recovery/source/variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "recovery/source/dwarf_walk.h"
#include "recovery/source/readable_names.h"

namespace crashcut::source {
namespace {

bool is_of_library(Dwarf_Die& type) {
  const char* path = dwarf_decl_file(&type);
  return path != nullptr && is_library_source(path);
}

// A std::array is its elements.
bool is_standard_array(Dwarf_Die& type) {
  return dwarf_tag(&type) == DW_TAG_structure_type && text_of(type, DW_AT_name).starts_with("array<") &&
         is_of_library(type);
}

// The type without its other names and qualifiers. False: it is a type that people take for one thing, unless it is
// what a std::array is made of.
bool bare_type(Dwarf_Die& type, bool is_inside_array) {
  for (int i = 0; i < kDepthMost; ++i) {
    switch (dwarf_tag(&type)) {
      case DW_TAG_typedef:
        if (is_of_library(type) && !is_inside_array) return false;
        [[fallthrough]];
      case DW_TAG_const_type:
      case DW_TAG_volatile_type:
      case DW_TAG_restrict_type:
      case DW_TAG_atomic_type: {
        Dwarf_Die inner;
        if (!entry_of(type, DW_AT_type, inner)) return false;
        type = inner;
        break;
      }
      default:
        return is_standard_array(type) || !is_of_library(type);
    }
  }
  return false;
}

std::uint64_t bytes_of(Dwarf_Die& type) {
  Dwarf_Word bytes = 0;
  return dwarf_aggregate_size(&type, &bytes) == 0 ? bytes : 0;
}

struct Part {
  std::string text;  // ".lock", "[3]"; empty for a base class or a member without a name
  Dwarf_Die type;
  std::uint64_t begin;
};

// The element of an array.
std::optional<Part> element_at(Dwarf_Die& array, std::uint64_t offset) {
  Part part;
  if (!entry_of(array, DW_AT_type, part.type)) return std::nullopt;
  std::uint64_t bytes = bytes_of(part.type);
  if (bytes == 0) return std::nullopt;
  std::vector<std::uint64_t> counts;
  bool is_known = true;
  for_each_child(array, [&](Dwarf_Die& range) {
    std::uint64_t count = 0;
    if (dwarf_tag(&range) != DW_TAG_subrange_type) return;
    if (!number_of(range, DW_AT_count, count)) {
      is_known = number_of(range, DW_AT_upper_bound, count) && count < UINT64_MAX && is_known;
      ++count;
    }
    counts.push_back(count);
  });
  if (!is_known || counts.empty()) return std::nullopt;
  std::uint64_t number = offset / bytes;
  part.begin = number * bytes;
  for (std::size_t i = counts.size(); i-- > 0;) {
    if (counts[i] == 0) return std::nullopt;
    part.text.insert(0, fmt::format("[{}]", number % counts[i]));
    number /= counts[i];
  }
  return number == 0 ? std::optional(part) : std::nullopt;
}

// The member or base class that holds the place; none if there are several, as in a union, or none.
std::optional<Part> member_at(Dwarf_Die& type, std::uint64_t offset) {
  std::optional<Part> found;
  bool is_only = true;
  for_each_child(type, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    Part part;
    part.begin = 0;
    std::uint64_t bit = 0;
    if (tag != DW_TAG_member && tag != DW_TAG_inheritance) return;
    if (dwarf_hasattr(&child, DW_AT_external) || dwarf_hasattr(&child, DW_AT_declaration)) return;  // static
    const bool has_place = number_of(child, DW_AT_data_member_location, part.begin);
    const bool has_bits = number_of(child, DW_AT_data_bit_offset, bit) || dwarf_hasattr(&child, DW_AT_bit_size);
    if (has_bits || (!has_place && dwarf_hasattr(&child, DW_AT_data_member_location))) return;
    if (!entry_of(child, DW_AT_type, part.type)) return;
    if (offset < part.begin || offset - part.begin >= bytes_of(part.type)) return;
    const std::string name = text_of(child, DW_AT_name);
    if (tag == DW_TAG_member && !name.empty()) part.text = "." + name;
    // An empty base class or member takes no room of its own: the other one is meant.
    if (found && bytes_of(part.type) == 1 && bytes_of(found->type) > 1) return;
    is_only = is_only && (!found || bytes_of(found->type) == 1);
    found = part;
  });
  return is_only ? found : std::nullopt;
}

std::optional<Part> part_at(Dwarf_Die& type, std::uint64_t offset) {
  switch (dwarf_tag(&type)) {
    case DW_TAG_array_type:
      return element_at(type, offset);
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type: {
      std::optional<Part> part = member_at(type, offset);
      if (part && is_standard_array(type)) part->text.clear();
      return part;
    }
    default:
      return std::nullopt;
  }
}

// ".slots[3].lock" and what is left of the offset.
std::string path_to(Dwarf_Die type, std::uint64_t offset) {
  std::string path;
  std::uint64_t rest = offset;  // from where the name so far begins
  bool is_inside_array = false;
  for (int i = 0; i < kDepthMost && bare_type(type, is_inside_array); ++i) {
    is_inside_array = is_standard_array(type);
    std::optional<Part> part = part_at(type, offset);
    if (!part) break;
    offset -= part->begin;
    if (!part->text.empty()) rest = offset;
    path += part->text;
    type = part->type;
  }
  return rest == 0 ? path : fmt::format("{}+{}", path, rest);
}

// Where a variable is: only those that have one place.
std::optional<std::uint64_t> address_of(Dwarf_Die& variable) {
  Dwarf_Attribute location, address;
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (dwarf_attr(&variable, DW_AT_location, &location) == nullptr) return std::nullopt;
  if (dwarf_getlocation(&location, &operations, &count) != 0 || count != 1) return std::nullopt;
  if (operations[0].atom == DW_OP_addr) return operations[0].number;
  if (operations[0].atom != DW_OP_addrx && operations[0].atom != DW_OP_GNU_addr_index) return std::nullopt;
  Dwarf_Addr found = 0;
  const bool is_known =
      dwarf_getlocation_attr(&location, operations, &address) == 0 && dwarf_formaddr(&address, &found) == 0;
  return is_known ? std::optional<std::uint64_t>(found) : std::nullopt;
}

// Where the variables of a function are on its stack.
struct Stack {
  std::uint64_t begin, end;
  std::optional<std::uint64_t> base;  // what its variables are counted from

  std::optional<std::uint64_t> place_of(const Dwarf_Op& operation) const {
    constexpr std::uint8_t kStackPointer = DW_OP_breg7;
    if (operation.atom == kStackPointer) return begin + operation.number;
    if (operation.atom == DW_OP_fbreg && base) return *base + operation.number;
    return std::nullopt;
  }
};

// The only operation of a location at this place in the code.
const Dwarf_Op* only_operation(Dwarf_Die& die, unsigned attribute, std::uint64_t code) {
  Dwarf_Attribute location;
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (dwarf_attr_integrate(&die, attribute, &location) == nullptr) return nullptr;
  return dwarf_getlocation_addr(&location, code, &operations, &count, 1) == 1 && count == 1 ? operations : nullptr;
}

std::optional<std::uint64_t> base_of(Dwarf_Die& function, const Stack& stack, std::uint64_t code) {
  constexpr std::uint64_t kSaved = 16;  // the return address, and the frame pointer of the caller
  const Dwarf_Op* operation = only_operation(function, DW_AT_frame_base, code);
  if (operation == nullptr) return std::nullopt;
  switch (operation->atom) {
    case DW_OP_call_frame_cfa:
      return stack.end;
    case DW_OP_reg6:
      return stack.end - kSaved;
    case DW_OP_reg7:
      return stack.begin;
    default:
      return std::nullopt;
  }
}

// The unit that has the code. (dwarf_addrdie() needs a table that clang does not make.)
std::optional<Dwarf_Die> unit_at(Dwarf* dwarf, std::uint64_t code) {
  std::optional<Dwarf_Die> found;
  for_each_unit(dwarf, [&](Dwarf_Die unit, Dwarf_Die tree) {
    if (!found && dwarf_haspc(&unit, code) == 1) found = tree;
  });
  return found;
}

// What encloses the code, innermost first, up to the function that the compiler made of it.
std::vector<Dwarf_Die> scopes_at(Dwarf* dwarf, std::uint64_t code) {
  Dwarf_Die *innermost = nullptr, *enclosing = nullptr;
  std::vector<Dwarf_Die> scopes;
  std::optional<Dwarf_Die> unit = unit_at(dwarf, code);
  if (!unit) return scopes;
  // Beyond an inlined function, dwarf_getscopes() goes on where that was written, and not where it was inlined.
  if (dwarf_getscopes(&*unit, code, &innermost) > 0) {
    const int count = dwarf_getscopes_die(innermost, &enclosing);
    for (int i = 0; i < count; ++i) {
      scopes.push_back(enclosing[i]);
      if (dwarf_tag(&enclosing[i]) == DW_TAG_subprogram) break;
    }
  }
  std::free(innermost);
  std::free(enclosing);
  if (!scopes.empty() && dwarf_tag(&scopes.back()) != DW_TAG_subprogram) scopes.clear();
  return scopes;
}

bool is_function(Dwarf_Die& die) {
  return dwarf_tag(&die) == DW_TAG_subprogram || dwarf_tag(&die) == DW_TAG_inlined_subroutine;
}

}  // namespace

std::string Variables::local_at(std::uint64_t code, std::uint64_t stack_begin, std::uint64_t stack_end,
                                std::uint64_t address) {
  std::vector<Dwarf_Die> scopes = scopes_at(file_->debug_information(), code);
  if (scopes.empty()) return "";
  Stack stack{stack_begin, stack_end, {}};
  stack.base = base_of(scopes.back(), stack, code);
  for (auto scope = scopes.begin(); scope != scopes.end(); ++scope) {
    std::string name;
    for_each_child(*scope, [&](Dwarf_Die& variable) {
      const int tag = dwarf_tag(&variable);
      Dwarf_Die type;
      if ((tag != DW_TAG_variable && tag != DW_TAG_formal_parameter) || !entry_of(variable, DW_AT_type, type)) return;
      const std::string own = text_of(variable, DW_AT_name);
      const Dwarf_Op* operation = only_operation(variable, DW_AT_location, code);
      if (own.empty() || operation == nullptr) return;
      // Of one that lies behind the address, or has no place, this is more than any variable has bytes.
      const std::uint64_t offset = address - stack.place_of(*operation).value_or(address + 1);
      if (offset < bytes_of(type)) name = own + path_to(type, offset);
    });
    if (!name.empty()) return name_of(*std::find_if(scope, scopes.end(), is_function)) + "::" + name;
  }
  return "";
}

void Variables::add(Dwarf_Die& die) {
  const std::optional<std::uint64_t> address = address_of(die);
  Dwarf_Die type;
  if (address && *address != 0 && entry_of(die, DW_AT_type, type))
    variables_.try_emplace(*address, Found{die, bytes_of(type)});
}

void Variables::collect_below(Dwarf_Die& die, int depth, Where where) {
  if (depth > kDepthMost) return;
  for_each_child(die, [&](Dwarf_Die& child) {
    switch (dwarf_tag(&child)) {
      case DW_TAG_variable:
        add(child);
        break;
      case DW_TAG_namespace:
      case DW_TAG_module:
        collect_below(child, depth + 1, where);
        break;
      case DW_TAG_subprogram:
      case DW_TAG_lexical_block:
        if (where == Where::kEverywhere) collect_below(child, depth + 1, where);
        break;
      default:
        break;
    }
  });
}

void Variables::collect(Where where) {
  if (std::exchange(where == Where::kGlobal ? has_globals_ : has_all_, true)) return;
  for_each_unit(file_->debug_information(), [&](Dwarf_Die, Dwarf_Die tree) { collect_below(tree, 0, where); });
}

std::optional<std::pair<std::uint64_t, Variables::Found>> Variables::find(std::uint64_t address, bool is_in_function) {
  for (const Where where : {Where::kGlobal, Where::kEverywhere}) {
    if (where == Where::kEverywhere && !is_in_function) break;
    collect(where);
    auto it = variables_.upper_bound(address);
    if (it != variables_.begin() && (--it, address - it->first < it->second.bytes)) return *it;
  }
  return std::nullopt;
}

std::string Variables::name_at(std::uint64_t address) {
  const std::optional<Symbol> symbol = file_->symbol_at(address, false);
  if (!symbol && file_->has_symbols()) return "";
  // So linkers know a static variable of a function: "counter.0" in C, "_ZZ4mainE7counter" in C++.
  const std::string linked = symbol ? symbol->name : "";
  const bool has_number = linked.find('.') != linked.npos;
  const auto found = find(address, has_number || linked.empty() || linked.find("ZZ") != linked.npos);
  if (!found && !symbol) return "";
  const std::uint64_t begin = found ? found->first : symbol->begin;
  if (!found) {
    const std::string name = readable(demangled(linked));
    return address == begin ? name : fmt::format("{}+{}", name, address - begin);
  }
  Dwarf_Die die = found->second.die, type;
  const bool is_linkers = linked.empty() || has_number || symbol->begin != begin;
  const std::string name = is_linkers ? name_of(die) : readable(demangled(linked));
  return name + (entry_of(die, DW_AT_type, type) ? path_to(type, address - begin) : "");
}

}  // namespace crashcut::source
