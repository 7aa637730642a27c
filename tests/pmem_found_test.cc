// What crashcut pmem tells beside the violation: the missing flush, what a recovery waits for, notes.
#include <nlohmann/json.hpp>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

class PmemFoundTest : public PmemTest {
 protected:
  // The number of the line of a file that has the text; 0: none.
  int line_with(const std::string& name, const std::string& text) {
    std::istringstream lines(read_file(directory_ / name));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find(text) != std::string::npos) return number;
    }
    return 0;
  }
  // Of "log.c:12", or "helper.h:3 (log.c:12)", the line in the file.
  static int line_of(const std::string& place, const std::string& file) {
    const std::size_t at = place.find(file + ":");
    return at == std::string::npos ? -1 : std::stoi(place.substr(at + file.size() + 1));
  }
  nlohmann::json report() { return nlohmann::json::parse(read_file(directory_ / "report.json")); }
};

// Each line of main() that matters is told by its number.
constexpr const char* kLog = R"(#include <immintrin.h>
struct Log { long count; char pad[56]; long entries[64]; };
static struct Log* the_log(void) { return crashcut_pmem("log", sizeof(struct Log)); }
int main(int argc, char** argv) {
  struct Log* log = the_log();
  for (long i = 0; i < 3; ++i) {
    log->entries[i] = i + 1;
    if (argc > 1) _mm_clwb(&log->entries[i]);
    log->count = i + 1;
    _mm_clwb(&log->count);
    _mm_sfence();
  }
  return 0;
}
void crashcut_recover(void) {
  struct Log* log = the_log();
  for (long i = 0; i < log->count; ++i) assert(log->entries[i] == i + 1);
}
)";

TEST_F(PmemFoundTest, TheMissingFlushIsNamedAndVerified) {
  const std::string source = program("log.c", kLog);
  const Ran run = pmem({"--json", "report.json", source});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("A flush of log+0x40 and a fence after log.c:")) << run.out;
  const auto missing = report().at("violation").at("mends").at(0);
  EXPECT_NE(missing.at("text").get<std::string>().find(
                "makes this go away (verified with it: all 4 recoveries, none failed)."),
            std::string::npos)
      << missing;
  EXPECT_EQ(missing.at("kind"), "flush and fence");
  EXPECT_EQ(missing.at("lines"), 1);
  EXPECT_EQ(missing.at("recoveries"), 4);
  EXPECT_EQ(missing.at("verified"), true);
  EXPECT_EQ(line_of(missing.at("place").get<std::string>(), "log.c"), line_with(source, "log->entries[i] = i + 1"));
  // The flush is there, the fence is not.
  const Ran flushed = pmem({"--json", "report.json", source, "flush"});
  EXPECT_EQ(flushed.exit_code, 1) << flushed.out << flushed.err;
  const auto fence = report().at("violation").at("mends").at(0);
  EXPECT_EQ(fence.at("kind"), "fence") << flushed.out;
  EXPECT_EQ(fence.at("verified"), true);
  EXPECT_EQ(line_of(fence.at("place").get<std::string>(), "log.c"), line_with(source, "_mm_clwb(&log->entries[i])"));
}

TEST_F(PmemFoundTest, WhereAFileWasLostBeforeAStoreAnFsyncIsMissing) {
  const Ran run = pmem({program("store.c", R"(#include <fcntl.h>
#include <immintrin.h>
static long* count(void) { return crashcut_pmem("index", 64); }
int main(void) {
  const int fd = open("log", O_CREAT | O_WRONLY, 0644);
  if (write(fd, "entry", 5) != 5) return 1;
  *count() = 1;
  _mm_clwb(count());
  _mm_sfence();
  return 0;
}
void crashcut_recover(void) {
  char entry[5];
  if (*count() != 0) assert(read(open("log", O_RDONLY), entry, 5) == 5);
}
)")});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("No flush or fence makes this go away: what was lost is not memory but ")) << run.out;
  EXPECT_TRUE(run.says(", which main() had done before a store that is there. An fsync() in between may be missing."))
      << run.out;
}

TEST_F(PmemFoundTest, AFlushIsTriedInRecoveriesThatAreCrashedToo) {
  // main() runs again after each crash, and lacks the fence there, too.
  const std::string source = program("again.c", R"(#include <immintrin.h>
int main(void) {
  long* p = crashcut_pmem("counters", 128);
  if (p[0] > p[8]) return 1;
  p[8]++;
  _mm_clwb(&p[8]);
  p[0]++;
  _mm_clwb(&p[0]);
  _mm_sfence();
  return 0;
}
)");
  const Ran run = pmem({"--depth", "2", source});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  const std::string place = "again.c:" + std::to_string(line_with(source, "_mm_clwb(&p[8])"));
  EXPECT_TRUE(run.says("A fence after " + place + " makes this go away (verified with it: all ")) << run.out;
}

TEST_F(PmemFoundTest, ARecoveryThatWaitsForALockNamesItAndItsOwner) {
  const std::string source = program("lock.c", R"(
struct Lock { long word; };
static struct Lock* the_lock(void) { return crashcut_pmem("locks", sizeof(struct Lock)); }
int main(void) {
  __atomic_exchange_n(&the_lock()->word, 1, __ATOMIC_SEQ_CST);
  crashcut_barrier();
  return 0;
}
void crashcut_recover(void) {
  while (__atomic_load_n(&the_lock()->word, __ATOMIC_ACQUIRE) != 0) {
  }
}
)");
  const Ran run = pmem({"--recovery-limit", "1", source});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  const std::string taken = "lock.c:" + std::to_string(line_with(source, "__atomic_exchange_n"));
  const std::string waited = "lock.c:" + std::to_string(line_with(source, "while (__atomic_load_n"));
  EXPECT_TRUE(run.says("it loads locks+0x0 at " + waited +
                       " (it holds 0x1, as main() left it by a locked instruction at " + taken +
                       ": a lock whose owner is gone) over and over"))
      << run.out;
}

constexpr const char* kNotes = R"(#include <immintrin.h>
struct Words { long a; char pad[56]; long b; char pad2[56]; volatile long flag; char pad3[56]; char torn[64]; };
static struct Words* words(void) { return crashcut_pmem("words", sizeof(struct Words)); }
int main(void) {
  struct Words* w = words();
  w->a = 1;
  w->a = 2;                       /* an overwrite */
  _mm_clwb(&w->a);
  _mm_clwb(&w->a);                /* twice */
  _mm_sfence();
  _mm_sfence();                   /* nothing to wait for */
  w->b = 1;                       /* plain */
  __atomic_store_n(&w->flag, 1, __ATOMIC_RELAXED); /* b is not durable yet */
  *(volatile long*)(w->torn - 4) = 7; /* across two lines */
  return 0;
}
void crashcut_recover(void) {
  const long flag = words()->flag;
  const long b = words()->b;      /* loads b */
  printf("%ld%ld\n", flag, b);
}
)";

TEST_F(PmemFoundTest, NotesHaveTheirPlaceAndTheirCount) {
  const std::string source = program("notes.c", kNotes);
  const Ran run = pmem({"--notes", "all", "--json", "report.json", source});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  std::map<std::string, std::pair<int, int>> found;  // line and count
  const auto json = report();
  for (const auto& note : json.at("memory_notes"))
    found[note.at("kind")] = {line_of(note.at("place").get<std::string>(), "notes.c"), note.at("count")};
  const auto at = [&](const char* text) { return std::pair<int, int>{line_with(source, text), 1}; };
  EXPECT_EQ(found, (std::map<std::string, std::pair<int, int>>{{"overwrite", at("an overwrite")},
                                                               {"redundant flush", at("twice")},
                                                               {"redundant fence", at("nothing to wait for")},
                                                               {"torn store", at("across two lines")},
                                                               {"not robust", at("plain")},
                                                               {"persistency race", at("plain")}}))
      << run.out;
  EXPECT_TRUE(run.says("note (persistency race): the load at notes.c:" + std::to_string(line_with(source, "loads b")) +
                       " found the store of 8 bytes to words+0x40"))
      << run.out;
}

TEST_F(PmemFoundTest, NotesAreTheOnesThatAreAskedFor) {
  const std::string source = program("notes.c", kNotes);
  EXPECT_FALSE(pmem({source}).says("note (")) << "none by default";
  const Ran two = pmem({"--notes", "torn,overwrites", source});
  EXPECT_TRUE(two.says("note (torn store)") && two.says("note (overwrite)")) << two.out;
  EXPECT_FALSE(two.says("note (redundant")) << two.out;
  const Ran wrong = pmem({"--notes", "everything", source});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(wrong.says("--notes everything: there are flushes, overwrites")) << wrong.err;
}

}  // namespace
}  // namespace crashcut
