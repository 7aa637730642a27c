// ConformTable: what crashcut conform found, a row for each way to mount and each set of programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/result/failure.h"

namespace crashcut::cli {

// Why the model allows a state that the kernel did not show: the weakest feature without which it would not be allowed.
enum class SlackRule : std::uint8_t { kJournal, kDelayedAllocation, kUnwrittenBlocks, kUnorderedData, kPageCache };
// "delayed allocation", and the reason in a sentence, with the kernel's function.
std::string_view name_of(SlackRule rule);
std::string_view reason_of(SlackRule rule);

struct ConformRow {
  std::string options, set;
  std::uint64_t total = 0;     // programs of the set
  std::uint64_t programs = 0;  // compared
  std::uint64_t images = 0, chosen = 0, seen = 0, allowed = 0, outside = 0;
  std::uint64_t damaged = 0;  // of those seen: left out by the model, of images whose metadata is of no one moment
  std::uint64_t skipped = 0;  // programs whose states on the model are too many, or that fail by themselves
  std::map<SlackRule, std::uint64_t> slack{};

  bool operator==(const ConformRow&) const = default;
};

// "data=ordered, seq-1"
std::string name_of(const ConformRow& row);
// In Markdown. `what` says what was run. A set that was compared in part has a row with "12 of 435" programs.
std::string table_of(const std::vector<ConformRow>& rows, const std::string& what);
// The lines of a page between which the table of this name belongs; an empty name: the one that has none.
struct TableLines {
  std::string begin, end;
};
TableLines lines_of(const std::string& name);
// Puts the text there. An empty text only looks for the lines.
tl::expected<void, result::Failure> update_file(const std::string& path, const std::string& name,
                                                const std::string& text);

}  // namespace crashcut::cli
