#include "recovery/source/dwarf_walk.h"

#include <cstdlib>
#include <filesystem>

#include "recovery/source/readable_names.h"

namespace crashcut::source {

std::string text_of(Dwarf_Die& die, unsigned attribute) {
  Dwarf_Attribute found;
  const char* text = dwarf_formstring(dwarf_attr_integrate(&die, attribute, &found));
  return text != nullptr ? text : "";
}

bool number_of(Dwarf_Die& die, unsigned attribute, std::uint64_t& number) {
  Dwarf_Attribute found;
  Dwarf_Word word = 0;
  if (dwarf_attr_integrate(&die, attribute, &found) == nullptr || dwarf_formudata(&found, &word) != 0) return false;
  number = word;
  return true;
}

bool entry_of(Dwarf_Die& die, unsigned attribute, Dwarf_Die& entry) {
  Dwarf_Attribute found;
  return dwarf_attr_integrate(&die, attribute, &found) != nullptr && dwarf_formref_die(&found, &entry) != nullptr;
}

namespace {

// The entry that a compiler wrote for the source, and not for one copy of its code.
Dwarf_Die origin_of(Dwarf_Die die) {
  for (int i = 0; i < kDepthMost; ++i) {
    Dwarf_Attribute found;
    Dwarf_Die next;
    if (dwarf_attr(&die, DW_AT_abstract_origin, &found) == nullptr &&
        dwarf_attr(&die, DW_AT_specification, &found) == nullptr)
      break;
    if (dwarf_formref_die(&found, &next) == nullptr) break;
    die = next;
  }
  return die;
}

// "store::insert", "lambda in main": the name with those around it.
std::string qualified_name_of(Dwarf_Die& die) {
  Dwarf_Die origin = origin_of(die), *scopes = nullptr;
  const int count = dwarf_getscopes_die(&origin, &scopes);
  std::string name;
  for (int i = count - 1; i >= 0; --i) {
    const int tag = dwarf_tag(&scopes[i]);
    const bool is_class = tag == DW_TAG_class_type || tag == DW_TAG_structure_type;
    const bool has_name = is_class || tag == DW_TAG_namespace || tag == DW_TAG_subprogram;
    const std::string part = has_name ? text_of(scopes[i], DW_AT_name) : "";
    const bool is_nameless = is_class && part.empty() && i == 1 && text_of(scopes[0], DW_AT_name) == "operator()";
    if (part.starts_with("<lambda") || is_nameless) {
      name = "lambda in " + name;
    } else if (!part.empty() && !(part == "operator()" && name.starts_with("lambda in "))) {
      name += (name.empty() ? "" : "::") + part;
    }
  }
  std::free(scopes);
  return count > 0 ? name : text_of(die, DW_AT_name);
}

bool is_of_cpp(Dwarf_Die& die) {
  Dwarf_Die unit;
  if (dwarf_diecu(&die, &unit, nullptr, nullptr) == nullptr) return false;
  const int language = dwarf_srclang(&unit);
  return language == DW_LANG_C_plus_plus || language == DW_LANG_C_plus_plus_03 || language == DW_LANG_C_plus_plus_11 ||
         language == DW_LANG_C_plus_plus_14;  // compilers say no later one for C++17 and C++20
}

}  // namespace

std::string linkage_name_of(Dwarf_Die& die) {
  const std::string name = text_of(die, DW_AT_linkage_name);
  return name.empty() ? text_of(die, DW_AT_MIPS_linkage_name) : name;
}

std::string name_of(Dwarf_Die& die) {
  const std::string linked = linkage_name_of(die);
  if (linked.starts_with("_Z")) return readable(demangled(linked));
  return readable(is_of_cpp(die) ? qualified_name_of(die) : text_of(die, DW_AT_name));
}

bool is_library_source(const std::string& given) {
  const std::string path = std::filesystem::path(given).lexically_normal();
  for (const char* folder : {"/usr/include/", "/usr/lib/", "/usr/local/include/", "/rustc/"}) {
    if (path.starts_with(folder)) return true;
  }
  return path.find("/lib/rustlib/src/") != path.npos || path.ends_with("/crashcut.h");
}

}  // namespace crashcut::source
