// Apart: a few steps in a process of their own, so that a kill of this one does not end them halfway.
#pragma once

#include <functional>

namespace crashcut::inprocess {

// Runs `steps` in a child that shares our descriptors: what it opens is open here, all else that it does to its
// memory is lost. Signals wait until it has ended. Returns what it returned, 0 to 255; -1 where it did not run.
int run_apart(const std::function<int()>& steps);

}  // namespace crashcut::inprocess
