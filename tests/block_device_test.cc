// crashcut check --device at the command line: programs on a raw device, every way to write one, and all of the search.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "tests/block_oracle.h"
#include "tests/check_fixture.h"
#include "tests/seeds.h"

namespace crashcut {
namespace {

class DeviceTest : public CheckTest {
 protected:
  static std::string engine() { return CRASHCUT_LOG_ENGINE; }
  static std::string calls() { return CRASHCUT_DEVICE_CALLS; }

  // crashcut check --device of our engine in this variant.
  Ran check_engine(const std::string& variant, Words options = {}) {
    fs::remove_all(directory_ / "results");
    Words words = {"check", "--device", "--device-size", "1M",
                   "--out", "results",  "--check",       engine() + " verify " + variant + " device"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", engine(), "run", variant, "device"});
    return crashcut(words);
  }
  // What the first `count` sectors can hold after a crash of these calls, with how many recoveries it took.
  struct States {
    std::set<std::string> all;
    std::uint64_t recoveries = 0;
    std::string text;  // of crashcut
  };
  static constexpr const char* kSize = "--device-size";
  States states_of(Words device_calls, int count, Words options = {}) {
    fs::remove_all(directory_ / "results");
    Words words = {"check",     "--device", "--out",
                   "results",   "--check",  calls() + " device read:" + std::to_string(count),
                   "--outcomes"};
    if (std::find(options.begin(), options.end(), kSize) == options.end()) options.insert(options.end(), {kSize, "1M"});
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", calls(), "device"});
    words.insert(words.end(), device_calls.begin(), device_calls.end());
    const Ran ran = crashcut(words);
    EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    States states{outcomes(), 0, ran.out};
    const Json json = result();
    for (const Json& outcome : json["outcomes"]) states.recoveries += outcome["recoveries"].get<std::uint64_t>();
    return states;
  }
  using Set = std::set<std::string>;
};

// ---- the storage engine ---------------------------------------------------------------------------------------------

TEST_F(DeviceTest, TheRightEngineIsVerified) {
  const Ran ran = check_engine("right");
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("verified: all 28 recoveries, none failed")) << ran.out;
  EXPECT_TRUE(ran.says("drive sector=512 cache=volatile tear=any")) << ran.out;
}

std::string line_of(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  return at == std::string::npos ? "no " + word : text.substr(at, text.find('\n', at) - at);
}

TEST_F(DeviceTest, EveryWrongEngineIsFound) {
  const std::map<std::string, std::string> said = {{"no-flush", "damaged: the checkpoint is not whole"},
                                                   {"no-checksum", "damaged: the values are not those of any moment"},
                                                   {"completion-order", "damaged: the values are not those"},
                                                   {"flush-in-flight", "lost: 0 puts are there"},
                                                   {"no-ack-flush", "lost: 0 puts are there"}};
  for (const auto& [variant, text] : said) {
    const Ran ran = check_engine(variant);
    EXPECT_EQ(ran.exit_code, 1) << variant << ran.out << ran.err;
    EXPECT_TRUE(ran.says(text)) << variant << ran.out;
    const Ran again = crashcut({"replay", token(), "--print"});
    EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
    EXPECT_EQ(line_of(again.out, "violation"), line_of(ran.out, "violation")) << variant << again.out;
  }
}

TEST_F(DeviceTest, WhatTheDriveDoesDecidesWhetherAnEngineIsWrong) {
  // Flushes that do nothing break the right engine; without a cache, what is done is durable.
  EXPECT_EQ(check_engine("right", {"--cache-lies"}).exit_code, 1);
  EXPECT_EQ(check_engine("no-flush", {"--cache", "none"}).exit_code, 0);
  EXPECT_EQ(check_engine("no-ack-flush", {"--cache", "none"}).exit_code, 0);
  EXPECT_EQ(check_engine("no-checksum", {"--tear", "none"}).exit_code, 0);
  EXPECT_EQ(check_engine("no-checksum", {"--tear", "prefix"}).exit_code, 1);
  EXPECT_EQ(check_engine("no-checksum", {"--atomic", "2"}).exit_code, 0);
  EXPECT_EQ(check_engine("no-checksum", {"--atomic", "2", "--atomic-boundary", "2"}).exit_code, 0);
}

TEST_F(DeviceTest, ABadSectorBreaksAnEngineThatKeepsOneCopy) {
  EXPECT_EQ(check_engine("right", {"--faults", "1"}).exit_code, 1);
  EXPECT_TRUE(check_engine("right", {"--faults", "1"}).says("sector"));
}

TEST_F(DeviceTest, FaultsOfOtherKindsAreThereIfAskedFor) {
  // A at home or on the second sector, until B is written there; B at home or on the first sector.
  const Words calls = {"d:0:1:A", "f", "d:1:1:B", "f"};
  EXPECT_EQ(states_of(calls, 2, {"--faults", "1", "--fault-kinds", "misdirected"}).all,
            (Set{"..", "A.", "AB", ".A", ".B", "B."}));
  EXPECT_EQ(states_of(calls, 2, {"--fault-kinds", "misdirected"}).all, (Set{"..", "A.", "AB"}));
  // Both elsewhere.
  EXPECT_EQ(states_of(calls, 2, {"--faults", "2", "--fault-kinds", "misdirected"}).all,
            (Set{"..", "A.", "AB", ".A", ".B", "B.", "BA"}));
  // Either in the third sector, where no request begins, or behind it.
  EXPECT_EQ(states_of(calls, 3, {"--faults", "1", "--fault-kinds", "misdirected-any", kSize, "4096"}).all,
            (Set{"...", "A..", "AB.", ".A.", ".B.", "..A", ".BA", "B..", "A.B"}));
  const Ran many = crashcut({"check", "--device", "--device-size", "1M", "--check", "true", "--faults", "2",
                             "--fault-kinds", "misdirected-any", "--", this->calls(), "device", "d:0:1:A", "d:1:1:B"});
  EXPECT_EQ(many.exit_code, 2) << many.out << many.err;
  EXPECT_TRUE(many.says("can go elsewhere in more than 65536 ways")) << many.err;
  // The second sector, which nobody wrote, cannot be read or reads as something else: with either of the first one.
  const States any = states_of({"d:0:1:A"}, 2, {"--faults", "1", "--fault-kinds", "any"});
  EXPECT_EQ(any.all.size(), 8u) << any.text;
  EXPECT_TRUE(any.all.contains("A!") && any.all.contains(".!") && any.all.contains("!.")) << any.text;
  EXPECT_EQ(states_of({"d:0:1:A"}, 2, {"--faults", "1"}).all.size(), 4u);
}

// The engine has no number in its log records' places to tell a stray one by; a violation replays.
TEST_F(DeviceTest, AMisdirectedWriteReplays) {
  const Ran ran = check_engine("right", {"--faults", "1", "--fault-kinds", "misdirected"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("it went to sector")) << ran.out;
  EXPECT_EQ(crashcut({"replay", token()}).exit_code, 1);
}

// ---- ways to write --------------------------------------------------------------------------------------------------

TEST_F(DeviceTest, EveryWayToWriteIsAWrite) {
  for (const std::string way : {"b", "d", "a", "u"}) {
    const States states = states_of({way + ":0:1:A", way + ":1:1:B", "w"}, 2);
    EXPECT_EQ(states.all, (Set{"..", "A.", ".B", "AB"})) << way;
    EXPECT_EQ(states.recoveries, 4u) << way;
  }
}

TEST_F(DeviceTest, EveryFlushIsAFlush) {
  for (const std::string flush : {"f", "g"}) {
    const States states = states_of({"d:0:1:A", flush, "b:1:1:B"}, 2);
    EXPECT_EQ(states.all, (Set{"..", "A.", "AB"})) << flush;
    EXPECT_EQ(states.recoveries, 3u) << flush;
  }
}

// BLKFLSBUF and sync() write back what is buffered, and send no flush to the drive.
TEST_F(DeviceTest, WritingBackIsNoFlush) {
  for (const std::string call : {"F", "S"}) {
    EXPECT_EQ(states_of({"b:0:1:A", call, "d:1:1:B"}, 2).all, (Set{"..", "A.", ".B", "AB"})) << call;
    EXPECT_EQ(states_of({"b:0:1:A", call, "d:1:1:B"}, 2, {"--cache", "none"}).all, (Set{"..", "A.", "AB"})) << call;
  }
  EXPECT_EQ(states_of({"b:0:1:A", "d:1:1:B"}, 2, {"--cache", "none"}).all, (Set{"..", "A.", ".B", "AB"}));
}

// A linked fsync is sent when the write before it is done, and covers it.
TEST_F(DeviceTest, ALinkedFsyncCoversItsWrite) {
  EXPECT_EQ(states_of({"U:0:1:A", "w", "d:1:1:B"}, 2).all, (Set{"..", "A.", "AB"}));
  EXPECT_EQ(states_of({"U:0:1:A", "d:1:1:B", "w"}, 2).all, (Set{"..", "A.", ".B", "AB"}));
}

TEST_F(DeviceTest, ADurableWriteIsDurableWhenItIsDone) {
  for (const Words& write : {Words{"s:0:1:A"}, Words{"r:0:1:A"}, Words{"A:0:1:A", "w"}}) {
    Words all = write;
    all.push_back("d:1:1:B");
    EXPECT_EQ(states_of(all, 2).all, (Set{"..", "A.", "AB"})) << write[0];
  }
}

TEST_F(DeviceTest, AFlushDoesNotCoverWhatIsInFlight) {
  for (const std::string way : {"a", "u"}) {
    EXPECT_EQ(states_of({way + ":0:1:A", "f", "w", "d:1:1:B"}, 2).all, (Set{"..", "A.", ".B", "AB"})) << way;
    EXPECT_EQ(states_of({way + ":0:1:A", "w", "f", "d:1:1:B"}, 2).all, (Set{"..", "A.", "AB"})) << way;
  }
}

// A program that goes on once either write is done does other things with another drive.
TEST_F(DeviceTest, ADriveAnswersTheOldestOrTheNewestFirst) {
  const Words calls = {"a:0:1:A", "a:1:1:B", "W", "f", "w", "d:2:1:C"};
  const Set without_c = {"...", "A..", ".B.", "AB."};
  Set oldest = without_c, newest = without_c;
  oldest.merge(Set{"A.C", "ABC"}), newest.merge(Set{".BC", "ABC"});
  EXPECT_EQ(states_of(calls, 3).all, oldest);
  EXPECT_EQ(states_of(calls, 3, {"--answers", "newest"}).all, newest);
}

// Nor does a mark wait for what is in flight, though crashcut answers it while the program sleeps.
TEST_F(DeviceTest, AMarkDoesNotWaitForTheDrive) {
  const std::string checker = script("look.sh", calls() + " device read:1 | tr -d '\\n'; cat \"$CRASHCUT_MARKS\"\n");
  for (int i = 0; i < 5; ++i) {
    fs::remove_all(directory_ / "results");
    const Ran ran = crashcut({"check", "--device", "--out", "results", "--check", checker, "--outcomes", "--", calls(),
                              "device", "A:0:1:A", "m:said", "w"});
    EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    EXPECT_TRUE(outcomes().contains(".said")) << ran.out;
  }
}

TEST_F(DeviceTest, WritesTear) {
  const Words write = {"d:0:3:A"};
  EXPECT_EQ(states_of(write, 3).all.size(), 8u);
  EXPECT_EQ(states_of(write, 3, {"--tear", "prefix"}).all, (Set{"...", "A..", "AA.", "AAA"}));
  EXPECT_EQ(states_of(write, 3, {"--tear", "none"}).all, (Set{"...", "AAA"}));
  EXPECT_EQ(states_of(write, 3, {"--atomic", "3"}).all, (Set{"...", "AAA"}));
}

TEST_F(DeviceTest, ZeroesAreWritten) {
  for (const std::string way : {"z", "p"}) {
    const States states = states_of({"d:0:2:A", "f", way + ":0:1:A", "f", "d:2:1:C"}, 3);
    EXPECT_EQ(states.all, (Set{"...", "A..", ".A.", "AA.", ".AC"})) << way;
  }
}

// A discarded sector is old or zero for ever; zeroes that were written out are settled by a flush.
TEST_F(DeviceTest, DiscardIsAdviceAndZeroesAreNot) {
  EXPECT_EQ(states_of({"d:0:1:A", "f", "D:0:1", "f", "d:1:1:B"}, 2).all, (Set{"..", "A.", ".B", "AB"}));
  EXPECT_EQ(states_of({"d:0:1:A", "f", "Z:0:1", "f", "d:1:1:B"}, 2).all, (Set{"..", "A.", ".B"}));
}

TEST_F(DeviceTest, APartOfASectorIsWrittenWithTheRestOfIt) {
  const States states = states_of({"d:0:1:A", "f", "y:100:10:B", "f", "d:1:1:C"}, 2);
  EXPECT_EQ(states.all, (Set{"..", "A.", "AC"}));
}

TEST_F(DeviceTest, LargeSectorsDoNotTear) {
  setenv("SECTOR", "4096", 1);
  EXPECT_EQ(states_of({"d:0:2:A"}, 2, {"--sector", "4096"}).all, (Set{"..", "A.", ".A", "AA"}));
  unsetenv("SECTOR");
}

TEST_F(DeviceTest, BehavesLikeABlockDevice) {
  // Misaligned, EINVAL; behind the end, ENOSPC; its size.
  const States states = states_of({"x:100:512:22", "x:0:100:22", "x:1048576:512:28", "G", "L", "d:0:1:A"}, 1);
  EXPECT_EQ(states.all, (Set{".", "A"}));
  // A discard of a part of a sector, of nothing, behind the end: EINVAL; by a descriptor to read: EBADF.
  const Words discards = {"e:0:100:22", "e:0:0:22", "e:1048064:1024:22", "e:512:18446744073709551104:22", "E:0:512:9"};
  Words all = discards;
  all.push_back("d:0:1:A");
  EXPECT_EQ(states_of(all, 1).all, (Set{".", "A"}));
  if (geteuid() == 0 && access("/dev/loop-control", R_OK | W_OK) == 0) {
    EXPECT_EQ(states_of(all, 1, {"--loop"}).all, (Set{".", "A"})) << "a real block device differs";
  }
}

TEST_F(DeviceTest, TheSetUpIsDurable) {
  const States states = states_of({"d:1:1:B"}, 2, {"--setup", calls() + " device b:0:1:A"});
  EXPECT_EQ(states.all, (Set{"A.", "AB"}));
}

TEST_F(DeviceTest, OverlappingWritesInFlightAreNamed) {
  const States states = states_of({"a:0:1:A", "a:0:1:B", "w", "f", "d:1:1:C"}, 2);
  EXPECT_EQ(states.all, (Set{"..", "A.", "B.", "AC", "BC"}));
  EXPECT_NE(states.text.find("1 request wrote sectors that another write in flight wrote too"), std::string::npos)
      << states.text;
}

// ---- random programs against the oracle
// ------------------------------------------------------------------------------

// Calls of device_calls, and what a drive gets of them: a call that waits for its own request is answered after all
// that is in flight, as the oldest are answered first.
class RandomCalls {
 public:
  using Request = tests::OracleRequest;
  using Step = tests::OracleStep;
  static constexpr int kSectors = 3;

  explicit RandomCalls(std::uint64_t seed) : random_(seed) {
    drive.cache = static_cast<tests::OracleDrive::Cache>(pick(4) == 0 ? 1 + pick(2) : 0);
    drive.tear = static_cast<tests::OracleDrive::Tear>(pick(3));
    drive.faults = pick(6) == 0 ? 1 : 0;
    for (int left = 3 + pick(4); left > 0; --left) add();
    calls.push_back("w");
    complete_all();
  }

  Words options() const {
    Words words;
    if (drive.cache == tests::OracleDrive::Cache::kNone) words = {"--cache", "none"};
    if (drive.cache == tests::OracleDrive::Cache::kLies) words = {"--cache-lies"};
    constexpr const char* kTears[] = {"any", "prefix", "none"};
    words.insert(words.end(), {"--tear", kTears[static_cast<int>(drive.tear)]});
    words.insert(words.end(), {"--faults", std::to_string(drive.faults)});
    return words;
  }
  std::set<std::string> states() const {
    std::set<std::string> states;
    for (const tests::OracleImage& image : tests::all_images(drive, requests, steps, kSectors, 0)) {
      std::string text;
      for (const int value : image)
        text += value == tests::kUnreadable ? '!' : value == tests::kGarbage ? '?' : value == 0 ? '.' : letter(value);
      states.insert(text);
    }
    return states;
  }

  bool has_writes() const {
    return std::any_of(requests.begin(), requests.end(), [](const Request& request) { return request.count > 0; });
  }

  tests::OracleDrive drive;
  std::vector<Request> requests;
  std::vector<Step> steps;
  Words calls;

 private:
  static char letter(int value) { return static_cast<char>('A' + value - 1); }
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  void add() {
    constexpr std::string_view kCalls = "ddbbsraaauuuAzpZDffgFSUw";
    const char call = kCalls[static_cast<std::size_t>(pick(kCalls.size()))];
    const auto is_one_of = [&](std::string_view set) { return set.find(call) != std::string_view::npos; };
    if (call == 'w') {
      calls.push_back("w");
      return complete_all();
    }
    Request request;
    if (is_one_of("fgFS")) {
      request.kind = Request::Kind::kFlush;
      request.is_buffered = is_one_of("FS");
    } else {
      request.kind = is_one_of("zpZ") ? Request::Kind::kZero
                     : call == 'D'    ? Request::Kind::kDiscard
                                      : Request::Kind::kWrite;
      request.count = 1 + pick(2);
      request.first = pick(kSectors - request.count + 1);
      request.is_fua = is_one_of("srA");
      request.is_buffered = call == 'b';
      request.value = request.kind == Request::Kind::kWrite ? static_cast<int>(requests.size()) + 1 : 0;
    }
    std::string text(1, call);
    if (request.count > 0) text += ":" + std::to_string(request.first) + ":" + std::to_string(request.count);
    if (request.value > 0) text += std::string(":") + letter(request.value);
    calls.push_back(text);
    issue(request);
    if (is_one_of("bFS")) return complete(static_cast<int>(requests.size()) - 1);  // the host's cache takes it
    if (is_one_of("auA")) return;
    complete_all();
    if (call != 'U') return;
    // The kernel sends the linked fsync when the write is done, if the program waits.
    calls.push_back("w");
    issue({.kind = Request::Kind::kFlush});
    complete_all();
  }
  void issue(const Request& request) {
    steps.push_back({Step::Kind::kIssue, static_cast<int>(requests.size())});
    in_flight_.push_back(static_cast<int>(requests.size()));
    requests.push_back(request);
  }
  void complete(int request) {
    steps.push_back({Step::Kind::kComplete, request});
    std::erase(in_flight_, request);
  }
  void complete_all() {
    while (!in_flight_.empty()) complete(in_flight_.front());
  }

  std::mt19937_64 random_;
  std::vector<int> in_flight_;
};

TEST_F(DeviceTest, RandomProgramsLeaveExactlyWhatTheOracleSays) {
  std::size_t most = 0;
  tests::for_each_seed(12, [&](std::uint64_t seed) {
    const RandomCalls random(seed);
    if (!random.has_writes()) return true;  // there is nothing to check
    const States states = states_of(random.calls, RandomCalls::kSectors, random.options());
    EXPECT_EQ(states.all, random.states()) << "seed " << seed << ": " << states.text;
    most = std::max(most, states.all.size());
    return !HasFailure();
  });
  EXPECT_GT(most, 10u);
}

// ---- the search -----------------------------------------------------------------------------------------------------

TEST_F(DeviceTest, JobsAndSeedsFindTheSame) {
  const Words calls = {"d:0:4:A", "f", "d:2:4:B"};
  const States one = states_of(calls, 6, {"--jobs", "1"});
  const States two = states_of(calls, 6, {"--jobs", "2", "--seed", "7"});
  EXPECT_EQ(one.all, two.all);
  EXPECT_EQ(one.recoveries, two.recoveries);
  EXPECT_EQ(one.recoveries, one.all.size());
  EXPECT_EQ(one.all.size(), 16u + 15u);
}

TEST_F(DeviceTest, ASecondCrashHitsTheChecker) {
  // The checker writes to the device, without a flush before the mark of its own that it leaves in sector 5.
  const std::string checker = script("repair.sh",
                                     "a=$(dd if=device bs=512 count=1 2>/dev/null | head -c1)\n"
                                     "b=$(dd if=device bs=512 skip=5 count=1 2>/dev/null | head -c1)\n"
                                     "c=$(dd if=device bs=512 skip=4 count=1 2>/dev/null | head -c1)\n"
                                     "echo \"$a$c$b\"\n"
                                     "[ \"$c$b\" != B ] || [ -n \"$c\" ] || exit 1\n" +
                                         calls() + " device b:4:1:C b:5:1:B\n");
  fs::remove_all(directory_ / "results");
  const Ran ran = crashcut({"check", "--device", "--out", "results", "--check", checker, "--depth", "2", "--", calls(),
                            "device", "d:0:1:A"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("and another one while the checker ran")) << ran.out;
  EXPECT_EQ(crashcut({"replay", token()}).exit_code, 1);
}

TEST_F(DeviceTest, ABoundedSearchIsResumed) {
  fs::remove_all(directory_ / "results");
  Ran ran = crashcut({"check", "--device", "--out", "results", "--check", calls() + " device read:6",
                      "--max-recoveries", "10", "--", calls(), "device", "d:0:6:A"});
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  ran = crashcut({"check", "--resume", "results"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("all 64 recoveries")) << ran.out;
}

TEST_F(DeviceTest, ReportsAreWritten) {
  const Ran ran = check_engine("no-flush", {"--json", "r.json", "--junit", "r.xml"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const Json json = Json::parse(read_file(directory_ / "r.json"));
  EXPECT_EQ(json["verdict"], "violation");
  EXPECT_TRUE(json["model"].dump().find("volatile") != std::string::npos) << json["model"];
  EXPECT_NE(read_file(directory_ / "r.xml").find("<failure"), std::string::npos);
}

TEST_F(DeviceTest, LinesThatTheProgramPrintsAreMarks) {
  fs::remove_all(directory_ / "results");
  const std::string checker = script("check.sh",
                                     "read -r line < $CRASHCUT_STDOUT\n"
                                     "[ \"$line\" != saved ] || [ \"$(head -c1 device)\" = A ]\n");
  const std::string program = script("save.sh", calls() + " device d:0:1:A $1\necho saved\n");
  const Words common = {"check", "--device", "--stdout-marks", "--out", "results", "--check", checker, "--"};
  Words wrong = common, right = common;
  wrong.insert(wrong.end(), {program});
  right.insert(right.end(), {program, "f"});
  EXPECT_EQ(crashcut(wrong).exit_code, 1);
  fs::remove_all(directory_ / "results");
  EXPECT_EQ(crashcut(right).exit_code, 0);
}

TEST_F(DeviceTest, LogsOfDmLogWritesGoOutAndComeIn) {
  const States states = states_of({"d:0:2:A", "f", "s:2:1:B", "d:0:1:C"}, 3, {"--export-log", "writes.log"});
  fs::remove_all(directory_ / "results");
  const Ran ran = crashcut({"check", "--device", "--import-log", "writes.log", "--out", "results", "--outcomes",
                            "--check", calls() + " device read:3"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_EQ(outcomes(), states.all);
  EXPECT_EQ(crashcut({"check", "--device", "--import-log", "writes.log", "--check", "false"}).exit_code, 1);
  const Ran with_program =
      crashcut({"check", "--device", "--import-log", "writes.log", "--check", "true", "--", "true"});
  EXPECT_TRUE(with_program.says("takes the place of a program")) << with_program.err;
  EXPECT_TRUE(crashcut({"check", "--device", "--import-log", "none.log", "--check", "true"}).says("cannot be read"));
  EXPECT_TRUE(crashcut({"check", "--device", "--import-log", "writes.log", "--check", "true", "--sector", "4096"})
                  .says("--sector is for a program that is run"));
}

// The crashed device as a file, and for a person to look at.
TEST_F(DeviceTest, ACrashedDeviceCanBeWrittenOut) {
  script("judge", "! grep -qa B device\n");
  const Ran ran = check({"--device", "--device-size", "64K", "--check", "./judge"},
                        "printf A | dd of=device conv=notrunc 2>/dev/null; sync device; printf B | dd of=device seek=1 "
                        "conv=notrunc 2>/dev/null");
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const Ran image = crashcut({"replay", token(), "--results", "results", "--image", "device.img"});
  EXPECT_EQ(image.exit_code, 0) << image.out << image.err;
  const std::string bytes = read_file(directory_ / "device.img");
  ASSERT_EQ(bytes.size(), 64u << 10);
  EXPECT_EQ(bytes[512], 'B');
  EXPECT_EQ(crashcut({"replay", token(), "--results", "results", "--image", "device.img"}).exit_code, 2);
}

// ---- bad input ------------------------------------------------------------------------------------------------------

TEST_F(DeviceTest, WrongUseIsASentence) {
  const std::pair<Words, std::string> bad[] = {
      {{"--device"}, "--device needs --check"},
      {{"--cache", "none"}, "--cache is for --device."},
      {{"--faults", "1"}, "--faults is for --device."},
      {{"--device", "--check", "true", "--file", "f"}, "--file is for a filesystem"},
      {{"--device", "--check", "true", "--cache", "small"}, "--cache small: it is volatile or none"},
      {{"--device", "--check", "true", "--tear", "half"}, "Writes cannot tear \"half\""},
      {{"--device", "--check", "true", "--sector", "1024"}, "sectors of 512 or 4096"},
      {{"--device", "--check", "true", "--device-size", "0"}, "--device-size 0"},
      {{"--device", "--check", "true", "--device-size", "1000"}, "a multiple of the sector"},
      {{"--device", "--check", "true", "--device-size", "12Q"}, "--device-size 12Q"},
      {{"--device", "--check", "true", "--device-size", "99999999G"}, "--device-size 99999999G"},
      {{"--device", "--check", "true", "--faults", "1000"}, "1000 faults are too many"},
      {{"--device", "--check", "true", "--fault-kinds", "all"}, "There is no fault \"all\""},
      {{"--fault-kinds", "any"}, "--fault-kinds is for --device."},
      {{"--device", "--check", "true", "--answers", "both"}, "--answers"},
      {{"--device", "--check", "true", "--atomic", "8", "--atomic-boundary", "4"}, "The boundary, 4 sectors"},
  };
  for (const auto& [options, sentence] : bad) {
    const Ran ran = check(options, "true");
    EXPECT_EQ(ran.exit_code, 2) << sentence << ran.out << ran.err;
    EXPECT_TRUE(ran.says(sentence)) << ran.err;
  }
}

TEST_F(DeviceTest, WhatGoesWrongIsSaid) {
  EXPECT_TRUE(check({"--device", "--check", "true"}, "true").says("wrote nothing to the device"));
  EXPECT_TRUE(check({"--device", "--check", "true"}, "exit 3").says("ended with status 3"));
  EXPECT_TRUE(check({"--device", "--check", "true", "--setup", "false"}, "true").says("The set-up command failed"));
  EXPECT_TRUE(check({"--device", "--check", "no_such_checker"}, "echo A > device").says("no_such_checker"));
  EXPECT_EQ(check({"--device", "--check", "sleep 60", "--check-limit", "1"}, "echo A > device").exit_code, 1);
  const Ran token_ran = check({"--device", "--check", "false"}, "echo A > device");
  EXPECT_EQ(token_ran.exit_code, 1);
  const std::string made = token();
  EXPECT_TRUE(
      crashcut({"replay", made, "--program", "p"}).says("--program is not for tokens of crashcut check --device."));
  std::ofstream(directory_ / "results/trace", std::ios::app) << "x";
  EXPECT_EQ(crashcut({"replay", made}).exit_code, 2);
}

TEST_F(DeviceTest, AShellOpensBesideTheCrashedDevice) {
  EXPECT_EQ(check({"--device", "--check", "false"}, "echo A > device").exit_code, 1);
  const std::string look = (directory_ / "look.sh").string(), seen = (directory_ / "seen").string();
  std::ofstream(look) << "#!/bin/sh\nhead -c 1 device > " << seen << "\n";
  ASSERT_EQ(chmod(look.c_str(), 0755), 0);
  setenv("SHELL", look.c_str(), 1);
  const Ran ran = crashcut({"replay", token(), "--shell"});
  unsetenv("SHELL");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  std::string text;
  std::getline(std::ifstream(seen) >> std::ws, text);
  EXPECT_EQ(text, "A");
}

TEST_F(DeviceTest, ADeviceOfAllSizes) {
  EXPECT_EQ(check({"--device", "--device-size", "512", "--check", "true"}, "echo A > device").exit_code, 0);
  EXPECT_EQ(check({"--device", "--device-size", "1024G", "--check", "head -c1 device"}, "echo A > device").exit_code,
            0);
}

// Killed at any moment, it leaves nothing mounted and nothing running: the fixture looks.
TEST_F(DeviceTest, KillsLeaveNothingBehind) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    fs::remove_all(directory_ / "results");
    const pid_t child = start({CRASHCUT_BINARY, "check", "--device", "--out", "results", "--check",
                               calls() + " device read:12", "--", calls(), "device", "d:0:12:A"});
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
    kill(child, SIGKILL);
    finish(child);
  }
}

// ---- a real block device, and one that starts as a file -------------------------------------------------------------

class LoopDeviceTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can attach a loop device";
    if (access("/dev/loop-control", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/loop-control";
  }
  // Loop devices on files of ours. They detach a moment after their last user is gone.
  std::string loops_here() const {
    std::string found;
    for (int tries = 0; tries < 100; ++tries) {
      found.clear();
      for (const auto& entry : fs::directory_iterator("/sys/block")) {
        const std::string file = read_file(entry.path() / "loop/backing_file");
        if (file.find(directory_.string()) != std::string::npos) found += entry.path().filename().string() + " " + file;
      }
      if (found.empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return found;
  }
};

TEST_F(LoopDeviceTest, WritesAndFlushesAreThoseOfTheFile) {
  const Words some = {"L", "G", "d:0:2:A", "f", "d:0:1:B", "m:said", "F"};
  const States loop = states_of(some, 2, {"--loop"});
  EXPECT_EQ(loop.all, (Set{"..", "A.", ".A", "AA", "BA"})) << loop.text;
  // The kernel sends no flush either.
  EXPECT_EQ(states_of({"d:0:1:A", "F", "d:1:1:B"}, 2, {"--loop"}).all, (Set{"..", "A.", ".B", "AB"}));
  EXPECT_EQ(loops_here(), "");
}

TEST_F(LoopDeviceTest, DiscardAndWriteZeroesArrive) {
  EXPECT_EQ(states_of({"d:0:2:A", "f", "Z:0:1", "f"}, 2, {"--loop"}).all, (Set{"..", "A.", ".A", "AA"}));
  EXPECT_EQ(states_of({"d:0:1:A", "f", "D:0:1", "f", "d:1:1:B"}, 2, {"--loop"}).all, (Set{"..", "A.", ".B", "AB"}));
  // A hole that the program punches by itself, also after a discard of the same place, is zeroes.
  EXPECT_EQ(states_of({"d:0:1:A", "f", "p:0:1", "f", "d:1:1:B"}, 2, {"--loop"}).all, (Set{"..", "A.", ".B"}));
  EXPECT_EQ(states_of({"d:0:1:A", "f", "D:0:1", "p:0:1", "f", "d:1:1:B"}, 2, {"--loop"}).all, (Set{"..", "A.", ".B"}));
}

// The kernel writes back what is buffered when the program syncs, or when it has ended.
TEST_F(LoopDeviceTest, BufferedWritesAreTheKernels) {
  EXPECT_EQ(states_of({"b:0:1:A", "g", "b:0:1:B"}, 1, {"--loop"}).all, (Set{".", "A", "B"}));
}

TEST_F(LoopDeviceTest, OurEngineIsJudgedAlike) {
  EXPECT_EQ(check_engine("right", {"--loop"}).exit_code, 0);
  EXPECT_EQ(check_engine("no-ack-flush", {"--loop"}).exit_code, 1);
}

TEST_F(LoopDeviceTest, KillsLeaveNothing) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 12; ++round) {
    fs::remove_all(directory_ / "results");
    const pid_t child =
        start({CRASHCUT_BINARY, "check", "--device", "--loop", "--device-size", "1M", "--out", "results", "--check",
               engine() + " verify right device", "--", engine(), "run", "right", "device"});
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
    kill(child, SIGKILL);
    finish(child);
    ASSERT_EQ(wait_for_no_processes(), "") << "round " << round;
    ASSERT_EQ(loops_here(), "") << "round " << round;
  }
}

TEST_F(DeviceTest, ADeviceStartsAsAFile) {
  std::ofstream(directory_ / "image") << std::string(512, 'X') << std::string(700, 'Y');
  EXPECT_EQ(states_of({"d:1:1:A"}, 4, {"--from", (directory_ / "image").string()}).all, (Set{"XYY.", "XAY."}));
  const std::pair<Words, std::string> bad[] = {
      {{"--from", "missing"}, "--from missing: a device starts as what a file holds, and this is none."},
      {{"--from", "."}, "this is none."},
      {{"--from", "image", "--device-size", "1K"}, "--device-size 1K: image is larger (1536 bytes)."},
      {{"--loop", "--answers", "newest"}, "--answers newest does not go with --loop"},
  };
  for (const auto& [options, sentence] : bad) {
    Words words = {"check", "--device", "--check", "true"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "true"});
    const Ran ran = crashcut(words);
    EXPECT_EQ(ran.exit_code, 2) << sentence;
    EXPECT_TRUE(ran.says(sentence)) << ran.out << ran.err;
  }
}

}  // namespace
}  // namespace crashcut
