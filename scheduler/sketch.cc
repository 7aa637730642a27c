// Tree's part that makes a sketch and goes on from one.
#include "scheduler/sketch.h"

#include <algorithm>

#include "scheduler/dependence.h"
#include "scheduler/tree.h"

namespace crashcut::scheduler {

namespace {

BranchSketch sketch_of(const Branch& branch) {
  BranchSketch sketch{branch.step.actor, branch.is_preemption, {}};
  for (const Branch& child : branch.children) sketch.children.push_back(sketch_of(child));
  return sketch;
}

// What the actor stands before after `depth` steps of the execution, with its result there.
Step step_at(const Execution& execution, std::size_t depth, const State& state, ActorId actor) {
  Step step{actor, {}};
  const auto begin = execution.steps.begin() + static_cast<std::ptrdiff_t>(std::min(depth, execution.steps.size()));
  const auto it = std::find_if(begin, execution.steps.end(), [&](const Step& s) { return s.actor == actor; });
  if (it != execution.steps.end()) step.operation = it->operation;
  for (const Pending& p : execution.pending) {
    if (it == execution.steps.end() && p.actor == actor) step.operation = p.operation;
  }
  for (const PassedOver& other : execution.passed_over) {
    if (other.step == depth && other.pending.actor == actor) step.operation = other.pending.operation;
  }
  for (Access& a : step.operation) a.is_observed = false;
  if (step.operation.size() > 0 && state.is_enabled(actor, step.operation)) State(state).apply(step);
  return step;
}

class Restorer {
 public:
  Restorer(Program& program, std::uint32_t depth_most) : program_(&program), depth_most_(depth_most) {}

  Execution run(const std::vector<ActorId>& prefix) {
    RunRequest request;
    request.prefix = prefix;
    request.depth_most = depth_most_;
    Execution execution = program_->run(request);
    is_whole_ = is_whole_ && execution.ending != Ending::kDiverged && execution.steps.size() >= prefix.size();
    return execution;
  }
  // The branch, whose steps are those of an execution that takes it.
  Branch branch(const BranchSketch& sketch, std::vector<ActorId> prefix) {
    prefix.push_back(sketch.actor);
    Branch made;
    made.is_preemption = sketch.is_preemption;
    for (const BranchSketch& child : sketch.children) made.children.push_back(branch(child, prefix));
    std::vector<ActorId> way = prefix;
    for (const BranchSketch* s = &sketch; !s->children.empty(); s = &s->children.front())
      way.push_back(s->children.front().actor);
    const Execution execution = run(way);
    if (is_whole_) made.step = execution.steps[prefix.size() - 1];
    return made;
  }
  // Who sleeps after `prefix`, a part of `along`. What a call on files does depends on its place: it is run there.
  Step sleeper(const Execution& along, std::vector<ActorId> prefix, const State& state, ActorId actor) {
    const std::size_t depth = prefix.size();
    Step step = step_at(along, depth, state, actor);
    if (!is_file_call(step.operation)) return step;
    prefix.push_back(actor);
    const Execution execution = run(prefix);
    return is_whole_ ? execution.steps[depth] : step;
  }
  bool is_whole() const { return is_whole_; }

 private:
  Program* program_;
  std::uint32_t depth_most_;
  bool is_whole_ = true;
};

}  // namespace

TreeSketch Tree::sketch() const {
  TreeSketch sketch;
  sketch.is_unbegun = !is_begun_;
  for (const Node* node = root_.get(); node != nullptr; node = node->open.get()) {
    NodeSketch s{node->depth, node->preemptions, node->started, {node->done[0], node->done[1]}, {}, {}};
    for (const Step& step : node->sleep) s.sleep.push_back(step.actor);
    for (const Branch& branch : node->pending) s.pending.push_back(sketch_of(branch));
    if (!s.pending.empty() || s.preemptions > 0 || s.started > 1 || s.sleep.size() > 1)
      sketch.nodes.push_back(std::move(s));
    if (node->open != nullptr) sketch.path.push_back(node->open->step.actor);
  }
  return sketch;
}

bool Tree::restore(const TreeSketch& sketch, Program& program, std::uint32_t depth_most) {
  if (sketch.is_unbegun) return true;
  Restorer restorer(program, depth_most);
  const Execution along = restorer.run(sketch.path);
  if (!restorer.is_whole()) return false;
  merge_objects(along);
  is_begun_ = true;
  State state(along.objects);
  auto known = sketch.nodes.begin();
  Node* node = root_.get();
  for (std::size_t depth = 0;; ++depth) {
    lowest_ = node;
    node->sleep.clear();
    if (known != sketch.nodes.end() && known->depth == depth) {
      const std::vector<ActorId> prefix(sketch.path.begin(), sketch.path.begin() + static_cast<std::ptrdiff_t>(depth));
      for (const BranchSketch& branch : known->pending) node->pending.push_back(restorer.branch(branch, prefix));
      for (const ActorId actor : known->sleep) node->sleep.push_back(restorer.sleeper(along, prefix, state, actor));
      node->is_uncertain = true;  // the sketch does not tell
      node->preemptions = known->preemptions;
      node->started = known->started;
      for (const int cost : {0, 1}) node->done[cost] = Done::of(known->done[cost]);
      ++known;
    } else {
      node->started = 1;
      if (has_sleepers_ && depth < sketch.path.size()) node->sleep.push_back(along.steps[depth]);
    }
    if (depth == sketch.path.size() || !restorer.is_whole()) break;
    node->open = std::make_unique<Node>();
    node->open->parent = node;
    node->open->depth = node->depth + 1;
    node->open->step = along.steps[depth];
    Operation operation = along.steps[depth].operation;
    state.apply(along.steps[depth].actor, operation);
    node = node->open.get();
  }
  return restorer.is_whole() && !lowest_->pending.empty();
}

}  // namespace crashcut::scheduler
