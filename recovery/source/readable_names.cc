#include "recovery/source/readable_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

namespace crashcut::source {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) text.replace(at, what.size(), by);
}

// The end of the brackets that open at `begin`; npos if they do not close.
std::size_t end_of_brackets(std::string_view text, std::size_t begin, char open, char close) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && --depth == 0) return i + 1;
  }
  return text.npos;
}

// "worker(int)::{lambda(int)#2}::operator()(int) const" is "lambda in worker(int)"; of clang "worker(int)::$_0::...".
std::string name_lambda(const std::string& name) {
  const bool is_clangs = name.rfind("::$_") != name.npos;
  const std::size_t at = name.rfind(is_clangs ? "::$_" : "::{lambda(");
  if (at == name.npos || at == 0) return name;
  const std::size_t end =
      is_clangs ? name.find_first_not_of("0123456789", at + 4) : end_of_brackets(name, at + 2, '{', '}');
  if (end == name.npos || !std::string_view(name).substr(end).starts_with("::operator()")) return name;
  return "lambda in " + name_lambda(name.substr(0, at));
}

bool is_rust_hash(std::string_view part) {
  constexpr std::size_t kDigits = 16;
  return part.size() == kDigits + 1 && part[0] == 'h' &&
         part.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

}  // namespace

bool is_library_function(std::string_view name) {
  // The type of its result comes before a template's name.
  for (const std::string_view word : {"std::", "__gthread_", "__gnu_cxx::"}) {
    const std::size_t at = name.find(word);
    const bool is_own = at == 0 || (at != name.npos && name[at - 1] == ' ');
    if (is_own && name.substr(0, at).find_first_of("(<") == name.npos) return true;
  }
  return false;
}

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

std::string readable(std::string name) {
  replace_all(name, "(anonymous namespace)::", "");
  replace_all(name, "[abi:cxx11]", "");
  name.resize(std::min(name.find(" [clone "), name.size()));
  replace_all(name, "std::__cxx11::", "std::");
  replace_all(name, "std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string");
  if (name.starts_with("std::thread::_State_impl<") && name.ends_with("::_M_run()")) return "std::thread";
  if (name == "execute_native_thread_routine") return "std::thread";
  if (const std::size_t last = name.rfind("::"); last != name.npos && is_rust_hash(name.substr(last + 2)))
    name.resize(last);
  return name_lambda(name);
}

}  // namespace crashcut::source
