// Call: one system call of the program, and what becomes of it.
#pragma once

#include <climits>

#include "inject/gate.h"

namespace crashcut::inject {

struct Call {
  long number;
  long a[6];
  const void* caller = nullptr;  // the address after the system call
  long result = 0;               // where a model did it: a negative errno on failure
};

enum class Fate {
  kNotMine,    // the next model is asked
  kDone,       // Call::result
  kForwarded,  // the kernel does it, as Call has it, when the handler has returned
  kNewThread,  // the same, and a thread begins
  kLeft,       // the program goes on somewhere else, as its registers say
};

// A result of a model's function that is not the kernel's: let the kernel do the call as it stands.
inline constexpr long kForward = LONG_MIN;

// An argument that is an address.
template <class T>
T* pointer(long argument) {
  return reinterpret_cast<T*>(argument);
}

inline long do_in_kernel(const Call& c) {
  return crashcut_syscall(c.number, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);
}

// --- calls.cc: what is known of system calls that no model does
// Whether the kernel forgets that it did the call: a query, or a change that a restored image undoes.
bool is_traceless(const Call& call);
// What the program called, in words, where it cannot be run on; null: the call is no such one.
const char* refused_call(const Call& call);

}  // namespace crashcut::inject
