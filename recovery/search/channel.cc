#include "recovery/search/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace crashcut::search {
namespace {

// A packet is a byte that says whether more follow, and a piece of the message.
constexpr std::size_t kPieceBytes = 32 << 10;
constexpr std::size_t kMessageBytesMost = std::size_t{1} << 30;

}  // namespace

// Seven bits a byte, the lowest first; the highest bit says that more follow.
Json to_binary(std::span<const std::uint32_t> numbers) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(numbers.size());
  for (std::uint32_t number : numbers) {
    for (; number >= 0x80; number >>= 7) bytes.push_back(static_cast<std::uint8_t>(number | 0x80));
    bytes.push_back(static_cast<std::uint8_t>(number));
  }
  return Json::binary(std::move(bytes));
}

std::vector<std::uint32_t> numbers_from(const Json& binary) {
  std::vector<std::uint32_t> numbers;
  std::uint32_t number = 0;
  int shift = 0;
  for (const std::uint8_t byte : binary.get_binary()) {
    if (shift < 32) number |= (std::uint32_t{byte} & 0x7f) << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    numbers.push_back(number);
    number = 0;
    shift = 0;
  }
  return numbers;
}

bool send(int socket, const Json& message) {
  // CBOR, as file names and output may be any bytes, which are no JSON.
  std::string text;
  Json::to_cbor(message, nlohmann::detail::output_adapter<char>(text));
  for (std::size_t at = 0;;) {
    const std::size_t length = std::min(kPieceBytes, text.size() - at);
    const bool is_last = at + length == text.size();
    const std::string packet = (is_last ? "." : "+") + text.substr(at, length);
    ssize_t sent;
    do sent = ::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != static_cast<ssize_t>(packet.size())) return false;
    if (is_last) return true;
    at += length;
  }
}

std::optional<Json> receive(int socket) {
  std::string text, packet(kPieceBytes + 1, '\0');
  for (;;) {
    ssize_t got;
    do got = recv(socket, packet.data(), packet.size(), 0);
    while (got < 0 && errno == EINTR);
    if (got <= 0 || text.size() + static_cast<std::size_t>(got) > kMessageBytesMost) return std::nullopt;
    text.append(packet, 1, static_cast<std::size_t>(got) - 1);
    if (packet[0] == '.') break;
  }
  Json message = Json::from_cbor(text, true, false);
  if (message.is_discarded()) return std::nullopt;
  return message;
}

}  // namespace crashcut::search
