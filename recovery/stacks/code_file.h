// CodeFile: a file that a program runs code of: which file it is, whether it has debug information, and by what rules
// its functions are unwound.
//
// Files may be damaged or hostile: each offset and length in them is looked at, and nothing is mapped, as a file may
//   become shorter meanwhile. A file that makes no sense has no rules.
// Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "recovery/sandbox/fd.h"
#include "recovery/stacks/stack_depth.h"
#include "recovery/stacks/unwind_rules.h"

namespace crashcut::stacks {

class CodeFile {
 public:
  // Null: it cannot be opened, or is no ELF file of x86-64. The path has no symbolic links: no other file is opened.
  static std::unique_ptr<CodeFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  // Its build id, or its size and when it was changed: another file of this name has another one.
  const std::string& id() const { return id_; }
  bool has_build_id() const { return !build_id_.empty(); }
  dev_t device() const { return device_; }
  ino_t inode() const { return inode_; }
  // In the file or in one of its own, as source::ElfFile finds it.
  bool has_debug_information() const { return has_debug_information_; }

  // What an offset in the file is an address of, where code is loaded from it.
  std::optional<std::uint64_t> address_of(std::uint64_t offset) const;
  // Bytes that other files have otherwise, and their address.
  struct Mark {
    std::uint64_t address = 0;
    std::string bytes;
  };
  const Mark& mark() const { return mark_; }

  // How to go from a function to its caller, at this place of its code. Null: nobody says.
  const UnwindRow* row_at(std::uint64_t address);
  // How far the frame is above the stack pointer there, where the rule counts it from the frame pointer.
  std::optional<std::int64_t> depth_at(std::uint64_t address);

 private:
  struct Segment {
    std::uint64_t offset, address, bytes;
    bool is_code;
  };
  struct Section {
    std::string name;
    std::uint64_t address, offset, bytes;
  };
  CodeFile() = default;
  bool read_headers();
  void read_notes(std::uint64_t offset, std::uint64_t bytes, std::uint64_t alignment);
  void read_sections(std::uint64_t offset, unsigned count, unsigned names);
  std::string linked_debug_file() const;
  bool finds_debug_information() const;
  // So many bytes, or none.
  std::string read(std::uint64_t offset, std::uint64_t bytes) const;
  const Section* section(std::string_view name) const;

  sandbox::Fd fd_;
  std::string path_, id_, build_id_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t bytes_ = 0;
  bool has_debug_information_ = false;
  std::vector<Segment> segments_;
  std::vector<Section> sections_;
  Mark mark_;

  bool has_rules_ = false;
  std::optional<UnwindRules> rules_;
  std::unordered_map<std::uint64_t, std::optional<UnwindRow>> rows_;
  std::unordered_map<std::uint64_t, StackDepth> depths_;  // by function
};

// Code of the system, and not of the program.
bool is_system_file(std::string_view path);

}  // namespace crashcut::stacks
