// The versions of files, and what is expected of them after a crash: on traces made here, without a mount.
#include "recovery/mounted/histories.h"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "fusefs/trace_replay.h"
#include "fusefs/traced.h"
#include "recovery/mounted/recoverer.h"
#include "recovery/search/explorer.h"

namespace crashcut::mounted {
namespace {

using fusefs::Ino;
using fusefs::kRootIno;
using fusefs::Traced;

// A program's calls, into a trace.
class Disk {
 public:
  Disk() : path_(testing::TempDir() + "histories_test." + std::to_string(getpid())) {
    auto writer = fusefs::TraceWriter::create(path_, {.start = clock_.now(), .command = {"test"}});
    EXPECT_TRUE(writer) << writer.error();
    writer_ = std::move(*writer);
    changes.emplace(files, clock_, writer_.get());
  }
  ~Disk() { std::remove(path_.c_str()); }

  Ino find(const std::string& path) {
    Ino ino{};
    EXPECT_EQ(find_path(files, path, ino), 0) << path;
    return ino;
  }
  Ino dir_of(const std::string& path) {
    return path.rfind('/') == std::string::npos ? kRootIno : find(path.substr(0, path.rfind('/')));
  }
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  // An open description of a file, as open(O_CREAT) makes it.
  struct Open {
    Disk& disk;
    Ino ino;
    Traced::Writer writer{};

    Open& cut(std::uint64_t size) {
      EXPECT_EQ(disk.changes->truncate(ino, size, &writer), 0);
      return *this;
    }
    Open& write(std::string_view text, std::uint64_t offset = 0, fusefs::WriteFlags flags = {}) {
      EXPECT_EQ(disk.changes->write(ino, offset, std::as_bytes(std::span(text)), flags, nullptr, &writer),
                static_cast<std::int64_t>(text.size()));
      return *this;
    }
    Open& fsync() {
      EXPECT_EQ(disk.changes->fsync(ino, false), 0);
      return *this;
    }
    void close() { disk.changes->release(ino, true, &writer); }
  };
  Open open(const std::string& path) {
    Open open{*this, Ino{}};
    if (find_path(files, path, open.ino) != 0) {
      EXPECT_EQ(changes->create(dir_of(path), name_of(path), S_IFREG | 0644, 0, {}, open.ino), 0);
      changes->note_made(open.ino, open.writer);
    }
    changes->add_open(open.ino, &open.writer);
    return open;
  }
  void put(const std::string& path, std::string_view text) { open(path).cut(0).write(text).close(); }
  void mkdir(const std::string& path) {
    Ino made{};
    EXPECT_EQ(changes->mkdir(dir_of(path), name_of(path), 0755, {}, made), 0);
  }
  void rename(const std::string& from, const std::string& to, unsigned flags = 0) {
    EXPECT_EQ(changes->rename(dir_of(from), name_of(from), dir_of(to), name_of(to), flags), 0);
  }
  void link(const std::string& from, const std::string& to) {
    EXPECT_EQ(changes->link(find(from), dir_of(to), name_of(to)), 0);
  }
  void unlink(const std::string& path) { EXPECT_EQ(changes->unlink(dir_of(path), name_of(path)), 0); }
  void start() { changes->make_durable(); }
  // A save that nothing can be said against.
  void save(const std::string& path, std::string_view text) {
    open(path + ".t").cut(0).write(text).fsync().close();
    rename(path + ".t", path);
    changes->fsync(dir_of(path), false);
  }

  // What was done, as often as it is asked for; nothing is done after that.
  fusefs::TraceReader trace() {
    if (!is_finished_) writer_->finish();
    is_finished_ = true;
    auto trace = fusefs::TraceReader::open(path_);
    EXPECT_TRUE(trace) << trace.error();
    return std::move(*trace);
  }

 private:
  std::string path_;
  fusefs::TraceClock clock_;
  std::unique_ptr<fusefs::TraceWriter> writer_;
  bool is_finished_ = false;

 public:
  fusefs::Filesystem files{fusefs::Filesystem::Setup{.noatime = true, .clock = clock_.reader()}};
  std::optional<Traced> changes;
};

// The versions of a file, in words: its contents, "-" where it is missing, "d" for a directory.
std::vector<std::string> versions_of(Disk& disk, const std::string& path) {
  const auto histories = histories_of(disk.trace(), {}, {path}, true);
  EXPECT_TRUE(histories) << histories.error().sentence;
  const FileHistory& history = histories->files.at(path);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < history.states().size(); ++i) {
    const FileState& state = history.states()[i];
    std::string text = S_ISREG(state.type) ? "" : state.type == 0 ? "-" : S_ISDIR(state.type) ? "d" : "other";
    for (std::uint64_t piece = 0; piece * kPieceBytes < state.size; ++piece) {
      std::string bytes(history.piece(i, piece).substr(0, state.size - piece * kPieceBytes));
      EXPECT_TRUE(history.has_piece(i, piece, digest_of(bytes)));
      text += bytes;
    }
    texts.push_back(text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Versions, AreThoseOfTheStartThePromisesAndTheEnd) {
  Disk disk;
  disk.put("f", "one");
  disk.changes->mark("before the start");
  disk.start();
  Disk::Open open = disk.open("f");
  open.write("two");
  disk.changes->mark("second");
  open.write("TH");
  disk.changes->mark("stdout 1: no promise");
  open.write("THR");
  const auto histories = histories_of(disk.trace(), {}, {"f"}, false);
  ASSERT_TRUE(histories) << histories.error().sentence;
  ASSERT_EQ(histories->promises.size(), 1U);
  const FileHistory& history = histories->files.at("f");
  ASSERT_EQ(history.states().size(), 3U);
  EXPECT_EQ(history.states()[1].mark, "second");
  EXPECT_EQ(history.state_at(histories->promises[0].operation), 1U);
}

TEST(Versions, AreMadeByRenamesAndLinks) {
  Disk disk;
  disk.start();
  for (const char* text : {"v1", "v2"}) {
    disk.put("t", text);
    disk.rename("t", "f");
  }
  disk.put("u", "v3");
  disk.rename("u", "f", RENAME_EXCHANGE);
  disk.put("w", "v4");
  disk.unlink("f");
  disk.link("w", "f");
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"-", "v1", "v2", "v3", "v4"}));
  EXPECT_EQ(versions_of(disk, "u"), (Texts{"-", "v3", "v2"}));
}

TEST(Versions, AreMadeByRenamesBetweenDirectoriesAndOfDirectories) {
  Disk disk;
  disk.mkdir("a");
  disk.mkdir("b");
  disk.put("a/f", "v0");
  disk.start();
  disk.put("b/t", "v1");
  disk.rename("b/t", "a/f");
  disk.mkdir("n");
  disk.mkdir("n/x");
  disk.put("n/f", "v2");
  disk.rename("a", "old");
  disk.rename("n", "a");
  disk.rename("a/f", "a/x/f");
  disk.put("a/x/f", "v3");
  EXPECT_EQ(versions_of(disk, "a/f"), (Texts{"v0", "v1", "v2", "-"}));
  EXPECT_EQ(versions_of(disk, "a/x/f"), (Texts{"-", "v2", "v3"}));
  EXPECT_EQ(versions_of(disk, "old/f"), (Texts{"-", "v1"}));
  EXPECT_EQ(versions_of(disk, "a/x"), (Texts{"-", "d"}));
}

TEST(Versions, AreMadeByFsyncsAndSyncs) {
  Disk disk;
  disk.put("f", "");
  disk.start();
  Disk::Open open = disk.open("f");
  open.write("aa").fsync();
  open.write("bb", 2);
  open.write("cc", 4).fsync();
  open.write("dd", 6);
  disk.changes->sync();
  open.write("ee", 8, {.dsync = true});
  open.write("f", 10).write("g", 11);
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"", "aa", "aabbcc", "aabbccdd", "aabbccddee", "aabbccddeefg"}));
}

TEST(Versions, AreNotMadeBetweenWritesBeforeTheClose) {
  Disk disk;
  disk.put("f", "old");
  disk.start();
  for (const char* text : {"12", "34"}) {
    Disk::Open open = disk.open("f");
    open.cut(0).write(std::string(1, text[0])).write(std::string(1, text[1]), 1);
    open.close();
  }
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"old", "12", "34"}));
}

TEST(Versions, AreNotMadeByACloseWhileSomebodyElseWrites) {
  Disk disk;
  disk.put("f", "....");
  disk.start();
  Disk::Open a = disk.open("f"), b = disk.open("f"), idle = disk.open("f");
  a.write("a");
  b.write("b", 1);
  a.close();  // b has more to write
  b.write("b", 2);
  b.close();
  Disk::Open c = disk.open("f"), d = disk.open("f");
  c.write("c", 3).fsync();
  d.write("d");
  d.close();  // c has finished by its fsync
  c.close();
  disk.open("f").close();  // wrote nothing
  Disk::Open e = disk.open("f");
  e.write("e");
  e.close();
  idle.write("!", 1);
  idle.close();
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"....", "abb.", "abbc", "dbbc", "ebbc", "e!bc"}));
}

TEST(Versions, OfMappedFilesAreMadeByTheLastClose) {
  Disk disk;
  disk.put("f", "...");
  disk.start();
  Disk::Open a = disk.open("f"), b = disk.open("f");
  const auto store = [&](std::string_view text) { disk.changes->write(a.ino, 0, std::as_bytes(std::span(text)), {}); };
  store("1..");
  a.close();  // it may be b that is mapped
  store("12.");
  b.close();
  Disk::Open c = disk.open("f");
  store("123");
  c.fsync();  // msync
  store("4");
  c.close();
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"...", "12.", "123", "423"}));
}

TEST(Versions, OfEmptyFilesAndNamesThatAreGone) {
  Disk disk;
  disk.start();
  disk.open("f").close();  // touch: there was nothing to lose
  disk.put("f", "one");
  disk.open("f").cut(0).close();  // about to be filled
  disk.put("f", "two");
  disk.unlink("f");
  disk.put("t", "three");
  disk.rename("t", "f");
  disk.open("f").cut(0).fsync().close();  // meant
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"-", "", "one", "two", "three", ""}));
}

TEST(Versions, OfAllNamesOfAFile) {
  Disk disk;
  disk.put("f", "one");
  disk.link("f", "g");
  disk.start();
  disk.put("f", "two");
  disk.put("g", "three");
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"one", "two", "three"}));
  EXPECT_EQ(versions_of(disk, "g"), (Texts{"one", "two", "three"}));
}

TEST(Versions, OfAProgramThatWasKilled) {
  Disk disk;
  disk.put("f", "old");
  disk.start();
  disk.put("f", "one");
  Disk::Open open = disk.open("f");
  open.cut(0).write("ha");
  disk.changes->stop();
  open.close();
  EXPECT_EQ(versions_of(disk, "f"), (Texts{"old", "one"}));
}

// What is kept piece by piece must be what the file is, whatever is done to it.
TEST(Versions, AreWhatTheFileIs) {
  Disk disk;
  std::uint64_t seed = 1;
  const auto random = [&](std::uint64_t below) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    return (seed >> 33) % below;
  };
  disk.put("f", "start");
  disk.start();
  Disk::Open open = disk.open("f");
  Texts expected{"start"};
  const auto now = [&] {
    std::string text(static_cast<std::size_t>(disk.files.seek(open.ino, 0, SEEK_END)), '\0');
    disk.files.read(open.ino, 0, std::as_writable_bytes(std::span(text)));
    return text;
  };
  for (int i = 0; i < 300; ++i) {
    for (std::uint64_t changes = random(3) + 1; changes > 0; --changes) {
      if (random(3) == 0) {
        open.cut(random(30000));
      } else {
        open.write(std::string(random(6000) + 1, static_cast<char>('a' + random(26))), random(20000));
      }
    }
    open.fsync();
    if (now() != expected.back()) expected.push_back(now());
  }
  EXPECT_EQ(versions_of(disk, "f"), expected);
}

// ---- what is expected of them ---------------------------------------------------------------------------------------

struct Explored {
  std::map<std::string, std::uint64_t> outcomes;
  std::set<std::string> findings;
};

Explored explore(Disk& disk, const FileQuestion& question, const fusefs::ModelOptions& model = {}) {
  const fusefs::TraceReader trace = disk.trace();
  const auto replayed = fusefs::replay(trace, model);
  EXPECT_TRUE(replayed) << replayed.error().sentence;
  const auto histories = histories_of(trace, model, {question.path}, compares_bytes(question));
  EXPECT_TRUE(histories) << histories.error().sentence;
  const std::vector<Question> questions{question};
  DiskRecoverer recoverer({replayed->recorder->recording(), *histories, questions});
  Explored explored;
  search::Explorer explorer({.recording = replayed->recorder->recording(),
                             .recoverer = recoverer,
                             .on_run = [&](const search::Run& run, std::span<const search::Crash>) {
                               ++explored.outcomes[run.ending.outcome];
                               explored.findings.insert(run.ending.finding.kind);
                             }});
  EXPECT_TRUE(explorer.explore(0, {}).empty());
  return explored;
}

FileQuestion whole(const std::string& path) { return FileQuestion{path, {}, true, true, {}}; }
std::string name_of(Finding finding) { return std::string(to_text(finding)); }
const std::set<std::string> kAllFine{name_of(Finding::kFine)};

TEST(Expectations, AnEarlierVersionAfterAPromiseIsNotDurable) {
  Disk disk;
  disk.put("f", "one");
  disk.start();
  disk.put("g", "two");
  disk.rename("g", "f");
  disk.changes->mark("second");
  const fusefs::ModelOptions journal{.data = fusefs::DataMode::kJournal};
  const Explored explored = explore(disk, whole("f"), journal);
  EXPECT_EQ(explored.outcomes,
            (std::map<std::string, std::uint64_t>{{"f is new", 1}, {"f is old", 1}, {"f is old after \"second\"", 1}}));
  EXPECT_EQ(explored.findings, (std::set<std::string>{name_of(Finding::kFine), name_of(Finding::kNotDurable)}));
  FileQuestion question = whole("f");
  question.durable = false;
  EXPECT_EQ(explore(disk, question, journal).findings, kAllFine);
}

TEST(Expectations, ReadNoFurtherThanTheyNeed) {
  // Ten blocks that each are old or new: the first that fits neither version ends it.
  Disk disk;
  disk.put("f", std::string(40960, 'o'));
  disk.start();
  disk.open("f").write(std::string(40960, 'n'));
  std::uint64_t runs = 0;
  const Explored explored = explore(disk, whole("f"));
  for (const auto& [outcome, count] : explored.outcomes) runs += count;
  EXPECT_LT(runs, 200U);  // of 2^10 and more
  EXPECT_TRUE(explored.findings.contains(name_of(Finding::kLost)));
}

TEST(Expectations, EverySaveIsAVersion) {
  Disk disk;
  disk.save("f", "v0");
  disk.start();
  for (const char* text : {"v1", "v2", "v3"}) disk.save("f", text);
  disk.changes->mark("exit");
  const Explored explored = explore(disk, whole("f"));
  EXPECT_EQ(explored.findings, kAllFine);
  EXPECT_EQ(explored.outcomes,
            (std::map<std::string, std::uint64_t>{{"f is old", 1},
                                                  {"f is as after rename(f.t, f), version 2 of 4", 1},
                                                  {"f is as after rename(f.t, f), version 3 of 4", 1},
                                                  {"f is new", 1}}));
}

TEST(Expectations, AMixtureOfTwoSavesIsStillLost) {
  Disk disk;
  const std::string old(8192, 'o');
  disk.save("f", old);
  disk.start();
  for (const char letter : {'1', '2'}) disk.open("f").write(std::string(8192, letter)).fsync().close();
  const Explored explored = explore(disk, whole("f"));
  EXPECT_TRUE(explored.findings.contains(name_of(Finding::kLost)));
  EXPECT_TRUE(explored.outcomes.contains("f is no version: its bytes are a mixture, or written in part"))
      << explored.outcomes.begin()->first;
  EXPECT_TRUE(explored.outcomes.contains("f is as after fsync(f), version 2 of 3"));
}

// Between two promises there may be several versions. Older ones than that of the last promise are not durable, newer
// ones are fine.
TEST(Expectations, DurableIsWhatIsNotOlderThanTheLastPromise) {
  Disk disk;
  disk.save("f", "v0");
  disk.start();
  const auto save_loosely = [&](const char* text) {
    disk.open("t").cut(0).write(text).fsync().close();
    disk.rename("t", "f");
  };
  save_loosely("v1");
  save_loosely("v2");
  disk.changes->mark("saved");
  save_loosely("v3");
  save_loosely("v4");
  const Explored explored = explore(disk, whole("f"));
  std::set<std::string> broken;
  for (const auto& [outcome, count] : explored.outcomes) {
    if (outcome.find("after \"saved\"") != std::string::npos) broken.insert(outcome);
  }
  // The fsync of the second temporary file took the first rename along.
  EXPECT_EQ(broken, (std::set<std::string>{"f is as after rename(t, f), version 2 of 5 after \"saved\""}));
  EXPECT_TRUE(explored.outcomes.contains("f is as after rename(t, f), version 4 of 5"));
  EXPECT_FALSE(explored.findings.contains(name_of(Finding::kLost)));
  // Which is the same as: once it is synced before the promise, nothing is broken.
  Disk other;
  other.save("f", "v0");
  other.start();
  other.save("f", "v1");
  other.changes->mark("saved");
  other.save("f", "v2");
  EXPECT_EQ(explore(other, whole("f")).findings, kAllFine);
}

TEST(Expectations, AVersionThatIsBackByItsOwnFileIsTheEarlierOne) {
  // A, then B, promised, then A again: A is fine where it is the last, and not where it is the first.
  Disk disk;
  disk.save("f", "A");
  disk.start();
  disk.put("t", "B");
  disk.rename("t", "f");
  disk.changes->mark("B is saved");
  disk.save("f", "A");
  disk.changes->mark("exit");
  const fusefs::ModelOptions journal{.data = fusefs::DataMode::kJournal};
  const Explored explored = explore(disk, whole("f"), journal);
  EXPECT_TRUE(explored.outcomes.contains("f is old after \"B is saved\""));
  EXPECT_TRUE(explored.outcomes.contains("f is new"));
  for (const auto& [outcome, count] : explored.outcomes) EXPECT_EQ(outcome.find("exit"), std::string::npos) << outcome;
}

TEST(Expectations, ABackupMayBeAnyVersion) {
  Disk disk;
  disk.save("f", "v0");
  disk.start();
  for (const char* text : {"v1 is longer", "v2"}) {
    disk.save("f~", text);
    disk.open("f").cut(0).write(text).fsync().close();
    disk.changes->mark(text);
  }
  EXPECT_TRUE(explore(disk, whole("f")).findings.contains(name_of(Finding::kLost)));
  FileQuestion question = whole("f");
  question.backups = {"f~"};
  EXPECT_EQ(explore(disk, question).findings, kAllFine);
}

TEST(Expectations, PrefixesAndBytesAreThoseOfAllVersions) {
  Disk disk;
  disk.put("f", "");
  disk.start();
  Disk::Open open = disk.open("f");
  open.write("line 1\n").fsync();
  open.write("line 2\n", 7).fsync();
  open.close();
  disk.put("t", "line 3\n");
  disk.rename("t", "f");
  disk.changes->sync();
  const fusefs::ModelOptions journal{.data = fusefs::DataMode::kJournal};
  for (const Expect expect : {Expect::kPrefix, Expect::kNoGarbage}) {
    EXPECT_EQ(explore(disk, FileQuestion{"f", {}, false, false, {expect}}, journal).findings, kAllFine)
        << to_text(expect);
  }
  Disk bad;
  bad.put("f", "");
  bad.start();
  bad.open("f").write("line 2\n", 7).write("line 1\n").fsync().close();
  for (const Expect expect : {Expect::kPrefix, Expect::kNoGarbage}) {
    EXPECT_TRUE(explore(bad, FileQuestion{"f", {}, false, false, {expect}}, journal)
                    .findings.contains(name_of(Finding::kUnexpected)))
        << to_text(expect);
  }
}

TEST(Expectations, ThousandsOfVersionsTakeLittleMemory) {
  Disk disk;
  constexpr int kVersions = 5000;
  disk.put("f", std::string(1 << 20, 'o'));
  disk.start();
  Disk::Open open = disk.open("f");
  for (int i = 0; i < kVersions; ++i)
    open.write(std::to_string(i), static_cast<std::uint64_t>(i) * 4096 % (1 << 20)).fsync();
  const fusefs::TraceReader trace = disk.trace();
  const auto histories = histories_of(trace, {}, {"f"}, false);
  ASSERT_TRUE(histories) << histories.error().sentence;
  const FileHistory& history = histories->files.at("f");
  ASSERT_EQ(history.states().size(), kVersions + 1U);
  // A version costs the pieces that it changed: whole contents would be 5 GB.
  std::uint64_t changes = 0;
  for (std::uint64_t piece = 0; piece < 256; ++piece) {
    for (std::size_t i = 1; i < history.states().size(); ++i) {
      std::string bytes(4096, 'o');
      const std::size_t last =
          (i - 1) / 256 * 256 + piece < i ? (i - 1) / 256 * 256 + piece : (i - 1) / 256 * 256 + piece - 256;
      if (i % 997 != 0 || last >= i) continue;
      ++changes;
      for (std::size_t at = piece; at <= last; at += 256)
        bytes.replace(0, std::to_string(at).size(), std::to_string(at));
      EXPECT_TRUE(history.has_piece(i, piece, digest_of(bytes))) << i << " " << piece;
    }
  }
  EXPECT_GT(changes, 1000U);
}

}  // namespace
}  // namespace crashcut::mounted
