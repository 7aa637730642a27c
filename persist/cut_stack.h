// CutStack: what the medium holds after several crashes, each with its own log, decided while recovery reads.
//
// Each log of the stack is a layer. After a crash the surviving cut is the ground on which the program runs on and
//   records the next log. That log may crash too: a second crash of the same program, or the failure of another
//   machine that shares the memory. Each sealed layer has a cut of its own, and the constraints of one log do not
//   touch another log.
//
// A location shows its newest write that persisted. If none of its layer's writes did, it shows what the location below
//   it shows (Log::add_location_over names that one). So reading a location offers the writes of its own layer and, as
//   long as it is possible that none of them persisted, what reading the location below would offer. Picking a
//   candidate of a lower layer puts all writes of the layers above out, and decides in the lower layer as Cut does.
//   Which location lies over which is said location by location: a cache line that machine A wrote, then B, then A
//   again has a location in the log of A for the first time, one in the log of B over it, and another one in the log of
//   A over that.
//
// A layer whose log is not sealed yet is live: its program is still running. All that it has written so far counts,
//   so a location that it has written shows the last write, and there is nothing to choose.
//
// Why no choice ever leads to a dead end: a candidate of layer k needs that the writes of the layers above are out.
//   They can be, or the layers above would not have offered what lies below. The layers share no events, so each
//   decides as its Cut does.
//
// Neighbouring writes of equal value are one candidate inside a layer, as in Cut. The oldest writes of a layer are one
//   with what lies below them if that is a single candidate: then it is decided, and there is nothing more to say of
//   the layers below. Otherwise they stay apart: "this write, or one of these below" is no pair of bounds. Values mean
//   the same in all logs of a stack.
//
// Invariants: (1) following the links from location to location ends; (2) if they come to one log twice, all writes to
//   the lower location are earlier events than those to the upper one; (3) those of Cut.
// Cost: a read costs a read of each layer whose location may show through. Copying costs as much as copying the cuts.
// Threads: one stack belongs to one thread.
#pragma once

#include <optional>
#include <vector>

#include "persist/cut.h"

namespace crashcut::persist {

class CutStack {
 public:
  // The next layer. `log` outlives the stack. If it is not sealed, the layer is live until crash().
  LayerId push(const Log& log);
  // Takes the top layer away.
  void pop();
  // A live layer's log has been sealed: its cut is undecided from now on.
  void crash(LayerId layer);

  // Nothing but what is durable is decided in any layer.
  void reset();

  // The value of a location after the crashes; asks `chooser` if more than one is possible.
  Value read(LayerId layer, LocationId location, Chooser& chooser, const SameToReader& same = SameToReader());

  // What read() would offer, without deciding.
  std::span<const Candidate> candidates(LayerId layer, LocationId location, const SameToReader& same = SameToReader());

  std::size_t layer_count() const { return layers_.size(); }
  const Log& log(LayerId layer) const { return *layers_[layer].log; }
  bool is_live(LayerId layer) const { return !layers_[layer].cut.has_value(); }
  Cut& cut(LayerId layer) { return *layers_[layer].cut; }  // not of a live layer
  const Cut& cut(LayerId layer) const { return *layers_[layer].cut; }

 private:
  struct Layer {
    const Log* log;
    std::optional<Cut> cut;  // none while live
  };

  void add_candidates(LayerId layer, LocationId location, const SameToReader& same);
  void add_live_candidate(LayerId layer, LocationId location, const SameToReader& same);
  void settle(LayerId layer, LocationId location, const Candidate& candidate);

  std::vector<Layer> layers_;
  std::vector<Candidate> candidates_;
};

}  // namespace crashcut::persist
