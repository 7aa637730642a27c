// The trace of a device: what was written is read back, and no file whatsoever makes the reader fail but by a sentence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "blocklayer/trace.h"
#include "tests/seeds.h"

namespace crashcut::blocklayer {
namespace {

namespace fs = std::filesystem;

class TraceTest : public testing::Test {
 protected:
  TraceTest() : path_(fs::temp_directory_path() / ("block_trace_test." + std::to_string(getpid()))) {}
  ~TraceTest() override { fs::remove(path_); }

  // Two writes in flight, zeroes, a flush, a mark, a durable start.
  void write_sample(bool is_finished = true) {
    auto writer = DeviceTraceWriter::create(path_, {512, 1 << 20, {"engine", "run", "it"}});
    ASSERT_TRUE(writer) << writer.error();
    DeviceTraceWriter& trace = **writer;
    const std::vector<std::byte> data(1024, std::byte{'x'});
    const RequestId start = trace.issue({.kind = RequestKind::kZero, .first = 0, .count = 8}, {});
    trace.complete(start);
    trace.make_durable();
    const RequestId a = trace.issue({.first = 2, .count = 2, .is_fua = true, .sender = "engine"}, data);
    const RequestId b = trace.issue({.first = 5, .count = 1, .is_buffered = true}, std::span(data).first(512));
    trace.complete(b);
    trace.complete(a);
    trace.complete(trace.issue({.kind = RequestKind::kFlush}, {}));
    trace.mark("saved");
    if (is_finished) trace.finish();
    ASSERT_EQ(trace.error(), "");
  }
  std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }
  void set_bytes(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  // Opens and replays; a sentence, or empty.
  std::string read() const {
    const auto trace = DeviceTrace::open(path_);
    if (!trace) return trace.error();
    const auto recording = replay(*trace, {.sector_bytes = (*trace)->header().sector_bytes});
    return recording ? "" : recording.error();
  }

  // Writes at random, several in flight, and marks. With a flush before the operation `flushed`; 0: without.
  std::shared_ptr<DriveRecording> record_random(std::uint64_t seed, std::uint32_t flushed,
                                                std::span<const persist::AddedSync> added = {}) {
    std::mt19937_64 random(seed);
    {
      auto writer = DeviceTraceWriter::create(path_, {512, 1 << 20, {"engine"}});
      DeviceTraceWriter& trace = **writer;
      const std::vector<std::byte> data(1024, std::byte{'x'});
      std::vector<RequestId> in_flight;
      for (std::uint32_t operation = 1; operation < 12; ++operation) {
        for (; !in_flight.empty() && random() % 2 == 0; in_flight.erase(in_flight.begin()))
          trace.complete(in_flight[0]);
        if (operation == flushed) trace.complete(trace.issue({.kind = RequestKind::kFlush}, {}));
        const std::uint64_t count = 1 + random() % 2, first = random() % 6;
        if (random() % 4 == 0) {
          trace.mark("mark " + std::to_string(operation));
        } else {
          in_flight.push_back(trace.issue({.first = first, .count = count, .is_fua = random() % 4 == 0},
                                          std::span(data).first(512 * count)));
        }
      }
      trace.finish();
    }
    const auto trace = DeviceTrace::open(path_);
    EXPECT_TRUE(trace) << trace.error();
    if (!trace) return nullptr;
    auto recording = replay(*trace, {}, added);
    EXPECT_TRUE(recording) << recording.error();
    return recording ? *recording : nullptr;
  }

  fs::path path_;
};

TEST_F(TraceTest, AnAddedFlushIsOneThatTheProgramDoes) {
  tests::for_each_seed(50, [&](std::uint64_t seed) {
    SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
    const auto operation = static_cast<std::uint32_t>(1 + seed % 11);
    const persist::AddedSync added{persist::AddedSync::Kind::kSync, 0, operation};
    const auto has_it = record_random(seed, operation), adds_it = record_random(seed, 0, std::span(&added, 1));
    if (has_it == nullptr || adds_it == nullptr) return false;
    const persist::Log &a = adds_it->log, &b = has_it->log;
    EXPECT_EQ(adds_it->event_kinds, has_it->event_kinds);
    EXPECT_EQ(adds_it->ops.size() + 1, has_it->ops.size());
    for (persist::EventId e = 0; e < a.event_count() && e < b.event_count(); ++e) {
      EXPECT_EQ(a.op(e), b.op(e) - (b.op(e) >= operation ? 1 : 0)) << e;
      EXPECT_EQ(a.epoch(e), b.epoch(e)) << e;
      EXPECT_EQ(a.cover(e), b.cover(e)) << e;
      EXPECT_TRUE(std::ranges::equal(a.predecessors(e), b.predecessors(e))) << e;
      EXPECT_TRUE(std::ranges::equal(a.writes(e), b.writes(e), [](const auto& x, const auto& y) {
        return x.location == y.location;
      })) << e;
    }
    return !HasFailure();
  });
}

TEST_F(TraceTest, ComesBack) {
  write_sample();
  const auto trace = DeviceTrace::open(path_);
  ASSERT_TRUE(trace) << trace.error();
  EXPECT_EQ((*trace)->header().command, (std::vector<std::string>{"engine", "run", "it"}));
  EXPECT_EQ((*trace)->header().bytes, 1u << 20);
  EXPECT_EQ((*trace)->request_count(), 4u);
  EXPECT_TRUE((*trace)->is_complete());
  EXPECT_TRUE((*trace)->has_writes());
  EXPECT_FALSE((*trace)->was_stopped());
  const auto recording = replay(*trace, {});
  ASSERT_TRUE(recording) << recording.error();
  EXPECT_EQ((*recording)->operations(),
            (std::vector<std::string>{"the starting state", "write_zeroes(sectors 0 to 7)",
                                      "engine: write(sectors 2 to 3, FUA)", "write(sector 5, buffered)", "flush()",
                                      "mark(\"saved\")"}));
  EXPECT_EQ((*recording)->marks().size(), 1u);
  EXPECT_FALSE(replay(*trace, {.sector_bytes = 4096}));
}

TEST_F(TraceTest, WhatWasCutOffEndsEarlier) {
  write_sample();
  const std::string whole = bytes();
  std::size_t complete = 0, sentences = 0;
  for (std::size_t length = 0; length < whole.size(); length += length < 200 ? 1 : 17) {
    set_bytes(whole.substr(0, length));
    const auto trace = DeviceTrace::open(path_);
    if (!trace) {
      ++sentences;
      EXPECT_TRUE(trace.error().ends_with('.')) << trace.error();
      continue;
    }
    complete += (*trace)->is_complete() ? 1 : 0;
    EXPECT_EQ(read(), "") << length;
  }
  EXPECT_EQ(complete, 0u);
  EXPECT_EQ(sentences, 40u + 14u);  // inside of the header
}

TEST_F(TraceTest, DamageIsASentenceOrSound) {
  write_sample();
  const std::string whole = bytes();
  std::size_t refused = 0, count = 0;
  tests::for_each_seed(500, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string damaged = whole;
    for (std::uint64_t i = 0; i <= random() % 4; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    if (random() % 8 == 0) damaged.insert(random() % damaged.size(), std::string(random() % 100, '\x01'));
    set_bytes(damaged);
    const std::string said = read();
    refused += said.empty() ? 0 : 1;
    ++count;
    EXPECT_TRUE(said.empty() || said.ends_with('.')) << said;
    return !HasFailure();
  });
  if (count > 1) {
    EXPECT_GT(refused, count / 4);
  }
}

TEST_F(TraceTest, TooManySectorsAreRefused) {
  {
    auto writer = DeviceTraceWriter::create(path_, {512, std::uint64_t{1} << 40, {}});
    ASSERT_TRUE(writer);
    (*writer)->issue({.kind = RequestKind::kZero, .first = 0, .count = std::uint64_t{1} << 31}, {});
  }
  EXPECT_NE(read().find("a smaller device has fewer"), std::string::npos) << read();
}

TEST_F(TraceTest, OtherFilesAreRefused) {
  for (const std::string& other : {std::string(), std::string("#!/bin/sh\n"), std::string(10000, '\0'),
                                   std::string("crashcut device trace 2") + std::string(100, '\0')}) {
    set_bytes(other);
    EXPECT_NE(read(), "");
  }
  fs::remove(path_);
  EXPECT_NE(read().find("Cannot read"), std::string::npos);
  EXPECT_FALSE(DeviceTraceWriter::create("/no/such/directory/trace", {}));
}

}  // namespace
}  // namespace crashcut::blocklayer
