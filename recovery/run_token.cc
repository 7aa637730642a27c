#include "recovery/run_token.h"

#include <string_view>

#include "recovery/result/token_bytes.h"

namespace crashcut::recovery {

// Token::own: these words, as far as they hold.
static constexpr std::string_view kExpectsPrefix = "prefix", kTraps = "trap";

result::Token token_of(const std::string& command, const Plan& plan) {
  result::Token token;
  token.command = command;
  token.program = result::portable_path(plan.named);
  token.program_id = plan.program_id;
  token.arguments = plan.arguments;
  token.from = result::portable_path(plan.from_named);
  token.model = fusefs::changes_of(plan.model);
  if (plan.memory) {
    const auto settings = plan.memory->spec().settings;
    token.model.settings.insert(token.model.settings.end(), settings.begin(), settings.end());
  }
  token.depth = plan.depth;
  token.seed = plan.seed;
  if (plan.expects_prefix) token.own = kExpectsPrefix;
  if (plan.traps) token.own += (token.own.empty() ? "" : " ") + std::string(kTraps);
  return token;
}

tl::expected<Plan, result::Failure> plan_of(const result::Token& token) {
  Plan plan;
  persist::ModelSpec of_files = token.model;
  // With threads, persistent memory may be there.
  if (token.command == kMemoryCommand || token.command == "threads") plan.memory = pmem::take_model(of_files);
  if (token.command == kMemoryCommand && !plan.memory) return result::wrong_use(result::no_crashcut_wrote_it());
  const auto model = fusefs::options_of(of_files);
  if (!model) return result::wrong_use(result::no_crashcut_wrote_it() + " " + model.error());
  plan.named = token.program;
  plan.program_id = token.program_id;
  plan.arguments = token.arguments;
  plan.from_named = token.from;
  plan.model = *model;
  plan.depth = token.depth;
  plan.seed = token.seed;
  plan.expects_prefix = token.own.starts_with(kExpectsPrefix);
  plan.traps = token.command == kMemoryCommand && token.own.ends_with(kTraps);
  return plan;
}

std::string replay_options(const Plan& plan) {
  std::string options;
  if (result::portable_path(plan.named) != plan.named) options += "--program " + plan.named + " ";
  if (result::portable_path(plan.from_named) != plan.from_named) options += "--from " + plan.from_named + " ";
  return options;
}

}  // namespace crashcut::recovery
