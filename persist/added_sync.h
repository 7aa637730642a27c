// AddedSync: a sync that a program lacks, as it is tried on the program's recording.
//
// A model does it just before one of the operations that it records, as if the program had done it. Its events belong
//   to the operation before that one, so operations keep their numbers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "persist/operation_texts.h"

namespace crashcut::persist {

struct AddedSync {
  enum class Kind : std::uint32_t { kFdatasync, kFsync, kDirectoryFsync, kSync };  // by what they cost at run time
  Kind kind = Kind::kSync;
  std::uint64_t file = 0;    // the model's number of the file; 0 for kSync
  std::uint32_t before = 0;  // the operation, an index into Recording::ops

  bool operator==(const AddedSync&) const = default;
};

// A change at one place of the program.
struct SyncCandidate {
  std::vector<AddedSync> syncs;  // one, or one for each time that the place was executed
  std::string kind;              // the call: "fsync"
  std::string target;            // what it is called on: "notes.tmp"; empty: all files
  std::string place;             // "before the rename (operation 8)"
};

// Where a sync can be added.
struct SyncPlace {
  std::uint32_t operation;
  bool is_after;  // the operation; else before it

  std::uint32_t before() const { return operation + (is_after ? 1 : 0); }
  bool operator==(const SyncPlace&) const = default;
};
// The places at which a sync makes a crash impossible that has the operations `kept` and lost something of each of
// `lost`: before an operation that was kept, the last one first; then right after what was lost.
// After one operation and before the next is one moment, and two places if each was executed several times.
std::vector<SyncPlace> sync_places(const std::set<std::uint32_t>& lost, const std::set<std::uint32_t>& kept);
// The same, each moment once.
std::vector<SyncPlace> sync_moments(const std::set<std::uint32_t>& lost, const std::set<std::uint32_t>& kept);

// "before the rename (operation 8)"
std::string text_of(const SyncPlace& place, const OperationTexts& operations);
// The operations that are taken for the same place of the program: the same call on the same thing.
std::vector<std::uint32_t> executions_of(const SyncPlace& place, const OperationTexts& operations);
// "before each rename (operations 8, 14)"
std::string text_of(const SyncPlace& place, const std::vector<std::uint32_t>& executions,
                    const OperationTexts& operations);

}  // namespace crashcut::persist
