// A function of the program, found by its name in the symbol table, since an ordinary program does not export it.
#pragma once

namespace crashcut::inject {

// Null if there is none. `mangled` is what a C++ program has that declared the function without crashcut.h.
void (*find_program_function(const char* name, const char* mangled))();

}  // namespace crashcut::inject
