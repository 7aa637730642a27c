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
using result::Mend;

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
  std::string lost_of_files{};  // a call on files that was lost before
};

tl::expected<Candidates, Failure> read_candidates(std::string_view text) try {
  Candidates candidates;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Json line = Json::parse(text.substr(0, end));
    if (line.contains("lost_earlier")) {
      candidates.has_lost_earlier = line.at("lost_earlier");
      candidates.lost_of_files = line.at("lost_of_files");
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
  std::optional<persist::Path> failed{};  // the path of one that did
  bool is_complete = false;
};

bool is_failed(const FlushSearch& search, const Recovery& recovery) {
  if (recovery.kind == RecordKind::kOk) return search.prefixes != nullptr && !search.prefixes->is_expected(recovery);
  return recovery.kind != RecordKind::kAssumedAway;
}

tl::expected<Tried, Failure> try_flushes(const FlushSearch& search, const std::vector<Candidate>& candidates) {
  Session& session = search.session;
  std::vector<pmem::AddedFlush> flushes;
  for (const Candidate& candidate : candidates) flushes.push_back(candidate.flush);
  session.add_flushes(flushes);
  if (search.record_again) {
    if (auto again = search.record_again(); !again) return tl::unexpected(again.error());
  }
  Tried tried;
  bool is_stopped = false;
  session.begin_explore({}, search.max_recoveries);
  for (bool has_ended = false; !has_ended;) {
    pollfd ready{session.fd(), POLLIN, 0};
    const bool is_readable = poll(&ready, 1, kTickMs) > 0;
    const auto ended = session.advance(is_readable, [&](const Recovery& recovery) {
      ++tried.recoveries;
      if (!tried.failed && is_failed(search, recovery)) tried.failed = recovery.path;
    });
    if (!ended) return tl::unexpected(ended.error());
    has_ended = *ended;
    is_stopped = is_stopped || tried.failed || search.is_over();
    if (is_stopped) session.stop();
  }
  tried.is_complete = !is_stopped && session.left().empty() && !session.is_lost();
  return tried;
}

std::string what_text(const Candidate& candidate) {
  if (candidate.flush.kind == Kind::kFence) return fmt::format("a fence after {}", candidate.after);
  const std::string lines = candidate.lines > 1 ? fmt::format(" ({} cache lines)", candidate.lines) : "";
  const std::string fence = candidate.flush.kind == Kind::kFlush ? "" : " and a fence";
  return fmt::format("a flush of {}{}{} after {}", candidate.flushed, lines, fence, candidate.after);
}

// One candidate, or several that help together.
FoundFlush found_flushes(const FlushSearch& search, const std::vector<Candidate>& candidates, const Tried& tried) {
  static constexpr const char* kKinds[] = {"fence", "flush", "flush and fence", "flush and fence"};
  const std::string recoveries = result::count_text(tried.recoveries, "recovery", "recoveries");
  const std::string end = tried.is_complete
                              ? fmt::format("{}{}, none failed", tried.recoveries == 1 ? "" : "all ", recoveries)
                              : fmt::format("{}, none failed; there are more", recoveries);
  Mend mend{kKinds[static_cast<std::size_t>(candidates.front().flush.kind)]};
  std::string what;
  for (const Candidate& candidate : candidates) {
    mend.place += (mend.place.empty() ? "after " : ", ") + candidate.after;
    what += (what.empty() ? "" : "; ") + what_text(candidate);
  }
  if (candidates.front().flush.kind != Kind::kFence) {
    mend.target = candidates.front().flushed;
    mend.lines = candidates.front().lines;
  }
  mend.recoveries = tried.recoveries;
  mend.is_verified = tried.is_complete;
  what[0] = 'A';
  const std::string verified = tried.is_complete ? "verified with" : "tried with";
  const char* scope = search.record_again ? ", under this schedule" : "";
  mend.text =
      candidates.size() == 1
          ? fmt::format("{} makes this go away ({} it{}: {}).", what, verified, scope, end)
          : fmt::format("No single flush or fence makes this go away, but these do together ({} them{}: {}): {}.",
                        verified, scope, end, what);
  return {std::move(mend)};
}

bool has_second_crash(std::span<const std::uint32_t> path) {
  return std::find(path.begin(), path.end(), kCrashAgain) != path.end();
}

FoundFlush no_flush(std::string text) { return {std::nullopt, std::move(text)}; }

tl::expected<Candidates, Failure> find_candidates(Session& session) {
  const auto text = session.find_flushes();
  if (!text) return tl::unexpected(text.error());
  return read_candidates(*text);
}

// Leaves out what is not needed. `tried` is what became of all of them.
tl::expected<FoundFlush, Failure> found_least(const FlushSearch& search, std::vector<Candidate> added, Tried tried) {
  for (std::size_t i = added.size(); i-- > 0 && added.size() > 1 && !search.is_over();) {
    std::vector<Candidate> fewer = added;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const auto again = try_flushes(search, fewer);
    if (!again) return tl::unexpected(again.error());
    if (again->failed || again->recoveries == 0 || again->is_complete < tried.is_complete) continue;
    added = std::move(fewer);
    tried = *again;
  }
  return found_flushes(search, added, tried);
}

// Flushes that help together: each makes the last recovery that failed impossible, as strongly as it can. None: not so
// many are enough.
tl::expected<std::optional<FoundFlush>, Failure> try_together(const FlushSearch& search, Candidates candidates) {
  std::vector<Candidate> added;
  while (added.size() < kAddedMost && !search.is_over()) {
    const auto is_new = [&](const Candidate& candidate) {
      return std::none_of(added.begin(), added.end(), [&](const Candidate& a) { return a.flush == candidate.flush; });
    };
    const auto strongest =
        std::max_element(candidates.list.begin(), candidates.list.end(), [&](const Candidate& a, const Candidate& b) {
          return std::pair(is_new(a), a.flush.kind) < std::pair(is_new(b), b.flush.kind);
        });
    if (strongest == candidates.list.end() || !is_new(*strongest)) return std::nullopt;
    added.push_back(*strongest);
    const auto tried = try_flushes(search, added);
    if (!tried) return tl::unexpected(tried.error());
    if (!tried->failed) {
      if (tried->recoveries == 0) return std::nullopt;
      return found_least(search, added, *tried);
    }
    if (has_second_crash(*tried->failed)) return std::nullopt;
    if (const auto again = search.session.replay(*tried->failed); !again) return tl::unexpected(again.error());
    auto next = find_candidates(search.session);
    if (!next) return tl::unexpected(next.error());
    candidates = std::move(*next);
  }
  return std::nullopt;
}

tl::expected<FoundFlush, Failure> try_all(const FlushSearch& search, const Candidates& candidates) {
  std::size_t count = 0;
  for (const Candidate& candidate : candidates.list) {
    if (count == kCandidatesMost || search.is_over()) {
      return no_flush(fmt::format("Whether one flush or fence makes this go away is not known: {} of {} were tried.",
                                  count, candidates.list.size()));
    }
    const auto tried = try_flushes(search, {candidate});
    if (!tried) return tl::unexpected(tried.error());
    if (!tried->failed && tried->recoveries > 0) return found_flushes(search, {candidate}, *tried);
    ++count;
  }
  if (!candidates.has_lost_earlier && !candidates.lost_of_files.empty()) {
    return no_flush(
        fmt::format("No flush or fence makes this go away: what was lost is not memory but {}, which main() had done "
                    "before a store that is there. An fsync() in between may be missing.",
                    candidates.lost_of_files));
  }
  if (!candidates.has_lost_earlier) {
    return no_flush(
        "No flush or fence makes this go away: nothing was lost that main() had stored before what was there. The "
        "order of its stores leads here, or how far one store is torn.");
  }
  auto together = try_together(search, candidates);
  if (!together) return tl::unexpected(together.error());
  return together->value_or(no_flush("No single flush or fence makes this go away."));
}

}  // namespace

tl::expected<FoundFlush, Failure> find_missing_flush(const FlushSearch& search) {
  if (has_second_crash(search.path))
    return no_flush("Which flush is missing was not looked for: it takes several crashes in a row.");
  if (!search.is_slow) {
    if (const auto again = search.session.replay(search.path); !again) return tl::unexpected(again.error());
  }
  const auto candidates = find_candidates(search.session);
  if (!candidates) return tl::unexpected(candidates.error());
  auto missing = try_all(search, *candidates);
  search.session.add_flushes({});
  if (search.record_again) {
    if (auto again = search.record_again(); !again) return tl::unexpected(again.error());
  }
  return missing;
}

}  // namespace crashcut::inprocess
