#include "recovery/inprocess/op_stacks.h"

#include "inject/call_stack.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/runtime.h"
#include "scheduler/runtime/world.h"

namespace crashcut::inprocess {
namespace {

constinit thread_local CallSites t_calls __attribute__((tls_model("initial-exec"))) = {};

}  // namespace

void OpStacks::note(std::size_t operation, const CallSites& calls) {
  if (of_operation_.size() <= operation) of_operation_.resize(operation + 1);
  const auto next = static_cast<std::uint32_t>(numbers_.size() + 1);
  of_operation_[operation] = calls[0] == 0 ? 0 : numbers_.try_emplace(calls, next).first->second;
}

void OpStacks::name() {
  texts_.resize(numbers_.size());
  for (const auto& [calls, number] : numbers_) texts_[number - 1] = text_of_calls(calls);
}

const std::string& OpStacks::text_of(std::size_t operation) const {
  static const std::string kNone;
  const std::uint32_t number = operation < of_operation_.size() ? of_operation_[operation] : 0;
  return number == 0 || number > texts_.size() ? kNone : texts_[number - 1];
}

const CallSites& current_calls() { return t_calls; }

// main() is recorded; of recoveries only those that are told.
void find_current_calls() {
  t_calls = {};
  if (scheduler::runtime::is_scheduling()) return;  // the unwinder's locks would be steps
  const bool is_told = g.narrating || (g_phase == Phase::kExecuting && g.model->recorder != nullptr);
  if (!is_told || inject::t_is_own_code) return;
  inject::t_is_own_code = true;
  inject::unwind(t_calls.data(), static_cast<std::uint32_t>(t_calls.size()));
  inject::t_is_own_code = false;
}

std::string text_of_calls(const CallSites& calls) {
  std::string text;
  for (const std::uint64_t call : calls) {
    if (call != 0) text += name_place(call);
  }
  return text;
}

void note_op_stack() {
  if (g_phase == Phase::kExecuting) g.model->op_stacks.note(g.model->recorder->recording().ops.size() - 1, t_calls);
}

}  // namespace crashcut::inprocess
