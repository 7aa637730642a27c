// What the program tells of its use of persistent memory, for results: notes, and the flush that it lacks. With source
// lines.
#pragma once

#include <tl/expected.hpp>
#include <vector>

#include "recovery/inprocess/missing_flush.h"
#include "recovery/inprocess/session.h"
#include "recovery/result/result.h"
#include "recovery/source/names.h"

namespace crashcut::recovery {

struct MemoryNotes {
  std::vector<result::MemoryNote> notes;
  std::vector<std::string> about;  // of each: the places that it is about, as the program names them
  std::uint64_t left_out = 0;

  // Those of another execution. Notes about the same places are one.
  void add(MemoryNotes others);
};
tl::expected<MemoryNotes, result::Failure> read_notes(inprocess::Session& session, source::Names& names);

// The flush that mends the violation, or why there is none.
void add_missing_flush(const inprocess::FlushSearch& search, source::Names& names, result::Counterexample& example);

}  // namespace crashcut::recovery
