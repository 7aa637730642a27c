// crashcut check --fs kernel:TYPE: the kernel's own filesystems below crash images, and a positive control: the harness
// sees what it must see, and nothing else.
//
// Does not verify: that all states of the kernel are seen.
// Skips where there is no root, no loop device, no /dev/fuse or no mkfs.
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

class KernelCheckTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can mount a disk";
    if (access("/dev/loop-control", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/loop-control";
    if (!has_mkfs("ext4")) GTEST_SKIP() << "no mkfs.ext4";
  }
  ~KernelCheckTest() override { EXPECT_EQ(loops_here(), "") << "left attached"; }

  static bool has_mkfs(const std::string& type) {
    return std::system(("PATH=$PATH:/usr/sbin:/sbin command -v mkfs." + type + " >/dev/null").c_str()) == 0;
  }
  // Loop devices on files of ours. Those in memory have our name. They detach a moment after their last user is gone.
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
  Ran check_on(const std::string& filesystem, Words options, const std::string& script) {
    options.insert(options.begin(), {"--fs", filesystem, "--outcomes"});
    return check(std::move(options), script);
  }
};

// The usual save: three blocks, so that it can be torn.
constexpr const char* kSetup = "yes old | head -c 12000 > f";
constexpr const char* kSave = "yes new | head -c 12000 > t && sync t && mv t f";

TEST_F(KernelCheckTest, RenameAfterFsyncShowsOldOrNew) {
  for (const char* filesystem : {"kernel:ext4", "kernel:ext4:data=journal", "kernel:ext4:data=writeback"}) {
    const Ran ran = check_on(filesystem, {"--runs", "10", "--setup", kSetup, "--file", "f", "--no-durable"}, kSave);
    EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
    EXPECT_EQ(outcomes(), (std::set<std::string>{"f is new", "f is old"})) << filesystem;
    const Json json = result();
    EXPECT_EQ(json["verdict"], "bounded");
    EXPECT_EQ(json["facts"]["runs"], 10);
    EXPECT_GT(json["facts"]["images"], 50);
    EXPECT_TRUE(ran.says(" images failed; ")) << ran.out;
    EXPECT_TRUE(ran.says("10 runs of the program, ")) << ran.out;
  }
}

// A harness that cannot see this sees nothing.
TEST_F(KernelCheckTest, DroppedFlushesShowNulsAndTornFiles) {
  // Says what it finds, in a word.
  script("look",
         "test -e f || { echo missing; exit 1; }\n"
         "left=$(tr -d '\\0' <f | wc -c)\n"
         "test $left = 0 && { echo nuls; exit 1; }\n"
         "test $left = 12000 || { echo torn; exit 1; }\n"
         "head -1 f\n");
  struct Case {
    const char* filesystem;
    Words options;
  };
  for (const Case& bad : {Case{"kernel:ext4", {"--cache-lies"}}, Case{"kernel:ext4:barrier=0", {"--subsets", "200"}}}) {
    Words options{"--runs", "6", "--setup", kSetup, "--check", "./look"};
    options.insert(options.end(), bad.options.begin(), bad.options.end());
    const Ran ran = check_on(bad.filesystem, options, kSave);
    EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
    EXPECT_TRUE(outcomes().contains("nuls")) << bad.filesystem << ran.out;
    EXPECT_TRUE(outcomes().contains("torn")) << bad.filesystem << ran.out;
  }
  const Ran good = check_on("kernel:ext4", {"--runs", "6", "--setup", kSetup, "--check", "./look"}, kSave);
  EXPECT_EQ(good.exit_code, 3) << good.out << good.err;
  EXPECT_EQ(outcomes(), (std::set<std::string>{"new", "old"}));
}

// All that the model says of `cmd > f` the kernel does, once it is made to.
TEST_F(KernelCheckTest, ForcedCommitsShowWhatTheModelShows) {
  const Words options{"--setup", "echo old > f", "--file", "f"};
  const Ran ran = check_on("kernel:ext4", options, "echo new contents > f");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const std::set<std::string> kernel = outcomes();
  Words on_model = options;
  on_model.emplace_back("--outcomes");
  EXPECT_EQ(check(on_model, "echo new contents > f").exit_code, 1);
  EXPECT_EQ(kernel, outcomes());
}

TEST_F(KernelCheckTest, CheckersRunOnTheDiskAndKnowTheMarks) {
  script("judge", "grep -q exit $CRASHCUT_MARKS && grep -q new f || grep -q . f; exit $?\n");
  script("strict", "test \"$(cat $CRASHCUT_MARKS)\" = '' || grep -q new f\n");
  const Words common{"--runs", "4", "--setup", "echo old > f"};
  Words judged = common;
  judged.insert(judged.end(), {"--check", "./judge"});
  EXPECT_EQ(check_on("kernel:ext4", judged, "echo new > t && sync t && mv t f && sync .").exit_code, 3);
  Words strict = common;
  strict.insert(strict.end(), {"--check", "./strict"});
  const Ran lost = check_on("kernel:ext4", strict, "echo new > t && sync t && mv t f");
  EXPECT_EQ(lost.exit_code, 1) << lost.out << lost.err;
  EXPECT_TRUE(lost.says("the checker ended with status 1")) << lost.out;
}

TEST_F(KernelCheckTest, AViolationReplaysAndItsImageCanBeKept) {
  EXPECT_EQ(
      check_on("kernel:ext4", {"--runs", "4", "--setup", "echo old > f", "--file", "f"}, "echo new > f").exit_code, 1);
  const Ran again = crashcut({"replay", token(), "--results", "results"});
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_TRUE(again.says("violation: lost: a crash of kernel:ext4 can leave this: f is empty")) << again.out;
  const Ran image = crashcut({"replay", token(), "--results", "results", "--image", "crashed.img"});
  EXPECT_EQ(image.exit_code, 0) << image.out << image.err;
  EXPECT_GT(fs::file_size(directory_ / "crashed.img"), 1u << 20);
  EXPECT_EQ(std::system(("e2fsck -fy " + (directory_ / "crashed.img").string() + " >/dev/null 2>&1").c_str()) & 0x0800,
            0);
}

TEST_F(KernelCheckTest, OtherFilesystems) {
  for (const std::string type : {"xfs", "btrfs"}) {
    if (!has_mkfs(type)) {
      std::cout << "skipped: no mkfs." << type << "\n";
      continue;
    }
    const Words options{"--runs", "5", "--setup", kSetup, "--file", "f", "--no-durable", "--max-recoveries", "300"};
    const Ran ran = check_on("kernel:" + type, options, kSave);
    EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
    for (const std::string& outcome : outcomes())
      EXPECT_TRUE(outcome == "f is new" || outcome == "f is old") << outcome;
    EXPECT_FALSE(outcomes().empty());
  }
}

TEST_F(KernelCheckTest, CompareHasTheModelsAndTheKernelInOneTable) {
  const Ran ran = crashcut({"compare",
                            "--fs",
                            "kernel:ext4",
                            "--fs",
                            "kernel:ext4:nodelalloc",
                            "--runs",
                            "3",
                            "--subsets",
                            "8",
                            "--data",
                            "ordered",
                            "--outcomes",
                            "--json",
                            "rows.json",
                            "--setup",
                            kSetup,
                            "--file",
                            "f",
                            "--no-durable",
                            "--",
                            "sh",
                            "-c",
                            kSave});
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  const Json rows = Json::parse(read_file(directory_ / "rows.json"), nullptr, false);
  ASSERT_EQ(rows.size(), 5u) << ran.out;  // the model, without auto_da_alloc and without delalloc, and two kernels
  EXPECT_EQ(rows[3]["model"]["fs"], "kernel:ext4");
  EXPECT_EQ(rows[4]["model"]["fs"], "kernel:ext4:nodelalloc");
  for (const Json& row : rows) {
    std::set<std::string> outcomes;
    for (const Json& outcome : row["outcomes"]) outcomes.insert(outcome["output"]);
    EXPECT_EQ(outcomes, (std::set<std::string>{"f is new", "f is old"})) << row["model"];
  }
  EXPECT_TRUE(ran.says("kernel:ext4:nodelalloc (Linux ")) << ran.out;
  const Ran wrong = crashcut({"compare", "--runs", "3", "--file", "f", "--", "true"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(wrong.says("--runs is for --fs kernel:")) << wrong.err;
}

// What was judged is not judged again, and in the end the images and outcomes are those of one search.
TEST_F(KernelCheckTest, AComparisonGoesOnWithItsImages) {
  const Words what{"--fs",    "kernel:ext4", "--runs", "3", "--subsets",    "8",  "--data", "journal", "--outcomes",
                   "--setup", kSetup,        "--file", "f", "--no-durable", "--", "sh",     "-c",      kSave};
  const auto compare = [&](Words options) {
    options.insert(options.begin(), "compare");
    options.insert(options.end(), what.begin(), what.end());
    return crashcut(options);
  };
  ASSERT_EQ(compare({"--json", "whole.json"}).exit_code, 3);
  Ran ran = compare({"--max-recoveries", "12", "--out", "part"});
  int stops = 0;
  while (fs::exists(directory_ / "part/rest")) {
    ran = crashcut({"compare", "--resume", "part", "--max-recoveries", "30"});
    ASSERT_EQ(ran.exit_code, 3) << ran.out << ran.err;
    ASSERT_LT(++stops, 50);
  }
  EXPECT_GT(stops, 0);
  const Json whole = Json::parse(read_file(directory_ / "whole.json"));
  const Json resumed = Json::parse(read_file(directory_ / "part/result.json"));
  ASSERT_EQ(whole.size(), 2u);
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_EQ(resumed[0]["outcomes"], whole[0]["outcomes"]);
  EXPECT_EQ(resumed[1]["bound_hit"], "kernel");
  EXPECT_EQ(resumed[1]["counts"]["recoveries"], resumed[1]["facts"]["images"]) << "each image once";
}

TEST_F(KernelCheckTest, ResumeGoesOnWithTheImagesThatAreLeft) {
  script("look", "echo x >> " + (directory_ / "looked").string() + "\nhead -c 3 f\n");
  const Words options{"--runs", "3", "--subsets", "8", "--setup", kSetup, "--check", "./look"};
  Words part = options;
  part.insert(part.end(), {"--max-recoveries", "10", "--jobs", "1"});
  const Ran first = check_on("kernel:ext4", part, kSave);
  ASSERT_EQ(first.exit_code, 3) << first.out << first.err;
  EXPECT_TRUE(first.says("check --resume results")) << first.out;
  const auto looks = [&] {
    const std::string text = read_file(directory_ / "looked");
    return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), 'x'));
  };
  const std::uint64_t images = result()["facts"]["images"];
  ASSERT_GT(images, 20u);
  // A command looks at a few images twice, to see whether the checker is deterministic.
  constexpr std::uint64_t kTwice = 4;
  EXPECT_LE(looks(), 10 + kTwice);
  // Recoveries are counted anew in each command; once more stopped, then to the end.
  const Ran second = crashcut({"check", "--resume", "results", "--max-recoveries", "5", "--jobs", "1"});
  EXPECT_EQ(second.exit_code, 3) << second.out << second.err;
  EXPECT_LE(looks(), 15 + 2 * kTwice);
  const Ran last = crashcut({"check", "--resume", "results", "--jobs", "2"});
  EXPECT_EQ(last.exit_code, 3) << last.out << last.err;
  EXPECT_TRUE(last.says("none of " + std::to_string(images) + " images failed")) << last.out;
  EXPECT_EQ(result()["bound_hit"], "kernel");
  EXPECT_EQ(result()["facts"]["images"], images);
  EXPECT_EQ(outcomes(), (std::set<std::string>{"new", "old"}));
  EXPECT_GE(looks(), images);
  EXPECT_LE(looks(), images + 3 * kTwice) << "no image is mounted again";
  EXPECT_FALSE(fs::exists(directory_ / "results/rest"));
  EXPECT_FALSE(fs::exists(directory_ / "results/judged"));
  EXPECT_EQ(crashcut({"check", "--resume", "results"}).exit_code, 2);
}

// --time may end the runs on the kernel, too: then the ones that are missing are run later.
TEST_F(KernelCheckTest, ResumeRunsTheRunsThatAreMissing) {
  const Ran first = check_on("kernel:ext4", {"--time", "6", "--runs", "12", "--file", "f", "--no-durable"},
                             "yes new | head -c 12000 > t && sync t && mv t f; sleep 0.8");
  ASSERT_EQ(first.exit_code, 3) << first.out << first.err;
  const std::uint64_t runs = result()["facts"]["runs"], images = result()["facts"]["images"];
  ASSERT_LT(runs, 12u) << first.out;
  const Ran last = crashcut({"check", "--resume", "results"});
  EXPECT_EQ(last.exit_code, 3) << last.out << last.err;
  EXPECT_EQ(result()["facts"]["runs"], 12);
  EXPECT_GE(result()["facts"]["images"], images);
  EXPECT_EQ(result()["counts"]["recoveries"], result()["facts"]["images"]) << "each image once";
  EXPECT_EQ(result()["bound_hit"], "kernel");
  for (const std::string& outcome : outcomes())

    EXPECT_TRUE(outcome == "f is new" || outcome == "f is not there, as at the start") << outcome;
}

// The runs must be those that were judged.
TEST_F(KernelCheckTest, ResumeRefusesOtherRuns) {
  const Words options{"--runs",           "3", "--subsets", "8", "--setup", kSetup, "--file", "f", "--no-durable",
                      "--max-recoveries", "10"};
  ASSERT_EQ(check_on("kernel:ext4", options, kSave).exit_code, 3);
  fs::remove(directory_ / "results/run-2");
  fs::rename(directory_ / "results/run-3", directory_ / "results/run-2");
  const Ran ran = crashcut({"check", "--resume", "results"});
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("is of other runs than those that are there")) << ran.err;
}

// An image that the kernel refuses is a finding, and is kept.
TEST_F(KernelCheckTest, ARefusedImageIsKept) {
  // Without flushes and with half of a superblock: some images cannot be mounted.
  const Ran ran =
      check_on("kernel:ext4", {"--runs", "4", "--cache-lies", "--sector", "512", "--setup", kSetup, "--file", "f"},
               kSave + std::string(" && sync"));
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  if (!ran.says("refuses to mount")) GTEST_SKIP() << "the kernel mounted all images";
  EXPECT_TRUE(ran.says("refused.img (fsck, debugfs or mount -o loop")) << ran.out;
  EXPECT_TRUE(fs::exists(directory_ / "results/refused.img"));
}

TEST_F(KernelCheckTest, WrongUseIsASentence) {
  const std::pair<Words, std::string> bad[] = {
      {{"--fs", "kernel:minix"}, "it is kernel:ext4, kernel:xfs or kernel:btrfs"},
      {{"--fs", "ext4"}, "it is kernel:ext4, kernel:xfs or kernel:btrfs"},
      {{"--fs", "kernel:ext4:data=none"}, "The kernel does not mount a new kernel:ext4:data=none"},
      {{"--fs", "kernel:ext4", "--device-size", "1M"}, "kernel:ext4 needs at least 9M"},
      {{"--fs", "kernel:xfs", "--device-size", "100M"}, "kernel:xfs needs at least 300M"},
      {{"--fs", "kernel:ext4", "--device-size", "9M", "--setup", "head -c 20000000 /dev/zero > g"},
       "The set-up command failed"},
      {{"--fs", "kernel:ext4", "--device"}, "--device does not go with --fs"},
      {{"--fs", "kernel:ext4", "--depth", "2"}, "--depth does not go with --fs"},
      {{"--fs", "kernel:ext4", "--data", "journal"}, "--data does not go with --fs"},
      {{"--fs", "kernel:ext4", "--faults", "1"}, "--faults is for --device."},
      {{"--runs", "3"}, "--runs is for --fs"},
      {{"--fs", "kernel:ext4", "--setup", "false"}, "The set-up command failed"},
  };
  for (const auto& [options, sentence] : bad) {
    const Ran ran = check(options, "echo new > f");
    EXPECT_EQ(ran.exit_code, 2) << sentence << ran.out << ran.err;
    EXPECT_TRUE(ran.says(sentence)) << ran.err;
  }
}

// Each in a mount namespace in which something is missing.
TEST_F(KernelCheckTest, WhatTheMachineLacksIsNamed) {
  fs::create_directory(directory_ / "dev");
  const auto devices = [](const std::string& names) {
    return "mount -t tmpfs none dev && (cd /dev && cp -a null zero urandom " + names + " $OLDPWD/dev/) && " +
           "mount --bind dev /dev";
  };
  const std::pair<std::string, std::string> lacks[] = {
      {devices("fuse"), "There is no /dev/loop-control on this machine"},
      {devices("loop-control"), "There is no /dev/fuse on this machine"},
      {"mount -t tmpfs none /usr/sbin", "There is no mkfs.ext4 on this machine (Debian: e2fsprogs)."},
      {"grep -v ext4 /proc/filesystems > list; mount --bind list /proc/filesystems && mount -t tmpfs none /usr/sbin && "
       "printf '#!/bin/sh\\nexit 1\\n' > /usr/sbin/modprobe && cp /usr/sbin/modprobe /usr/sbin/mkfs.ext4 && "
       "chmod +x /usr/sbin/*",
       "This kernel has no ext4."},
  };
  if (run({"unshare", "-m", "sh", "-c", "mount -t tmpfs none dev"}).exit_code != 0) GTEST_SKIP() << "no unshare";
  for (const auto& [preparation, sentence] : lacks) {
    for (const std::string command : {"check --fs kernel:ext4 --check true -- true", "conform --call sync"}) {
      const Ran ran =
          run({"unshare", "-m", "sh", "-c", "(" + preparation + ") && exec " CRASHCUT_BINARY " " + command});
      EXPECT_EQ(ran.exit_code, 2) << sentence << ran.out << ran.err;
      EXPECT_TRUE(ran.says(sentence)) << sentence << ran.out << ran.err;
    }
  }
  // A disk that fits into no device node, which containers may lack.
  const Ran nodes = run({"unshare", "-m", "sh", "-c",
                         devices("fuse loop-control") + " && exec " CRASHCUT_BINARY
                                                        " check --fs kernel:ext4 --check true -- sh -c 'echo a > f'"});
  EXPECT_EQ(nodes.exit_code, 4) << nodes.out << nodes.err;
  EXPECT_TRUE(nodes.says("Cannot attach a loop device: /dev/loop")) << nodes.err;
  EXPECT_EQ(loops_here(), "");
}

TEST_F(KernelCheckTest, OnlyRootCan) {
  fs::permissions(directory_, fs::perms::all);
  for (const std::string command : {"check --fs kernel:ext4 --check true -- true", "conform --call sync"}) {
    const Ran ran =
        run({"sh", "-c", "exec setpriv --reuid=65534 --regid=65534 --clear-groups " CRASHCUT_BINARY " " + command});
    if (ran.exit_code == 126 || ran.exit_code == 127) GTEST_SKIP() << "nobody cannot run crashcut: " << ran.err;
    EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
    EXPECT_TRUE(ran.says("kernel:ext4 mounts disks, which only root can.")) << ran.err;
  }
}

TEST_F(KernelCheckTest, ALogThatWasCutIsNamed) {
  const Words options{"--runs", "2", "--subsets", "4", "--setup", "echo old > f", "--file", "f"};
  ASSERT_EQ(check_on("kernel:ext4", options, "echo new > f").exit_code, 1);
  const std::string made = token();
  const fs::path run = directory_ / "results/run-2", base = directory_ / "results/base";
  const auto replayed = [&] { return crashcut({"replay", made, "--results", "results"}); };
  ASSERT_EQ(replayed().exit_code, 1);
  const struct {
    std::uintmax_t bytes;
    const char* sentence;
  } cuts[] = {{fs::file_size(run) - 10, "run-2 was cut off"}, {20, "run-2: it is not the trace of a device"}};
  for (const auto& cut : cuts) {
    fs::resize_file(run, cut.bytes);
    const Ran ran = replayed();
    EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
    EXPECT_TRUE(ran.says(cut.sentence)) << ran.err;
  }
  fs::resize_file(base, 1 << 20);
  EXPECT_TRUE(replayed().says("is of another disk than")) << replayed().err;
  fs::remove(base);
  EXPECT_TRUE(replayed().says("Cannot open")) << replayed().err;
}

// Versions of files are those of the first run: a program that does other things every time cannot be judged so.
// The program's runs take a part of the time, and are no failure of the program when that is up.
TEST_F(KernelCheckTest, TimeHoldsForTheRunsOfTheProgram) {
  struct Row {
    const char* time;
    const char* script;
    bool has_run;  // it may come to its end once on the kernel
  };
  for (const Row& row : {Row{"4", "echo a > f; sleep 2.5", false}, Row{"8", "echo a > f", true}}) {
    const auto begin = std::chrono::steady_clock::now();
    const Ran ran = check_on("kernel:ext4", {"--time", row.time, "--check", "sleep 100"}, row.script);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(std::stoi(row.time) + 4));
    EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
    EXPECT_TRUE(ran.says("bounded (time)")) << ran.out << ran.err;
    if (!row.has_run) {
      EXPECT_TRUE(ran.says("no run of the program on the kernel came to its end")) << ran.out;
    }
    EXPECT_EQ(loops_here(), "");
  }
}

TEST_F(KernelCheckTest, AProgramThatDiffersFromRunToRunIsRefused) {
  const Ran ran = check_on("kernel:ext4", {"--runs", "2", "--file", "f"}, "head -c 8 /dev/urandom > f");
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("The program does not do the same every time")) << ran.err;
}

// Killed at any moment, nothing stays: neither mounted, nor attached, nor running (the fixture looks).
TEST_F(KernelCheckTest, FiftyKillsLeaveNothing) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 50; ++round) {
    fs::remove_all(directory_ / "results");
    const pid_t child =
        start({CRASHCUT_BINARY, "check", "--fs", "kernel:ext4", "--runs", "6", "--out", "results", "--setup",
               "echo old > f", "--file", "f", "--", "sh", "-c", "echo new > t && sync t && mv t f"});
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
    // The command, or any one process of its own.
    pid_t victim = child;
    if (round % 2 == 1) {
      std::vector<pid_t> own;
      std::istringstream lines(
          read_file("/proc/" + std::to_string(child) + "/task/" + std::to_string(child) + "/children"));
      for (pid_t pid; lines >> pid;) own.push_back(pid);
      if (!own.empty()) victim = own[random() % own.size()];
    }
    kill(victim, SIGKILL);
    finish(child);
    ASSERT_EQ(wait_for_no_processes(), "") << "round " << round;
    ASSERT_EQ(loops_here(), "") << "round " << round;
  }
}

}  // namespace
}  // namespace crashcut
