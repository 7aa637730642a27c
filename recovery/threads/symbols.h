// Symbols: names of a program's variables and functions, by address.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crashcut::recovery {

class Symbols {
 public:
  // Of an ELF executable; empty where it has none.
  static Symbols of(const std::string& executable);
  // "forks+40", "dine"; empty where no symbol holds the address. `base` is where the executable was loaded.
  std::string name_of_variable(std::uint64_t address, std::uint64_t base) const { return name(address - base, false); }
  std::string name_of_function(std::uint64_t address, std::uint64_t base) const { return name(address - base, true); }

 private:
  struct Symbol {
    std::uint64_t begin, bytes;
    bool is_function;
    std::string name;
  };
  std::string name(std::uint64_t address, bool is_function) const;
  std::vector<Symbol> symbols_;  // by address
};

}  // namespace crashcut::recovery
