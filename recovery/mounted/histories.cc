#include "recovery/mounted/histories.h"

#include <fmt/format.h>
#include <linux/fs.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <unordered_map>

#include "fusefs/checksum.h"
#include "fusefs/trace_replay.h"
#include "persist/check.h"
#include "persist/hash.h"

namespace crashcut::mounted {

using fusefs::Filesystem;
using fusefs::Ino;
using fusefs::TraceCall;
using fusefs::TraceOp;

namespace {

// The paths of directories. A directory has one name, so one path.
class DirectoryPaths {
 public:
  // After the operation.
  void follow(const TraceOp& op, Filesystem& filesystem) {
    if (op.call == TraceCall::kMkdir) set(op.ino, op.dir, op.name);
    if (op.call != TraceCall::kRename) return;
    follow_name(filesystem, op.to_dir, op.to_name);
    if (op.flags & RENAME_EXCHANGE) follow_name(filesystem, op.dir, op.name);
  }
  std::string path(Ino dir, std::string_view name) const {
    std::string text(name);
    while (dir != fusefs::kRootIno) {
      const auto found = names_.find(dir);
      if (found == names_.end()) break;  // it was removed
      text = found->second.name + "/" + text;
      dir = found->second.dir;
    }
    return text;
  }

 private:
  struct Name {
    Ino dir;
    std::string name;
  };
  void set(Ino ino, Ino dir, std::string_view name) { names_[ino] = Name{dir, std::string(name)}; }
  void follow_name(Filesystem& filesystem, Ino dir, std::string_view name) {
    Ino ino{};
    if (filesystem.lookup(dir, name, ino) == 0 && filesystem.type(ino) == S_IFDIR) set(ino, dir, name);
  }

  std::unordered_map<Ino, Name> names_;
};

// Whether a name appears, changes or goes by it; `uses(dir, name, is_put)` for each: whether something was put there.
template <class Uses>
void for_each_name(const TraceOp& op, Uses&& uses) {
  switch (op.call) {
    case TraceCall::kCreate:
      return uses(op.dir, op.name, !S_ISREG(op.mode));
    case TraceCall::kMkdir:
    case TraceCall::kSymlink:
    case TraceCall::kLink:
      return uses(op.dir, op.name, true);
    case TraceCall::kUnlink:
    case TraceCall::kRmdir:
      return uses(op.dir, op.name, false);
    case TraceCall::kRename:
      uses(op.dir, op.name, (op.flags & RENAME_EXCHANGE) != 0);
      return uses(op.to_dir, op.to_name, true);
    default:
      return;
  }
}

std::uint64_t size_of(Filesystem& filesystem, Ino ino) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(filesystem.seek(ino, 0, SEEK_END), 0));
}

// The words of an operation without the process.
std::string bare(const std::string& text) {
  const std::size_t colon = text.find(": "), open = text.find('(');
  return colon != std::string::npos && colon < open ? text.substr(colon + 2) : text;
}

// What a regular file holds, piece by piece, kept up to date. A version costs as much as has
// changed since the previous one, however long the file is.
class Contents {
 public:
  void touch(std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t end = length > ~std::uint64_t{0} - offset ? ~std::uint64_t{0} : offset + length;
    const std::uint64_t last = std::min<std::uint64_t>(is_old_.size(), end / kPieceBytes + (end % kPieceBytes != 0));
    for (std::uint64_t i = offset / kPieceBytes; i < last; ++i) mark_old(i);
  }
  // A large file takes a while. If `should_stop` says so, the rest is not refreshed: the contents are then wrong.
  void refresh(Filesystem& filesystem, Ino ino, const std::function<bool()>& should_stop) {
    const std::uint64_t size = size_of(filesystem, ino);
    const std::uint64_t count = (size + kPieceBytes - 1) / kPieceBytes;
    // The piece in which it ended, or ends now, has another length.
    if (size != size_) touch(std::min(size, size_) / kPieceBytes * kPieceBytes, 1);
    for (std::uint64_t i = count; i < digests_.size(); ++i) sum_ -= mix(i, digests_[i]);
    const std::uint64_t known = std::min<std::uint64_t>(count, digests_.size());
    digests_.resize(count);
    is_old_.resize(count);
    for (std::uint64_t i = known; i < count; ++i) mark_old(i);
    size_ = size;
    std::string piece;
    constexpr std::uint64_t kPiecesBetweenChecks = 1024;
    std::uint64_t read_count = 0;
    for (const std::uint64_t i : old_) {
      if (i >= count || !is_old_[i]) continue;
      if (++read_count % kPiecesBetweenChecks == 0 && should_stop && should_stop()) return;
      read(filesystem, ino, i, piece);
      if (i < known) sum_ -= mix(i, digests_[i]);
      digests_[i] = digest_of(piece);
      sum_ += mix(i, digests_[i]);
      is_old_[i] = false;
      changes_.push_back(i);
    }
    old_.clear();
  }
  void read(Filesystem& filesystem, Ino ino, std::uint64_t index, std::string& piece) const {
    piece.assign(std::min<std::uint64_t>(kPieceBytes, size_ - index * kPieceBytes), '\0');
    filesystem.read(ino, index * kPieceBytes, std::as_writable_bytes(std::span(piece)));
  }

  std::uint64_t size() const { return size_; }
  std::uint64_t digest() const { return sum_; }
  const std::vector<std::uint64_t>& digests() const { return digests_; }
  // All pieces that were refreshed, in order; one may be there often.
  const std::vector<std::uint64_t>& changes() const { return changes_; }
  // No two files ever have the same.
  std::uint64_t id() const { return id_; }

 private:
  void mark_old(std::uint64_t piece) {
    if (is_old_[piece]) return;
    is_old_[piece] = true;
    old_.push_back(piece);
  }
  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
  }
  static std::uint64_t mix(std::uint64_t index, std::uint64_t digest) {
    return persist::mix(persist::mix(persist::kHashStart, index), digest);
  }

  std::uint64_t size_ = 0;
  std::vector<std::uint64_t> digests_;
  std::vector<bool> is_old_;
  std::vector<std::uint64_t> old_;  // those that are, and some that were cut off
  std::vector<std::uint64_t> changes_;
  std::uint64_t sum_ = 0;
  std::uint64_t id_ = next_id();
};

}  // namespace

std::uint64_t digest_of(std::string_view bytes) { return fusefs::xxh64(bytes, 0); }

// ---- a history ----------------------------------------------------------------------------------------------------

std::size_t FileHistory::state_at(std::uint64_t operation) const {
  const auto after =
      std::upper_bound(states_.begin(), states_.end(), operation,
                       [](std::uint64_t number, const FileState& state) { return number < state.operation; });
  return after == states_.begin() ? 0 : static_cast<std::size_t>(after - states_.begin()) - 1;
}

const FileHistory::Piece* FileHistory::find_piece(std::size_t state, std::uint64_t index) const {
  if (index >= pieces_.size()) return nullptr;
  const std::vector<Piece>& pieces = pieces_[index].pieces;
  const auto after = std::upper_bound(pieces.begin(), pieces.end(), state,
                                      [](std::size_t number, const Piece& piece) { return number < piece.state; });
  return after == pieces.begin() ? nullptr : &*(after - 1);
}

bool FileHistory::has_piece(std::size_t state, std::uint64_t index, std::uint64_t digest) const {
  const Piece* piece = find_piece(state, index);
  return piece && piece->digest == digest;
}

std::string_view FileHistory::piece(std::size_t state, std::uint64_t index) const {
  const Piece* piece = find_piece(state, index);
  if (!piece) return {};
  return std::string_view(pieces_[index].bytes[piece->bytes]).substr(0, piece->length);
}

std::vector<std::string_view> FileHistory::pieces_at(std::uint64_t index) const {
  if (index >= pieces_.size()) return {};
  return {pieces_[index].bytes.begin(), pieces_[index].bytes.end()};
}

// ---- histories, made while the operations are done again ------------------------------------------------------------

class HistoryWalk {
 public:
  HistoryWalk(const std::set<std::string>& paths, bool keeps_bytes, std::function<bool()> should_stop)
      : keeps_bytes_(keeps_bytes), should_stop_(std::move(should_stop)) {
    for (const std::string& path : paths) files_.emplace(path, Tracked{});
  }

  // After the operation.
  void follow(const TraceOp& op, const std::string& text, Filesystem& filesystem) {
    ++operation_;
    text_ = &text;
    filesystem_ = &filesystem;
    directories_.follow(op, filesystem);
    for_each_name(
        op, [&](Ino dir, std::string_view name, bool is_put) { follow_name(directories_.path(dir, name), is_put); });
    switch (op.call) {
      case TraceCall::kWrite:
        touch(op.ino, op.offset, op.data.size());
        if (op.flags & (fusefs::kTraceSync | fusefs::kTraceDsync)) complete(op.ino);
        return;
      case TraceCall::kTruncate:
        return touch(op.ino, op.length, ~std::uint64_t{0});
      case TraceCall::kFallocate:
        return touch(op.ino, op.offset, ~std::uint64_t{0});
      case TraceCall::kFsync:
        return complete(op.ino);
      case TraceCall::kSync:
        return add_changed("");
      case TraceCall::kRelease:
        if ((op.flags & fusefs::kTraceFinished) && !histories_.was_stopped) close(op.ino);
        return;
      case TraceCall::kMark:
        return follow_mark(std::string(op.text));
      case TraceCall::kMakeDurable:
        return restart();
      case TraceCall::kStopped:
        histories_.was_stopped = true;
        return;
      default:
        return;
    }
  }

  tl::expected<Histories, std::string> finish(Filesystem& filesystem) {
    filesystem_ = &filesystem;
    ++operation_;
    const std::string end = "the end";
    text_ = &end;
    if (!has_started_) restart();
    if (!histories_.was_stopped) add_changed("");
    if (!too_large_.empty()) return tl::unexpected(too_large_);
    for (auto& [path, file] : files_) histories_.files.emplace(path, std::move(file.history));
    return std::move(histories_);
  }

 private:
  struct Tracked {
    FileHistory history;
    Ino ino = fusefs::kNoIno;
    mode_t type = 0;
    bool is_changed = false;  // since its last version
    bool had_contents = false;
    // What of the contents' changes its last version had.
    std::uint64_t contents_id = 0;
    std::size_t changes_seen = 0;
  };
  using Entry = std::map<std::string, Tracked>::value_type;
  struct TrackedInode {
    std::vector<Entry*> files;
    Contents contents;
  };

  void follow_mark(const std::string& text) {
    const std::string name = mark_names_.next(text);
    if (!is_promise(name)) return;
    histories_.promises.push_back(Promise{name, operation_});
    add_changed(name);
    for (auto& [path, file] : files_) {
      if (!file.history.states_.empty() && file.history.states_.back().mark.empty())
        file.history.states_.back().mark = name;
    }
  }

  // Everything so far is the start.
  void restart() {
    has_started_ = true;
    histories_.promises.clear();
    for (Entry& entry : files_) {
      entry.second.history = {};
      entry.second.contents_id = 0;
      entry.second.had_contents = false;
      resolve(entry);
      add_state(entry, "");
    }
    changed_.clear();
  }

  // The paths that begin with a name that something was put to, or that something went from.
  void follow_name(const std::string& path, bool is_put) {
    for (auto found = files_.lower_bound(path); found != files_.end() && found->first.starts_with(path); ++found) {
      if (found->first.size() > path.size() && found->first[path.size()] != '/') continue;
      resolve(*found);
      note_changed(*found);
      if (is_put && found->second.type != 0) add_state(*found, "");
    }
  }

  void resolve(Entry& entry) {
    Tracked& file = entry.second;
    Ino ino{};
    const bool is_there = find_path(*filesystem_, entry.first, ino) == 0;
    const Ino now = is_there ? ino : fusefs::kNoIno;
    file.type = is_there ? filesystem_->type(ino) : 0;
    if (now == file.ino) return;
    if (const auto before = inodes_.find(file.ino); before != inodes_.end()) {
      std::erase(before->second.files, &entry);
      if (before->second.files.empty()) inodes_.erase(before);
    }
    file.ino = now;
    if (is_there) inodes_[now].files.push_back(&entry);
  }

  void note_changed(Entry& entry) {
    if (!entry.second.is_changed) changed_.push_back(&entry);
    entry.second.is_changed = true;
  }

  void touch(Ino ino, std::uint64_t offset, std::uint64_t length) {
    const auto found = inodes_.find(ino);
    if (found == inodes_.end()) return;
    found->second.contents.touch(offset, length);
    for (Entry* entry : found->second.files) note_changed(*entry);
  }

  void complete(Ino ino) {
    const auto found = inodes_.find(ino);
    if (found == inodes_.end()) return;
    for (Entry* entry : found->second.files) {
      if (entry->second.is_changed) add_state(*entry, "");
    }
  }

  void close(Ino ino) {
    const auto found = inodes_.find(ino);
    if (found == inodes_.end()) return;
    for (Entry* entry : found->second.files) {
      const bool is_emptied = entry->second.had_contents && size_of(*filesystem_, ino) == 0;
      if (entry->second.is_changed && !is_emptied) add_state(*entry, "");
    }
  }

  void add_changed(const std::string& mark) {
    const std::vector<Entry*> changed = std::move(changed_);
    changed_.clear();
    for (Entry* entry : changed) {
      if (entry->second.is_changed) add_state(*entry, mark);
    }
  }

  // Of a file that is compared. Digests are all that is kept, unless an expectation compares bytes.
  std::uint64_t bytes_most() const { return keeps_bytes_ ? kComparedBytesMost : kComparedBytesMost * 16; }

  FileState state_of(const Tracked& file) {
    FileState state{.type = file.type,
                    .size = 0,
                    .digest = 0,
                    .inos = {file.ino},
                    .operation = operation_,
                    .after = bare(*text_),
                    .mark = ""};
    if (S_ISLNK(file.type)) {
      std::string target;
      filesystem_->readlink(file.ino, target);
      state.digest = digest_of(target);
    } else if (S_ISREG(file.type)) {
      state.size = size_of(*filesystem_, file.ino);
      if (state.size > bytes_most()) return state;
      Contents& contents = inodes_.at(file.ino).contents;
      contents.refresh(*filesystem_, file.ino, should_stop_);
      state.digest = contents.digest();
    }
    return state;
  }

  void add_state(Entry& entry, const std::string& mark) {
    Tracked& file = entry.second;
    file.is_changed = false;
    FileState state = state_of(file);
    if (state.size > bytes_most()) {
      if (too_large_.empty()) {
        too_large_ = fmt::format(
            "{} is {} bytes long, which is too large to be compared. Ask about other files with --file, "
            "or about this one with --check.",
            entry.first, state.size);
      }
      return;
    }
    state.mark = mark;
    file.had_contents = file.had_contents || state.size > 0;
    std::vector<FileState>& states = file.history.states_;
    if (!states.empty() && states.back().is_same(state)) {
      std::vector<Ino>& inos = states.back().inos;
      if (std::find(inos.begin(), inos.end(), file.ino) == inos.end()) inos.push_back(file.ino);
      if (states.back().mark.empty()) states.back().mark = mark;
      return;
    }
    states.push_back(std::move(state));
    if (S_ISREG(file.type)) add_pieces(file);
  }

  void add_pieces(Tracked& file) {
    const Contents& contents = inodes_.at(file.ino).contents;
    const std::vector<std::uint64_t>& digests = contents.digests();
    std::vector<FileHistory::PieceHistory>& pieces = file.history.pieces_;
    if (pieces.size() < digests.size()) pieces.resize(digests.size());
    std::string bytes;
    const auto add_piece = [&](std::uint64_t i) {
      if (i >= digests.size()) return;
      FileHistory::PieceHistory& history = pieces[i];
      if (!history.pieces.empty() && history.pieces.back().digest == digests[i]) return;
      FileHistory::Piece piece{.state = static_cast<std::uint32_t>(file.history.states_.size() - 1),
                               .digest = digests[i]};
      if (keeps_bytes_) {
        contents.read(*filesystem_, file.ino, i, bytes);
        piece.length = static_cast<std::uint32_t>(bytes.size());
        piece.bytes = keep(history, bytes);
      }
      history.pieces.push_back(piece);
    };
    const std::vector<std::uint64_t>& changes = contents.changes();
    if (file.contents_id == contents.id()) {
      for (std::size_t i = file.changes_seen; i < changes.size(); ++i) add_piece(changes[i]);
    } else {
      for (std::uint64_t i = 0; i < digests.size(); ++i) add_piece(i);
    }
    file.contents_id = contents.id();
    file.changes_seen = changes.size();
  }

  // A piece that begins with the one before it takes its place: that one is its first bytes.
  static std::uint32_t keep(FileHistory::PieceHistory& history, const std::string& bytes) {
    if (!history.bytes.empty() && bytes.starts_with(history.bytes.back())) {
      history.bytes.back() = bytes;
    } else {
      history.bytes.push_back(bytes);
    }
    return static_cast<std::uint32_t>(history.bytes.size()) - 1;
  }

  bool keeps_bytes_;
  std::function<bool()> should_stop_;
  std::map<std::string, Tracked> files_;
  std::unordered_map<Ino, TrackedInode> inodes_;  // those that a path names now
  std::vector<Entry*> changed_;
  DirectoryPaths directories_;
  fusefs::MarkNames mark_names_;
  Histories histories_;
  std::string too_large_;
  bool has_started_ = false;
  std::uint64_t operation_ = 0;
  const std::string* text_ = nullptr;
  Filesystem* filesystem_ = nullptr;
};

tl::expected<Histories, fusefs::ReplayError> histories_of(const fusefs::TraceReader& trace,
                                                          const fusefs::ModelOptions& geometry,
                                                          const std::set<std::string>& paths, bool keeps_bytes,
                                                          const fusefs::ReplayLimits& limits) {
  HistoryWalk walk(paths, keeps_bytes, limits.should_stop);
  tl::expected<Histories, std::string> histories;
  const fusefs::ReplayHooks hooks{.on_op = [&](const TraceOp& op, const std::string& text,
                                               Filesystem& filesystem) { walk.follow(op, text, filesystem); },
                                  .on_end = [&](Filesystem& filesystem) { histories = walk.finish(filesystem); }};
  if (auto done = fusefs::replay_files(trace, geometry, hooks, limits); !done) return tl::unexpected(done.error());
  if (limits.should_stop && limits.should_stop())
    return tl::unexpected(fusefs::ReplayError{.sentence = "", .was_stopped = true});
  if (!histories) return tl::unexpected(fusefs::ReplayError{histories.error()});
  return *std::move(histories);
}

// ---- the paths that there are -------------------------------------------------------------------------------------

namespace {

class PathWalk {
 public:
  void follow(const TraceOp& op, Filesystem& filesystem) {
    directories_.follow(op, filesystem);
    for_each_name(op, [&](Ino dir, std::string_view name, bool) { new_.insert(directories_.path(dir, name)); });
    switch (op.call) {
      case TraceCall::kAddOpen:
      case TraceCall::kRelease:
      case TraceCall::kFsync:
      case TraceCall::kSync:
      case TraceCall::kSyncFileRange:
        break;
      case TraceCall::kMark:
        if (is_promise(op.text)) add_new(filesystem);
        break;
      case TraceCall::kStopped:
        known_.was_stopped = true;
        break;
      case TraceCall::kMakeDurable:
        restart(filesystem);
        break;
      default:
        known_.changes_something = true;
        break;
    }
  }
  KnownPaths finish(Filesystem& filesystem) {
    add_new(filesystem);
    known_.end = files_of(filesystem, reads_none);
    return std::move(known_);
  }

 private:
  static bool reads_none(const std::string&) { return false; }

  void restart(Filesystem& filesystem) {
    known_ = KnownPaths{.all = {},
                        .start = files_of(filesystem, reads_none),
                        .end = {},
                        .was_stopped = known_.was_stopped,
                        .changes_something = false};
    for (const auto& [path, file] : known_.start) known_.all.insert(path);
    new_.clear();
  }

  void add_new(Filesystem& filesystem) {
    for (const std::string& path : new_) {
      Ino ino{};
      if (find_path(filesystem, path, ino) != 0) continue;
      known_.all.insert(path);
      if (filesystem.type(ino) != S_IFDIR) continue;
      for (const auto& [below, file] : files_of(filesystem, reads_none, ino)) known_.all.insert(path + "/" + below);
    }
    new_.clear();
  }

  DirectoryPaths directories_;
  std::set<std::string> new_;  // since the last promise
  KnownPaths known_;
};

}  // namespace

tl::expected<KnownPaths, fusefs::ReplayError> known_paths_of(const fusefs::TraceReader& trace,
                                                             const fusefs::ModelOptions& geometry,
                                                             const fusefs::ReplayLimits& limits) {
  PathWalk walk;
  KnownPaths known;
  const fusefs::ReplayHooks hooks{
      .on_op = [&](const TraceOp& op, const std::string&, Filesystem& filesystem) { walk.follow(op, filesystem); },
      .on_end = [&](Filesystem& filesystem) { known = walk.finish(filesystem); }};
  if (auto done = fusefs::replay_files(trace, geometry, hooks, limits); !done) return tl::unexpected(done.error());
  return known;
}

}  // namespace crashcut::mounted
