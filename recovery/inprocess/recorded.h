// Recorded: what one execution left: what it did with files, and with persistent memory, in one log.
//
// Files and memory are one crash. An fsync that completed before a store is below the store, by the log's barriers; a
//   flush or fence that completed before a file call is below what the call did, by the fences of the thread
//   (persist::Log::set_common_past). Marks are the files'.
// Without persistent memory the whole is the recording of the files.
#pragma once

#include <memory>

#include "fusefs/recording.h"
#include "pmem/recording.h"

namespace crashcut::inprocess {

// Files and memory as one recording. Both outlive it.
class WholeRecording final : public persist::Recording {
 public:
  WholeRecording(fusefs::Recording& files, const pmem::Recording& memory)
      : persist::Recording(Shared{files}), files_(files), memory_(memory) {}

  persist::ModelSpec model() const override;
  std::vector<std::string> operations() const override { return memory_.operations(); }
  std::string_view kind_of(persist::EventId e) const override { return of_event(e).kind_of(e); }
  bool is_sync(persist::EventId e) const override { return of_event(e).is_sync(e); }
  std::string describe_event(persist::EventId e) const override { return of_event(e).describe_event(e); }
  std::string describe_location(persist::LocationId l) const override { return of_location(l).describe_location(l); }
  std::string describe_candidate(persist::LocationId l, const persist::Candidate& candidate) const override {
    return of_location(l).describe_candidate(l, candidate);
  }
  std::vector<persist::Mark> marks() const override { return files_.marks(); }
  bool is_mark(persist::LocationId l) const override { return of_location(l).is_mark(l); }
  std::unique_ptr<persist::StableNames> stable_names() const override { return nullptr; }

 private:
  const persist::Recording& of_event(persist::EventId e) const {
    if (memory_.is_own(e)) return memory_;
    return files_;
  }
  const persist::Recording& of_location(persist::LocationId l) const {
    if (memory_.is_own_location(l)) return memory_;
    return files_;
  }

  const fusefs::Recording& files_;
  const pmem::Recording& memory_;
};

// A region of persistent memory as the program asked for it.
struct NamedRegion {
  pmem::Region region;
  std::string name;
  std::uint64_t asked_bytes;
  std::uint64_t file = 0;  // the inode of the modelled disk that is mapped (Process::inode_lock_of); 0: it has a name
};

class PersistentHeap;
class OpStacks;
class Places;

struct Recorded {
  const fusefs::Recording* files = nullptr;
  const pmem::Recording* memory = nullptr;  // null: there is no persistent memory
  const persist::Recording* whole = nullptr;
  const std::vector<NamedRegion>* regions = nullptr;  // that the program has known so far
  const PersistentHeap* heap = nullptr;               // as the program left it
  const OpStacks* op_stacks = nullptr;
  const Places* places = nullptr;  // of `memory`
};

// `memory` may be null. All outlive it; the log is sealed. Lies in the active arena.
const Recorded* make_recorded(fusefs::Recording& files, const pmem::Recording* memory,
                              const std::vector<NamedRegion>& regions, const PersistentHeap& heap,
                              const OpStacks& op_stacks, const Places& places);

}  // namespace crashcut::inprocess
