#include "persist/cut_stack.h"

#include <algorithm>

#include "persist/check.h"

namespace crashcut::persist {

LayerId CutStack::push(const Log& log) {
  CHECK(layers_.size() < kNoLayer);
  const auto layer = static_cast<LayerId>(layers_.size());
  layers_.push_back(Layer{&log, std::nullopt});
  if (log.is_sealed()) crash(layer);
  return layer;
}

void CutStack::pop() {
  CHECK(!layers_.empty());
  layers_.pop_back();
}

void CutStack::crash(LayerId layer) {
  CHECK(layer < layers_.size() && is_live(layer));
  layers_[layer].cut.emplace(log(layer));
}

void CutStack::reset() {
  for (Layer& layer : layers_) {
    if (layer.cut) layer.cut->reset();
  }
}

// A live layer hides what lies below where it has written.
void CutStack::add_live_candidate(LayerId layer, LocationId location, const SameToReader& same) {
  const auto newest = static_cast<std::int32_t>(log(layer).write_count(location)) - 1;
  const LowerLocation lower = log(layer).lower(location);
  if (newest < 0 && lower.layer != kNoLayer) {
    add_candidates(lower.layer, lower.location, same);
  } else {
    candidates_.push_back(Candidate{newest, newest, log(layer).current(location), location, Origin::kHere, layer});
  }
}

void CutStack::add_candidates(LayerId layer, LocationId location, const SameToReader& same) {
  CHECK(layer < layers_.size());
  if (is_live(layer)) return add_live_candidate(layer, location, same);
  const Cut& cut = *layers_[layer].cut;
  const LowerLocation lower = log(layer).lower(location);
  const bool shows_lower = lower.layer != kNoLayer && !cut.is_written(location);
  const std::size_t first = candidates_.size();
  if (shows_lower) add_candidates(lower.layer, lower.location, same);
  const std::size_t own = candidates_.size();
  const bool is_lower_decided = own - first == 1;
  Value base = log(layer).initial(location);
  if (is_lower_decided) base = candidates_[first].value;
  const bool is_base_known = !shows_lower || is_lower_decided;
  cut.add_candidates(location, is_base_known ? &base : nullptr, same, candidates_);
  for (std::size_t i = own; i < candidates_.size(); ++i) candidates_[i].layer = layer;
  if (!shows_lower) return;
  if (candidates_.back().last < 0) {
    candidates_.pop_back();  // the candidates from below say what that would be
  } else {
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(first));  // one with this layer's oldest writes
    return;
  }
  std::rotate(candidates_.begin() + static_cast<std::ptrdiff_t>(first),
              candidates_.begin() + static_cast<std::ptrdiff_t>(own), candidates_.end());
}

std::span<const Candidate> CutStack::candidates(LayerId layer, LocationId location, const SameToReader& same) {
  candidates_.clear();
  add_candidates(layer, location, same);
  return candidates_;
}

Value CutStack::read(LayerId layer, LocationId location, Chooser& chooser, const SameToReader& same) {
  const auto found = candidates(layer, location, same);
  if (found.size() == 1) return found[0].value;
  const std::uint32_t taken = chooser.choose(Choice{log(layer), location, found, layer});
  CHECK(taken < found.size());
  const Candidate candidate = found[taken];
  settle(layer, location, candidate);
  return candidate.value;
}

// All writes to the locations above the candidate's are out.
void CutStack::settle(LayerId layer, LocationId location, const Candidate& candidate) {
  while (layer != candidate.layer || location != candidate.location) {
    if (!is_live(layer)) layers_[layer].cut->settle(location, Candidate{-1, -1, 0, location});
    const LowerLocation lower = log(layer).lower(location);
    layer = lower.layer;
    location = lower.location;
    CHECK(layer < layers_.size());
  }
  if (!is_live(layer)) layers_[layer].cut->settle(location, candidate);
}

}  // namespace crashcut::persist
