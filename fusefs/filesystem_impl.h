// The inside of Filesystem: inodes as the running system holds them, filled from the medium as they are needed.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "fusefs/block_pool.h"
#include "fusefs/block_ranges.h"
#include "fusefs/filesystem.h"
#include "fusefs/locks.h"

namespace crashcut::fusefs {

inline constexpr std::uint64_t kFileBytesMax = (std::uint64_t{1} << 44) - 4096;  // ext4 with 4 KiB blocks

// One block of the page cache.
struct CachedBlock {
  BlockPool::Block bytes;  // a whole block; none while the store keeps the bytes
  const ByteStore* store = nullptr;
  std::uint64_t position = 0;  // in the store
  std::vector<char> is_here;   // for each byte: 0 if it is still on the medium only; empty: all bytes are here
  bool is_changed = false;     // written since it was brought from the medium
  bool holds_data = true;      // false: preallocated only, a hole to SEEK_DATA
};

struct Filesystem::Inode {
  Ino ino{};
  mode_t type = 0;
  bool is_on_medium = false;
  std::uint64_t opens = 0;
  bool lock_held = false;  // a write is under way

  std::optional<std::uint64_t> size;
  std::optional<Meta> meta;
  // What happened to the metadata while it was not needed.
  int nlink_change = 0;
  std::optional<timespec> new_atime;
  std::optional<timespec> new_mtime;
  std::optional<timespec> new_ctime;

  std::unordered_map<std::uint64_t, CachedBlock> blocks;
  std::uint64_t blocks_read_through = 0;  // read from the medium and not kept
  BlockRanges preallocated;               // blocks that take room and were never written; none of them is in `blocks`
  std::uint64_t medium_end = ~std::uint64_t{0};  // the medium's bytes from here on were cut off
  // The medium's blocks that may hold data, sorted. The medium is asked once many blocks were looked at. None: any
  // block may hold data.
  std::optional<std::vector<std::uint64_t>> possible_blocks;
  bool has_asked_possible_blocks = false;

  struct Entry {
    Ino ino{};  // kNoIno: known to be absent
    std::uint64_t cookie = 0;
  };
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::uint64_t, std::string> entry_by_cookie;
  std::uint64_t next_cookie = 3;  // 1 and 2 are "." and ".."
  bool has_all_names = true;
  Ino parent{};

  FileLocks locks;
};

struct Filesystem::Impl {
  explicit Impl(Setup setup);

  Setup setup;
  BlockPool pool;  // before the inodes, whose blocks go back to it
  std::unordered_map<std::uint64_t, Inode> inodes;
  Ino next_ino{11};
  std::uint64_t ticks = 0;
  std::uint64_t used_blocks = 0;
  std::vector<std::byte> nul_block;  // what a hole reads as

  timespec now();
  Recorder* recorder() const { return setup.recorder; }
  Medium* medium() const { return setup.medium; }
  void step() const {
    if (setup.on_step) setup.on_step();
  }

  // What the call has to do with other calls. The bytes of a block are reported by the code that copies them. Times are
  // not reported: they do not pass for a scheduled program (effects.h).
  void touch_effect(Effects::Thing thing, Effects::Part part, Ino ino, std::uint64_t b = 0) const {
    if (setup.effects) setup.effects->touch(thing, part, static_cast<std::uint64_t>(ino), b);
  }
  void touch_writing(Ino ino, Effects::Part part) const {
    if (setup.effects) setup.effects->touch_writing(ino, part);
  }
  void touch_size(Ino ino, Effects::Part part, std::uint64_t begin, std::uint64_t end) const {
    if (setup.effects) setup.effects->touch_size(ino, part, begin, end);
  }
  void touch_bytes(Ino ino, Effects::Part part, std::uint64_t begin, std::uint64_t end) const {
    if (setup.effects) setup.effects->touch_bytes(ino, part, begin, end);
  }
  int would_block(Ino ino) const {
    if (setup.effects) setup.effects->blocked_by(Effects::lock_of_inode(ino));
    return kWouldBlock;
  }

  // Inodes.
  Inode* find(Ino ino);
  Inode& load(Ino ino, Ino parent);
  Inode& add(mode_t mode, dev_t rdev, const Credentials& who, const Inode* parent);
  Meta& meta(Inode& inode);
  std::uint64_t size(Inode& inode);
  nlink_t links_of(const Inode& inode) const {
    touch_effect(Effects::Thing::kLinks, Effects::kTarget, inode.ino);
    return inode.meta->nlink;
  }
  void change_nlink(Inode& inode, int by);
  void touch(Inode& inode, bool modified);
  void note_access(Inode& inode);
  void drop_if_unused(Inode& inode);

  // Directories.
  Errno check_name(std::string_view name) const;
  Ino find_entry(Inode& dir, std::string_view name);
  std::uint64_t new_cookie(Inode& dir, std::string_view name) const;
  void set_entry(Inode& dir, std::string_view name, Ino ino);
  void load_all_names(Inode& dir);
  bool is_empty(Inode& dir);
  bool is_below(Ino ino, Ino ancestor);
  void exchange(Inode& a_dir, std::string_view a, Inode& a_inode, Inode& b_dir, std::string_view b, Inode& b_inode);
  void move(Inode& from_dir, std::string_view from, Inode& moved, Inode& to_dir, std::string_view to, Inode* replaced);

  // Reports to the recorder.
  void record_names(std::span<const NameChange> names, std::initializer_list<Inode*> changed);
  BlockBytes block_bytes_of(Inode& inode);

  // Data.
  // `is_overwritten`: the caller writes all of the block, so that its contents do not matter.
  CachedBlock& cached_block(Inode& inode, std::uint64_t block, bool is_overwritten = false);
  CachedBlock* find_block(Inode& inode, std::uint64_t block);
  std::byte* bytes_of(CachedBlock& block);
  void read_block(const CachedBlock& block, std::uint64_t in_block, std::span<std::byte> out) const;
  bool is_hole_of_medium(Inode& inode, std::uint64_t block);
  void bring(Inode& inode, std::uint64_t begin, std::uint64_t end);
  void read_through(Inode& inode, std::uint64_t begin, std::uint64_t end, std::span<std::byte> out);
  void bring_from_block(Inode& inode, std::uint64_t begin, std::uint64_t end);
  void bring_edges(Inode& inode, std::uint64_t begin, std::uint64_t end);
  CachedBlock& block_to_change(Inode& inode, std::uint64_t begin, std::uint64_t end);
  bool holds_data(Inode& inode, std::uint64_t block);
  std::optional<std::uint64_t> find_data(Inode& inode, std::uint64_t first, std::uint64_t end);
  void drop_blocks(Inode& inode, std::uint64_t first, std::uint64_t end);
  void zero_bytes(Inode& inode, std::uint64_t begin, std::uint64_t end);
  void load_everything(Inode& inode);
  std::uint64_t count_blocks(const Inode& inode, std::uint64_t first, std::uint64_t end) const;
  void preallocate(Inode& inode, std::uint64_t first, std::uint64_t end);
  Errno reserve(Inode& inode, std::uint64_t begin, std::uint64_t end);
  void set_size(Inode& inode, std::uint64_t size);
  Errno shift(Inode& inode, std::uint64_t offset, std::uint64_t length, bool inserts);
  Errno zero_or_punch(Inode& inode, int mode, std::uint64_t offset, std::uint64_t length);
  void write_block(Inode& inode, std::uint64_t offset, std::span<const std::byte> in, bool direct);
};

}  // namespace crashcut::fusefs
