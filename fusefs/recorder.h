// Recorder: turns what a filesystem does into events and their persist order, as a Profile says.
//
// On crash, the fates of a pending item: see fusefs/profile.cc, where each is coded as a rule with its source.
// Threads: the caller serialises.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "fusefs/effects.h"
#include "fusefs/medium.h"
#include "fusefs/recording.h"
#include "persist/added_sync.h"

namespace crashcut::fusefs {

struct NameChange {
  Ino dir;
  std::string name;
  Ino target;  // kNoIno: removed
};
struct MetaChange {
  Ino ino;
  Meta meta;
};
// The bytes of a block as the page cache holds them now: always a whole block.
using BlockBytes = std::function<std::span<const std::byte>(std::uint64_t block)>;

class Recorder {
 public:
  // `base` is the crashed disk that a recovery works on, or null for an empty disk. Its contents are durable for this
  // recorder. `effects`, if not null, gets what each call has to do with other calls.
  explicit Recorder(const ModelOptions& options, Medium* base = nullptr, Effects* effects = nullptr);
  ~Recorder();

  // Syncs that are done besides, each just before the operation that it names is begun. Call it before the first.
  void add_syncs(std::span<const persist::AddedSync> syncs);
  // The operation that the following calls belong to, in words for the report.
  void begin_op(std::string text);
  // The text of the operation that was begun last, if the text is known only afterwards.
  void name_op(std::string text);
  // The operation that was begun last failed: it is removed, unless it made events nevertheless.
  void drop_op();

  // A name that the disk below had, for reports.
  void note_name(Ino dir, std::string_view name, Ino ino);

  // The root of the empty disk.
  void set_root(const Meta& meta);
  void add_inode(Ino ino, mode_t type);
  // One atomic change of directory entries and of inodes' metadata.
  void change_names(std::span<const NameChange> names, std::span<const MetaChange> metas);
  void change_meta(const MetaChange& change);

  struct WriteRange {
    Ino ino;
    std::uint64_t offset;
    std::uint64_t length;
    std::uint64_t old_size;
    bool direct;
  };
  // The bytes of the calls that follow: in recording().bytes.outside(), and to be written at `offset`. Sectors that are
  // there whole are not copied. None: they are nowhere but in the page cache.
  void set_source(std::uint64_t offset, std::span<const std::byte> bytes);
  // Before the first byte of a call is written; `range` is the whole call.
  void begin_write(const WriteRange& range);
  // After the page cache holds the new bytes, block by block. Zeros between old_size and offset belong to it.
  void write(const WriteRange& range, const BlockBytes& bytes);
  void truncate(Ino ino, std::uint64_t old_size, std::uint64_t new_size, const BlockBytes& bytes);
  // fallocate: blocks that read as NULs until they are written; new_size == old_size is KEEP_SIZE.
  void preallocate(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size, std::uint64_t new_size,
                   bool keeps_size, const BlockBytes& bytes);
  // PUNCH_HOLE and ZERO_RANGE: whole blocks read as NULs at once; the rest of the range is data.
  // ZERO_RANGE allocates them too.
  void zero_range(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size, std::uint64_t new_size,
                  const BlockBytes& bytes, bool allocates = false);
  // COLLAPSE_RANGE (shift < 0) and INSERT_RANGE: blocks from `first` on move by `shift` blocks.
  void shift_blocks(Ino ino, std::uint64_t first, std::int64_t shift, std::uint64_t old_size, std::uint64_t new_size,
                    const BlockBytes& bytes);

  void fsync(Ino ino, bool datasync);
  // What O_SYNC and O_DSYNC do after a write: the data of that range only (generic_write_sync).
  void fsync_range(Ino ino, std::uint64_t offset, std::uint64_t length, bool datasync);
  void sync();
  // sync_file_range: starts writeback and promises nothing. A length of 0 means to the end of the file.
  void start_writeback(Ino ino, std::uint64_t offset, std::uint64_t length);
  // The inode has no name and no open descriptor any more.
  void free_inode(Ino ino);
  void before_replace(Ino moved);  // rename over an existing file
  void on_release(Ino ino);        // a writable description is closed
  void mark(const std::string& text);
  void make_durable();

  // For an execution of several threads, before the recording is sealed; needs effects. A rule about the whole disk
  // (one journal, a sync before everything later) orders events that happened one after the other by chance. loosen()
  // keeps the order only if is_before(i, j) holds for their steps i < j: the steps cannot be swapped. The recording
  // then has the crashes of every execution that differs from this one by swaps of other steps (recorder_loosen.cc).
  void loosen(const std::function<bool(std::uint32_t, std::uint32_t)>& is_before);
  // Whether more than one thread made events.
  bool is_concurrent() const;
  // Ends the recording.
  void seal();
  // After seal(): gives back the memory that only recording needs, which is as much as the recording takes itself. What
  // was recorded stays. A recorder whose memory goes as a whole, as in a program under test, need not.
  void forget_state();
  Recording& recording();
  const Recording& recording() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crashcut::fusefs
