// Which system calls are the model's business, and when.
#include <errno.h>
#include <sys/syscall.h>

#include <array>

#include "recovery/inprocess/calls.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

namespace crashcut::inprocess {

namespace {

// Looks harmless and is not: what it does would happen behind the model's back.
template <int N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) {
    for (int i = 0; i < N; ++i) text[i] = from[i];
  }
};
template <Name kName>
long refuse(Call&) {
  unsupported(kName.text);
}
// Programs have a way without these, and know how to take it.
long not_there(Call&) { return -ENOSYS; }

constexpr std::array<CallEntry, kCallsMost> make_table() {
  std::array<CallEntry, kCallsMost> t{};
  t[SYS_read] = {call_read, Filter::kFd, "read"};
  t[SYS_write] = {call_write, Filter::kFd, "write"};
  t[SYS_pread64] = {call_pread64, Filter::kFd, "pread64"};
  t[SYS_pwrite64] = {call_pwrite64, Filter::kFd, "pwrite64"};
  t[SYS_readv] = {call_readv, Filter::kFd, "readv"};
  t[SYS_writev] = {call_writev, Filter::kFd, "writev"};
  t[SYS_preadv] = {call_preadv, Filter::kFd, "preadv"};
  t[SYS_pwritev] = {call_pwritev, Filter::kFd, "pwritev"};
  t[SYS_preadv2] = {call_preadv2, Filter::kFd, "preadv2"};
  t[SYS_pwritev2] = {call_pwritev2, Filter::kFd, "pwritev2"};
  t[SYS_lseek] = {call_lseek, Filter::kFd, "lseek"};
  t[SYS_ftruncate] = {call_ftruncate, Filter::kFd, "ftruncate"};
  t[SYS_fallocate] = {call_fallocate, Filter::kFd, "fallocate"};
  t[SYS_fsync] = {call_fsync, Filter::kFd, "fsync"};
  t[SYS_fdatasync] = {call_fdatasync, Filter::kFd, "fdatasync"};
  t[SYS_sync] = {call_sync, Filter::kAlways, "sync"};
  t[SYS_syncfs] = {call_syncfs, Filter::kFd, "syncfs"};
  t[SYS_sync_file_range] = {call_sync_file_range, Filter::kFd, "sync_file_range"};
  t[SYS_fstat] = {call_fstat, Filter::kFd, "fstat"};
  t[SYS_close] = {call_close, Filter::kFd, "close"};
  t[SYS_close_range] = {call_close_range, Filter::kAlways, "close_range"};
  t[SYS_dup] = {call_dup, Filter::kFd, "dup"};
  t[SYS_dup2] = {call_dup2, Filter::kAlways, "dup2"};
  t[SYS_dup3] = {call_dup3, Filter::kAlways, "dup3"};
  t[SYS_fcntl] = {call_fcntl, Filter::kFd, "fcntl"};
  t[SYS_flock] = {call_flock, Filter::kFd, "flock"};
  t[SYS_getdents64] = {call_getdents64, Filter::kFd, "getdents64"};
  t[SYS_getdents] = {call_getdents, Filter::kFd, "getdents"};
  t[SYS_fchmod] = {call_fchmod, Filter::kFd, "fchmod"};
  t[SYS_fchown] = {call_fchown, Filter::kFd, "fchown"};
  t[SYS_fadvise64] = {call_fadvise64, Filter::kFd, "fadvise64"};
  t[SYS_ioctl] = {call_ioctl, Filter::kFd, "ioctl"};
  t[SYS_sendfile] = {call_sendfile, Filter::kEitherFd, "sendfile"};
  t[SYS_copy_file_range] = {call_copy_file_range, Filter::kEitherFd, "copy_file_range"};
  t[SYS_mmap] = {call_mmap, Filter::kMapFd, "mmap"};
  t[SYS_munmap] = {call_munmap, Filter::kMapped, "munmap"};
  t[SYS_mprotect] = {call_mprotect, Filter::kMapped, "mprotect"};
  t[SYS_madvise] = {call_madvise, Filter::kMapped, "madvise"};
  t[SYS_mremap] = {refuse<"mremap() of a file mapped MAP_SHARED">, Filter::kMapped, "mremap"};
  t[SYS_msync] = {refuse<"msync() of a file mapped MAP_SHARED">, Filter::kMapped, "msync"};
  t[SYS_open] = {call_open, Filter::kPath, "open"};
  t[SYS_creat] = {call_creat, Filter::kPath, "creat"};
  t[SYS_openat] = {call_openat, Filter::kAt, "openat"};
  t[SYS_openat2] = {call_openat2, Filter::kAt, "openat2"};
  t[SYS_stat] = {call_stat, Filter::kPath, "stat"};
  t[SYS_lstat] = {call_lstat, Filter::kPath, "lstat"};
  t[SYS_newfstatat] = {call_newfstatat, Filter::kAt, "newfstatat"};
  t[SYS_statx] = {call_statx, Filter::kAt, "statx"};
  t[SYS_access] = {call_access, Filter::kPath, "access"};
  t[SYS_faccessat] = {call_faccessat, Filter::kAt, "faccessat"};
  t[SYS_faccessat2] = {call_faccessat2, Filter::kAt, "faccessat2"};
  t[SYS_truncate] = {call_truncate, Filter::kPath, "truncate"};
  t[SYS_mkdir] = {call_mkdir, Filter::kPath, "mkdir"};
  t[SYS_mkdirat] = {call_mkdirat, Filter::kAt, "mkdirat"};
  t[SYS_mknod] = {call_mknod, Filter::kPath, "mknod"};
  t[SYS_mknodat] = {call_mknodat, Filter::kAt, "mknodat"};
  t[SYS_unlink] = {call_unlink, Filter::kPath, "unlink"};
  t[SYS_unlinkat] = {call_unlinkat, Filter::kAt, "unlinkat"};
  t[SYS_rmdir] = {call_rmdir, Filter::kPath, "rmdir"};
  t[SYS_readlink] = {call_readlink, Filter::kPath, "readlink"};
  t[SYS_readlinkat] = {call_readlinkat, Filter::kAt, "readlinkat"};
  t[SYS_symlink] = {call_symlink, Filter::kPathSecond, "symlink"};
  t[SYS_symlinkat] = {call_symlinkat, Filter::kAtSecond, "symlinkat"};
  t[SYS_rename] = {call_rename, Filter::kTwoPaths, "rename"};
  t[SYS_renameat] = {call_renameat, Filter::kTwoAts, "renameat"};
  t[SYS_renameat2] = {call_renameat2, Filter::kTwoAts, "renameat2"};
  t[SYS_link] = {call_link, Filter::kTwoPaths, "link"};
  t[SYS_linkat] = {call_linkat, Filter::kTwoAts, "linkat"};
  t[SYS_chmod] = {call_chmod, Filter::kPath, "chmod"};
  t[SYS_fchmodat] = {call_fchmodat, Filter::kAt, "fchmodat"};
  t[SYS_fchmodat2] = {call_fchmodat2, Filter::kAt, "fchmodat2"};
  t[SYS_chown] = {call_chown, Filter::kPath, "chown"};
  t[SYS_lchown] = {call_lchown, Filter::kPath, "lchown"};
  t[SYS_fchownat] = {call_fchownat, Filter::kAt, "fchownat"};
  t[SYS_utimensat] = {call_utimensat, Filter::kAlways, "utimensat"};
  t[SYS_utimes] = {call_utimes, Filter::kPath, "utimes"};
  t[SYS_futimesat] = {call_futimesat, Filter::kAt, "futimesat"};
  t[SYS_utime] = {call_utime, Filter::kPath, "utime"};
  t[SYS_getcwd] = {call_getcwd, Filter::kAlways, "getcwd"};
  t[SYS_chdir] = {call_chdir, Filter::kAlways, "chdir"};
  t[SYS_fchdir] = {call_fchdir, Filter::kAlways, "fchdir"};
  t[SYS_umask] = {call_umask, Filter::kAlways, "umask"};
  for (const int number :
       {SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups})
    t[number] = {call_set_ids, Filter::kAlways, "set ids"};
  t[SYS_bind] = {call_socket_name, Filter::kAlways, "bind"};
  t[SYS_connect] = {call_socket_name, Filter::kAlways, "connect"};
  t[SYS_statfs] = {call_statfs, Filter::kPath, "statfs"};
  t[SYS_fstatfs] = {call_fstatfs, Filter::kFd, "fstatfs"};
  t[SYS_setxattr] = {call_setxattr, Filter::kPath, "setxattr"};
  t[SYS_lsetxattr] = {call_lsetxattr, Filter::kPath, "lsetxattr"};
  t[SYS_fsetxattr] = {call_fsetxattr, Filter::kFd, "fsetxattr"};
  t[SYS_getxattr] = {call_getxattr, Filter::kPath, "getxattr"};
  t[SYS_lgetxattr] = {call_lgetxattr, Filter::kPath, "lgetxattr"};
  t[SYS_fgetxattr] = {call_fgetxattr, Filter::kFd, "fgetxattr"};
  t[SYS_listxattr] = {call_listxattr, Filter::kPath, "listxattr"};
  t[SYS_llistxattr] = {call_llistxattr, Filter::kPath, "llistxattr"};
  t[SYS_flistxattr] = {call_flistxattr, Filter::kFd, "flistxattr"};
  t[SYS_removexattr] = {call_removexattr, Filter::kPath, "removexattr"};
  t[SYS_lremovexattr] = {call_lremovexattr, Filter::kPath, "lremovexattr"};
  t[SYS_fremovexattr] = {call_fremovexattr, Filter::kFd, "fremovexattr"};

  t[SYS_readahead] = {call_readahead, Filter::kFd, "readahead"};

  t[SYS_splice] = {refuse<"splice()">, Filter::kEitherFd, "splice"};
  t[SYS_tee] = {refuse<"tee()">, Filter::kEitherFd, "tee"};
  t[SYS_vmsplice] = {refuse<"vmsplice()">, Filter::kFd, "vmsplice"};
  t[SYS_name_to_handle_at] = {refuse<"name_to_handle_at()">, Filter::kAt, "name_to_handle_at"};

  t[SYS_io_setup] = {not_there, Filter::kAlways, "io_setup"};
  t[SYS_io_uring_setup] = {not_there, Filter::kAlways, "io_uring_setup"};
  return t;
}

constexpr std::array<CallEntry, kCallsMost> kTable = make_table();
constexpr CallEntry kNone{};

}  // namespace

const CallEntry& call_entry(long number) { return number >= 0 && number < kCallsMost ? kTable[number] : kNone; }

}  // namespace crashcut::inprocess
