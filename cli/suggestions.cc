#include "cli/suggestions.h"

#include <algorithm>
#include <numeric>

namespace crashcut::cli {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(last);
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  if (word.size() <= 2) return best;  // every other letter is one letter away
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t d = distance(word, candidate);
    if (d >= best_distance) continue;
    best = candidate;
    best_distance = d;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string best = nearest(word, known);
  return best.empty() ? "" : " Did you mean " + best + "?";
}

}  // namespace crashcut::cli
