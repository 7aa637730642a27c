// crashcut as an assertion of GoogleTest.
#include <crashcut_gtest.h>
#include <gtest/gtest-spi.h>

namespace {

using crashcut::survives_crashes;

const std::vector<std::string> kCheck = {"check", "--setup",  "echo old notes > notes.txt", "--file", "notes.txt", "--",
                                         SAVE,    "notes.txt"};

TEST(Save, SurvivesWithFsync) {
  std::vector<std::string> words = kCheck;
  words.push_back("synced");
  EXPECT_TRUE(survives_crashes(words));
}

TEST(Save, LosesWithoutFsyncAndTheMessageIsTheReport) {
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(survives_crashes(kCheck)), "\nviolation (lost): a crash can leave notes.txt");
}

TEST(Save, WrongUseIsNoSuccess) {
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(survives_crashes({"check", "--no-such-option"})), "no option --no-such-option");
}

TEST(Save, ABoundIsNoSuccess) {
  std::vector<std::string> words = kCheck;
  words.insert(words.begin() + 1, {"--max-recoveries", "1"});
  words.push_back("synced");
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(survives_crashes(words)), "bounded (max_recoveries): 1 recovery, none failed");
}

}  // namespace
