// Bounds: --memory-limit, the same for every command that runs something.
//
// What counts: the memory of crashcut and of all processes that it has started (the program, checkers, workers), each
//   page once; not what mapped files take, which the kernel can drop.
// When it is over the limit: a search stops as if it was interrupted, and its verdict names the limit. A program that
//   was being recorded is stopped, and what it did until then is explored. If a quarter more than the limit is in use
//   some seconds later, crashcut ends at once, with all that it has started: the OOM killer has nothing to do.
// How: a process beside crashcut looks five times a second, and sends SIGUSR1.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace crashcut::cli {

// "512M", "2G", "1.5T", "4096" in bytes. The error is a sentence.
tl::expected<std::uint64_t, std::string> parse_bytes(std::string_view text);

// Half of what the machine has, or the control group that we are in.
std::uint64_t default_memory_limit();

// Adds the option. The watch begins when the command line is read.
void add_memory_limit(CLI::App& command);

// In bytes, as the command line says.
std::uint64_t memory_limit();

// Whether the limit was reached, since the last call of forget_memory_hit(). The flag is in memory that processes share
// which are forked from this one.
bool is_memory_hit();
// Whether the programs that crashcut runs took most of it; otherwise crashcut itself did.
bool is_memory_theirs();
void forget_memory_hit();

// While one lives, reaching the limit does not end crashcut: its owner polls is_memory_hit().
class MemoryPolled {
 public:
  MemoryPolled();
  ~MemoryPolled();
  MemoryPolled(const MemoryPolled&) = delete;
};
bool is_memory_polled();

}  // namespace crashcut::cli
