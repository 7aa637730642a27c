// What the interposed functions have in common.
#pragma once

#include "scheduler/runtime/world.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)
