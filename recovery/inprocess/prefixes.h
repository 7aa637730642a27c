// Prefixes: what recovery prints after the first 0, 1, 2, ... operations of the program, each of which ends with a
// mark.
//
// --expect prefix: whatever crashed, recovery finds the state after the first k operations, or after k + 1, where k is
//   the number of marks that the program had reached: the operation that the crash interrupted happened, or it did not.
//   So what recovery prints must be what it prints after k or after k + 1 whole operations. No assertion is needed.
// The state after k operations is the cut with every event up to the mark of the k-th. Recovery is run on each of them
//   first. Marks of equal text are one.
#pragma once

#include <algorithm>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/inprocess/session.h"

namespace crashcut::inprocess {

class Prefixes {
 public:
  // The session has executed the program, and counts marks (Setup::counts_marks).
  static tl::expected<Prefixes, Failure> find(Session& session);

  // Whether a recovery that ended well printed what it may.
  bool is_expected(const Recovery& recovery) const;
  result::Finding finding_of(const Recovery& recovery) const;

 private:
  const std::string& after(std::size_t operations) const { return outputs_[std::min(operations, outputs_.size() - 1)]; }

  std::vector<std::string> outputs_;  // by operations; the last is after all that main() did
};

}  // namespace crashcut::inprocess
