// Programs whose control flow depends on something that changes from run to run. machine NAME asks for it in main() and
// in two threads, and each locks a mutex as often as the answer says: another answer is another program.
#define _GNU_SOURCE
#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static uint64_t hash_bytes(const void* bytes, size_t count) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  return hash;
}

static uint64_t hash_file(const char* path) {
  static __thread char text[1 << 16];
  int fd = open(path, O_RDONLY);
  if (fd < 0) return (uint64_t)errno;
  size_t used = 0;
  for (ssize_t got; used < sizeof text && (got = read(fd, text + used, sizeof text - used)) > 0;) used += (size_t)got;
  close(fd);
  return hash_bytes(text, used);
}

// The vDSO's own clock_gettime(), found without libc.
static uint64_t vdso_time(void) {
  const char* base = (const char*)getauxval(AT_SYSINFO_EHDR);
  if (base == NULL) return 0;
  const ElfW(Ehdr)* header = (const ElfW(Ehdr)*)base;
  const ElfW(Phdr)* parts = (const ElfW(Phdr)*)(base + header->e_phoff);
  const ElfW(Dyn)* dynamic = NULL;
  for (int i = 0; i < header->e_phnum; ++i) {
    if (parts[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn)*)(base + parts[i].p_offset);
  }
  const ElfW(Sym)* symbols = NULL;
  const char* names = NULL;
  const uint32_t* table = NULL;
  for (; dynamic != NULL && dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym)*)(base + dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_STRTAB) names = base + dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_HASH) table = (const uint32_t*)(base + dynamic->d_un.d_ptr);
  }
  for (uint32_t i = 0; symbols != NULL && names != NULL && table != NULL && i < table[1]; ++i) {
    if (strcmp(names + symbols[i].st_name, "__vdso_clock_gettime") != 0) continue;
    struct timespec t;
    ((int (*)(clockid_t, struct timespec*))(base + symbols[i].st_value))(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_nsec;
  }
  return 1;
}

static sigjmp_buf back;
static void on_fault(int signal) { siglongjmp(back, signal); }

// A program that handles SIGSEGV itself, and reads the counter.
static uint64_t tsc_with_handler(void) {
  signal(SIGSEGV, on_fault);
  uint64_t first = __rdtsc();
  volatile int* volatile nowhere = NULL;
  if (sigsetjmp(back, 1) == 0) *nowhere = 1;
  return first + __rdtsc();
}

static uint64_t random_file(const char* path) {
  uint64_t value = 0;
  int fd = open(path, O_RDONLY);
  if (read(fd, &value, sizeof value) != sizeof value) abort();
  uint64_t more[2] = {0};
  struct iovec parts[2] = {{&more[0], 8}, {&more[1], 8}};
  int other = dup(fd);
  if (readv(other, parts, 2) != 16) abort();
  close(fd);
  close(other);
  return value ^ more[0] ^ more[1];
}

static uint64_t random_stream(void) {
  FILE* f = fopen("/dev/random", "r");
  uint64_t value = 0;
  if (f == NULL || fread(&value, sizeof value, 1, f) != 1) abort();
  fclose(f);
  return value;
}

static uint64_t file_times(const char* path) {
  struct stat st;
  struct statx stx;
  if (stat(path, &st) != 0 || statx(AT_FDCWD, path, 0, STATX_ALL, &stx) != 0) return 1;
  return (uint64_t)st.st_mtim.tv_nsec ^ (uint64_t)st.st_atim.tv_nsec ^ (uint64_t)st.st_ino ^
         (uint64_t)stx.stx_btime.tv_nsec ^ stx.stx_ino;
}

static uint64_t fresh_file(void) {
  char name[] = "/tmp/crashcut-machine-XXXXXX";
  int fd = mkstemp(name);
  if (fd < 0) abort();
  if (write(fd, "x", 1) != 1) abort();
  uint64_t value = file_times(name);
  unlink(name);
  close(fd);
  return value;
}

static uint64_t listing(const char* path) {
  uint64_t hash = 0;
  DIR* directory = opendir(path);
  if (directory == NULL) return 1;
  for (struct dirent* e; (e = readdir(directory)) != NULL;) hash = hash * 31 + hash_bytes(e->d_name, strlen(e->d_name));
  closedir(directory);
  return hash;
}

static uint64_t links(void) {
  char text[256] = {0};
  uint64_t hash = 0;
  const char* paths[] = {"/proc/self", "/proc/thread-self", "/proc/self/cwd", "/proc/self/fd/0"};
  for (int i = 0; i < 4; ++i) {
    memset(text, 0, sizeof text);
    if (readlink(paths[i], text, sizeof text - 1) < 0) abort();
    hash = hash * 31 + hash_bytes(text, sizeof text);
  }
  return hash;
}

static uint64_t own_files(void) {
  char path[64];
  uint64_t hash = 0;
  const char* names[] = {"stat", "statm", "status", "io", "schedstat", "maps"};
  for (int i = 0; i < 6; ++i) {
    snprintf(path, sizeof path, "/proc/%d/%s", getpid(), names[i]);
    hash = hash * 31 + hash_file(path);
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", gettid(), names[i]);
    if (i < 3) hash = hash * 31 + hash_file(path);
  }
  return hash;
}

static uint64_t temporary_names(void) {
  char first[] = "made-XXXXXX", second[] = "/tmp/crashcut-machine-XXXXXX";
  int fd = mkstemp(first);
  if (fd < 0 || mkdtemp(second) == NULL) abort();
  close(fd);
  rmdir(second);
  FILE* nameless = tmpfile();
  if (nameless == NULL) abort();
  fclose(nameless);
  return hash_bytes(first, sizeof first) ^ hash_bytes(second, sizeof second);
}

static uint64_t addresses(void) {
  int local;
  void* block = malloc(100000);
  void* mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t value = (uintptr_t)&local ^ (uintptr_t)block ^ (uintptr_t)mapped ^ (uintptr_t)&printf ^
                   (uintptr_t)pthread_self() ^ (uintptr_t)environ;
  free(block);
  munmap(mapped, 8192);
  return value >> 4;
}

static uint64_t guards(void) {
  uint64_t canary, guard;
  asm("movq %%fs:0x28, %0" : "=r"(canary));
  asm("movq %%fs:0x30, %0" : "=r"(guard));
  return canary ^ guard ^ hash_bytes((const void*)getauxval(AT_RANDOM), 16);
}

static uint64_t processors(void) {
  cpu_set_t set;
  unsigned cpu = 7, node = 7, r[4];
  if (sched_getaffinity(0, sizeof set, &set) != 0) abort();
  syscall(SYS_getcpu, &cpu, &node, NULL);
  uint64_t value = (uint64_t)CPU_COUNT(&set) * 1000 + (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) * 100 +
                   (uint64_t)sysconf(_SC_NPROCESSORS_CONF) * 10;
  value += (uint64_t)sched_getcpu() + cpu + node;
  __cpuid(1, r[0], r[1], r[2], r[3]);
  value += r[1] >> 24;  // the processor's number
  CPU_ZERO(&set);
  CPU_SET(1, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0 || sched_getaffinity(0, sizeof set, &set) != 0) abort();
  return value * 10 + (uint64_t)CPU_COUNT(&set);
}

// What OpenSSL and libstdc++ do: ask whether the processor has random numbers, and take them.
__attribute__((target("rdrnd"))) static uint64_t processors_random(void) {
  unsigned r[4];
  __cpuid(1, r[0], r[1], r[2], r[3]);
  unsigned long long value = 0;
  if ((r[2] & bit_RDRND) != 0) _rdrand64_step(&value);
  return value;
}

__attribute__((target("rdrnd"))) static uint64_t unasked_random(void) {
  unsigned long long value = 0;
  _rdrand64_step(&value);
  return value;
}

static uint64_t times_used(void) {
  struct rusage usage;
  struct tms t;
  struct sysinfo info;
  if (getrusage(RUSAGE_SELF, &usage) != 0 || sysinfo(&info) != 0) abort();
  uint64_t value = (uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_nvcsw +
                   (uint64_t)usage.ru_maxrss;
  value += (uint64_t)times(&t) + (uint64_t)t.tms_utime + (uint64_t)clock();
  return value + (uint64_t)info.uptime + info.freeram + info.procs + info.loads[0];
}

static uint64_t clocks(void) {
  struct timespec t[4];
  struct timeval v;
  clock_gettime(CLOCK_MONOTONIC, &t[0]);
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &t[1]);
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t[2]);
  timespec_get(&t[3], TIME_UTC);
  syscall(SYS_gettimeofday, &v, NULL);
  return (uint64_t)(t[0].tv_nsec + t[1].tv_nsec + t[2].tv_nsec + t[3].tv_nsec + v.tv_usec + time(NULL) +
                    syscall(SYS_time, NULL));
}

static uint64_t numbers(void) {
  return (uint64_t)(getpid() + 3 * getppid() + 5 * gettid() + syscall(SYS_getpid) + syscall(SYS_gettid) +
                    syscall(SYS_getppid));
}

static uint64_t surroundings(void) {
  char directory[4096];
  struct rlimit limit;
  struct utsname name;
  mode_t mask = umask(0);
  umask(mask);
  if (getcwd(directory, sizeof directory) == NULL || getrlimit(RLIMIT_NOFILE, &limit) != 0 || uname(&name) != 0)
    abort();
  char host[65] = {0};
  gethostname(host, sizeof host - 1);
  return hash_bytes(directory, strlen(directory)) ^ limit.rlim_cur ^ mask ^ hash_bytes(&name, sizeof name) ^
         hash_bytes(host, sizeof host);
}

static uint64_t kernels_random(void) {
  uint64_t value[3] = {0};
  if (getrandom(&value[0], 8, 0) != 8 || getentropy(&value[1], 8) != 0 || syscall(SYS_getrandom, &value[2], 8, 0) != 8)
    abort();
  return value[0] ^ value[1] ^ value[2] ^ arc4random();
}

static uint64_t load(void) {
  double average[3] = {0};
  getloadavg(average, 3);
  return hash_bytes(average, sizeof average) ^ hash_file("/proc/loadavg");
}

static uint64_t kernels_files(void) {
  const char* paths[] = {"/proc/uptime",
                         "/proc/stat",
                         "/proc/meminfo",
                         "/proc/sys/kernel/random/uuid",
                         "/proc/sys/kernel/random/boot_id",
                         "/proc/cpuinfo",
                         "/sys/devices/system/cpu/online",
                         "/proc/sys/vm/overcommit_memory"};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof paths / sizeof *paths; ++i) hash = hash * 31 + hash_file(paths[i]);
  return hash;
}

// Within one search such a file stays as it was first found.
static uint64_t counters(void) { return hash_file("/proc/interrupts") ^ hash_file("/proc/vmstat"); }

// A real file that every execution makes longer.
static uint64_t growing_file(const char* path) {
  struct stat st = {0};
  int fd = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
  if (fd < 0 || fstat(fd, &st) != 0 || write(fd, "x", 1) != 1) abort();
  close(fd);
  return (uint64_t)st.st_size;
}

// How many executions there were: all have one page in common.
static unsigned* executions;
static uint64_t count_executions(void) { return (*executions)++; }

static uint64_t ask(const char* what) {
#define IS(name) (strcmp(what, name) == 0)
  if (strncmp(what, "file:", 5) == 0) return growing_file(what + 5);
  if (IS("executions") || IS("fails-late")) return count_executions();
  if (IS("urandom")) return random_file("/dev/urandom");
  if (IS("random")) return random_stream();
  if (IS("getrandom")) return kernels_random();
  if (IS("guards")) return guards();
  if (IS("tsc")) {
    unsigned processor = 0;
    uint64_t first = __rdtsc();
    return first + __rdtscp(&processor) + processor;
  }
  if (IS("tsc-handler")) return tsc_with_handler();
  if (IS("rdrand")) return processors_random();
  if (IS("rdrand-unasked")) return unasked_random();
  if (IS("vdso")) return vdso_time();
  if (IS("clocks")) return clocks();
  if (IS("used")) return times_used();
  if (IS("numbers")) return numbers();
  if (IS("processors")) return processors();
  if (IS("load")) return load();
  if (IS("surroundings")) return surroundings();
  if (IS("own-files")) return own_files();
  if (IS("kernel-files")) return kernels_files();
  if (IS("counters")) return counters();
  if (IS("links")) return links();
  if (IS("fresh-file")) return fresh_file();
  if (IS("device-times"))
    return file_times("/dev/null") ^ file_times("/proc/self/stat") ^ file_times("/tmp") ^ file_times("/proc");
  if (IS("real-file")) return file_times("/etc/passwd") ^ listing("/etc");
  if (IS("descriptors")) return listing("/proc/self/fd");
  if (IS("temporary")) return temporary_names();
  if (IS("addresses")) return addresses();
  if (IS("inotify")) return (uint64_t)inotify_init();
  if (IS("processes")) return listing("/proc");
  if (IS("smaps")) return hash_file("/proc/self/smaps");
  fprintf(stderr, "what is %s?\n", what);
  abort();
}

static const char* what;
static uint64_t before_main;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

// Static constructors ask too: each worker of a search has its own.
__attribute__((constructor)) static void construct(int argc, char** argv) {
  executions = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (argc == 3 && strcmp(argv[2], "early") == 0) before_main = ask(argv[1]);
}

static void lock_as_often(uint64_t answer) {
  for (uint64_t i = 0; i <= hash_bytes(&answer, sizeof answer) % 5; ++i) {
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
  }
}

static void* run(void* argument) {
  lock_as_often(before_main != 0 ? before_main : ask(what));
  return argument;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  what = argv[1];
  pthread_t a, b;
  lock_as_often(before_main != 0 ? before_main : ask(what));
  pthread_create(&a, NULL, run, NULL);
  pthread_create(&b, NULL, run, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  if (strcmp(what, "fails-late") == 0 && *executions > 300) abort();
  return 0;
}
