// What a mount is told of the system calls that do not reach it by themselves: sync, syncfs, shared mappings.
#pragma once

#include <memory>

#include "fusefs/mount/mount.h"
#include "recovery/sandbox/syscall_watch.h"

namespace crashcut::mounted {

// `mount` outlives the handlers; what it points to may be exchanged while no watched process runs.
sandbox::SyscallHandlers sync_handlers(const std::unique_ptr<fusefs::Mount>& mount,
                                       fusefs::CallerStack* stacks = nullptr);

}  // namespace crashcut::mounted
