#include "scheduler/runtime/shared_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "inject/environment.h"
#include "inject/process.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/models.h"
#include "scheduler/runtime/regions.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

using inject::Call;
using inject::pointer;

constexpr long kPage = 4096;
constexpr int kFdsMost = 1024;

struct OpenFile {
  char name[kRegionNameMost];
  bool is_device;
};
OpenFile g_open[kFdsMost];  // empty name: no descriptor of ours
long g_placeholder = -1;    // what the kernel has for them

OpenFile* file_of(long fd) { return fd >= 0 && fd < kFdsMost && g_open[fd].name[0] != 0 ? &g_open[fd] : nullptr; }

[[noreturn]] void refuse_sentence(const char* format, const char* name, unsigned long a = 0, unsigned long b = 0) {
  static char text[512];
  snprintf(text, sizeof text, format, name, a, b);
  end_with(text, true);
  __builtin_unreachable();
}

// --- names

std::uint64_t hash_of(const char* name) {
  std::uint64_t made = 0xf11e;
  for (const char* c = name; *c != 0; ++c) made = hash(made ^ static_cast<unsigned char>(*c));
  return made;
}

// The path without ".", ".." and empty parts, from the root; empty if it is too long.
std::string_view normal_path(std::string_view from, std::string_view path, char (&out)[kPathMost]) {
  char joined[2 * kPathMost];
  const bool is_absolute = path.starts_with('/');
  const int length = snprintf(joined, sizeof joined, "%.*s/%.*s", is_absolute ? 0 : static_cast<int>(from.size()),
                              from.data(), static_cast<int>(path.size()), path.data());
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof out) return {};
  std::size_t end = 0;
  for (std::string_view rest(joined); !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      while (end > 0 && out[--end] != '/') {
      }
      continue;
    }
    out[end++] = '/';
    end += part.copy(out + end, part.size());
  }
  return {out, end};
}

bool is_device(std::string_view path) {
  for (std::string_view rest(g_control->devices); !rest.empty();) {
    const std::string_view device = rest.substr(0, rest.find('\n'));
    if (device == path) return true;
    rest.remove_prefix(device.size() + 1);
  }
  return false;
}

enum class Where { kElsewhere, kDirectory, kFile, kDevice };

// What the path names; `name` is the region's.
Where find_path(long directory_fd, const char* given, char (&name)[kRegionNameMost]) {
  static constexpr std::string_view kDirectory = "/cxl";
  if (given == nullptr || given[0] == 0 || (directory_fd != AT_FDCWD && given[0] != '/')) return Where::kElsewhere;
  char normal[kPathMost];
  const std::string_view path = normal_path(kFileModel.directory(), given, normal);
  const bool names_device = is_device(path);
  std::string_view rest = path;
  if (!names_device) {
    if (!rest.starts_with(inject::kModelRoot)) return Where::kElsewhere;
    rest.remove_prefix(std::strlen(inject::kModelRoot));
    if (rest == kDirectory) return Where::kDirectory;
    if (!rest.starts_with(kDirectory) || rest[kDirectory.size()] != '/') return Where::kElsewhere;
    rest.remove_prefix(1);
  }
  if (rest.size() >= kRegionNameMost)
    refuse_sentence("The program opened %.300s: a file in shared memory has a path of at most 63 characters.", given);
  inject::copy_text(rest, name);
  return names_device ? Where::kDevice : Where::kFile;
}

// --- what is there: a semaphore, whose count is how often the thing was made

enum class Fact : std::uint8_t { kMade = 1, kSized = 2 };

ObjectId object_of_fact(const char* name, Fact fact) {
  return keyed_object(PrimitiveId::kSemaphore, hash_of(name) + static_cast<std::uint64_t>(fact));
}

std::uint8_t& set_up_facts(const char* name) { return g_control->set_up_files[find_region(name) - g_names->regions]; }

bool has_from_setup(const char* name, Fact fact) {
  return find_region(name) != nullptr && (set_up_facts(name) & static_cast<std::uint8_t>(fact)) != 0;
}

// Whether it was so; and from now on it is, if `sets`.
bool look(const char* name, Fact fact, bool sets, const void* caller) {
  if (has_from_setup(name, fact)) return true;
  if (!is_scheduling()) {
    if (sets) set_up_facts(name) |= static_cast<std::uint8_t>(fact);
    return false;
  }
  const ObjectId object = object_of_fact(name, fact);
  Operation operation(semaphore::access(object, semaphore::kGetValue));
  if (sets) operation.add(semaphore::access(object, semaphore::kPost));
  return perform(operation, caller) > 0;
}

// There is one size in all executions of a search.
void set_file_bytes(const char* name, std::uint64_t bytes) {
  if (bytes > kGrowingMost || open_growing_region(name, 0, std::max<std::uint64_t>(bytes, 1)) == nullptr)
    refuse_sentence("%.100s is to have %lu bytes: files and segments in shared memory have at most 1 GiB.", name,
                    bytes);
  Names::Region& region = *find_region(name);
  if (region.file_bytes != 0 && region.file_bytes != bytes)
    refuse_sentence("%.100s is to have %lu bytes, and was made with %lu: crashcut cxl follows one size only.", name,
                    bytes, region.file_bytes);
  region.file_bytes = bytes;
}

std::uint64_t file_bytes(const char* name, const void* caller) {
  return look(name, Fact::kSized, false, caller) ? find_region(name)->file_bytes : 0;
}

// --- descriptors

long add_descriptor(const char* name, bool is_device_file, long flags) {
  if (g_placeholder < 0) {
    const long opened = kernel(SYS_open, "/dev/null", O_RDWR | O_CLOEXEC);
    g_placeholder = kernel(SYS_fcntl, opened, F_DUPFD_CLOEXEC, kFdsMost - 16);
    kernel(SYS_close, opened);
  }
  const long fd = kernel(SYS_fcntl, g_placeholder, (flags & O_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD,
                         first_fd_of(running_actor()));
  if (fd < 0 || fd >= kFdsMost) refuse("more descriptors than the limit allows");
  inject::copy_text(name, g_open[fd].name);
  g_open[fd].is_device = is_device_file;
  return fd;
}

long open_file(const Call& call, const char* name, Where where, long flags) {
  if (where == Where::kDirectory) return (flags & O_CREAT) != 0 ? -EISDIR : -EACCES;
  if (where == Where::kFile) {
    const bool makes = (flags & O_CREAT) != 0;
    if (makes && open_growing_region(name, 0, 1) == nullptr) refuse("open() of too many files in shared memory (64)");
    const bool was_there = look(name, Fact::kMade, makes, call.caller);
    if (!was_there && !makes) return -ENOENT;
    if (was_there && makes && (flags & O_EXCL) != 0) return -EEXIST;
    if ((flags & O_TRUNC) != 0 && was_there) refuse("open(O_TRUNC) of a file in shared memory that is there");
  }
  return add_descriptor(name, where == Where::kDevice, flags);
}

void fill_stat(struct stat& st, const char* name, bool is_device_file, const void* caller) {
  st = {};
  st.st_mode = (is_device_file ? S_IFCHR : S_IFREG) | 0666;
  st.st_nlink = 1;
  st.st_blksize = kPage;
  st.st_dev = makedev(0, 99);
  st.st_ino = hash_of(name);
  if (!is_device_file) st.st_size = static_cast<off_t>(file_bytes(name, caller));
}

long map_file(const Call& call, const OpenFile& file) {
  const auto length = static_cast<std::uint64_t>(call.a[1]), offset = static_cast<std::uint64_t>(call.a[5]);
  const long flags = call.a[3];
  if (length == 0 || offset % kPage != 0) return -EINVAL;
  if ((flags & MAP_TYPE) == MAP_PRIVATE) refuse("mmap(MAP_PRIVATE) of a file or device in shared memory");
  if (offset > kGrowingMost || length > kGrowingMost - offset)
    refuse_sentence("mmap() of %.100s up to byte %lu: files and devices in shared memory have at most 1 GiB.",
                    file.name, offset + length);
  void* at = open_growing_region(file.name, offset, offset + length);
  if (at == nullptr) refuse_sentence("mmap() of %.100s: there is no room for more shared memory (64 GiB).", file.name);
  if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0 && call.a[0] != reinterpret_cast<long>(at))
    refuse_sentence(
        "mmap(MAP_FIXED) of %.100s at %#lx: crashcut cxl maps it at %#lx on all machines, so that no two regions meet "
        "at one address. Ask for that address, or without MAP_FIXED.",
        file.name, static_cast<unsigned long>(call.a[0]), reinterpret_cast<unsigned long>(at));
  return reinterpret_cast<long>(at);
}

// --- calls that name a path

bool do_path_call(Call& call) {
  char name[kRegionNameMost] = {};
  const auto find = [&](long directory, int path) {
    return find_path(directory, pointer<const char>(call.a[path]), name);
  };
  const bool is_at = call.number == SYS_openat || call.number == SYS_newfstatat || call.number == SYS_faccessat ||
                     call.number == SYS_faccessat2 || call.number == SYS_unlinkat || call.number == SYS_mkdirat;
  const int path = is_at ? 1 : 0;
  const Where where = find(is_at ? static_cast<int>(call.a[0]) : AT_FDCWD, path);
  if (where == Where::kElsewhere) return false;
  switch (call.number) {
    case SYS_open:
    case SYS_openat:
      call.result = open_file(call, name, where, call.a[path + 1]);
      return true;
    case SYS_creat:
      call.result = open_file(call, name, where, O_CREAT | O_TRUNC | O_WRONLY);
      return true;
    case SYS_mkdir:
    case SYS_mkdirat:
      if (where == Where::kFile) refuse("mkdir() below cxl/");
      call.result = -EEXIST;
      return true;
    case SYS_unlink:
    case SYS_unlinkat:
      call.result = where == Where::kDirectory                                              ? -EBUSY
                    : where == Where::kFile && !look(name, Fact::kMade, false, call.caller) ? -ENOENT
                                                                                            : 0;
      return true;
    default:
      break;
  }
  const bool is_there = where != Where::kFile || look(name, Fact::kMade, false, call.caller);
  call.result = is_there ? 0 : -ENOENT;
  if (!is_there || call.number == SYS_access || call.number == SYS_faccessat || call.number == SYS_faccessat2)
    return true;
  auto& st = *pointer<struct stat>(call.a[call.number == SYS_newfstatat ? 2 : 1]);
  if (where == Where::kDirectory) {
    st = {};
    st.st_mode = S_IFDIR | 0777;
  } else {
    fill_stat(st, name, where == Where::kDevice, call.caller);
  }
  return true;
}

// --- calls on a descriptor

bool do_descriptor_call(Call& call) {
  const OpenFile* file = file_of(call.a[call.number == SYS_mmap ? 4 : 0]);
  if (file == nullptr || (call.number == SYS_mmap && (call.a[3] & MAP_ANONYMOUS) != 0)) return false;
  call.result = 0;
  switch (call.number) {
    case SYS_mmap:
      call.result = map_file(call, *file);
      return true;
    case SYS_close:
      kernel(SYS_close, call.a[0]);
      g_open[call.a[0]] = {};
      return true;
    case SYS_fstat:
      fill_stat(*pointer<struct stat>(call.a[1]), file->name, file->is_device, call.caller);
      return true;
    case SYS_newfstatat:
      fill_stat(*pointer<struct stat>(call.a[2]), file->name, file->is_device, call.caller);
      return true;
    case SYS_ftruncate:
    case SYS_fallocate: {
      const long bytes = call.number == SYS_ftruncate ? call.a[1] : call.a[2] + call.a[3];
      if (file->is_device || bytes <= 0) return call.result = -EINVAL, true;
      set_file_bytes(file->name, static_cast<std::uint64_t>(bytes));
      look(file->name, Fact::kSized, true, call.caller);
      return true;
    }
    case SYS_lseek:
      if (call.a[2] == SEEK_END && !file->is_device)
        call.result = static_cast<long>(file_bytes(file->name, call.caller)) + call.a[1];
      return true;
    case SYS_fsync:
    case SYS_fdatasync:
      return true;
    case SYS_fcntl:
      if (call.a[1] == F_GETFD || call.a[1] == F_SETFD || call.a[1] == F_GETFL) return false;
      refuse("fcntl() to copy or lock a file in shared memory");
    case SYS_dup:
    case SYS_dup2:
    case SYS_dup3:
      refuse("dup() of a file in shared memory");
    case SYS_read:
    case SYS_pread64:
    case SYS_readv:
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
      refuse("read() or write() of a file in shared memory (its mapping can be used)");
    case SYS_flock:
      refuse("flock() of a file in shared memory");
    default:
      return false;
  }
}

// --- segments of System V

constexpr int kIdMask = 0x7fffffff;

int id_of(const char* name) { return static_cast<int>(hash_of(name) & kIdMask); }

Names::Region* find_segment(long id) {
  for (std::uint32_t i = 0; i < g_names->region_count; ++i) {
    Names::Region& region = g_names->regions[i];
    if (std::strncmp(region.name, "shm ", 4) == 0 && id_of(region.name) == id) return &region;
  }
  return nullptr;
}

long get_segment(const Call& call) {
  const auto key = static_cast<key_t>(call.a[0]);
  const long flags = call.a[2];
  char name[kRegionNameMost];
  if (key == IPC_PRIVATE) {
    snprintf(name, sizeof name, "shm private %u.%u.%lu", g_host, running_actor(), next_ordinal());
  } else {
    snprintf(name, sizeof name, "shm key %#x", static_cast<unsigned>(key));
  }
  const bool may_make = key == IPC_PRIVATE || (flags & IPC_CREAT) != 0, makes = may_make && call.a[1] > 0;
  if (makes) set_file_bytes(name, static_cast<std::uint64_t>(call.a[1]));
  const bool was_there = look(name, Fact::kMade, makes, call.caller);
  if (!was_there && !makes) return may_make ? -EINVAL : -ENOENT;
  if (was_there && (flags & (IPC_CREAT | IPC_EXCL)) == (IPC_CREAT | IPC_EXCL)) return -EEXIST;
  return static_cast<std::uint64_t>(call.a[1]) > find_region(name)->file_bytes ? -EINVAL : id_of(name);
}

long attach(const Call& call) {
  Names::Region* segment = find_segment(call.a[0]);
  if (segment == nullptr || !look(segment->name, Fact::kMade, false, call.caller)) return -EINVAL;
  void* at = open_growing_region(segment->name, 0, segment->file_bytes);
  if (call.a[1] != 0 && call.a[1] != reinterpret_cast<long>(at))
    refuse_sentence(
        "shmat() of \"%.100s\" at %#lx: crashcut cxl has it at %#lx on all machines, so that no two regions meet at "
        "one "
        "address. Ask for that address, or for none.",
        segment->name, static_cast<unsigned long>(call.a[1]), reinterpret_cast<unsigned long>(at));
  return reinterpret_cast<long>(at);
}

long detach(long address) {
  const Names::Region* region =
      is_in_region(static_cast<std::uint64_t>(address)) ? find_region_at(static_cast<std::uint64_t>(address)) : nullptr;
  if (region == nullptr || kRegionsAt + region->offset != static_cast<std::uint64_t>(address)) return -EINVAL;
  kernel(SYS_mprotect, address, (region->bytes + kPage - 1) / kPage * kPage, PROT_NONE);
  return 0;
}

long control_segment(const Call& call) {
  const Names::Region* segment = find_segment(call.a[0]);
  if (segment == nullptr || !look(segment->name, Fact::kMade, false, call.caller)) return -EINVAL;
  switch (call.a[1]) {
    case IPC_RMID:
      return 0;
    case IPC_STAT: {
      auto& found = *pointer<shmid_ds>(call.a[2]);
      found = {};
      found.shm_segsz = segment->file_bytes;
      found.shm_perm.mode = 0666;
      return 0;
    }
    default:
      refuse("shmctl() with another command than IPC_RMID and IPC_STAT");
  }
}

// --- calls on a range of addresses

bool do_range_call(Call& call) {
  if (!is_in_region(static_cast<std::uint64_t>(call.a[0]))) return false;
  switch (call.number) {
    case SYS_munmap:
      call.result = kernel(SYS_mprotect, call.a[0], call.a[1], PROT_NONE);
      return true;
    case SYS_mprotect:
      call.result = kernel(SYS_mprotect, call.a[0], call.a[1], call.a[2]);
      return true;
    case SYS_msync:
    case SYS_madvise:
    case SYS_mlock:
      call.result = 0;
      return true;
    case SYS_mmap:
      if ((call.a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == 0 || file_of(call.a[4]) != nullptr) return false;
      refuse("mmap() over memory that machines share");
    case SYS_mremap:
      refuse("mremap() of memory that machines share");
    default:
      return false;
  }
}

}  // namespace

bool do_shared_file_call(Call& call) {
  switch (call.number) {
    case SYS_shmget:
      call.result = get_segment(call);
      return true;
    case SYS_shmat:
      call.result = attach(call);
      return true;
    case SYS_shmdt:
      call.result = detach(call.a[0]);
      return true;
    case SYS_shmctl:
      call.result = control_segment(call);
      return true;
    case SYS_open:
    case SYS_openat:
    case SYS_creat:
    case SYS_mkdir:
    case SYS_mkdirat:
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_faccessat:
    case SYS_faccessat2:
      return do_path_call(call);
    case SYS_newfstatat:
      return file_of(call.a[0]) != nullptr ? do_descriptor_call(call) : do_path_call(call);
    default:
      return do_range_call(call) || do_descriptor_call(call);
  }
}

void end_shared_files() {
  for (long fd = 0; fd < kFdsMost; ++fd) {
    if (g_open[fd].name[0] == 0) continue;
    kernel(SYS_close, fd);
    g_open[fd] = {};
  }
}

}  // namespace crashcut::scheduler::runtime
