// The model against the reference model: random small programs must leave the same set of disks under both.
//
// Verifies: filesystem, recorder, cut and crash view together, for a recovery that looks at every name, size, byte and
//   mark; every profile, data mode and mount option. Does not verify: modes, times, xattrs, threads, second
//   crashes, collapse and insert range, O_DIRECT.
// A seed that fails is printed with the smallest program that still fails; CRASHCUT_SEED replays it.
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <random>

#include "fusefs/crash_view.h"
#include "fusefs/filesystem.h"
#include "fusefs/recorder.h"
#include "persist/choices.h"
#include "persist/cut.h"
#include "tests/reference_model.h"
#include "tests/seeds.h"

namespace crashcut {
namespace {

using fusefs::Filesystem;
using fusefs::Ino;
using reference::Call;
using reference::Op;
using reference::Options;
using reference::Program;
using reference::State;
using reference::to_text;

fusefs::ModelOptions to_model(const Options& o) {
  fusefs::ModelOptions m;
  m.profile = o.profile == reference::Profile::kPaper ? fusefs::ProfileName::kPaper : fusefs::ProfileName::kExt4;
  m.data = o.data == reference::Data::kOrdered   ? fusefs::DataMode::kOrdered
           : o.data == reference::Data::kJournal ? fusefs::DataMode::kJournal
                                                 : fusefs::DataMode::kWriteback;
  m.delalloc = o.delalloc;
  m.auto_da_alloc = o.auto_da_alloc;
  m.dioread_nolock = o.dioread_nolock;
  m.barrier = o.barrier;
  m.sector_bytes = o.sector;
  m.block_bytes = o.block;
  return m;
}

// What a filesystem shows to somebody who looks at everything.
void look_into(Filesystem& fs, Ino dir, const std::string& path, State& state) {
  std::vector<fusefs::DirEntry> entries;
  if (fs.readdir(dir, 0, 1000, entries) < 0) throw std::runtime_error("readdir failed on " + path);
  for (const auto& entry : entries) {
    if (entry.name == "." || entry.name == "..") continue;
    if (S_ISDIR(entry.type)) {
      state[path + entry.name + "/"] = "";
      look_into(fs, entry.ino, path + entry.name + "/", state);
      continue;
    }
    std::vector<std::byte> bytes(256);
    std::int64_t count = fs.read(entry.ino, 0, bytes);
    if (count < 0) throw std::runtime_error("read failed on " + path + entry.name);
    state[path + entry.name] = std::string(reinterpret_cast<const char*>(bytes.data()), count);
  }
}

int fallocate_mode(Call call) {
  switch (call) {
    case Call::kFallocateKeep:
      return FALLOC_FL_KEEP_SIZE;
    case Call::kPunchHole:
      return FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    case Call::kZeroRange:
      return FALLOC_FL_ZERO_RANGE;
    default:
      return 0;
  }
}

// The program on the filesystem under test.
class Execution {
 public:
  explicit Execution(const Options& options)
      : recorder_(to_model(options)),
        options_(options),
        fs_({.recorder = &recorder_,
             .sector_bytes = static_cast<std::uint32_t>(options.sector),
             .block_bytes = static_cast<std::uint32_t>(options.block)}) {}

  void run(const Op& op) {
    recorder_.begin_op(to_text(op));
    Ino ino{};
    Ino dir{};
    std::string name;
    bool has_dir = split(op.path, dir, name);
    bool exists = find(op.path, ino);
    bool is_file = exists && S_ISREG(fs_.type(ino));
    switch (op.call) {
      case Call::kOpen:
      case Call::kOpenTrunc:
        if (!exists && has_dir) fs_.create(dir, name, S_IFREG | 0644, 0, {}, ino);
        if (is_file && op.call == Call::kOpenTrunc) fs_.truncate(ino, 0);
        return;
      case Call::kWrite:
      case Call::kWriteSync:
      case Call::kWriteDsync:
      case Call::kAppend: {
        auto bytes = std::as_bytes(std::span(op.bytes));
        fusefs::WriteFlags flags{.append = op.call == Call::kAppend,
                                 .dsync = op.call == Call::kWriteDsync,
                                 .sync = op.call == Call::kWriteSync};
        if (is_file) fs_.write(ino, op.number, bytes, flags);
        return;
      }
      case Call::kTruncate:
        if (is_file) fs_.truncate(ino, op.number);
        return;
      case Call::kFallocate:
      case Call::kFallocateKeep:
      case Call::kPunchHole:
      case Call::kZeroRange:
        if (is_file) fs_.fallocate(ino, fallocate_mode(op.call), op.number, op.length);
        return;
      case Call::kRename: {
        Ino to_dir{};
        std::string to_name;
        if (exists && !name.empty() && split(op.other, to_dir, to_name)) fs_.rename(dir, name, to_dir, to_name, 0);
        return;
      }
      case Call::kLink: {
        Ino to_dir{};
        std::string to_name;
        if (is_file && split(op.other, to_dir, to_name)) fs_.link(ino, to_dir, to_name);
        return;
      }
      case Call::kUnlink:
        if (is_file) fs_.unlink(dir, name);
        return;
      case Call::kMkdir:
        if (has_dir) fs_.mkdir(dir, name, 0755, {}, ino);
        return;
      case Call::kRmdir:
        if (exists && !name.empty()) fs_.rmdir(dir, name);
        return;
      case Call::kFsync:
      case Call::kFdatasync:
        if (exists) fs_.fsync(ino, op.call == Call::kFdatasync);
        return;
      case Call::kSync:
        fs_.sync();
        return;
      case Call::kSyncFileRange:
        if (is_file) fs_.sync_file_range(ino, 0, 0, SYNC_FILE_RANGE_WRITE);
        return;
      case Call::kClose:
        if (!is_file) return;
        fs_.add_open(ino);
        fs_.release(ino, true);
        return;
      case Call::kBarrier:
        fs_.make_durable();
        return;
      case Call::kMark:
        recorder_.mark(op.path);
        marks_.insert(op.path);
        return;
    }
  }

  State running() {
    State state;
    look_into(fs_, fusefs::kRootIno, "", state);
    for (const auto& mark : marks_) state["!" + mark] = "";
    return state;
  }

  // Every disk that a crash can leave; false where there were more than `most` recoveries.
  bool explore(std::uint64_t most, std::set<State>& states) {
    recorder_.seal();
    const fusefs::Recording& recording = recorder_.recording();
    persist::Cut cut(recording.log);
    persist::ChoiceTree tree;
    do {
      if (tree.run_count() >= most) return false;
      cut.reset();
      tree.begin_run();
      states.insert(recover(recording, cut, tree));
      if (tree.run_diverged()) throw std::runtime_error("a recovery diverged from " + persist::to_text(tree.path()));
    } while (tree.advance());
    return true;
  }

 private:
  State recover(const fusefs::Recording& recording, persist::Cut& cut, persist::ChoiceTree& tree) {
    fusefs::CrashView view(recording, cut, tree);
    Filesystem fs({.medium = &view,
                   .sector_bytes = static_cast<std::uint32_t>(options_.sector),
                   .block_bytes = static_cast<std::uint32_t>(options_.block)});
    State state;
    look_into(fs, fusefs::kRootIno, "", state);
    for (const auto& mark : marks_) {
      if (view.reached(mark)) state["!" + mark] = "";
    }
    return state;
  }
  bool find(const std::string& path, Ino& ino) {
    if (path.empty()) {
      ino = fusefs::kRootIno;
      return true;
    }
    Ino dir{};
    std::string name;
    return split(path, dir, name) && fs_.lookup(dir, name, ino) == 0;
  }
  // The directory of a path, which must be there, and the last component.
  bool split(const std::string& path, Ino& dir, std::string& name) {
    auto slash = path.rfind('/');
    name = slash == std::string::npos ? path : path.substr(slash + 1);
    return find(slash == std::string::npos ? "" : path.substr(0, slash), dir) && S_ISDIR(fs_.type(dir));
  }

  fusefs::Recorder recorder_;
  Options options_;
  Filesystem fs_;
  std::set<std::string> marks_;
};

struct Case {
  Options options;
  Program program;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  Case make() {
    Case c;
    c.options = make_options();
    int files = pick(1, 3);
    names_ = {"a", "b", "c"};
    names_.resize(std::max(files, 2));  // a second name for rename and link
    if (chance(20)) {
      c.program.push_back({Call::kMkdir, "d"});
      names_.push_back("d/x");
      has_dir_ = true;
    }
    if (chance(60)) {
      for (int i = pick(1, 4); i > 0; --i) c.program.push_back(make_call(i % 2 == 0 || existing_.empty()));
      c.program.push_back({Call::kBarrier});
    }
    std::size_t before = c.program.size();
    auto calls = static_cast<std::size_t>(pick(2, 8));
    while (c.program.size() < before + calls) {
      if (chance(8)) {
        add_idiom(c.program);
      } else {
        c.program.push_back(make_call(false));
      }
    }
    return c;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  Options make_options() {
    Options o;
    o.profile = chance(35) ? reference::Profile::kPaper : reference::Profile::kExt4;
    int mode = pick(1, 10);
    o.data = mode <= 6   ? reference::Data::kOrdered
             : mode <= 8 ? reference::Data::kWriteback
                         : reference::Data::kJournal;
    o.delalloc = chance(75);
    o.auto_da_alloc = chance(70);
    o.dioread_nolock = chance(65);
    o.barrier = chance(85);
    o.sector = pick(1, 2);
    o.block = chance(50) ? 2 : 4;
    return o;
  }

  // What programs do to save a file, and what single calls would seldom make.
  void add_idiom(Program& program) {
    std::string file = some_file();
    std::string other = some_name();
    switch (pick(1, 3)) {
      case 1:  // in place
        program.push_back({Call::kOpenTrunc, file});
        program.push_back({Call::kAppend, file, "", 0, some_bytes()});
        program.push_back({Call::kClose, file});
        if (chance(30)) {
          program.push_back({Call::kAppend, file, "", 0, some_bytes()});
          program.push_back({Call::kClose, file});
        }
        if (chance(50)) program.push_back({Call::kOpen, "n"});
        break;
      case 2:  // replace by rename
        program.push_back({Call::kOpenTrunc, other});
        program.push_back({Call::kAppend, other, "", 0, some_bytes()});
        if (chance(30)) program.push_back({Call::kFsync, other});
        program.push_back({Call::kRename, other, file});
        break;
      default:  // replace a file that has another name, and fsync it by that
        program.push_back({Call::kLink, file, "l"});
        program.push_back({Call::kOpen, "t"});
        program.push_back({Call::kRename, "t", file});
        program.push_back({chance(50) ? Call::kFsync : Call::kFdatasync, "l"});
        program.push_back({Call::kMark, "m" + std::to_string(marks_++)});
        break;
    }
    existing_.insert(file);
  }
  const std::string& some_file() {
    if (!existing_.empty() && chance(92))
      return *std::next(existing_.begin(), pick(0, static_cast<int>(existing_.size()) - 1));
    return some_name();
  }
  const std::string& some_name() { return names_[pick(0, static_cast<int>(names_.size()) - 1)]; }
  std::string some_bytes() {
    std::string bytes;
    bool one_letter = chance(20);
    for (int i = chance(60) ? pick(1, 3) : pick(1, 6); i > 0; --i) {
      bytes += static_cast<char>('a' + letter_ % 26);
      if (!one_letter) ++letter_;
    }
    if (one_letter && chance(50)) ++letter_;
    if (chance(5)) bytes[0] = '\0';
    return bytes;
  }

  Op make_call(bool creates) {
    if (creates || existing_.empty()) {
      const std::string& name = some_name();
      existing_.insert(name);
      return {chance(50) ? Call::kOpen : Call::kOpenTrunc, name};
    }
    // Calls and how often they come.
    static const std::vector<std::pair<Call, int>> kWeights = {
        {Call::kOpen, 6},          {Call::kOpenTrunc, 10}, {Call::kWrite, 22},    {Call::kAppend, 18},
        {Call::kWriteSync, 5},     {Call::kWriteDsync, 5}, {Call::kRmdir, 3},     {Call::kFallocate, 3},
        {Call::kFallocateKeep, 2}, {Call::kPunchHole, 4},  {Call::kZeroRange, 4}, {Call::kTruncate, 12},
        {Call::kRename, 9},        {Call::kLink, 4},       {Call::kUnlink, 4},    {Call::kMkdir, 2},
        {Call::kFsync, 10},        {Call::kSync, 2},       {Call::kFdatasync, 6}, {Call::kClose, 8},
        {Call::kSyncFileRange, 5}, {Call::kBarrier, 2},    {Call::kMark, 4}};
    int all = 0;
    for (const auto& [call, weight] : kWeights) all += weight;
    int at = pick(0, all - 1);
    Call call{};
    for (const auto& [candidate, weight] : kWeights) {
      call = candidate;
      if ((at -= weight) < 0) break;
    }
    return fill_in(call);
  }
  Op fill_in(Call call) {
    Op op{call, some_file()};
    switch (call) {
      case Call::kOpen:
      case Call::kOpenTrunc:
        if (chance(50)) op.path = some_name();
        existing_.insert(op.path);
        break;
      case Call::kWrite:
      case Call::kWriteSync:
      case Call::kWriteDsync:
        op.number = pick(0, chance(70) ? 4 : 8);
        [[fallthrough]];
      case Call::kAppend:
        op.bytes = some_bytes();
        break;
      case Call::kTruncate:
        op.number = chance(25) ? 0 : pick(0, 9);
        break;
      case Call::kFallocate:
      case Call::kFallocateKeep:
      case Call::kPunchHole:
      case Call::kZeroRange:
        op.number = pick(0, 6);
        op.length = pick(1, 8);
        break;
      case Call::kRename:
        if (has_dir_ && chance(25)) return move_directory();
        op.other = some_name();
        existing_.erase(op.path);
        existing_.insert(op.other);
        break;
      case Call::kLink:
        op.other = some_name();
        existing_.insert(op.other);
        break;
      case Call::kUnlink:
        existing_.erase(op.path);
        break;
      case Call::kMkdir:
        op.path = some_directory();
        break;
      case Call::kRmdir:
        op.path = some_directory();
        if (chance(50)) op.path = "d";
        break;
      case Call::kFsync:
        if (chance(25)) op.path = has_dir_ && chance(50) ? "d" : "";
        break;
      case Call::kMark:
        op.path = "m" + std::to_string(marks_++);
        break;
      case Call::kSync:
      case Call::kBarrier:
        op.path = "";
        break;
      default:
        break;
    }
    return op;
  }

  std::string some_directory() { return has_dir_ && chance(60) ? "d/e" : "e"; }
  Op move_directory() {
    static const std::vector<std::string> kDirectories = {"d", "e", "d/e", "f"};
    auto pick_one = [&] { return kDirectories[static_cast<std::size_t>(pick(0, 3))]; };
    return {Call::kRename, pick_one(), pick_one()};
  }

  std::mt19937_64 random_;
  std::vector<std::string> names_;
  std::set<std::string> existing_;
  bool has_dir_ = false;
  int letter_ = 0;
  int marks_ = 0;
};

enum class Verdict { kSame, kDifferent, kTooLarge };

Verdict compare(const Case& c, std::uint64_t most_cuts, std::string& report) {
  reference::Outcome expected = reference::run(c.options, c.program, most_cuts);
  if (!expected.complete) return Verdict::kTooLarge;
  if (!expected.states.contains(expected.running)) {
    report = "reference: the disk with everything on it is not what the program sees\n";
    return Verdict::kDifferent;
  }
  std::set<State> states;
  try {
    Execution execution(c.options);
    for (const Op& op : c.program) execution.run(op);
    if (State running = execution.running(); running != expected.running) {
      report = "running: " + to_text(running) + "\nreference: " + to_text(expected.running) + "\n";
      return Verdict::kDifferent;
    }
    if (!execution.explore(20 * most_cuts, states)) return Verdict::kTooLarge;
  } catch (const std::exception& e) {
    report = std::string("the model failed: ") + e.what() + "\n";
    return Verdict::kDifferent;
  }
  if (states == expected.states) return Verdict::kSame;
  report.clear();
  for (const State& s : states) {
    report += (expected.states.contains(s) ? "  both:      " : "  model only: ") + to_text(s) + "\n";
  }
  for (const State& s : expected.states) {
    if (!states.contains(s)) report += "  reference only: " + to_text(s) + "\n";
  }
  report += "events of the reference:\n";
  for (const auto& e : expected.events) report += "  " + e + "\n";
  return Verdict::kDifferent;
}

// The program without the calls and bytes that it does not take to differ.
Case shrink(Case c, std::uint64_t most_cuts) {
  std::string report;
  auto still_fails = [&](const Case& smaller) { return compare(smaller, most_cuts, report) == Verdict::kDifferent; };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t i = c.program.size(); i-- > 0;) {
      Case smaller = c;
      smaller.program.erase(smaller.program.begin() + static_cast<std::ptrdiff_t>(i));
      if (still_fails(smaller)) {
        c = smaller;
        progress = true;
      }
    }
    for (std::size_t i = 0; i < c.program.size(); ++i) {
      while (c.program[i].bytes.size() > 1) {
        Case smaller = c;
        smaller.program[i].bytes.pop_back();
        if (!still_fails(smaller)) break;
        c = smaller;
        progress = true;
      }
      while (c.program[i].length > 1) {
        Case smaller = c;
        --smaller.program[i].length;
        if (!still_fails(smaller)) break;
        c = smaller;
        progress = true;
      }
      while (c.program[i].number > 0) {
        Case smaller = c;
        --smaller.program[i].number;
        if (!still_fails(smaller)) break;
        c = smaller;
        progress = true;
      }
    }
    for (auto set_default : {+[](Options& o) { o.delalloc = true; }, +[](Options& o) { o.auto_da_alloc = true; },
                             +[](Options& o) { o.dioread_nolock = true; }, +[](Options& o) { o.barrier = true; },
                             +[](Options& o) { o.sector = 1; }, +[](Options& o) { o.block = 2; }}) {
      Case simpler = c;
      set_default(simpler.options);
      if (to_text(simpler.options) != to_text(c.options) && still_fails(simpler)) {
        c = simpler;
        progress = true;
      }
    }
  }
  return c;
}

TEST(RandomPrograms, LeaveTheSameDisksAsTheReference) {
  const std::uint64_t most_cuts = tests::is_long_run() ? 200'000 : 5'000;
  std::uint64_t compared = 0;
  std::uint64_t too_large = 0;
  tests::for_each_seed(12'000, [&](std::uint64_t seed) {
    Case c = Generator(seed).make();
    std::string report;
    switch (compare(c, most_cuts, report)) {
      case Verdict::kSame:
        ++compared;
        return true;
      case Verdict::kTooLarge:
        ++too_large;
        return true;
      case Verdict::kDifferent:
        break;
    }
    Case small = shrink(c, most_cuts);
    compare(small, most_cuts, report);
    ADD_FAILURE() << "CRASHCUT_SEED=" << seed << "\n"
                  << to_text(c.options) << "\n"
                  << to_text(c.program) << "the smallest that still differs: " << to_text(small.options) << "\n"
                  << to_text(small.program) << report;
    return false;
  });
  std::cout << compared << " programs compared, " << too_large << " had too many cuts" << std::endl;
  EXPECT_LE(too_large, compared / 20) << "too few of the programs were compared";
}

}  // namespace
}  // namespace crashcut
