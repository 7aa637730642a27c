#include "recovery/mounted/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <fstream>

#include "fusefs/checksum.h"
#include "recovery/result/token_bytes.h"

namespace crashcut::mounted {
namespace {

namespace fs = boost::filesystem;

constexpr std::uint64_t kLimitMost_s = 1'000'000'000;

std::string own_of(const CheckPlan& plan, const Question& question) {
  result::TokenWriter out;
  const auto* file = std::get_if<FileQuestion>(&question);
  out.number(file != nullptr ? 1 : 0);
  if (file != nullptr) {
    std::vector<std::string> expects;
    for (const Expect expect : file->expects) expects.emplace_back(to_text(expect));
    out.text(file->path);
    out.texts(file->backups);
    out.number((file->whole ? 1 : 0) + (file->durable ? 2 : 0));
    out.texts(expects);
  }
  out.number(static_cast<std::uint64_t>(plan.check_limit.count()));
  return out.take();
}

// False where it makes no sense.
bool read_own(const std::string& own, CheckToken& token) {
  result::TokenReader in(own);
  token.question = CommandQuestion{};
  if (in.number(1) == 1) {
    FileQuestion file;
    file.path = in.text();
    file.backups = in.texts();
    const std::uint64_t flags = in.number(3);
    file.whole = (flags & 1) != 0;
    file.durable = (flags & 2) != 0;
    for (const std::string& name : in.texts()) {
      const auto expect = parse_expect(name);
      if (!expect) return false;
      file.expects.insert(*expect);
    }
    token.question = std::move(file);
  }
  token.plan.check_limit = std::chrono::seconds(in.number(kLimitMost_s));
  return in.at_end() && (std::holds_alternative<FileQuestion>(token.question) || !token.plan.checker.empty());
}

// The path from the current directory; empty where it is not below that.
std::string below_here(const std::string& directory) {
  boost::system::error_code error;
  const fs::path relative = fs::relative(directory, fs::current_path(), error);
  return error || relative.empty() || *relative.begin() == ".." ? "" : relative.string();
}

// Where the results may be, the likeliest first.
std::vector<std::string> places_of(const std::string& named) {
  std::vector<std::string> places{named};
  boost::system::error_code error;
  std::vector<std::string> others;
  for (fs::directory_iterator at("crashcut.out", error), end; !error && at != end; at.increment(error))
    others.push_back(at->path().string());
  std::sort(others.begin(), others.end());
  places.insert(places.end(), others.begin(), others.end());
  return places;
}

}  // namespace

std::uint64_t sum_of_trace(const std::string& directory) {
  std::uint64_t sum = 0;
  std::ifstream file(trace_of(directory), std::ios::binary);
  std::vector<char> piece(1 << 20);
  do {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    sum = fusefs::xxh64({piece.data(), static_cast<std::size_t>(file.gcount())}, sum);
  } while (file);
  return sum & 0xffffffff;
}

std::string replay_options(const std::string& directory) {
  return below_here(directory).empty() ? "--results " + directory + " " : "";
}

result::Token token_of(const CheckPlan& plan, std::uint64_t trace_sum, const Question& question) {
  result::Token out;
  out.command = "check";
  const std::string below = below_here(plan.directory);
  out.program = below.empty() ? result::portable_path(plan.directory) : below;
  out.program_id = fmt::format("{:08x}", trace_sum);
  out.arguments = plan.checker.words;
  out.model = fusefs::changes_of(plan.model);
  out.own = own_of(plan, question);
  return out;
}

tl::expected<std::string, Failure> find_recording(const result::Token& from, const std::string& directory) {
  const std::vector<std::string> places = directory.empty() ? places_of(from.program) : std::vector{directory};
  std::string others;
  for (const std::string& place : places) {
    boost::system::error_code error;
    if (!fs::exists(trace_of(place), error)) continue;
    if (fmt::format("{:08x}", sum_of_trace(place)) == from.program_id) return fs::canonical(place).string();
    others += fmt::format("{}{}", others.empty() ? "" : ", ", place);
  }
  const std::string found =
      others.empty() ? "no recording is there" : fmt::format("the recordings in {} are other ones", others);
  return result::wrong_use(fmt::format(
      "The recording that this token was made from, {}, is not found in the current directory: {}. Name the directory "
      "of the results with --results.",
      from.program, found));
}

tl::expected<CheckToken, Failure> read_token(const result::Token& from, const std::string& directory) {
  CheckToken token;
  token.token = from;
  token.plan.checker.words = from.arguments;
  const auto model = fusefs::options_of(from.model);
  if (!model || !read_own(from.own, token)) return result::wrong_use(result::no_crashcut_wrote_it());
  token.plan.model = *model;
  auto found = find_recording(from, directory);
  if (!found) return tl::unexpected(found.error());
  token.plan.directory = std::move(*found);
  return token;
}

}  // namespace crashcut::mounted
