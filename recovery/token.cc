#include "recovery/token.h"

#include <algorithm>

#include "recovery/inprocess/protocol.h"
#include "recovery/token_bytes.h"

namespace crashcut::recovery {
namespace {

using inprocess::kCrashAgain;

constexpr std::string_view kPrefix = "cc1";

ReplayToken read_body(TokenReader& in) {
  ReplayToken token;
  token.program = in.text();
  token.arguments = in.texts(kTokenArgumentsMost);
  token.from_directory = in.text();
  token.model = in.model();
  token.depth = static_cast<std::uint32_t>(in.number(kTokenDepthMost));
  token.seed = in.number();
  token.fingerprint = in.fixed(8);
  token.path = in.path();
  return token;
}

bool makes_sense(const ReplayToken& token) {
  return token.program.starts_with('/') && (token.from_directory.empty() || token.from_directory.starts_with('/')) &&
         token.depth >= 1 &&
         std::count(token.path.begin(), token.path.end(), kCrashAgain) < static_cast<std::ptrdiff_t>(token.depth);
}

}  // namespace

ReplayToken make_token(const Plan& plan, std::uint64_t fingerprint, std::vector<std::uint32_t> path) {
  return ReplayToken{plan.program, plan.arguments, plan.from_directory, plan.model,
                     plan.depth,   plan.seed,      fingerprint,         std::move(path)};
}

Plan plan_of(const ReplayToken& token) {
  Plan plan;
  plan.program = token.program;
  plan.arguments = token.arguments;
  plan.from_directory = token.from_directory;
  plan.model = token.model;
  plan.depth = token.depth;
  plan.seed = token.seed;
  return plan;
}

std::string encode(const ReplayToken& token) {
  TokenWriter out;
  out.text(token.program);
  out.texts(token.arguments);
  out.text(token.from_directory);
  out.model(token.model);
  out.number(token.depth);
  out.number(token.seed);
  out.fixed(token.fingerprint, 8);
  out.path(token.path);
  return seal(kPrefix, out.take());
}

tl::expected<ReplayToken, std::string> decode(std::string_view text) {
  const auto body = unseal(kPrefix, text);
  if (!body) return tl::unexpected(body.error());
  TokenReader in(*body);
  ReplayToken token = read_body(in);
  if (!in.at_end() || !makes_sense(token)) return tl::unexpected(no_crashcut_wrote_it());
  return token;
}

}  // namespace crashcut::recovery
