// SharedFiles: memory that hosts share (regions.h), by the calls of the kernel.
//
// Which: a file below cxl/ of the modelled root, and a device that --device names, by open() and mmap(MAP_SHARED); a
//   segment of shmget(), by shmat(). All hosts see the same files and segments, each at one address.
// A file or segment is there once a program has made it; what crashcut_setup() made is there from the beginning.
//   Making one and looking for one are operations of the scheduler. A device is always there.
// The bytes are the region's: read() and write() are refused.
// Does not model: names that are removed, since a file or segment stays (unlink() and IPC_RMID succeed and change
//   nothing); SIGBUS behind the end of a file; read-only mappings, which can be written to; who may open what. (May
//   miss bugs.)
#pragma once

#include "inject/call.h"

namespace crashcut::scheduler::runtime {

// False if the call is about none of these.
bool do_shared_file_call(inject::Call& call);
// The program's part in the execution ends: its descriptors are closed.
void end_shared_files();

}  // namespace crashcut::scheduler::runtime
