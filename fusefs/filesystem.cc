#include "fusefs/filesystem.h"

#include <linux/fs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>

#include "fusefs/filesystem_impl.h"
#include "persist/check.h"
#include "persist/hash.h"

namespace crashcut::fusefs {

// ---- inodes ---------------------------------------------------------------------------------------------------

Filesystem::Impl::Impl(Setup given) : setup(std::move(given)), pool(setup.block_bytes) {
  Inode& root = inodes[static_cast<std::uint64_t>(kRootIno)];
  root.ino = root.parent = kRootIno;
  root.type = S_IFDIR;
  root.opens = 1;
  root.size = 0;
  if (setup.medium) {
    root.is_on_medium = true;
    root.has_all_names = false;
    next_ino = setup.medium->first_free_ino();
    return;
  }
  root.meta = Meta{.mode = kRootMode, .nlink = 2};
  root.meta->atime = root.meta->mtime = root.meta->ctime = now();
  if (recorder()) recorder()->set_root(*root.meta);
}

timespec Filesystem::Impl::now() {
  if (setup.clock) return setup.clock();
  constexpr time_t kStart = 1'000'000'000;
  ++ticks;
  return timespec{kStart + static_cast<time_t>(ticks / 1'000'000), static_cast<long>(ticks % 1'000'000) * 1000};
}

Filesystem::Inode* Filesystem::Impl::find(Ino ino) {
  const auto found = inodes.find(static_cast<std::uint64_t>(ino));
  return found == inodes.end() ? nullptr : &found->second;
}

Filesystem::Inode& Filesystem::Impl::load(Ino ino, Ino parent) {
  Inode* known = find(ino);
  if (known) return *known;
  CHECK(setup.medium);
  Inode& inode = inodes[static_cast<std::uint64_t>(ino)];
  inode.ino = ino;
  inode.parent = parent;
  inode.type = setup.medium->type(ino);
  inode.is_on_medium = true;
  inode.has_all_names = false;
  return inode;
}

Filesystem::Inode& Filesystem::Impl::add(mode_t mode, dev_t rdev, const Credentials& who, const Inode* parent) {
  const Ino ino = setup.effects ? setup.effects->fresh_ino() : next_ino;
  next_ino = std::max(next_ino, Ino{static_cast<std::uint64_t>(ino) + 1});
  Inode& inode = inodes[static_cast<std::uint64_t>(ino)];
  inode.ino = ino;
  inode.type = mode & S_IFMT;
  inode.size = 0;
  inode.meta = Meta{.mode = mode, .uid = who.uid, .gid = who.gid, .nlink = 0, .rdev = rdev};
  inode.meta->atime = inode.meta->mtime = inode.meta->ctime = now();
  // A directory that a recovery has not looked at may be setgid too, but asking would be a decision for each new file.
  if (parent && parent->meta && (parent->meta->mode & S_ISGID)) {
    inode.meta->gid = parent->meta->gid;
    if (S_ISDIR(mode)) inode.meta->mode |= S_ISGID;
  }
  if (parent) inode.parent = parent->ino;
  if (recorder()) recorder()->add_inode(ino, mode);
  return inode;
}

namespace {

bool is_before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// relatime: kept only where it would seem older than a change, or is a day old (relatime_need_update()).
void update_atime(Meta& meta, const timespec& time) {
  constexpr time_t kDay = 24 * 60 * 60;
  const bool is_kept =
      is_before(meta.mtime, meta.atime) && is_before(meta.ctime, meta.atime) && time.tv_sec - meta.atime.tv_sec < kDay;
  if (!is_kept) meta.atime = time;
}

}  // namespace

Meta& Filesystem::Impl::meta(Inode& inode) {
  touch_effect(Effects::Thing::kAttributes, Effects::kTarget, inode.ino);
  if (inode.meta) return *inode.meta;
  inode.meta = setup.medium->meta(inode.ino);
  inode.meta->nlink += inode.nlink_change;
  if (inode.new_mtime) inode.meta->mtime = *inode.new_mtime;
  if (inode.new_ctime) inode.meta->ctime = *inode.new_ctime;
  if (inode.new_atime) update_atime(*inode.meta, *inode.new_atime);
  return *inode.meta;
}

std::uint64_t Filesystem::Impl::size(Inode& inode) {
  if (!inode.size) {
    inode.size = setup.medium->size(inode.ino);
    inode.medium_end = std::min(inode.medium_end, *inode.size);  // whatever lies behind it is not the file's
  }
  return *inode.size;
}

// A recovery that removes a name need not know how many there were: that would be one more thing to decide.
void Filesystem::Impl::change_nlink(Inode& inode, int by) {
  touch_effect(Effects::Thing::kLinks, Effects::kBoth, inode.ino);
  if (inode.meta || recorder()) {
    meta(inode).nlink += by;
  } else {
    inode.nlink_change += by;
  }
}

void Filesystem::Impl::touch(Inode& inode, bool modified) {
  const timespec time = now();
  if (inode.meta) {
    inode.meta->ctime = time;
    if (modified) inode.meta->mtime = time;
    return;
  }
  inode.new_ctime = time;
  if (modified) inode.new_mtime = time;
}

void Filesystem::Impl::note_access(Inode& inode) {
  if (setup.noatime) return;
  if (inode.meta) {
    update_atime(*inode.meta, now());
  } else {
    inode.new_atime = now();
  }
}

void Filesystem::Impl::drop_if_unused(Inode& inode) {
  if (inode.opens > 0 || !inode.meta || inode.meta->nlink > 0) return;
  const std::uint64_t freed = inode.blocks.size() + inode.preallocated.size();
  if (freed != 0) touch_effect(Effects::Thing::kSpace, Effects::kSource, kNoIno);
  used_blocks -= std::min(used_blocks, freed);
  if (recorder()) recorder()->free_inode(inode.ino);
  inodes.erase(static_cast<std::uint64_t>(inode.ino));
}

// ---- directories ----------------------------------------------------------------------------------------------

Errno Filesystem::Impl::check_name(std::string_view name) const {
  constexpr std::size_t kNameBytesMax = 255;
  if (name.empty()) return -ENOENT;
  if (name.size() > kNameBytesMax) return -ENAMETOOLONG;
  CHECK(name.find('/') == std::string_view::npos);
  return 0;
}

Ino Filesystem::Impl::find_entry(Inode& dir, std::string_view name) {
  if (setup.effects) touch_effect(Effects::Thing::kName, Effects::kTarget, dir.ino, persist::hash_of(name));
  if (const auto found = dir.entries.find(name); found != dir.entries.end()) return found->second.ino;
  if (dir.has_all_names) return kNoIno;
  const Ino ino = setup.medium->lookup(dir.ino, name);
  set_entry(dir, name, ino);
  if (ino == kNoIno) return ino;
  load(ino, dir.ino);
  if (recorder()) recorder()->note_name(dir.ino, name, ino);
  return ino;
}

// A new name comes last in a listing. Not where calls are scheduled: there its place is by a hash of it, as in an
// indexed directory of ext4 (ext4_dx_readdir), so that the order of creates does not show.
std::uint64_t Filesystem::Impl::new_cookie(Inode& dir, std::string_view name) const {
  if (!setup.effects) return dir.next_cookie++;
  constexpr std::uint64_t kFirst = 3, kCount = std::uint64_t{1} << 62;
  std::uint64_t cookie = kFirst + persist::hash_of(name) % kCount;
  while (dir.entry_by_cookie.contains(cookie)) ++cookie;
  return cookie;
}

void Filesystem::Impl::set_entry(Inode& dir, std::string_view name, Ino ino) {
  if (setup.effects) {
    touch_effect(Effects::Thing::kName, Effects::kBoth, dir.ino, persist::hash_of(name));
    touch_effect(Effects::Thing::kListing, Effects::kSource, dir.ino);
  }
  const auto found = dir.entries.find(name);
  if (ino == kNoIno) {
    if (found != dir.entries.end()) dir.entry_by_cookie.erase(found->second.cookie);
    if (dir.has_all_names) {
      if (found != dir.entries.end()) dir.entries.erase(found);
    } else {
      dir.entries[std::string(name)] = Inode::Entry{};  // the medium may still hold the name
    }
    return;
  }
  if (found != dir.entries.end() && found->second.ino != kNoIno) {
    found->second.ino = ino;  // replaced in place: it keeps its place in a listing
    return;
  }
  const std::uint64_t cookie = new_cookie(dir, name);
  dir.entries[std::string(name)] = Inode::Entry{ino, cookie};
  dir.entry_by_cookie[cookie] = std::string(name);
}

void Filesystem::Impl::load_all_names(Inode& dir) {
  touch_effect(Effects::Thing::kListing, Effects::kTarget, dir.ino);
  if (dir.has_all_names) return;
  for (const std::string& name : setup.medium->possible_names(dir.ino)) find_entry(dir, name);
  dir.has_all_names = true;
  std::erase_if(dir.entries, [](const auto& entry) { return entry.second.ino == kNoIno; });
}

bool Filesystem::Impl::is_empty(Inode& dir) {
  load_all_names(dir);
  return dir.entries.empty();
}

bool Filesystem::Impl::is_below(Ino ino, Ino ancestor) {
  while (ino != ancestor) {
    if (ino == kRootIno) return false;
    ino = find(ino)->parent;
  }
  return true;
}

void Filesystem::Impl::record_names(std::span<const NameChange> names, std::initializer_list<Inode*> changed) {
  if (!recorder()) return;
  std::vector<MetaChange> metas;
  for (Inode* inode : changed) {
    if (inode) metas.push_back(MetaChange{inode->ino, meta(*inode)});
  }
  recorder()->change_names(names, metas);
}

Filesystem::Filesystem(Setup setup) : impl_(std::make_unique<Impl>(std::move(setup))) {
  CHECK(impl_->setup.block_bytes % impl_->setup.sector_bytes == 0);
}
Filesystem::~Filesystem() = default;

std::uint32_t Filesystem::sector_bytes() const { return impl_->setup.sector_bytes; }
std::uint32_t Filesystem::block_bytes() const { return impl_->setup.block_bytes; }

Errno Filesystem::lookup(Ino dir_ino, std::string_view name, Ino& out) {
  Inode* dir = impl_->find(dir_ino);
  if (!dir) return -ENOENT;
  if (dir->type != S_IFDIR) return -ENOTDIR;
  if (const Errno error = impl_->check_name(name)) return error;
  // The parent of a removed directory may have been removed too.
  if (name == ".." && !impl_->find(dir->parent)) return -ENOENT;
  if (name == "..") impl_->touch_effect(Effects::Thing::kName, Effects::kTarget, dir_ino, persist::hash_of(name));
  out = name == "." ? dir_ino : name == ".." ? dir->parent : impl_->find_entry(*dir, name);
  return out == kNoIno ? -ENOENT : 0;
}

namespace {
bool is_dot(std::string_view name) { return name == "." || name == ".."; }
}  // namespace

// What every call that makes a name checks first.
#define CHECK_NEW_NAME(dir, dir_ino, name)                               \
  Inode* dir = impl_->find(dir_ino);                                     \
  if (!dir || (dir->meta && impl_->links_of(*dir) == 0)) return -ENOENT; \
  if (dir->type != S_IFDIR) return -ENOTDIR;                             \
  if (const Errno error = impl_->check_name(name)) return error;         \
  if (is_dot(name) || impl_->find_entry(*dir, name) != kNoIno) return -EEXIST

Errno Filesystem::create(Ino dir_ino, std::string_view name, mode_t mode, dev_t rdev, const Credentials& who,
                         Ino& out) {
  CHECK_NEW_NAME(dir, dir_ino, name);
  Inode& inode = impl_->add(mode, rdev, who, dir);
  inode.meta->nlink = 1;
  out = inode.ino;
  impl_->set_entry(*dir, name, inode.ino);
  impl_->touch(*dir, true);
  const NameChange change{dir_ino, std::string(name), inode.ino};
  impl_->record_names({&change, 1}, {&inode});
  return 0;
}

Errno Filesystem::mkdir(Ino dir_ino, std::string_view name, mode_t mode, const Credentials& who, Ino& out) {
  CHECK_NEW_NAME(dir, dir_ino, name);
  Inode& inode = impl_->add(S_IFDIR | (mode & 07777), 0, who, dir);
  inode.meta->nlink = 2;
  out = inode.ino;
  impl_->set_entry(*dir, name, inode.ino);
  impl_->change_nlink(*dir, 1);
  impl_->touch(*dir, true);
  const NameChange change{dir_ino, std::string(name), inode.ino};
  impl_->record_names({&change, 1}, {&inode, dir});
  return 0;
}

Errno Filesystem::symlink(Ino dir_ino, std::string_view name, std::string_view target, const Credentials& who,
                          Ino& out) {
  CHECK_NEW_NAME(dir, dir_ino, name);
  if (target.empty()) return -ENOENT;
  Inode& inode = impl_->add(S_IFLNK | 0777, 0, who, dir);
  inode.meta->nlink = 1;
  inode.meta->symlink_target = target;
  inode.size = target.size();
  out = inode.ino;
  impl_->set_entry(*dir, name, inode.ino);
  impl_->touch(*dir, true);
  const NameChange change{dir_ino, std::string(name), inode.ino};
  impl_->record_names({&change, 1}, {&inode});
  return 0;
}

Errno Filesystem::tmpfile(Ino dir_ino, mode_t mode, const Credentials& who, Ino& out) {
  Inode* dir = impl_->find(dir_ino);
  if (!dir) return -ENOENT;
  if (dir->type != S_IFDIR) return -ENOTDIR;
  Inode& inode = impl_->add(S_IFREG | (mode & 07777), 0, who, dir);
  out = inode.ino;
  impl_->record_names({}, {&inode});
  return 0;
}

Errno Filesystem::link(Ino ino, Ino dir_ino, std::string_view name) {
  constexpr nlink_t kLinksMax = 65000;
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  CHECK_NEW_NAME(dir, dir_ino, name);
  if (inode->type == S_IFDIR) return -EPERM;
  if (inode->meta && impl_->links_of(*inode) >= kLinksMax) return -EMLINK;
  impl_->change_nlink(*inode, 1);
  impl_->touch(*inode, false);
  impl_->set_entry(*dir, name, ino);
  impl_->touch(*dir, true);
  const NameChange change{dir_ino, std::string(name), ino};
  impl_->record_names({&change, 1}, {inode});
  return 0;
}

#undef CHECK_NEW_NAME

Errno Filesystem::unlink(Ino dir_ino, std::string_view name) {
  Inode* dir = impl_->find(dir_ino);
  if (!dir) return -ENOENT;
  if (dir->type != S_IFDIR) return -ENOTDIR;
  if (const Errno error = impl_->check_name(name)) return error;
  if (is_dot(name)) return -EISDIR;
  const Ino ino = impl_->find_entry(*dir, name);
  if (ino == kNoIno) return -ENOENT;
  Inode& inode = *impl_->find(ino);
  if (inode.type == S_IFDIR) return -EISDIR;
  impl_->set_entry(*dir, name, kNoIno);
  impl_->touch(*dir, true);
  impl_->change_nlink(inode, -1);
  impl_->touch(inode, false);
  const NameChange change{dir_ino, std::string(name), kNoIno};
  impl_->record_names({&change, 1}, {&inode});
  impl_->drop_if_unused(inode);
  return 0;
}

Errno Filesystem::rmdir(Ino dir_ino, std::string_view name) {
  Inode* dir = impl_->find(dir_ino);
  if (!dir) return -ENOENT;
  if (dir->type != S_IFDIR) return -ENOTDIR;
  if (const Errno error = impl_->check_name(name)) return error;
  if (name == ".") return -EINVAL;
  if (name == "..") return -ENOTEMPTY;
  const Ino ino = impl_->find_entry(*dir, name);
  if (ino == kNoIno) return -ENOENT;
  Inode& inode = *impl_->find(ino);
  if (inode.type != S_IFDIR) return -ENOTDIR;
  if (!impl_->is_empty(inode)) return -ENOTEMPTY;
  impl_->set_entry(*dir, name, kNoIno);
  impl_->touch(*dir, true);
  impl_->change_nlink(*dir, -1);
  impl_->touch_effect(Effects::Thing::kLinks, Effects::kBoth, ino);
  impl_->meta(inode).nlink = 0;
  impl_->touch(inode, false);
  const NameChange change{dir_ino, std::string(name), kNoIno};
  impl_->record_names({&change, 1}, {&inode, dir});
  impl_->drop_if_unused(inode);
  return 0;
}

namespace {
// The rules of rename(2) about what may replace what.
Errno check_replace(mode_t from_type, mode_t to_type, bool to_is_empty) {
  if (from_type == S_IFDIR && to_type != S_IFDIR) return -ENOTDIR;
  if (from_type != S_IFDIR && to_type == S_IFDIR) return -EISDIR;
  return to_type == S_IFDIR && !to_is_empty ? -ENOTEMPTY : 0;
}
}  // namespace

Errno Filesystem::rename(Ino from_dir_ino, std::string_view from, Ino to_dir_ino, std::string_view to, unsigned flags) {
  if (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) return -EINVAL;
  if ((flags & RENAME_NOREPLACE) && (flags & RENAME_EXCHANGE)) return -EINVAL;
  Inode* from_dir = impl_->find(from_dir_ino);
  Inode* to_dir = impl_->find(to_dir_ino);
  if (!from_dir || !to_dir || (to_dir->meta && impl_->links_of(*to_dir) == 0)) return -ENOENT;
  if (from_dir->type != S_IFDIR || to_dir->type != S_IFDIR) return -ENOTDIR;
  for (std::string_view name : {from, to}) {
    if (const Errno error = impl_->check_name(name)) return error;
    if (is_dot(name)) return (flags & RENAME_NOREPLACE) && name == to ? -EEXIST : -EBUSY;
  }
  const Ino moved = impl_->find_entry(*from_dir, from);
  if (moved == kNoIno) return -ENOENT;
  const Ino replaced = impl_->find_entry(*to_dir, to);
  if (replaced != kNoIno && (flags & RENAME_NOREPLACE)) return -EEXIST;
  if (replaced == kNoIno && (flags & RENAME_EXCHANGE)) return -ENOENT;
  Inode& moved_inode = *impl_->find(moved);
  Inode* replaced_inode = replaced == kNoIno ? nullptr : impl_->find(replaced);
  if (moved_inode.type == S_IFDIR && impl_->is_below(to_dir_ino, moved)) return -EINVAL;
  if (replaced_inode && replaced_inode->type == S_IFDIR && impl_->is_below(from_dir_ino, replaced)) {
    return (flags & RENAME_EXCHANGE) ? -EINVAL : -ENOTEMPTY;
  }
  if (moved == replaced) return 0;
  if (flags & RENAME_EXCHANGE) {
    impl_->exchange(*from_dir, from, moved_inode, *to_dir, to, *replaced_inode);
    return 0;
  }
  if (replaced_inode) {
    const bool is_empty = replaced_inode->type != S_IFDIR || impl_->is_empty(*replaced_inode);
    if (const Errno error = check_replace(moved_inode.type, replaced_inode->type, is_empty)) return error;
    if (impl_->recorder() && moved_inode.type == S_IFREG) impl_->recorder()->before_replace(moved);
  }
  impl_->move(*from_dir, from, moved_inode, *to_dir, to, replaced_inode);
  return 0;
}

void Filesystem::Impl::exchange(Inode& a_dir, std::string_view a, Inode& a_inode, Inode& b_dir, std::string_view b,
                                Inode& b_inode) {
  set_entry(a_dir, a, b_inode.ino);
  set_entry(b_dir, b, a_inode.ino);
  Inode* changed_a = nullptr;
  Inode* changed_b = nullptr;
  if (a_inode.type != b_inode.type && (a_inode.type == S_IFDIR || b_inode.type == S_IFDIR) && a_dir.ino != b_dir.ino) {
    const int by = a_inode.type == S_IFDIR ? -1 : 1;
    change_nlink(a_dir, by);
    change_nlink(b_dir, -by);
    changed_a = &a_dir;
    changed_b = &b_dir;
  }
  a_inode.parent = b_dir.ino;
  b_inode.parent = a_dir.ino;
  for (const Inode* inode : {&a_inode, &b_inode})
    touch_effect(Effects::Thing::kName, Effects::kBoth, inode->ino, persist::hash_of(".."));
  for (Inode* inode : {&a_inode, &b_inode}) touch(*inode, false);
  for (Inode* dir : {&a_dir, &b_dir}) touch(*dir, true);
  const NameChange changes[] = {{a_dir.ino, std::string(a), b_inode.ino}, {b_dir.ino, std::string(b), a_inode.ino}};
  record_names(changes, {changed_a, changed_b});
}

void Filesystem::Impl::move(Inode& from_dir, std::string_view from, Inode& moved, Inode& to_dir, std::string_view to,
                            Inode* replaced) {
  set_entry(to_dir, to, moved.ino);
  set_entry(from_dir, from, kNoIno);
  Inode* changed_from = nullptr;
  Inode* changed_to = nullptr;
  const bool is_dir = moved.type == S_IFDIR;
  if (is_dir && (from_dir.ino != to_dir.ino || replaced)) {
    change_nlink(from_dir, -1);
    if (!replaced) change_nlink(to_dir, 1);
    changed_from = &from_dir;
    if (!replaced) changed_to = &to_dir;
  }
  moved.parent = to_dir.ino;
  touch_effect(Effects::Thing::kName, Effects::kBoth, moved.ino, persist::hash_of(".."));
  touch(moved, false);
  touch(from_dir, true);
  touch(to_dir, true);
  if (replaced) {
    if (is_dir) {
      touch_effect(Effects::Thing::kLinks, Effects::kBoth, replaced->ino);
      meta(*replaced).nlink = 0;
    } else {
      change_nlink(*replaced, -1);
    }
    touch(*replaced, false);
  }
  const NameChange changes[] = {{to_dir.ino, std::string(to), moved.ino}, {from_dir.ino, std::string(from), kNoIno}};
  record_names(changes, {replaced, changed_from, changed_to});
  if (replaced) drop_if_unused(*replaced);
}

Errno Filesystem::readlink(Ino ino, std::string& target) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  if (inode->type != S_IFLNK) return -EINVAL;
  target = impl_->meta(*inode).symlink_target;
  impl_->note_access(*inode);
  return 0;
}

Errno Filesystem::readdir(Ino dir_ino, std::uint64_t cookie, std::size_t most, std::vector<DirEntry>& out) {
  Inode* dir = impl_->find(dir_ino);
  if (!dir) return -ENOENT;
  if (dir->type != S_IFDIR) return -ENOTDIR;
  out.clear();
  if (dir->meta && impl_->links_of(*dir) == 0) return -ENOENT;
  if (cookie < 1 && out.size() < most) out.push_back(DirEntry{".", dir_ino, S_IFDIR, 1});
  if (cookie < 2 && out.size() < most) out.push_back(DirEntry{"..", dir->parent, S_IFDIR, 2});
  if (out.size() == most) return 0;
  impl_->load_all_names(*dir);
  for (auto at = dir->entry_by_cookie.upper_bound(std::max<std::uint64_t>(cookie, 2));
       at != dir->entry_by_cookie.end() && out.size() < most; ++at) {
    const Ino ino = dir->entries.find(at->second)->second.ino;
    out.push_back(DirEntry{at->second, ino, impl_->find(ino)->type, at->first});
  }
  return 0;
}

// ---- attributes -------------------------------------------------------------------------------------------------

mode_t Filesystem::type(Ino ino) { return impl_->find(ino)->type; }

std::optional<std::uint64_t> Filesystem::known_size(Ino ino) { return impl_->find(ino)->size; }

Errno Filesystem::getattr(Ino ino, struct stat& out) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  const Meta& meta = impl_->meta(*inode);
  impl_->touch_effect(Effects::Thing::kLinks, Effects::kTarget, ino);
  impl_->touch_effect(Effects::Thing::kSize, Effects::kTarget, ino);
  impl_->touch_writing(ino, Effects::kTarget);  // st_blocks
  out = {};
  out.st_dev = 0xcc;
  out.st_ino = static_cast<ino_t>(ino);
  out.st_mode = meta.mode;
  out.st_nlink = meta.nlink;
  out.st_uid = meta.uid;
  out.st_gid = meta.gid;
  out.st_rdev = meta.rdev;
  out.st_blksize = static_cast<blksize_t>(std::max<std::uint32_t>(impl_->setup.block_bytes, 512));
  out.st_atim = meta.atime;
  out.st_mtim = meta.mtime;
  out.st_ctim = meta.ctime;
  if (inode->type == S_IFDIR) {
    out.st_size = impl_->setup.block_bytes;
  } else {
    out.st_size = static_cast<off_t>(inode->type == S_IFLNK ? meta.symlink_target.size() : impl_->size(*inode));
  }
  // On a crashed disk the number of blocks would be one more decision for each; the size gives it there.
  const std::uint64_t bytes = inode->is_on_medium ? static_cast<std::uint64_t>(out.st_size)
                                                  : inode->blocks.size() * std::uint64_t{impl_->setup.block_bytes};
  out.st_blocks = static_cast<blkcnt_t>((bytes + 511) / 512);
  return 0;
}

Errno Filesystem::get_owner(Ino ino, Owner& out) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  impl_->touch_effect(Effects::Thing::kAttributes, Effects::kTarget, ino);
  if (inode->meta) {
    out = owner_of(*inode->meta);
  } else {
    out = impl_->medium()->owner(ino);
  }
  return 0;
}

void Filesystem::note_access(Ino ino) { impl_->note_access(*impl_->find(ino)); }

Errno Filesystem::setattr(Ino ino, const AttrChange& change) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  Meta& meta = impl_->meta(*inode);
  impl_->touch_effect(Effects::Thing::kAttributes, Effects::kBoth, ino);
  if (change.mode) meta.mode = inode->type | (*change.mode & 07777);
  if (change.uid) meta.uid = *change.uid;
  if (change.gid) meta.gid = *change.gid;
  meta.ctime = impl_->now();
  if (change.atime) meta.atime = change.atime->tv_nsec == UTIME_NOW ? meta.ctime : *change.atime;
  if (change.mtime) meta.mtime = change.mtime->tv_nsec == UTIME_NOW ? meta.ctime : *change.mtime;
  if (impl_->recorder()) impl_->recorder()->change_meta(MetaChange{ino, meta});
  return 0;
}

namespace {
Errno check_xattr_name(mode_t type, const std::string& name) {
  constexpr std::size_t kNameBytesMax = 255;
  if (name.empty() || name.size() > kNameBytesMax) return -ERANGE;
  const bool is_user = name.starts_with("user.");
  if (!is_user && !name.starts_with("trusted.") && !name.starts_with("security.")) return -EOPNOTSUPP;
  if (is_user && name.size() == 5) return -EINVAL;
  return is_user && type != S_IFREG && type != S_IFDIR ? -EPERM : 0;
}
}  // namespace

Errno Filesystem::set_xattr(Ino ino, const std::string& name, std::string_view value, int flags) {
  constexpr std::size_t kValueBytesMax = 65536;
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  if (flags & ~(XATTR_CREATE | XATTR_REPLACE)) return -EINVAL;
  if (value.size() > kValueBytesMax) return -E2BIG;
  if (const Errno error = check_xattr_name(inode->type, name)) return error;
  Meta& meta = impl_->meta(*inode);
  const bool exists = meta.xattrs.contains(name);
  if (exists && (flags & XATTR_CREATE)) return -EEXIST;
  if (!exists && (flags & XATTR_REPLACE)) return -ENODATA;
  std::size_t bytes = name.size() + value.size();
  for (const auto& [other, other_value] : meta.xattrs) {
    if (other != name) bytes += other.size() + other_value.size();
  }
  if (bytes > 4000) return -ENOSPC;  // ext4 keeps them in one block beside the inode
  meta.xattrs[name] = value;
  impl_->touch_effect(Effects::Thing::kAttributes, Effects::kBoth, ino);
  impl_->touch(*inode, false);
  if (impl_->recorder()) impl_->recorder()->change_meta(MetaChange{ino, meta});
  return 0;
}

Errno Filesystem::get_xattr(Ino ino, const std::string& name, std::string& value) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  if (const Errno error = check_xattr_name(inode->type, name)) return error == -EPERM ? -ENODATA : error;
  const Meta& meta = impl_->meta(*inode);
  const auto found = meta.xattrs.find(name);
  if (found == meta.xattrs.end()) return -ENODATA;
  value = found->second;
  return 0;
}

Errno Filesystem::list_xattr(Ino ino, std::vector<std::string>& names) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  names.clear();
  for (const auto& [name, value] : impl_->meta(*inode).xattrs) names.push_back(name);
  return 0;
}

Errno Filesystem::remove_xattr(Ino ino, const std::string& name) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -ENOENT;
  if (const Errno error = check_xattr_name(inode->type, name)) return error;
  Meta& meta = impl_->meta(*inode);
  if (meta.xattrs.erase(name) == 0) return -ENODATA;
  impl_->touch_effect(Effects::Thing::kAttributes, Effects::kBoth, ino);
  impl_->touch(*inode, false);
  if (impl_->recorder()) impl_->recorder()->change_meta(MetaChange{ino, meta});
  return 0;
}

void Filesystem::statfs(struct statvfs& out) {
  impl_->touch_effect(Effects::Thing::kSpace, Effects::kTarget, kNoIno);
  out = {};
  out.f_bsize = out.f_frsize = impl_->setup.block_bytes;
  out.f_blocks = impl_->setup.capacity_bytes / impl_->setup.block_bytes;
  out.f_bfree = out.f_bavail = out.f_blocks - std::min<std::uint64_t>(out.f_blocks, impl_->used_blocks);
  out.f_files = 1 << 20;
  out.f_ffree = out.f_favail = out.f_files - std::min<std::uint64_t>(out.f_files, impl_->inodes.size());
  out.f_namemax = 255;
}

// ---- open descriptions and locks --------------------------------------------------------------------------------

void Filesystem::add_open(Ino ino) { ++impl_->find(ino)->opens; }

void Filesystem::release(Ino ino, bool was_writable) {
  Inode& inode = *impl_->find(ino);
  CHECK(inode.opens > 0);
  if (was_writable && impl_->recorder()) impl_->recorder()->on_release(ino);
  --inode.opens;
  impl_->drop_if_unused(inode);
}

Errno Filesystem::posix_lock(Ino ino, std::uint64_t owner, const struct flock& lock) {
  impl_->touch_effect(Effects::Thing::kFileLocks, Effects::kBoth, ino);
  return impl_->find(ino)->locks.set(owner, lock);
}

Errno Filesystem::posix_test_lock(Ino ino, std::uint64_t owner, struct flock& lock) {
  impl_->touch_effect(Effects::Thing::kFileLocks, Effects::kTarget, ino);
  impl_->find(ino)->locks.test(owner, lock);
  return 0;
}

Errno Filesystem::flock(Ino ino, std::uint64_t owner, int operation) {
  impl_->touch_effect(Effects::Thing::kFileLocks, Effects::kBoth, ino);
  return impl_->find(ino)->locks.flock(owner, operation);
}

void Filesystem::drop_locks(Ino ino, std::uint64_t owner) {
  FileLocks& locks = impl_->find(ino)->locks;
  impl_->touch_effect(Effects::Thing::kFileLocks, locks.empty() ? Effects::kTarget : Effects::kBoth, ino);
  locks.drop(owner);
}

// ---- syncs ------------------------------------------------------------------------------------------------------

Errno Filesystem::fsync(Ino ino, bool datasync) {
  if (!impl_->find(ino)) return -EBADF;
  if (impl_->recorder()) impl_->recorder()->fsync(ino, datasync);
  return 0;
}

Errno Filesystem::sync() {
  if (impl_->recorder()) impl_->recorder()->sync();
  return 0;
}

Errno Filesystem::sync_file_range(Ino ino, std::uint64_t offset, std::uint64_t length, unsigned flags) {
  Inode* inode = impl_->find(ino);
  if (!inode) return -EBADF;
  constexpr unsigned kKnown = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (flags & ~kKnown) return -EINVAL;
  if (inode->type != S_IFREG && inode->type != S_IFDIR && inode->type != S_IFLNK) return -ESPIPE;
  impl_->touch_effect(Effects::Thing::kSize, Effects::kTarget, ino);
  if ((flags & SYNC_FILE_RANGE_WRITE) && impl_->recorder()) impl_->recorder()->start_writeback(ino, offset, length);
  return 0;
}

void Filesystem::make_durable() {
  if (impl_->recorder()) impl_->recorder()->make_durable();
}

}  // namespace crashcut::fusefs
