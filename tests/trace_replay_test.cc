// Traces: what a replay makes of them, of random programs and of bytes from anywhere.
#include "tests/trace_fixture.h"

namespace crashcut {
namespace {

// ---- replay --------------------------------------------------------------------------------------------------------

// A filesystem that is traced.
struct Session {
  TraceFile file;
  TraceClock clock;
  Filesystem fs{{.clock = clock.reader()}};
  std::unique_ptr<TraceWriter> writer = TraceWriter::create(file.path(), {.start = clock.now()}).value();
  Traced traced{fs, clock, writer.get()};

  TraceReader read() {
    writer->finish();
    return TraceReader::open(file.path()).value();
  }
};

std::vector<std::string> ops_of(const TraceReader& trace) {
  const auto replayed = replay(trace, {});
  if (!replayed) return {replayed.error().sentence};
  const auto& ops = replayed->recorder->recording().ops;
  return {++ops.begin(), ops.end()};
}

TEST(Replay, NamesTheOperations) {
  Session s;
  Ino a{}, d{}, x{}, l{}, t{}, p{};
  ASSERT_EQ(s.traced.create(kRootIno, "notes.txt", S_IFREG | 0644, 0, {}, a), 0);
  s.traced.add_open(a);
  ASSERT_EQ(s.traced.write(a, 0, bytes_of("1234567890123456789012345"), {}), 25);
  ASSERT_EQ(s.traced.write(a, 0, bytes_of("x"), {.append = true, .sync = true}), 1);
  ASSERT_EQ(s.traced.write(a, 0, {}, {}), 0);  // changes nothing
  ASSERT_EQ(s.traced.fsync(a, false), 0);
  ASSERT_EQ(s.traced.fsync(a, true), 0);
  s.traced.release(a, true);
  ASSERT_EQ(s.traced.mkdir(kRootIno, "d", 0755, {}, d), 0);
  ASSERT_EQ(s.traced.create(d, "x\n", S_IFREG | 0600, 0, {}, x), 0);
  ASSERT_EQ(s.traced.rename(d, "x\n", d, "x", 0), 0);
  ASSERT_EQ(s.traced.truncate(x, 7), 0);
  ASSERT_EQ(s.traced.link(x, kRootIno, "y"), 0);
  ASSERT_EQ(s.traced.fallocate(x, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1, 2), 0);
  ASSERT_EQ(s.traced.fallocate(x, FALLOC_FL_COLLAPSE_RANGE, 1, 2), -EINVAL);  // the times have changed
  ASSERT_EQ(s.traced.rename(kRootIno, "notes.txt", d, "x", RENAME_EXCHANGE), 0);
  ASSERT_EQ(s.traced.fsync(a, false), 0);
  ASSERT_EQ(s.traced.fsync(x, false), 0);
  s.traced.add_open(x);
  ASSERT_EQ(s.traced.unlink(kRootIno, "notes.txt"), 0);
  ASSERT_EQ(s.traced.sync_file_range(x, 1, 0, SYNC_FILE_RANGE_WRITE), 0);
  ASSERT_EQ(s.traced.symlink(kRootIno, "l", "d/x", {}, l), 0);
  ASSERT_EQ(s.traced.tmpfile(d, 0600, {}, t), 0);
  s.traced.add_open(t);
  ASSERT_EQ(s.traced.setattr(t, {.mode = 0640}), 0);
  ASSERT_EQ(s.traced.setattr(t, {.uid = 5}), 0);
  ASSERT_EQ(s.traced.setattr(t, {.mtime = timespec{1, 2}}), 0);
  ASSERT_EQ(s.traced.setattr(a, {.mode = 0640, .gid = 5}), 0);
  ASSERT_EQ(s.traced.set_xattr(a, "user.a", "value", 0), 0);
  ASSERT_EQ(s.traced.remove_xattr(a, "user.a"), 0);
  ASSERT_EQ(s.traced.create(kRootIno, "p", S_IFIFO | 0600, 0, {}, p), 0);
  ASSERT_EQ(s.traced.rmdir(kRootIno, "d"), -ENOTEMPTY);
  ASSERT_EQ(s.traced.unlink(d, "x"), 0);
  ASSERT_EQ(s.traced.rmdir(kRootIno, "d"), 0);
  ASSERT_EQ(s.traced.sync(), 0);
  s.traced.mark("saved \"it\"");
  s.traced.make_durable();
  const std::vector<std::string> expected = {
      "create(notes.txt, 0644)",
      "open(notes.txt)",
      "write(notes.txt, 25 bytes at 0)",
      "write(notes.txt, 1 byte at 25, O_APPEND|O_SYNC)",
      "fsync(notes.txt)",
      "fdatasync(notes.txt)",
      "close(notes.txt)",
      "mkdir(d, 0755)",
      "create(d/x\\n, 0600)",
      "rename(d/x\\n, d/x)",
      "truncate(d/x, 7)",
      "link(d/x, y)",
      "fallocate(d/x, 2 bytes at 1, PUNCH_HOLE|KEEP_SIZE)",
      "fallocate(d/x, 2 bytes at 1, COLLAPSE_RANGE|failed)",
      "rename(notes.txt, d/x, RENAME_EXCHANGE)",
      "fsync(d/x)",
      "fsync(notes.txt)",
      "open(notes.txt)",
      "unlink(notes.txt)",
      "sync_file_range(notes.txt (deleted), 0 bytes at 1)",
      "symlink(\"d/x\", l)",
      "open(d, O_TMPFILE, 0600)",
      "open(inode 15)",
      "chmod(inode 15, 0640)",
      "chown(inode 15, 5, -1)",
      "utimens(inode 15)",
      "setattr(d/x)",
      "setxattr(d/x, user.a, 5 bytes)",
      "removexattr(d/x, user.a)",
      "mknod(p, 010600)",
      "unlink(d/x)",
      "rmdir(d)",
      "sync()",
      "mark(\"saved \"it\"\")",
      "everything so far is made durable",
  };
  EXPECT_EQ(ops_of(s.read()), expected);
}

TEST(Replay, NamesTheProcessesWhereThereAreSeveral) {
  Session s;
  Ino a{};
  s.traced.set_process(10, "nano");
  ASSERT_EQ(s.traced.create(kRootIno, "a", S_IFREG | 0644, 0, {}, a), 0);
  ASSERT_EQ(s.traced.sync(), 0);
  s.traced.set_process(11, "looker");  // changes nothing, so it is not in the trace
  EXPECT_EQ(s.traced.unlink(kRootIno, "b"), -ENOENT);
  s.traced.set_process(10, "nano");
  ASSERT_EQ(s.traced.sync(), 0);
  const TraceReader alone = s.read();
  EXPECT_EQ(alone.processes().size(), 2u);
  EXPECT_EQ(ops_of(alone), (std::vector<std::string>{"create(a, 0644)", "sync()", "sync()"}));

  Session t;
  ASSERT_EQ(t.traced.sync(), 0);
  t.traced.set_process(10, "sh");
  ASSERT_EQ(t.traced.sync(), 0);
  t.traced.set_process(10, "nano");  // exec
  ASSERT_EQ(t.traced.sync(), 0);
  t.traced.set_process(12, "cp");
  ASSERT_EQ(t.traced.sync(), 0);
  t.traced.set_process(10, "nano");
  ASSERT_EQ(t.traced.sync(), 0);
  const TraceReader several = t.read();
  EXPECT_EQ(several.processes().size(), 4u);
  EXPECT_EQ(ops_of(several),
            (std::vector<std::string>{"sync()", "sh: sync()", "nano: sync()", "cp: sync()", "nano: sync()"}));
}

TEST(Replay, GivesTheTimesOfTheRun) {
  Session s;
  Ino a{};
  ASSERT_EQ(s.traced.create(kRootIno, "a", S_IFREG | 0644, 0, {}, a), 0);
  const timespec start = s.clock.now();
  while (s.clock.now() == start) ASSERT_EQ(s.traced.truncate(a, 0), 0);  // until the coarse clock has moved
  const TraceReader trace = s.read();
  const auto replayed = replay(trace, {});
  ASSERT_TRUE(replayed) << replayed.error().sentence;
  for (Ino ino : {kRootIno, a}) {
    struct stat traced {};
    struct stat again {};
    ASSERT_EQ(s.fs.getattr(ino, traced), 0);
    ASSERT_EQ(replayed->filesystem->getattr(ino, again), 0);
    EXPECT_TRUE(traced.st_atim == again.st_atim);
    EXPECT_TRUE(traced.st_mtim == again.st_mtim);
    EXPECT_TRUE(traced.st_ctim == again.st_ctim);
  }
  struct stat status {};
  ASSERT_EQ(s.fs.getattr(a, status), 0);
  EXPECT_FALSE(status.st_mtim == status.st_atim);
}

TEST(Traced, WithoutAWriterTheCallsAreJustDone) {
  TraceClock clock;
  Filesystem fs({.clock = clock.reader()});
  Traced traced(fs, clock, nullptr);
  Ino a{};
  traced.set_process(1, "sh");
  EXPECT_EQ(traced.create(kRootIno, "d", S_IFDIR | 0755, 0, {}, a), -EPERM);
  EXPECT_EQ(traced.create(kRootIno, "l", S_IFLNK | 0755, 0, {}, a), -EINVAL);
  ASSERT_EQ(traced.create(kRootIno, "a", S_IFREG | 0644, 0, {}, a), 0);
  std::uint64_t end = 0;
  EXPECT_EQ(traced.write(a, 3, bytes_of("xyz"), {}, &end), 3);
  EXPECT_EQ(end, 6u);
  traced.mark("m");
  Ino found{};
  EXPECT_EQ(fs.lookup(kRootIno, "a", found), 0);
  EXPECT_EQ(found, a);
}

TEST(Replay, SaysWhatAnInconsistentTraceContradicts) {
  const TraceOp create{
      .call = TraceCall::kCreate, .ino = Ino{11}, .dir = kRootIno, .name = "a", .mode = S_IFREG | 0644};
  const TraceOp open{.call = TraceCall::kAddOpen, .ino = Ino{11}};
  const TraceOp release{.call = TraceCall::kRelease, .ino = Ino{11}};
  const TraceOp unlink{.call = TraceCall::kUnlink, .dir = kRootIno, .name = "a"};
  TraceOp other_ino = create;
  other_ino.ino = Ino{12};
  TraceOp directory = create;
  directory.mode = S_IFDIR | 0755;
  const std::uint64_t huge = std::uint64_t{1} << 43;
  const std::pair<std::vector<TraceOp>, const char*> bad[] = {
      {{other_ino}, "it makes inode 11 here, not 12"},
      {{directory}, "makes no directories"},
      {{create, create}, "operation 2, create(a, 0644), is said to have succeeded, but it fails here: File exists"},
      {{open}, "No such file"},
      {{create, release}, "not open"},
      {{create, open, release, release}, "operation 4, close(a), is said to have succeeded, but the file is not open"},
      {{create, unlink, open}, "No such file"},
      {{{.call = TraceCall::kRelease, .ino = kRootIno}}, "not open"},
      {{{.call = TraceCall::kUnlink, .dir = kRootIno, .name = ""}}, "No such file"},
      {{{.call = TraceCall::kFsync, .ino = Ino{5}}}, "Bad file descriptor"},
      {{create, {.call = TraceCall::kTruncate, .ino = Ino{11}, .length = ~0ull}}, "File too large"},
      {{create, {.call = TraceCall::kWrite, .ino = Ino{11}, .offset = ~0ull, .data = bytes_of("x")}}, "File too large"},
      {{create, {.call = TraceCall::kFallocate, .ino = Ino{11}, .offset = 0, .length = huge}}, "No space left"},
      {{create, {.call = TraceCall::kFallocate, .ino = Ino{11}, .offset = ~0ull, .length = ~0ull}}, "Invalid argument"},
  };
  for (const auto& [ops, sentence] : bad) {
    const auto trace = TraceReader::parse(trace_of(ops));
    ASSERT_TRUE(trace) << sentence << ": " << trace.error();
    for (const ModelOptions& options : {ModelOptions{}, ModelOptions{.profile = ProfileName::kPaper}}) {
      const auto replayed = replay(*trace, options);
      ASSERT_FALSE(replayed) << sentence;
      EXPECT_NE(replayed.error().sentence.find(sentence), std::string::npos) << replayed.error().sentence;
    }
  }
}

constexpr TraceOp kCreateA{
    .call = TraceCall::kCreate, .ino = Ino{11}, .dir = kRootIno, .name = "a", .mode = S_IFREG | 0644};

TEST(Replay, AHoleOfTerabytesIsALimitWhereItWouldBeWrittenOut) {
  const std::uint64_t huge = std::uint64_t{1} << 43;
  const TraceOp grow{.call = TraceCall::kTruncate, .ino = Ino{11}, .length = huge};
  const TraceOp write{.call = TraceCall::kWrite, .ino = Ino{11}, .offset = huge, .data = bytes_of("x")};
  const ModelOptions paper{.profile = ProfileName::kPaper};
  const auto grown = TraceReader::parse(trace_of({kCreateA, grow})).value();
  EXPECT_TRUE(replay(grown, {}));
  EXPECT_TRUE(replay(grown, paper));
  const auto written = TraceReader::parse(trace_of({kCreateA, write})).value();
  EXPECT_TRUE(replay(written, {}));  // ext4 knows holes
  const auto refused = replay(written, paper);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is_limit);
  EXPECT_NE(refused.error().sentence.find("This is a limit of crashcut"), std::string::npos)
      << refused.error().sentence;
  EXPECT_EQ(refused.error().sentence.find("contradicts"), std::string::npos) << refused.error().sentence;
}

// As one block after the other this would take hours, and more memory than there is.
TEST(Replay, FallocatedSpaceThatNobodyWroteCostsNothing) {
  constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
  constexpr std::uint32_t kZeroRange = 0x10;
  std::vector<TraceOp> ops;
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    TraceOp create = kCreateA;
    create.ino = Ino{11 + i};
    ops.push_back(create);
    ops.push_back({.call = TraceCall::kFallocate, .ino = Ino{11 + i}, .length = 8 * kGib});
    ops.push_back({.call = TraceCall::kFallocate, .ino = Ino{11 + i}, .length = 8 * kGib, .flags = kZeroRange});
    ops.push_back({.call = TraceCall::kUnlink, .dir = kRootIno, .name = "a"});
  }
  const auto trace = TraceReader::parse(trace_of(ops)).value();
  for (const ModelOptions& options : all_models(512, 4096)) {
    const auto replayed = replay(trace, options);
    ASSERT_TRUE(replayed) << replayed.error().sentence;
    EXPECT_LT(replayed->recorder->recording().log.event_count(), 20'000u);
  }
}

TEST(Replay, DeepDirectoriesHaveShortNames) {
  std::vector<TraceOp> ops;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    ops.push_back({.call = TraceCall::kMkdir,
                   .ino = Ino{11 + i},
                   .dir = i == 0 ? kRootIno : Ino{10 + i},
                   .name = "d",
                   .mode = 0755});
  }
  const auto replayed = replay(TraceReader::parse(trace_of(ops)).value(), {});
  ASSERT_TRUE(replayed) << replayed.error().sentence;
  EXPECT_LT(replayed->recorder->recording().ops.back().size(), 200u);
}

TEST(Replay, RefusesAGeometryThatIsNone) {
  const auto replayed = replay(TraceReader::parse(trace_of({})).value(), {.sector_bytes = 512, .block_bytes = 1000});
  ASSERT_FALSE(replayed);
  EXPECT_NE(replayed.error().sentence, "");
}

// ---- random programs
// -------------------------------------------------------------------------------------------------

bool is_same(const Meta& a, const Meta& b) {
  return a.mode == b.mode && a.uid == b.uid && a.gid == b.gid && a.nlink == b.nlink && a.rdev == b.rdev &&
         a.atime == b.atime && a.mtime == b.mtime && a.ctime == b.ctime && a.symlink_target == b.symlink_target &&
         a.xattrs == b.xattrs;
}

// A sector's value is a place of its bytes, which may be in the trace or not.
bool is_same_value(const Recording& a, const Recording& b, persist::LocationId location, persist::Value x,
                   persist::Value y) {
  if (a.locations[location].kind != LocationKind::kSector || x == 0 || y == 0) return x == y;
  return std::memcmp(a.bytes.at(x), b.bytes.at(y), a.options.sector_bytes) == 0;
}

// `added` is an operation that only `b` has; its events are those of the operation before it in `a`. 0: there is none.
void expect_same_log(const Recording& a, const Recording& b, std::uint32_t added = 0) {
  ASSERT_EQ(a.log.event_count(), b.log.event_count());
  ASSERT_EQ(a.log.location_count(), b.log.location_count());
  ASSERT_EQ(a.log.barrier_count(), b.log.barrier_count());
  EXPECT_EQ(a.log.durable_barrier(), b.log.durable_barrier());
  for (persist::EventId e = 0; e < a.log.event_count(); ++e) {
    ASSERT_EQ(a.log.op(e), b.log.op(e) - (added != 0 && b.log.op(e) >= added ? 1 : 0)) << e;
    ASSERT_EQ(a.log.epoch(e), b.log.epoch(e)) << e;
    ASSERT_EQ(a.log.cover(e), b.log.cover(e)) << e;
    ASSERT_TRUE(std::ranges::equal(a.log.predecessors(e), b.log.predecessors(e))) << e;
    ASSERT_TRUE(std::ranges::equal(a.log.writes(e), b.log.writes(e), [&](const auto& x, const auto& y) {
      return x.location == y.location && x.hidden_by == y.hidden_by &&
             is_same_value(a, b, x.location, x.value, y.value);
    })) << e;
    ASSERT_EQ(a.describe_event(e), b.describe_event(e));
  }
  for (persist::LocationId l = 0; l < a.log.location_count(); ++l) {
    ASSERT_EQ(a.log.initial(l), b.log.initial(l)) << l;
    ASSERT_EQ(a.describe_location(l), b.describe_location(l));
  }
}

void expect_same_recording(const Recording& a, const Recording& b) {
  expect_same_log(a, b);
  EXPECT_EQ(a.ops.size(), b.ops.size());
  EXPECT_EQ(a.event_kinds, b.event_kinds);
  EXPECT_TRUE(std::ranges::equal(a.locations, b.locations, [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.ino == y.ino && x.index == y.index;
  }));
  EXPECT_EQ(a.strings, b.strings);
  EXPECT_EQ(a.mark_locations, b.mark_locations);
  EXPECT_EQ(a.next_ino, b.next_ino);
  EXPECT_EQ(a.first_names, b.first_names);
  EXPECT_TRUE(a.last_names == b.last_names);
  EXPECT_TRUE(std::ranges::equal(a.metas, b.metas, [](const Meta& x, const Meta& y) { return is_same(x, y); }));
  EXPECT_TRUE(std::ranges::equal(a.blocks, b.blocks, [](const auto& x, const auto& y) {
    return x.ino == y.ino && x.block == y.block && x.sectors == y.sectors && x.from_below == y.from_below;
  }));
  ASSERT_EQ(a.inodes.size(), b.inodes.size());
  for (const auto& [ino, x] : a.inodes) {
    ASSERT_TRUE(b.inodes.contains(ino));
    const InodeRecord& y = b.inodes.at(ino);
    EXPECT_TRUE(x.type == y.type && x.is_new == y.is_new && x.size == y.size && x.meta == y.meta &&
                x.block_map == y.block_map && x.home_blocks == y.home_blocks && x.names == y.names);
  }
}

void expect_same_files(Filesystem& a, Filesystem& b, Ino dir, int depth = 0) {
  ASSERT_LT(depth, 1000);
  std::vector<DirEntry> entries;
  std::vector<DirEntry> others;
  ASSERT_EQ(a.readdir(dir, 0, 1000, entries), 0);
  ASSERT_EQ(b.readdir(dir, 0, 1000, others), 0);
  ASSERT_EQ(entries.size(), others.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].name, others[i].name);
    ASSERT_EQ(entries[i].ino, others[i].ino);
    struct stat x {};
    struct stat y {};
    ASSERT_EQ(a.getattr(entries[i].ino, x), 0);
    ASSERT_EQ(b.getattr(entries[i].ino, y), 0);
    EXPECT_EQ(std::memcmp(&x, &y, sizeof x), 0) << entries[i].name;
    if (S_ISREG(x.st_mode)) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(x.st_size));
      std::vector<std::byte> other_bytes(bytes.size());
      EXPECT_EQ(a.read(entries[i].ino, 0, bytes), x.st_size);
      EXPECT_EQ(b.read(entries[i].ino, 0, other_bytes), x.st_size);
      EXPECT_TRUE(bytes == other_bytes);
    }
    if (S_ISDIR(x.st_mode) && entries[i].name != "." && entries[i].name != "..") {
      expect_same_files(a, b, entries[i].ino, depth + 1);
    }
  }
}

// One trace, recorded without any model, against a direct recording under each.
bool replays_as_recorded(std::uint64_t seed) {
  SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
  static constexpr std::pair<std::uint32_t, std::uint32_t> kGeometries[] = {
      {512, 4096}, {512, 1024}, {1, 4}, {2, 2}, {4096, 4096}};
  const auto [sector_bytes, block_bytes] = kGeometries[seed % std::size(kGeometries)];
  const std::vector<ModelOptions> models = all_models(sector_bytes, block_bytes);
  TraceFile file;
  TracedProgram program(seed, file.path(), sector_bytes, block_bytes, models);
  program.run(static_cast<int>(10 + seed % 90));
  program.finish();
  EXPECT_FALSE(program.has_diverged());
  const auto trace = TraceReader::open(file.path());
  EXPECT_TRUE(trace) << trace.error();
  if (!trace) return false;
  EXPECT_TRUE(trace->is_complete());
  EXPECT_EQ(trace->op_count(), program.traced_calls());
  for (std::size_t i = 0; i < models.size(); ++i) {
    SCOPED_TRACE(describe(models[i]));
    const auto replayed = replay(*trace, models[i]);
    EXPECT_TRUE(replayed) << replayed.error().sentence;
    if (!replayed) return false;
    expect_same_recording(replayed->recorder->recording(), program.recording(i));
    if (i == 0) expect_same_files(*replayed->filesystem, program.traced_filesystem(), kRootIno);
    if (testing::Test::HasFailure()) return false;
  }
  return true;
}

// A trace that is replayed with a sync, against a trace that has the sync. Whether they were compared: the sync may be
// the last operation, or its file gone.
bool adds_syncs_as_recorded(std::uint64_t seed) {
  SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  TraceFile file;
  TracedProgram program(seed, file.path(), 512, 1024, {});
  program.run(static_cast<int>(10 + seed % 60));
  program.finish();
  const auto trace = TraceReader::open(file.path());
  EXPECT_TRUE(trace) << trace.error();
  if (!trace) return false;
  std::vector<TraceOp> ops;
  std::map<std::uint64_t, bool> is_directory{{static_cast<std::uint64_t>(kRootIno), true}};
  TraceReader::Cursor cursor(*trace);
  for (TraceOp op; cursor.next(op);) ops.push_back(op);
  for (TraceOp& op : ops) op.process = 0;
  const std::size_t at = random() % (ops.size() + 1);
  for (std::size_t i = 0; i < at; ++i) {
    if (ops[i].call == TraceCall::kCreate) is_directory[static_cast<std::uint64_t>(ops[i].ino)] = false;
    if (ops[i].call == TraceCall::kMkdir) is_directory[static_cast<std::uint64_t>(ops[i].ino)] = true;
  }
  const auto [ino, is_dir] = *std::next(is_directory.begin(), static_cast<long>(random() % is_directory.size()));
  using SyncKind = persist::AddedSync::Kind;
  const SyncKind kind = random() % 4 == 0   ? SyncKind::kSync
                        : is_dir            ? SyncKind::kDirectoryFsync
                        : random() % 2 == 0 ? SyncKind::kFsync
                                            : SyncKind::kFdatasync;
  const auto operation = static_cast<std::uint32_t>(at + 1);  // the first is the starting state
  const persist::AddedSync added{kind, kind == SyncKind::kSync ? 0 : ino, operation};
  std::vector<TraceOp> with = ops;
  TraceOp sync{.call = kind == SyncKind::kSync ? TraceCall::kSync : TraceCall::kFsync,
               .time = at == 0 ? trace->header().start : ops[at - 1].time};
  if (kind != SyncKind::kSync) sync.ino = Ino{ino};
  if (kind == SyncKind::kFdatasync) sync.flags = kTraceDatasync;
  with.insert(with.begin() + static_cast<std::ptrdiff_t>(at), sync);
  const auto other = TraceReader::parse(trace_of(with, trace->header()));
  EXPECT_TRUE(other) << other.error();
  if (!other || at == ops.size()) return false;
  for (const ModelOptions& model : all_models(512, 1024)) {
    SCOPED_TRACE(describe(model));
    const auto has_it = replay(*other, model);
    if (!has_it) return false;  // the file is gone by then
    const auto adds_it = replay(*trace, model, {}, std::span(&added, 1));
    EXPECT_TRUE(adds_it) << adds_it.error().sentence;
    if (!adds_it) return false;
    expect_same_log(adds_it->recorder->recording(), has_it->recorder->recording(), operation);
    EXPECT_EQ(adds_it->recorder->recording().event_kinds, has_it->recorder->recording().event_kinds);
    if (testing::Test::HasFailure()) return false;
  }
  return true;
}

TEST(Replay, AnAddedSyncIsOneThatTheProgramDoes) {
  std::size_t tried = 0, compared = 0;
  tests::for_each_seed(100, [&](std::uint64_t seed) {
    ++tried;
    compared += adds_syncs_as_recorded(seed);
    return !testing::Test::HasFailure();
  });
  if (tried >= 10) {
    EXPECT_GT(compared * 5, tried);
  }
}

// ---- what a replay may take

std::vector<TraceOp> writes_of(const std::string& data, int count) {
  std::vector<TraceOp> ops{{.call = TraceCall::kCreate, .ino = Ino{11}, .dir = kRootIno, .name = "a", .mode = S_IFREG}};
  for (int i = 0; i < count; ++i) {
    ops.push_back({.call = TraceCall::kWrite,
                   .ino = Ino{11},
                   .offset = static_cast<std::uint64_t>(i) * data.size(),
                   .data = bytes_of(data)});
  }
  return ops;
}

TEST(Replay, SectorsThatTheTraceHasWholeAreNotCopied) {
  std::string data;
  for (int i = 0; i < 10'000; ++i) data += static_cast<char>(i * 7 + i / 256 + 1);
  const auto trace = TraceReader::parse(trace_of(writes_of(data, 50))).value();
  for (const ModelOptions& options : all_models(512, 4096)) {
    const auto replayed = replay(trace, options);
    ASSERT_TRUE(replayed) << replayed.error().sentence;
    // The sectors at the edges of the writes are all that is put together of two.
    EXPECT_LE(replayed->recorder->recording().bytes.own().size(), 50u * 4 * 512) << describe(options);
    std::string read(data.size(), '\0');
    EXPECT_EQ(replayed->filesystem->read(Ino{11}, 3 * data.size(), std::as_writable_bytes(std::span(read))),
              static_cast<std::int64_t>(read.size()));
    EXPECT_EQ(read, data);
  }
}

TEST(Replay, ARecordingThatTakesTooMuchEndsThereAndSoDoesItsTrace) {
  std::string data(20'000, 'x');
  TraceFile file;
  auto writer = TraceWriter::create(file.path(), {}).value();
  for (const TraceOp& op : writes_of(data, 3000)) writer->add(op);
  writer->finish();
  const std::uint64_t whole_bytes = std::filesystem::file_size(file.path());
  const auto trace = TraceReader::open(file.path()).value();
  EXPECT_FALSE(replay(trace, {}).value().cut);
  const auto replayed = replay(trace, {}, {.memory_bytes = 4 << 20});
  ASSERT_TRUE(replayed) << replayed.error().sentence;
  ASSERT_TRUE(replayed->cut);
  EXPECT_LT(replayed->recorder->recording().memory_bytes(), 8u << 20);
  EXPECT_GT(replayed->cut->op_count, 100u);
  ASSERT_TRUE(cut_trace(file.path(), *replayed->cut));
  EXPECT_LT(std::filesystem::file_size(file.path()), whole_bytes / 2);
  const auto shorter = TraceReader::open(file.path());
  ASSERT_TRUE(shorter) << shorter.error();
  EXPECT_TRUE(shorter->is_complete());
  EXPECT_EQ(shorter->op_count(), replayed->cut->op_count + 1);  // that it was stopped is one
  const auto again = replay(*shorter, {}, {.memory_bytes = 4 << 20});
  ASSERT_TRUE(again) << again.error().sentence;
  expect_same_recording(again->recorder->recording(), replayed->recorder->recording());
  EXPECT_EQ(again->recorder->recording().ops, replayed->recorder->recording().ops);
}

TEST(Replay, StopsWhenItIsTold) {
  const auto trace = TraceReader::parse(trace_of(writes_of("hello", 1000))).value();
  int asked = 0;
  const auto stopped = replay(trace, {}, {.should_stop = [&] { return ++asked == 3; }});
  ASSERT_FALSE(stopped);
  EXPECT_TRUE(stopped.error().was_stopped);
  EXPECT_EQ(asked, 3);
}

TEST(Replay, RecordsWhatADirectRecordingDoes) { tests::for_each_seed(60, replays_as_recorded); }

// ---- bytes from anywhere
// -----------------------------------------------------------------------------------------------

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string damage(std::string bytes) {
    for (int i = pick(1, 3); i > 0 && !bytes.empty(); --i) damage_once(bytes);
    return bytes;
  }
  // Changes bodies and gives them the right checksums: what a malicious trace would have.
  std::string forge(const std::string& bytes) {
    std::vector<std::string> bodies = split(bytes);
    for (int i = pick(1, 4); i > 0; --i) {
      const std::size_t which = index(bodies.size());
      switch (pick(1, 8)) {
        case 1:
          if (which != 0) bodies.erase(bodies.begin() + static_cast<std::ptrdiff_t>(which));
          break;
        case 2:
        case 3:
          bodies.insert(bodies.begin() + static_cast<std::ptrdiff_t>(index(bodies.size() - 1) + 1), bodies[which]);
          break;
        case 4:
          std::swap(bodies[which], bodies[index(bodies.size())]);
          break;
        default:
          damage_once(bodies[which]);
          break;
      }
      if (bodies.size() < 2) break;
    }
    return join(bodies);
  }
  std::string noise(std::size_t most) {
    std::string bytes(index(most + 1), '\0');
    for (char& c : bytes) c = static_cast<char>(pick(0, 255));
    return bytes;
  }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::size_t index(std::size_t size) { return std::uniform_int_distribution<std::size_t>(0, size - 1)(random_); }

 private:
  static constexpr std::size_t kFirstRecord = 12;
  static constexpr std::size_t kHeadBytes = 12;

  static std::uint32_t fixed(const std::string& bytes, std::size_t at) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    return value;
  }
  static void put_fixed(std::string& bytes, std::uint64_t value) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
  }
  static std::vector<std::string> split(const std::string& bytes) {
    std::vector<std::string> bodies;
    for (std::size_t at = kFirstRecord; at < bytes.size(); at += kHeadBytes + bodies.back().size()) {
      bodies.push_back(bytes.substr(at + kHeadBytes, fixed(bytes, at)));
    }
    return bodies;
  }
  static std::string join(const std::vector<std::string>& bodies) {
    std::string bytes("cctrace\n\1\0\0\0", 12);
    for (const std::string& body : bodies) {
      const std::uint64_t at = bytes.size();
      put_fixed(bytes, body.size());
      put_fixed(bytes, xxh64(std::string_view(bytes).substr(at, 4), at));
      put_fixed(bytes, xxh64(body, at));
      bytes += body;
    }
    return bytes;
  }
  void damage_once(std::string& bytes) {
    if (bytes.empty()) return;
    const std::size_t at = index(bytes.size());
    switch (pick(1, 7)) {
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.erase(at, index(8) + 1);
        break;
      case 3:
        bytes.insert(at, noise(8));
        break;
      case 4:
        bytes.replace(at, 1, std::string(index(10) + 1, static_cast<char>(0xff)));
        break;
      case 5:
        bytes += bytes.substr(at, index(200));
        break;
      default:
        bytes[at] = static_cast<char>(pick(0, 255));
        break;
    }
  }

  std::mt19937_64 random_;
};

// Reads and replays; whatever does not work must say why.
void use(const std::string& bytes, const ModelOptions& options, int& replayed_count) {
  const auto trace = TraceReader::parse(bytes);
  if (!trace) {
    EXPECT_NE(trace.error(), "");
    return;
  }
  const ReplayLimits limits{.capacity_bytes = 1 << 20, .gap_units = 1 << 12};
  const auto replayed = replay(*trace, options, limits);
  if (replayed) {
    ++replayed_count;
  } else {
    EXPECT_NE(replayed.error().sentence, "");
  }
}

TEST(TraceFuzz, NoBytesDoHarm) {
  const std::vector<ModelOptions> models = all_models(512, 4096);
  int replayed = 0;
  int cases = 0;
  tests::for_each_seed(60, [&](std::uint64_t seed) {
    SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
    TraceFile file;
    TracedProgram program(seed, file.path(), 512, 4096, {});
    program.run(40);
    program.finish();
    const std::string whole = file.bytes();
    Mutator mutator(seed);
    for (int i = 0; i < 200; ++i, ++cases) {
      const ModelOptions& options = models[mutator.index(models.size())];
      const std::string damaged = mutator.damage(whole);
      const auto trace = TraceReader::parse(damaged);
      if (trace && trace->is_complete()) {
        EXPECT_TRUE(damaged == whole) << "damage that nobody noticed";
      }
      use(damaged, options, replayed);
      use(mutator.forge(whole), options, replayed);
      use(mutator.noise(300), options, replayed);
      use(whole.substr(0, 12) + mutator.noise(300), options, replayed);
    }
    return !testing::Test::HasFailure();
  });
  EXPECT_GT(replayed, cases / 20);  // some still make sense, so the replay was reached
}

}  // namespace
}  // namespace crashcut
