// Record: runs of an unmodified program on the kernel's own filesystem, each into a trace of what the disk was sent.
//
// The disk is an image in memory, served as a file by FUSE, with a loop device on it (direct I/O: every request of the
//   filesystem arrives by itself), and the filesystem mounted from that. Each run is a sandbox of its own. When that
//   ends, by whatever, the mounts go with it, and the loop device detaches itself.
// What is recorded begins when the filesystem is mounted and the program starts. It ends when the filesystem is
//   unmounted again, so crashes during the last writeback are part of it.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/kernel/forcing.h"
#include "recovery/kernel/plan.h"
#include "recovery/mounted/expectations.h"
#include "recovery/mounted/question.h"
#include "recovery/sandbox/sandbox.h"
#include "recovery/search/channel.h"

namespace crashcut::kernel {

// What the program left on crashcut's own disk: the kernel's disk must hold the same at the end of every run, or the
// questions mean nothing.
struct Expected {
  const std::vector<mounted::Question>& questions;
  const mounted::Histories& histories;
};

// Runs the function in a sandbox with namespaces of its own, and gets its answer. An answer with a "failure", a
// sentence, and "is_users" becomes that failure. Once `should_stop` says yes, all that is inside is killed, and the
// answer has "stopped".
tl::expected<search::Json, Failure> in_sandbox(const std::string& directory,
                                               const std::function<search::Json(const sandbox::Inside&)>& function,
                                               const std::function<bool()>& should_stop = {});

// Makes the disk that every run starts from: the filesystem, --from and --setup. False where it was stopped.
tl::expected<bool, Failure> make_base(const mounted::RecordPlan& program, const DiskPlan& disk,
                                      const std::function<bool()>& should_stop = {});

struct RunsSoFar {
  std::uint32_t done = 0;   // runs that came to their end
  std::uint32_t calls = 0;  // that the program made in the first of them: what can be forced depends on it
  bool is_all = false;      // there are no others
};
// Runs the program as often as the plan says, or until `should_stop`. Goes on behind the runs that are there already.
tl::expected<RunsSoFar, Failure> record_runs(const mounted::RecordPlan& program, const DiskPlan& disk,
                                             const Expected& expected, std::uint64_t seed,
                                             const std::function<bool()>& should_stop, RunsSoFar runs = {});

}  // namespace crashcut::kernel
