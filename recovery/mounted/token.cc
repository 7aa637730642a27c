// Tokens of the mounted front end. JSON inside base64url, as its parts are lists of strings; docs/tokens.md.
#include <boost/crc.hpp>

#include "recovery/base64url.h"
#include "recovery/mounted/check.h"

namespace crashcut::mounted {
namespace {

constexpr std::size_t kTokenBytesMost = 1 << 20;

std::uint32_t sum_of(std::string_view text) {
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  return crc.checksum();
}

Json model_json(const fusefs::ModelOptions& model) {
  return {static_cast<int>(model.profile), static_cast<int>(model.data), model.delalloc, model.auto_da_alloc,
          model.dioread_nolock, model.barrier, model.sector_bytes, model.block_bytes};
}

fusefs::ModelOptions model_from(const Json& json) {
  fusefs::ModelOptions model;
  const int profile = json.at(0), data = json.at(1);
  if (profile < 0 || profile > 1 || data < 0 || data > 2) throw std::runtime_error("unknown model");
  model.profile = static_cast<fusefs::ProfileName>(profile);
  model.data = static_cast<fusefs::DataMode>(data);
  model.delalloc = json.at(2);
  model.auto_da_alloc = json.at(3);
  model.dioread_nolock = json.at(4);
  model.barrier = json.at(5);
  model.sector_bytes = json.at(6);
  model.block_bytes = json.at(7);
  if (!fusefs::check_geometry(model)) throw std::runtime_error("impossible geometry");
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
  const Json json = {{"d", token.directory}, {"t", token.trace_sum}, {"m", model_json(token.model)}, {"q", question_json(token.question)},
                     {"c", token.checker.words}, {"n", token.depth}, {"l", token.check_limit.count()}, {"p", token.path}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return std::string(kTokenPrefix) + recovery::to_base64url(std::to_string(sum_of(text)) + ":" + text);
}

tl::expected<Token, std::string> decode_token(std::string_view text) try {
  const auto refuse = [](const char* why) { return tl::unexpected(std::string("This is not a replay token of crashcut check: ") + why); };
  if (!text.starts_with(kTokenPrefix) || text.size() > kTokenBytesMost) return refuse("it does not begin with cm1.");
  const auto bytes = recovery::from_base64url(text.substr(kTokenPrefix.size()));
  if (!bytes) return refuse("it has characters that no token has.");
  const std::size_t colon = bytes->find(':');
  if (colon == std::string::npos || bytes->substr(0, colon) != std::to_string(sum_of(std::string_view(*bytes).substr(colon + 1)))) {
    return refuse("a part of it is missing or changed. Copy all of it.");
  }
  const Json json = Json::parse(bytes->substr(colon + 1));
  Token token;
  token.directory = json.at("d");
  token.trace_sum = json.at("t");
  token.model = model_from(json.at("m"));
  token.question = question_from(json.at("q"));
  token.checker.words = json.at("c").get<std::vector<std::string>>();
  token.depth = json.at("n");
  token.check_limit = std::chrono::seconds(json.at("l").get<std::int64_t>());
  token.path = json.at("p").get<std::vector<std::uint32_t>>();
  if (std::holds_alternative<CommandQuestion>(token.question) && token.checker.empty()) return refuse("it names no checker.");
  return token;
} catch (const std::exception& error) {
  return tl::unexpected(std::string("This is not a replay token of crashcut check: ") + error.what() + ".");
}

}  // namespace crashcut::mounted
