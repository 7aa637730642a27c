#include "fusefs/repair.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace crashcut::fusefs {
namespace {

using persist::AddedSync;
using persist::EventId;
using persist::SyncCandidate;
using persist::SyncPlace;
using SyncKind = AddedSync::Kind;
using OperationNumber = std::uint32_t;

constexpr std::size_t kOfKindMost = 12;  // candidates of one kind
constexpr std::size_t kTimesMost = 200;  // that one place was executed

class MissingSyncs {
 public:
  MissingSyncs(const Recording& recording, const std::function<bool(EventId)>& is_in) : recording_(recording) {
    for (EventId e = 0; e < recording.event_kinds.size(); ++e) sort_out(e, is_in);
  }

  std::vector<SyncCandidate> find() {
    // What was lost last comes first: it is the nearest to what the disk has.
    std::vector<const LostOperations*> files;
    for (const LostOperations& file : lost_) files.push_back(&file);
    std::stable_sort(files.begin(), files.end(), [](const LostOperations* a, const LostOperations* b) {
      return *a->second.rbegin() > *b->second.rbegin();
    });
    for (const bool is_each : {false, true}) {
      const auto places_of = is_each ? persist::sync_places : persist::sync_moments;
      for (const SyncKind kind : {SyncKind::kFdatasync, SyncKind::kFsync, SyncKind::kDirectoryFsync}) {
        const std::size_t most = found_.size() + kOfKindMost;
        for (const LostOperations* file : files) {
          const bool is_directory = recording_.inodes.at(file->first).type == S_IFDIR;
          if (is_directory != (kind == SyncKind::kDirectoryFsync)) continue;
          for (const SyncPlace place : places_of(file->second, kept_)) {
            if (found_.size() < most) add(kind, file->first, place, is_each);
          }
        }
      }
      for (const SyncPlace place : places_of(lost_anywhere_, kept_)) add(SyncKind::kSync, 0, place, is_each);
    }
    return std::move(found_);
  }

 private:
  struct NameChanged {
    OperationNumber operation;
    persist::LocationId location;
    std::uint64_t ino;  // 0: the name is gone
  };
  using Names = std::map<persist::LocationId, std::uint64_t>;  // the inode that each name leads to
  using LostByFile = std::map<std::uint64_t, std::set<OperationNumber>>;
  using LostOperations = LostByFile::value_type;

  void sort_out(EventId e, const std::function<bool(EventId)>& is_in) {
    constexpr Kinds kNothing = kFree | kZeroOut;
    const Kind kind = recording_.event_kinds[e];
    const OperationNumber operation = recording_.log.op(e);
    bool changes_names = false;
    for (const persist::Write& write : recording_.log.writes(e)) {
      if (recording_.locations[write.location].kind != LocationKind::kName) continue;
      name_changes_.push_back({operation, write.location, write.value});
      changes_names = true;
    }
    const bool is_durable = recording_.log.cover(e) <= recording_.log.durable_barrier();
    if (is_durable || kind == Kind{} || (kind & kNothing) != 0) return;
    if (is_in(e)) {
      if ((kind & kBarriers & ~kMark) == 0) kept_.insert(operation);
      return;
    }
    for (const persist::Write& write : recording_.log.writes(e)) {
      const LocationInfo& info = recording_.locations[write.location];
      if (info.kind == LocationKind::kMark || info.kind == LocationKind::kOther) continue;
      // The change of a name is the directory's; what it does to the file's attributes comes with it.
      if (changes_names && info.kind != LocationKind::kName) continue;
      lost_[static_cast<std::uint64_t>(info.ino)].insert(operation);
      lost_anywhere_.insert(operation);
    }
  }

  Names names_before(OperationNumber operation) const {
    Names names;
    for (const NameChanged& change : name_changes_) {
      if (change.operation < operation) names[change.location] = change.ino;
    }
    return names;
  }

  // None: it has no name.
  std::optional<std::string> path_in(const Names& names, std::uint64_t ino) const {
    if (Ino{ino} == kRootIno) return ".";
    for (const auto& [location, target] : names) {
      if (target != ino) continue;
      const LocationInfo& info = recording_.locations[location];
      const std::string& name = recording_.strings[info.index];
      if (info.ino == kRootIno) return name;
      const auto above = path_in(names, static_cast<std::uint64_t>(info.ino));
      if (above) return *above + "/" + name;
    }
    return std::nullopt;
  }

  // 0: nothing has this name.
  std::uint64_t find_path(const Names& names, const std::string& path) const {
    auto ino = static_cast<std::uint64_t>(kRootIno);
    for (std::size_t begin = 0; path != "." && begin < path.size() && ino != 0;) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const auto directory = recording_.inodes.find(ino);
      ino = 0;
      if (directory != recording_.inodes.end()) {
        const auto location = directory->second.names.find(path.substr(begin, end - begin));
        const auto target = location == directory->second.names.end() ? names.end() : names.find(location->second);
        if (target != names.end()) ino = target->second;
      }
      begin = end + 1;
    }
    return ino;
  }

  void add(SyncKind kind, std::uint64_t ino, SyncPlace place, bool is_each) {
    static constexpr const char* kCalls[] = {"fdatasync", "fsync", "fsync", "sync"};
    std::string target;
    if (kind != SyncKind::kSync) {
      auto path = path_in(names_before(place.before()), ino);
      if (!path) path = path_in(names_before(~OperationNumber{0}), ino);
      if (!path) return;
      target = *path;
    }
    SyncCandidate candidate{{}, kCalls[static_cast<std::size_t>(kind)], target, ""};
    if (is_each) {
      add_executions(kind, place, candidate);
      if (candidate.syncs.size() < 2) return;
    } else {
      candidate.syncs = {{kind, ino, place.before()}};
      candidate.place = persist::text_of(place, recording_.ops);
    }
    found_.push_back(std::move(candidate));
  }

  // Each time that the place was executed. Another file may have had the name then.
  void add_executions(SyncKind kind, SyncPlace place, SyncCandidate& candidate) const {
    const std::vector<OperationNumber> all = persist::executions_of(place, recording_.ops);
    if (all.size() > kTimesMost) return;
    std::vector<OperationNumber> executions;
    for (const OperationNumber i : all) {
      const OperationNumber before = SyncPlace{i, place.is_after}.before();
      const bool is_sync = kind == SyncKind::kSync;
      const std::uint64_t ino = is_sync ? 0 : find_path(names_before(before), candidate.target);
      if (!is_sync && ino == 0) continue;
      candidate.syncs.push_back({kind, ino, before});
      executions.push_back(i);
    }
    candidate.place = persist::text_of(place, executions, recording_.ops);
  }

  const Recording& recording_;
  LostByFile lost_;  // by inode
  std::set<OperationNumber> lost_anywhere_;
  std::set<OperationNumber> kept_;
  std::vector<NameChanged> name_changes_;
  std::vector<SyncCandidate> found_;
};

}  // namespace

std::vector<SyncCandidate> find_missing_syncs(const Recording& recording, const std::function<bool(EventId)>& is_in) {
  return MissingSyncs(recording, is_in).find();
}

}  // namespace crashcut::fusefs
