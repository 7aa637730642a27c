// Traces in files that go with the test.
#pragma once

// from anywhere do harm.
//
// Verifies: every operation and field; recordings equal to direct ones, event by event, under every profile, data mode
//   and mount option; each damage noticed; each sentence there. Does not verify: what the recordings mean, which is
//   random_programs_test.cc's.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fusefs/checksum.h"
#include "fusefs/trace.h"
#include "fusefs/trace_replay.h"
#include "fusefs/traced.h"
#include "tests/seeds.h"
#include "tests/traced_programs.h"

namespace crashcut {

using namespace fusefs;
using tests::TracedProgram;

class TraceFile {
 public:
  TraceFile() {
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("no temporary file");
    ::close(fd);
  }
  ~TraceFile() {
    ::unlink(path_.c_str());
    ::unlink(tail_of(path_).c_str());
  }
  const std::string& path() const { return path_; }
  std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "crashcut_trace.XXXXXX").string();
};

inline std::vector<ModelOptions> all_models(std::uint32_t sector_bytes, std::uint32_t block_bytes) {
  std::vector<ModelOptions> models;
  for (ProfileName profile : {ProfileName::kPaper, ProfileName::kExt4}) {
    for (DataMode data : {DataMode::kOrdered, DataMode::kJournal, DataMode::kWriteback}) {
      for (int bits = 0; bits < 16; ++bits) {
        models.push_back(ModelOptions{profile, data, (bits & 1) == 0, (bits & 2) == 0, (bits & 4) == 0, (bits & 8) == 0,
                                      sector_bytes, block_bytes});
      }
    }
  }
  return models;
}

inline std::string trace_of(const std::vector<TraceOp>& ops, const TraceHeader& header = {}) {
  TraceFile file;
  auto writer = TraceWriter::create(file.path(), header).value();
  for (const TraceOp& op : ops) writer->add(op);
  writer->finish();
  EXPECT_EQ(writer->error(), "");
  return file.bytes();
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline bool operator==(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }
inline bool is_same(const std::optional<timespec>& a, const std::optional<timespec>& b) {
  return a.has_value() == b.has_value() && (!a || *a == *b);
}

}  // namespace crashcut
