// Source places: texts of a program's runtime have code addresses in them, "{/path/of/file+0x12f4}". Here they become
// source lines, "tree.cpp:12"; "file+0x12f4" without debug information.
// A story of files has stacks of such addresses (Operation::code), which become its source lines.
#pragma once

#include <string>
#include <vector>

#include "recovery/result/story.h"
#include "recovery/source/names.h"

namespace crashcut::source {

void name_source_places(Names& names, result::Story& story);
// The calls that led to the operations.
void name_stacks(Names& names, std::vector<result::Operation>& operations);
// The same for some texts. A place in a function that was inlined has its caller beside it: "pmem.h:20 (tree.cpp:41)".
void name_source_places(Names& names, const std::vector<std::string*>& texts);

}  // namespace crashcut::source
