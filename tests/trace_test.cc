// Traces: the format, its writer and its reader.
#include "tests/trace_fixture.h"

namespace crashcut {
namespace {

// ---- the format ----------------------------------------------------------------------------------------------------

TEST(Checksum, IsXxh64) {
  EXPECT_EQ(xxh64("", 0), 0xEF46DB3751D8E999u);
  EXPECT_EQ(xxh64("a", 0), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(xxh64("abc", 0), 0x44BC2CF5AD770999u);
  EXPECT_EQ(xxh64("Nobody inspects the spammish repetition", 0), 0xFBCEA83C8A378BF1u);
}

std::vector<TraceOp> one_of_each() {
  const timespec t1{1'700'000'000, 999'999'999};
  const timespec t2{-3, 5};  // time may go back, and lie before 1970
  const std::string_view data("some\0bytes", 10);
  AttrChange change;
  change.mode = 0640;
  change.uid = ~uid_t{0};
  change.gid = 7;
  change.atime = t2;
  change.mtime = timespec{0, UTIME_NOW};
  AttrChange little;
  little.gid = 0;
  return {
      {.call = TraceCall::kProcess, .process = 1, .time = t1, .text = "sh", .pid = 4194304},
      {.call = TraceCall::kCreate,
       .process = 1,
       .time = t1,
       .ino = Ino{11},
       .dir = kRootIno,
       .name = "a",
       .mode = S_IFREG | 0644,
       .rdev = 0,
       .uid = 1000,
       .gid = 1001},
      {.call = TraceCall::kCreate,
       .process = 1,
       .time = t2,
       .ino = Ino{~0ull},
       .dir = Ino{~0ull},
       .name = "dev",
       .mode = S_IFBLK,
       .rdev = ~dev_t{0},
       .uid = ~uid_t{0},
       .gid = ~gid_t{0}},
      {.call = TraceCall::kMkdir,
       .process = 0,
       .time = t2,
       .ino = Ino{12},
       .dir = kRootIno,
       .name = "d",
       .mode = 0755,
       .uid = 1,
       .gid = 2},
      {.call = TraceCall::kSymlink,
       .process = 0,
       .time = t1,
       .ino = Ino{13},
       .dir = Ino{12},
       .name = "\xff\n",
       .uid = 1,
       .gid = 2,
       .text = "/else/where"},
      {.call = TraceCall::kTmpfile, .time = t1, .ino = Ino{14}, .dir = Ino{12}, .mode = 0600, .uid = 1, .gid = 2},
      {.call = TraceCall::kLink, .time = t1, .ino = Ino{14}, .dir = kRootIno, .name = "b"},
      {.call = TraceCall::kUnlink, .time = t1, .dir = kRootIno, .name = "b"},
      {.call = TraceCall::kRmdir, .time = t1, .dir = Ino{12}, .name = "e"},
      {.call = TraceCall::kProcess, .process = 2, .time = t1, .text = "", .pid = 1},
      {.call = TraceCall::kRename,
       .process = 2,
       .time = t1,
       .dir = kRootIno,
       .name = "a",
       .to_dir = Ino{12},
       .to_name = "c",
       .flags = RENAME_EXCHANGE},
      {.call = TraceCall::kSetattr, .time = t1, .ino = Ino{11}, .change = change},
      {.call = TraceCall::kSetattr, .time = t1, .ino = Ino{11}, .change = little},
      {.call = TraceCall::kSetattr, .time = t1, .ino = Ino{11}},
      {.call = TraceCall::kSetXattr,
       .time = t1,
       .ino = Ino{11},
       .name = "user.with/slash",
       .flags = XATTR_CREATE,
       .text = data},
      {.call = TraceCall::kRemoveXattr, .time = t1, .ino = Ino{11}, .name = "user.a"},
      {.call = TraceCall::kAddOpen, .time = t1, .ino = Ino{11}},
      {.call = TraceCall::kRelease, .time = t1, .ino = Ino{11}, .flags = kTraceWritable | kTraceFinished},
      {.call = TraceCall::kWrite,
       .time = t1,
       .ino = Ino{11},
       .offset = 1ull << 43,
       .flags = kTraceAppend | kTraceDirect | kTraceDsync | kTraceSync,
       .data = bytes_of(data)},
      {.call = TraceCall::kWrite, .time = t1, .ino = Ino{11}, .offset = 0},
      {.call = TraceCall::kTruncate, .time = t1, .ino = Ino{11}, .length = 127},
      {.call = TraceCall::kFallocate,
       .time = t1,
       .ino = Ino{11},
       .offset = 128,
       .length = 1u << 31,
       .flags = FALLOC_FL_ZERO_RANGE},
      {.call = TraceCall::kFsync, .time = t1, .ino = Ino{11}, .flags = kTraceDatasync},
      {.call = TraceCall::kSync, .time = t1},
      {.call = TraceCall::kSyncFileRange, .time = t1, .ino = Ino{11}, .offset = 16383, .length = 16384, .flags = 7},
      {.call = TraceCall::kMakeDurable, .time = t1},
      {.call = TraceCall::kCodeFile, .time = t1, .name = "/usr/bin/a b", .text = "8badf00d"},
      {.call = TraceCall::kStack, .time = t1, .text = std::string_view("\0\x85\x02\0\1", 5)},
      {.call = TraceCall::kFsync, .process = 2, .stack = 1, .time = t2, .ino = Ino{11}},
      {.call = TraceCall::kCodeFile, .time = t1, .name = "/lib/c.so", .text = ""},
      {.call = TraceCall::kStack, .time = t1, .text = std::string_view("\1\0", 2)},
      {.call = TraceCall::kWrite, .process = 1, .stack = 2, .time = t1, .ino = Ino{11}, .data = bytes_of(data)},
      {.call = TraceCall::kMark, .process = 1, .time = t1, .text = "saved!\n"},
      {.call = TraceCall::kStopped, .time = t1},
  };
}

constexpr std::size_t kNamesCount = 6;  // processes, code files, stacks
bool is_name(TraceCall call) {
  return call == TraceCall::kProcess || call == TraceCall::kCodeFile || call == TraceCall::kStack;
}

void expect_same_op(const TraceOp& read, const TraceOp& written) {
  SCOPED_TRACE(static_cast<int>(written.call));
  EXPECT_EQ(read.call, written.call);
  EXPECT_EQ(read.process, written.process);
  EXPECT_EQ(read.stack, written.stack);
  EXPECT_TRUE(read.time == written.time);
  EXPECT_EQ(read.ino, written.ino);
  EXPECT_EQ(read.dir, written.dir);
  EXPECT_EQ(read.name, written.name);
  EXPECT_EQ(read.to_dir, written.to_dir);
  EXPECT_EQ(read.to_name, written.to_name);
  EXPECT_EQ(read.mode, written.mode);
  EXPECT_EQ(read.rdev, written.rdev);
  EXPECT_EQ(read.uid, written.uid);
  EXPECT_EQ(read.gid, written.gid);
  EXPECT_EQ(read.offset, written.offset);
  EXPECT_EQ(read.length, written.length);
  EXPECT_EQ(read.flags, written.flags);
  EXPECT_EQ(read.change.mode, written.change.mode);
  EXPECT_EQ(read.change.uid, written.change.uid);
  EXPECT_EQ(read.change.gid, written.change.gid);
  EXPECT_TRUE(is_same(read.change.atime, written.change.atime));
  EXPECT_TRUE(is_same(read.change.mtime, written.change.mtime));
  EXPECT_EQ(read.text, written.text);
  EXPECT_TRUE(std::ranges::equal(read.data, written.data));
}

TEST(Trace, EveryOperationIsReadAsItWasWritten) {
  const std::vector<TraceOp> ops = one_of_each();
  for (int call = 1; call < static_cast<int>(TraceCall::kEnd); ++call) {
    EXPECT_TRUE(std::ranges::any_of(ops, [&](const TraceOp& op) {
      return op.call == TraceCall{static_cast<std::uint8_t>(call)};
    })) << call;
  }
  const TraceHeader header{1024, 8192, 12345, timespec{-1, 999'999'999}, {"sh", "-c", "", "echo \"\n\""}};
  const auto trace = TraceReader::parse(trace_of(ops, header));
  ASSERT_TRUE(trace) << trace.error();
  EXPECT_TRUE(trace->is_complete());
  EXPECT_EQ(trace->op_count(), ops.size() - kNamesCount);
  EXPECT_EQ(trace->header().sector_bytes, 1024u);
  EXPECT_EQ(trace->header().block_bytes, 8192u);
  EXPECT_EQ(trace->header().capacity_bytes, 12345u);
  EXPECT_TRUE(trace->header().start == header.start);
  EXPECT_EQ(trace->header().command, header.command);
  ASSERT_EQ(trace->processes().size(), 3u);
  EXPECT_EQ(trace->processes()[1].pid, 4194304u);
  EXPECT_EQ(trace->processes()[1].command, "sh");
  EXPECT_EQ(trace->processes()[2].pid, 1u);
  ASSERT_EQ(trace->code_files().size(), 2u);
  EXPECT_EQ(trace->code_files()[0].path, "/usr/bin/a b");
  EXPECT_EQ(trace->code_files()[0].id, "8badf00d");
  EXPECT_EQ(trace->code_files()[1].path, "/lib/c.so");
  const TraceStack both{{0, 261}, {0, 1}}, other{{1, 0}};
  EXPECT_EQ(trace->stacks(), (std::vector<TraceStack>{{}, both, other}));
  EXPECT_EQ(to_text(both), std::string("\0\x85\x02\0\1", 5));
  TraceReader::Cursor cursor(*trace);
  TraceOp read;
  for (const TraceOp& op : ops) {
    if (is_name(op.call)) continue;
    ASSERT_TRUE(cursor.next(read));
    expect_same_op(read, op);
  }
  EXPECT_FALSE(cursor.next(read));
}

TEST(Trace, ACutOffTraceIsReadUpToItsLastWholeRecord) {
  const std::vector<TraceOp> ops = one_of_each();
  const std::string whole = trace_of(ops);
  const std::size_t header_bytes = trace_of({}).size() - 12 - 3;  // without the end record
  std::uint64_t last_count = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto trace = TraceReader::parse(whole.substr(0, size));
    ASSERT_EQ(trace.has_value(), size >= header_bytes) << size;
    if (!trace) {
      EXPECT_FALSE(trace.error().empty());
      continue;
    }
    EXPECT_FALSE(trace->is_complete()) << size;
    EXPECT_GE(trace->op_count(), last_count);
    last_count = trace->op_count();
    TraceReader::Cursor cursor(*trace);
    std::uint64_t count = 0;
    for (TraceOp op; cursor.next(op);) ++count;
    EXPECT_EQ(count, trace->op_count());
  }
  EXPECT_EQ(last_count, ops.size() - kNamesCount);
}

TEST(Trace, EveryDamagedByteIsNoticed) {
  const std::string whole = trace_of(one_of_each());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto trace = TraceReader::parse(damaged);
      ASSERT_FALSE(trace) << "byte " << at << " bit " << bit;
      ASSERT_FALSE(trace.error().empty());
    }
  }
}

TEST(Trace, RefusesWhatIsNone) {
  const std::string whole = trace_of({});
  std::string newer = whole;
  newer[8] = 2;
  const std::pair<std::string, const char*> bad[] = {
      {"", "it is not a trace of crashcut"},
      {"#!/bin/sh\n", "it is not a trace of crashcut"},
      {"cctrace\n", "its beginning is not whole"},
      {newer, "it has version 2 of the format, and only version 1 is known"},
      {whole + "x", "something follows its end"},
      {trace_of({}, {.sector_bytes = 0}), "sector"},
      {trace_of({}, {.sector_bytes = 512, .block_bytes = 1000}), "sector"},
      {trace_of({{.call = TraceCall::kSync, .process = 1}}), "is not an operation"},
      {trace_of({{.call = TraceCall::kProcess, .process = 2}}), "is not an operation"},
      {trace_of({{.call = TraceCall::kSync, .stack = 1}}), "is not an operation"},
      {trace_of({{.call = TraceCall::kStack, .text = std::string_view("\0\1", 2)}}), "is not an operation"},
      {trace_of({{.call = TraceCall::kCodeFile, .name = "a"}, {.call = TraceCall::kStack}}), "is not an operation"},
      {trace_of({{.call = TraceCall::kCodeFile, .name = "a"}, {.call = TraceCall::kStack, .text = "\1\1"}}),
       "is not an operation"},
      {trace_of({{.call = TraceCall::kCodeFile, .name = "a"}, {.call = TraceCall::kStack, .text = {"\0", 1}}}),
       "is not an operation"},
      {trace_of({{.call = TraceCall::kUnlink, .dir = kRootIno, .name = "a/b"}}), "is not an operation"},
      {trace_of({{.call = TraceCall::kUnlink, .dir = kRootIno, .name = {"\0", 1}}}), "is not an operation"},
  };
  for (const auto& [bytes, sentence] : bad) {
    const auto trace = TraceReader::parse(bytes);
    ASSERT_FALSE(trace) << sentence;
    EXPECT_NE(trace.error().find(sentence), std::string::npos) << trace.error();
  }
}

TEST(Trace, FilesThatCannotBeRead) {
  for (const char* path : {"/no/such/trace", "/dev/zero", "/"}) {
    const auto trace = TraceReader::open(path);
    ASSERT_FALSE(trace) << path;
    EXPECT_NE(trace.error().find(path), std::string::npos) << trace.error();
  }
}

// ---- the writer ----------------------------------------------------------------------------------------------------

TEST(TraceWriter, SaysWhenTheFileCannotBeMade) {
  for (const char* path : {"/no/such/directory/trace", "/", "/dev/full"}) {
    const auto writer = TraceWriter::create(path, {});
    ASSERT_FALSE(writer) << path;
    EXPECT_NE(writer.error().find(path), std::string::npos) << writer.error();
  }
}

TEST(TraceWriter, SaysWhenTheDiskIsFull) {
  TraceFile file;
  auto writer = TraceWriter::create(file.path(), {}).value();
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 10'000, before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string data(4096, 'x');
  for (int i = 0; i < 100; ++i) {
    writer->add({.call = TraceCall::kWrite, .ino = Ino{11}, .data = bytes_of(data)});
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_NE(writer->error().find("cannot write the trace " + file.path()), std::string::npos) << writer->error();
  writer->add({.call = TraceCall::kSync});
  writer->finish();
  EXPECT_NE(writer->error(), "");
  writer.reset();
  const auto trace = TraceReader::open(file.path());  // what was written before is whole
  ASSERT_TRUE(trace) << trace.error();
  EXPECT_FALSE(trace->is_complete());
  EXPECT_GT(trace->op_count(), 2u);  // the tail had been made
}

TEST(TraceWriter, AKilledOneLosesNothing) {
  for (const std::size_t bytes : {0u, 1u, 4096u, 100'000u, 3u << 20}) {
    TraceFile file;
    const pid_t child = fork();
    if (child == 0) {
      auto writer = TraceWriter::create(file.path(), {}).value();
      const std::string data(bytes, 'x');
      for (int i = 0; i < 10; ++i) writer->add({.call = TraceCall::kWrite, .ino = Ino{11}, .data = bytes_of(data)});
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto trace = TraceReader::open(file.path());
    ASSERT_TRUE(trace) << trace.error();
    EXPECT_FALSE(trace->is_complete());
    EXPECT_EQ(trace->op_count(), 10u);
  }
}

TEST(TraceWriter, WhateverTheMomentOfItsDeathTheTraceIsReadable) {
  for (int round = 0; round < 20; ++round) {
    TraceFile file;
    int done[2];
    ASSERT_EQ(pipe(done), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto writer = TraceWriter::create(file.path(), {}).value();
      for (unsigned i = 0;; ++i) {
        const std::string data(i * 977 % 9000, static_cast<char>('a' + i % 26));
        writer->add({.call = TraceCall::kWrite, .ino = Ino{11}, .offset = i, .data = bytes_of(data)});
        if (write(done[1], &i, sizeof i) != sizeof i) _exit(1);
      }
    }
    close(done[1]);
    unsigned last = 0;
    for (int i = 0; i < 50 + round * 37; ++i)
      ASSERT_EQ(read(done[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    while (read(done[0], &last, sizeof last) > 0) {
    }
    close(done[0]);
    const auto trace = TraceReader::open(file.path());
    ASSERT_TRUE(trace) << trace.error();
    ASSERT_GE(trace->op_count(), last + 1);  // all that it said it had added
    TraceReader::Cursor cursor(*trace);
    TraceOp op;
    for (unsigned i = 0; cursor.next(op); ++i) {
      ASSERT_EQ(op.offset, i);
      ASSERT_EQ(op.data.size(), i * 977 % 9000);
    }
  }
}

TEST(TraceReader, TakesNoTailOfAnotherTrace) {
  TraceFile killed, other;
  if (fork() == 0) {
    auto writer = TraceWriter::create(killed.path(), {.start = {1, 0}}).value();
    writer->add({.call = TraceCall::kSync});
    kill(getpid(), SIGKILL);
  }
  ASSERT_GT(wait(nullptr), 0);
  TraceWriter::create(other.path(), {.start = {2, 0}}).value()->finish();
  EXPECT_FALSE(std::filesystem::exists(tail_of(other.path())));
  std::filesystem::copy_file(tail_of(killed.path()), tail_of(other.path()));
  const auto trace = TraceReader::open(other.path());
  ASSERT_TRUE(trace) << trace.error();
  EXPECT_TRUE(trace->is_complete());
  EXPECT_EQ(trace->op_count(), 0u);
}

TEST(TraceWriter, GivesTheDataOfWritesBack) {
  TraceFile file;
  auto writer = TraceWriter::create(file.path(), {}).value();
  const std::string first(5000, 'a'), second = "second";
  const auto at_first = writer->add({.call = TraceCall::kWrite, .ino = Ino{11}, .data = bytes_of(first)});
  const auto at_second = writer->add({.call = TraceCall::kWrite, .ino = Ino{11}, .data = bytes_of(second)});
  ASSERT_TRUE(at_first && at_second);
  std::string back(first.size(), 0);
  writer->read(*at_first, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, first);
  back.resize(second.size());
  writer->read(*at_second, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, second);
}

}  // namespace
}  // namespace crashcut
