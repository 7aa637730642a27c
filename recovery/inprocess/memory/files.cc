// Files of the modelled disk that are persistent memory: mmap() of them gives a region.
//
// Which: a shared mapping of a file below pmem/ of the modelled disk, or one with MAP_SYNC of any file. The region
//   belongs to the inode, so a file that was renamed keeps it, and a file that is made anew has another one.
// mmap() makes the file durable, as fsync() does: with MAP_SYNC the kernel does that before the first store to a page.
//   So a store to the region is there only if the file is. (May miss bugs: a crash between mmap() and that store.)
// msync() with MS_SYNC, and fsync(), fdatasync(), syncfs() and sync() flush what the region holds and fence, as the
//   kernel does for files on persistent memory (DAX).
// The bytes are the region's. read() and pread() load them; other ways to read, and write(), are refused, and so is a
//   file that has contents already. Its size is the file model's; the mapping may be longer.
// Does not model: munmap() and mprotect(), which succeed and change nothing; bytes that ftruncate() or fallocate() take
//   out of the file, which the region keeps. (May miss bugs.)
#include <errno.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "recovery/inprocess/call_text.h"
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/models.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t page_end(std::uint64_t address) { return (address + kPage - 1) / kPage * kPage; }

bool is_file(const NamedRegion& region) { return region.file != 0 && region.file != kHeapFile; }

// Relative to the modelled root, as the file was opened.
std::string path_of(int fd) {
  const auto found = g.model->names.find(fd);
  const std::filesystem::path name = found == g.model->names.end() ? "" : found->second;
  const std::filesystem::path from =
      name.is_absolute() ? name : std::filesystem::path(g.model->process->getcwd()) / name;
  return from.lexically_normal().lexically_relative(kModelRoot).string();
}

// A region begins with zeroes, and the file's own bytes are not joined with it.
void refuse_contents(int fd, const std::string& path) {
  const fusefs::Process::MappedRead read = g.model->process->map(fd);
  std::vector<std::byte> piece(1 << 16);
  for (std::uint64_t at = 0;; at += piece.size()) {
    const std::int64_t count = read(at, piece);
    if (count <= 0) return;
    if (std::any_of(piece.begin(), piece.begin() + count, [](std::byte b) { return b != std::byte{0}; })) {
      user_error(
          fmt::format("mmap() of {} as persistent memory: the file has contents that were written by write(), "
                      "which crashcut pmem does not join with its memory: write through the mapping only",
                      path));
    }
  }
}

const NamedRegion* region_of(long fd) {
  return g.models_fd(fd) ? find_file_region(g.model->process->inode_lock_of(static_cast<int>(fd))) : nullptr;
}

void refuse_file_access(const Call& call, int argument, const char* name) {
  if (const NamedRegion* region = region_of(call.a[argument])) {
    user_error(
        fmt::format("the program called {}() on {}, which it has mapped as persistent memory: crashcut pmem does "
                    "not join the two, so use the mapping only",
                    name, region->name));
  }
}

void flush_region(const NamedRegion& region, const void* code) {
  flush_memory(region.region.begin, region.region.begin + region.region.bytes, code);
}

long sync_range(const Call& call) {
  const auto begin = static_cast<std::uint64_t>(call.a[0]), bytes = static_cast<std::uint64_t>(call.a[1]);
  constexpr long kFlags = MS_SYNC | MS_ASYNC | MS_INVALIDATE;
  if (begin % kPage != 0 || (call.a[2] & ~kFlags) != 0 || (call.a[2] & (MS_SYNC | MS_ASYNC)) == (MS_SYNC | MS_ASYNC))
    return -EINVAL;
  if (bytes > 0 && !is_in_region(begin, 1)) return -ENOMEM;
  if ((call.a[2] & MS_SYNC) != 0) flush_memory(begin, begin + page_end(bytes), call.caller);
  return 0;
}

}  // namespace

bool is_region_mapping(int fd, long flags) {
  if (g.header->has_memory == 0) return false;
  if ((flags & MAP_TYPE) == MAP_SHARED_VALIDATE && (flags & MAP_SYNC) != 0) return true;
  return region_of(fd) != nullptr || path_of(fd).starts_with("pmem/");
}

long map_region(Call& call) {
  const auto length = static_cast<std::uint64_t>(call.a[1]), offset = static_cast<std::uint64_t>(call.a[5]);
  const int fd = static_cast<int>(call.a[4]);
  if (length == 0 || offset % kPage != 0) return -EINVAL;
  if (length > kWindowBytes || offset > kWindowBytes) return -ENOMEM;
  begin_change([&] { return fmt::format("mmap({}, {} bytes at {})", fd_text(fd), length, offset); });
  std::uint64_t bytes = page_end(offset + length);
  if (region_of(fd) == nullptr) {
    struct stat status {};
    if (const int result = g.model->process->fstat(fd, status); result < 0) return result;
    if (!S_ISREG(status.st_mode)) return -ENODEV;
    bytes = std::max(bytes, page_end(static_cast<std::uint64_t>(status.st_size)));
    refuse_contents(fd, path_of(fd));
  }
  const NamedRegion& region = open_file_region(g.model->process->inode_lock_of(fd), path_of(fd), bytes);
  const long at = static_cast<long>(region.region.begin + offset);
  if ((call.a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0 && call.a[0] != at) {
    user_error(
        fmt::format("mmap(MAP_FIXED) of {} at {:#x}: crashcut pmem maps this file at {:#x}, before and after a "
                    "crash, and nowhere else: ask without MAP_FIXED",
                    region.name, call.a[0], at));
  }
  const int synced = g.model->process->fsync(fd);
  return synced < 0 ? synced : at;
}

void prepare_file_call(const Call& call) {
  const auto has_file = [] { return std::any_of(g.model->regions.begin(), g.model->regions.end(), is_file); };
  if (g_phase == Phase::kConstructing || !has_file()) return;
  in_model([&] {
    switch (call.number) {
      case SYS_readv:
      case SYS_preadv:
      case SYS_preadv2:
        return refuse_file_access(call, 0, "read");
      case SYS_write:
      case SYS_pwrite64:
      case SYS_writev:
      case SYS_pwritev:
      case SYS_pwritev2:
        return refuse_file_access(call, 0, "write");
      case SYS_sendfile:
        refuse_file_access(call, 0, "sendfile");
        return refuse_file_access(call, 1, "sendfile");
      case SYS_copy_file_range:
        refuse_file_access(call, 0, "copy_file_range");
        return refuse_file_access(call, 2, "copy_file_range");
      case SYS_fsync:
      case SYS_fdatasync:
        if (const NamedRegion* region = region_of(call.a[0])) flush_region(*region, call.caller);
        return;
      case SYS_sync:
      case SYS_syncfs:
        for (const NamedRegion& region : g.model->regions) {
          if (is_file(region)) flush_region(region, call.caller);
        }
        return;
      default:
        return;
    }
  });
}

// The file model knows the position and the file's end; the bytes that it has are all zero.
bool read_file_region(Call& call, ucontext_t& context) {
  if (call.number != SYS_read && call.number != SYS_pread64) return false;
  const NamedRegion* region = nullptr;
  long offset = call.a[3];
  in_model([&] {
    region = region_of(call.a[0]);
    if (region != nullptr && call.number == SYS_read)
      offset = g.model->process->lseek(static_cast<int>(call.a[0]), 0, SEEK_CUR);
  });
  if (region == nullptr || is_in_window(static_cast<std::uint64_t>(call.a[1]))) return false;
  if (kFileModel.do_call(call, context) != inject::Fate::kDone || call.result <= 0) return true;
  const std::uint64_t address = region->region.begin + static_cast<std::uint64_t>(offset);
  std::uint64_t there = 0;  // of a file that has grown since it was mapped, the rest is zero
  if (static_cast<std::uint64_t>(offset) < region->region.bytes)
    there =
        std::min(static_cast<std::uint64_t>(call.result), region->region.bytes - static_cast<std::uint64_t>(offset));
  Memory::load(reinterpret_cast<const void*>(address), inject::pointer<void>(call.a[1]), there, call.caller);
  return true;
}

bool do_range_call(Call& call) {
  switch (call.number) {
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_madvise:
      call.result = 0;
      return true;
    case SYS_mremap:
      unsupported("mremap() of persistent memory");
    case SYS_msync:
      in_model([&] { call.result = sync_range(call); });
      return true;
    default:
      return false;
  }
}

}  // namespace crashcut::inprocess
