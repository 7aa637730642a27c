// Readable names: functions and variables as people call them, from what compilers call them.
#pragma once

#include <string>
#include <string_view>

namespace crashcut::source {

// The name that C++ gives it; the same name if it is none of C++.
std::string demangled(const std::string& name);

// "std::thread::_State_impl<...>::_M_run()" is "std::thread", "main::{lambda()#1}::operator()() const" is "lambda in
// main", "std::__cxx11::basic_string<char, ...>" is "std::string". Rust's hashes and "(anonymous namespace)::" are left
// out.
std::string readable(std::string name);

// Whether it is a function of the standard library of C++, by its name.
bool is_library_function(std::string_view name);

}  // namespace crashcut::source
