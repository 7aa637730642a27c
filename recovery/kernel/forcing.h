// Forcing: what the kernel is made to do between two system calls of the program, so that repeated runs show more of
// the states that it could leave.
//
// The kernel commits its journal and writes data back when it likes, every few seconds as a rule. One run of a short
//   program shows little of that. A run with a forcing does one of these before every call of the program that changes
//   files, or before one of them, and after the program has ended:
//   kCommit          an unrelated file without a name is grown and fsynced: the journal is committed, and no data of
//                    the program is written.
//   kWriteback       the data of all files is written back (sync_file_range), and then the journal is committed.
//   kHeldWriteback   the same, but the recording device answers these writes only after the commit, or after a moment
//                    if the commit waits for them.
// The program's own files are read by name and not changed.
// Does not force: a commit in the middle of a system call; writeback of a part of a file (both may miss bugs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blocklayer/mount/device_mount.h"
#include "recovery/kernel/filesystem.h"
#include "recovery/sandbox/fd.h"

namespace crashcut::kernel {

enum class Force : std::uint8_t { kNothing, kCommit, kWriteback, kHeldWriteback };

struct Forcing {
  Force force = Force::kNothing;
  std::uint32_t at = 0;  // before which call, from 1 on; 0: before every call
};
// "commits before every call"
std::string to_text(const Forcing& forcing);

// The first `count` forcings of a program that makes so many calls, the most telling first.
std::vector<Forcing> choose_forcings(std::uint32_t count, std::uint32_t call_count, std::uint64_t seed);

// Forces, on a filesystem that is mounted.
class Forcer {
 public:
  Forcer(const std::string& directory, const KernelFilesystem& filesystem, const Forcing& forcing,
         blocklayer::DeviceMount& device);

  // The program is about to make a call.
  void before_call();
  // It has ended.
  void at_end();
  std::uint32_t call_count() const { return call_count_; }
  // A sentence, where the kernel cannot be made to commit.
  const std::string& error() const { return error_; }

 private:
  void force();
  void commit();
  void write_back(bool waits);

  std::string directory_, type_;
  Forcing forcing_;
  blocklayer::DeviceMount& device_;
  sandbox::Fd unrelated_;
  std::uint64_t grown_ = 0;
  std::uint32_t call_count_ = 0;
  std::string error_;
};

}  // namespace crashcut::kernel
