// The data of files: the page cache, and what changes it.
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "fusefs/filesystem_impl.h"
#include "persist/check.h"

namespace crashcut::fusefs {

// ---- the page cache ---------------------------------------------------------------------------------------------

CachedBlock* Filesystem::Impl::find_block(Inode& inode, std::uint64_t block) {
  const auto found = inode.blocks.find(block);
  return found == inode.blocks.end() ? nullptr : &found->second;
}

CachedBlock& Filesystem::Impl::cached_block(Inode& inode, std::uint64_t block, bool is_overwritten) {
  const auto [found, is_new] = inode.blocks.try_emplace(block);
  if (is_new) {
    found->second.bytes = is_overwritten ? pool.take_unclean() : pool.take();
    if (inode.is_on_medium) {
      size(inode);  // settles medium_end
      if (block * setup.block_bytes < inode.medium_end) found->second.is_here.assign(setup.block_bytes, 0);
    }
    if (inode.preallocated.contains(block)) {  // its room is counted already
      inode.preallocated.remove(block, block + 1);
      found->second.holds_data = false;
      return found->second;
    }
    ++used_blocks;
    touch_effect(Effects::Thing::kSpace, Effects::kSource, kNoIno);
  }
  return found->second;
}

// Its bytes in memory, to be looked at or changed.
std::byte* Filesystem::Impl::bytes_of(CachedBlock& block) {
  if (block.store) {
    block.bytes = pool.take_unclean();
    std::exchange(block.store, nullptr)->read(block.position, {block.bytes.data(), block.bytes.size()});
  }
  return block.bytes.data();
}

void Filesystem::Impl::read_block(const CachedBlock& block, std::uint64_t in_block, std::span<std::byte> out) const {
  if (block.store) {
    block.store->read(block.position + in_block, out);
  } else {
    std::memcpy(out.data(), block.bytes.data() + in_block, out.size());
  }
}

// Whether the block reads as NULs whatever the crash left. For files with many blocks only: for others to find out
// costs more than to read.
bool Filesystem::Impl::is_hole_of_medium(Inode& inode, std::uint64_t block) {
  constexpr std::size_t kManyBlocks = 1024;
  if (inode.blocks.size() + inode.blocks_read_through < kManyBlocks || find_block(inode, block)) return false;
  if (!std::exchange(inode.has_asked_possible_blocks, true)) {
    inode.possible_blocks = setup.medium->possible_blocks(inode.ino);
    if (inode.possible_blocks) std::sort(inode.possible_blocks->begin(), inode.possible_blocks->end());
  }
  const auto& possible = inode.possible_blocks;
  return possible && !std::binary_search(possible->begin(), possible->end(), block);
}

// Bytes of [begin, end) that are still on the medium only come into the cache: each may be something to decide.
void Filesystem::Impl::bring(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  if (!inode.is_on_medium) return;
  size(inode);  // settles medium_end
  end = std::min(end, inode.medium_end);
  while (begin < end) {
    const std::uint64_t block = begin / setup.block_bytes;
    if (is_hole_of_medium(inode, block)) {
      begin = (block + 1) * setup.block_bytes;
      continue;
    }
    const std::uint64_t to = std::min(end, (begin / setup.sector_bytes + 1) * setup.sector_bytes);
    bring_from_block(inode, begin, to);
    begin = to;
  }
}

// The same for a filesystem that is only read: the bytes of [begin, end), which is inside one block, go to `out` alone.
void Filesystem::Impl::read_through(Inode& inode, std::uint64_t begin, std::uint64_t end, std::span<std::byte> out) {
  size(inode);  // settles medium_end
  ++inode.blocks_read_through;
  const std::uint64_t known = std::clamp(inode.medium_end, begin, end);
  std::memset(out.data() + (known - begin), 0, end - known);
  if (is_hole_of_medium(inode, begin / setup.block_bytes)) {
    std::memset(out.data(), 0, known - begin);
    return;
  }
  for (std::uint64_t at = begin; at < known;) {
    const std::uint64_t to = std::min(known, (at / setup.sector_bytes + 1) * setup.sector_bytes);
    setup.medium->read_bytes(inode.ino, at, out.subspan(at - begin, to - at));
    at = to;
  }
}

// [begin, end) lies in one sector.
void Filesystem::Impl::bring_from_block(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  CachedBlock& block = cached_block(inode, begin / setup.block_bytes);
  if (block.is_here.empty()) return;
  const std::uint64_t base = begin - begin % setup.block_bytes;
  const auto at = [&](std::uint64_t offset) { return block.is_here.data() + (offset - base); };
  for (;;) {
    char* const first = std::find(at(begin), at(end), 0);
    char* const last = std::find(first, at(end), 1);
    if (first == last) return;
    std::fill(first, last, 1);
    begin = base + static_cast<std::uint64_t>(last - block.is_here.data());
    const auto in_block = static_cast<std::size_t>(first - block.is_here.data());
    setup.medium->read_bytes(inode.ino, base + in_block,
                             std::span(block.bytes.data() + in_block, static_cast<std::size_t>(last - first)));
  }
}

BlockBytes Filesystem::Impl::block_bytes_of(Inode& inode) {
  return [this, &inode](std::uint64_t block) -> std::span<const std::byte> {
    // Looking at a hole must not fill it: what is used would depend on who records.
    CachedBlock* cached = inode.is_on_medium ? &cached_block(inode, block) : find_block(inode, block);
    if (cached) return {bytes_of(*cached), setup.block_bytes};
    nul_block.resize(setup.block_bytes);
    return nul_block;
  };
}

bool Filesystem::Impl::holds_data(Inode& inode, std::uint64_t block) {
  const CachedBlock* cached = find_block(inode, block);
  const bool is_changed = cached && (cached->is_here.empty() || cached->is_changed);
  if (is_changed) return cached->holds_data;
  return inode.is_on_medium && block * setup.block_bytes < inode.medium_end &&
         setup.medium->is_written(inode.ino, block);
}

void Filesystem::Impl::drop_blocks(Inode& inode, std::uint64_t first, std::uint64_t end) {
  std::uint64_t dropped = inode.preallocated.count(first, end);
  inode.preallocated.remove(first, end);
  dropped += std::erase_if(inode.blocks, [&](const auto& block) { return block.first >= first && block.first < end; });
  used_blocks -= std::min(used_blocks, dropped);
  if (dropped != 0) touch_effect(Effects::Thing::kSpace, Effects::kSource, kNoIno);
}

// What will persist is whole sectors: the rest of those at the edges of [begin, end).
void Filesystem::Impl::bring_edges(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  if (!recorder()) return;
  const std::uint64_t sector = setup.sector_bytes;
  bring(inode, begin / sector * sector, begin);
  bring(inode, end, (end + sector - 1) / sector * sector);
}

// The block that holds `begin`, its bytes [begin, end) about to be replaced.
CachedBlock& Filesystem::Impl::block_to_change(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  bring_edges(inode, begin, end);
  CachedBlock& block = cached_block(inode, begin / setup.block_bytes, end - begin == setup.block_bytes);
  if (!block.is_here.empty()) {
    const auto first = block.is_here.begin() + static_cast<std::ptrdiff_t>(begin % setup.block_bytes);
    std::fill(first, first + static_cast<std::ptrdiff_t>(end - begin), 1);
  }
  return block;
}

void Filesystem::Impl::zero_bytes(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  if (!inode.is_on_medium && (end - begin) / setup.block_bytes > inode.blocks.size()) {  // most of it was never written
    for (auto& [block, cached] : inode.blocks) {
      const std::uint64_t block_begin = block * setup.block_bytes;
      const std::uint64_t from = std::max(begin, block_begin);
      const std::uint64_t to = std::min(end, block_begin + setup.block_bytes);
      if (from < to) std::memset(bytes_of(cached) + (from - block_begin), 0, to - from);
    }
    return;
  }
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t block = at / setup.block_bytes;
    const std::uint64_t to = std::min(end, (block + 1) * setup.block_bytes);
    if (find_block(inode, block) || inode.is_on_medium) {
      std::memset(bytes_of(block_to_change(inode, at, to)) + at % setup.block_bytes, 0, to - at);
    }
    at = to;
  }
}

void Filesystem::Impl::load_everything(Inode& inode) {
  if (!inode.is_on_medium) return;
  bring(inode, 0, size(inode));
  inode.medium_end = 0;
}

// How many blocks of [first, end) take room.
std::uint64_t Filesystem::Impl::count_blocks(const Inode& inode, std::uint64_t first, std::uint64_t end) const {
  std::uint64_t found = inode.preallocated.count(first, end);
  if (end - first > inode.blocks.size()) {
    for (const auto& [block, cached] : inode.blocks) found += block >= first && block < end;
  } else {
    for (std::uint64_t block = first; block < end; ++block) found += inode.blocks.contains(block);
  }
  return found;
}

// The blocks of [first, end) that do not exist yet take room from now on, and hold no data.
void Filesystem::Impl::preallocate(Inode& inode, std::uint64_t first, std::uint64_t end) {
  const std::uint64_t before = count_blocks(inode, first, end);
  if (before == end - first) return;
  BlockRanges wanted;
  wanted.add(first, end);
  for (const auto& [block, cached] : inode.blocks) wanted.remove(block, block + 1);
  inode.preallocated.add(wanted);
  used_blocks += end - first - before;
  touch_effect(Effects::Thing::kSpace, Effects::kSource, kNoIno);
}

// Room for the blocks of [begin, end) that do not exist yet.
Errno Filesystem::Impl::reserve(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return 0;
  const std::uint64_t capacity = setup.capacity_bytes / setup.block_bytes;
  const std::uint64_t first = begin / setup.block_bytes;
  const std::uint64_t last = (end - 1) / setup.block_bytes;
  if (last - first > capacity) return -ENOSPC;
  const std::uint64_t wanted = last + 1 - first - count_blocks(inode, first, last + 1);
  return used_blocks + wanted > capacity ? -ENOSPC : 0;
}

void Filesystem::Impl::set_size(Inode& inode, std::uint64_t new_size) {
  const std::uint64_t old_size = size(inode);
  touch_effect(Effects::Thing::kSize, Effects::kBoth, inode.ino);
  touch_bytes(inode.ino, Effects::kBoth, std::min(old_size, new_size), ~std::uint64_t{0});
  if (new_size < old_size) {
    const std::uint64_t first_gone = (new_size + setup.block_bytes - 1) / setup.block_bytes;
    zero_bytes(inode, new_size, std::min(old_size, first_gone * setup.block_bytes));
    drop_blocks(inode, first_gone, ~std::uint64_t{0});
    inode.medium_end = std::min(inode.medium_end, new_size);
  }
  inode.size = new_size;
}

// ---- read and write ---------------------------------------------------------------------------------------------

std::int64_t Filesystem::read(Ino ino, std::uint64_t offset, std::span<std::byte> out) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -EBADF;
  if (inode->type == S_IFDIR) return -EISDIR;
  if (inode->type != S_IFREG) return -EINVAL;
  if (out.empty()) return 0;
  const std::uint64_t size = impl_->size(*inode);
  // Where the file ends is noticed only by who reads that far; that it does not end before, also for later steps.
  const bool reaches_end = offset + out.size() > size || offset + out.size() < offset;
  impl_->touch_size(ino, Effects::kTarget, reaches_end ? 0 : offset,
                    reaches_end ? ~std::uint64_t{0} : offset + out.size());
  if (offset >= size) return 0;
  const std::uint64_t end = offset + std::min<std::uint64_t>(out.size(), size - offset);
  const std::uint32_t block_bytes = impl_->setup.block_bytes;
  for (std::uint64_t at = offset; at < end;) {
    if (at != offset) impl_->step();  // no lock: another thread's write may come between two blocks
    const std::uint64_t to = std::min(end, (at / block_bytes + 1) * block_bytes);
    const auto part = out.subspan(at - offset, to - at);
    impl_->touch_bytes(ino, Effects::kTarget, at, to);
    if (impl_->setup.is_only_read && inode->is_on_medium) {
      impl_->read_through(*inode, at, to, part);
      at = to;
      continue;
    }
    impl_->bring(*inode, at, to);
    if (const CachedBlock* block = impl_->find_block(*inode, at / block_bytes)) {
      impl_->read_block(*block, at % block_bytes, part);
    } else {
      std::memset(part.data(), 0, part.size());
    }
    at = to;
  }
  return static_cast<std::int64_t>(end - offset);
}

void Filesystem::Impl::write_block(Inode& inode, std::uint64_t offset, std::span<const std::byte> in, bool direct) {
  const std::uint64_t end = offset + in.size();
  CachedBlock& block = block_to_change(inode, offset, end);
  block.holds_data = block.is_changed = true;
  if (block.store && in.size() == setup.block_bytes) {
    block.store = nullptr;  // nothing of it is left
    block.bytes = pool.take_unclean();
  }
  std::memcpy(bytes_of(block) + offset % setup.block_bytes, in.data(), in.size());
  const std::uint64_t old_size = size(inode);
  inode.size = std::max(old_size, end);
  touch_bytes(inode.ino, Effects::kBoth, std::min(offset, old_size), end);
  if (end > old_size) {
    touch_effect(Effects::Thing::kSize, Effects::kTarget, inode.ino);
    touch_size(inode.ino, Effects::kSource, old_size, end);
  }
  if (recorder()) {
    recorder()->write(Recorder::WriteRange{inode.ino, offset, in.size(), old_size, direct}, block_bytes_of(inode));
  }
}

std::int64_t Filesystem::write(Ino ino, std::uint64_t offset, std::span<const std::byte> in, WriteFlags flags,
                               std::uint64_t* written_end) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -EBADF;
  if (inode->type != S_IFREG) return -EINVAL;
  if (inode->lock_held) return impl_->would_block(ino);
  if (flags.append) offset = impl_->size(*inode);
  if (flags.append) impl_->touch_effect(Effects::Thing::kSize, Effects::kTarget, ino);
  if (written_end) *written_end = offset;
  if (in.empty()) return 0;
  if (offset >= kFileBytesMax) return -EFBIG;
  in = in.first(std::min<std::uint64_t>(in.size(), kFileBytesMax - offset));
  if (const Errno error = impl_->reserve(*inode, offset, offset + in.size())) return error;
  inode->lock_held = true;
  if (impl_->recorder()) {
    impl_->recorder()->begin_write(Recorder::WriteRange{ino, offset, in.size(), impl_->size(*inode), flags.direct});
  }
  const std::uint64_t end = offset + in.size();
  const std::uint32_t block_bytes = impl_->setup.block_bytes;
  for (std::uint64_t at = offset; at < end;) {
    if (at != offset) impl_->step();  // the size has grown by a block; readers may look
    const std::uint64_t to = std::min(end, (at / block_bytes + 1) * block_bytes);
    impl_->write_block(*inode, at, in.subspan(at - offset, to - at), flags.direct);
    at = to;
  }
  impl_->touch(*inode, true);
  inode->lock_held = false;
  if (written_end) *written_end = end;
  if (impl_->recorder() && (flags.sync || flags.dsync)) {
    impl_->recorder()->fsync_range(ino, offset, in.size(), !flags.sync);
  }
  return static_cast<std::int64_t>(in.size());
}

void Filesystem::keep_in_store(Ino ino, std::uint64_t offset, std::uint64_t length, const ByteStore& store,
                               std::uint64_t position) {
  Inode& inode = *impl_->find(ino);
  const std::uint32_t block_bytes = impl_->setup.block_bytes;
  const std::uint64_t first = (offset + block_bytes - 1) / block_bytes;
  for (std::uint64_t block = first; (block + 1) * block_bytes <= offset + length; ++block) {
    CachedBlock* cached = impl_->find_block(inode, block);
    CHECK(cached);
    if (!cached->is_here.empty()) continue;
    cached->bytes = {};
    cached->store = &store;
    cached->position = position + (block * block_bytes - offset);
  }
}

Errno Filesystem::truncate(Ino ino, std::uint64_t new_size) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -EBADF;
  if (inode->type == S_IFDIR) return -EISDIR;
  if (inode->type != S_IFREG) return -EINVAL;
  if (inode->lock_held) return impl_->would_block(ino);
  if (new_size > kFileBytesMax) return -EFBIG;
  const std::uint64_t old_size = impl_->size(*inode);
  impl_->touch_effect(Effects::Thing::kSize, Effects::kTarget, ino);
  impl_->touch(*inode, true);
  if (new_size == old_size) return 0;
  impl_->set_size(*inode, new_size);
  if (impl_->recorder()) impl_->recorder()->truncate(ino, old_size, new_size, impl_->block_bytes_of(*inode));
  return 0;
}

// ---- fallocate, seek --------------------------------------------------------------------------------------------

Errno Filesystem::Impl::zero_or_punch(Inode& inode, int mode, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t old_size = size(inode);
  const bool punches = mode & FALLOC_FL_PUNCH_HOLE;
  std::uint64_t end = offset + length;
  if (punches && end > old_size) {
    // A hole that reaches beyond the file ends with the block that the file ends in: all of that block goes. One that
    // begins there is none. Source: fs/ext4/inode.c, ext4_punch_hole().
    if (offset >= old_size) return 0;
    end = (old_size + setup.block_bytes - 1) / setup.block_bytes * setup.block_bytes;
  }
  const bool grows = !punches && !(mode & FALLOC_FL_KEEP_SIZE) && end > old_size;
  if (!punches) {
    if (const Errno error = reserve(inode, offset, end)) return error;
  }
  if (offset < old_size) zero_bytes(inode, offset, std::min(end, old_size));
  const std::uint64_t first = (offset + setup.block_bytes - 1) / setup.block_bytes;
  const std::uint64_t last = end / setup.block_bytes;
  if (inode.is_on_medium) {
    for (std::uint64_t block = first; block < last && block * setup.block_bytes < old_size; ++block)
      cached_block(inode, block);
  } else if (punches && first < last) {
    drop_blocks(inode, first, last);
  }
  for (auto& [block, cached] : inode.blocks) {
    if (block >= first && block < last) {
      cached.holds_data = false;
      cached.is_changed = true;
    }
  }
  if (!punches && first < last) preallocate(inode, first, last);
  const std::uint64_t new_size = grows ? end : old_size;
  inode.size = new_size;
  if (recorder()) {
    recorder()->zero_range(inode.ino, offset, end - offset, old_size, new_size, block_bytes_of(inode), !punches);
  }
  return 0;
}

Errno Filesystem::Impl::shift(Inode& inode, std::uint64_t offset, std::uint64_t length, bool inserts) {
  const std::uint64_t old_size = size(inode);
  if (offset % setup.block_bytes || length % setup.block_bytes) return -EINVAL;
  if (inserts ? offset >= old_size : offset + length >= old_size) return -EINVAL;
  if (inserts && old_size + length > kFileBytesMax) return -EFBIG;
  load_everything(inode);
  const std::uint64_t first = offset / setup.block_bytes + (inserts ? 0 : length / setup.block_bytes);
  const auto by = static_cast<std::int64_t>(length / setup.block_bytes) * (inserts ? 1 : -1);
  if (!inserts) drop_blocks(inode, offset / setup.block_bytes, first);
  std::unordered_map<std::uint64_t, CachedBlock> moved;
  for (auto& [block, cached] : inode.blocks) moved[block >= first ? block + by : block] = std::move(cached);
  inode.blocks = std::move(moved);
  inode.preallocated.shift(first, by);
  const std::uint64_t new_size = inserts ? old_size + length : old_size - length;
  inode.size = new_size;
  if (recorder()) recorder()->shift_blocks(inode.ino, first, by, old_size, new_size, block_bytes_of(inode));
  return 0;
}

namespace {

bool is_fallocate_mode(int mode) {
  switch (mode) {
    case 0:
    case FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_ZERO_RANGE:
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_COLLAPSE_RANGE:
    case FALLOC_FL_INSERT_RANGE:
      return true;
    default:
      return false;
  }
}

}  // namespace

Errno Filesystem::fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -EBADF;
  if (inode->type != S_IFREG) return inode->type == S_IFDIR ? -EISDIR : -ENODEV;
  if (inode->lock_held) return impl_->would_block(ino);
  // All of the file: who allocates and who moves blocks is rare enough.
  impl_->touch_effect(Effects::Thing::kSize, Effects::kBoth, ino);
  impl_->touch_bytes(ino, Effects::kBoth, 0, ~std::uint64_t{0});
  impl_->touch_writing(ino, Effects::kBoth);
  if (length == 0 || offset + length < offset) return -EINVAL;
  if (offset + length > kFileBytesMax) return -EFBIG;
  if (!is_fallocate_mode(mode)) return -EOPNOTSUPP;
  impl_->touch(*inode, true);  // ext4 does so before it looks at the range
  switch (mode) {
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_ZERO_RANGE:
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
      return impl_->zero_or_punch(*inode, mode, offset, length);
    case FALLOC_FL_COLLAPSE_RANGE:
      return impl_->shift(*inode, offset, length, false);
    case FALLOC_FL_INSERT_RANGE:
      return impl_->shift(*inode, offset, length, true);
    default:
      break;
  }
  if (const Errno error = impl_->reserve(*inode, offset, offset + length)) return error;
  const std::uint64_t old_size = impl_->size(*inode);
  const std::uint64_t end = offset + length;
  if (!inode->is_on_medium) {
    impl_->preallocate(*inode, offset / block_bytes(), (end + block_bytes() - 1) / block_bytes());
  }
  const std::uint64_t new_size = mode == 0 ? std::max(old_size, end) : old_size;
  if (new_size != old_size) impl_->set_size(*inode, new_size);
  if (impl_->recorder())
    impl_->recorder()->preallocate(ino, offset, length, old_size, new_size, mode != 0, impl_->block_bytes_of(*inode));
  return 0;
}

// The first block of [first, end) that holds data.
std::optional<std::uint64_t> Filesystem::Impl::find_data(Inode& inode, std::uint64_t first, std::uint64_t end) {
  // Most data is near. Only after more blocks than the file has is it cheaper to look at all that it has.
  constexpr std::uint64_t kNear = 4096;
  const std::uint64_t near_end = std::min(end, first + std::max<std::uint64_t>(kNear, inode.blocks.size()));
  for (std::uint64_t block = first; block < near_end; ++block) {
    if (holds_data(inode, block)) return block;
  }
  std::vector<std::uint64_t> candidates;
  if (inode.is_on_medium) {
    auto on_medium = setup.medium->possible_blocks(inode.ino);
    if (!on_medium) {
      for (std::uint64_t block = near_end; block < end; ++block) {
        if (holds_data(inode, block)) return block;
      }
      return std::nullopt;
    }
    candidates = std::move(*on_medium);
  }
  for (const auto& [block, cached] : inode.blocks) candidates.push_back(block);
  std::erase_if(candidates, [&](std::uint64_t block) { return block < near_end || block >= end; });
  // In order, because on a crashed disk to ask is to decide.
  std::sort(candidates.begin(), candidates.end());
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [&](std::uint64_t block) { return holds_data(inode, block); });
  return found == candidates.end() ? std::nullopt : std::optional(*found);
}

std::int64_t Filesystem::seek(Ino ino, std::uint64_t offset, int whence) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -EBADF;
  const std::uint64_t size = inode->type == S_IFREG ? impl_->size(*inode) : 0;
  impl_->touch_effect(Effects::Thing::kSize, Effects::kTarget, ino);
  if (whence != SEEK_END) impl_->touch_bytes(ino, Effects::kTarget, 0, ~std::uint64_t{0});
  if (whence == SEEK_END) return static_cast<std::int64_t>(size + offset);
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return -EINVAL;
  if (offset >= size) return -ENXIO;
  const std::uint64_t first = offset / block_bytes();
  const std::uint64_t end = (size + block_bytes() - 1) / block_bytes();
  std::optional<std::uint64_t> found;
  if (whence == SEEK_DATA) {
    found = impl_->find_data(*inode, first, end);
    if (!found) return -ENXIO;
  } else {
    // What it passes by exists.
    for (found = first; *found < end && impl_->holds_data(*inode, *found);) ++*found;
    if (*found == end) return static_cast<std::int64_t>(size);
  }
  return static_cast<std::int64_t>(std::max(offset, *found * block_bytes()));
}

}  // namespace crashcut::fusefs
