#include "tests/reference_disk.h"

namespace crashcut::reference {
namespace {

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

}  // namespace

std::unique_ptr<Model> make_ext4_model(const Options& options) { return std::make_unique<Ext4Model>(options); }

}  // namespace crashcut::reference
