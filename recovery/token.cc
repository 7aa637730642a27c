#include "recovery/token.h"

#include <algorithm>

#include <boost/crc.hpp>
#include <fmt/format.h>

#include "recovery/base64url.h"
#include "recovery/inprocess/protocol.h"

namespace crashcut::recovery {
namespace {

using fusefs::ModelOptions;
using inprocess::kCrashAgain;

constexpr std::string_view kPrefix = "cc1";
constexpr std::size_t kTextMost = std::size_t{4} << 20;
constexpr std::size_t kStringMost = inprocess::kTextMost - 1;
constexpr std::uint64_t kArgumentsMost = 1024;
constexpr std::uint64_t kAnswersMost = 1'000'000;
constexpr std::uint64_t kDepthMost = 64;

std::uint32_t crc_of(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

class Writer {
 public:
  void number(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  void fixed(std::uint64_t value, int byte_count) {
    for (int i = 0; i < byte_count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 255);
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what is there; once something was not, ok() is false and everything reads as 0 or empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number(std::uint64_t most = ~std::uint64_t{0}) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = fixed(1);
      if (shift == 63 && byte > 1) break;
      value |= (byte & 127) << shift;
      if (byte < 128) return value <= most ? value : fail();
    }
    return fail();
  }
  std::uint64_t fixed(std::size_t byte_count) {
    if (bytes_.size() < byte_count) return fail();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < byte_count; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
    bytes_.remove_prefix(byte_count);
    return value;
  }
  std::string text() {
    const std::size_t size = number(kStringMost);
    if (bytes_.size() < size || bytes_.substr(0, size).find('\0') != std::string_view::npos) fail();
    std::string value(bytes_.substr(0, ok_ ? size : 0));
    bytes_.remove_prefix(value.size());
    return value;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  std::uint64_t fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

void write_model(Writer& out, const ModelOptions& model) {
  out.number(static_cast<std::uint64_t>(model.profile));
  out.number(static_cast<std::uint64_t>(model.data));
  out.number((model.delalloc ? 1 : 0) | (model.auto_da_alloc ? 2 : 0) | (model.dioread_nolock ? 4 : 0) |
             (model.barrier ? 8 : 0));
  out.number(model.sector_bytes);
  out.number(model.block_bytes);
}

ModelOptions read_model(Reader& in) {
  ModelOptions model;
  model.profile = static_cast<fusefs::ProfileName>(in.number(static_cast<std::uint64_t>(fusefs::ProfileName::kExt4)));
  model.data = static_cast<fusefs::DataMode>(in.number(static_cast<std::uint64_t>(fusefs::DataMode::kWriteback)));
  const std::uint64_t flags = in.number(15);
  model.delalloc = (flags & 1) != 0;
  model.auto_da_alloc = (flags & 2) != 0;
  model.dioread_nolock = (flags & 4) != 0;
  model.barrier = (flags & 8) != 0;
  model.sector_bytes = static_cast<std::uint32_t>(in.number(~std::uint32_t{0}));
  model.block_bytes = static_cast<std::uint32_t>(in.number(~std::uint32_t{0}));
  return model;
}

// Runs of equal answers: 2 * (answer + 1, or 0 for kCrashAgain), plus 1 where the number of repeats follows.
void write_path(Writer& out, const std::vector<std::uint32_t>& path) {
  out.number(path.size());
  for (std::size_t i = 0; i < path.size();) {
    std::size_t end = i + 1;
    while (end < path.size() && path[end] == path[i]) ++end;
    const std::uint64_t code = 2 * (path[i] == kCrashAgain ? 0 : std::uint64_t{path[i]} + 1);
    const std::size_t count = end - i;
    out.number(code + (count > 2 ? 1 : 0));
    if (count > 2) out.number(count - 1);
    if (count == 2) out.number(code);
    i = end;
  }
}

std::vector<std::uint32_t> read_path(Reader& in) {
  std::vector<std::uint32_t> path;
  const std::uint64_t length = in.number(kAnswersMost);
  while (in.ok() && path.size() < length) {
    const std::uint64_t code = in.number(2 * std::uint64_t{kCrashAgain} + 1);
    const std::uint64_t more = code % 2 == 1 ? in.number(length - path.size() - 1) : 0;
    const std::uint32_t answer = code / 2 == 0 ? kCrashAgain : static_cast<std::uint32_t>(code / 2 - 1);
    if (in.ok()) path.insert(path.end(), more + 1, answer);
  }
  return path;
}

ReplayToken read_body(Reader& in) {
  ReplayToken token;
  token.program = in.text();
  const std::uint64_t argument_count = in.number(kArgumentsMost);
  for (std::uint64_t i = 0; in.ok() && i < argument_count; ++i) token.arguments.push_back(in.text());
  token.from_directory = in.text();
  token.model = read_model(in);
  token.depth = static_cast<std::uint32_t>(in.number(kDepthMost));
  token.seed = in.number();
  token.fingerprint = in.fixed(8);
  token.path = read_path(in);
  return token;
}

bool makes_sense(const ReplayToken& token) {
  return token.program.starts_with('/') && (token.from_directory.empty() || token.from_directory.starts_with('/')) &&
         token.depth >= 1 && fusefs::check_geometry(token.model).has_value() &&
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
  Writer out;
  out.text(token.program);
  out.number(token.arguments.size());
  for (const std::string& argument : token.arguments) out.text(argument);
  out.text(token.from_directory);
  write_model(out, token.model);
  out.number(token.depth);
  out.number(token.seed);
  out.fixed(token.fingerprint, 8);
  write_path(out, token.path);
  out.fixed(crc_of(out.bytes()), 4);
  return std::string(kPrefix) + to_base64url(out.bytes());
}

tl::expected<ReplayToken, std::string> decode(std::string_view text) {
  if (text.size() > kTextMost) return tl::unexpected(std::string("This is too long for a replay token."));
  if (!text.starts_with(kPrefix)) {
    return tl::unexpected(fmt::format("This is not a replay token of this version: those begin with {}.", kPrefix));
  }
  const auto bytes = from_base64url(text.substr(kPrefix.size()));
  const std::string damaged = "The replay token is damaged: was all of it copied?";
  if (!bytes || bytes->size() < 4) return tl::unexpected(damaged);
  const std::string_view body = std::string_view(*bytes).substr(0, bytes->size() - 4);
  if (Reader(std::string_view(*bytes).substr(body.size())).fixed(4) != crc_of(body)) return tl::unexpected(damaged);
  Reader in(body);
  ReplayToken token = read_body(in);
  if (!in.at_end() || !makes_sense(token)) {
    return tl::unexpected(std::string("The replay token holds what no crashcut writes."));
  }
  return token;
}

}  // namespace crashcut::recovery
