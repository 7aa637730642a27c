#include "recovery/source/lines.h"

#include <string_view>
#include <utility>

#include "recovery/source/dwarf_walk.h"
#include "recovery/source/readable_names.h"

namespace crashcut::source {
namespace {

using result::SourceLine;

void set_place(SourceLine& line, const char* path, std::uint64_t number) {
  if (path == nullptr || *path == '\0' || number == 0) return;
  const std::string whole = path;
  line.file = whole.substr(whole.rfind('/') + 1);
  line.line = number;
  line.is_library = is_library_source(whole);
}

// The entries that hold the address, from a function down to the innermost one that was inlined.
void descend(Dwarf_Die& die, std::uint64_t address, int depth, std::vector<Dwarf_Die>& chain) {
  if (depth > kDepthMost) return;
  Dwarf_Die inner;
  bool is_found = false;
  for_each_child(die, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    const bool is_block = tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_try_block ||
                          tag == DW_TAG_catch_block;
    if (is_found || !is_block || dwarf_haspc(&child, address) != 1) return;
    inner = child;
    is_found = true;
  });
  if (!is_found) return;
  if (dwarf_tag(&inner) == DW_TAG_inlined_subroutine) chain.push_back(inner);
  descend(inner, address, depth + 1, chain);
}

// Where an inlined function was called.
void set_call_place(Dwarf_Die& unit, Dwarf_Die& inlined, SourceLine& line) {
  std::uint64_t file = 0, number = 0;
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (!number_of(inlined, DW_AT_call_file, file) || !number_of(inlined, DW_AT_call_line, number)) return;
  if (dwarf_getsrcfiles(&unit, &files, &count) == 0 && file < count)
    set_place(line, dwarf_filesrc(files, file, nullptr, nullptr), number);
}

void set_line_at(Dwarf_Die& unit, std::uint64_t address, SourceLine& line) {
  Dwarf_Line* found = dwarf_getsrc_die(&unit, address);
  int number = 0;
  if (found != nullptr && dwarf_lineno(found, &number) == 0 && number > 0)
    set_place(line, dwarf_linesrc(found, nullptr, nullptr), static_cast<std::uint64_t>(number));
}

// The narrowest stretch that holds the address.
template <class Stretches>
const typename Stretches::value_type* narrowest(const Stretches& stretches, std::uint64_t address) {
  const typename Stretches::value_type* best = nullptr;
  for (const auto& stretch : stretches) {
    const bool is_in = address >= stretch.low && address < stretch.high;
    if (is_in && (best == nullptr || stretch.high - stretch.low < best->high - best->low)) best = &stretch;
  }
  return best;
}

// Calls visit(function) for the functions below an entry, those of classes and in functions too.
template <class Visit>
void for_each_function(Dwarf_Die& die, int depth, const Visit& visit) {
  if (depth > kDepthMost) return;
  for_each_child(die, [&](Dwarf_Die& child) {
    switch (dwarf_tag(&child)) {
      case DW_TAG_subprogram:
        visit(child);
        [[fallthrough]];
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_lexical_block:
        for_each_function(child, depth + 1, visit);
        break;
      default:
        break;
    }
  });
}

}  // namespace

void Lines::list_units() {
  if (std::exchange(has_units_, true)) return;
  for_each_unit(file_->debug_information(), [&](Dwarf_Die unit, Dwarf_Die tree) {
    for_each_range(unit, [&](std::uint64_t low, std::uint64_t high) { units_.push_back({low, high, tree, unit}); });
  });
}

const std::vector<Lines::Stretch>& Lines::functions_of(const Stretch& unit) {
  const auto [it, is_new] = functions_.try_emplace(unit.unit.addr);
  Dwarf_Die tree = unit.die;
  if (is_new) {
    for_each_function(tree, 0, [&](Dwarf_Die& function) {
      for_each_range(function, [&](std::uint64_t low, std::uint64_t high) {
        it->second.push_back({low, high, function, unit.unit});
      });
    });
  }
  return it->second;
}

// g++ writes no linkage name for functions that other files do not see, but the linker has it, with the parameters.
std::string Lines::function_name(Dwarf_Die& function, std::uint64_t address) {
  if (linkage_name_of(function).empty()) {
    const auto symbol = file_->symbol_at(address, true);
    if (symbol && std::string_view(symbol->name).starts_with("_Z")) return readable(demangled(symbol->name));
  }
  return name_of(function);
}

std::vector<SourceLine> Lines::frames_in(const Stretch& unit, std::uint64_t address) {
  const Stretch* function = narrowest(functions_of(unit), address);
  if (function == nullptr) return {};
  std::vector<Dwarf_Die> chain{function->die};
  descend(chain.front(), address, 0, chain);
  Dwarf_Die lines = unit.unit;
  std::vector<SourceLine> frames;
  for (std::size_t i = chain.size(); i-- > 0;) {
    SourceLine& frame = frames.emplace_back();
    frame.function = i == 0 ? function_name(chain[i], address) : name_of(chain[i]);
    if (i + 1 == chain.size()) {
      set_line_at(lines, address, frame);
    } else {
      Dwarf_Die files = unit.die;
      set_call_place(files, chain[i + 1], frame);
    }
  }
  return frames;
}

std::vector<SourceLine> Lines::frames_at(std::uint64_t address) {
  list_units();
  std::vector<SourceLine> frames;
  if (const Stretch* unit = narrowest(units_, address)) frames = frames_in(*unit, address);
  if (!frames.empty() && !frames.back().function.empty()) return frames;
  const auto symbol = file_->symbol_at(address, true);
  const std::string name = symbol ? readable(demangled(symbol->name)) : "";
  if (!frames.empty()) frames.back().function = name;
  if (frames.empty() && symbol) frames.push_back({name, "", 0, is_library_function(name)});
  return frames;
}

}  // namespace crashcut::source
