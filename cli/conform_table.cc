#include "cli/conform_table.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>

namespace crashcut::cli {
namespace {

using result::wrong_use;

std::string name_of_mount(const ConformRow& row) { return row.options.empty() ? "(default)" : row.options; }

}  // namespace

std::string name_of(const ConformRow& row) { return fmt::format("{}, {}", name_of_mount(row), row.set); }

namespace {

std::string slack_table(const std::vector<ConformRow>& rows) {
  std::map<SlackRule, std::map<std::string, std::uint64_t>> by_rule;
  for (const ConformRow& row : rows) {
    for (const auto& [rule, count] : row.slack) by_rule[rule][name_of_mount(row)] += count;
  }
  if (by_rule.empty()) return "\nThe kernel showed all that the model allows.\n";
  std::string text =
      "\nAllowed by the model, and not shown by the kernel in these runs, by the rule that allows it:\n\n"
      "| rule | why the model allows it | not shown |\n|---|---|---|\n";
  for (const auto& [rule, counts] : by_rule) {
    std::string listed;
    for (const auto& [mount, count] : counts)
      listed += fmt::format("{}{} {}", listed.empty() ? "" : ", ", mount, count);
    text += fmt::format("| {} | {} | {} |\n", name_of(rule), reason_of(rule), listed);
  }
  return text;
}

std::string damage_text(const std::vector<ConformRow>& rows) {
  std::string listed;
  for (const ConformRow& row : rows) {
    if (row.damaged > 0) listed += fmt::format("{}{} in {}", listed.empty() ? "" : ", ", row.damaged, name_of(row));
  }
  if (listed.empty()) return "";
  return fmt::format(
      "\nDamage to the filesystem's own metadata, which is possible without barriers and which the model leaves out: "
      "{} "
      "of the states seen. They are not outside. Only images show them whose metadata, after the replay of the "
      "journal, "
      "is of no one moment of the run, or whose journal has a wrong checksum.\n",
      listed);
}

}  // namespace

std::string_view name_of(SlackRule rule) {
  switch (rule) {
    case SlackRule::kJournal:
      return "the journal commits at any time";
    case SlackRule::kDelayedAllocation:
      return "delayed allocation";
    case SlackRule::kUnwrittenBlocks:
      return "unwritten blocks";
    case SlackRule::kUnorderedData:
      return "data=writeback";
    case SlackRule::kPageCache:
      return "data is written back at any time";
  }
  return "";
}

std::string_view reason_of(SlackRule rule) {
  switch (rule) {
    case SlackRule::kJournal:
      return "a commit may fall between any two handles of the calls (`jbd2_journal_start`, `kjournald2`); the runs "
             "force "
             "commits between calls only. Allowed with data=journal, too";
    case SlackRule::kDelayedAllocation:
      return "size and blocks reach the journal when writeback allocates them, at any time and range by range "
             "(`ext4_writepages`, `mpage_map_and_submit_extent`). Not allowed with nodelalloc";
    case SlackRule::kUnwrittenBlocks:
      return "blocks are allocated unwritten and converted in a later transaction (`ext4_end_io_end`): NULs between "
             "the "
             "two. Not allowed with dioread_lock";
    case SlackRule::kUnorderedData:
      return "the journal does not wait for data, and freed blocks are used again at once "
             "(`ext4_should_writeback_data`). Not allowed with data=ordered";
    case SlackRule::kPageCache:
      return "writeback takes any dirty block by itself (`write_cache_pages`, range_cyclic), and the drive may lose "
             "any "
             "of them; the runs write back whole files. Not allowed with data=journal";
  }
  return "";
}

std::string table_of(const std::vector<ConformRow>& rows, const std::string& what) {
  utsname system{};
  uname(&system);
  std::string text = fmt::format(
      "Linux {}; {}\n\n| mount options | set | programs | images | mounted | states seen | states allowed | outside |\n"
      "|---|---|---|---|---|---|---|---|\n",
      system.release, what);
  std::string skipped;
  for (const ConformRow& row : rows) {
    const bool is_whole = row.programs + row.skipped == row.total;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name_of_mount(row), row.set,
                        is_whole ? std::to_string(row.programs) : fmt::format("{} of {}", row.programs, row.total),
                        row.chosen, row.images, row.seen, row.allowed, row.outside);
    if (row.skipped > 0)
      skipped +=
          fmt::format("{}{} of {} with {}", skipped.empty() ? "" : ", ", row.skipped, row.set, name_of_mount(row));
  }
  if (!skipped.empty())
    text += fmt::format(
        "\nNot compared, as the model's states are more than were looked at, or as the program fails by itself: {}.\n",
        skipped);
  return text + damage_text(rows) + slack_table(rows);
}

TableLines lines_of(const std::string& name) {
  const std::string title = name.empty() ? "conform" : "conform " + name;
  return {fmt::format("<!-- {} -->", title), fmt::format("<!-- {}: end -->", title)};
}

tl::expected<void, result::Failure> update_file(const std::string& path, const std::string& name,
                                                const std::string& table) {
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const TableLines lines = lines_of(name);
  const std::size_t begin = text.find(lines.begin + "\n"), end = text.find(lines.end + "\n");
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return wrong_use(fmt::format("--update {}: it has no lines {} and {}.", path, lines.begin, lines.end));
  if (table.empty()) return {};
  const std::size_t first = begin + lines.begin.size() + 1;
  text.replace(first, end - first, table);
  if (!(std::ofstream(path) << text)) return wrong_use(fmt::format("--update {}: it cannot be written.", path));
  return {};
}

}  // namespace crashcut::cli
