// Base64url (RFC 4648, section 5) without padding: bytes that can be pasted into a shell unquoted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crashcut::result {

std::string to_base64url(std::string_view bytes);
// Nothing for text that to_base64url() does not make.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace crashcut::result
