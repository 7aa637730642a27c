// KernelStates: what a program can find on the kernel's filesystem after a crash, as far as runs and images show it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/kernel/plan.h"

namespace crashcut::kernel {

// The command that says what a disk holds, on its stdout.
struct Looking {
  mounted::CommandLine command;
  bool is_read_only = true;  // it writes nothing
  bool may_fail = false;     // its exit status says nothing
};

// What an image showed: the first image that did, in words, and what is needed to look at it again.
struct ShownState {
  std::string how;
  std::uint64_t images = 0;          // so many showed it
  std::string file{};                // the first one; empty: it was not kept
  std::vector<std::string> marks{};  // those that the program had made by then
  bool replays = true;               // that image, mounted again, showed it again
};

struct KernelStates {
  std::map<std::string, ShownState> states;  // by what was printed
  // The same of images whose metadata is of no one moment (metadata_history.h): only of mounts without barriers.
  std::map<std::string, ShownState> damaged{};
  std::uint64_t images = 0;  // mounted: equal ones, also after the replay of the journal, once
  std::uint64_t chosen = 0;  // before that
  bool is_stopped = false;   // it was stopped, and has no states
};

// Which states are of no interest, and where the first image of each other one is kept: `prefix`1.img, `prefix`2.img.
// An image that is kept is looked at twice. Those of damaged images are not kept.
struct KeptImages {
  std::function<bool(const std::string& state)> is_expected{};  // none: no image is kept
  std::string prefix{};
};

// Looks at every image of the runs that are in the program's directory, until `should_stop`.
tl::expected<KernelStates, Failure> states_of_runs(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                   const Looking& looking, std::uint64_t seed,
                                                   const KeptImages& kept = {},
                                                   const std::function<bool()>& should_stop = {});
// The same, after it has run the program as record_runs() does, over the base that is in its directory.
tl::expected<KernelStates, Failure> find_states(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                const Looking& looking, std::uint64_t seed, const KeptImages& kept = {},
                                                const std::function<bool()>& should_stop = {});
// What one image shows that was kept. `directory` is for what is needed meanwhile. Nothing where the program assumes
// the state away.
tl::expected<std::optional<std::string>, Failure> state_of_image(const std::string& image, const std::string& directory,
                                                                 const DiskPlan& disk, const Looking& looking,
                                                                 const std::vector<std::string>& marks);

}  // namespace crashcut::kernel
