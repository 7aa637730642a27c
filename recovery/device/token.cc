#include "recovery/device/token.h"

#include "recovery/mounted/token.h"
#include "recovery/result/token_bytes.h"

namespace crashcut::device {

result::Token token_of(const CheckPlan& plan, std::uint64_t trace_sum) {
  result::Token token = mounted::token_of(plan.common, trace_sum, mounted::CommandQuestion{});
  token.command = kTokenCommand;
  token.model = blocklayer::changes_of(plan.drive);
  return token;
}

tl::expected<DeviceToken, Failure> read_token(const result::Token& from, const std::string& directory) {
  const auto drive = blocklayer::options_of(from.model);
  if (!drive) return result::wrong_use(result::no_crashcut_wrote_it());
  result::Token without_model = from;
  without_model.model = {};
  auto read = mounted::read_token(without_model, directory);
  if (!read) return tl::unexpected(read.error());
  if (read->plan.checker.empty()) return result::wrong_use(result::no_crashcut_wrote_it());
  return DeviceToken{from, CheckPlan{read->plan, *drive}};
}

}  // namespace crashcut::device
