// The C++ API, used as a storage library's authors would use it, and the facts that the kernel showed.
#include "recovery/crash_test.h"

#include <gtest/gtest.h>

#include <set>

namespace crashcut {
namespace {

using fusefs::DataMode;
using fusefs::ModelOptions;
using fusefs::Process;
using fusefs::ProfileName;

int open_file(Process& p, const char* name, int flags) { return p.openat(AT_FDCWD, name, O_WRONLY | flags, 0644); }

void write_all(Process& p, int fd, const std::string& bytes) {
  const iovec all{const_cast<char*>(bytes.data()), bytes.size()};
  ASSERT_EQ(p.write(fd, {&all, 1}), static_cast<std::int64_t>(bytes.size()));
}

void save(Process& p, const char* name, const std::string& bytes, int flags) {
  const int fd = open_file(p, name, flags);
  ASSERT_GE(fd, 0);
  write_all(p, fd, bytes);
  ASSERT_EQ(p.close(fd), 0);
}

// NUL bytes as '0', a missing file as "-".
std::string show(AfterCrash& after, const char* name) {
  const auto contents = after.contents_of(name);
  if (!contents) return "-";
  std::string text = *contents;
  std::replace(text.begin(), text.end(), '\0', '0');
  return text.empty() ? "''" : text;
}

std::set<std::string> outcomes_of(const Report& report) {
  std::set<std::string> outcomes;
  for (const auto& [outcome, count] : report.outcomes) outcomes.insert(outcome);
  return outcomes;
}

// ---- what the running kernel (6.18, 4 KiB blocks) was seen to do ------------------------------------------------

using Set = std::set<std::string>;
struct Column {
  const char* name;
  ModelOptions options;
};
ModelOptions four_kib(ModelOptions options) {
  options.sector_bytes = options.block_bytes = 4096;
  return options;
}
const Column kColumns[] = {
    {"ordered", four_kib({})},
    {"noauto_da_alloc", four_kib({.auto_da_alloc = false})},
    {"nodelalloc", four_kib({.delalloc = false})},
    {"writeback", four_kib({.data = DataMode::kWriteback})},
    {"journal", four_kib({.data = DataMode::kJournal})},
    {"dioread_lock", four_kib({.dioread_nolock = false})},
};

struct Fact {
  const char* program;
  void (*before)(Process&);
  void (*run)(Process&);
  const char* file;
  Set seen[6];     // in the order of kColumns; empty: not run there
  Set allowed[6];  // by the model: all that was seen, and what the rules of profile.cc add, see below
  // The new data in the block of the old file, in data=writeback: under its old metadata it looks like the new file.
  bool reuses_the_old_block = false;
};

void replace_by_rename(Process& p) {
  save(p, "tmp", "new", O_CREAT);
  ASSERT_EQ(p.renameat2(AT_FDCWD, "tmp", AT_FDCWD, "f", 0), 0);
}
void old_file(Process& p) { save(p, "f", "old", O_CREAT); }
void nothing(Process&) {}
void start_writeback(Process& p) {
  const int fd = open_file(p, "f", O_CREAT);
  write_all(p, fd, "new");
  ASSERT_EQ(p.sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE), 0);
}

const Set kOld0NewEmpty{"old", "new", "000", "''"};
const Fact kFacts[] = {
    // Writeback may come at any time by itself, so its three steps may be cut anywhere even where nothing
    // starts it: the 000 that sync_file_range and auto_da_alloc showed is allowed without them too.
    {"rename over an existing file, no fsync",
     old_file,
     replace_by_rename,
     "f",
     {{"old", "new", "000"}, {"old", "new", "''"}, {"old", "new"}, kOld0NewEmpty, {"old", "new"}, {"old", "new"}},
     {{"old", "new", "000"}, kOld0NewEmpty, {"old", "new"}, kOld0NewEmpty, {"old", "new"}, {"old", "new"}},
     true},
    {"rename to a new name, no fsync",
     nothing,
     replace_by_rename,
     "f",
     {{"-", "''", "new"}, {"-", "''", "new"}, {"-", "new"}, {"-", "''", "new"}, {"-", "new"}, {}},
     {{"-", "''", "new", "000"},
      {"-", "''", "new", "000"},
      {"-", "new"},
      {"-", "''", "new", "000"},
      {"-", "new"},
      {"-", "''", "new"}}},
    {"O_TRUNC, write, close, no fsync",
     old_file,
     [](Process& p) { save(p, "f", "new", O_TRUNC); },
     "f",
     {kOld0NewEmpty,
      {"old", "''", "new"},
      {"old", "''", "new"},
      kOld0NewEmpty,
      {"old", "''", "new"},
      {"old", "''", "new"}},
     {kOld0NewEmpty, kOld0NewEmpty, {"old", "''", "new"}, kOld0NewEmpty, {"old", "''", "new"}, {"old", "''", "new"}},
     true},
    {"new file, data writeback started, not finished",
     nothing,
     start_writeback,
     "f",
     {{"-", "''", "new", "000"}, {"-", "''", "new", "000"}, {}, {"-", "''", "new", "000"}, {"-", "''", "new"}, {}},
     {{"-", "''", "new", "000"},
      {"-", "''", "new", "000"},
      {"-", "''", "new"},
      {"-", "''", "new", "000"},
      {"-", "''", "new"},
      {"-", "''", "new"}}},
    {"append into a part-filled block",
     old_file,
     [](Process& p) { save(p, "f", "er", O_APPEND); },
     "f",
     {{"old", "old00", "older"},
      {"old", "old00", "older"},
      {"old", "old00", "older"},
      {"old", "old00", "older"},
      {"old", "older"},
      {}},
     {{"old", "old00", "older"},
      {"old", "old00", "older"},
      {"old", "old00", "older"},
      {"old", "old00", "older"},
      {"old", "older"},
      {"old", "old00", "older"}}},
};

TEST(KernelFacts, EveryStateSeenIsAllowedAndTheModelsSetIsExact) {
  for (const Fact& fact : kFacts) {
    for (std::size_t c = 0; c < std::size(kColumns); ++c) {
      SCOPED_TRACE(std::string(fact.program) + ", " + kColumns[c].name);
      CrashTest test(kColumns[c].options);
      fact.before(test.process());
      test.barrier();
      fact.run(test.process());
      const Report report = test.explore([&](AfterCrash& after) { return show(after, fact.file); });
      EXPECT_TRUE(report.complete);
      EXPECT_EQ(outcomes_of(report), fact.allowed[c]);
      const bool is_reused = fact.reuses_the_old_block && kColumns[c].options.data == DataMode::kWriteback;
      EXPECT_EQ(report.recoveries, fact.allowed[c].size() + is_reused) << "each distinguishable recovery once";
      for (const std::string& state : fact.seen[c]) EXPECT_TRUE(fact.allowed[c].contains(state)) << state;
    }
  }
}

TEST(KernelFacts, OverwriteOfTwoBlocksGivesAllMixes) {
  for (const Column& column : kColumns) {
    SCOPED_TRACE(column.name);
    CrashTest test(column.options);
    save(test.process(), "f", std::string(8192, 'o'), O_CREAT);
    test.barrier();
    save(test.process(), "f", std::string(8192, 'n'), 0);
    const Report report = test.explore([](AfterCrash& after) {
      const std::string bytes = after.contents_of("f").value();
      return std::string{bytes[0], bytes[4096]};
    });
    // data=journal: a commit may come between the handles of two blocks (ext4_journalled_write_end stops one a
    // folio), so the first may be new alone; the kernel was seen with both or none.
    const Set expected =
        column.options.data == DataMode::kJournal ? Set{"oo", "no", "nn"} : Set{"oo", "no", "on", "nn"};
    EXPECT_EQ(outcomes_of(report), expected);
  }
}

TEST(KernelFacts, WritebackOfTwoNewBlocksMixesBlockwise) {
  CrashTest test(four_kib({.data = DataMode::kWriteback}));
  save(test.process(), "f", std::string(8192, 'o'), O_CREAT);
  test.barrier();
  save(test.process(), "f", std::string(8192, 'n'), O_TRUNC);
  const Report report = test.explore([](AfterCrash& after) {
    const std::string bytes = after.contents_of("f").value();
    std::string shown;
    for (std::size_t at = 0; at < bytes.size(); at += 4096) shown += bytes[at] ? bytes[at] : '0';
    return shown;
  });
  // "on" and "no": under the old metadata, a new block has the place of an old one.
  EXPECT_EQ(outcomes_of(report), (Set{"oo", "on", "no", "", "0", "n", "00", "0n", "n0", "nn"}));
}

TEST(KernelFacts, WritebackTakesBlocksInAnyOrder) {
  for (const char* mode : {"dioread_nolock", "dioread_lock"}) {
    SCOPED_TRACE(mode);
    ModelOptions options = four_kib({});
    ASSERT_TRUE(fusefs::parse_mount_options(mode, options));
    CrashTest test(options);
    Process& p = test.process();
    const int fd = open_file(p, "f", O_CREAT);
    test.barrier();
    for (const off_t offset : {4096, 0}) {
      const std::string block(4096, 'n');
      const iovec all{const_cast<char*>(block.data()), block.size()};
      ASSERT_EQ(p.pwrite(fd, {&all, 1}, offset, 0), 4096);
    }
    const Report report = test.explore([](AfterCrash& after) {
      const std::string bytes = after.contents_of("f").value();
      std::string shown;
      for (std::size_t at = 0; at < bytes.size(); at += 4096) shown += bytes[at] ? bytes[at] : '0';
      return shown;
    });
    // "n": the first block was allocated first, and the size is its end.
    const Set expected = options.dioread_nolock ? Set{"", "0", "n", "00", "0n", "n0", "nn"} : Set{"", "n", "0n", "nn"};
    EXPECT_EQ(outcomes_of(report), expected);
    EXPECT_EQ(report.recoveries, expected.size());
  }
}

// ---- freed blocks in data=writeback -------------------------------------------------------------------------------

std::string show_letters(AfterCrash& after, const char* name) {
  const auto contents = after.contents_of(name);
  if (!contents) return "-";
  std::string shown;
  for (std::size_t at = 0; at < contents->size(); at += 4096) shown += (*contents)[at] ? (*contents)[at] : '0';
  return shown.empty() ? "''" : shown;
}

// What the kernel left on a disk with few free blocks: tests/kernel_reuse_test.cc does it again.
TEST(FreedBlocks, HoldWhatAnyFileWroteAfterwards) {
  CrashTest test(four_kib({.data = DataMode::kWriteback}));
  save(test.process(), "a", std::string(6000, 'A'), O_CREAT);
  test.barrier();
  Process& p = test.process();
  ASSERT_EQ(p.unlinkat(AT_FDCWD, "a", 0), 0);
  save(p, "b", std::string(6000, 'n'), O_CREAT);
  const Report report =
      test.explore([](AfterCrash& after) { return show_letters(after, "a") + " " + (after.exists("b") ? "b" : "-"); });
  EXPECT_EQ(outcomes_of(report), (Set{"AA -", "nA -", "An -", "nn -", "- -", "- b"}));
}

TEST(FreedBlocks, AreNotReusedInOtherModes) {
  for (const DataMode mode : {DataMode::kOrdered, DataMode::kJournal}) {
    CrashTest test(four_kib({.data = mode}));
    save(test.process(), "a", std::string(6000, 'A'), O_CREAT);
    test.barrier();
    Process& p = test.process();
    ASSERT_EQ(p.unlinkat(AT_FDCWD, "a", 0), 0);
    save(p, "b", std::string(6000, 'n'), O_CREAT);
    const Report report = test.explore([](AfterCrash& after) { return show_letters(after, "a"); });
    EXPECT_EQ(outcomes_of(report), (Set{"AA", "-"}));
    EXPECT_EQ(report.recoveries, 2u);
  }
}

TEST(FreedBlocks, AreReusedOnlyAfterTheLastDescriptorIsClosed) {
  for (const bool closes : {false, true}) {
    CrashTest test(four_kib({.data = DataMode::kWriteback, .delalloc = false}));
    save(test.process(), "a", "old", O_CREAT);
    test.barrier();
    Process& p = test.process();
    const int fd = open_file(p, "a", 0);
    ASSERT_EQ(p.unlinkat(AT_FDCWD, "a", 0), 0);
    if (closes) {
      ASSERT_EQ(p.close(fd), 0);
    }
    save(p, "b", "new", O_CREAT);
    const Report report = test.explore([](AfterCrash& after) { return show(after, "a"); });
    EXPECT_EQ(outcomes_of(report), (closes ? Set{"old", "new", "-"} : Set{"old", "-"}));
  }
}

TEST(FreedBlocks, ThatWereTakenByBlocksThatLookAlikeAreOneCandidate) {
  constexpr int kFiles = 300;
  for (const bool is_alike : {true, false}) {
    CrashTest test(four_kib({.data = DataMode::kWriteback}));
    save(test.process(), "a", "old", O_CREAT);
    test.barrier();
    Process& p = test.process();
    ASSERT_EQ(p.unlinkat(AT_FDCWD, "a", 0), 0);
    for (int i = 0; i < kFiles; ++i) {
      save(p, std::to_string(i).c_str(), is_alike ? "new" : std::to_string(100 + i), O_CREAT);
    }
    const Report report = test.explore([](AfterCrash& after) { return show(after, "a"); });
    EXPECT_TRUE(report.complete);
    EXPECT_EQ(report.recoveries, is_alike ? 3u : kFiles + 2u);
    EXPECT_EQ(report.outcomes.size(), report.recoveries) << "each distinguishable recovery once";
  }
}

// Who syncs leaves a freed block few takers: what is written before the next sync commits that it was freed.
TEST(FreedBlocks, OfALoopThatSyncsHaveFewTakers) {
  constexpr int kVersions = 400;
  CrashTest test(four_kib({.data = DataMode::kWriteback}));
  save(test.process(), "f", "100", O_CREAT);
  test.barrier();
  Process& p = test.process();
  for (int i = 1; i <= kVersions; ++i) {
    const int fd = open_file(p, "tmp", O_CREAT);
    write_all(p, fd, std::to_string(100 + i));
    ASSERT_EQ(p.fsync(fd), 0);
    ASSERT_EQ(p.close(fd), 0);
    ASSERT_EQ(p.renameat2(AT_FDCWD, "tmp", AT_FDCWD, "f", 0), 0);
  }
  const Report report = test.explore([](AfterCrash& after) { return show(after, "f"); });
  EXPECT_TRUE(report.complete);
  // Each version; and under the name of each but the last two, the version after the next, written to its block.
  EXPECT_EQ(report.recoveries, 2u * kVersions);
}

// ---- syncs ------------------------------------------------------------------------------------------------------

TEST(Fsync, DoesNotCommitWhatOthersDidWhenItsFileIsUnchanged) {
  CrashTest test;
  save(test.process(), "clean", "x", O_CREAT);
  save(test.process(), "a", "x", O_CREAT);
  test.barrier();
  Process& p = test.process();
  ASSERT_EQ(p.renameat2(AT_FDCWD, "a", AT_FDCWD, "b", 0), 0);
  const int fd = open_file(p, "clean", 0);
  ASSERT_EQ(p.fsync(fd), 0);
  test.mark("synced");
  const Report report = test.explore([](AfterCrash& after) {
    return std::string(after.reached("synced") ? "synced " : "") + (after.exists("b") ? "b" : "a");
  });
  EXPECT_EQ(outcomes_of(report), (Set{"a", "b", "synced a", "synced b"}));
}

TEST(Fsync, OfANewFileMakesItsNameAndAllEarlierMetadataDurable) {
  CrashTest test;
  Process& p = test.process();
  save(p, "first", "x", O_CREAT);
  const int fd = open_file(p, "second", O_CREAT);
  write_all(p, fd, "data");
  ASSERT_EQ(p.fsync(fd), 0);
  test.mark("synced");
  const Report report = test.explore([](AfterCrash& after) {
    if (!after.reached("synced")) return std::string("before");
    return show(after, "second") + (after.exists("first") ? " first" : "");
  });
  EXPECT_EQ(outcomes_of(report), (Set{"before", "data first"}));
}

TEST(OSync, SyncsTheRangeItWroteAndNotTheRestOfTheFile) {
  CrashTest test(four_kib({}));
  Process& p = test.process();
  const int plain = open_file(p, "f", O_CREAT);
  write_all(p, plain, std::string(4096, 'a'));
  const int synced = open_file(p, "f", O_SYNC);
  const std::string block(4096, 'b');
  const iovec all{const_cast<char*>(block.data()), block.size()};
  ASSERT_EQ(p.pwrite(synced, {&all, 1}, 4096, 0), 4096);
  test.mark("synced");
  const Report report = test.explore([](AfterCrash& after) {
    if (!after.reached("synced")) return std::string("before");
    const std::string bytes = after.contents_of("f").value();
    return std::string{bytes.size() == 8192 && bytes[0] ? bytes[0] : '0', bytes.size() == 8192 ? bytes[4096] : '0'};
  });
  EXPECT_EQ(outcomes_of(report), (Set{"before", "ab", "0b"}));
}

TEST(Barrier0, NoSyncIsDurable) {
  ModelOptions options;
  options.barrier = false;
  CrashTest test(options);
  Process& p = test.process();
  const int fd = open_file(p, "f", O_CREAT);
  write_all(p, fd, "new");
  ASSERT_EQ(p.fsync(fd), 0);
  test.mark("synced");
  const Report report =
      test.explore([](AfterCrash& after) { return after.reached("synced") ? show(after, "f") : "before"; });
  EXPECT_EQ(outcomes_of(report), (Set{"before", "-", "''", "000", "new"}));
}

// ---- the API ----------------------------------------------------------------------------------------------------

std::string check_replaced(AfterCrash& after) {
  const std::string shown = show(after, "f");
  if (shown != "old" && shown != "new") after.fail("neither version is whole");
  return shown;
}

TEST(CrashTest, ViolationsReplayAndTheSmallestComesFirst) {
  CrashTest test;
  old_file(test.process());
  test.barrier();
  replace_by_rename(test.process());
  const Report report = test.explore(check_replaced);
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_EQ(report.violations[0].outcome, "000");
  const Report again = test.replay(report.violations[0].path, check_replaced);
  EXPECT_FALSE(again.diverged);
  ASSERT_EQ(again.violations.size(), 1u);
  EXPECT_EQ(again.violations[0].outcome, "000");
  EXPECT_EQ(again.violations[0].persisted, report.violations[0].persisted);
}

TEST(CrashTest, AReplayOfAnotherPathDiverges) {
  CrashTest test;
  old_file(test.process());
  test.barrier();
  replace_by_rename(test.process());
  EXPECT_TRUE(test.replay({0, 0, 0, 0, 0, 0, 0}, check_replaced).diverged);
  EXPECT_TRUE(test.replay({77}, check_replaced).diverged);
}

TEST(CrashTest, ABudgetIsKeptAndSaid) {
  CrashTest test;
  old_file(test.process());
  test.barrier();
  replace_by_rename(test.process());
  const Report report = test.explore(check_replaced, persist::Budget{.runs_max = 1});
  EXPECT_EQ(report.recoveries, 1u);
  EXPECT_FALSE(report.complete);
}

TEST(CrashTest, WhatOneRecoveryWritesReachesNoOther) {
  CrashTest test;
  save(test.process(), "f", "x", O_CREAT);
  const Report report = test.explore([](AfterCrash& after) {
    EXPECT_FALSE(after.exists("mine"));
    save(after.process(), "mine", "written by recovery", O_CREAT);
    EXPECT_EQ(show(after, "mine"), "written by recovery");
    return show(after, "f");
  });
  EXPECT_EQ(outcomes_of(report), (Set{"-", "''", "0", "x"}));
}

TEST(CrashTest, OnlyTheBytesThatAreReadAreDecided) {
  CrashTest test;
  save(test.process(), "f", std::string(512, '.'), O_CREAT);
  test.barrier();
  Process& p = test.process();
  const int fd = open_file(p, "f", 0);
  const char digits[] = "123456789";
  for (int i = 0; i < 9; ++i) {
    const iovec one{const_cast<char*>(&digits[i]), 1};
    ASSERT_EQ(p.pwrite(fd, {&one, 1}, 10 * i, 0), 1);
  }
  const Report report = test.explore([](AfterCrash& after) {
    char byte = 0;
    const iovec one{&byte, 1};
    const int fd = after.process().openat(AT_FDCWD, "f", O_RDONLY, 0);
    after.process().pread(fd, {&one, 1}, 40);
    return std::string(1, byte);
  });
  EXPECT_EQ(outcomes_of(report), (Set{".", "5"}));
  EXPECT_EQ(report.recoveries, 2u);
}

TEST(CrashTest, SeekingAcrossLongHolesDecidesAboutWhatMayBeThere) {
  constexpr off_t kTera = off_t{1} << 40;
  CrashTest test;
  Process& p = test.process();
  save(p, "f", "", O_CREAT);
  const int fd = open_file(p, "f", 0);
  ASSERT_EQ(p.ftruncate(fd, 4 * kTera), 0);
  test.barrier();
  const iovec one{const_cast<char*>("x"), 1};
  ASSERT_EQ(p.pwrite(fd, {&one, 1}, kTera, 0), 1);
  ASSERT_EQ(p.pwrite(fd, {&one, 1}, 2 * kTera, 0), 1);
  const Report report = test.explore([&](AfterCrash& after) {
    Process& p = after.process();
    const int fd = p.openat(AT_FDCWD, "f", O_RDWR, 0);
    const auto seek = [&](off_t from) {
      const off_t found = p.lseek(fd, from, SEEK_DATA);
      return found < 0 ? std::string(" none") : " " + std::to_string(found / kTera);
    };
    std::string text = "data:" + seek(0) + seek(kTera + 4096);
    // And what recovery itself writes, before and after those.
    EXPECT_EQ(p.pwrite(fd, {&one, 1}, 3 * kTera, 0), 1);
    EXPECT_EQ(seek(2 * kTera + 4096), " 3");
    return text;
  });
  EXPECT_EQ(outcomes_of(report), (Set{"data: none none", "data: 1 none", "data: 2 2", "data: 1 2"}));
  EXPECT_EQ(report.recoveries, 4u);
}

}  // namespace
}  // namespace crashcut
