// ConformCompare: one program on the model and on the kernel's ext4, and what a crash can leave of it on each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/conform_case.h"
#include "cli/conform_table.h"
#include "recovery/kernel/plan.h"
#include "recovery/run.h"

namespace crashcut::cli {

// How the programs are run.
struct ConformSetup {
  std::string mount;  // options of the mount, for both sides: "data=journal"
  std::uint32_t runs = 4, subsets = 32;
  std::uint64_t seed = 0;
};

// A state that the kernel left and the model does not allow.
struct OutsideState {
  std::string state;
  std::string how;                   // which image showed it first
  std::uint64_t images = 0;          // how many did
  std::string file;                  // the first one; empty: it could not be kept
  std::vector<std::string> marks{};  // that the program had made by then
  bool replays = true;               // the image, mounted again, showed it again
};
struct NotShown {
  std::string state;
  SlackRule rule;
};

struct Compared {
  bool is_skipped = false;  // the model's states are too many, or the program fails by itself
  bool is_stopped = false;  // nothing is known
  std::uint64_t images = 0, chosen = 0, seen = 0;
  std::uint64_t allowed = 0;
  // States that the model leaves out, of images whose metadata is of no one moment: without barriers only.
  std::uint64_t damaged = 0;
  std::vector<OutsideState> outside{};
  std::vector<std::string> allowed_states{};  // if there are states outside
  std::vector<NotShown> not_shown{};
};

// Threads: one. Programs are compared one after the other.
class Comparer {
 public:
  using States = std::set<std::string>;

  // `directory` is for the disk, its runs and the images that are kept. `should_stop` ends a comparison early.
  Comparer(ConformSetup setup, std::string directory, std::function<bool()> should_stop)
      : setup_(std::move(setup)), directory_(std::move(directory)), should_stop_(std::move(should_stop)) {}

  // Reads the options of the mount, and finds what is needed.
  tl::expected<void, result::Failure> start();
  // Makes the disk that every run starts from. Needed before compare().
  tl::expected<void, result::Failure> make_disk();

  tl::expected<Compared, result::Failure> compare(const ConformCase& one);
  // What the model allows; nothing if its search did not end, or if a program of others fails by itself: a litmus may
  // need blocks of another size.
  tl::expected<std::optional<States>, result::Failure> model_states(const ConformCase& one) {
    return model_states(model_, one);
  }
  const kernel::DiskPlan& disk() const { return disk_; }

 private:
  tl::expected<std::optional<States>, result::Failure> model_states(const fusefs::ModelOptions& model,
                                                                    const ConformCase& one);
  // The weakest feature without which the model would not allow the state.
  tl::expected<SlackRule, result::Failure> rule_of(const std::string& state, const ConformCase& one);

  ConformSetup setup_;
  std::string directory_;
  std::function<bool()> should_stop_;
  fusefs::ModelOptions model_;
  recovery::Plan plan_;
  kernel::DiskPlan disk_;
  mounted::RecordPlan program_;
  std::uint32_t compared_ = 0;  // programs
  std::string variants_of_;     // of which program the states below are
  std::map<std::string, States> variant_states_;
};

// "kernel:ext4:data=journal"
std::string filesystem_of(const std::string& mount);

}  // namespace crashcut::cli
