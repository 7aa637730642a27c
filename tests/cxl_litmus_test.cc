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
  int devices = 0;
  std::vector<int> homes{};  // of the lines
  std::vector<bool> incoherent{};
  int failures_most = -1;
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
      if (word == "P") digits += 'P';
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
  program.devices = row.devices;
  program.homes = row.homes;
  program.incoherent = row.incoherent;
  program.failures_most = row.failures_most;
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

// Machine 0 is the first one, number 2 the device of programs of two machines. With a device the machines may still
// fail. A region is there or gone, whole: no line of it comes back, and no other region is touched.
INSTANTIATE_TEST_SUITE_P(
    Homes, CxlLitmus,
    testing::Values(
        Row{"ADeviceFails", "x,y z", "clflush x | wait 0; load x; load x", {"00", "0P", "PP"}, 1, {2, -1}},
        Row{"AllLinesOfADeviceAreGone", "x,y z", "clflush x | wait 0; load x; load z", {"00", "0P", "PP"}, 1, {2, 2}},
        Row{"OtherMemoryStays",
            "x,y z",
            "z=1; clflush z | wait 0; load x; load z",
            {"00", "01", "P0", "P1"},
            1,
            {2, -1}},
        Row{"FlushedOrNotItIsGone",
            "x,y z",
            "x=1; clflush x; sfence; z=1; clflush z | wait 0; load z; load x",
            {"00", "01", "11", "0P", "1P"},
            1,
            {2, -1}},
        Row{"StoresAndFlushesAreErrorsToo", "x,y z", " | x=1; clflush x; load x", {"1", "P", "PP", "PPP"}, 1, {2, -1}},
        Row{"LockedInstructionsAreErrorsToo", "x,y z", " | xchg x,1; xchg x,2", {"01", "0P", "PP"}, 1, {2, -1}},
        Row{"AMachineTakesItsMemoryAway", "x,y z", "x=1; clflush x | wait 0; load x", {"1", "P"}, 0, {0, -1}},
        Row{"AMachineThatEndsLeavesItsMemory",
            "x,y z",
            "x=1 | load x; wait 0; load x",
            {"01", "11", "0P", "1P", "PP"},
            0,
            {0, -1}},
        Row{"ItsOwnMemoryStaysWhenOthersFail", "x,y z", "x=1; clflush x | wait 0; load x", {"0", "1"}, 0, {1, -1}}),
    [](const auto& row) { return row.param.name; });

// x and y are one line without coherence; z is coherent. No machine fails unless the row says so.
INSTANTIATE_TEST_SUITE_P(
    Incoherent, CxlLitmus,
    testing::Values(Row{"FlushedAndInvalidatedIsSeen",
                        "x,y z",
                        "x=1; clflush x | wait 0; clflush x; mfence; load x",
                        {"1"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"WithoutInvalidationACopyIsStale",
                        "x,y z",
                        "x=1; clflush x | wait 0; load x",
                        {"0", "1"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"FlagAfterFlush",
                        "x,y z",
                        "x=1; clflush x; mfence; z=1 | load z; clflush x; mfence; load x",
                        {"00", "01", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"FlagWithoutFlush",
                        "x,y z",
                        "x=1; z=1 | load z; clflush x; mfence; load x",
                        {"00", "01", "10", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"FlagWithoutInvalidation",
                        "x,y z",
                        "x=1; clflush x; mfence; z=1 | load z; load x",
                        {"00", "01", "10", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"AFlushWithoutAFenceComesLate",
                        "x,y z",
                        "x=1; clflush x; mfence; z=1 | load z; clflush x; load x",
                        {"00", "01", "10", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"ClwbKeepsTheCopy",
                        "x,y z",
                        "x=1; clflush x; mfence; z=1 | load z; clwb x; mfence; load x",
                        {"00", "01", "10", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"ClwbOfTheWriterWritesBack",
                        "x,y z",
                        "x=1; clwb x; mfence; z=1 | load z; clflush x; mfence; load x",
                        {"00", "01", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"AWholeLineIsWrittenBack",
                        "x,y z",
                        "x=1; clflush x | y=1; clflush y; wait 0; clflush x; mfence; load x; load y",
                        {"01", "10", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"LockedInstructionsAreOfOneMachine",
                        "x,y z",
                        "cas x,0,1; clflush x; mfence; z=1 | load z; cas x,0,2",
                        {"00", "01", "10", "11"},
                        0,
                        {},
                        {true, false},
                        0},
                    Row{"AMachineThatFailsLosesItsCopy",
                        "x,y z",
                        "x=1; y=1; clflush x | wait 0; clflush x; mfence; load x; load y",
                        {"00", "10", "11"},
                        0,
                        {},
                        {true, false}}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace crashcut::tests
