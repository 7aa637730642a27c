// The common part of the reference's models: events and their order, the namespace that the running program sees, and
// how a disk is looked at. A model adds which events a call makes, and what persists before what.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "tests/reference_model.h"

namespace crashcut::reference {

using Location = int;
using EventNumber = int;
constexpr EventNumber kNone = -1;

struct Write {
  Location location;
  int value;
  bool only_grows = false;  // a larger value stays
};

// Events in the order in which they happened, each with those that persist before it.
class Order {
 public:
  Location add_location() { return locations_++; }

  EventNumber add(std::string text, std::vector<Write> writes, const std::set<EventNumber>& after) {
    events_.push_back({std::move(text), std::move(writes), {}});
    for (EventNumber e : after) {
      if (e != kNone) events_.back().after.insert(e);
    }
    return count() - 1;
  }
  void add_edge(EventNumber before, EventNumber after) { events_[after].after.insert(before); }
  void make_durable() { durable_ = count(); }

  int count() const { return static_cast<int>(events_.size()); }
  int location_count() const { return locations_; }
  int durable() const { return durable_; }
  const std::vector<Write>& writes(EventNumber e) const { return events_[e].writes; }
  const std::set<EventNumber>& after(EventNumber e) const { return events_[e].after; }
  std::string describe(EventNumber e) const {
    std::string text = std::to_string(e) + ": " + events_[e].text + (e < durable_ ? " (durable)" : "") + ", after";
    for (EventNumber before : events_[e].after) text += " " + std::to_string(before);
    return text;
  }

 private:
  struct Event {
    std::string text;
    std::vector<Write> writes;
    std::set<EventNumber> after;
  };
  std::vector<Event> events_;
  int locations_ = 0;
  int durable_ = 0;
};

// A block of a file: where its bytes lie on the disk. A block that was truncated away and is written again lies
// elsewhere. The paper has no such thing: there a block keeps its place for ever.
struct Block {
  int place = 0;            // 0: none, reads as NULs
  bool written = false;     // ext4: allocated for good, as the running system sees it
  bool zeroed_out = false;  // ext4: with a neighbour, and not written since
};

struct Node {
  int number = 0;
  std::string last_name;
  bool is_dir = false;
  std::map<std::string, int> entries;     // as the running program sees them
  std::map<std::string, Location> names;  // every name it ever had
  std::string bytes;                      // as the running program sees them; its length is the size
  Location size = 0;
  std::map<int, Block> blocks;
  std::map<int, Location> block_map;  // holds a place
  std::map<int, int> kept;            // ext4: blocks that ZERO_RANGE emptied, and the place that each still has
  // ext4 only.
  std::set<EventNumber> flushed_by_fsync;         // data, growth and maps
  std::set<EventNumber> allocations;              // all Grows
  std::set<EventNumber> maps;                     // Map events
  std::map<int, std::set<EventNumber>> by_block;  // both, of each block
  EventNumber last_grow = kNone;
  EventNumber last_journal = kNone;
  EventNumber last_journal_of_blocks = kNone;
  std::set<int> preallocated;                           // blocks that need no room when they are written
  std::map<int, std::pair<int, EventNumber>> reserved;  // blocks with a place and no data: since when, by which event
  bool cut_to_nothing = false;                          // truncated to zero and not closed since
};

// The namespace that the running program sees, the locations on the disk, and how a disk is looked at.
class Model {
 public:
  explicit Model(const Options& options) : options_(options) {
    nodes_.push_back({});  // no node 0
    nodes_.push_back({.number = 1, .is_dir = true});
  }
  virtual ~Model() = default;

  void run(const Op& op) {
    text_ = to_text(op);
    switch (op.call) {
      case Call::kOpen:
      case Call::kOpenTrunc:
        return open(op);
      case Call::kWrite:
      case Call::kWriteSync:
      case Call::kWriteDsync:
      case Call::kAppend:
        return write(op);
      case Call::kTruncate:
        if (Node* f = file(op.path)) change_size(*f, op.number);
        return;
      case Call::kFallocate:
      case Call::kFallocateKeep:
        if (Node* f = file(op.path)) preallocate(*f, op.number, op.number + op.length, op.call == Call::kFallocate);
        return;
      case Call::kPunchHole:
      case Call::kZeroRange:
        if (Node* f = file(op.path)) zero(*f, op.number, op.number + op.length, op.call == Call::kZeroRange);
        return;
      case Call::kRename:
        return rename(op);
      case Call::kLink:
        return link(op);
      case Call::kUnlink:
        return unlink(op);
      case Call::kMkdir:
        return mkdir(op);
      case Call::kRmdir:
        return rmdir(op);
      case Call::kFsync:
      case Call::kFdatasync:
        if (Node* n = find(op.path)) on_fsync(*n, op.call == Call::kFdatasync);
        return;
      case Call::kSync:
        return on_sync();
      case Call::kSyncFileRange:
        if (Node* f = file(op.path)) on_start_writeback(*f);
        return;
      case Call::kClose:
        if (Node* f = file(op.path)) on_close(*f);
        return;
      case Call::kBarrier:
        on_barrier();
        order_.make_durable();
        return;
      case Call::kMark:
        if (!marks_.contains(op.path)) marks_[op.path] = order_.add_location();
        return on_mark(marks_[op.path]);
    }
  }
  virtual void finish() {}

  const Order& order() const { return order_; }
  bool reuses() const { return options_.profile == Profile::kExt4 && options_.data == Data::kWriteback; }
  std::vector<int> initial_values() const {
    std::vector<int> values(order_.location_count(), 0);
    for (const Write& w : initial_) values[w.location] = w.value;
    return values;
  }

  // The disks that `values` can be: one, unless blocks can have shared a place.
  void look(const std::vector<int>& values, const std::vector<char>& in, std::set<State>& states) const {
    Sharing sharing;
    if (reuses()) {
      sharing.is_written.assign(order_.location_count(), false);
      for (EventNumber e = 0; e < order_.count(); ++e) {
        for (const Write& w : order_.writes(e)) {
          if (in[e]) sharing.is_written[w.location] = true;
        }
      }
      collect_places(1, values, sharing.showing);
    }
    share(values, in, sharing, 0, states);
  }
  State running() const {
    State state;
    running_into(1, "", state);
    for (const auto& [name, location] : marks_) state["!" + name] = "";
    return state;
  }

 protected:
  // The rules. `names` is one change of names, whole or not at all.
  struct NameChange {
    std::vector<Write> names;
    std::vector<int> dirs;   // whose entries change
    std::vector<int> nodes;  // whose names change
    int created = 0;
    int moved_over_another = 0;
  };
  virtual void on_names(const NameChange& change) = 0;
  // The bytes are the new ones already; `old_size` is what it was.
  virtual void on_write(Node& f, int offset, int count, int old_size) = 0;
  virtual void on_truncate(Node& f, int new_size, int old_size) = 0;
  // Blocks of [from, to) are allocated and read as NULs until they are written.
  virtual void on_preallocate(Node& f, int from, int to, int old_size, bool grows) = 0;
  // Bytes of [from, to) are NULs; whole blocks need no data for that.
  virtual void on_zero(Node& f, int from, int to, int old_size, bool allocates) = 0;
  virtual void on_fsync(Node& n, bool datasync) = 0;
  // After a write through a description that is O_SYNC or O_DSYNC.
  virtual void on_write_sync(Node& f, int offset, int count, bool datasync) = 0;
  virtual void on_sync() = 0;
  virtual void on_start_writeback(Node& f) = 0;
  virtual void on_close(Node& f) = 0;
  virtual void on_barrier() = 0;
  virtual void on_mark(Location mark) = 0;

  // Where freed blocks are reused before the journal has their freeing (data=writeback), a place is had by several
  // blocks one after the other, each a "place" here, and holds the newest data of any of them.
  struct Life {
    std::set<EventNumber> allocations;
    int placed_at = 1 << 30;  // by this moment it had its place
    bool is_freed = false;
    int freed_at = 0;
    EventNumber freed_by = kNone;
    EventNumber barrier = kNone;  // the last one before the moment in which it was freed
  };
  int now() { return ++moment_; }
  Life& life(int place) { return lives_[place]; }
  // All at once: none of them takes the place of another.
  void free_places(const std::vector<int>& places, EventNumber by, EventNumber barrier) {
    int moment = now();
    for (int place : places) {
      if (!reuses() || place == 0 || lives_[place].is_freed) continue;
      Life& l = lives_[place];
      l.is_freed = true;
      l.freed_at = moment;
      l.freed_by = by;
      l.barrier = barrier;
      l.placed_at = std::min(l.placed_at, l.freed_at);
    }
  }
  bool is_named(int number) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& n) {
      return std::any_of(n.entries.begin(), n.entries.end(), [&](const auto& e) { return e.second == number; });
    });
  }

  Node& node(int number) { return nodes_[number]; }
  std::vector<Node>& nodes() { return nodes_; }

  // What the running program holds at an offset: beyond the size there are NULs.
  static int byte_at(const Node& f, int offset) {
    return offset < static_cast<int>(f.bytes.size()) ? static_cast<unsigned char>(f.bytes[offset]) : 0;
  }
  int new_place() {
    std::vector<Location> bytes;
    for (int i = 0; i < options_.block; ++i) bytes.push_back(order_.add_location());
    places_.push_back(bytes);
    lives_.resize(places_.size());
    return static_cast<int>(places_.size()) - 1;
  }
  Location byte_location(int place, int offset) const { return places_[place][offset % options_.block]; }
  Location map_location(Node& f, int block) {
    if (!f.block_map.contains(block)) f.block_map[block] = order_.add_location();
    return f.block_map[block];
  }
  // Writes of all bytes of [from, to) as the running program holds them.
  std::vector<Write> bytes_of(const Node& f, int place, int from, int to) const {
    std::vector<Write> writes;
    for (int i = from; i < to; ++i) writes.push_back({byte_location(place, i), byte_at(f, i)});
    return writes;
  }

  Options options_;
  Order order_;
  std::vector<Write> initial_;  // what the disk holds before anything happens, where it is not 0
  std::string text_;            // of the call

 private:
  static std::pair<std::string, std::string> split(const std::string& path) {
    auto slash = path.rfind('/');
    if (slash == std::string::npos) return {"", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
  }
  Node* find(const std::string& path) {
    if (path.empty()) return &nodes_[1];
    auto [dir_path, name] = split(path);
    Node* dir = find(dir_path);
    if (!dir || !dir->is_dir || !dir->entries.contains(name)) return nullptr;
    return &nodes_[dir->entries[name]];
  }
  Node* file(const std::string& path) {
    Node* n = find(path);
    return n && !n->is_dir ? n : nullptr;
  }
  // The directory that holds, or would hold, the path.
  Node* parent(const std::string& path) {
    Node* dir = find(split(path).first);
    return dir && dir->is_dir ? dir : nullptr;
  }
  Write set_name(Node& dir, const std::string& name, int target) {
    if (!dir.names.contains(name)) dir.names[name] = order_.add_location();
    if (target) {
      dir.entries[name] = target;
    } else {
      dir.entries.erase(name);
    }
    return {dir.names[name], target};
  }
  int create(Node& dir, const std::string& name, bool is_dir) {
    int dir_number = dir.number;
    int number = static_cast<int>(nodes_.size());
    nodes_.push_back({.number = number, .last_name = name, .is_dir = is_dir});
    nodes_[number].size = order_.add_location();
    NameChange change;
    change.names = {set_name(nodes_[dir_number], name, number), {nodes_[number].size, 0}};
    change.dirs = {dir_number};
    change.nodes = {number};
    change.created = number;
    on_names(change);
    return number;
  }
  void open(const Op& op) {
    Node* found = find(op.path);
    if (found && found->is_dir) return;
    Node* dir = parent(op.path);
    if (!dir) return;
    if (!found) {
      create(*dir, split(op.path).second, false);
    } else if (op.call == Call::kOpenTrunc) {
      change_size(*found, 0);
    }
  }
  void mkdir(const Op& op) {
    Node* dir = parent(op.path);
    if (dir && !find(op.path)) create(*dir, split(op.path).second, true);
  }
  void write(const Op& op) {
    Node* f = file(op.path);
    if (!f || op.bytes.empty()) return;
    int old_size = static_cast<int>(f->bytes.size());
    int count = static_cast<int>(op.bytes.size());
    int offset = op.call == Call::kAppend ? old_size : op.number;
    if (offset + count > old_size) f->bytes.resize(offset + count, '\0');
    f->bytes.replace(offset, count, op.bytes);
    on_write(*f, offset, count, old_size);
    if (op.call == Call::kWriteSync) on_write_sync(*f, offset, count, false);
    if (op.call == Call::kWriteDsync) on_write_sync(*f, offset, count, true);
  }
  void change_size(Node& f, int size) {
    int old_size = static_cast<int>(f.bytes.size());
    if (size == old_size) return;
    f.bytes.resize(size, '\0');
    on_truncate(f, size, old_size);
  }
  void preallocate(Node& f, int from, int to, bool grows) {
    int old_size = static_cast<int>(f.bytes.size());
    if (grows && to > old_size) f.bytes.resize(to, '\0');
    on_preallocate(f, from, to, old_size, grows);
  }
  // ext4_punch_hole: nothing beyond the end, and where the hole goes over it the last block goes whole.
  void zero(Node& f, int from, int to, bool allocates) {
    int old_size = static_cast<int>(f.bytes.size());
    if (!allocates && from >= old_size) return;
    if (!allocates && to > old_size) to = (old_size + options_.block - 1) / options_.block * options_.block;
    if (allocates && to > old_size) f.bytes.resize(to, '\0');
    for (int i = from; i < to && i < static_cast<int>(f.bytes.size()); ++i) f.bytes[i] = '\0';
    on_zero(f, from, to, old_size, allocates);
  }
  void rmdir(const Op& op) {
    Node* d = find(op.path);
    if (!d || d->number == 1 || !d->is_dir || !d->entries.empty()) return;
    Node* dir = parent(op.path);
    on_names({{set_name(*dir, split(op.path).second, 0)}, {dir->number}, {d->number}});
  }
  bool is_below(const Node& n, const Node& ancestor) const {
    if (n.number == ancestor.number) return true;
    return std::any_of(ancestor.entries.begin(), ancestor.entries.end(),
                       [&](const auto& entry) { return is_below(n, nodes_[entry.second]); });
  }
  void rename(const Op& op) {
    Node* moved = find(op.path);
    Node* from = parent(op.path);
    Node* to = parent(op.other);
    Node* target = find(op.other);
    if (!moved || moved->number == 1 || !to || op.other.empty() || moved == target) return;
    if (is_below(*to, *moved)) return;
    if (target && (target->is_dir != moved->is_dir || !target->entries.empty())) return;
    NameChange change;
    change.names = {set_name(*to, split(op.other).second, moved->number), set_name(*from, split(op.path).second, 0)};
    change.dirs = {from->number, to->number};
    change.nodes = {moved->number};
    if (target) {
      change.nodes.push_back(target->number);
      if (!moved->is_dir) change.moved_over_another = moved->number;
    }
    on_names(change);
  }
  void link(const Op& op) {
    Node* f = file(op.path);
    Node* dir = parent(op.other);
    if (!f || !dir || find(op.other)) return;
    on_names({{set_name(*dir, split(op.other).second, f->number)}, {dir->number}, {f->number}});
  }
  void unlink(const Op& op) {
    Node* f = file(op.path);
    if (!f) return;
    Node* dir = parent(op.path);
    on_names({{set_name(*dir, split(op.path).second, 0)}, {dir->number}, {f->number}});
  }

  // Which blocks share a place with those that show, under one cut.
  struct Sharing {
    std::vector<char> is_written;            // of each location
    std::vector<int> showing;                // places in use by files that have names
    std::set<int> used;                      // places that are part of a chain
    std::map<int, std::vector<int>> chains;  // of one that shows: all in that place, oldest first
  };
  void collect_places(int number, const std::vector<int>& values, std::vector<int>& showing) const {
    for (const auto& [name, location] : nodes_[number].names) {
      int target = values[location];
      if (!target) continue;
      const Node& n = nodes_[target];
      if (n.is_dir) collect_places(target, values, showing);
      for (int i = 0; i < (n.is_dir ? 0 : values[n.size]); i += options_.block) {
        auto entry = n.block_map.find(i / options_.block);
        int place = entry == n.block_map.end() ? 0 : values[entry->second];
        if (place && std::find(showing.begin(), showing.end(), place) == showing.end()) showing.push_back(place);
      }
    }
  }
  bool has_data(int place, const Sharing& sharing) const {
    return std::any_of(places_[place].begin(), places_[place].end(), [&](Location l) { return sharing.is_written[l]; });
  }
  bool has_happened(EventNumber barrier, const std::vector<char>& in) const { return barrier == kNone || in[barrier]; }

  // Every way in which the places that show from number `at` on were shared.
  void share(const std::vector<int>& values, const std::vector<char>& in, Sharing& sharing, std::size_t at,
             std::set<State>& states) const {
    if (at == sharing.showing.size()) {
      State state;
      look_into(1, "", values, sharing, state);
      for (const auto& [name, location] : marks_) {
        if (values[location]) state["!" + name] = "";
      }
      states.insert(std::move(state));
      return;
    }
    int place = sharing.showing[at];
    if (!sharing.used.insert(place).second) return;
    sharing.chains[place] = {place};
    extend(values, in, sharing, at, true, states);
    sharing.chains.erase(place);
    sharing.used.erase(place);
  }
  // The chain as it is, and with one more that was there later; then, with one more that was there before.
  void extend(const std::vector<int>& values, const std::vector<char>& in, Sharing& sharing, std::size_t at, bool later,
              std::set<State>& states) const {
    if (later) {
      extend(values, in, sharing, at, false, states);
    } else {
      share(values, in, sharing, at + 1, states);
    }
    int showing = sharing.showing[at];
    for (int other = 1; other < static_cast<int>(places_.size()); ++other) {
      if (sharing.used.contains(other) || !has_data(other, sharing)) continue;
      std::vector<int>& chain = sharing.chains[showing];
      const Life& giver = lives_[later ? chain.back() : other];
      const Life& taker = lives_[later ? other : chain.front()];
      if (!giver.is_freed || giver.freed_at >= taker.placed_at || !has_happened(giver.barrier, in)) continue;
      bool is_allocated = std::any_of(lives_[other].allocations.begin(), lives_[other].allocations.end(),
                                      [&](EventNumber e) { return e != kNone && in[e]; });
      if (later ? is_allocated || in[lives_[showing].freed_by] : !in[giver.freed_by]) continue;
      sharing.used.insert(other);
      chain.insert(later ? chain.end() : chain.begin(), other);
      extend(values, in, sharing, at, later, states);
      std::vector<int>& same = sharing.chains[showing];
      same.erase(later ? same.end() - 1 : same.begin());
      sharing.used.erase(other);
    }
  }
  int byte_in(int place, int offset, const std::vector<int>& values, const Sharing& sharing) const {
    auto chain = sharing.chains.find(place);
    if (chain == sharing.chains.end()) return values[byte_location(place, offset)];
    for (auto it = chain->second.rbegin(); it != chain->second.rend(); ++it) {
      if (sharing.is_written[byte_location(*it, offset)]) return values[byte_location(*it, offset)];
    }
    return 0;
  }

  void look_into(int number, const std::string& path, const std::vector<int>& values, const Sharing& sharing,
                 State& state) const {
    for (const auto& [name, location] : nodes_[number].names) {
      int target = values[location];
      if (!target) continue;
      const Node& n = nodes_[target];
      if (n.is_dir) {
        state[path + name + "/"] = "";
        look_into(target, path + name + "/", values, sharing, state);
      } else {
        state[path + name] = contents(n, values, sharing);
      }
    }
  }
  std::string contents(const Node& f, const std::vector<int>& values, const Sharing& sharing) const {
    std::string bytes;
    for (int i = 0; i < values[f.size]; ++i) {
      auto entry = f.block_map.find(i / options_.block);
      int place = entry == f.block_map.end() ? 0 : values[entry->second];
      bytes += static_cast<char>(place ? byte_in(place, i, values, sharing) : 0);
    }
    return bytes;
  }
  void running_into(int number, const std::string& path, State& state) const {
    for (const auto& [name, target] : nodes_[number].entries) {
      const Node& n = nodes_[target];
      state[path + name + (n.is_dir ? "/" : "")] = n.bytes;
      if (n.is_dir) running_into(target, path + name + "/", state);
    }
  }

  std::vector<Node> nodes_;
  std::vector<std::vector<Location>> places_{{}};
  std::vector<Life> lives_{{}};
  int moment_ = 0;
  std::map<std::string, Location> marks_;
};

std::unique_ptr<Model> make_paper_model(const Options& options);
std::unique_ptr<Model> make_ext4_model(const Options& options);

}  // namespace crashcut::reference
