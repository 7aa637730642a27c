// DiskRecoverer: asks a crashed disk: reads a file of it, or runs the user's checker on it.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "fusefs/recorder.h"
#include "recovery/mounted/command_runner.h"
#include "recovery/mounted/question.h"
#include "recovery/search/front_end.h"

namespace crashcut::mounted {

class DiskRecoverer final : public search::Recoverer {
 public:
  struct Setup {
    const fusefs::Recording& recording;
    const Histories& histories;
    const std::vector<Question>& questions;
    const fusefs::TraceBytes* trace = nullptr;          // the bytes of what was recorded, if they are mapped
    CommandRunner* runner = nullptr;                    // none: there are no questions for a checker
    std::string image_directory;                        // where explored states are written to; empty: nowhere
    std::atomic<std::uint64_t>* image_count = nullptr;  // of all workers
    const std::atomic<bool>* stop = nullptr;            // once it is set a recovery ends soon, as stopped
  };
  explicit DiskRecoverer(Setup setup);

  search::Ending recover(std::size_t question, std::span<const search::Crash> crashes, persist::Chooser& chooser,
                         std::shared_ptr<const persist::Recording>* next) override;
  bool runs_code(std::size_t question) const override { return is_for_checker(setup_.questions[question]); }
  std::vector<result::FileView> files(std::size_t question, std::span<const search::Crash> crashes) override;
  tl::expected<void, search::Failure> on_counted(const search::Run& run,
                                                 std::span<const search::Crash> crashes) override;

  // Runs another command on the state: a shell. A sentence on what went wrong.
  std::string visit(std::span<const search::Crash> crashes, CommandRunner& visitor) const;

 private:
  Setup setup_;
  std::vector<persist::Mark> marks_;
  struct Image {
    std::string name;
    std::uint64_t followers = 0;  // of the next layer, so far
  };
  std::vector<Image> images_;  // the last one of each layer
};

// What a run of the user's checker came to; and an answer about a file.
search::Ending ending_of(CommandResult result);
search::Ending ending_of(Answer answer);

// The state as a plain tree; what was not read is the newest. A sentence on what went wrong.
std::string copy_state(std::span<const search::Crash> crashes, const std::string& directory);

}  // namespace crashcut::mounted
