// The ioctls of a block device: what a program asks, and the memory of the program in which question and answer lie.
//
// FUSE copies as much of an ioctl's argument as its number says (_IOC_SIZE). The numbers of most ioctls of block
// devices
//   say nothing. FUSE passes on the address that the program gave, so crashcut reads and writes there by itself
//   (process_vm_readv). That works for all programs that crashcut runs: it is their ancestor, and the thread that asks
//   waits meanwhile.
// Answers: BLKGETSIZE, BLKGETSIZE64, BLKSSZGET, BLKPBSZGET, BLKBSZGET, BLKIOMIN, BLKIOOPT, BLKALIGNOFF, BLKROGET,
//   BLKDISCARDZEROES, BLKROTATIONAL. BLKDISCARD, BLKZEROOUT and BLKFLSBUF do something: see device_mount.cc.
// Source: linux/block/ioctl.c, blkdev_common_ioctl() and below.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace crashcut::blocklayer {

struct BlockFact {
  std::uint64_t value;
  std::size_t size;  // bytes of it that are the answer
};
// What a device of so many bytes answers. None: the command asks for something else.
std::optional<BlockFact> fact_of(unsigned command, std::uint64_t bytes, std::uint32_t sector_bytes, bool is_32_bit);

// 0 or an errno. `at` is an address of the program's.
int write_answer(pid_t thread, void* at, const BlockFact& fact);

// What BLKDISCARD and BLKZEROOUT are given.
struct ByteRange {
  std::uint64_t offset = 0, length = 0;
};
std::optional<ByteRange> read_range(pid_t thread, const void* at);

}  // namespace crashcut::blocklayer
