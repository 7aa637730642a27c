// ConformState: what crashcut conform was asked to compare, and what it has compared so far. A file in the directory of
// the results keeps it, so that a later command can go on (docs/tokens.md has the format).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/conform_case.h"
#include "cli/conform_compare.h"
#include "cli/conform_table.h"
#include "recovery/result/result.h"
#include "recovery/result/token.h"

namespace crashcut::cli {

struct ConformPlan {
  std::vector<std::string> mounts;  // "data=journal"
  ConformSets sets;
  std::uint32_t runs = 4, subsets = 32;

  // What was typed, but for bounds and reports: "--seq1 --runs 4 ... -o data=journal".
  std::vector<std::string> words() const;
  // The same as a person types it.
  std::string command() const;
  ConformSetup setup_of(std::size_t mount) const { return {mounts[mount], runs, subsets, sets.seed}; }
};

struct ConformFinding {
  std::string mount, set;
  std::string program;  // as typed: "--call creat:foo ..."
  std::vector<std::string> words;
  OutsideState outside;  // its file is a name in the directory of the results, or a path while it is not there yet
  std::vector<std::string> allowed;
};

struct ConformState {
  // Of one way to mount.
  struct Mount {
    std::vector<ConformRow> rows;  // one a set, in the order of the cases
    std::set<std::size_t> done;    // cases
  };

  ConformPlan plan;
  std::uint64_t fingerprint = 0;  // of all cases
  std::size_t case_count = 0;
  std::vector<Mount> mounts;  // as many as the plan has
  std::vector<ConformFinding> findings;
  double seconds = 0;

  // Nothing is compared yet.
  static ConformState of(const ConformPlan& plan, const std::vector<ConformCase>& cases);
  // Findings get the path of their image.
  void add(std::size_t mount, const ConformCase& one, std::size_t index, const Compared& compared);
  std::vector<std::size_t> left(std::size_t mount) const;
  std::uint64_t done_count() const;
  std::uint64_t program_count() const { return std::uint64_t{case_count} * plan.mounts.size(); }
  // Those with programs.
  std::vector<ConformRow> rows() const;
};

std::uint64_t fingerprint_of(const std::vector<ConformCase>& cases);
std::string encode(const ConformState& state);
// It is input from anywhere: the error is a sentence.
tl::expected<ConformState, std::string> decode_conform(std::string_view text);

}  // namespace crashcut::cli
