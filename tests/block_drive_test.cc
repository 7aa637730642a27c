// The drive: litmus with exact counts, and random request logs against the brute-force oracle.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "blocklayer/crashed_drive.h"
#include "blocklayer/recorder.h"
#include "persist/explore.h"
#include "tests/block_oracle.h"
#include "tests/seeds.h"

namespace crashcut::blocklayer {
namespace {

using tests::OracleDrive;
using tests::OracleImage;
using tests::OracleRequest;
using tests::OracleStep;

// Sectors whose first bytes are a number.
class NumberedSectors {
 public:
  explicit NumberedSectors(std::uint32_t sector_bytes) : sector_bytes_(sector_bytes) {}
  std::uint64_t add(std::uint64_t count, int value) {
    std::vector<std::byte> bytes(count * sector_bytes_, std::byte{0xee});
    for (std::uint64_t i = 0; i < count; ++i) std::memcpy(&bytes[i * sector_bytes_], &value, sizeof value);
    return payloads->add(bytes);
  }
  std::shared_ptr<MemoryPayloads> payloads = std::make_shared<MemoryPayloads>();

 private:
  std::uint32_t sector_bytes_;
};

// A program for a drive: "w0-1" and the like, see run().
class Program {
 public:
  explicit Program(const DriveOptions& options = {}, const FaultPlaces& places = {})
      : numbers_(options.sector_bytes), recorder_(options, numbers_.payloads, places) {}

  RequestId issue(Sector first, std::uint64_t count, int value, bool is_fua = false, bool is_buffered = false) {
    return recorder_.issue({RequestKind::kWrite, first, count, numbers_.add(count, value), is_fua, is_buffered, {}});
  }
  RequestId issue_flush() { return recorder_.issue({.kind = RequestKind::kFlush}); }
  RequestId issue(RequestKind kind, Sector first, std::uint64_t count) {
    return recorder_.issue({.kind = kind, .first = first, .count = count});
  }
  void complete(RequestId id) { recorder_.complete(id); }
  // One after the other, nothing else in flight.
  void write(Sector first, std::uint64_t count, int value) { complete(issue(first, count, value)); }
  void write_fua(Sector first, std::uint64_t count, int value) { complete(issue(first, count, value, true)); }
  void write_buffered(Sector first, std::uint64_t count, int value) {
    complete(issue(first, count, value, false, true));
  }
  void flush() { complete(issue_flush()); }
  void write_back() { complete(recorder_.issue({.kind = RequestKind::kFlush, .is_buffered = true})); }
  void mark(const std::string& text) { recorder_.mark(text); }
  void make_durable() { recorder_.make_durable(); }
  DriveRecorder& recorder() { return recorder_; }

 private:
  NumberedSectors numbers_;
  DriveRecorder recorder_;
};

int read_number(CrashedDrive& drive, Sector sector) {
  std::array<std::byte, sizeof(int)> bytes;
  if (drive.read(sector, 0, bytes) != 0) return tests::kUnreadable;
  int value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value < 0 || value > 1'000'000 ? tests::kGarbage : value;
}

struct Explored {
  std::multiset<OracleImage> images;  // one a recovery
  std::set<OracleImage> distinct() const { return {images.begin(), images.end()}; }
};

// Every recovery that reads these sectors and marks, in this order.
Explored explore(const DriveRecording& recording, const std::vector<Sector>& sectors,
                 const std::vector<std::string>& marks = {}) {
  Explored explored;
  persist::Cut cut(recording.log);
  persist::ChoiceTree tree;
  const auto done = persist::explore(tree, {}, [&](persist::Chooser& chooser) {
    cut.reset();
    CrashedDrive drive({{&recording, &cut}}, chooser);
    OracleImage image;
    for (const Sector sector : sectors) image.push_back(read_number(drive, sector));
    for (const std::string& mark : marks) image.push_back(drive.reached(mark) ? 1 : 0);
    explored.images.insert(image);
  });
  EXPECT_TRUE(done.complete);
  return explored;
}

// ---- litmus ---------------------------------------------------------------------------------------------------------

struct Litmus {
  const char* name;
  DriveOptions options;
  void (*program)(Program&);
  std::vector<Sector> sectors;
  std::set<OracleImage> allowed;  // exactly these, one recovery each
};

DriveOptions with_cache(Cache cache) { return {.cache = cache}; }
DriveOptions with_tear(Tear tear) { return {.tear = tear}; }

// The wrong twin stands below the right one.
const Litmus kLitmus[] = {
    {"a flush orders what comes before and after it",
     {},
     [](Program& p) { p.write(0, 1, 1), p.flush(), p.write(1, 1, 1); },
     {0, 1},
     {{0, 0}, {1, 0}, {1, 1}}},
    {"without one the writes persist in any order",
     {},
     [](Program& p) { p.write(0, 1, 1), p.write(1, 1, 1); },
     {0, 1},
     {{0, 0}, {1, 0}, {0, 1}, {1, 1}}},
    {"a flush covers a write that had completed when it was issued",
     {},
     [](Program& p) {
       const RequestId w = p.issue(0, 1, 1);
       p.complete(w);
       const RequestId f = p.issue_flush();
       p.complete(f), p.write(1, 1, 1);
     },
     {0, 1},
     {{0, 0}, {1, 0}, {1, 1}}},
    {"a flush does not cover a write that was in flight when it was issued",
     {},
     [](Program& p) {
       const RequestId w = p.issue(0, 1, 1), f = p.issue_flush();
       p.complete(w), p.complete(f), p.write(1, 1, 1);
     },
     {0, 1},
     {{0, 0}, {1, 0}, {0, 1}, {1, 1}}},
    {"a write that was issued while the flush was in flight is not bound by it",
     {},
     [](Program& p) {
       p.write(0, 1, 1);
       const RequestId f = p.issue_flush(), w = p.issue(1, 1, 1);
       p.complete(f), p.complete(w);
     },
     {0, 1},
     {{0, 0}, {1, 0}, {0, 1}, {1, 1}}},
    {"a FUA write is durable once it is done",
     {},
     [](Program& p) { p.write_fua(0, 1, 1), p.write(1, 1, 1); },
     {0, 1},
     {{0, 0}, {1, 0}, {1, 1}}},
    {"a FUA write says nothing of the write before it",
     {},
     [](Program& p) { p.write(0, 1, 1), p.write_fua(1, 1, 1), p.write(2, 1, 1); },
     {0, 1, 2},
     {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 1, 1}, {1, 1, 1}}},
    {"a drive without a cache writes in order",
     with_cache(Cache::kNone),
     [](Program& p) { p.write(0, 1, 1), p.write(1, 1, 1); },
     {0, 1},
     {{0, 0}, {1, 0}, {1, 1}}},
    {"but what is in flight together has no order there either",
     with_cache(Cache::kNone),
     [](Program& p) {
       const RequestId a = p.issue(0, 1, 1), b = p.issue(1, 1, 1);
       p.complete(a), p.complete(b);
     },
     {0, 1},
     {{0, 0}, {1, 0}, {0, 1}, {1, 1}}},
    {"a buffered write waits for a flush even there",
     with_cache(Cache::kNone),
     [](Program& p) { p.write_buffered(0, 1, 1), p.write(1, 1, 1); },
     {0, 1},
     {{0, 0}, {1, 0}, {0, 1}, {1, 1}}},
    {"writing back is no flush",
     {},
     [](Program& p) { p.write_buffered(0, 1, 1), p.write_back(), p.write(1, 1, 1); },
     {0, 1},
     {{0, 0}, {1, 0}, {0, 1}, {1, 1}}},
    {"but a drive without a cache has it then",
     with_cache(Cache::kNone),
     [](Program& p) { p.write_buffered(0, 1, 1), p.write_back(), p.write(1, 1, 1); },
     {0, 1},
     {{0, 0}, {1, 0}, {1, 1}}},
    {"a cache that lies ignores the flush",
     with_cache(Cache::kLies),
     [](Program& p) { p.write(0, 1, 1), p.flush(), p.write_fua(1, 1, 1), p.write(2, 1, 1); },
     {0, 1, 2},
     {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}}},
    {"a write tears in any subset",
     {},
     [](Program& p) { p.write(0, 3, 1); },
     {0, 1, 2},
     {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}}},
    {"or as a prefix",
     with_tear(Tear::kPrefix),
     [](Program& p) { p.write(0, 3, 1); },
     {0, 1, 2},
     {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {1, 1, 1}}},
    {"or not at all", with_tear(Tear::kNone), [](Program& p) { p.write(0, 3, 1); }, {0, 1, 2}, {{0, 0, 0}, {1, 1, 1}}},
    {"a prefix of one write is not bound to a write of its middle",
     with_tear(Tear::kPrefix),
     [](Program& p) { p.write(0, 2, 1), p.write(1, 1, 2); },
     {0, 1},
     {{0, 0}, {1, 0}, {1, 1}, {0, 2}, {1, 2}}},
    {"a whole write is not bound to a later write of a part",
     with_tear(Tear::kNone),
     [](Program& p) { p.write(0, 2, 1), p.write(1, 1, 2); },
     {0, 1},
     {{0, 0}, {1, 1}, {0, 2}, {1, 2}}},
    {"AWUPF: a write of so many sectors does not tear",
     {.atomic_sectors = 2},
     [](Program& p) { p.write(1, 2, 1); },
     {1, 2},
     {{0, 0}, {1, 1}}},
    {"a larger one does",
     {.atomic_sectors = 2},
     [](Program& p) { p.write(1, 3, 1); },
     {1, 2, 3},
     {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}}},
    {"NABSPF: so does one that crosses the boundary",
     {.atomic_sectors = 2, .boundary_sectors = 2},
     [](Program& p) { p.write(1, 2, 1); },
     {1, 2},
     {{0, 0}, {0, 1}, {1, 0}, {1, 1}}},
    {"and one that lies inside does not",
     {.atomic_sectors = 2, .boundary_sectors = 2},
     [](Program& p) { p.write(2, 2, 1); },
     {2, 3},
     {{0, 0}, {1, 1}}},
    {"the newest write of a sector shows after a flush",
     {},
     [](Program& p) { p.write(0, 1, 1), p.write(0, 1, 2), p.flush(), p.make_durable(); },
     {0},
     {{2}}},
    {"a discarded sector is old or zero for ever",
     {},
     [](Program& p) {
       p.write(0, 1, 1), p.flush(), p.make_durable();
       p.complete(p.issue(RequestKind::kDiscard, 0, 1));
       p.flush(), p.write(1, 1, 7), p.flush(), p.mark("end");
     },
     {0},
     {{1}, {0}}},
    {"zeroes are written, and a flush settles them",
     {},
     [](Program& p) {
       p.write(0, 1, 1), p.make_durable();
       p.complete(p.issue(RequestKind::kZero, 0, 1));
       p.flush(), p.write(1, 1, 7);
     },
     {1, 0},
     {{0, 1}, {0, 0}, {7, 0}}},
    {"equal neighbours are one candidate",
     {},
     [](Program& p) { p.write(0, 1, 1), p.write(0, 1, 1), p.write(0, 1, 2); },
     {0},
     {{0}, {1}, {2}}},
};

TEST(DriveLitmus, AllowsExactlyWhatItShouldOneRecoveryEach) {
  for (const Litmus& litmus : kLitmus) {
    for (const std::uint32_t sector_bytes : {512u, 4096u}) {
      DriveOptions options = litmus.options;
      options.sector_bytes = sector_bytes;
      Program program(options);
      litmus.program(program);
      program.recorder().seal();
      const Explored explored = explore(program.recorder().recording(), litmus.sectors);
      EXPECT_EQ(explored.distinct(), litmus.allowed) << litmus.name;
      EXPECT_EQ(explored.images.size(), litmus.allowed.size()) << litmus.name;
    }
  }
}

TEST(DriveLitmus, TwoWritesOfOneSectorInFlightLandInEitherOrder) {
  Program program;
  const RequestId a = program.issue(0, 1, 1), b = program.issue(0, 1, 2);
  program.complete(a), program.complete(b);
  program.flush(), program.mark("flushed");
  program.recorder().seal();
  const auto images = explore(program.recorder().recording(), {0}, {"flushed"}).distinct();
  EXPECT_EQ(images, (std::set<OracleImage>{{0, 0}, {1, 0}, {2, 0}, {1, 1}, {2, 1}}));
  EXPECT_EQ(program.recorder().recording().overlaps, 1u);
}

// The twin: the first one is done when the second one is issued.
TEST(DriveLitmus, TwoWritesOfOneSectorInARowLandInOrder) {
  Program program;
  program.write(0, 1, 1), program.write(0, 1, 2);
  program.flush(), program.mark("flushed");
  program.recorder().seal();
  const Explored explored = explore(program.recorder().recording(), {0}, {"flushed"});
  EXPECT_EQ(explored.distinct(), (std::set<OracleImage>{{0, 0}, {1, 0}, {2, 0}, {2, 1}}));
  EXPECT_EQ(explored.images.size(), 4u);
  EXPECT_EQ(program.recorder().recording().overlaps, 0u);
}

TEST(DriveLitmus, FaultsAreBounded) {
  Program program({.faults = 1});
  program.write(0, 1, 1), program.write(1, 1, 1), program.make_durable();
  program.recorder().seal();
  const Explored explored = explore(program.recorder().recording(), {0, 1, 2});
  EXPECT_EQ(explored.distinct(), (std::set<OracleImage>{{1, 1, 0}, {-1, 1, 0}, {-2, 1, 0}, {1, -1, 0}, {1, -2, 0}}));
  EXPECT_EQ(explored.images.size(), 5u);
}

TEST(DriveLitmus, FaultsOfAnySectorAreBounded) {
  Program program({.faults = 1, .fault_kinds = kBadAny}, {.sector_count = 3});
  program.write(0, 1, 1), program.make_durable(), program.write(1, 1, 1);
  program.recorder().seal();
  const Explored explored = explore(program.recorder().recording(), {0, 1, 2});
  std::set<OracleImage> allowed{{1, -1, 0}, {1, -2, 0}};
  for (const int second : {0, 1})
    allowed.merge(
        std::set<OracleImage>{{1, second, 0}, {-1, second, 0}, {-2, second, 0}, {1, second, -1}, {1, second, -2}});
  EXPECT_EQ(explored.distinct(), allowed);
  EXPECT_EQ(explored.images.size(), allowed.size());
  // The device has no fourth sector.
  EXPECT_EQ(explore(program.recorder().recording(), {3}).images, (std::multiset<OracleImage>{{0}}));
}

// Both sectors hold 1 durably; the write of a 2 is flushed.
std::set<OracleImage> misdirected(const DriveOptions& options, const std::vector<Sector>& sectors, std::size_t& count) {
  const std::vector<NumberedRequest> requests = {{1, RequestKind::kWrite, 0, 1, true},
                                                 {2, RequestKind::kWrite, 1, 1, true},
                                                 {3, RequestKind::kWrite, 0, 1, false},
                                                 {4, RequestKind::kFlush, 0, 0, false}};
  Program program(options, {.sector_count = 3, .misdirections = misdirections_of(requests, 3, options)});
  program.write(0, 1, 1), program.write(1, 1, 1), program.make_durable();
  program.write(0, 1, 2), program.flush(), program.mark("flushed");
  program.recorder().seal();
  const Explored explored = explore(program.recorder().recording(), sectors, {"flushed"});
  count = explored.images.size();
  return explored.distinct();
}

TEST(DriveLitmus, AWriteThatWentElsewhereIsThereAndNotAtHome) {
  std::size_t count = 0;
  EXPECT_EQ(misdirected({.faults = 1, .fault_kinds = kMisdirected}, {0, 1}, count),
            (std::set<OracleImage>{{1, 1, 0}, {2, 1, 0}, {2, 1, 1}, {1, 2, 0}, {1, 2, 1}}));
  // One more: the write that would have gone elsewhere, and was lost.
  EXPECT_EQ(count, 6u);
  // What nobody reads that it touches is not decided.
  misdirected({.faults = 1, .fault_kinds = kMisdirected}, {2}, count);
  EXPECT_EQ(count, 2u);
}

// The twins: without faults a flushed write is at home and nowhere else, also if the other kinds are asked for.
TEST(DriveLitmus, NoWriteGoesElsewhereUnlessAskedFor) {
  std::size_t count = 0;
  const std::set<OracleImage> at_home{{1, 1, 0}, {2, 1, 0}, {2, 1, 1}};
  EXPECT_EQ(misdirected({.faults = 0, .fault_kinds = kMisdirected}, {0, 1}, count), at_home);
  EXPECT_EQ(count, 3u);
  const std::set<OracleImage> bad = misdirected({.faults = 1, .fault_kinds = kBadWritten}, {0, 1}, count);
  EXPECT_FALSE(bad.contains({1, 2, 0}));
  EXPECT_FALSE(bad.contains({1, 1, 1}));
  EXPECT_FALSE(bad.contains({1, 2, 1}));
}

// Two writes may go elsewhere, each to the place of the other one.
TEST(DriveLitmus, TwoWritesThatWentElsewhereAreTwoFaults) {
  const std::vector<NumberedRequest> requests = {{1, RequestKind::kWrite, 0, 1, false},
                                                 {2, RequestKind::kWrite, 1, 1, false}};
  const auto flushed_with = [&](std::uint32_t faults) {
    const DriveOptions options{.faults = faults, .fault_kinds = kMisdirected};
    Program program(options, {.sector_count = 2, .misdirections = misdirections_of(requests, 2, options)});
    program.write(0, 1, 1), program.write(1, 1, 2), program.flush(), program.mark("flushed");
    program.recorder().seal();
    std::set<OracleImage> flushed;
    for (const OracleImage& image : explore(program.recorder().recording(), {0, 1}, {"flushed"}).distinct()) {
      if (image[2] == 1) flushed.insert(image);
    }
    return flushed;
  };
  EXPECT_EQ(flushed_with(1), (std::set<OracleImage>{{1, 2, 1}, {0, 2, 1}, {2, 0, 1}}));
  EXPECT_EQ(flushed_with(2), (std::set<OracleImage>{{1, 2, 1}, {0, 2, 1}, {2, 0, 1}, {2, 1, 1}}));
}

// No request begins in sector 2.
TEST(DriveLitmus, AWriteGoesWhereNoRequestBeginsIfThatIsAskedFor) {
  std::size_t count = 0;
  const std::set<OracleImage> any = misdirected({.faults = 1, .fault_kinds = kMisdirectedAny}, {0, 1, 2}, count);
  EXPECT_TRUE(any.contains({1, 1, 2, 1}));
  EXPECT_TRUE(any.contains({1, 2, 0, 1}));
  const std::set<OracleImage> some = misdirected({.faults = 1, .fault_kinds = kMisdirected}, {0, 1, 2}, count);
  EXPECT_FALSE(some.contains({1, 1, 2, 1}));
  EXPECT_TRUE(some.contains({1, 2, 0, 1}));
}

// What one recovery has read stays so for the next one: the write went elsewhere, or it did not.
TEST(DriveLitmus, ASecondRecoveryFindsTheSameWriteElsewhere) {
  const std::vector<NumberedRequest> requests = {{1, RequestKind::kWrite, 0, 1, false},
                                                 {2, RequestKind::kWrite, 1, 1, false}};
  const DriveOptions options{.faults = 1, .fault_kinds = kMisdirected};
  Program program(options, {.sector_count = 2, .misdirections = misdirections_of(requests, 2, options)});
  program.write(0, 1, 1), program.write(1, 1, 2), program.flush(), program.mark("flushed");
  program.recorder().seal();
  Program second;
  second.recorder().seal();
  std::multiset<OracleImage> images;
  persist::ChoiceTree tree;
  persist::Cut below(program.recorder().recording().log), above(second.recorder().recording().log);
  persist::explore(tree, {}, [&](persist::Chooser& chooser) {
    below.reset(), above.reset();
    CrashedDrive first({{&program.recorder().recording(), &below}}, chooser);
    if (!first.reached("flushed")) return;
    const int seen = read_number(first, 0);
    CrashedDrive again({{&program.recorder().recording(), &below}, {&second.recorder().recording(), &above}}, chooser);
    const int other = read_number(again, 1);
    images.insert({seen, read_number(again, 0), other});
  });
  // The first write that goes to the second one's place is overwritten there.
  EXPECT_EQ(images, (std::multiset<OracleImage>{{1, 1, 2}, {2, 2, 0}, {0, 0, 2}}));
}

TEST(Drive, ASecondCrashLiesOverTheFirst) {
  Program first;
  first.write(0, 1, 1), first.write(1, 1, 1), first.make_durable();
  first.recorder().seal();
  Program second;
  second.write(0, 1, 2);
  second.recorder().seal();
  std::multiset<OracleImage> images;
  persist::ChoiceTree tree;
  persist::Cut below(first.recorder().recording().log), above(second.recorder().recording().log);
  persist::explore(tree, {}, [&](persist::Chooser& chooser) {
    below.reset(), above.reset();
    CrashedDrive drive({{&first.recorder().recording(), &below}, {&second.recorder().recording(), &above}}, chooser);
    images.insert({read_number(drive, 0), read_number(drive, 1), read_number(drive, 2)});
  });
  EXPECT_EQ(images, (std::multiset<OracleImage>{{1, 1, 0}, {2, 1, 0}}));
}

TEST(Drive, ASectorIsDecidedByTheBytesThatAreRead) {
  Program program;
  program.write(0, 1, 1), program.make_durable(), program.write(0, 1, 2);
  program.recorder().seal();
  persist::Cut cut(program.recorder().recording().log);
  persist::ChoiceTree tree;
  tree.begin_run();
  CrashedDrive drive({{&program.recorder().recording(), &cut}}, tree);
  std::array<std::byte, 8> rest;
  EXPECT_EQ(drive.read(0, 100, rest), 0);  // the same in both versions
  EXPECT_EQ(tree.path().size(), 0u);
  read_number(drive, 0);
  EXPECT_EQ(tree.path().size(), 1u);
}

// ---- the oracle -----------------------------------------------------------------------------------------------------

constexpr int kSectorCount = 4;

struct RandomLog {
  OracleDrive drive;
  std::vector<OracleRequest> requests;
  std::vector<OracleStep> steps;
  int mark_count = 0;
  bool has_overlap = false;          // of writes in flight
  bool has_repeated_values = false;  // zeroes

  DriveOptions options() const {
    return {.cache = static_cast<Cache>(drive.cache),
            .tear = static_cast<Tear>(drive.tear),
            .atomic_sectors = static_cast<std::uint32_t>(drive.atomic_sectors),
            .boundary_sectors = static_cast<std::uint32_t>(drive.boundary_sectors),
            .faults = static_cast<std::uint32_t>(drive.faults),
            .fault_kinds = static_cast<std::uint8_t>(
                (drive.has_bad_written ? kBadWritten : 0) | (drive.has_bad_any ? kBadAny : 0) |
                (drive.has_misdirected ? kMisdirected : 0) | (drive.has_misdirected_any ? kMisdirectedAny : 0))};
  }
  FaultPlaces places() const {
    std::vector<NumberedRequest> numbered;
    for (const OracleStep& step : steps) {
      if (step.kind == OracleStep::Kind::kDurable) {
        for (NumberedRequest& request : numbered) request.is_durable = true;
      }
      if (step.kind != OracleStep::Kind::kIssue) continue;
      const OracleRequest& request = requests[static_cast<std::size_t>(step.request)];
      numbered.push_back({numbered.size() + 1, static_cast<RequestKind>(request.kind),
                          static_cast<Sector>(request.first), static_cast<std::uint64_t>(request.count), false});
    }
    return {kSectorCount, misdirections_of(numbered, kSectorCount, options())};
  }
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  RandomLog log() {
    RandomLog log;
    log.drive.cache = static_cast<OracleDrive::Cache>(pick(5) == 0 ? 1 + pick(2) : 0);
    log.drive.tear = static_cast<OracleDrive::Tear>(pick(3));
    if (pick(3) == 0) {
      log.drive.atomic_sectors = 2 + pick(2);
      if (pick(2) == 0) log.drive.boundary_sectors = log.drive.atomic_sectors;
    }
    if (pick(4) == 0) {
      log.drive.faults = 1 + pick(2);
      const int kinds = 1 + pick(15);
      log.drive.has_bad_written = (kinds & 1) != 0;
      log.drive.has_bad_any = (kinds & 2) != 0;
      log.drive.has_misdirected = (kinds & 4) != 0;
      log.drive.has_misdirected_any = (kinds & 8) != 0;
    }
    const int queue_depth = 1 + pick(3);
    const int request_count = 2 + pick(log.drive.faults > 0 ? 3 : 5);
    std::vector<int> in_flight;
    while (static_cast<int>(log.requests.size()) < request_count || !in_flight.empty()) {
      const bool can_issue = static_cast<int>(log.requests.size()) < request_count;
      if (can_issue && pick(8) == 0 && log.mark_count < 2) {
        log.steps.push_back({OracleStep::Kind::kMark, log.mark_count++});
      } else if (in_flight.empty() && can_issue && !log.has_overlap && pick(12) == 0) {
        log.steps.push_back({OracleStep::Kind::kDurable});
      } else if (can_issue && static_cast<int>(in_flight.size()) < queue_depth && (in_flight.empty() || pick(2) == 0)) {
        in_flight.push_back(static_cast<int>(log.requests.size()));
        log.steps.push_back({OracleStep::Kind::kIssue, in_flight.back()});
        add_request(log, in_flight);
      } else if (!can_issue && pick(6) == 0) {
        break;  // the rest is in flight to the end
      } else {
        const int at = pick(static_cast<int>(in_flight.size()));
        if (in_flight.empty()) continue;
        log.steps.push_back({OracleStep::Kind::kComplete, in_flight[static_cast<std::size_t>(at)]});
        in_flight.erase(in_flight.begin() + at);
      }
    }
    return log;
  }

  std::vector<Sector> some_sectors() {
    std::vector<Sector> sectors = {0, 1, 2, 3};
    std::shuffle(sectors.begin(), sectors.end(), random_);
    sectors.resize(1 + static_cast<std::size_t>(pick(kSectorCount)));
    return sectors;
  }
  int pick(int count) { return count <= 1 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(count)); }

 private:
  void add_request(RandomLog& log, const std::vector<int>& in_flight) {
    OracleRequest request;
    const int kind = pick(10);
    if (kind < 2) {
      request.kind = OracleRequest::Kind::kFlush;
      request.is_buffered = pick(4) == 0;
      log.requests.push_back(request);
      return;
    }
    if (kind == 2) request.kind = OracleRequest::Kind::kZero;
    if (kind == 3) request.kind = OracleRequest::Kind::kDiscard;
    if (kind == 2 || kind == 3) log.has_repeated_values = true;
    request.count = 1 + pick(3);
    request.first = pick(kSectorCount - request.count + 1);
    request.is_fua = request.kind != OracleRequest::Kind::kDiscard && pick(5) == 0;
    request.is_buffered = request.kind == OracleRequest::Kind::kWrite && !request.is_fua && pick(6) == 0;
    request.value = static_cast<int>(log.requests.size()) + 1;
    for (const int other : in_flight) {
      if (other == static_cast<int>(log.requests.size())) continue;
      const OracleRequest& o = log.requests[static_cast<std::size_t>(other)];
      log.has_overlap =
          log.has_overlap || (o.kind != OracleRequest::Kind::kFlush && o.first < request.first + request.count &&
                              request.first < o.first + o.count);
    }
    log.requests.push_back(request);
  }

  std::mt19937_64 random_;
};

void record(const RandomLog& log, Program& program) {
  std::map<int, RequestId> ids;
  for (const OracleStep& step : log.steps) {
    if (step.kind == OracleStep::Kind::kMark) {
      program.mark(std::to_string(step.request));
      continue;
    }
    if (step.kind == OracleStep::Kind::kDurable) {
      program.make_durable();
      continue;
    }
    if (step.kind == OracleStep::Kind::kComplete) {
      program.complete(ids.at(step.request));
      continue;
    }
    const OracleRequest& request = log.requests[static_cast<std::size_t>(step.request)];
    const auto first = static_cast<Sector>(request.first);
    const auto count = static_cast<std::uint64_t>(request.count);
    switch (request.kind) {
      case OracleRequest::Kind::kWrite:
        ids[step.request] = program.issue(first, count, request.value, request.is_fua, request.is_buffered);
        break;
      case OracleRequest::Kind::kZero:
        ids[step.request] = program.recorder().issue(
            {.kind = RequestKind::kZero, .first = first, .count = count, .is_fua = request.is_fua});
        break;
      case OracleRequest::Kind::kDiscard:
        ids[step.request] = program.issue(RequestKind::kDiscard, first, count);
        break;
      case OracleRequest::Kind::kFlush:
        ids[step.request] = program.recorder().issue({.kind = RequestKind::kFlush, .is_buffered = request.is_buffered});
        break;
    }
  }
}

std::string text_of(const RandomLog& log) {
  std::string text = spec_of(log.options()).text + ":";
  for (const OracleStep& step : log.steps) {
    const std::string number = std::to_string(step.request);
    if (step.kind == OracleStep::Kind::kMark) text += " mark" + number;
    if (step.kind == OracleStep::Kind::kComplete) text += " /" + number;
    if (step.kind == OracleStep::Kind::kDurable) text += " durable";
    if (step.kind != OracleStep::Kind::kIssue) continue;
    const OracleRequest& r = log.requests[static_cast<std::size_t>(step.request)];
    text += " " + number + "=" + std::string(1, "WZDF"[static_cast<int>(r.kind)]) + std::to_string(r.first) + "+" +
            std::to_string(r.count) + (r.is_fua ? "!" : "") + (r.is_buffered ? "~" : "");
  }
  return text;
}

// Reads some sectors, and all marks if `with_marks`: the images are those of the oracle, cut down to that.
bool agrees(std::uint64_t seed, std::size_t& exact_count) {
  Generator generator(seed);
  const RandomLog log = generator.log();
  const std::vector<Sector> sectors = generator.some_sectors();
  const bool with_marks = generator.pick(2) == 0;
  Program program(log.options(), log.places());
  record(log, program);
  program.recorder().seal();
  std::vector<std::string> marks;
  for (int m = 0; with_marks && m < log.mark_count; ++m) marks.push_back(std::to_string(m));
  const Explored explored = explore(program.recorder().recording(), sectors, marks);
  std::set<OracleImage> expected;
  for (const OracleImage& whole : all_images(log.drive, log.requests, log.steps, kSectorCount, log.mark_count)) {
    OracleImage image;
    for (const Sector sector : sectors) image.push_back(whole[sector]);
    if (with_marks) image.insert(image.end(), whole.begin() + kSectorCount, whole.end());
    expected.insert(image);
  }
  EXPECT_EQ(explored.distinct(), expected) << "seed " << seed << ", " << text_of(log);
  EXPECT_EQ(program.recorder().recording().overlaps > 0, log.has_overlap) << "seed " << seed;
  // Where no value is written twice, each image is one recovery.
  const bool is_misdirected = log.drive.faults > 0 && (log.drive.has_misdirected || log.drive.has_misdirected_any);
  const bool is_exact = !log.has_overlap && !log.has_repeated_values && !is_misdirected;
  if (is_exact) {
    EXPECT_EQ(explored.images.size(), expected.size()) << "seed " << seed << ", " << text_of(log);
    ++exact_count;
  }
  return !testing::Test::HasFailure();
}

TEST(DriveOracle, RandomLogsHaveExactlyTheOraclesImages) {
  std::size_t exact_count = 0, count = 0;
  tests::for_each_seed(4000, [&](std::uint64_t seed) {
    ++count;
    return agrees(seed, exact_count);
  });
  RecordProperty("logs", static_cast<int>(count));
  if (count > 1) {
    EXPECT_GT(exact_count, count / 5);
  }
}

// What lets one recording stand for other completion orders: a request that is answered earlier leaves nothing new.
TEST(DriveOracle, AnEarlierAnswerAllowsNothingNew) {
  int fewer = 0;
  tests::for_each_seed(1500, [&](std::uint64_t seed) {
    Generator generator(seed);
    const RandomLog log = generator.log();
    const auto all = all_images(log.drive, log.requests, log.steps, kSectorCount, log.mark_count);
    for (std::size_t at = 1; at < log.steps.size(); ++at) {
      const OracleStep& before = log.steps[at - 1];
      const bool is_own = before.kind == OracleStep::Kind::kIssue && before.request == log.steps[at].request;
      if (log.steps[at].kind != OracleStep::Kind::kComplete || is_own) continue;
      std::vector<OracleStep> earlier = log.steps;
      std::swap(earlier[at - 1], earlier[at]);
      const auto then = all_images(log.drive, log.requests, earlier, kSectorCount, log.mark_count);
      EXPECT_TRUE(std::includes(all.begin(), all.end(), then.begin(), then.end())) << seed << text_of(log);
      fewer += then.size() < all.size() ? 1 : 0;
    }
    return !testing::Test::HasFailure();
  });
  EXPECT_GT(fewer, 0);
}

// The oracle itself, on a log that a person can count: two sectors in one write, a flush, one more.
TEST(DriveOracle, CountsWhatAPersonCounts) {
  const std::vector<OracleRequest> requests = {{.first = 0, .count = 2, .value = 1},
                                               {.kind = OracleRequest::Kind::kFlush},
                                               {.first = 2, .count = 1, .value = 3}};
  using Kind = OracleStep::Kind;
  const std::vector<OracleStep> steps = {{Kind::kIssue, 0},    {Kind::kComplete, 0}, {Kind::kIssue, 1},
                                         {Kind::kComplete, 1}, {Kind::kIssue, 2},    {Kind::kComplete, 2}};
  EXPECT_EQ(all_images({}, requests, steps, 3, 0),
            (std::set<OracleImage>{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 1, 3}}));
  EXPECT_EQ(all_images({.cache = OracleDrive::Cache::kLies}, requests, steps, 3, 0).size(), 8u);
  EXPECT_EQ(all_images({.tear = OracleDrive::Tear::kNone}, requests, steps, 3, 0).size(), 3u);
}

}  // namespace
}  // namespace crashcut::blocklayer
