#include "recovery/result/verdict.h"

#include <iterator>

namespace crashcut::result {
namespace {

struct VerdictRow {
  std::string_view text;
  int exit_code;
};
constexpr VerdictRow kVerdicts[] = {{"verified", 0}, {"violation", 1}, {"bounded", 3}};

struct BoundRow {
  std::string_view name, clause;
  bool is_partial;
};
// In the order of Bound.
constexpr BoundRow kBounds[] = {
    {"", "", false},
    {"max_recoveries", "--max-recoveries was reached", true},
    {"max_executions", "--max-executions was reached", true},
    {"time", "--time was reached", true},
    {"time", "--time was reached before main() had ended", false},
    {"interrupt", "it was interrupted", true},
    {"memory_limit", "--memory-limit was reached", true},
    {"memory_limit", "--memory-limit was reached before main() had ended", false},
    {"not_run", "a recovery could not be run", true},
    {"enough_found", "enough was found", true},
    {"not_deterministic", "a state did not come out the same again", true},
    {"program_limit", "the program was stopped", false},
    {"recording_cut", "--memory-limit leaves no room for the whole recording", false},
    {"steps", "--steps left schedules out", false},
    {"preemptions", "--preemptions left schedules out", false},
    {"timeouts", "--timeouts left schedules out", false},
    {"cut_short", "a thread hung in the middle of a schedule", true},
    {"not_repeatable", "a schedule did not do the same again", false},
    {"work", "the search took too long", true},
    {"unseen_atomics", "threads meet in atomic variables that are not seen", false},
    {"kernel", "the kernel does more than it does in any number of runs", false},
};
static_assert(std::size(kBounds) == static_cast<std::size_t>(Bound::kKernel) + 1);

const BoundRow& row_of(Bound bound) { return kBounds[static_cast<std::size_t>(bound)]; }

}  // namespace

std::string_view to_text(Verdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)].text; }
int exit_code(Verdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)].exit_code; }

std::string_view name_of(Bound bound) { return row_of(bound).name; }
std::string_view clause_of(Bound bound) { return row_of(bound).clause; }
bool is_partial(Bound bound) { return row_of(bound).is_partial; }

}  // namespace crashcut::result
