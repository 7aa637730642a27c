// crashcut replay of what crashcut conform found.
#include <fmt/format.h>

#include <boost/filesystem.hpp>

#include "cli/conform_result.h"
#include "cli/reports.h"
#include "cli/scratch_directory.h"
#include "recovery/kernel/states.h"
#include "recovery/result/words.h"

namespace crashcut::cli {

using result::Failure;

tl::expected<search::Replayed, Failure> replay_conform_token(const result::Token& from, const std::string& directory) {
  const auto token = read_conform_token(from, directory);
  if (!token) return tl::unexpected(token.error());
  const auto cases = case_of(token->words);
  if (!cases) return tl::unexpected(cases.error());
  const ConformCase& one = cases->cases.front();
  print(stdout, fmt::format("crashcut replay: {} | {} | {}\n", result::printable(token->image),
                            filesystem_of(token->setup.mount), result::printable(one.text)));
  const ScratchDirectory scratch;
  Comparer comparer(token->setup, scratch.path(), [] { return false; });
  if (auto ok = comparer.start(); !ok) return tl::unexpected(ok.error());
  const auto allowed = comparer.model_states(one);
  if (!allowed) return tl::unexpected(allowed.error());
  if (!*allowed) return result::wrong_use("The model's states are too many to be compared.");
  const auto shown = kernel::state_of_image(token->image, scratch.path(), comparer.disk(), one.looking, token->marks);
  if (!shown) return tl::unexpected(shown.error());
  search::Replayed replayed;
  replayed.is_violation = shown->has_value() && !(*allowed)->contains(**shown);
  replayed.told.label = "outside";
  replayed.told.sentence =
      fmt::format("the kernel left what the model {}: {}", replayed.is_violation ? "does not allow" : "allows",
                  shown->has_value() ? result::printable_outcome(**shown) : "a state that the program assumes away");
  for (const std::string& state : **allowed) print(stdout, fmt::format("  allowed: {}\n", state));
  return replayed;
}

}  // namespace crashcut::cli
