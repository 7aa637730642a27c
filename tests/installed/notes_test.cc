#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "recovery/crash_test.h"

namespace {

using crashcut::AfterCrash;
using crashcut::CrashTest;
using crashcut::fusefs::Process;

void write_file(Process& p, const char* name, std::string text, bool has_fsync) {
  const int fd = p.openat(AT_FDCWD, name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  const iovec whole[] = {{text.data(), text.size()}};
  ASSERT_EQ(p.write(fd, whole), static_cast<std::int64_t>(text.size()));
  if (has_fsync) {
    ASSERT_EQ(p.fsync(fd), 0);
  }
  ASSERT_EQ(p.close(fd), 0);
}

crashcut::Report save(bool has_fsync) {
  CrashTest test;
  write_file(test.process(), "notes", "old", false);
  test.barrier();
  write_file(test.process(), "notes.new", "new", has_fsync);
  EXPECT_EQ(test.process().renameat2(AT_FDCWD, "notes.new", AT_FDCWD, "notes", 0), 0);
  return test.explore([](AfterCrash& after) {
    const std::string text = after.contents_of("notes").value_or("missing");
    if (text != "old" && text != "new") after.fail("notes is neither old nor new");
    return text;
  });
}

TEST(Notes, CanBeLostWithoutFsync) {
  const crashcut::Report report = save(false);
  EXPECT_TRUE(report.complete);
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_EQ(report.violations[0].outcome, std::string(3, '\0'));
}

TEST(Notes, AreSafeWithFsync) {
  const crashcut::Report report = save(true);
  EXPECT_TRUE(report.complete);
  EXPECT_TRUE(report.violations.empty());
  EXPECT_EQ(report.outcomes, (std::map<std::string, std::uint64_t>{{"new", 1}, {"old", 1}}));
}

}  // namespace
