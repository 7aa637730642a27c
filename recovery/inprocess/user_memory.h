// User memory: whether the addresses that the program passes may be read from and written to.
//
// The kernel says EFAULT to those that may not, or transfers what comes before them; the model would die of them.
//   Each is touched before the model uses it. A fault of that touch is caught by a handler of ours, which stands in for
//   the default action of SIGSEGV and SIGBUS, so that a good address costs nothing. Where the program has a handler of
//   its own the kernel is asked instead.
// A long buffer to be filled is touched at its beginning only: how much of it a call fills is not known before. A fault
//   beyond is the program's own death by the signal.
// Threads: the model's lock, but for those that are scheduled: their signals are the scheduler's, and
//   what they pass is trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inject/signals.h"

namespace crashcut::inprocess {

// How many bytes, from the first on, may be read or written.
std::size_t readable_bytes(const void* from, std::size_t count);
std::size_t writable_bytes(void* to, std::size_t count);
// A string that ends within PATH_MAX: 0, -EFAULT or -ENAMETOOLONG.
long check_path(const char* path);
inline bool is_path(const char* path) { return check_path(path) == 0; }
// Copies an argument in, a result out: 0 or -EFAULT.
long take(void* to, long from, std::size_t count);
long give(long to, const void* from, std::size_t count);

// No buffer is lent to the model any longer.
void end_loans();

// Before the program runs. Signals that have a handler, or are ignored, are left alone.
void catch_faults();
bool catches_faults();
// SIGSEGV and SIGBUS as the program sees them: sigaction() of one.
bool is_fault_signal(long signal);
long change_fault_action(long signal, const inject::KernelSigaction* wanted, inject::KernelSigaction* old);
// The scheduler takes over.
void trust_program();

}  // namespace crashcut::inprocess
