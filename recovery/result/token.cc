#include "recovery/result/token.h"

#include <algorithm>

#include "recovery/result/token_bytes.h"

namespace crashcut::result {
namespace {

bool makes_sense(const Token& token) {
  return !token.command.empty() && !token.program.starts_with('/') && !token.from.starts_with('/') &&
         token.depth >= 1 &&
         std::count(token.path.begin(), token.path.end(), kCrashAgain) < static_cast<std::ptrdiff_t>(token.depth);
}

}  // namespace

std::string encode(const Token& token) {
  TokenWriter out;
  out.text(token.command);
  out.text(token.program);
  out.text(token.program_id);
  out.texts(token.arguments);
  out.text(token.from);
  out.model(token.model);
  out.number(token.depth);
  out.number(token.seed);
  out.fixed(token.fingerprint, 8);
  out.path(token.path);
  out.bytes(token.own);
  return seal(kTokenPrefix, out.take());
}

tl::expected<Token, std::string> decode(std::string_view text) {
  const auto body = unseal(kTokenPrefix, text);
  if (!body) return tl::unexpected(body.error());
  TokenReader in(*body);
  Token token;
  token.command = in.text();
  token.program = in.text();
  token.program_id = in.text();
  token.arguments = in.texts();
  token.from = in.text();
  token.model = in.model();
  token.depth = static_cast<std::uint32_t>(in.number(kDepthMost));
  token.seed = in.number();
  token.fingerprint = in.fixed(8);
  token.path = in.path();
  token.own = in.bytes();
  if (!in.at_end() || !makes_sense(token)) return tl::unexpected(no_crashcut_wrote_it());
  return token;
}

std::string portable_path(const std::string& typed) {
  if (!typed.starts_with('/')) return typed;
  return typed.substr(typed.find_last_of('/') + 1);
}

}  // namespace crashcut::result
