// Launch: starts the program under test with the runtime preloaded, in a session and a working directory of its own.
#pragma once

#include <sys/types.h>

#include <tl/expected.hpp>

#include "recovery/inprocess/session.h"
#include "recovery/sandbox/fd.h"

namespace crashcut::inprocess {

struct Launched {
  pid_t pid;
  sandbox::Fd socket;  // our end
};

// The program and the runtime by their real paths. The program dies with us.
tl::expected<Launched, Failure> launch(const Session::Setup& setup, int control_fd);

}  // namespace crashcut::inprocess
