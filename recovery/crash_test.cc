#include "recovery/crash_test.h"

#include <algorithm>

namespace crashcut {

using fusefs::Filesystem;
using fusefs::Process;

AfterCrash::AfterCrash(const fusefs::Recording& recording, persist::Cut& cut, persist::Chooser& chooser)
    : view_(recording, cut, chooser),
      filesystem_(Filesystem::Setup{.medium = &view_,
                                    .sector_bytes = recording.options.sector_bytes,
                                    .block_bytes = recording.options.block_bytes}),
      process_(Process::Setup{.filesystem = filesystem_}) {}
AfterCrash::~AfterCrash() = default;

bool AfterCrash::exists(std::string_view path) {
  return process_.faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::optional<std::uint64_t> AfterCrash::size_of(std::string_view path) {
  const int fd = process_.openat(AT_FDCWD, path, O_RDONLY, 0);
  if (fd < 0) return std::nullopt;
  const off_t size = process_.lseek(fd, 0, SEEK_END);
  process_.close(fd);
  return static_cast<std::uint64_t>(size);
}

std::optional<std::string> AfterCrash::contents_of(std::string_view path) {
  const int fd = process_.openat(AT_FDCWD, path, O_RDONLY, 0);
  if (fd < 0) return std::nullopt;
  std::string contents(static_cast<std::size_t>(process_.lseek(fd, 0, SEEK_END)), '\0');
  const iovec all{contents.data(), contents.size()};
  process_.pread(fd, {&all, 1}, 0);
  process_.close(fd);
  return contents;
}

CrashTest::CrashTest(const fusefs::ModelOptions& options)
    : recorder_(options),
      filesystem_(Filesystem::Setup{
          .recorder = &recorder_, .sector_bytes = options.sector_bytes, .block_bytes = options.block_bytes}),
      process_(Process::Setup{.filesystem = filesystem_}) {}
CrashTest::~CrashTest() = default;

void CrashTest::seal() {
  if (!sealed_) recorder_.seal();
  sealed_ = true;
}

void CrashTest::run_once(persist::Cut& cut, persist::ChoiceTree& tree, const Observer& observer, Report& report) const {
  cut.reset();
  AfterCrash after(recording(), cut, tree);
  std::string outcome = observer(after);
  ++report.recoveries;
  if (after.failure()) {
    report.violations.push_back(Violation{*after.failure(), outcome, tree.path(), cut.events_in()});
  }
  ++report.outcomes[std::move(outcome)];
}

Report CrashTest::explore(const Observer& observer, const persist::Budget& budget) {
  seal();
  Report report;
  persist::Cut cut(recording().log);
  persist::ChoiceTree tree;
  const auto end = persist::explore(tree, budget, [&](persist::ChoiceTree& t) { run_once(cut, t, observer, report); });
  report.complete = end.complete;
  report.diverged = end.diverged;
  std::stable_sort(report.violations.begin(), report.violations.end(),
                   [](const Violation& a, const Violation& b) { return a.persisted.size() < b.persisted.size(); });
  return report;
}

Report CrashTest::replay(const persist::Path& path, const Observer& observer) {
  seal();
  Report report;
  persist::Cut cut(recording().log);
  persist::ChoiceTree tree(path);
  tree.begin_run();
  run_once(cut, tree, observer, report);
  report.diverged = tree.run_diverged() || tree.path() != path;
  report.complete = !report.diverged;
  return report;
}

}  // namespace crashcut
