// Writes a report to where the user wants it: whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "recovery/inprocess/session.h"

namespace crashcut::cli {

// Whether the file can be written, so that a long search does not end in vain. "" and "-" always can.
tl::expected<void, result::Failure> check_json_file(const std::string& path);
// "" writes nothing, "-" is stdout.
tl::expected<void, result::Failure> write_json_file(const std::string& path, std::string_view text);

}  // namespace crashcut::cli
