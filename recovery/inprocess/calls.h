// The system calls that the model does, one function a call. Run on the model's stack, under its lock.
// Each returns what the kernel would, or kForward.
#pragma once

#include "recovery/inprocess/call.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

long call_read(Call& c);
long call_write(Call& c);
long call_pread64(Call& c);
long call_pwrite64(Call& c);
long call_readv(Call& c);
long call_writev(Call& c);
long call_preadv(Call& c);
long call_pwritev(Call& c);
long call_preadv2(Call& c);
long call_pwritev2(Call& c);
long call_lseek(Call& c);
long call_ftruncate(Call& c);
long call_fallocate(Call& c);
long call_fsync(Call& c);
long call_fdatasync(Call& c);
long call_sync(Call& c);
long call_syncfs(Call& c);
long call_sync_file_range(Call& c);
long call_fstat(Call& c);
long call_close(Call& c);
long call_close_range(Call& c);
long call_dup(Call& c);
long call_dup2(Call& c);
long call_dup3(Call& c);
long call_fcntl(Call& c);
long call_flock(Call& c);
long call_getdents64(Call& c);
long call_getdents(Call& c);
long call_fchmod(Call& c);
long call_fchown(Call& c);
long call_fadvise64(Call& c);
long call_readahead(Call& c);
long call_ioctl(Call& c);
long call_sendfile(Call& c);
long call_copy_file_range(Call& c);
long call_mmap(Call& c);
long call_munmap(Call& c);
long call_mprotect(Call& c);
long call_madvise(Call& c);
long call_open(Call& c);
long call_creat(Call& c);
long call_openat(Call& c);
long call_openat2(Call& c);
long call_stat(Call& c);
long call_lstat(Call& c);
long call_newfstatat(Call& c);
long call_statx(Call& c);
long call_access(Call& c);
long call_faccessat(Call& c);
long call_faccessat2(Call& c);
long call_truncate(Call& c);
long call_mkdir(Call& c);
long call_mkdirat(Call& c);
long call_mknod(Call& c);
long call_mknodat(Call& c);
long call_unlink(Call& c);
long call_unlinkat(Call& c);
long call_rmdir(Call& c);
long call_readlink(Call& c);
long call_readlinkat(Call& c);
long call_symlink(Call& c);
long call_symlinkat(Call& c);
long call_rename(Call& c);
long call_renameat(Call& c);
long call_renameat2(Call& c);
long call_link(Call& c);
long call_linkat(Call& c);
long call_chmod(Call& c);
long call_fchmodat(Call& c);
long call_fchmodat2(Call& c);
long call_chown(Call& c);
long call_lchown(Call& c);
long call_fchownat(Call& c);
long call_utimensat(Call& c);
long call_utimes(Call& c);
long call_futimesat(Call& c);
long call_utime(Call& c);
long call_getcwd(Call& c);
long call_chdir(Call& c);
long call_fchdir(Call& c);
long call_umask(Call& c);
long call_set_ids(Call& c);
long call_socket_name(Call& c);
long call_statfs(Call& c);
long call_fstatfs(Call& c);
long call_setxattr(Call& c);
long call_lsetxattr(Call& c);
long call_fsetxattr(Call& c);
long call_getxattr(Call& c);
long call_lgetxattr(Call& c);
long call_fgetxattr(Call& c);
long call_listxattr(Call& c);
long call_llistxattr(Call& c);
long call_flistxattr(Call& c);
long call_removexattr(Call& c);
long call_lremovexattr(Call& c);
long call_fremovexattr(Call& c);

}  // namespace crashcut::inprocess
