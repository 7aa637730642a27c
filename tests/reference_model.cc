#include "tests/reference_model.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_set>

namespace crashcut::reference {
namespace {

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

// The paper, section 3.2. Every event says what it is; finish() then asks of each pair whether an axiom orders it.
//
// Where this is not the letter of the paper, because the letter cannot be meant or does not say:
//   PB-ATOM makes two writes of one call that are on one sector atomic, and PB-BLOCK orders them, so that pb would be
//     reflexive for every write of two bytes. Meant is one event: the bytes that a call writes on one sector.
//   The size updates of one call are on one location but not atomic (pord-app-N lists the sizes in between).
//   Line 13 and 14 of BUFFERWRITE are off by one: the size becomes o+i+1.
//   A sector is written whole, as the running program sees it (NULs beyond the size). So are the zeros of lines 4 to 8
//     on one sector: PB-ATOM leaves them out, but to let them persist without the data, not to tear a sector.
class PaperModel final : public Model {
 public:
  using Model::Model;

  void finish() override {
    for (EventNumber a = 0; a < order_.count(); ++a) {
      for (EventNumber b = a + 1; b < order_.count(); ++b) {
        if (persists_before(labels_[a], labels_[b])) order_.add_edge(a, b);
      }
    }
  }

 private:
  enum Kind { kData, kSize, kTruncate, kName, kFileSync, kSync, kMark };
  struct Label {
    Kind kind;
    int file = 0;
    int offset = 0;  // of data: any byte of the sector
  };

  bool persists_before(const Label& a, const Label& b) const {
    auto is_sync = [](const Label& l) { return l.kind == kSync || l.kind == kFileSync || l.kind == kMark; };
    if (is_sync(a)) return true;                       // PB-SYNC (1)
    if (b.kind == kMark) return false;                 // a mark waits for nothing else
    if (options_.data == Data::kJournal) return true;  // all goes through the journal
    if (b.kind == kSync) return true;                  // PB-SYNC (2)
    bool same_file = a.file == b.file;
    if (b.kind == kFileSync && same_file && a.kind != kName) return true;          // PB-SYNC (3)
    if ((a.kind == kName || a.kind == kTruncate) && b.kind != kData) return true;  // PB-DIROPS
    bool a_is_size = a.kind == kSize || a.kind == kTruncate;
    bool b_is_size = b.kind == kSize || b.kind == kTruncate;
    if (a_is_size && b_is_size && same_file) return true;  // PB-SECTOR
    if (a.kind == kData && b.kind == kData && same_file && a.offset / options_.block == b.offset / options_.block) {
      return a.offset / options_.sector <= b.offset / options_.sector;  // PB-SECTOR, PB-BLOCK
    }
    return a.kind == kData && b_is_size && same_file && options_.data != Data::kWriteback;  // PB-META
  }

  void emit(Label label, std::vector<Write> writes, const std::string& what) {
    order_.add(text_ + ": " + what, std::move(writes), {});
    labels_.push_back(label);
  }
  int place_of(Node& f, int offset) {
    Block& block = f.blocks[offset / options_.block];
    if (!block.place) {
      // There is no block map in the paper: the data is where it is from the beginning.
      block.place = new_place();
      initial_.push_back({map_location(f, offset / options_.block), block.place});
    }
    return block.place;
  }
  // The unit that persists whole.
  int unit() const { return options_.data == Data::kJournal ? options_.block : options_.sector; }

  void write_unit(Node& f, int first) {
    int place = place_of(f, first);
    emit({kData, f.number, first}, bytes_of(f, place, first, first + unit()), "data at " + std::to_string(first));
  }
  void set_size(Node& f, Kind kind, int size) {
    emit({kind, f.number}, {{f.size, size}}, "size " + std::to_string(size));
  }

  void on_write(Node& f, int offset, int count, int old_size) override {
    int end = offset + count;
    int size = old_size;
    bool zeroes = options_.data == Data::kOrdered && options_.delalloc;
    // Lines 4 to 8, where the write begins in the last block or before it: isPreallocBlock is given the offset.
    if (zeroes && size % options_.block != 0 && end > size && offset < round_up(size)) {
      int zero_end = std::min(end, round_up(size));
      for (int i = size; i < zero_end; i = (i / options_.sector + 1) * options_.sector) {
        std::vector<Write> zeros;
        int sector_end = std::min(zero_end, (i / options_.sector + 1) * options_.sector);
        for (int j = i; j < sector_end; ++j) zeros.push_back({byte_location(place_of(f, j), j), 0});
        emit({kData, f.number, i}, zeros, "zero at " + std::to_string(i));
      }
      set_size(f, kSize, zero_end);
      size = zero_end;
    }
    int from = std::min(offset, size);  // lines 9 and 10: the gap is data too
    for (int first = from / unit() * unit(); first < end; first += unit()) {
      write_unit(f, first);
      int next = first + unit();
      if (next % options_.block != 0 && next < end) continue;  // neither the end of a block nor of the call
      if (next <= offset || std::min(next, end) <= size) continue;
      set_size(f, kSize, std::min(next, end));
    }
  }
  int round_up(int size) const { return (size + options_.block - 1) / options_.block * options_.block; }

  void on_truncate(Node& f, int new_size, int old_size) override {
    if (new_size > old_size) {
      for (int first = old_size / unit() * unit(); first < new_size; first += unit()) write_unit(f, first);
    }
    set_size(f, kTruncate, new_size);
  }
  void on_names(const NameChange& change) override { emit({kName}, change.names, "names"); }
  void on_fsync(Node& n, bool) override { emit({kFileSync, n.number}, {}, "fsync"); }
  // Not in the paper: a file has bytes and a size there, so these are data and truncations.
  void on_preallocate(Node& f, int, int, int old_size, bool) override {
    int size = static_cast<int>(f.bytes.size());
    if (size != old_size) on_truncate(f, size, old_size);
  }
  void on_zero(Node& f, int from, int to, int old_size, bool) override {
    int size = static_cast<int>(f.bytes.size());
    if (size != old_size) from = std::min(from, old_size);  // as a growing truncation
    for (int first = from / unit() * unit(); first < std::min(to, size); first += unit()) write_unit(f, first);
    if (size != old_size) set_size(f, kTruncate, size);
  }
  // 2.4.3: as an fsync after the write.
  void on_write_sync(Node& f, int, int, bool) override { emit({kFileSync, f.number}, {}, "O_SYNC"); }
  void on_sync() override { emit({kSync}, {}, "sync"); }
  void on_start_writeback(Node&) override {}
  void on_close(Node&) override {}
  void on_barrier() override {}
  void on_mark(Location mark) override { emit({kMark}, {{mark, 1}}, "mark"); }

  std::vector<Label> labels_;
};

// What today's kernel does.
//
// The journal is a chain of events: names, truncations, sizes that grow inside written blocks. A file's block is
//   absent (NULs) or lies at a place on the disk; whether its map entry shows that place is an event as well.
//   written block     data by sector; in the block, the same or a rising sector: in order. Growth:
//                     journal, at once; but where the write goes on into the next block and delalloc is on, a Grow of
//                     that block.
//   new, delalloc     data; a Grow event where the write extends the size (after the file's Grows and the journal so
//                     far) or, at the first write, where it does not: then the size on the disk becomes the end of the
//                     block if it was less (after the journal so far). Grows are not before anything else;
//                     a Map event once for the place: after the first write's data and its Grow.
//                     dioread_lock: Grow and Map are one event, which in data=ordered waits for the data, and it is
//                     after the same block's Grows only.
//                     The block counts as written after the next sync of the file.
//   new, nodelalloc   data; a journal event with the map and the size, which in data=ordered waits for the data.
//   unwritten blocks  where they become written before their data (nodelalloc, dioread_lock,
//                     data=journal): with a write to one, its neighbours in the file that are unwritten too become
//                     written, zeroed on the disk before (data=journal: or not, for good).
//   data=journal      one journal event a block with everything.
//   truncation        journal: the size, and blocks beyond it are absent. The tail of the last block is zeroed by
//                     data events, in data=ordered before a second journal event, in data=journal in the first.
//   fallocate         journal: the size where it grows, and else that the size on the disk reaches to the end of the
//                     range at least (not with KEEP_SIZE). The blocks are allocated, so auto_da_alloc does nothing for
//                     them, but a write to them is as one to a new block.
//   punch, zero       journal, on its own: the size on the disk reaches to the end of the range at least, or to the
//   file's.
//                     journal: whole blocks are absent, and the size where it grows. Parts of blocks at the edges are
//                     zeroed by data events, in data=ordered before the journal event, in data=journal in it.
//                     ZERO_RANGE allocates as fallocate does, and its whole blocks keep their places: the next write
//                     lands there, with NULs around it (not in data=journal). Where it ends inside blocks there are
//                     three journal events: the size, the whole blocks, the parts.
//   fsync             after all data, Grows and Maps of the file and the last journal event that touched it
//                     (fdatasync: its size, blocks or creation); of a directory: after the whole journal so far;
//                     before everything later.
//   O_SYNC, O_DSYNC   as fsync and fdatasync, but of data, Grows and Maps only those of the blocks just written
//                     (generic_write_sync gives file_write_and_wait_range no more than the range).
//   auto_da_alloc     in data=ordered: rename over another file waits for the Grows of the moved file; after
//                     truncation to nothing, close makes every later journal event wait for the file's Grows.
//   sync_file_range   the same as that close.
//   a gap             a write behind one lets the old last block, if delayed, grow the size to its own end.
//   data=writeback    a freed block's place (truncation, hole, last name gone) may be taken at once
//                     by a block that gets its place later: at the write, or with delalloc until a sync or started
//                     writeback of it. The place holds the newest data of all that had it. Of a new block all sectors
//                     are written. A block that took a place has no allocation in the journal unless the freeing is
//                     there, and the freeing has happened: all barriers before it are in. Blocks that ZERO_RANGE
//                     converted stay where they are.
//   barrier=0         data is before nothing but data; syncs make nothing durable, but the file's Grows and Maps
//                     are in the journal before whatever comes later.
class Ext4Model final : public Model {
 public:
  using Model::Model;

 private:
  EventNumber emit(const std::string& what, std::vector<Write> writes, std::set<EventNumber> after) {
    after.insert(last_barrier_);
    return order_.add(text_ + ": " + what, std::move(writes), after);
  }
  EventNumber journal(const std::string& what, std::vector<Write> writes, std::set<EventNumber> after) {
    after.insert(last_journal_);
    after.insert(before_next_journal_.begin(), before_next_journal_.end());
    last_journal_ = emit("J " + what, std::move(writes), after);
    return last_journal_;
  }
  // A journal event about the size or blocks of a file.
  void journal_of_file(Node& f, const std::string& what, std::vector<Write> writes, std::set<EventNumber> after) {
    f.last_journal = f.last_journal_of_blocks = journal(what, std::move(writes), std::move(after));
  }
  void barrier(const std::string& what, std::vector<Write> writes, std::set<EventNumber> after) {
    last_barrier_ = emit(what, std::move(writes), std::move(after));
  }

  bool data_is_before_metadata() const { return options_.barrier; }
  bool ordered() const { return options_.data == Data::kOrdered; }

  void note_allocation(int place, EventNumber e) { life(place).allocations.insert(e); }
  // A new block has its place now, or has had it since fallocate, or gets it when writeback comes.
  void begin_life(Node& f, int block, int place) {
    auto reserved = f.reserved.find(block);
    if (reserved != f.reserved.end()) {
      life(place).placed_at = reserved->second.first;
      note_allocation(place, reserved->second.second);
      f.reserved.erase(reserved);
    } else if (!options_.delalloc) {
      life(place).placed_at = now();
    }
  }
  void has_place_now(int place) {
    if (place != 0) life(place).placed_at = std::min(life(place).placed_at, now());
  }

  // Data events for the sectors of a block that [from, to) touches.
  std::set<EventNumber> write_sectors(Node& f, int place, int from, int to) {
    std::set<EventNumber> events;
    for (int sector = from / options_.sector; sector * options_.sector < to; ++sector) {
      std::set<EventNumber> after;
      for (const auto& [other, event] : data_at_[place]) {
        if (other <= sector) after.insert(event);
      }
      int first = sector * options_.sector;
      EventNumber event = emit("data at " + std::to_string(first) + " in place " + std::to_string(place),
                               bytes_of(f, place, first, first + options_.sector), after);
      data_at_[place].push_back({sector, event});
      f.flushed_by_fsync.insert(event);
      events.insert(event);
    }
    return events;
  }

  // The old last block, if delayed, now ends at its own end: whoever allocates it makes the size that.
  void grow_before_gap(Node& f, int offset, int old_size) {
    int last = old_size / options_.block;
    int block_end = (last + 1) * options_.block;
    if (options_.data == Data::kJournal || old_size % options_.block == 0 || offset < block_end) return;
    if (!f.blocks.contains(last) || f.blocks[last].written) return;
    std::set<EventNumber> after = before_next_journal_;
    after.insert({last_journal_, f.last_grow});
    if (!options_.dioread_nolock) {
      after.erase(f.last_grow);
      after.insert(f.by_block[last].begin(), f.by_block[last].end());
    }
    f.last_grow = emit("Grow", {{f.size, block_end}}, after);
    f.flushed_by_fsync.insert(f.last_grow);
    f.allocations.insert(f.last_grow);
    f.by_block[last].insert(f.last_grow);
    note_allocation(f.blocks[last].place, f.last_grow);
  }

  void on_write(Node& f, int offset, int count, int old_size) override {
    int size = old_size;
    grow_before_gap(f, offset, old_size);
    for (int block = offset / options_.block; block * options_.block < offset + count; ++block) {
      int from = std::max(offset, block * options_.block);
      int to = std::min(offset + count, (block + 1) * options_.block);
      std::optional<int> new_size;
      int old_end = size;
      if (to > size) new_size = size = to;
      write_block(f, block, from, to, new_size, to < offset + count, old_end);
    }
  }
  // Whether an unwritten extent becomes a written one before its data is out.
  bool converts_at_once() const {
    return options_.data == Data::kJournal || !options_.delalloc || !options_.dioread_nolock;
  }
  static bool is_unwritten(const Node& f, int block) {
    auto found = f.blocks.find(block);
    return f.preallocated.contains(block) && (found == f.blocks.end() || !found->second.written);
  }
  // NULs in a place on the disk, from its first sector on. Nothing waits for them but what is told to.
  void zero_out(int place) {
    std::set<EventNumber>& events = zero_outs_of_[place];
    events.clear();
    for (int at = 0; at < options_.block; at += options_.sector) {
      std::vector<Write> zeros;
      for (int i = at; i < at + options_.sector; ++i) zeros.push_back({byte_location(place, i), 0});
      events.insert(emit("zero out place " + std::to_string(place), zeros, events));
    }
    zero_outs_.insert(events.begin(), events.end());
  }
  // ext4_ext_convert_to_initialized: of up to 32 KiB of unwritten blocks in a row, inside the file, all become written.
  // The others are zeroed on the disk first. Adds their maps; returns what is before those.
  std::set<EventNumber> zero_out_neighbours(Node& f, int block, int size, std::vector<Write>& maps) {
    const int most = 32768 / options_.block;
    std::set<EventNumber> all;
    if (!is_unwritten(f, block)) return all;
    int behind = 1, before = 0;
    while ((block + behind) * options_.block < size && is_unwritten(f, block + behind)) ++behind;
    if (behind > most) behind = 1;
    while (before < block && is_unwritten(f, block - before - 1)) ++before;
    if (before + behind >= most) before = 0;
    for (int other = block - before; other < block + behind; ++other) {
      if (other == block) continue;
      Block& b = f.blocks[other];
      if (b.place == 0) {
        if (f.kept.contains(other)) {
          b.place = f.kept[other];
        } else {
          b.place = new_place();
          begin_life(f, other, b.place);
        }
        zero_out(b.place);
        f.kept.erase(other);
        b.written = options_.data == Data::kJournal || !options_.delalloc;
        b.zeroed_out = true;
      }
      all.insert(zero_outs_of_[b.place].begin(), zero_outs_of_[b.place].end());
      maps.push_back({map_location(f, other), b.place});
    }
    // The journal may bring the old bytes back.
    if (options_.data == Data::kJournal || !data_is_before_metadata()) all.clear();
    return all;
  }
  void write_block(Node& f, int block, int from, int to, std::optional<int> new_size, bool goes_on, int old_end) {
    Block& b = f.blocks[block];
    bool is_new = b.place == 0;
    std::vector<Write> map_write;
    std::set<EventNumber> zeros;
    // Converted with a neighbour, maybe: this one's turn may come first all the same.
    bool is_joined = b.zeroed_out && !b.written;
    if ((is_new || is_joined) && converts_at_once()) zeros = zero_out_neighbours(f, block, old_end, map_write);
    bool lands_in_kept = is_new && options_.data != Data::kJournal && f.kept.contains(block);
    if (is_new) {
      b.place = lands_in_kept ? f.kept[block] : new_place();
      if (!lands_in_kept) begin_life(f, block, b.place);
    }
    f.kept.erase(block);
    // With delayed allocation a neighbour may be converted first.
    if (lands_in_kept && !map_write.empty() && options_.delalloc) zero_out(b.place);
    map_write.push_back({map_location(f, block), b.place});
    std::vector<Write> size_write;
    if (new_size) size_write = {{f.size, *new_size}};

    if (options_.data == Data::kJournal) {
      int first = from / options_.sector * options_.sector;
      int last = (to + options_.sector - 1) / options_.sector * options_.sector;
      if (b.zeroed_out) {  // the journal has all of the block
        first = block * options_.block;
        last = first + options_.block;
      }
      b.zeroed_out = false;
      std::vector<Write> all = bytes_of(f, b.place, first, last);
      if (is_new) all.insert(all.end(), map_write.begin(), map_write.end());
      all.insert(all.end(), size_write.begin(), size_write.end());
      journal_of_file(f, "block " + std::to_string(block), all, {});
      b.written = true;
      return;
    }
    if (!b.written) b.zeroed_out = false;
    // All of the block is put out, NULs around the write. Of a new one that shows where it takes the place of a freed
    // one.
    if (lands_in_kept || is_joined || (is_new && reuses())) {
      from = block * options_.block;
      to = from + options_.block;
    }
    std::set<EventNumber> data = write_sectors(f, b.place, from, to);
    if (b.written) {
      if (new_size && goes_on && options_.delalloc) {
        grow_with_next_block(f, block, size_write);
      } else if (new_size) {
        journal_of_file(f, "size " + std::to_string(*new_size), size_write, {});
      }
    } else if (options_.delalloc) {
      write_delayed(f, block, is_new || is_joined, data, map_write, size_write, zeros);
    } else {
      std::vector<Write> all = map_write;
      all.insert(all.end(), size_write.begin(), size_write.end());
      if (ordered() && data_is_before_metadata()) zeros.insert(data.begin(), data.end());
      journal_of_file(f, "block " + std::to_string(block), all, zeros);
      note_allocation(b.place, f.last_journal);
      b.written = true;
    }
  }
  void grow_with_next_block(Node& f, int block, const std::vector<Write>& size_write) {
    std::set<EventNumber> after = before_next_journal_;
    after.insert(last_journal_);
    if (options_.dioread_nolock) after.insert(f.last_grow);
    f.last_grow = emit("Grow", size_write, after);
    f.flushed_by_fsync.insert(f.last_grow);
    f.allocations.insert(f.last_grow);
    f.by_block[block + 1].insert(f.last_grow);
  }
  void write_delayed(Node& f, int block, bool is_new, const std::set<EventNumber>& data,
                     const std::vector<Write>& map_write, std::vector<Write> size_write,
                     const std::set<EventNumber>& zeros) {
    bool grows = !size_write.empty();
    if (!is_new && !grows) return;
    std::set<EventNumber> after = before_next_journal_;
    after.insert(last_journal_);
    if (grows && options_.dioread_nolock) {
      after.insert(f.last_grow);
    } else if (grows) {
      after.insert(f.by_block[block].begin(), f.by_block[block].end());
    } else {
      // A hole is filled. Whichever block is allocated, the size on the disk reaches to its end at least.
      int end = std::min((block + 1) * options_.block, static_cast<int>(f.bytes.size()));
      size_write = {{f.size, end, true}};
    }
    bool one_event = is_new && !options_.dioread_nolock;
    if (one_event) {
      size_write.insert(size_write.end(), map_write.begin(), map_write.end());
      after.insert(zeros.begin(), zeros.end());
      if (ordered() && data_is_before_metadata()) after.insert(data.begin(), data.end());
    }
    EventNumber grow = emit(one_event ? "Grow and Map" : "Grow", size_write, after);
    note_allocation(f.blocks[block].place, grow);
    if (grows) f.last_grow = grow;
    f.flushed_by_fsync.insert(grow);
    f.allocations.insert(grow);
    f.by_block[block].insert(grow);
    if (is_new && !one_event) {
      std::set<EventNumber> below = {grow};
      if (data_is_before_metadata()) below.insert(data.begin(), data.end());
      EventNumber map = emit("Map", map_write, below);
      f.flushed_by_fsync.insert(map);
      note_allocation(f.blocks[block].place, map);
      f.maps.insert(map);
      f.by_block[block].insert(map);
    }
  }

  void on_truncate(Node& f, int new_size, int old_size) override {
    std::vector<Write> writes = {{f.size, new_size}};
    std::vector<int> gone;
    std::set<EventNumber> after;
    if (new_size < old_size) {
      int last = new_size / options_.block;
      if (new_size % options_.block != 0 && f.blocks.contains(last)) {
        int place = f.blocks[last].place;
        int block_end = (last + 1) * options_.block;
        if (options_.data == Data::kJournal) {
          for (const Write& w : bytes_of(f, place, new_size, block_end)) writes.push_back(w);
        } else {
          std::set<EventNumber> zeros = write_sectors(f, place, new_size, block_end);
          if (ordered() && data_is_before_metadata()) after = zeros;
        }
      }
      int first_gone = (new_size + options_.block - 1) / options_.block;
      for (auto it = f.blocks.lower_bound(first_gone); it != f.blocks.end(); it = f.blocks.erase(it)) {
        writes.push_back({map_location(f, it->first), 0});
        gone.push_back(it->second.place);
      }
      f.reserved.erase(f.reserved.lower_bound(first_gone), f.reserved.end());
      f.preallocated.erase(f.preallocated.lower_bound(first_gone), f.preallocated.end());
      for (auto it = f.kept.lower_bound(first_gone); it != f.kept.end(); it = f.kept.erase(it))
        gone.push_back(it->second);
      if (new_size == 0) f.cut_to_nothing = true;
    }
    journal_of_file(f, "truncation", writes, {});
    free_places(gone, f.last_journal, last_barrier_);
    if (!after.empty()) journal_of_file(f, "the tail is zeroed", {}, after);
  }

  void note_preallocated(Node& f, int from, int to) {
    int moment = now();
    for (int block = from / options_.block; block * options_.block < to; ++block) {
      f.preallocated.insert(block);
      if (!f.blocks.contains(block) || f.blocks[block].place == 0) f.reserved.insert({block, {moment, f.last_journal}});
    }
  }
  void on_preallocate(Node& f, int from, int to, int old_size, bool grows) override {
    int size = static_cast<int>(f.bytes.size());
    std::vector<Write> writes;
    if (size != old_size) writes = {{f.size, size}};
    if (size == old_size && grows) writes = {{f.size, std::min(to, size), true}};
    journal_of_file(f, "fallocate", writes, {});
    note_preallocated(f, from, to);
  }
  void on_zero(Node& f, int from, int to, int old_size, bool allocates) override {
    if (from <= old_size) journal_of_file(f, "size", {{f.size, std::min(to, old_size), true}}, {});
    int size = static_cast<int>(f.bytes.size());
    std::vector<Write> size_write, wholes, parts;
    std::vector<int> gone;
    if (size != old_size) size_write = {{f.size, size}};
    std::set<EventNumber> after;
    for (int block = from / options_.block; block * options_.block < to; ++block) {
      int begin = std::max(from, block * options_.block);
      int end = std::min(to, (block + 1) * options_.block);
      if (end - begin == options_.block && !allocates) {  // unwritten blocks are freed too
        if (f.kept.contains(block)) gone.push_back(f.kept[block]);
        f.kept.erase(block);
        f.preallocated.erase(block);
        f.reserved.erase(block);
      }
      if (!f.blocks.contains(block) || f.blocks[block].place == 0) continue;
      if (end - begin == options_.block) {
        wholes.push_back({map_location(f, block), 0});
        if (allocates) {  // converted where it is
          has_place_now(f.blocks[block].place);
          f.kept[block] = f.blocks[block].place;
        } else {
          gone.push_back(f.blocks[block].place);
        }
        f.blocks.erase(block);
      }
    }
    bool apart = allocates && (from % options_.block != 0 || to % options_.block != 0);
    if (apart) {
      if (!size_write.empty()) journal_of_file(f, "size", size_write, {});
      if (!wholes.empty()) journal_of_file(f, "zero blocks", wholes, {});
    }
    for (int block = from / options_.block; block * options_.block < to; ++block) {
      int begin = std::max(from, block * options_.block);
      int end = std::min(to, (block + 1) * options_.block);
      if (!f.blocks.contains(block) || f.blocks[block].place == 0) continue;
      int place = f.blocks[block].place;
      if (options_.data == Data::kJournal) {
        for (const Write& w : bytes_of(f, place, begin, end)) parts.push_back(w);
      } else {
        write_sectors(f, place, begin, end);
        if (!ordered() || !data_is_before_metadata()) continue;
        for (const auto& [sector, event] : data_at_[place]) after.insert(event);
      }
    }
    if (!apart) {
      parts.insert(parts.end(), wholes.begin(), wholes.end());
      parts.insert(parts.end(), size_write.begin(), size_write.end());
    }
    journal_of_file(f, "zero", parts, after);
    if (!allocates) free_places(gone, f.last_journal, last_barrier_);
    if (allocates) note_preallocated(f, from, to);
  }
  // ext4_alloc_da_blocks: whether a block waits for room.
  static bool has_reserved(const Node& f) {
    return std::any_of(f.blocks.begin(), f.blocks.end(), [&](const auto& entry) {
      return entry.second.place != 0 && !entry.second.written && !f.preallocated.contains(entry.first);
    });
  }

  void on_names(const NameChange& change) override {
    std::set<EventNumber> after;
    if (change.moved_over_another && options_.auto_da_alloc && ordered() &&
        has_reserved(node(change.moved_over_another)))
      after = node(change.moved_over_another).allocations;
    EventNumber event = journal("names", change.names, after);
    for (int n : change.dirs) node(n).last_journal = event;
    for (int n : change.nodes) node(n).last_journal = event;
    if (change.created) node(change.created).last_journal_of_blocks = event;
    for (int n : change.nodes) {
      if (is_named(n)) continue;
      std::vector<int> gone;
      for (const auto& [block, state] : node(n).blocks) gone.push_back(state.place);
      for (const auto& [block, place] : node(n).kept) gone.push_back(place);
      free_places(gone, event, last_barrier_);
    }
  }

  void on_fsync(Node& n, bool datasync) override {
    std::set<EventNumber> after = n.flushed_by_fsync;
    if (n.is_dir) {  // everything that is in the journal by now
      after = before_next_journal_;
      after.insert(last_journal_);
    }
    after.insert(datasync && !n.is_dir ? n.last_journal_of_blocks : n.last_journal);
    if (options_.barrier) barrier("fsync", {}, after);
    settle(n);
  }
  void on_write_sync(Node& f, int offset, int count, bool datasync) override {
    std::set<EventNumber> after = {datasync ? f.last_journal_of_blocks : f.last_journal};
    for (int block = offset / options_.block; block * options_.block < offset + count; ++block) {
      for (const auto& [sector, event] : data_at_[f.blocks[block].place]) after.insert(event);
      after.insert(f.by_block[block].begin(), f.by_block[block].end());
      f.blocks[block].written = true;
      has_place_now(f.blocks[block].place);
      if (!options_.barrier) before_next_journal_.insert(f.by_block[block].begin(), f.by_block[block].end());
    }
    if (options_.barrier) barrier("O_SYNC", {}, after);
  }
  void on_sync() override {
    std::set<EventNumber> after;
    for (EventNumber e = 0; e < order_.count(); ++e) {
      if (!zero_outs_.contains(e)) after.insert(e);
    }
    if (options_.barrier) barrier("sync", {}, after);
    on_barrier();
  }
  void on_barrier() override {
    for (Node& n : nodes()) settle(n);
  }
  // What was delayed is allocated and written. Without barriers that is not durable, but it is in the journal.
  void settle(Node& n) {
    for (auto& [number, block] : n.blocks) {
      block.written = true;
      has_place_now(block.place);
    }
    if (options_.barrier) return;
    before_next_journal_.insert(n.allocations.begin(), n.allocations.end());
    before_next_journal_.insert(n.maps.begin(), n.maps.end());
  }
  void on_start_writeback(Node& f) override {
    before_next_journal_.insert(f.allocations.begin(), f.allocations.end());
    for (const auto& [number, block] : f.blocks) has_place_now(block.place);
  }
  void on_close(Node& f) override {
    if (!f.cut_to_nothing) return;
    f.cut_to_nothing = false;
    if (options_.auto_da_alloc && ordered() && has_reserved(f)) on_start_writeback(f);
  }
  void on_mark(Location mark) override { barrier("mark", {{mark, 1}}, {}); }

  EventNumber last_journal_ = kNone;
  EventNumber last_barrier_ = kNone;
  std::set<EventNumber> before_next_journal_;
  std::map<int, std::vector<std::pair<int, EventNumber>>> data_at_;  // place: sector and event
  std::set<EventNumber> zero_outs_;
  std::map<int, std::set<EventNumber>> zero_outs_of_;  // a place
};

// All sets of events that are closed downwards, each once. Events come in an order that agrees with persists-before,
// so an event may be in when all that it persists after is in, whatever comes later.
class CutEnumerator {
 public:
  CutEnumerator(const Model& model, std::uint64_t most_cuts, Outcome& outcome)
      : model_(model),
        order_(model.order()),
        values_(model.initial_values()),
        most_cuts_(most_cuts),
        outcome_(outcome) {
    in_.assign(order_.count(), false);
    decide(0);
  }

 private:
  void decide(EventNumber e) {
    if (!outcome_.complete) return;
    if (e == order_.count()) return look();
    bool may_be_in = std::all_of(order_.after(e).begin(), order_.after(e).end(), [&](EventNumber b) { return in_[b]; });
    if (e >= order_.durable()) decide(e + 1);
    if (!may_be_in && e >= order_.durable()) return;
    std::vector<int> old;
    for (const Write& w : order_.writes(e)) {
      old.push_back(values_[w.location]);
      values_[w.location] = w.only_grows ? std::max(w.value, values_[w.location]) : w.value;
    }
    in_[e] = true;
    decide(e + 1);
    in_[e] = false;
    for (std::size_t i = old.size(); i-- > 0;) values_[order_.writes(e)[i].location] = old[i];
  }
  void look() {
    if (++outcome_.cuts > most_cuts_) {
      outcome_.complete = false;
      return;
    }
    std::string key(reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(int));
    if (model_.reuses()) key.append(in_.begin(), in_.end());  // what has persisted under others shows too
    if (seen_.insert(std::move(key)).second) model_.look(values_, in_, outcome_.states);
  }

  const Model& model_;
  const Order& order_;
  std::vector<int> values_;
  std::vector<char> in_;
  std::uint64_t most_cuts_;
  Outcome& outcome_;
  std::unordered_set<std::string> seen_;
};

std::string quote(const std::string& bytes) {
  std::string text = "\"";
  for (char c : bytes) {
    if (c == '\0') {
      text += "\\0";
    } else {
      text += c;
    }
  }
  return text + "\"";
}

}  // namespace

Outcome run(const Options& options, const Program& program, std::uint64_t most_cuts) {
  std::unique_ptr<Model> model;
  if (options.profile == Profile::kPaper) {
    model = std::make_unique<PaperModel>(options);
  } else {
    model = std::make_unique<Ext4Model>(options);
  }
  for (const Op& op : program) model->run(op);
  model->finish();
  Outcome outcome;
  outcome.running = model->running();
  for (EventNumber e = 0; e < model->order().count(); ++e) outcome.events.push_back(model->order().describe(e));
  CutEnumerator(*model, most_cuts, outcome);
  return outcome;
}

std::string to_text(const Options& o) {
  std::string text = o.profile == Profile::kPaper ? "paper" : "ext4";
  text += o.data == Data::kOrdered ? " ordered" : o.data == Data::kJournal ? " journal" : " writeback";
  if (!o.delalloc) text += " nodelalloc";
  if (!o.auto_da_alloc) text += " noauto_da_alloc";
  if (!o.dioread_nolock) text += " dioread_lock";
  if (!o.barrier) text += " barrier=0";
  return text + " sector=" + std::to_string(o.sector) + " block=" + std::to_string(o.block);
}

std::string to_text(const Op& op) {
  std::string number = std::to_string(op.number);
  switch (op.call) {
    case Call::kOpen:
      return "open(" + op.path + ", CREAT)";
    case Call::kOpenTrunc:
      return "open(" + op.path + ", CREAT|TRUNC)";
    case Call::kWrite:
      return "pwrite(" + op.path + ", " + quote(op.bytes) + ", " + number + ")";
    case Call::kWriteSync:
      return "pwrite(" + op.path + ", " + quote(op.bytes) + ", " + number + ", SYNC)";
    case Call::kWriteDsync:
      return "pwrite(" + op.path + ", " + quote(op.bytes) + ", " + number + ", DSYNC)";
    case Call::kAppend:
      return "append(" + op.path + ", " + quote(op.bytes) + ")";
    case Call::kTruncate:
      return "truncate(" + op.path + ", " + number + ")";
    case Call::kFallocate:
    case Call::kFallocateKeep:
    case Call::kPunchHole:
    case Call::kZeroRange: {
      static const std::map<Call, std::string> kNames = {{Call::kFallocate, "fallocate("},
                                                         {Call::kFallocateKeep, "fallocate_keep_size("},
                                                         {Call::kPunchHole, "punch_hole("},
                                                         {Call::kZeroRange, "zero_range("}};
      return kNames.at(op.call) + op.path + ", " + number + ", " + std::to_string(op.length) + ")";
    }
    case Call::kRename:
      return "rename(" + op.path + ", " + op.other + ")";
    case Call::kLink:
      return "link(" + op.path + ", " + op.other + ")";
    case Call::kUnlink:
      return "unlink(" + op.path + ")";
    case Call::kMkdir:
      return "mkdir(" + op.path + ")";
    case Call::kRmdir:
      return "rmdir(" + op.path + ")";
    case Call::kFsync:
      return "fsync(" + (op.path.empty() ? "." : op.path) + ")";
    case Call::kFdatasync:
      return "fdatasync(" + (op.path.empty() ? "." : op.path) + ")";
    case Call::kSync:
      return "sync()";
    case Call::kSyncFileRange:
      return "sync_file_range(" + op.path + ")";
    case Call::kClose:
      return "close(" + op.path + ")";
    case Call::kBarrier:
      return "barrier()";
    case Call::kMark:
      return "mark(" + op.path + ")";
  }
  return {};
}

std::string to_text(const Program& program) {
  std::string text;
  for (const Op& op : program) text += "  " + to_text(op) + "\n";
  return text;
}

std::string to_text(const State& state) {
  std::string text = "{";
  for (const auto& [path, bytes] : state) {
    if (text.size() > 1) text += ", ";
    bool has_bytes = path.back() != '/' && path[0] != '!';
    text += path + (has_bytes ? "=" + quote(bytes) : "");
  }
  return text + "}";
}

}  // namespace crashcut::reference
