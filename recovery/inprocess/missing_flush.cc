#include "recovery/inprocess/missing_flush.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "recovery/result/words.h"

namespace crashcut::inprocess {
namespace {

using Json = nlohmann::json;
using Kind = pmem::AddedFlush::Kind;
using result::MissingFlush;

constexpr std::size_t kCandidatesMost = 64;
constexpr int kTickMs = 20;

struct Candidate {
  pmem::AddedFlush flush;
  std::string after, flushed;
  std::uint64_t lines;
};
struct Candidates {
  std::vector<Candidate> list;
  bool has_lost_earlier = false;
};

tl::expected<Candidates, Failure> read_candidates(std::string_view text) try {
  Candidates candidates;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Json line = Json::parse(text.substr(0, end));
    if (line.contains("lost_earlier")) {
      candidates.has_lost_earlier = line.at("lost_earlier");
    } else {
      candidates.list.push_back(
          {{line.at("kind").get<Kind>(), line.at("place")}, line.at("after"), line.at("flushed"), line.at("lines")});
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return candidates;
} catch (const Json::exception& error) {
  return tl::unexpected(
      result::tools_failure(fmt::format("The runtime's account of flushes cannot be read: {}.", error.what())));
}

// What became of all recoveries with a candidate.
struct Tried {
  std::uint64_t recoveries = 0;
  bool has_failed = false;
  bool is_complete = false;
};

bool is_failed(const FlushSearch& search, const Recovery& recovery) {
  if (recovery.kind == RecordKind::kOk) return search.prefixes != nullptr && !search.prefixes->is_expected(recovery);
  return recovery.kind != RecordKind::kAssumedAway;
}

tl::expected<Tried, Failure> try_flush(const FlushSearch& search, const pmem::AddedFlush& flush) {
  Session& session = search.session;
  session.add_flushes({&flush, 1});
  Tried tried;
  bool is_stopped = false;
  session.begin_explore({}, search.max_recoveries);
  for (bool has_ended = false; !has_ended;) {
    pollfd ready{session.fd(), POLLIN, 0};
    const bool is_readable = poll(&ready, 1, kTickMs) > 0;
    const auto ended = session.advance(is_readable, [&](const Recovery& recovery) {
      ++tried.recoveries;
      tried.has_failed = tried.has_failed || is_failed(search, recovery);
    });
    if (!ended) return tl::unexpected(ended.error());
    has_ended = *ended;
    is_stopped = is_stopped || tried.has_failed || search.is_over();
    if (is_stopped) session.stop();
  }
  tried.is_complete = !is_stopped && session.left().empty() && !session.is_lost();
  return tried;
}

std::string what_text(const Candidate& candidate) {
  if (candidate.flush.kind == Kind::kFence) return fmt::format("A fence after {}", candidate.after);
  const std::string lines = candidate.lines > 1 ? fmt::format(" ({} cache lines)", candidate.lines) : "";
  const std::string fence = candidate.flush.kind == Kind::kFlush ? "" : " and a fence";
  return fmt::format("A flush of {}{}{} after {}", candidate.flushed, lines, fence, candidate.after);
}

MissingFlush found_flush(const Candidate& candidate, const Tried& tried) {
  static constexpr const char* kKinds[] = {"fence", "flush", "flush and fence", "flush and fence"};
  const std::string recoveries = result::count_text(tried.recoveries, "recovery", "recoveries");
  const std::string end = tried.is_complete ? fmt::format("verified with it: {}{}, none failed",
                                                          tried.recoveries == 1 ? "" : "all ", recoveries)
                                            : fmt::format("{} with it, none failed; there are more", recoveries);
  MissingFlush missing{kKinds[static_cast<std::size_t>(candidate.flush.kind)]};
  missing.after = candidate.after;
  if (candidate.flush.kind != Kind::kFence) {
    missing.flushed = candidate.flushed;
    missing.lines = candidate.lines;
  }
  missing.recoveries = tried.recoveries;
  missing.is_verified = tried.is_complete;
  missing.text = fmt::format("{} makes this go away ({}).", what_text(candidate), end);
  return missing;
}

MissingFlush no_flush(std::string text) {
  MissingFlush missing;
  missing.text = std::move(text);
  return missing;
}

tl::expected<MissingFlush, Failure> try_all(const FlushSearch& search, const Candidates& candidates) {
  std::size_t count = 0;
  for (const Candidate& candidate : candidates.list) {
    if (count == kCandidatesMost || search.is_over()) {
      return no_flush(fmt::format("Whether one flush or fence makes this go away is not known: {} of {} were tried.",
                                  count, candidates.list.size()));
    }
    const auto tried = try_flush(search, candidate.flush);
    if (!tried) return tl::unexpected(tried.error());
    if (!tried->has_failed && tried->recoveries > 0) return found_flush(candidate, *tried);
    ++count;
  }
  if (!candidates.has_lost_earlier) {
    return no_flush(
        "No flush or fence makes this go away: nothing was lost that main() had stored before what was there. The "
        "order "
        "of its stores leads here, or how far one store is torn.");
  }
  return no_flush("No single flush or fence makes this go away.");
}

}  // namespace

tl::expected<MissingFlush, Failure> find_missing_flush(const FlushSearch& search) {
  if (std::find(search.path.begin(), search.path.end(), kCrashAgain) != search.path.end())
    return no_flush("Which flush is missing was not looked for: it takes several crashes in a row.");
  if (!search.is_slow) {
    if (const auto again = search.session.replay(search.path); !again) return tl::unexpected(again.error());
  }
  const auto text = search.session.find_flushes();
  if (!text) return tl::unexpected(text.error());
  const auto candidates = read_candidates(*text);
  if (!candidates) return tl::unexpected(candidates.error());
  auto missing = try_all(search, *candidates);
  search.session.add_flushes({});
  return missing;
}

}  // namespace crashcut::inprocess
