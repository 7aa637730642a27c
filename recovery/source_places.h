// Source places: a story of persistent memory comes with code addresses, "{/path/of/file+0x12f4}". Here they become
// source lines, "tree.cpp:12"; "file+0x12f4" without debug information.
#pragma once

#include <string>
#include <vector>

#include "recovery/result/story.h"

namespace crashcut::recovery {

void name_source_places(result::Story& story);
// The same for some texts. A place in a function that was inlined has its caller beside it: "pmem.h:20 (tree.cpp:41)".
void name_source_places(const std::vector<std::string*>& texts);

}  // namespace crashcut::recovery
