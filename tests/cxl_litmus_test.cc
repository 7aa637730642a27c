// The litmus table of CXL: exact outcomes over all schedules and failures, by the model and by the oracle.
#include <gtest/gtest.h>

#include "tests/cxl_schedules.h"

namespace crashcut::tests {
namespace {

struct Row {
  const char* name;
  const char* layout;
  const char* machines;  // the last one is the observer: it never fails
  std::set<std::string> outcomes;
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

// The low halves of what the observer saw, without what the waits gave.
std::set<std::string> seen_by_observer(const std::set<CxlOutcome>& all) {
  std::set<std::string> shown;
  for (const CxlOutcome& outcome : all) {
    std::string text = outcome.substr(0, outcome.size() - 1);
    text = text.substr(text.rfind('|') + 1);
    std::string digits;
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find(' ', begin);
      const std::string word = text.substr(begin, end - begin);
      if (word == "locked") digits += '0';
      if (word == "died") digits += '1';
      if (word.find(',') != word.npos) digits += word.substr(0, word.find(','));
      begin = end + 1;
    }
    shown.insert(digits);
  }
  return shown;
}

class CxlLitmus : public testing::TestWithParam<Row> {};

TEST_P(CxlLitmus, HasExactlyTheseOutcomes) {
  const Row& row = GetParam();
  CxlProgram program = parse_cxl_program(row.layout, row.machines);
  program.never_fails.back() = true;
  EXPECT_EQ(seen_by_observer(run_cxl_oracle(program).outcomes), row.outcomes) << program.to_text();
  const CxlFound found = explore_cxl(program, scheduler::ReductionName::kOptimal, 0);
  EXPECT_TRUE(found.is_whole);
  EXPECT_EQ(seen_by_observer(found.outcomes), row.outcomes) << program.to_text();
}

INSTANTIATE_TEST_SUITE_P(
    Table, CxlLitmus,
    testing::Values(
        Row{"Store", "x,y z", "x=1 | wait 0; load x", {"0", "1"}},
        Row{"TwoStoresOfALine", "x,y z", "x=1; y=1 | wait 0; load x; load y", {"00", "10", "11"}},
        Row{"TwoLines", "x,y z", "x=1; z=1 | wait 0; load x; load z", {"00", "01", "10", "11"}},
        Row{"CommitStore",
            "x,y z",
            "x=1; clflush x; sfence; z=1; clflush z | wait 0; load z; load x",
            {"00", "01", "11"}},
        Row{"MissingFlush", "x,y z", "x=1; z=1; clflush z | wait 0; load z; load x", {"00", "01", "10", "11"}},
        Row{"Clflushopt",
            "x,y z",
            "x=1; clflushopt x; sfence; z=1; clflush z | wait 0; load z; load x",
            {"00", "01", "11"}},
        Row{"PrefixesOfALine",
            "x,y z",
            "y=1; x=2; clflush x; y=3; x=4; y=5; x=6 | wait 0; load y; load x",
            {"00", "10", "12", "32", "34", "54", "56"}},
        Row{"ALoadWritesBack", "x,y z", "x=1 | load x; wait 0; load x", {"00", "01", "11"}},
        Row{"ALoadWritesTheWholeLineBack", "x,y z", "y=1; x=1 | load x; wait 0; load y", {"00", "01", "11"}},
        Row{"ThreadsOfOneMachineWriteNothingBack",
            "x,y z",
            "x=1 & load x; z=r; clflush z | wait 0; load z; load x",
            {"00", "01", "10", "11"}},
        Row{"ALockTellsOfItsOwnersDeath",
            "x,y z",
            "lock 0; x=1; clflush x; z=1; clflush z; unlock 0 | lock 0; load x; load z; unlock 0",
            {"000", "011", "100", "110", "111"}}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace crashcut::tests
