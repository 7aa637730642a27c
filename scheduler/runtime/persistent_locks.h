// Locks in persistent memory: calls on objects there go to another function.
//
// A function of libc's on such an object is crashcut_persistent_NAME, which the model of that memory defines
//   (recovery/inprocess/memory/locks.cc), whether threads are scheduled or not. The object is the first argument.
#pragma once

#include "scheduler/runtime/loops.h"

// Persistent memory is the window of recovery/inprocess/memory/memory.h: 0x20 above the lower 40 bits of an address.
#define CRASHCUT_IF_PERSISTENT(name)                                                       \
  "movq %rdi, %r11\n shrq $40, %r11\n cmpq $0x20, %r11\n jne 5f\n" CRASHCUT_NOTE_REGISTERS \
  "jmp crashcut_persistent_" #name "\n 5:\n"
// Like EXPORT() and EXPORT_NOTING_REGISTERS(), for a function whose first argument is an object that synchronises.
#define EXPORT_ON_OBJECT(result, name)                              \
  CRASHCUT_INTERPOSE_AFTER(name, CRASHCUT_IF_PERSISTENT(name), ""); \
  extern "C" __attribute__((visibility("hidden"), used)) result crashcut_impl_##name
#define EXPORT_ON_OBJECT_NOTING_REGISTERS(result, name)                                  \
  CRASHCUT_INTERPOSE_AFTER(name, CRASHCUT_IF_PERSISTENT(name), CRASHCUT_NOTE_REGISTERS); \
  extern "C" __attribute__((visibility("hidden"), used)) result crashcut_impl_##name
