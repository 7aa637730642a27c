// What crashcut pmem tells beside a violation of several threads: the missing flush, notes.
#include <nlohmann/json.hpp>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

// One thread stores data, another one copies it and makes the copy durable.
const char kCopy[] = R"(#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
struct Memory { _Atomic long data; char pad0[56]; long copy; char pad1[56]; };
static struct Memory* memory(void) { return crashcut_pmem("memory", sizeof(struct Memory)); }
static void* write_data(void* unused) {
  struct Memory* m = memory();
  atomic_store_explicit(&m->data, 42, memory_order_release);  /* the data */
  if (WRITER_FLUSHES) { _mm_clwb(&m->data); _mm_sfence(); }
  return unused;
}
static void* copy_data(void* unused) {
  struct Memory* m = memory();
  long value = atomic_load_explicit(&m->data, memory_order_acquire);  /* the load */
  if (value == 0) return unused;
  if (READER_FLUSHES) { _mm_clwb(&m->data); _mm_sfence(); }
  m->copy = value;  /* the copy */
  _mm_clwb(&m->copy);
  _mm_sfence();
  return unused;
}
int main(void) {
  pthread_t threads[2];
  memory();
  pthread_create(&threads[0], NULL, write_data, NULL);
  pthread_create(&threads[1], NULL, copy_data, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  return 0;
}
void crashcut_recover(void) {
  struct Memory* m = memory();
  if (m->copy == 42) assert(m->data == 42);
}
)";

class PmemThreadsFoundTest : public PmemTest {
 protected:
  std::string copying(int writer_flushes, int reader_flushes) {
    return program("copy.c", "#define WRITER_FLUSHES " + std::to_string(writer_flushes) + "\n#define READER_FLUSHES " +
                                 std::to_string(reader_flushes) + "\n" + kCopy);
  }
  nlohmann::json report() { return nlohmann::json::parse(read_file(directory_ / "report.json")); }
  // The text of the only note of the kind; empty: there is none.
  std::string note(const std::string& kind) {
    std::string text;
    const nlohmann::json all = report();
    for (const auto& n : all.at("memory_notes")) {
      if (n.at("kind") != kind) continue;
      EXPECT_EQ(text, "");
      text = n.at("text");
    }
    return text;
  }
  // "copy.c:N" of the line with the text.
  std::string place(const std::string& source, const std::string& text) {
    const std::string all = read_file(directory_ / source);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(all.find(text));
    return "copy.c:" + std::to_string(1 + std::count(all.begin(), end, '\n'));
  }
};

TEST_F(PmemThreadsFoundTest, TheMissingFlushIsTriedUnderTheSameSchedule) {
  const std::string source = copying(0, 0);
  const Ran run = pmem({"--schedules", "all", "--json", "report.json", source});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  const auto missing = report().at("violation").at("mends").at(0);
  EXPECT_EQ(missing.at("verified"), true) << run.out;
  // A flush by the writer would not do: the reader may load what is not flushed yet.
  EXPECT_NE(missing.dump().find(place(source, "/* the load */")), std::string::npos) << run.out;
  EXPECT_NE(missing.at("text").get<std::string>().find("(verified with it, under this schedule: all "),
            std::string::npos)
      << missing;
  // So has one schedule, if it is one that fails.
  for (int seed = 0; seed < 3; ++seed) {
    const Ran one = pmem({"--seed", std::to_string(seed), source});
    EXPECT_TRUE(one.exit_code == 0 || one.says("makes this go away (verified with it,")) << one.out;
  }
  const Ran right = pmem({"--schedules", "all", copying(0, 1)});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
}

TEST_F(PmemThreadsFoundTest, EffectsOfUnpersistedDataAreNoted) {
  const std::string source = copying(0, 0);
  const Ran run = pmem({"--schedules", "all", "--notes", "unpersisted", "--json", "report.json", source});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  const std::string text = note("effect of unpersisted data");
  EXPECT_NE(text.find("the load at " + place(source, "/* the load */")), std::string::npos) << text;
  EXPECT_NE(text.find("had stored at " + place(source, "/* the data */") + " (memory+0x0)"), std::string::npos) << text;
  EXPECT_NE(text.find("the store at " + place(source, "/* the copy */")), std::string::npos) << text;
  // The writer flushes, but the reader does not wait for that.
  const Ran flushed = pmem({"--schedules", "all", "--notes", "unpersisted", "--json", "report.json", copying(1, 0)});
  EXPECT_EQ(flushed.exit_code, 1) << flushed.out;
  EXPECT_NE(note("effect of unpersisted data"), "") << flushed.out;
  const Ran right = pmem({"--schedules", "all", "--notes", "unpersisted", "--json", "report.json", copying(0, 1)});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_EQ(note("effect of unpersisted data"), "") << right.out;
}

TEST_F(PmemThreadsFoundTest, RobustnessIsNotedAcrossThreads) {
  const std::string source = copying(0, 0);
  const Ran run = pmem({"--schedules", "all", "--notes", "robustness", "--json", "report.json", source});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  const std::string text = note("not robust");
  EXPECT_NE(text.find(place(source, "/* the data */") + " was lost"), std::string::npos) << text;
  EXPECT_NE(text.find(place(source, "/* the copy */") + ", which came later"), std::string::npos) << text;
  const Ran right = pmem({"--schedules", "all", "--notes", "robustness", "--json", "report.json", copying(0, 1)});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_EQ(note("not robust"), "") << right.out;
}

// main() stores while the thread makes its promise: nothing orders the two.
TEST_F(PmemThreadsFoundTest, APromiseIsOfTheThreadThatMadeIt) {
  const auto marking = [&](const std::string& of_main, const std::string& of_thread) {
    return program("mark.c",
                   "#include <pthread.h>\nstatic volatile long* p;\n"
                   "static void* promise(void* unused) {\n  " +
                       of_thread +
                       "  crashcut_mark(\"m\");\n  return unused;\n}\n"
                       "int main(void) {\n  pthread_t thread;\n  p = crashcut_pmem(\"memory\", 64);\n"
                       "  pthread_create(&thread, 0, promise, 0);\n  " +
                       of_main +
                       "  return pthread_join(thread, 0);\n}\n"
                       "void crashcut_recover(void) {\n  p = crashcut_pmem(\"memory\", 64);\n"
                       "  if (crashcut_reached(\"m\")) assert(p[0] >= 0);\n}\n");
  };
  const Ran main =
      pmem({"--schedules", "all", "--notes", "robustness", "--json", "report.json", marking("p[0] = 1;\n", "")});
  EXPECT_EQ(main.exit_code, 0) << main.out << main.err;
  EXPECT_EQ(note("not robust"), "") << main.out;
  const Ran thread =
      pmem({"--schedules", "all", "--notes", "robustness", "--json", "report.json", marking("", "p[0] = 1;\n")});
  EXPECT_EQ(thread.exit_code, 0) << thread.out << thread.err;
  EXPECT_NE(note("not robust"), "") << thread.out;
}

// Atomic stores are whole with threads, too.
TEST_F(PmemThreadsFoundTest, RacesArePlainStores) {
  const std::string source = copying(0, 1);
  const Ran run = pmem({"--schedules", "all", "--notes", "races", "--json", "report.json", source});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  const std::string text = note("persistency race");
  EXPECT_NE(text.find(place(source, "/* the copy */")), std::string::npos) << text;
}

TEST_F(PmemThreadsFoundTest, NotesOfMainAreToldOnceForAllSchedules) {
  const Ran run = pmem({"--schedules", "all", "--notes", "flushes", "--json", "report.json", program("twice.c", R"(
#include <immintrin.h>
#include <pthread.h>
static volatile long* words(void) { return crashcut_pmem("words", 256); }
static void* store(void* unused) {
  words()[0] = 1;
  _mm_clwb((void*)words());
  _mm_clwb((void*)words());
  _mm_sfence();
  return unused;
}
int main(void) {
  pthread_t t;
  words();
  pthread_create(&t, NULL, store, NULL);
  words()[8] = 1;
  pthread_join(t, NULL);
  return 0;
}
void crashcut_recover(void) { words(); }
)")});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_NE(note("redundant flush"), "") << run.out;
}

}  // namespace
}  // namespace crashcut
