// End: crashcut cannot go on with this process. The process ends with a sentence, which the command prints.
#pragma once

#include <string_view>

namespace crashcut::inject {

[[noreturn]] void tool_error(std::string_view sentence);  // we failed, or the system did
[[noreturn]] void user_error(std::string_view sentence);  // the program, or how it is used, is to be changed
// What is recorded takes more memory than it may.
[[noreturn]] void out_of_memory(std::string_view sentence);
// The program did something that only the mounted front end can model.
[[noreturn]] void unsupported(std::string_view call);
// Before there is a connection to the command: prints the sentence on stderr.
[[noreturn]] void die(const char* sentence);

}  // namespace crashcut::inject
