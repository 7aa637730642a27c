// Environment: how crashcut tells the library what it is to do: variables that the program never sees.
#pragma once

namespace crashcut::inject {

// "<control fd>,<names fd>": the program's threads are scheduled (scheduler/runtime/protocol.h).
inline constexpr const char* kThreadsVariable = "CRASHCUT_THREADS";

// The value of the variable; null where there is none.
const char* find_variable(char** envp, const char* name);
// Takes it out of the environment, too.
const char* take_variable(char** envp, const char* name);
// Two descriptors, "<first>,<second>". False where they are not.
bool parse_descriptors(const char* text, int& first, int& second);
// LD_PRELOAD as it was before crashcut put the library first.
void restore_preload(char** envp);

}  // namespace crashcut::inject
