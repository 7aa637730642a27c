// Signals as the kernel has them: libc's own functions would make system calls that come back to us.
#pragma once

#include <signal.h>

#include <cstdint>

#include "inject/gate.h"

namespace crashcut::inject {

struct KernelSigaction {
  void* handler;
  std::uint64_t flags;
  void* restorer;
  std::uint64_t mask;
};

using SignalHandler = void (*)(int, siginfo_t*, void*);

constexpr std::uint64_t bit_of(int signal) { return std::uint64_t{1} << (signal - 1); }

// Flags besides SA_SIGINFO; `mask` is blocked while the handler runs.
inline bool install_handler(int signal, SignalHandler handler, std::uint64_t flags, std::uint64_t mask) {
  constexpr std::uint64_t kRestorer = 0x04000000;  // SA_RESTORER
  const KernelSigaction action{reinterpret_cast<void*>(handler), SA_SIGINFO | kRestorer | flags,
                               reinterpret_cast<void*>(crashcut_restorer), mask};
  return kernel(SYS_rt_sigaction, signal, &action, 0, 8) == 0;
}

}  // namespace crashcut::inject
