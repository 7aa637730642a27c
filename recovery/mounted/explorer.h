// Explorer: recoveries on the crash states of one recording, one question at a time.
//
// A question is what is asked of every state: a file's wholeness (pure, in this process) or the user's command (on a
//   mount). A recovery decides what it reads and nothing else; ChoiceTree makes sure that no two see the same.
// With depth 2 the command's own writes are recorded on top of the state, and crashed in turn: below each recovery of
//   the first layer hangs a tree of its own.
// Threads: one explorer belongs to one thread; the recording may be shared.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "fusefs/mount/mount.h"
#include "fusefs/recorder.h"
#include "persist/explore.h"
#include "recovery/mounted/expectations.h"
#include "recovery/result/path.h"
#include "recovery/result/story.h"

namespace crashcut::mounted {

struct CommandQuestion {};  // the user's checker
using Question = std::variant<FileQuestion, CommandQuestion>;
// "notes.txt", "the checker"
std::string subject_of(const Question& question);

using result::kCrashAgain;

// What the checker did.
struct CommandResult {
  Answer answer;
  int code = 0;
  int signal = 0;
  std::string output, errors;
  bool output_cut = false, errors_cut = false;
  bool read_by_pages = false;
  bool was_stopped = false;  // before it was done: there is no answer
  std::string failure;       // of crashcut: the command could not be run at all
  bool is_users_fault = false;
};

// Runs the user's command on a volume.
class CommandRunner {
 public:
  virtual ~CommandRunner() = default;
  // `certain` are the marks that were reached whatever the command reads. `reached` asks about another one.
  virtual CommandResult run(fusefs::Volume& volume, const std::vector<std::string>& certain,
                            const std::function<bool(const std::string&)>& reached) = 0;
};

struct Run {
  CommandResult result;
  std::vector<std::uint32_t> path;  // kCrashAgain between layers
  std::uint32_t events_in = 0;      // of the first crash
  std::uint32_t layer = 1;
  bool diverged = false;
  bool is_cut_short = false;  // not everything below it was explored
};

// Everything of one recovery, to tell it.
struct Told {
  Run run;
  result::Story story;
};

class Explorer {
 public:
  struct Setup {
    const fusefs::Recording& recording;
    const Histories& histories;
    CommandRunner* runner = nullptr;  // none: there are no command questions
    std::uint32_t depth = 1;
    std::function<bool()> is_enough = [] { return false; };  // asked between the deeper recoveries of one
  };
  explicit Explorer(Setup setup);
  ~Explorer();

  // One recovery of the first layer, and all deeper ones below it; each goes to `on_run`.
  // Returns the first layer's.
  Run run(const Question& question, persist::ChoiceTree& tree, const std::function<void(const Run&)>& on_run);
  // The recovery of one path, with its story. `diverged` where the path does not fit.
  Told tell(const Question& question, const std::vector<std::uint32_t>& path);
  // The recovery on the cut that holds exactly `events`, less `drop` and all above it (first layer only).
  Run run_cut(const Question& question, const std::vector<std::uint32_t>& events, std::uint32_t drop);
  // One recovery by any chooser: a sample. Its path is what was chosen.
  Run sample(const Question& question, persist::Chooser& chooser);
  // The state that a recovery found, as a plain tree; what it did not read is the newest. In on_run of whichever it is
  // told, elsewhere of the last one of the first layer. Returns what went wrong.
  std::string copy_state(const std::string& directory) const;
  // The same with the state that the recovery of a path found, of whatever layer; a sentence.
  std::string copy_state(const Question& question, const std::vector<std::uint32_t>& path,
                         const std::string& directory);
  // The state of a path for another command: a shell. A sentence on what went wrong.
  std::string visit_state(const Question& question, const std::vector<std::uint32_t>& path,
                          const std::function<CommandRunner&()>& visitor);

 private:
  struct Crash;
  struct Layers;
  struct Followed;
  Followed follow(const Question& question, const std::vector<std::uint32_t>& path);
  Run run_on(const Question& question, Layers& layers, persist::Chooser& chooser,
             std::unique_ptr<fusefs::Recorder>* recorder);
  // False where it was cut short.
  bool explore_below(const Question& question, const Layers& layers, const Run& above, const fusefs::Recorder& recorder,
                     const std::function<void(const Run&)>& on_run);

  Setup setup_;
  std::vector<persist::Mark> marks_;
  std::unique_ptr<persist::Cut> cut_;  // of the first layer, reset for each recovery
  std::unique_ptr<Layers> found_;      // what copy_state() copies
};

}  // namespace crashcut::mounted
