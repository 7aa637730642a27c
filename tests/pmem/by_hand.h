/* Accesses to persistent memory as instrumented code makes them, written by hand: what is tested is the runtime alone.
 */
#ifndef BY_HAND_H
#define BY_HAND_H

#include <stdint.h>
#include <stdio.h>

#include "crashcut.h"
#include "inject/instrument/abi.h"

static CRASHCUT_UNUSED void set(uint64_t* at, uint64_t value) { __crashcut_store8(at, value); }
static CRASHCUT_UNUSED uint64_t get(const uint64_t* at) { return __crashcut_load8(at); }

__attribute__((constructor(102))) static void tell_module(void) { __crashcut_module(CRASHCUT_INSTRUMENT_ABI, "early"); }

#endif
