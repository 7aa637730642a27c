// The reference model against the litmus of the PerSeVerE paper (outcome sets as in its artefact, counted by hand)
// and against what the kernel was seen to do.
#include "tests/reference_model.h"

#include <gtest/gtest.h>

#include <functional>

namespace crashcut::reference {
namespace {

using enum Call;
using Strings = std::set<std::string>;

Op open(const std::string& path) { return {kOpen, path}; }
Op creat(const std::string& path) { return {kOpenTrunc, path}; }
Op pwrite(const std::string& path, const std::string& bytes, int at) { return {kWrite, path, "", at, bytes}; }
Op append(const std::string& path, const std::string& bytes) { return {kAppend, path, "", 0, bytes}; }
Op truncate(const std::string& path, int size) { return {kTruncate, path, "", size}; }
Op rename(const std::string& from, const std::string& to) { return {kRename, from, to}; }
Op fsync(const std::string& path) { return {kFsync, path}; }
Op close(const std::string& path) { return {kClose, path}; }
const Op kDurable = {kBarrier};

// The programs write digits; NULs are shown as '_', a missing file as "-".
std::string show(const State& state, const std::string& path) {
  auto it = state.find(path);
  if (it == state.end()) return "-";
  std::string text = it->second;
  for (char& c : text) {
    if (c == '\0') c = '_';
  }
  return text;
}
std::string size(const State& state, const std::string& path) {
  auto it = state.find(path);
  return it == state.end() ? "-" : std::to_string(it->second.size());
}

Outcome run_checked(const Options& options, const Program& program) {
  Outcome outcome = run(options, program);
  EXPECT_TRUE(outcome.complete);
  EXPECT_TRUE(outcome.states.contains(outcome.running)) << "the disk with everything on it is what the program sees";
  return outcome;
}

// What a recovery sees, which looks at `files` only.
Strings contents(const Options& options, const Program& program, const std::vector<std::string>& files) {
  Strings seen;
  for (const State& state : run_checked(options, program).states) {
    std::string text;
    for (const auto& file : files) text += " " + show(state, file);
    seen.insert(text.substr(1));
  }
  return seen;
}
Strings sizes(const Options& options, const Program& program, const std::vector<std::string>& files) {
  Strings seen;
  for (const State& state : run_checked(options, program).states) {
    std::string text;
    for (const auto& file : files) text += " " + size(state, file);
    seen.insert(text.substr(1));
  }
  return seen;
}

Options paper(Data data = Data::kOrdered) { return {.profile = Profile::kPaper, .data = data}; }
Options nodelalloc(Options options) {
  options.delalloc = false;
  return options;
}

TEST(PaperLitmus, JournalAppendsToTwoFiles) {
  Program program = {creat("foo"), append("foo", "11"), creat("bar"),       append("bar", "11"),
                     kDurable,     append("foo", "22"), append("bar", "22")};
  EXPECT_EQ(sizes(paper(Data::kJournal), program, {"foo", "bar"}), (Strings{"2 2", "4 2", "4 4"}));
  EXPECT_EQ(sizes(paper(), program, {"foo", "bar"}), (Strings{"2 2", "4 2", "2 4", "4 4"}));
}
TEST(PaperLitmus, JournalCreateThenOverwrite) {
  Program program = {creat("foo"), append("foo", "00"), kDurable, creat("bar"), pwrite("foo", "11", 0)};
  EXPECT_EQ(contents(paper(Data::kJournal), program, {"bar", "foo"}), (Strings{"- 00", " 00", " 11"}));
  EXPECT_EQ(contents(paper(), program, {"bar", "foo"}), (Strings{"- 00", " 00", " 11", "- 10", "- 11", " 10"}));
}
TEST(PaperLitmus, JournalOverwriteIsAtomic) {
  Program program = {creat("foo"), append("foo", "00"), kDurable, pwrite("foo", "11", 0)};
  EXPECT_EQ(contents(paper(Data::kJournal), program, {"foo"}), (Strings{"00", "11"}));
  EXPECT_EQ(contents(paper(), program, {"foo"}), (Strings{"00", "10", "11"}));
}
TEST(PaperLitmus, MessagePassing) {
  Program with = {creat("x"), append("x", "1"),    creat("y"), append("y", "1"),
                  kDurable,   pwrite("x", "4", 0), fsync("x"), pwrite("y", "4", 0)};
  EXPECT_EQ(contents(paper(), with, {"y", "x"}), (Strings{"1 1", "1 4", "4 4"}));
  Program without = with;
  without.erase(without.begin() + 6);
  EXPECT_EQ(contents(paper(), without, {"y", "x"}), (Strings{"1 1", "1 4", "4 1", "4 4"}));
}
TEST(PaperLitmus, AppendN) {
  Program program;
  for (const char* name : {"a", "b", "c", "d"}) {
    program.push_back(creat(name));
    program.push_back(pwrite(name, "1111", 0));
    program.push_back(close(name));
  }
  EXPECT_EQ(sizes(paper(), program, {"a"}), (Strings{"-", "0", "2", "4"}));
}
TEST(PaperLitmus, AppendManyBlocks) {
  Program program = {creat("foo"), append("foo", "111"), kDurable, append("foo", "22")};
  EXPECT_EQ(contents(nodelalloc(paper()), program, {"foo"}), (Strings{"111", "1112", "11122"}));
  EXPECT_EQ(contents(paper(), program, {"foo"}), (Strings{"111", "111_", "1112", "11122"}));
}
TEST(PaperLitmus, AppendsToOneFile) {
  Program program = {creat("foo"), append("foo", "11"), kDurable, append("foo", "22"), append("foo", "33")};
  EXPECT_EQ(contents(paper(), program, {"foo"}), (Strings{"11", "1122", "112233"}));
}
TEST(PaperLitmus, CreateThenAppendElsewhere) {
  Program program = {creat("foo"), kDurable, creat("bar"), pwrite("foo", "11", 0)};
  EXPECT_EQ(contents(paper(), program, {"bar", "foo"}), (Strings{"- ", " ", " 11"}));
}
TEST(PaperLitmus, OverwriteN) {
  Program program = {creat("foo"), append("foo", "0000000000"), kDurable};
  for (int i = 0; i < 5; ++i) program.push_back(pwrite("foo", "11", 2 * i));
  Strings first;
  for (const State& s : run_checked(paper(), program).states) first.insert(show(s, "foo").substr(0, 1));
  EXPECT_EQ(first, (Strings{"0", "1"}));
}
TEST(PaperLitmus, OverwriteOneBlock) {
  Program program = {open("foo"), pwrite("foo", "11", 0), pwrite("foo", "22", 0)};
  EXPECT_EQ(contents(paper(), program, {"foo"}), (Strings{"-", "", "11", "21", "22"}));
}
TEST(PaperLitmus, OverwriteAndAppend) {
  Program program = {creat("foo"), append("foo", "11"), kDurable, pwrite("foo", "2222", 0)};
  EXPECT_EQ(contents(paper(), program, {"foo"}), (Strings{"11", "21", "22", "2222"}));
}
TEST(PaperLitmus, OverwriteAndAppendBehindAGap) {
  Program program = {creat("foo"), append("foo", "11"), kDurable, pwrite("foo", "22", 0), pwrite("foo", "22", 3)};
  EXPECT_EQ(contents(paper(), program, {"foo"}), (Strings{"11", "21", "22", "22_2", "22_22"}));
}
TEST(PaperLitmus, RenameTwice) {
  Program program = {creat("foo"), append("foo", "111"), kDurable, rename("foo", "bar"), rename("bar", "qux")};
  EXPECT_EQ(contents(paper(), program, {"foo", "bar", "qux"}), (Strings{"111 - -", "- 111 -", "- - 111"}));
}
TEST(PaperLitmus, RenameThenNewFile) {
  Program program = {creat("foo"),         append("foo", "00"), kDurable,
                     rename("foo", "bar"), creat("foo"),        append("foo", "1")};
  EXPECT_EQ(sizes(paper(), program, {"foo", "bar"}), (Strings{"2 -", "- 2", "0 2", "1 2"}));
}
TEST(PaperLitmus, TruncateThenAppendElsewhere) {
  Program program = {creat("foo"), append("foo", "00"), creat("bar"), kDurable, creat("foo"), append("bar", "11")};
  EXPECT_EQ(sizes(paper(), program, {"bar", "foo"}), (Strings{"0 2", "0 0", "2 0"}));
}
TEST(PaperLitmus, NanoBackup) {
  Program old = {creat("foo"), append("foo", std::string("data\0", 5)),  kDurable,     {kUnlink, "foo~"},
                 open("foo~"), append("foo~", std::string("data\0", 5)), creat("foo"), append("foo", "somethinglong!")};
  EXPECT_EQ(sizes(paper(), old, {"foo", "foo~"}).size(), 37u);
  Program fixed = old;
  fixed.insert(fixed.begin() + 6, fsync("foo~"));
  for (const State& s : run_checked(paper(), fixed).states) {
    if (s.at("foo").size() < 5) {
      EXPECT_EQ(show(s, "foo~"), "data_");
    }
  }
}

// The kernel as it was seen (6.18): o old, n new, 0 the new size over NULs. One block of one sector is enough.
class KernelFacts : public testing::Test {
 protected:
  static Options with(Data data, bool auto_da = true, bool delalloc = true, bool nolock = true) {
    return {Profile::kExt4, data, delalloc, auto_da, nolock, true, 1, 1};
  }
  static inline const Program kReplace = {creat("f"),       append("f", "o"), kDurable,        creat("t"),
                                          append("t", "n"), close("t"),       rename("t", "f")};
  static inline const Program kRenameNew = {creat("t"), append("t", "n"), close("t"), rename("t", "f")};
  static inline const Program kTruncWrite = {creat("f"), append("f", "o"), kDurable,
                                             creat("f"), append("f", "n"), close("f")};
};
TEST_F(KernelFacts, RenameOver) {
  EXPECT_EQ(contents(with(Data::kOrdered), kReplace, {"f"}), (Strings{"o", "n", "_"}));
  EXPECT_EQ(contents(with(Data::kOrdered, false), kReplace, {"f"}), (Strings{"o", "n", "", "_"}));
  EXPECT_EQ(contents(with(Data::kOrdered, true, false), kReplace, {"f"}), (Strings{"o", "n"}));
  EXPECT_EQ(contents(with(Data::kOrdered, true, true, false), kReplace, {"f"}), (Strings{"o", "n"}));
  EXPECT_EQ(contents(with(Data::kWriteback), kReplace, {"f"}), (Strings{"o", "n", "", "_"}));
  EXPECT_EQ(contents(with(Data::kJournal), kReplace, {"f"}), (Strings{"o", "n"}));
}
TEST_F(KernelFacts, RenameToNewName) {
  EXPECT_EQ(contents(with(Data::kOrdered, true, true, false), kRenameNew, {"f"}), (Strings{"-", "", "n"}));
  EXPECT_EQ(contents(with(Data::kOrdered, true, false), kRenameNew, {"f"}), (Strings{"-", "n"}));
  EXPECT_EQ(contents(with(Data::kJournal), kRenameNew, {"f"}), (Strings{"-", "n"}));
}
TEST_F(KernelFacts, TruncateAndWrite) {
  EXPECT_EQ(contents(with(Data::kOrdered), kTruncWrite, {"f"}), (Strings{"o", "", "_", "n"}));
  EXPECT_EQ(contents(with(Data::kOrdered, true, true, false), kTruncWrite, {"f"}), (Strings{"o", "", "n"}));
  EXPECT_EQ(contents(with(Data::kJournal), kTruncWrite, {"f"}), (Strings{"o", "", "n"}));
}
TEST_F(KernelFacts, AppendIntoPartFilledBlock) {
  Program program = {creat("f"), append("f", "oo"), kDurable, append("f", "n")};
  for (Data data : {Data::kOrdered, Data::kWriteback, Data::kJournal}) {
    Options options = with(data);
    options.block = 4;
    Strings expected = {"oo", "oon"};
    if (data != Data::kJournal) expected.insert("oo_");
    EXPECT_EQ(contents(options, program, {"f"}), expected);
    EXPECT_EQ(contents(nodelalloc(options), program, {"f"}), expected);
  }
}
TEST_F(KernelFacts, OverwriteOfTwoBlocks) {
  Program program = {creat("f"), append("f", "oo"), kDurable, pwrite("f", "nn", 0)};
  EXPECT_EQ(contents(with(Data::kOrdered), program, {"f"}), (Strings{"oo", "on", "no", "nn"}));
  EXPECT_EQ(contents(with(Data::kJournal), program, {"f"}), (Strings{"oo", "no", "nn"}));
}
TEST_F(KernelFacts, MarkAfterFsync) {
  Program program = {creat("f"), append("f", "n"), fsync("f"), {kMark, "saved"}};
  Strings seen;
  for (const State& s : run_checked(with(Data::kOrdered), program).states) {
    seen.insert(show(s, "f") + (s.contains("!saved") ? " saved" : ""));
  }
  EXPECT_EQ(seen, (Strings{"-", "", "_", "n", "n saved"}));
}
TEST_F(KernelFacts, TruncationIntoABlock) {
  Program program = {creat("f"), append("f", "abcd"), kDurable, truncate("f", 1), truncate("f", 3)};
  Options options = with(Data::kOrdered);
  options.block = 4;
  EXPECT_EQ(contents(options, program, {"f"}), (Strings{"abcd", "a_cd", "a__d", "a___", "a", "a__"}));
  options.data = Data::kJournal;
  EXPECT_EQ(contents(options, program, {"f"}), (Strings{"abcd", "a", "a__"}));
}
// Only the block of the call is written out: what another block is to add to the size may be missing.
TEST_F(KernelFacts, OSyncIsOfItsRangeOnly) {
  Program program = {
      creat("f"), kDurable, {Call::kWrite, "f", "", 1, "b"}, {Call::kWriteSync, "f", "", 0, "a"}, {kMark, "saved"}};
  Strings saved;
  for (const State& s : run_checked(with(Data::kOrdered), program).states) {
    if (s.contains("!saved")) saved.insert(show(s, "f"));
  }
  EXPECT_EQ(saved, (Strings{"a", "a_", "ab"}));
}
TEST_F(KernelFacts, HolesAndZeros) {
  Options options = with(Data::kOrdered);
  options.block = 2;
  auto after = [&](Op op) { return contents(options, {creat("f"), append("f", "abcd"), kDurable, op}, {"f"}); };
  EXPECT_EQ(after({Call::kPunchHole, "f", "", 0, "", 2}), (Strings{"abcd", "__cd"}));
  EXPECT_EQ(after({Call::kPunchHole, "f", "", 1, "", 3}), (Strings{"abcd", "a_cd", "a___"}))
      << "data before the journal";
  EXPECT_EQ(after({Call::kPunchHole, "f", "", 2, "", 9}), (Strings{"abcd", "ab__"}));
  EXPECT_EQ(after({Call::kPunchHole, "f", "", 4, "", 2}), (Strings{"abcd"}));
  EXPECT_EQ(after({Call::kZeroRange, "f", "", 2, "", 4}), (Strings{"abcd", "ab____"}));
  EXPECT_EQ(after({Call::kFallocate, "f", "", 2, "", 4}), (Strings{"abcd", "abcd__"}));
  EXPECT_EQ(after({Call::kFallocateKeep, "f", "", 2, "", 4}), (Strings{"abcd"}));
}
TEST_F(KernelFacts, DirectoriesMoveAndGo) {
  Program program = {{Call::kMkdir, "d"}, kDurable, {Call::kRename, "d", "e"}, {Call::kRmdir, "e"}};
  std::set<State> states = run_checked(with(Data::kOrdered), program).states;
  EXPECT_EQ(states, (std::set<State>{{{"d/", ""}}, {{"e/", ""}}, {}}));
}

}  // namespace
}  // namespace crashcut::reference
