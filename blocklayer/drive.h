// Drive: what a disk drive can hold after the power fails, and the options that narrow it or widen it.
//
// A drive takes requests: writes, write zeroes, discards, flushes. Each request is issued at one moment and completes
//   at a later one. Several may be in flight at a time. The power fails at any moment between two of these.
//
// On crash, the fates of a request that was issued before the power failed:
//   write        It survives or not, whatever came before or after it: the cache writes back in any order. A write of
//                several sectors is torn: any subset of its sectors survives. A sector survives whole or not at all.
//   write zeroes The same, with zeroes as its data.
//   flush        Once it has completed, every write survives that had completed before the flush was issued. A write
//                that was in flight when the flush was issued is not covered, even if it completed first.
//   FUA write    Once it has completed, it survives whole. It says nothing about other writes.
//   discard      The sectors read as zeroes or keep what they held, for ever: it is advice, and no flush settles it.
// Of the surviving writes of one sector the newest shows. Two writes of one sector that were in flight at the same time
//   have no order: either may be the newest, sector by sector, and a flush does not tell which one was.
// A buffered write went into the page cache of the host. It has completed for the program, but only a flush (an fsync)
//   makes it survive, whatever the drive. Writing it back (BLKFLSBUF, sync()) moves it to the drive's cache: on a drive
//   without a cache it survives then, on any other that changes nothing.
//
// What the options change:
//   sector_bytes      what a drive writes in one piece: 512 or 4096
//   tear = prefix     the surviving sectors of a write are the first ones
//   tear = none       a write survives whole or not at all
//   atomic_sectors    a write of at most so many sectors survives whole or not at all (NVMe: AWUPF), unless it crosses
//                     a multiple of boundary_sectors (NVMe: NABSPF; 0: there is no such boundary)
//   cache = none      every write is a FUA write: a drive without a volatile cache, or with a battery
//   cache = lies      flushes and FUA are ignored
//   faults            so many faults at most in one recovery, of the kinds in fault_kinds. 0: none
//   fault_kinds       written      a sector that the drive was sent a write for cannot be read, or reads as something
//                                  else
//                     any          the same of any sector of the drive, at any moment
//                     misdirected  a write went elsewhere: to where another request of the recording begins. Its own
//                                  sectors hold what they would hold without it. Where it went it has the fate that it
//                                  would have had at home: it tears, and flushes and FUA cover it, in the same way.
//                                  Each such write of the program counts as one fault
//                     misdirected-any  the same to any sector of the drive
//
// Does not model: a write of a recovery that goes elsewhere; a sector whose error correction notices that it is torn
//   (both may miss bugs); reads of the program, which would tell the order of two writes that were in flight at the
//   same time (may report what cannot happen).
// Sources: NVM Express Base Specification 1.4, 6.4 (atomic operations), 6.8 (flush); Linux,
//   Documentation/block/writeback_cache_control.rst; TigerBeetle, src/testing/storage.zig (bad sectors,
//   misdirected writes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "persist/recording.h"

namespace crashcut::blocklayer {

using Sector = std::uint64_t;
inline constexpr std::uint32_t kSectorBytesMost = 4096;

enum class Cache : std::uint8_t { kVolatile, kNone, kLies };
enum class Tear : std::uint8_t { kAny, kPrefix, kNone };
// A set of kinds is their sum.
enum FaultKind : std::uint8_t { kBadWritten = 1, kBadAny = 2, kMisdirected = 4, kMisdirectedAny = 8 };

struct DriveOptions {
  std::uint32_t sector_bytes = 512;
  Cache cache = Cache::kVolatile;
  Tear tear = Tear::kAny;
  std::uint32_t atomic_sectors = 1;
  std::uint32_t boundary_sectors = 0;
  std::uint32_t faults = 0;
  std::uint8_t fault_kinds = kBadWritten;

  bool has_fault(FaultKind kind) const { return faults > 0 && (fault_kinds & kind) != 0; }
  bool operator==(const DriveOptions&) const = default;
};

// "volatile", "none", "lies"; "any", "prefix", "none". The error is a sentence.
tl::expected<Cache, std::string> parse_cache(std::string_view text);
tl::expected<Tear, std::string> parse_tear(std::string_view text);
// "written", "any", "misdirected", "misdirected-any", with commas between them.
tl::expected<std::uint8_t, std::string> parse_fault_kinds(std::string_view text);
// The error is a sentence.
tl::expected<void, std::string> check_options(const DriveOptions& options);

// All settings; and those that differ from the default, for tokens.
persist::ModelSpec spec_of(const DriveOptions& options);
persist::ModelSpec changes_of(const DriveOptions& options);
// None where the settings make no sense.
std::optional<DriveOptions> options_of(const persist::ModelSpec& spec);

// Whether the drive writes these sectors whole or not at all.
bool is_atomic(const DriveOptions& options, Sector first, std::uint64_t count);

}  // namespace crashcut::blocklayer
