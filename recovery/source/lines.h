// Lines: the source lines of a file's code, by its debug information. Only the units that are asked about are read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recovery/result/story.h"
#include "recovery/source/elf_file.h"

namespace crashcut::source {

class Lines {
 public:
  explicit Lines(ElfFile& file) : file_(&file) {}

  // The function that the address is in, and after it those that it was inlined into. Without debug information the
  // function alone, by its symbol. Empty: nothing is known.
  std::vector<result::SourceLine> frames_at(std::uint64_t address);

 private:
  // Code of a unit or of a function.
  struct Stretch {
    std::uint64_t low, high;
    Dwarf_Die die, unit;
  };
  void list_units();
  const std::vector<Stretch>& functions_of(const Stretch& unit);
  std::string function_name(Dwarf_Die& function, std::uint64_t address);
  std::vector<result::SourceLine> frames_in(const Stretch& unit, std::uint64_t address);

  ElfFile* file_;
  bool has_units_ = false;
  std::vector<Stretch> units_;
  std::map<const void*, std::vector<Stretch>> functions_;  // of each unit that was asked about
};

}  // namespace crashcut::source
