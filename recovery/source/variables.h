// Variables: what a program calls a place in its variables: "forks[1]", "table.slots[3].lock", "main::pool.lock".
//
// The name goes down to the member or element that begins at the place or holds it. It stops where the source would: at
//   the types of the system's headers (a std::mutex is one thing), at pointers, and at unions that have several members
//   there. What is left is counted in bytes: "table.slots[3]+4". Without debug information all of it is:
//   "table+124".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "recovery/source/elf_file.h"

namespace crashcut::source {

class Variables {
 public:
  explicit Variables(ElfFile& file) : file_(&file) {}

  // Empty: no variable holds the address.
  std::string name_at(std::uint64_t address);
  // "main::pool.lock": the same of what a function has on its stack, between these places, while it makes the call at
  // `code`.
  std::string local_at(std::uint64_t code, std::uint64_t stack_begin, std::uint64_t stack_end, std::uint64_t address);

 private:
  struct Found {
    Dwarf_Die die;
    std::uint64_t bytes = 0;
  };
  enum class Where { kGlobal, kEverywhere };  // kEverywhere: also in functions
  void collect(Where where);
  void collect_below(Dwarf_Die& die, int depth, Where where);
  void add(Dwarf_Die& die);
  std::optional<std::pair<std::uint64_t, Found>> find(std::uint64_t address, bool is_in_function);

  ElfFile* file_;
  bool has_globals_ = false, has_all_ = false;
  std::map<std::uint64_t, Found> variables_;  // by address
};

}  // namespace crashcut::source
