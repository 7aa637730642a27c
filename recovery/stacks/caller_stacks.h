// CallerStacks: which calls of a program led to the system call that one of its threads waits in, for reports.
//
// /proc/THREAD/syscall has the stack pointer and the place in the code; the rest is read from the thread's memory by
//   the rules of its files (unwind_rules.h, stack_depth.h). Exact: a frame that is not known ends the stack. A program
//   that has no file with debug information, other than the system's, has no stacks; it is asked for that once.
// A process may run another program (execve), and its files may be replaced (dlclose): each stack is taken from files
//   that were found in the process' memory when it was taken.
// Files of the device that is left out, and memory where they are mapped, are not looked into: their server, which
//   waits for us, would have to answer.
// Threads: any.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fusefs/mount/mount.h"
#include "recovery/sandbox/fd.h"
#include "recovery/stacks/code_file.h"

namespace crashcut::stacks {

class CallerStacks final : public fusefs::CallerStack {
 public:
  void leave_out(dev_t device) { left_out_ = device; }

  // The thread waits, in the call that this is about. Innermost first; empty: it has none, or it is not known.
  fusefs::CodeStack of(pid_t thread) override { return of(thread, nullptr); }
  // Only by pwrite(), whose place in the file is known.
  fusefs::CodeStack of_direct_write(pid_t thread, std::uint64_t offset, std::uint64_t bytes) override {
    const Range range{offset, bytes};
    return of(thread, &range);
  }
  // Whether of() found, when it was asked last, that there is nothing to look for.
  bool is_without(pid_t thread) override;

 private:
  static constexpr std::size_t kRandomBytes = 16;
  // What the kernel puts on the stack of each program that it starts: equal bytes there mean the same program.
  struct Start {
    std::uint64_t address = 0;
    std::array<char, kRandomBytes> bytes{};
  };
  struct Mapping {
    std::uint64_t begin, end, offset;
    CodeFile* file;  // null: none that is known
    bool is_left_out;
  };
  // What a stack was taken from. While all of it is the same, so is the stack.
  struct Taken {
    std::uint64_t code = 0, stack_pointer = 0;
    std::vector<std::pair<std::uint64_t, std::string>> memory;  // addresses, and the bytes there
    fusefs::CodeStack stack;
  };
  struct Thread {
    Start start;
    std::string directory;  // in /proc
    sandbox::Fd syscall;    // of this thread, and no later one of its number
    std::vector<Mapping> mappings;
    bool has_debug_information = false;
    std::chrono::steady_clock::time_point looked_at{};  // when it was this program, at the latest
    std::unordered_set<std::uint64_t> unknown;          // addresses that no file has
    Taken last;
  };
  class Memory;

  Thread* find(pid_t number);
  bool read_maps(Thread& thread);
  CodeFile* file_at(const std::string& path, std::uint64_t device, std::uint64_t inode);
  const Mapping* mapping_at(Thread& thread, std::uint64_t address);
  struct Range {
    std::uint64_t offset, bytes;
  };
  fusefs::CodeStack of(pid_t thread, const Range* written);
  // None: they are not known, or `written` is not null and the thread does not wait in a pwrite() of that range.
  std::optional<Registers> registers_of(pid_t number, Thread& thread, const Range* written);
  // None: another file lies where one was found.
  std::optional<fusefs::CodeStack> unwind(pid_t number, Thread& thread, const Registers& registers);

  std::mutex mutex_;
  dev_t left_out_ = 0;
  std::unordered_map<pid_t, Thread> threads_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::unique_ptr<CodeFile>> files_;  // by device and inode
};

}  // namespace crashcut::stacks
