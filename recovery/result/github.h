// GitHub: a result as workflow commands, "::error file=tree.cpp,line=41,title=...::text". GitHub shows them at the
// source line.
//
// A violation is an error at each line that is to blame: the accesses of a data race; the places after which a flush or
// fence is missing; otherwise the stores that were lost. Where no line is known it is one error without a file. A
// search that a bound ended is a warning, and so is every note on persistent memory. A verified program has none.
// Escapes: https://github.com/actions/toolkit, packages/core/src/command.ts, escapeData and escapeProperty.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recovery/result/result.h"

namespace crashcut::result {

// The path of a source file in the user's tree. Reports name files without directories.
using FindSource = std::function<std::string(const std::string& name)>;

// `crashcut` is the command as the user would call it elsewhere.
std::string github_text(const Result& result, const std::string& crashcut, const FindSource& find_source);

}  // namespace crashcut::result
