// The system calls that the model of files does, one function a call: call_read(), call_write(), ... They run on the
// model's stack, under its lock. Each returns what the kernel would, or kForward.
#pragma once

#include "recovery/inprocess/call.h"
#include "recovery/inprocess/runtime.h"

// X(name of the call, when it is the model's business).
// clang-format off
#define CRASHCUT_FILE_CALLS(X) \
  X(read, kFd) X(write, kFd) X(pread64, kFd) X(pwrite64, kFd) X(readv, kFd) X(writev, kFd) X(preadv, kFd) \
  X(pwritev, kFd) X(preadv2, kFd) X(pwritev2, kFd) X(lseek, kFd) X(ftruncate, kFd) X(fallocate, kFd) X(fsync, kFd) \
  X(fdatasync, kFd) X(syncfs, kFd) X(sync_file_range, kFd) X(fstat, kFd) X(close, kFd) X(dup, kFd) X(fcntl, kFd) \
  X(flock, kFd) X(getdents64, kFd) X(getdents, kFd) X(fchmod, kFd) X(fchown, kFd) X(fadvise64, kFd) X(ioctl, kFd) \
  X(fstatfs, kFd) X(fsetxattr, kFd) X(fgetxattr, kFd) X(flistxattr, kFd) X(fremovexattr, kFd) X(readahead, kFd) \
  X(sync, kAlways) X(close_range, kAlways) X(dup2, kAlways) X(dup3, kAlways) X(utimensat, kAlways) \
  X(getcwd, kAlways) X(chdir, kAlways) X(fchdir, kAlways) X(umask, kAlways) \
  X(sendfile, kEitherFd) X(copy_file_range, kEitherFd) \
  X(mmap, kMapFd) \
  X(munmap, kMapped) X(mprotect, kMapped) X(madvise, kMapped) \
  X(open, kPath) X(creat, kPath) X(stat, kPath) X(lstat, kPath) X(access, kPath) X(truncate, kPath) X(mkdir, kPath) \
  X(mknod, kPath) X(unlink, kPath) X(rmdir, kPath) X(readlink, kPath) X(chmod, kPath) X(chown, kPath) \
  X(lchown, kPath) X(utimes, kPath) X(utime, kPath) X(statfs, kPath) X(setxattr, kPath) X(lsetxattr, kPath) \
  X(getxattr, kPath) X(lgetxattr, kPath) X(listxattr, kPath) X(llistxattr, kPath) X(removexattr, kPath) \
  X(lremovexattr, kPath) \
  X(openat, kAt) X(openat2, kAt) X(newfstatat, kAt) X(statx, kAt) X(faccessat, kAt) X(faccessat2, kAt) \
  X(mkdirat, kAt) X(mknodat, kAt) X(unlinkat, kAt) X(readlinkat, kAt) X(fchmodat, kAt) X(fchmodat2, kAt) \
  X(fchownat, kAt) X(futimesat, kAt) \
  X(symlink, kPathSecond) \
  X(symlinkat, kAtSecond) \
  X(rename, kTwoPaths) X(link, kTwoPaths) \
  X(renameat, kTwoAts) X(renameat2, kTwoAts) X(linkat, kTwoAts)
// clang-format on

namespace crashcut::inprocess {

#define CRASHCUT_DECLARE(name, filter) long call_##name(Call& c);
CRASHCUT_FILE_CALLS(CRASHCUT_DECLARE)
#undef CRASHCUT_DECLARE
long call_socket_name(Call& c);
long call_set_ids(Call& c);

}  // namespace crashcut::inprocess
