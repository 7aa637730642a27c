// Where persistent memory comes from: roots, files that are mapped, the heap; and functions that reach it by ways of
// their own.
#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

using Outcomes = std::map<std::string, int>;

const char kMapped[] = R"(#include <errno.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
static long* map_flags(const char* path, int flags, size_t bytes, off_t offset, void* hint) {
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0) abort();
  long* at = mmap(hint, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
  if (at == MAP_FAILED) abort();
  close(fd);
  return at;
}
static long* map(const char* path) { return map_flags(path, MAP_SHARED, 4096, 0, NULL); }
static long* map_sync(const char* path) { return map_flags(path, MAP_SHARED_VALIDATE | MAP_SYNC, 4096, 0, NULL); }
)";

class PmemRegionsTest : public PmemTest {
 protected:
  Ran run(const std::string& text, std::vector<std::string> options = {}) {
    return pmem(with(with({"--outcomes"}, options), {program("p.c", text)}));
  }
  Ran run_mapped(const std::string& text) { return run(kMapped + text); }
  void expect_outcomes(const Ran& run, const Outcomes& expected) {
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_EQ(outcomes_of(run), expected) << run.out;
  }
  void expect_refused(const Ran& run, const std::string& sentence) {
    EXPECT_EQ(run.exit_code, 2) << run.out << run.err;
    EXPECT_TRUE(run.says(sentence)) << run.out << run.err;
  }
};

TEST_F(PmemRegionsTest, ARootLeadsToWhatItPointedTo) {
  const auto program = [](const std::string& before_root) {
    return R"(#include <immintrin.h>
static long* words(void) { return crashcut_pmem("words", 128); }
int main(void) {
  words()[8] = 7;
  )" + before_root +
           R"(
  *crashcut_root("root") = words() + 8;
  return 0;
}
void crashcut_recover(void) {
  long* found = *crashcut_root("root");
  printf(found == NULL ? "none\n" : found == words() + 8 ? "%ld\n" : "elsewhere\n", found == NULL ? 0 : *found);
}
)";
  };
  expect_outcomes(run(program("_mm_clwb(words() + 8); _mm_sfence();")), {{"none", 1}, {"7", 1}});
  expect_outcomes(run(program("")), {{"none", 1}, {"0", 1}, {"7", 1}});
}

TEST_F(PmemRegionsTest, AMappedFileIsARegion) {
  const auto program = [](const std::string& map, const std::string& between) {
    return "static long* words(void) { return " + map + "; }\n" + R"(int main(void) {
  if (mkdir("pmem", 0755) != 0) return 1;
  crashcut_barrier();
  long* w = words();
  w[0] = (long)w;
  )" + between +
           R"(
  w[8] = 1;
  return 0;
}
void crashcut_recover(void) {
  long* w = words();
  printf("%s %ld\n", w[0] == 0 ? "-" : w[0] == (long)w ? "here" : "elsewhere", w[8]);
}
)";
  };
  const Outcomes in_order = {{"- 0", 1}, {"here 0", 1}, {"here 1", 1}};
  Outcomes any = in_order;
  any["- 1"] = 1;
  const std::string below = "map(\"pmem/pool\")", synced = "map_sync(\"pool\")";
  const auto count_once = [](const Ran& run) {
    Outcomes outcomes = outcomes_of(run);
    for (auto& [text, count] : outcomes) count = 1;
    return outcomes;
  };
  for (const std::string& map : {below, synced, std::string("map(\"/crashcut/pmem/pool\")")}) {
    EXPECT_EQ(count_once(run_mapped(program(map, ""))), any) << map;
    EXPECT_EQ(count_once(run_mapped(program(map, "_mm_clwb(w); _mm_sfence();"))), in_order) << map;
    EXPECT_EQ(count_once(run_mapped(program(map, "if (msync(w, 4096, MS_SYNC) != 0) return 1;"))), in_order) << map;
    EXPECT_EQ(count_once(run_mapped(program(map, "if (msync(w, 4096, MS_ASYNC) != 0) return 1;"))), any) << map;
  }
  EXPECT_EQ(
      count_once(run_mapped(program(below, "int fd = open(\"pmem/pool\", O_RDWR); if (fsync(fd) != 0) return 1;"))),
      in_order);
  EXPECT_EQ(count_once(run_mapped(program(below, "sync();"))), in_order);
}

TEST_F(PmemRegionsTest, MappingsOfOneFileAreOneRegionWhateverTheHint) {
  const Ran ran = run_mapped(R"(int main(void) {
  mkdir("pmem", 0755);
  int fd = open("pmem/pool", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || posix_fallocate(fd, 0, 16384) != 0) return 1;
  crashcut_barrier();
  char* all = (char*)map_flags("pmem/pool", MAP_SHARED, 16384, 0, NULL);
  char* part = (char*)map_flags("pmem/pool", MAP_SHARED, 4096, 8192, (void*)0x10000000);
  if (part != all + 8192 || map_flags("pmem/pool", MAP_SHARED | MAP_FIXED, 16384, 0, all) != (long*)all) return 2;
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size != 16384) return 3;
  if (munmap(part, 4096) != 0) return 4;
  part[5] = 'x';
  if (all[8197] != 'x') return 5;
  return rename("pmem/pool", "pmem/named");
}
void crashcut_recover(void) {
  const int is_renamed = access("pmem/named", F_OK) == 0;
  char* all = (char*)map_flags(is_renamed ? "pmem/named" : "pmem/pool", MAP_SHARED, 16384, 0, NULL);
  printf("%d %d\n", is_renamed, all[8197]);
}
)");
  expect_outcomes(ran, {{"0 0", 1}, {"0 120", 1}, {"1 0", 1}, {"1 120", 1}});
}

// libpmemobj looks at a pool's header before it maps the pool.
TEST_F(PmemRegionsTest, ReadOfAMappedFileLoadsItsMemory) {
  const Ran ran = run_mapped(R"(
int main(void) {
  mkdir("pmem", 0755);
  int fd = open("pmem/pool", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096) != 0) return 1;
  long* words = map("pmem/pool");
  crashcut_barrier();
  words[1] = 7;
  _mm_clwb(words);
  _mm_sfence();
  words[8] = 9;
  return 0;
}
void crashcut_recover(void) {
  int fd = open("pmem/pool", O_RDONLY);
  long first[2], ninth = 5, beyond = 5;
  if (read(fd, first, sizeof first) != sizeof first || lseek(fd, 0, SEEK_CUR) != sizeof first) abort();
  if (pread(fd, &ninth, sizeof ninth, 64) != sizeof ninth || pread(fd, &beyond, sizeof beyond, 4096) != 0) abort();
  printf("%ld %ld %ld\n", first[0], first[1], ninth);
}
)");
  expect_outcomes(ran, {{"0 0 0", 1}, {"0 7 0", 1}, {"0 7 9", 1}});
}

// Registers that a system call does not use hold what the program left there.
TEST_F(PmemRegionsTest, OutputIsARecoverysOwnWhateverItsRegistersHold) {
  const Ran ran = run(R"(#include <sys/syscall.h>
int main(void) { return *(long*)crashcut_pmem("word", 8) != 0; }
void crashcut_recover(void) { syscall(SYS_write, 1, "kept\n", 5, crashcut_pmem("word", 8)); }
)");
  expect_outcomes(ran, {{"kept", 1}});
}

TEST_F(PmemRegionsTest, MappingsThatCannotBeAreSaidInASentence) {
  const auto main_is = [](const std::string& body) {
    return "int main(void) { mkdir(\"pmem\", 0755); " + body + " return 0; }\nvoid crashcut_recover(void) {}\n";
  };
  expect_refused(run_mapped(main_is("map_flags(\"pmem/a\", MAP_SHARED | MAP_FIXED, 4096, 0, (void*)0x10000000);")),
                 "crashcut pmem maps this file at 0x2000");
  expect_refused(run_mapped(main_is("map(\"pmem/a\"); map_flags(\"pmem/a\", MAP_SHARED, 8192, 0, NULL);")),
                 "as persistent memory it has 4096 bytes since it was first mapped");
  expect_refused(
      run_mapped(main_is("int fd = open(\"pmem/a\", O_RDWR | O_CREAT, 0644); if (write(fd, \"abc\", 3) != 3) "
                         "return 1; map(\"pmem/a\");")),
      "the file has contents that were written by write()");
  expect_refused(run_mapped(main_is("map(\"pmem/a\"); char b[8]; int fd = open(\"pmem/a\", O_RDWR); "
                                    "struct iovec part = {b, 8}; if (readv(fd, &part, 1) != 0) return 1;")),
                 "called read() on pmem/a, which it has mapped as persistent memory");
  expect_refused(run_mapped(main_is("map(\"pmem/a\"); int fd = open(\"pmem/a\", O_RDWR); "
                                    "if (pwrite(fd, \"abc\", 3, 0) != 3) return 1;")),
                 "called write() on pmem/a, which it has mapped as persistent memory");
  expect_refused(run_mapped(main_is("map(\"elsewhere\");")), "mmap(MAP_SHARED) of elsewhere, writable");
  const Ran plain = crashcut({"run", program("p.c", kMapped + main_is("map(\"pmem/a\");"))});
  expect_refused(plain, "mmap(MAP_SHARED) of pmem/a, writable");
}

TEST_F(PmemRegionsTest, FortifiedCallsReachRegions) {
  const std::string text = R"(#undef _FORTIFY_SOURCE
extern void* __memcpy_chk(void*, const void*, size_t, size_t);
extern void* __memset_chk(void*, int, size_t, size_t);
extern void* __memmove_chk(void*, const void*, size_t, size_t);
extern char* __strcpy_chk(char*, const char*, size_t);
extern char* __strcat_chk(char*, const char*, size_t);
extern char* __strncpy_chk(char*, const char*, size_t, size_t);
extern char* __strncat_chk(char*, const char*, size_t, size_t);
static char* words(void) { return crashcut_pmem("words", 512); }
int main(int argc, char** argv) {
  volatile size_t room = argc > 1 ? (size_t)atoi(argv[1]) : 64;
  char* w = words();
  __memcpy_chk(w, "abcdefg", 8, room);
  __memset_chk(w + 64, 'x', 3, room);
  __memmove_chk(w + 128, w, 8, room);
  __strcpy_chk(w + 192, "ab", room);
  __strcat_chk(w + 192, "cd", room);
  __strncpy_chk(w + 256, "xyz", 5, room);
  __strncat_chk(w + 256, "uvw", 2, room);
  crashcut_barrier();
  return 0;
}
void crashcut_recover(void) {
  char copy[512];
  memcpy(copy, words(), sizeof copy);
  printf("%s %s %s %s %s\n", copy, copy + 64, copy + 128, copy + 192, copy + 256);
}
)";
  expect_outcomes(run(text), {{"abcdefg xxx abcdefg abcd xyzuv", 1}});
  const Ran overflow = pmem({program("p.c", text), "4"});
  EXPECT_EQ(overflow.exit_code, 2);
  EXPECT_TRUE(overflow.says("killed by SIGABRT")) << overflow.err;
}

TEST_F(PmemRegionsTest, AnOwnHandlerForFaultsDoesNotHideUninstrumentedAccesses) {
  const auto program = [](const std::string& fault) {
    return R"(#include <setjmp.h>
#include <signal.h>
static sigjmp_buf back;
static void handle(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
  siglongjmp(back, 1);
}
int main(void) {
  long* w = crashcut_pmem("words", 64);
  struct sigaction action, before;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSEGV, &action, NULL) != 0 || sigaction(SIGSEGV, NULL, &before) != 0) return 3;
  if (before.sa_sigaction != handle) return 4;
  for (int i = 0; i < 2; ++i) {
    if (sigsetjmp(back, 1) == 0) {
      )" + fault +
           R"(
      return 5;
    }
  }
  w[0] = 1;
  return 0;
}
void crashcut_recover(void) { printf("%ld\n", *(long*)crashcut_pmem("words", 64)); }
)";
  };
  expect_outcomes(run(program("*(volatile long*)8 = 1;")), {{"0", 1}, {"1", 1}});
  expect_outcomes(run(program("w[4096] = 1;")), {{"0", 1}, {"1", 1}});
  expect_refused(run(program("puts((char*)w);")), "touched persistent memory (words+0x0) in main() without");
}

TEST_F(PmemRegionsTest, ASequentiallyConsistentStoreDoesNotAskWhatWasThere) {
  const auto program = [](const std::string& order) {
    return R"(#include <stdatomic.h>
static _Atomic long* word(void) { return crashcut_pmem("word", 64); }
int main(void) {
  for (long i = 1; i <= 5; ++i) atomic_store(word(), i);
  return 0;
}
void crashcut_recover(void) {
  atomic_store_explicit(word(), 9, )" +
           order + ");\n  printf(\"%ld\\n\", *word());\n}\n";
  };
  for (const char* order : {"memory_order_seq_cst", "memory_order_release"}) {
    expect_outcomes(run(program(order)), {{"9", 1}});
  }
}

// ---- --malloc

const char kList[] = R"(#include <immintrin.h>
#include <stdint.h>
struct Node { long value; struct Node* next; };
static void persist(void* at) { _mm_clwb(at); _mm_sfence(); }
static struct Node** head(void) { return (struct Node**)crashcut_root("head"); }
static int is_persistent(void* at) { return (uintptr_t)at >> 44 == 2; }
static void push(long value) {
  struct Node* n = malloc(sizeof *n);
  n->value = value;
  n->next = *head();
  PERSIST(n);
  *head() = n;
  persist(head());
}
)";

TEST_F(PmemRegionsTest, ListsOfBlocksFromMallocSurvive) {
  const std::string text = std::string(kList) + R"(int main(void) {
  for (long i = 1; i <= 3; ++i) push(i);
  return 0;
}
void crashcut_recover(void) {
  for (struct Node* n = *head(); n != NULL; n = n->next) printf("%ld ", n->value);
  printf(".\n");
}
)";
  expect_outcomes(run("#define PERSIST persist\n" + text, {"--malloc"}),
                  {{".", 1}, {"1 .", 1}, {"2 1 .", 1}, {"3 2 1 .", 1}});
  // Nodes share lines: the second one's flush persists the first one's, but not before the head points to it.
  const Ran wrong = run("#define PERSIST(n)\n" + text, {"--malloc"});
  EXPECT_EQ(wrong.exit_code, 0);
  EXPECT_EQ(outcomes_of(wrong).count("0 ."), 1u) << wrong.out;
  EXPECT_TRUE(wrong.first_line().find("malloc=persistent") != std::string::npos) << wrong.first_line();
  // Without the option the nodes are gone, and the head leads nowhere.
  const Ran plain = run("#define PERSIST persist\n" + text);
  EXPECT_EQ(plain.exit_code, 1) << plain.out << plain.err;
  EXPECT_TRUE(plain.says("signal")) << plain.out;
}

TEST_F(PmemRegionsTest, TheHeapRemembersItsBlocksAcrossACrash) {
  const std::string text = "#define PERSIST persist\n" + std::string(kList) + R"(#include <malloc.h>
int main(void) {
  void* freed = malloc(16);
  if (!is_persistent(freed)) return 1;
  free(freed);
  if (malloc(10) != freed) return 2;
  long* zero = calloc(4, 8);
  if (zero[0] != 0 || zero[3] != 0 || malloc_usable_size(zero) != 32) return 3;
  void* line;
  if (posix_memalign(&line, 64, 100) != 0 || (uintptr_t)line % 64 != 0 || !is_persistent(line)) return 4;
  if (!is_persistent(strdup("text"))) return 5;
  for (int i = 0; i < 40; ++i) {  /* more than one region */
    char* large = malloc(100000);
    if (!is_persistent(large)) return 6;
    large[99999] = 1;
  }
  crashcut_barrier();
  push(7);
  return 0;
}
void crashcut_recover(void) {
  struct Node* n = *head();
  if (n == NULL) { printf("none\n"); return; }
  for (int i = 0; i < 50; ++i) {
    struct Node* other = malloc(sizeof *other);
    if (other == n || other->value != 0) abort();
    other->value = 3;
  }
  struct Node* grown = realloc(n, 1000);
  if (grown == n || !is_persistent(grown)) abort();
  printf("%ld\n", grown->value);
  free(grown);
}
)";
  expect_outcomes(run(text, {"--malloc"}), {{"none", 1}, {"7", 1}});
  // The recovery that finds the node and stores to blocks of its own may be crashed too.
  expect_outcomes(run(text, {"--malloc", "--depth", "2"}), {{"none", 1}, {"7", 2}});
}

TEST_F(PmemRegionsTest, NewAndDeleteUseThePersistentHeap) {
  const Ran ran = pmem({"--outcomes", "--malloc", program("p.cpp", R"(#include <immintrin.h>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>
static bool is_persistent(const void* at) { return (uintptr_t)at >> 44 == 2; }
struct alignas(64) Line { long words[8]; };
static std::vector<int>* g_before_main = new std::vector<int>(4);
int main() {
  auto* v = new std::vector<int>;
  for (int i = 0; i < 10; ++i) v->push_back(i);
  auto owned = std::make_unique<Line[]>(2);
  if (!is_persistent(v) || !is_persistent(v->data()) || !is_persistent(owned.get())) return 1;
  if ((uintptr_t)owned.get() % 64 != 0 || is_persistent(g_before_main)) return 2;
  delete g_before_main;
  crashcut_barrier();
  *crashcut_root("vector") = v;
  return 0;
}
extern "C" void crashcut_recover() {
  auto* v = (std::vector<int>*)*crashcut_root("vector");
  if (v == nullptr) { printf("none\n"); return; }
  int sum = 0;
  for (int i : *v) sum += i;
  printf("%d %d\n", sum, (int)g_before_main->size());
  delete v;
}
)")});
  expect_outcomes(ran, {{"none", 1}, {"45 4", 1}});
}

TEST_F(PmemRegionsTest, AWrongFreeEndsTheProgramAsWithoutCrashcut) {
  const Ran twice =
      run("int main(void) { long* volatile p = malloc(8); free(p); free(p); return 0; }\n"
          "void crashcut_recover(void) {}\n",
          {"--malloc"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_TRUE(twice.says("killed by SIGABRT")) << twice.err;
  const Ran replayed =
      run("#define PERSIST(n)\n" + std::string(kList) +
              "int main(void) { push(1); return 0; }\n"
              "void crashcut_recover(void) { struct Node* n = *head(); if (n != NULL && n->value == 0) "
              "abort(); }\n",
          {"--malloc"});
  EXPECT_EQ(replayed.exit_code, 1) << replayed.out << replayed.err;
  EXPECT_EQ(crashcut(replay_of(replayed)).exit_code, 1);
}

}  // namespace
}  // namespace crashcut
