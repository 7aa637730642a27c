#include "blocklayer/mount/block_ioctls.h"

#include <linux/fs.h>
#include <sys/uio.h>

#include <cerrno>

namespace crashcut::blocklayer {

std::optional<BlockFact> fact_of(unsigned command, std::uint64_t bytes, std::uint32_t sector_bytes, bool is_32_bit) {
  constexpr std::uint64_t kPageBytes = 4096;
  switch (command) {
    case BLKGETSIZE:
      return BlockFact{bytes / 512, is_32_bit ? std::size_t{4} : sizeof(long)};
    case BLKGETSIZE64:
      return BlockFact{bytes, 8};
    case BLKBSZGET:
      return BlockFact{kPageBytes, 4};
    case BLKSSZGET:
    case BLKPBSZGET:
    case BLKIOMIN:
      return BlockFact{sector_bytes, 4};
    case BLKIOOPT:
    case BLKALIGNOFF:
    case BLKROGET:
    case BLKDISCARDZEROES:
      return BlockFact{0, 4};
    case BLKROTATIONAL:
      return BlockFact{0, 2};
    default:
      return std::nullopt;
  }
}

int write_answer(pid_t thread, void* at, const BlockFact& fact) {
  BlockFact copy = fact;
  const iovec here{&copy.value, copy.size};
  const iovec there{at, copy.size};
  return process_vm_writev(thread, &here, 1, &there, 1, 0) == static_cast<ssize_t>(copy.size) ? 0 : EFAULT;
}

std::optional<ByteRange> read_range(pid_t thread, const void* at) {
  ByteRange range;
  const iovec here{&range, sizeof range};
  const iovec there{const_cast<void*>(at), sizeof range};
  if (process_vm_readv(thread, &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof range)) return std::nullopt;
  return range;
}

}  // namespace crashcut::blocklayer
