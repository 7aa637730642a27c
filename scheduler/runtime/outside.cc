// Files that are not the model's. Their contents are real, but for those that change from run to run:
//   devices of random numbers       the thread's own numbers
//   /proc, /sys and their like      made here for the ones that change all the time
//                                   (kMade); the others are as the first execution of the search found them, for all
//                                   executions
//   times and numbers of files      those of a file that changed since the search began are made here
// A thread's descriptors have numbers of its own range, so that they do not depend on which thread opens first.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "inject/environment.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::size_t kFileMost = 256 * 1024;  // of a file whose contents are kept
constexpr std::size_t kOutsidePathMost = 4096;
char g_contents[kFileMost];
char g_path[kOutsidePathMost];  // of a descriptor, or a path that the kernel is asked for
std::uint64_t g_fresh[256];     // numbers of files that changed since the search began, as they are met
std::uint32_t g_fresh_count = 0;
bool g_runs_alone = false;

using inject::pointer;

bool is_own_number(long number) { return number >= kProgramPid && number < kProgramPid + kActorsMost; }

// Reads "32000" at the beginning of the text. -1 where there is no number.
long take_number(std::string_view& text) {
  long number = -1;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    number = std::min((number < 0 ? 0 : number) * 10 + (text[0] - '0'), 1'000'000'000L);
    text.remove_prefix(1);
  }
  return number;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool ends_name(std::string_view rest) { return rest.empty() || rest[0] == '/'; }

// The program's own numbers in a path below /proc mean this process: /proc/32000/stat is /proc/self/stat.
const char* real_path(const char* path) {
  std::string_view rest(path);
  if (!take_prefix(rest, "/proc/")) return path;
  std::string_view after = rest;
  if (const long number = take_number(after); number >= 0) {
    if (!is_own_number(number) || !ends_name(after)) return path;
    rest = after;
  } else if (!take_prefix(rest, "self") || !ends_name(rest)) {
    return path;
  }
  after = rest;
  if (take_prefix(after, "/task/") && is_own_number(take_number(after)) && ends_name(after)) rest = after;
  if (rest.size() + sizeof "/proc/self" > kOutsidePathMost) return path;
  char* end = static_cast<char*>(mempcpy(g_path, "/proc/self", std::strlen("/proc/self")));
  std::memmove(end, rest.data(), rest.size());
  end[rest.size()] = 0;
  return g_path;
}

long ask_kernel(long number, const long* a) {
  return inject::crashcut_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// What the descriptor was opened as, with this process as "self". Empty where that is not known.
std::string_view path_of(long fd) {
  char link[64], found[kOutsidePathMost];
  snprintf(link, sizeof link, "/proc/self/fd/%ld", fd);
  const long length = kernel(SYS_readlink, link, found, sizeof found);
  if (length <= 0) return {};
  std::string_view path(found, static_cast<std::size_t>(length));
  std::string_view rest = path;
  if (take_prefix(rest, "/proc/") && take_number(rest) == kernel(SYS_getpid) && ends_name(rest)) {
    std::string_view after = rest;
    if (take_prefix(after, "/task/") && take_number(after) >= 0 && ends_name(after)) rest = after;
    const int made = snprintf(g_path, sizeof g_path, "/proc/self%.*s", static_cast<int>(rest.size()), rest.data());
    return {g_path, static_cast<std::size_t>(made)};
  }
  std::memcpy(g_path, found, path.size());
  return {g_path, path.size()};
}

void note_outside(const char* verb, std::string_view path) {
  if (!is_scheduling()) return;
  OutsideCall& call = g_control->outside[g_control->outside_count++ % kOutsideMost];
  call.actor = index(current_actor().id);
  call.step = g_control->step_count;
  snprintf(call.text, sizeof call.text, "%s %.*s", verb, static_cast<int>(path.size()), path.data());
}

// Hosts have files of their own. A file of the real system that several of them use is told.
void note_used(std::string_view path, bool writes) {
  if (!is_hosted() || path.starts_with("/proc/") || path.starts_with("/sys/")) return;
  char name[sizeof(Names::UsedFile::path)] = {};
  path.copy(name, sizeof name - 1);
  lock_names();
  Names::UsedFile* used = std::find_if(g_names->used, g_names->used + g_names->used_count,
                                       [&](const Names::UsedFile& u) { return std::strcmp(u.path, name) == 0; });
  const bool is_new = used == g_names->used + g_names->used_count;
  if (!is_new || g_names->used_count < Names::kUsedMost) {
    if (is_new) std::memcpy(g_names->used[g_names->used_count++].path, name, sizeof name);
    used->users |= 1u << g_host;
    used->writers |= writes ? 1u << g_host : 0;
  }
  unlock_names();
}

// --- what changes all the time

struct Text {
  char* at = g_contents;
  void add(std::string_view text) {
    const std::size_t room = static_cast<std::size_t>(g_contents + sizeof g_contents - at);
    at = static_cast<char*>(mempcpy(at, text.data(), std::min(text.size(), room)));
  }
  template <class... A>
  void format(const char* how, A... arguments) {
    char line[512];
    const int length = snprintf(line, sizeof line, how, arguments...);
    add({line, static_cast<std::size_t>(length)});
  }
  std::size_t size() const { return static_cast<std::size_t>(at - g_contents); }
};

void make_uptime(Text& text) {
  const std::uint64_t hundredths = kUptime_s * 100 + used_ns() / 10'000'000;
  for (const char* end : {" ", "\n"}) text.format("%lu.%02lu%s", hundredths / 100, hundredths % 100, end);
}
void make_loadavg(Text& text) { text.format("0.00 0.00 0.00 1/1 %ld\n", kProgramPid); }
void make_stat(Text& text) {
  text.add("cpu  0 0 0 0 0 0 0 0 0 0\n");
  for (std::uint32_t i = 0; i < kProcessors; ++i) text.format("cpu%u 0 0 0 0 0 0 0 0 0 0\n", i);
  text.format("intr 0\nctxt 0\nbtime %lu\nprocesses %ld\nprocs_running 1\nprocs_blocked 0\n",
              kEpoch_ns / 1'000'000'000 - kUptime_s, kProgramPid);
}
void make_meminfo(Text& text) {
  const std::uint64_t all_kb = kMemoryBytes / 1024;
  text.format("MemTotal:       %8lu kB\nMemFree:        %8lu kB\nMemAvailable:   %8lu kB\n", all_kb, all_kb / 2,
              all_kb / 2);
  for (const char* name :
       {"Buffers:", "Cached:", "SwapCached:", "SwapTotal:", "SwapFree:", "Dirty:", "Writeback:", "Shmem:"}) {
    text.format("%-15s %8d kB\n", name, 0);
  }
}
void make_uuid(Text& text) {
  unsigned char r[16];
  fill_random(r, sizeof r);
  text.format("%02x%02x%02x%02x-%02x%02x-4%x%02x-8%x%02x-", r[0], r[1], r[2], r[3], r[4], r[5], r[6] & 15, r[7],
              r[8] & 15, r[9]);
  text.format("%02x%02x%02x%02x%02x%02x\n", r[10], r[11], r[12], r[13], r[14], r[15]);
}
void make_boot_id(Text& text) { text.add("00000000-0000-4000-8000-000000000001\n"); }
void make_entropy(Text& text) { text.add("256\n"); }
void make_host_name(Text& text) { text.format("%s\n", kHostName); }
void make_processors(Text& text) { text.format("0-%u\n", kProcessors - 1); }

std::uint32_t thread_count() {
  static std::uint32_t count;
  count = 0;
  if (is_scheduling()) for_each_actor([](const Actor& actor) { count += actor.is_helper() || actor.is_over ? 0 : 1; });
  return std::max(count, 1u);
}

void make_own_stat(Text& text) {
  char name[16] = {};
  kernel(SYS_prctl, 16 /* PR_GET_NAME */, name);
  const std::uint64_t ticks = used_ns() / 10'000'000;
  text.format("%ld (%s) R %ld %ld %ld 0 -1 4194304 0 0 0 0 %lu 0 0 0 20 0 %u 0 %lu ", kProgramPid, name,
              kProgramPid - 1, kProgramPid, kProgramPid, ticks, thread_count(), kUptime_s * 100);
  text.add("67108864 4096 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
}
void make_own_statm(Text& text) { text.add("16384 4096 1024 256 0 4096 0\n"); }
void make_own_status(Text& text) {
  char name[16] = {};
  kernel(SYS_prctl, 16 /* PR_GET_NAME */, name);
  text.format(
      "Name:\t%s\nUmask:\t0022\nState:\tR (running)\nTgid:\t%ld\nNgid:\t0\nPid:\t%ld\nPPid:\t%ld\nTracerPid:\t0\n",
      name, kProgramPid, kProgramPid, kProgramPid - 1);
  for (const long number : {SYS_getuid, SYS_getgid}) {
    const long real = kernel(number), effective = kernel(number == SYS_getuid ? SYS_geteuid : SYS_getegid);
    text.format("%s:\t%ld\t%ld\t%ld\t%ld\n", number == SYS_getuid ? "Uid" : "Gid", real, effective, effective,
                effective);
  }
  text.format(
      "FDSize:\t64\nVmPeak:\t   65536 kB\nVmSize:\t   65536 kB\nVmHWM:\t   16384 kB\nVmRSS:\t   16384 "
      "kB\nThreads:\t%u\n",
      thread_count());
  text.format("Cpus_allowed_list:\t0-%u\nvoluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n",
              kProcessors - 1);
}
void make_own_io(Text& text) {
  for (const char* name : {"rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes"}) {
    text.format("%s: 0\n", name);
  }
}
void make_own_schedstat(Text& text) { text.add("0 0 0\n"); }

struct Made {
  std::string_view path;
  void (*make)(Text& text);
};
constexpr Made kMade[] = {
    {"/proc/uptime", make_uptime},
    {"/proc/loadavg", make_loadavg},
    {"/proc/stat", make_stat},
    {"/proc/meminfo", make_meminfo},
    {"/proc/sys/kernel/random/uuid", make_uuid},
    {"/proc/sys/kernel/random/boot_id", make_boot_id},
    {"/proc/sys/kernel/random/entropy_avail", make_entropy},
    {"/proc/sys/kernel/hostname", make_host_name},
    {"/proc/self/stat", make_own_stat},
    {"/proc/self/statm", make_own_statm},
    {"/proc/self/status", make_own_status},
    {"/proc/self/io", make_own_io},
    {"/proc/self/schedstat", make_own_schedstat},
    {"/sys/devices/system/cpu/online", make_processors},
    {"/sys/devices/system/cpu/possible", make_processors},
    {"/sys/devices/system/cpu/present", make_processors},
};
// Contents that change all the time, and for which nothing sensible can be made up: what the whole system, or the
// memory of the process, is doing at the moment. These begin so.
constexpr std::string_view kChanging[] = {
    "/proc/self/smaps", "/proc/self/pagemap", "/proc/self/numa_maps", "/proc/self/sched",
    "/proc/interrupts", "/proc/softirqs",     "/proc/vmstat",         "/proc/schedstat",
    "/proc/diskstats",  "/proc/zoneinfo",     "/proc/buddyinfo",      "/proc/slabinfo",
    "/proc/timer_list", "/proc/pressure/",    "/proc/net/",           "/proc/self/net/"};

[[noreturn]] void refuse_path(const char* what, std::string_view path) {
  static char text[512];
  snprintf(text, sizeof text, "%s of %.*s, which changes from run to run", what, static_cast<int>(path.size()),
           path.data());
  refuse(text);
}

// The whole of it, or nothing where it is too long.
bool read_real(long fd, std::size_t& bytes) {
  bytes = 0;
  long got = 0;
  while (bytes < kFileMost && (got = kernel(SYS_read, fd, g_contents + bytes, kFileMost - bytes)) > 0)
    bytes += static_cast<std::size_t>(got);
  return got == 0 && bytes < kFileMost;
}

// Line by line; `edit` says which to keep.
template <class Keep>
std::size_t filter_lines(std::size_t bytes, Keep&& keep) {
  char* to = g_contents;
  std::string_view rest(g_contents, bytes);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    rest.remove_prefix(line.size());
    if (!keep(line)) continue;
    std::memmove(to, line.data(), line.size());
    to += line.size();
  }
  return static_cast<std::size_t>(to - g_contents);
}

// "7ffff7000000-7ffff7001000 rw-s 00000000 00:01 12345    /dev/zero (deleted)": memory that is shared is a file without
// a name, with another number in every run.
void hide_number(std::string_view line) {
  if (line.find("(deleted)") == line.npos) return;
  std::size_t at = 0;
  for (int field = 0; field < 4; ++field) at = line.find(' ', at) + 1;
  char* digit = g_contents + (line.data() - g_contents) + at;
  for (char fill = '0'; *digit >= '0' && *digit <= '9'; fill = ' ') *digit++ = fill;
}

// Without what is crashcut's.
std::size_t edit_maps(std::size_t bytes) {
  return filter_lines(bytes, [](std::string_view line) {
    hide_number(line);
    return line.find("crashcut") == line.npos && line.find("[vdso]") == line.npos && line.find("[vvar") == line.npos;
  });
}

// The first processor's lines, for as many as there are; without how fast it is at the moment and its number.
std::size_t edit_processors(std::size_t bytes) {
  const std::string_view all(g_contents, bytes);
  const std::size_t first_end = std::min(all.find("\n\n"), all.size());
  const std::size_t kept = filter_lines(first_end == all.size() ? bytes : first_end + 1, [](std::string_view line) {
    for (const std::string_view name : {"processor", "cpu MHz", "core id", "apicid", "initial apicid", "physical id",
                                        "siblings", "cpu cores", "bogomips"}) {
      if (line.starts_with(name)) return false;
    }
    return true;
  });
  static char one[64 * 1024];
  if (kept > sizeof one) return bytes;
  std::memcpy(one, g_contents, kept);
  Text text;
  for (std::uint32_t i = 0; i < kProcessors; ++i) {
    text.format("processor\t: %u\ncore id\t\t: %u\nphysical id\t: 0\ncpu cores\t: %u\nsiblings\t: %u\n", i, i,
                kProcessors, kProcessors);
    text.add({one, kept});
    text.add("\n");
  }
  return text.size();
}

// As the first execution of the search found it. False where there is no room to keep it.
bool keep_first(std::string_view path, std::size_t& bytes) {
  std::uint64_t key = 1;
  for (const char c : path) key = hash(key ^ static_cast<unsigned char>(c));
  bool is_kept = false;
  lock_names();
  Names& names = *g_names;
  const auto* end = names.kept + names.kept_count;
  const auto* found = std::find_if(names.kept, const_cast<Names::KeptFile*>(end),
                                   [&](const Names::KeptFile& f) { return f.key == key; });
  if (found != end) {
    bytes = found->bytes;
    std::memcpy(g_contents, names.kept_bytes + found->at, bytes);
    is_kept = true;
  } else if (names.kept_count < Names::kKeptMost && bytes <= sizeof names.kept_bytes - names.kept_used) {
    names.kept[names.kept_count++] = {key, names.kept_used, static_cast<std::uint32_t>(bytes)};
    std::memcpy(names.kept_bytes + names.kept_used, g_contents, bytes);
    names.kept_used += static_cast<std::uint32_t>(bytes);
    is_kept = true;
  }
  unlock_names();
  return is_kept;
}

// A file with these contents in place of the one that the descriptor is.
void put_contents(long fd, std::size_t bytes, bool closes_on_exec) {
  const long made = kernel(SYS_memfd_create, "made", MFD_CLOEXEC);
  if (made < 0) return;
  kernel(SYS_write, made, g_contents, bytes);
  kernel(SYS_lseek, made, 0, SEEK_SET);
  kernel(SYS_fchmod, made, 0444);
  kernel(SYS_dup3, made, fd, closes_on_exec ? O_CLOEXEC : 0);
  kernel(SYS_close, made);
}

bool is_made_up(long fd) {
  struct statfs where {};
  if (kernel(SYS_fstatfs, fd, &where) != 0) return false;
  for (const long magic : {long{PROC_SUPER_MAGIC}, long{SYSFS_MAGIC}, long{CGROUP2_SUPER_MAGIC},
                           long{CGROUP_SUPER_MAGIC}, long{DEBUGFS_MAGIC}}) {
    if (where.f_type == magic) return true;
  }
  return false;
}

void fix_contents(long fd, bool closes_on_exec) {
  const std::string_view path = path_of(fd);
  for (const Made& made : kMade) {
    if (path != made.path) continue;
    Text text;
    made.make(text);
    return put_contents(fd, text.size(), closes_on_exec);
  }
  for (const std::string_view changing : kChanging) {
    if (path.starts_with(changing)) refuse_path("open()", path);
  }
  std::size_t bytes = 0;
  if (!read_real(fd, bytes)) {
    kernel(SYS_lseek, fd, 0, SEEK_SET);
    return;
  }
  if (path == "/proc/self/maps") return put_contents(fd, edit_maps(bytes), closes_on_exec);
  if (path == "/proc/cpuinfo") return put_contents(fd, edit_processors(bytes), closes_on_exec);
  if (keep_first(path, bytes)) return put_contents(fd, bytes, closes_on_exec);
  kernel(SYS_lseek, fd, 0, SEEK_SET);
}

// --- calls

// All hosts of an execution are one owner.
std::uint32_t owner_of(long process) {
  constexpr std::uint32_t kHosted = 0x80000000;
  return is_hosted() ? kHosted | g_control->processor : static_cast<std::uint32_t>(process);
}

// Executions that change files outside are run one at a time: workers of the search would meet there. The lock is the
// process's until its execution ends.
void run_alone(const char* path) {
  if (!is_scheduling() || g_runs_alone) return;
  if (path != nullptr && (std::strncmp(path, "/dev/", 5) == 0 || std::strncmp(path, "/proc/", 6) == 0)) return;
  const std::uint32_t own = owner_of(kernel(SYS_getpid));
  g_control->is_waiting = 1;
  for (std::uint32_t owner = 0; !g_names->alone.compare_exchange_strong(owner, own) && owner != own; owner = 0) {
    kernel(SYS_futex, &g_names->alone, FUTEX_WAIT, owner, 0, 0, 0);
  }
  g_control->is_waiting = 0;
  g_runs_alone = true;
}

long to_own_range(long fd, bool closes_on_exec) {
  const int first = first_fd_of(running_actor());
  if (fd < 0 || fd >= first) return fd;
  const long moved = kernel(SYS_fcntl, fd, closes_on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, first);
  if (moved < 0) return fd;
  kernel(SYS_close, fd);
  return moved;
}

bool is_named_pipe(long directory, long path) {
  struct stat st {};
  return path != 0 && kernel(SYS_newfstatat, directory, path, &st, 0) == 0 && S_ISFIFO(st.st_mode);
}

long open_outside(long number, long* a) {
  const int path = number == SYS_open || number == SYS_creat ? 0 : 1;
  const long flags = number == SYS_open     ? a[1]
                     : number == SYS_openat ? a[2]
                     : number == SYS_creat  ? long{O_WRONLY | O_CREAT | O_TRUNC}
                                            : static_cast<long>(pointer<open_how>(a[2])->flags);
  if (a[path] != 0) a[path] = reinterpret_cast<long>(real_path(pointer<const char>(a[path])));
  const bool closes_on_exec = (flags & O_CLOEXEC) != 0;
  if (is_hosted() && is_named_pipe(number == SYS_open || number == SYS_creat ? AT_FDCWD : a[0], a[path]))
    refuse("open() of a named pipe, by which machines would share more than their memory");
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0) run_alone(pointer<const char>(a[path]));
  const long fd = to_own_range(ask_kernel(number, a), closes_on_exec);
  if (fd < 0) return fd;
  g_is_spent = true;
  struct stat st {};
  kernel(SYS_fstat, fd, &st);
  const bool reads_only = (flags & O_ACCMODE) == O_RDONLY && (flags & O_PATH) == 0;
  if (S_ISREG(st.st_mode)) note_used(path_of(fd), !reads_only);
  if (S_ISREG(st.st_mode)) note_outside(reads_only ? "opened" : "opened to write", path_of(fd));
  if (reads_only && S_ISREG(st.st_mode) && is_made_up(fd)) fix_contents(fd, closes_on_exec);
  return fd;
}

bool is_random_device(long fd) {
  struct stat st {};
  if (kernel(SYS_fstat, fd, &st) != 0 || !S_ISCHR(st.st_mode)) return false;
  // random, urandom, hwrng
  return st.st_rdev == makedev(1, 8) || st.st_rdev == makedev(1, 9) || st.st_rdev == makedev(10, 183);
}

// The kernel says what is wrong with the buffers; what it reads is written over.
long read_random(long number, const long* a) {
  long left = ask_kernel(number, a);
  const long result = left;
  if (number == SYS_read || number == SYS_pread64) {
    if (result > 0) fill_random(pointer<void>(a[1]), static_cast<std::size_t>(result));
    return result;
  }
  for (const auto* part = pointer<const iovec>(a[1]); left > 0; ++part) {
    const std::size_t bytes = std::min(part->iov_len, static_cast<std::size_t>(left));
    fill_random(part->iov_base, bytes);
    left -= static_cast<long>(bytes);
  }
  return result;
}

bool is_fresh(std::int64_t changed_s) { return g_names != nullptr && changed_s >= g_names->began_s; }

// By when the execution first meets them.
std::uint64_t fresh_number(std::uint64_t number) {
  constexpr std::uint64_t kFirst = 1'000'000;
  const auto* end = g_fresh + g_fresh_count;
  const auto* found = std::find(g_fresh, const_cast<std::uint64_t*>(end), number);
  if (found == end && g_fresh_count < std::size(g_fresh)) g_fresh[g_fresh_count++] = number;
  return kFirst + static_cast<std::uint64_t>(found - g_fresh);
}

bool is_made_up_device(std::uint64_t device) {
  for (const char* root : {"/proc", "/sys"}) {
    struct stat st {};
    if (kernel(SYS_stat, root, &st) == 0 && st.st_dev == device) return true;
  }
  return false;
}

// What of a file's attributes is not real.
struct Attributes {
  bool has_made_times, has_made_number, has_made_size;
  std::uint64_t number;
};
Attributes judge(std::uint32_t mode, std::uint64_t device, std::uint64_t number, std::int64_t changed_s) {
  if (is_made_up_device(device)) return {true, true, false, S_ISDIR(mode) ? 1u : 2u};
  // Others may make and remove files in a directory, as in /tmp.
  if (S_ISDIR(mode)) return {true, false, true, number};
  if (!S_ISREG(mode)) return {true, S_ISFIFO(mode) || S_ISSOCK(mode), false, 1};
  if (is_fresh(changed_s)) return {true, true, false, fresh_number(number)};
  return {false, false, false, number};
}

constexpr std::int64_t kEpoch_s = kEpoch_ns / 1'000'000'000;
constexpr long kDirectoryBytes = 4096;

void fix_stat(struct stat& st) {
  const Attributes made = judge(st.st_mode, st.st_dev, st.st_ino, st.st_ctim.tv_sec);
  st.st_atim = st.st_mtim;  // reading sets it, now and then
  if (made.has_made_times) st.st_atim = st.st_mtim = st.st_ctim = {kEpoch_s, 0};
  if (made.has_made_number) st.st_ino = made.number;
  if (made.has_made_size) st.st_size = kDirectoryBytes;
  // The kernel gives a file its blocks when it writes it to the disk.
  if (made.has_made_times) st.st_blocks = (st.st_size + 511) / 512;
}

void fix_statx(struct statx& st) {
  const Attributes made =
      judge(st.stx_mode, makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino, st.stx_ctime.tv_sec);
  st.stx_atime = st.stx_mtime;
  if (made.has_made_times) {
    st.stx_mtime.tv_sec = kEpoch_s;
    st.stx_mtime.tv_nsec = 0;
    st.stx_atime = st.stx_ctime = st.stx_btime = st.stx_mtime;
  }
  if (made.has_made_number) st.stx_ino = made.number;
  if (made.has_made_size) st.stx_size = kDirectoryBytes;
  if (made.has_made_times) st.stx_blocks = (st.stx_size + 511) / 512;
  st.stx_mnt_id = 0;
}

long stat_outside(long number, long* a) {
  const int path = number == SYS_newfstatat || number == SYS_statx ? 1 : number == SYS_fstat ? -1 : 0;
  if (path >= 0 && a[path] != 0) a[path] = reinterpret_cast<long>(real_path(pointer<const char>(a[path])));
  const long result = ask_kernel(number, a);
  if (result != 0) return result;
  if (number == SYS_statx) {
    fix_statx(*pointer<struct statx>(a[4]));
  } else {
    fix_stat(*pointer<struct stat>(a[number == SYS_newfstatat ? 2 : 1]));
  }
  return 0;
}

long give_link(std::string_view text, long to, long bytes) {
  if (bytes <= 0) return -EINVAL;
  if (to == 0) return -EFAULT;
  const std::size_t count = std::min(text.size(), static_cast<std::size_t>(bytes));
  std::memcpy(pointer<void>(to), text.data(), count);
  return static_cast<long>(count);
}

long readlink_outside(long number, long* a) {
  const int path = number == SYS_readlink ? 0 : 1;
  const long to = a[path + 1], bytes = a[path + 2];
  if (a[path] == 0) return ask_kernel(number, a);
  const std::string_view asked = real_path(pointer<const char>(a[path]));
  char text[64];
  if (asked == "/proc/self" || asked == "/proc/thread-self") {
    const long own = kProgramPid + static_cast<long>(running_actor());
    const int length = asked == "/proc/self" ? snprintf(text, sizeof text, "%ld", kProgramPid)
                                             : snprintf(text, sizeof text, "%ld/task/%ld", kProgramPid, own);
    return give_link({text, static_cast<std::size_t>(length)}, to, bytes);
  }
  if (asked == "/proc/self/cwd" && !is_executing()) return give_link(inject::kModelRoot, to, bytes);
  if (asked == "/proc/self/cwd") {
    char directory[kOutsidePathMost];
    inject::Call ask{SYS_getcwd, {reinterpret_cast<long>(directory), sizeof directory}};
    if (do_file_call(ask) && ask.result > 0)
      return give_link({directory, static_cast<std::size_t>(ask.result) - 1}, to, bytes);
  }
  a[path] = reinterpret_cast<long>(asked.data());
  const long result = ask_kernel(number, a);
  if (result <= 0) return result;
  const std::string_view found(pointer<const char>(to), static_cast<std::size_t>(result));
  std::string_view rest = found;
  if (take_prefix(rest, "/proc/") && take_number(rest) == kernel(SYS_getpid) && ends_name(rest) &&
      rest.size() < sizeof text - 16) {
    const int own_length =
        snprintf(text, sizeof text, "/proc/%ld%.*s", kProgramPid, static_cast<int>(rest.size()), rest.data());
    return give_link({text, static_cast<std::size_t>(own_length)}, to, bytes);
  }
  // "pipe:[12345]"
  const std::size_t number_at = found.find(":[");
  if (number_at == found.npos || number_at + 2 > sizeof text - 8) return result;
  const int length = snprintf(text, sizeof text, "%.*s:[1]", static_cast<int>(number_at), found.data());
  return give_link({text, static_cast<std::size_t>(length)}, to, bytes);
}

// Other processes come and go below /proc.
void check_listing(long fd) {
  if (!is_made_up(fd)) return;
  const std::string_view path = path_of(fd);
  if (path.starts_with("/proc") && path != "/proc/self/fd" && path != "/proc/self/fdinfo")
    refuse_path("a listing", path);
}

}  // namespace

void begin_outside() {
  g_fresh_count = 0;
  g_control->is_waiting = 0;
}

void end_outside(long process) {
  g_runs_alone = false;
  std::uint32_t owner = owner_of(process);
  if (!g_names->alone.compare_exchange_strong(owner, 0)) return;
  kernel(SYS_futex, &g_names->alone, FUTEX_WAKE, kActorsMost, 0, 0, 0);
}

bool do_outside_call(long number, long* a, long& result) {
  switch (number) {
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
    case SYS_creat:
      result = open_outside(number, a);
      return true;
    case SYS_read:
    case SYS_pread64:
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
      if (!is_random_device(a[0])) return false;
      result = read_random(number, a);
      return true;
    case SYS_sendfile:
    case SYS_splice:
    case SYS_copy_file_range:
      if (is_random_device(a[number == SYS_sendfile ? 1 : 0]))
        refuse("sendfile() or splice() from a device of random numbers");
      return false;
    case SYS_stat:
    case SYS_lstat:
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_statx:
      result = stat_outside(number, a);
      return true;
    case SYS_readlink:
    case SYS_readlinkat:
      result = readlink_outside(number, a);
      return true;
    case SYS_access:
      if (a[0] != 0) a[0] = reinterpret_cast<long>(real_path(pointer<const char>(a[0])));
      return false;
    case SYS_faccessat:
    case SYS_faccessat2:
      if (a[1] != 0) a[1] = reinterpret_cast<long>(real_path(pointer<const char>(a[1])));
      return false;
    case SYS_mkdir:
    case SYS_unlink:
    case SYS_rmdir:
    case SYS_rename:
    case SYS_link:
    case SYS_symlink:
    case SYS_truncate:
      run_alone(pointer<const char>(a[0]));
      return false;
    case SYS_mkdirat:
    case SYS_unlinkat:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_linkat:
    case SYS_symlinkat:
      run_alone(nullptr);
      return false;
    case SYS_getdents:
    case SYS_getdents64:
      check_listing(a[0]);
      return false;
    case SYS_dup:
    case SYS_memfd_create: {
      g_is_spent = true;
      const bool closes_on_exec = number == SYS_memfd_create && (a[1] & MFD_CLOEXEC) != 0;
      result = to_own_range(ask_kernel(number, a), closes_on_exec);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace crashcut::scheduler::runtime
