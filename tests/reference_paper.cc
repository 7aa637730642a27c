#include "tests/reference_disk.h"

namespace crashcut::reference {
namespace {

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

}  // namespace

std::unique_ptr<Model> make_paper_model(const Options& options) { return std::make_unique<PaperModel>(options); }

}  // namespace crashcut::reference
