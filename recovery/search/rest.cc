#include "recovery/search/rest.h"

#include "recovery/result/token_bytes.h"

namespace crashcut::search {
namespace {

constexpr std::size_t kBytesMost = std::size_t{256} << 20;

Json to_json(const Unit& unit) {
  Json size;
  if (unit.size) size = {unit.size->low, unit.size->likely, unit.size->high};
  return {unit.question, to_binary(unit.part), size};
}

Unit unit_from(const Json& json) {
  Unit unit{json.at(0), numbers_from(json.at(1))};
  const Json& size = json.at(2);
  if (!size.is_null()) unit.size = persist::Estimate{size.at(0), size.at(1), size.at(2)};
  return unit;
}

}  // namespace

std::string encode(const Rest& rest) {
  Json units = Json::array();
  for (const Unit& unit : rest.units) units.push_back(to_json(unit));
  std::string bytes;
  Json::to_cbor({{"units", std::move(units)},
                 {"tree", search::to_json(rest.tree)},
                 {"samples", search::to_json(rest.samples)},
                 {"seconds", rest.seconds},
                 {"fingerprint", rest.fingerprint},
                 {"own", rest.own}},
                nlohmann::detail::output_adapter<char>(bytes));
  return result::seal(kRestPrefix, std::move(bytes));
}

tl::expected<Rest, std::string> decode_rest(std::string_view text) {
  const auto bytes = result::unseal(kRestPrefix, text, kBytesMost);
  if (!bytes) return tl::unexpected(bytes.error());
  try {
    const Json json = Json::from_cbor(*bytes);
    Rest rest;
    for (const Json& unit : json.at("units")) {
      rest.units.push_back(unit_from(unit));
      if (!persist::is_part(rest.units.back().part)) return tl::unexpected(result::no_crashcut_wrote_it());
    }
    rest.tree = tally_from(json.at("tree"));
    rest.samples = tally_from(json.at("samples"));
    rest.seconds = json.at("seconds");
    rest.fingerprint = json.at("fingerprint");
    rest.own = json.at("own");
    return rest;
  } catch (const Json::exception&) {
    return tl::unexpected(result::no_crashcut_wrote_it());
  }
}

}  // namespace crashcut::search
