#include "recovery/kernel/token.h"

#include "recovery/mounted/token.h"
#include "recovery/result/token_bytes.h"

namespace crashcut::kernel {

std::string encode_plan(const CheckPlan& plan) {
  const mounted::CheckPlan& common = plan.common;
  result::TokenWriter out;
  out.texts(common.files);
  out.texts(common.backups);
  std::vector<std::string> expects;
  for (const mounted::Expect expect : common.expects) expects.emplace_back(to_text(expect));
  out.texts(expects);
  out.number((common.tree ? 1 : 0) + (common.durable ? 2 : 0));
  out.texts(common.checker.words);
  out.number(static_cast<std::uint64_t>(common.check_limit.count()));
  out.number(common.search.seed);
  out.text(plan.disk.filesystem.text());
  out.number(plan.disk.bytes);
  out.number(plan.disk.runs);
  out.number(plan.disk.subsets);
  out.model(blocklayer::changes_of(plan.disk.drive));
  return out.take();
}

bool decode_plan(const std::string& bytes, CheckPlan& plan) {
  constexpr std::uint64_t kMost = std::uint32_t(-1);
  mounted::CheckPlan& common = plan.common;
  result::TokenReader in(bytes);
  common.files = in.texts();
  common.backups = in.texts();
  for (const std::string& name : in.texts()) {
    const auto expect = mounted::parse_expect(name);
    if (!expect) return false;
    common.expects.insert(*expect);
  }
  const std::uint64_t flags = in.number(3);
  common.tree = (flags & 1) != 0;
  common.durable = (flags & 2) != 0;
  common.checker.words = in.texts();
  common.check_limit = std::chrono::seconds(in.number(kMost));
  common.search.seed = in.number();
  const auto filesystem = parse_filesystem(in.text());
  if (!filesystem) return false;
  plan.disk.filesystem = *filesystem;
  plan.disk.bytes = in.number();
  plan.disk.runs = static_cast<std::uint32_t>(in.number(kMost));
  plan.disk.subsets = static_cast<std::uint32_t>(in.number(kMost));
  const auto drive = blocklayer::options_of(in.model());
  if (!drive || !in.at_end()) return false;
  plan.disk.drive = *drive;
  return true;
}

result::Token token_of(const CheckPlan& plan, std::uint64_t trace_sum) {
  result::Token token = mounted::token_of(plan.common, trace_sum, mounted::CommandQuestion{});
  token.command = kTokenCommand;
  token.model = {};
  token.own = encode_plan(plan);
  return token;
}

tl::expected<KernelToken, Failure> read_token(const result::Token& from, const std::string& directory) {
  KernelToken token{from, {}};
  if (!decode_plan(from.own, token.plan)) return result::wrong_use(result::no_crashcut_wrote_it());
  auto found = mounted::find_recording(from, directory);
  if (!found) return tl::unexpected(found.error());
  token.plan.common.directory = std::move(*found);
  return token;
}

}  // namespace crashcut::kernel
