// Channel: JSON messages of any size over a socket that keeps packets apart (SOCK_SEQPACKET).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

namespace crashcut::search {

using Json = nlohmann::ordered_json;

// Most answers take a byte: in an array of JSON each takes 16, and a recovery may have a million answers.
Json to_binary(std::span<const std::uint32_t> numbers);
// Throws what nlohmann::json throws where it is none.
std::vector<std::uint32_t> numbers_from(const Json& binary);

// False where the other side is gone.
bool send(int socket, const Json& message);
// None where the other side is gone, or sent something else. Blocks.
std::optional<Json> receive(int socket);

}  // namespace crashcut::search
