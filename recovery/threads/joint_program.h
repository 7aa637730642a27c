// JointProgram: a threaded program whose files are modelled: run under given schedules, then crashed.
//
// One process tree (recovery/inprocess/scheduled_calls.cc) with two ends here: RealProgram for the schedules, Session
// for the recoveries of the execution that came last. Several machines are one process tree each; there are no
// recoveries of theirs.
#pragma once

#include <atomic>
#include <memory>

#include "recovery/inprocess/session.h"
#include "recovery/threads/check.h"
#include "recovery/threads/log_digest.h"

namespace crashcut::recovery {

// Of every execution: what the scheduler's end found, and what was written.
struct JointNote : scheduler::runtime::Details {
  std::optional<LogDigest> log;
};

class JointProgram final : public scheduler::Program {
 public:
  struct Setup {
    bool is_opaque = false;
    bool is_loud = false;
    bool has_details = false;
    bool has_digest = false;
    bool is_watching = false;        // for threads that meet without a call
    bool is_known_to_hang = false;   // after the schedule a thread hangs: not all of the step limit is waited for
    std::uint32_t racy_count = 0;    // of the names': accesses there are operations
    std::uint32_t stop_at_step = 0;  // for a debugger: wait after this step, from 1
    std::uint32_t hold_answer = 0;   // for a debugger: the recovery waits (inprocess::Session::Setup)
    std::function<void(int process)> on_held{};
    std::uint32_t worker = 0;         // of those that run at the same time, from 0
    std::function<bool()> is_late{};  // once it says yes, what runs is ended; empty: never
    bool begins_late = false;         // its processes are made for its first run
  };
  // Throws ToolError. `plan` and `names` outlive it.
  JointProgram(const ThreadPlan& plan, scheduler::runtime::NameTable& names, const Setup& setup);
  ~JointProgram() override;

  scheduler::Execution run(const scheduler::RunRequest& request) override;
  int run_held(const scheduler::RunRequest& request) { return program_->run_held(request); }
  inprocess::Session& session() { return *sessions_.front(); }
  bool has_begun() const { return has_begun_.load(std::memory_order_acquire); }  // any thread may ask
  const scheduler::runtime::RealProgram& program() const { return *program_; }

 private:
  void begin();
  void launch(const ThreadPlan& plan, std::uint32_t machine, int control_fd, int names_fd);

  const ThreadPlan& plan_;
  scheduler::runtime::NameTable& names_;
  Setup setup_;
  std::vector<std::unique_ptr<inprocess::Session>> sessions_;  // one a machine
  std::unique_ptr<scheduler::runtime::RealProgram> program_;
  std::atomic<bool> has_begun_{false};
};

}  // namespace crashcut::recovery
