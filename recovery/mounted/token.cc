// Tokens of the mounted front end. CBOR inside base64url, as its parts are lists of any bytes; docs/tokens.md.
#include "recovery/base64url.h"
#include "recovery/mounted/check.h"
#include "recovery/token_bytes.h"

namespace crashcut::mounted {
namespace {

std::string model_text(const fusefs::ModelOptions& model) {
  recovery::TokenWriter out;
  out.model(model);
  return recovery::to_base64url(out.take());
}

fusefs::ModelOptions model_from(const std::string& text) {
  const auto bytes = recovery::from_base64url(text);
  if (!bytes) throw std::runtime_error("not base64url");
  recovery::TokenReader in(*bytes);
  const fusefs::ModelOptions model = in.model();
  if (!in.at_end()) throw std::runtime_error("unknown model");
  return model;
}

Json question_json(const Question& question) {
  const auto* file = std::get_if<FileQuestion>(&question);
  if (!file) return nullptr;
  Json expects = Json::array();
  for (const Expect expect : file->expects) expects.push_back(to_text(expect));
  return {file->path, file->backups, file->whole, file->durable, expects};
}

Question question_from(const Json& json) {
  if (json.is_null()) return CommandQuestion{};
  FileQuestion file{json.at(0), json.at(1).get<std::vector<std::string>>(), json.at(2), json.at(3), {}};
  for (const Json& name : json.at(4)) {
    const auto expect = parse_expect(name.get<std::string>());
    if (!expect) throw std::runtime_error(expect.error());
    file.expects.insert(*expect);
  }
  return file;
}

}  // namespace

std::string encode(const Token& token) {
  const Json json = {{"d", token.directory},           {"t", token.trace_sum},
                     {"m", model_text(token.model)},   {"q", question_json(token.question)},
                     {"c", token.checker.words},       {"n", token.depth},
                     {"l", token.check_limit.count()}, {"p", token.path}};
  std::string body;
  Json::to_cbor(json, nlohmann::detail::output_adapter<char>(body));
  return recovery::seal(kTokenPrefix, std::move(body));
}

tl::expected<Token, std::string> decode_token(std::string_view text) try {
  const auto body = recovery::unseal(kTokenPrefix, text);
  if (!body) return tl::unexpected(body.error());
  const Json json = Json::from_cbor(*body);
  Token token;
  token.directory = json.at("d");
  token.trace_sum = json.at("t");
  token.model = model_from(json.at("m").get<std::string>());
  token.question = question_from(json.at("q"));
  token.checker.words = json.at("c").get<std::vector<std::string>>();
  token.depth = json.at("n");
  token.check_limit = std::chrono::seconds(json.at("l").get<std::int64_t>());
  token.path = json.at("p").get<std::vector<std::uint32_t>>();
  if (std::holds_alternative<CommandQuestion>(token.question) && token.checker.empty())
    return tl::unexpected(recovery::no_crashcut_wrote_it());
  return token;
} catch (const std::exception&) {
  return tl::unexpected(recovery::no_crashcut_wrote_it());
}

}  // namespace crashcut::mounted
