// Source places: a story of persistent memory comes with code addresses, "{/path/of/file+0x12f4}". Here they become
// source lines, "tree.cpp:12"; "file+0x12f4" without debug information.
#pragma once

#include "recovery/result/story.h"

namespace crashcut::recovery {

void name_source_places(result::Story& story);

}  // namespace crashcut::recovery
