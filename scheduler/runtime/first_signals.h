// The actions of signals as they are when main() begins (signals.cc).
#pragma once

namespace crashcut::scheduler::runtime {

// As install_signals() (world.h) left them: main() begins again in this process.
void restore_signals();

}  // namespace crashcut::scheduler::runtime
