// Environment: the variables by which crashcut tells the library what to do. The program never sees them.
#pragma once

namespace crashcut::inject {

// "<control fd>,<socket fd>": the library has something to do here (recovery/inprocess/protocol.h).
inline constexpr const char* kControlVariable = "CRASHCUT_RUNTIME";
// "<control fd>,<names fd>": the program's threads are scheduled (scheduler/runtime/protocol.h).
inline constexpr const char* kThreadsVariable = "CRASHCUT_THREADS";
// What -fsanitize=thread calls comes to the library, though threads are not scheduled (scheduler/runtime/
// access_model.h).
inline constexpr const char* kCallbacksVariable = "CRASHCUT_CALLBACKS";
// The number of the host that the program is, where several take part in an execution.
inline constexpr const char* kHostVariable = "CRASHCUT_HOST";
inline constexpr const char* kBindNowMark = "CRASHCUT_BIND_NOW";  // LD_BIND_NOW is ours, not the user's
inline constexpr const char* kPaddingName = "CRASHCUT_PADDING";   // any number of times (fresh_stack.h)
// The directory that the program is told it starts in: the root of the modelled files.
inline constexpr const char* kModelRoot = "/crashcut";

// The value of the variable; null if there is none.
const char* find_variable(char** envp, const char* name);
// Takes it out of the environment, too.
const char* take_variable(char** envp, const char* name);
// Reads two descriptors, "<first>,<second>". False if the text has another form.
bool parse_descriptors(const char* text, int& first, int& second);
// LD_PRELOAD as it was before crashcut put the library first.
void restore_preload(char** envp);

}  // namespace crashcut::inject
