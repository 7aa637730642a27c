#include "scheduler/tree.h"

#include <algorithm>

#include "scheduler/company.h"
#include "scheduler/dependence.h"
#include "scheduler/initials.h"

namespace crashcut::scheduler {

namespace {

bool is_unknown_step(const Step& step) { return is_unknown(step.operation); }

// Whether a step is the event that it was to be: the same call of the same actor, done or interrupted as it was
// (signal.h). A call that a signal interrupted is done once more afterwards, so what follows is not the same.
bool is_same_event(const Step& known, const Step& came) {
  return known.actor == came.actor && known.operation.is_same_call(came.operation) &&
         known.operation.is_interrupted() == came.operation.is_interrupted();
}

bool is_same_request(const RunRequest& x, const RunRequest& y) {
  const auto is_same_actor = [](const Step& a, const Step& b) { return a.actor == b.actor; };
  return x.prefix == y.prefix &&
         std::equal(x.sleep.begin(), x.sleep.end(), y.sleep.begin(), y.sleep.end(), is_same_actor);
}

std::vector<const Node*> nodes_to(const Node* node) {
  std::vector<const Node*> nodes;
  for (; node->parent != nullptr; node = node->parent) nodes.push_back(node);
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

std::vector<Step> Tree::steps_to(const Node* node) {
  std::vector<Step> steps;
  for (const Node* n : nodes_to(node)) steps.push_back(n->step);
  return steps;
}

State Tree::state_at(const Node* node) const {
  State state(objects_);
  for (Step& step : steps_to(node)) state.apply(step);
  return state;
}

// The branches started before this one sleep in it; it will sleep in those to come.
Node* Tree::add_child(Node* node, const Step& step, const State& after) {
  auto child = std::make_unique<Node>();
  child->parent = node;
  child->step = step;
  child->depth = node->depth + 1;
  if (has_sleepers_) {
    child->sleep = node->sleep;
    wake_sleepers(child->sleep, step, after);
    node->sleep.push_back(step);
  }
  ++node->started;
  node->open = std::move(child);
  return node->open.get();
}

std::optional<Tree::Task> Tree::take() {
  if (root_ == nullptr) return std::nullopt;
  if (!is_begun_) {
    is_begun_ = true;
    return Task{root_.get(), std::make_shared<Run>()};
  }
  Node* node = lowest_;
  branch_depth_ = node->depth;
  State state = looks_at_states_ ? state_at(node) : State();
  const Node* branch_node = node;
  std::vector<Step> sleep_before = node->sleep;
  std::shared_ptr<Run> run;
  // A wakeup tree is followed down to its first leaf; what lies beside the way stays pending.
  do {
    Branch branch = std::move(node->pending.front());
    node->pending.pop_front();
    if (node == lowest_) run = std::move(branch.run);
    if (looks_at_states_) state.apply(branch.step);
    const bool is_uncertain = node->is_uncertain && !branch.children.empty();
    node = add_child(node, branch.step, state);
    node->is_uncertain = is_uncertain;
    for (Branch& child : branch.children) node->pending.push_back(std::move(child));
  } while (!node->pending.empty());
  RunRequest request;
  for (const Node* n : nodes_to(node)) request.prefix.push_back(n->step.actor);
  if (has_sleepers_) request.sleep = std::move(sleep_before);
  request.sleep_from = branch_node->depth;
  if (run != nullptr && !is_same_request(run->request, request)) {
    CHECK(branch_node->is_uncertain);
    run = nullptr;
  }
  if (run == nullptr) {
    run = std::make_shared<Run>();
    run->request = std::move(request);
  }
  return Task{node, std::move(run)};
}

static Branch fold(Node& node) {
  Branch branch{node.step, {}};
  if (node.open != nullptr) branch.children.push_back(fold(*node.open));
  for (Branch& beside : node.pending) branch.children.push_back(std::move(beside));
  return branch;
}

void Tree::put_back() {
  if (lowest_ == nullptr) {
    is_begun_ = false;
    return;
  }
  Node& node = *lowest_;
  node.pending.push_front(fold(*node.open));
  node.open = nullptr;
  --node.started;
  if (has_sleepers_) node.sleep.pop_back();
}

void Tree::take_back(Node* leaf) {
  leaf->open = nullptr;
  leaf->pending.clear();
  leaf->started = 0;
  path_.clear();
  if (lowest_ == nullptr) {
    leaf->sleep.clear();
    leaf->is_uncertain = false;
  } else {
    // The nodes on the way become branches, which have no such mark of their own.
    for (const Node* node = leaf; node != lowest_; node = node->parent)
      lowest_->is_uncertain = lowest_->is_uncertain || node->is_uncertain;
  }
  put_back();
}

RunRequest Tree::request_of(const Node& node, const std::list<Branch>::iterator branch) const {
  RunRequest request;
  for (const Node* n : nodes_to(&node)) request.prefix.push_back(n->step.actor);
  request.sleep_from = node.depth;
  if (has_sleepers_) {
    const State state = state_at(&node);
    request.sleep = node.sleep;
    for (auto it = const_cast<Node&>(node).pending.begin(); it != branch; ++it) {
      State aside = state;
      request.sleep.push_back(it->step);
      aside.apply(request.sleep.back());
    }
  }
  for (const Branch* b = &*branch; b != nullptr; b = b->children.empty() ? nullptr : &b->children.front()) {
    request.prefix.push_back(b->step.actor);
  }
  return request;
}

std::shared_ptr<Run> Tree::take_ahead(bool may_be_in_vain) {
  if (root_ == nullptr) return nullptr;
  Node* node = root_.get();
  while (node->open != nullptr) node = node->open.get();
  for (; node != nullptr; node = node->parent) {
    // Whatever sleeps meanwhile must be known: a call on files may do other things in its new place.
    if (std::any_of(node->sleep.begin(), node->sleep.end(), is_unknown_step) || (node->is_uncertain && !may_be_in_vain))
      continue;
    for (auto it = node->pending.begin(); it != node->pending.end(); ++it) {
      if (it->run == nullptr) {
        it->run = std::make_shared<Run>();
        it->run->request = request_of(*node, it);
        return it->run;
      }
      if (has_sleepers_ && is_unknown_step(it->step)) break;
    }
  }
  return nullptr;
}

void Tree::merge_objects(const Execution& execution) {
  for (const ObjectStart& start : execution.objects) {
    const auto it =
        std::find_if(objects_.begin(), objects_.end(), [&](const ObjectStart& s) { return s.object == start.object; });
    if (it == objects_.end()) {
      objects_.push_back(start);
    } else {
      *it = start;
    }
  }
}

Tree::Extended Tree::extend(Node* leaf, const Execution& execution) {
  merge_objects(execution);
  path_.clear();
  for (Node* n = leaf; n != nullptr; n = n->parent) path_.push_back(n);
  std::reverse(path_.begin(), path_.end());
  const auto diverged_at = [&](std::size_t step) {
    divergence_ = {step, path_[step + 1]->step};
    return Extended::kDiverged;
  };
  for (std::size_t k = 0; k < leaf->depth; ++k) {
    if (k == execution.steps.size()) return diverged_at(k);
    if (!is_same_event(path_[k + 1]->step, execution.steps[k])) return diverged_at(k);
  }
  if (!looks_at_states_) {
    for (std::size_t k = 0; k < leaf->depth; ++k) path_[k + 1]->step = execution.steps[k];
    for (std::size_t k = leaf->depth; k < execution.steps.size(); ++k)
      path_.push_back(add_child(path_.back(), execution.steps[k], {}));
    return Extended::kYes;
  }
  State state(execution.objects), at_branch = state;
  Company company(execution);
  const auto note_company = [&](std::size_t k) {
    path_[k]->has_company = path_[k]->has_company || company.is_at(k, state);
  };
  for (std::size_t k = 0; k < leaf->depth; ++k) {
    Step step = execution.steps[k];
    path_[k + 1]->step = step;
    if (k == branch_depth_) at_branch = state;
    note_company(k);
    state.apply(step);
    if (has_sleepers_ && k >= branch_depth_)
      settle_sleep(*path_[k], *path_[k + 1], k + 1 < leaf->depth ? path_[k + 2] : nullptr, state);
  }
  if (is_leaf_in_vain(at_branch)) {
    put_back();
    drop_first_leaf(*lowest_);
    path_.resize(lowest_->depth + 1);
    return Extended::kInVain;
  }
  for (std::size_t k = leaf->depth; k < execution.steps.size(); ++k) {
    Step step = execution.steps[k];
    note_company(k);
    state.apply(step);
    path_.push_back(add_child(path_.back(), execution.steps[k], state));
  }
  return Extended::kYes;
}

// path() ends with the leaf: what its branch does is known now, and may be explored elsewhere.
bool Tree::is_leaf_in_vain(const State& at_branch) const {
  if (!has_wakeup_trees_ || lowest_ == nullptr || !lowest_->is_uncertain) return false;
  std::vector<Step> sequence;
  for (std::size_t k = lowest_->depth + 1; k < path_.size(); ++k) sequence.push_back(path_[k]->step);
  // Its own first step sleeps there too.
  return is_vouched_for(std::span(lowest_->sleep).first(lowest_->sleep.size() - 1), at_branch, sequence);
}

// What the step of a new branch does in its place is known now: how it sleeps in the branches after it, and who sleeps
// below it. `next` is the node below, where the branch goes on.
void Tree::settle_sleep(Node& parent, Node& child, const Node* next, const State& after) const {
  CHECK(!parent.sleep.empty() && parent.sleep.back().actor == child.step.actor);
  parent.sleep.back() = child.step;
  child.sleep = parent.sleep;
  wake_sleepers(child.sleep, child.step, after);
  if (next != nullptr) child.sleep.push_back(next->step);
}

}  // namespace crashcut::scheduler
