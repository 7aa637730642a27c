// Hashes of what steps are and did: for names and normal forms within one search.
#pragma once

#include "persist/hash.h"

namespace crashcut::scheduler {

using persist::mix;

}  // namespace crashcut::scheduler
