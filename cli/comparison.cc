#include "cli/comparison.h"

#include <algorithm>

#include "recovery/result/token_bytes.h"
#include "recovery/search/channel.h"

namespace crashcut::cli {
namespace {

using search::Json;

constexpr std::string_view kPrefix = "cm1";
constexpr std::size_t kBytesMost = std::size_t{1} << 30;

}  // namespace

std::string encode(const StoppedComparison& stopped) {
  std::string bytes;
  Json::to_cbor({{"words", stopped.words}, {"directory", stopped.directory}, {"rests", stopped.rests}},
                nlohmann::detail::output_adapter<char>(bytes));
  return result::seal(kPrefix, std::move(bytes));
}

tl::expected<StoppedComparison, std::string> decode_comparison(std::string_view text) {
  const auto bytes = result::unseal(kPrefix, text, kBytesMost);
  if (!bytes) return tl::unexpected(bytes.error());
  try {
    const Json json = Json::from_cbor(*bytes);
    StoppedComparison stopped;
    stopped.words = json.at("words").get<std::vector<std::string>>();
    stopped.directory = json.at("directory");
    stopped.rests = json.at("rests").get<std::vector<std::string>>();
    return stopped;
  } catch (const Json::exception&) {
    return tl::unexpected(result::no_crashcut_wrote_it());
  }
}

bool is_unfinished(const std::vector<ComparedRow>& rows, std::size_t expected_count) {
  return rows.size() < expected_count || std::any_of(rows.begin(), rows.end(), [](const ComparedRow& row) {
           return result::is_partial(row.result.bound) && !row.rest.empty();
         });
}

}  // namespace crashcut::cli
