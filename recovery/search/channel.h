// Channel: JSON messages of any size over a socket that keeps packets apart (SOCK_SEQPACKET).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace crashcut::search {

using Json = nlohmann::ordered_json;

// False where the other side is gone.
bool send(int socket, const Json& message);
// None where the other side is gone, or sent something else. Blocks.
std::optional<Json> receive(int socket);

}  // namespace crashcut::search
