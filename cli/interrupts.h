// Interrupts: SIGINT, SIGTERM and SIGHUP end a search in good order; what it found is still printed.
//
// The first signal stops the exploration. Where none is running yet, or at a second signal, or when nobody reads
//   our output any more (SIGPIPE), crashcut ends at once: it removes the compiled program, and its death takes
//   the program under test along.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "recovery/inprocess/session.h"

namespace crashcut::cli {

void install_interrupts();
bool is_interrupted();

// The session that the first signal stops; nullptr: none.
void watch_session(inprocess::Session* session);
// A search that the first signal stops; nullptr: none.
void watch_stop(std::atomic<bool>* stop);
// Process group of a compiler that a signal ends; 0: none.
void watch_compiler(pid_t group);
// A file and its directory to remove at a sudden end; empty: none.
void watch_temporary(const std::string& directory, const std::string& file);

}  // namespace crashcut::cli
