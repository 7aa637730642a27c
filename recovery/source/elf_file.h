// ElfFile: an ELF file with its symbols and its debug information, which may lie in a file of its own.
//
// A separate debug file is looked for as gdb does: by build id below the debug root, then by .gnu_debuglink beside the
//   file, in .debug/ beside it, and below the debug root. It must have the same build id or, without one, the checksum
//   that the link names. Nothing is asked of the network.
// Symbols and debug information are read when they are first asked for.
// Files may be damaged or hostile. libelf and libdw have bugs of their own with such files, so only a process that may
//   die reads them: use Names (names.h).
#pragma once

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace crashcut::source {

struct Symbol {
  std::uint64_t begin = 0, bytes = 0;
  bool is_function = false;
  const char* name = "";  // as the linker knows it
};

class ElfFile {
 public:
  explicit ElfFile(const std::string& path, std::string debug_root = "/usr/lib/debug");
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // Null: there is none.
  Dwarf* debug_information();
  bool has_symbols();
  // The variable or function that holds the address.
  std::optional<Symbol> symbol_at(std::uint64_t address, bool is_function);

 private:
  struct Opened {
    int fd = -1;
    Elf* elf = nullptr;
    void open(const std::string& path);
    void close();
  };
  // Opens the file's separate debug file, once.
  void find_separate();
  bool belongs_to(Elf* candidate, const std::string& path, std::optional<std::uint32_t> checksum) const;
  bool try_separate(const std::string& path, std::optional<std::uint32_t> checksum);
  void read_symbols();
  void read_symbols_of(Elf* elf, unsigned section_type);

  std::string path_, debug_root_;
  Opened own_, separate_;
  Dwarf* dwarf_ = nullptr;
  bool has_looked_for_dwarf_ = false, has_looked_for_separate_ = false, has_read_symbols_ = false;
  std::vector<Symbol> symbols_;  // by address
};

}  // namespace crashcut::source
