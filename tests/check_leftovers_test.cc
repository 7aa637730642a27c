// crashcut check and mount: nothing stays, whatever is killed.
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

// ---- nothing stays ------------------------------------------------------------------------------------------------

// Processes of the session, the sandboxes' too.
std::vector<pid_t> descendants_of(pid_t root) {
  std::vector<pid_t> all{root};
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Of all its threads: a sandbox starts commands from its second one.
    std::error_code error;
    for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(all[i]) + "/task", error)) {
      std::istringstream children(read_file(thread.path() / "children"));
      for (pid_t child; children >> child;) all.push_back(child);
    }
  }
  return all;
}

TEST_F(CheckTest, WhateverIsKilledNothingStays) {
  const char* given = std::getenv("CRASHCUT_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    fs::remove_all(directory_ / "results");
    const pid_t child =
        start({CRASHCUT_BINARY, "check", "--out", "results", "--setup", "echo old > f", "--check",
               "sh -c 'sleep 0.01 & cat f'", "--", "sh", "-c", "for i in 1 2 3 4; do echo $i$i > f; sleep 0.02; done"});
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 400)(random)));
    const std::vector<pid_t> all = descendants_of(child);
    const pid_t victim = all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)];
    const int signals[] = {SIGKILL, SIGKILL, SIGINT, SIGTERM};
    kill(victim, signals[random() % 4]);
    finish(child);
    ASSERT_EQ(wait_for_no_processes(), "") << "round " << round;
    ASSERT_EQ(read_file("/proc/self/mountinfo").find(directory_.string()), std::string::npos);
  }
}

TEST_F(CheckTest, NothingStaysWithoutNamespacesEither) {
  const char* given = std::getenv("CRASHCUT_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 30; ++round) {
    fs::remove_all(directory_ / "results");
    const pid_t child = start(without_namespaces({CRASHCUT_BINARY, "check", "--out", "results", "--setup",
                                                  "echo old > f", "--check", "sh -c 'sleep 0.01 & cat f'", "--", "sh",
                                                  "-c", "for i in 1 2 3 4; do echo $i$i > f; sleep 0.02; done"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(20, 400)(random)));
    std::vector<pid_t> all = descendants_of(child);
    all.erase(all.begin());  // the shell that looks
    if (!all.empty()) kill(all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)], SIGKILL);
    ASSERT_NE(finish(child).exit_code, 77) << "round " << round << ": left mounted";
    ASSERT_EQ(wait_for_no_processes(), "") << "round " << round;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they do not want to be preloaded with others
// A mount's server asks itself something and is killed before it has answered. It cannot die before the mount's channel
// is closed: nobody else may have it open, nor wait for the server first.
TEST_F(CheckTest, NothingStaysOfAServerThatWaitsForItself) {
  const std::string slow = (directory_ / "slow").string();
  compile("slow.so",
          "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdint.h>\n#include <stddef.h>\n#include <unistd.h>\n"
          "struct request { size_t size; int flags; uint32_t* header; };\n"
          "void fuse_session_process_buf(void* session, const struct request* r) {\n"
          "  void (*next)(void*, const struct request*) = dlsym(RTLD_NEXT, \"fuse_session_process_buf\");\n"
          "  if (r->header && r->header[1] == 22 && access(\"" +
              slow + "\", F_OK) == 0) sleep(2);\n  next(session, r);\n}\n",
          "-shared -fPIC");
  compile("marks",
          "#include \"crashcut.h\"\n#include <unistd.h>\n"
          "int main() { for (;;) crashcut_mark(\"x\"), usleep(1000); }\n");
  const pid_t child =
      start(without_namespaces({"env", "LD_PRELOAD=" + (directory_ / "slow.so").string(), CRASHCUT_BINARY, "check",
                                "--out", "results", "--check", "true", "--", (directory_ / "marks").string()}));
  // The program's parent is the sandbox, and the sandbox's the supervisor.
  std::vector<pid_t> all;
  const auto find_program = [&] {
    all = descendants_of(child);
    return std::find_if(all.begin(), all.end(), [](pid_t process) {
      return read_file("/proc/" + std::to_string(process) + "/comm") == "marks\n";
    });
  };
  auto program = find_program();
  for (int tries = 0; tries < 400 && program == all.end(); ++tries, program = find_program())
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  if (program == all.end()) {
    for (const pid_t process : all) kill(process, SIGKILL);
    waitpid(child, nullptr, 0);
    FAIL() << "the program was not found: " << read_file(directory_ / "err");
  }
  const auto parent_of = [](pid_t process) {
    const std::string stat = read_file("/proc/" + std::to_string(process) + "/stat");
    pid_t parent = 0;
    std::istringstream(stat.substr(stat.rfind(')') + 4)) >> parent;
    return parent;
  };
  const pid_t supervisor = parent_of(parent_of(*program));
  std::ofstream(slow).close();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  kill(supervisor, SIGKILL);
  int status = 0;
  bool has_ended = false;
  for (int tries = 0; tries < 800 && !has_ended; ++tries) {
    has_ended = waitpid(child, &status, WNOHANG) == child;
    if (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  EXPECT_TRUE(has_ended) << "somebody waits for ever";
  if (!has_ended) {
    for (const pid_t process : descendants_of(child)) kill(process, SIGKILL);
    waitpid(child, &status, 0);
  }
  EXPECT_EQ(wait_for_no_processes(), "");
}
#endif

TEST_F(CheckTest, WhatWasRecordedBeforeAKillIsThere) {
  const std::string written = (directory_ / "written").string();
  const pid_t child = start({CRASHCUT_BINARY, "check", "--out", "results", "--", "sh", "-c",
                             "echo one > f; touch " + written + "; sleep 1000"});
  for (int tries = 0; tries < 200 && !fs::exists(written); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const pid_t process : descendants_of(child)) kill(process, SIGKILL);
  finish(child);
  EXPECT_EQ(wait_for_no_processes(), "");
  // The newest of it is in the tail of the trace.
  const std::string trace = read_file(directory_ / "results/trace") + read_file(directory_ / "results/trace.tail");
  EXPECT_NE(trace.find("one\n"), std::string::npos);
}

TEST_F(CheckTest, AMountForAPerson) {
  fs::create_directory(directory_ / "disk");
  const pid_t server = start({CRASHCUT_BINARY, "mount", "disk"});
  for (int tries = 0; tries < 200 && !fs::exists(directory_ / "disk/.crashcut/states"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::string at = (directory_ / "disk").string();
  EXPECT_EQ(std::system(("echo hello > " + at + "/a; sync " + at + "/a; echo changed > " + at + "/a").c_str()), 0);
  const std::string list = at + ".list";
  EXPECT_EQ(std::system((std::string(CRASHCUT_BINARY) + " crash " + at + " > " + list).c_str()), 0);
  EXPECT_NE(read_file(list).find(
                "0  nothing is lost\n    1  a: 8 NUL bytes\n    2  a: empty\n    3  a: 6 bytes, other than now\n"),
            std::string::npos)
      << read_file(list);
  EXPECT_EQ(std::system((std::string(CRASHCUT_BINARY) + " crash " + at + " 3 > /dev/null").c_str()), 0);
  EXPECT_EQ(read_file(at + "/a"), "hello\n");
  EXPECT_EQ(std::system((std::string(CRASHCUT_BINARY) + " crash " + at + " 99 2> /dev/null").c_str()) >> 8, 2);
  kill(server, SIGINT);
  EXPECT_EQ(finish(server).exit_code, 0);
}

TEST_F(CheckTest, InAMountForAPersonTheCommandsSyncIsSeen) {
  fs::create_directory(directory_ / "disk");
  const std::string crash = std::string(CRASHCUT_BINARY) + " crash . > ../list";
  const auto states_after = [&](const std::string& words) {
    const Ran ran =
        crashcut({"mount", "disk", "--", "sh", "-c", "echo hello > a; " + words + "; " + crash + "; exit 7"});
    EXPECT_EQ(ran.exit_code, 7) << ran.err;
    return read_file(directory_ / "list");
  };
  EXPECT_NE(states_after("true").find("    1  a: "), std::string::npos);
  for (const char* sync : {"sync", "sync -f a", "sync -f ."}) {
    const std::string states = states_after(sync);
    EXPECT_NE(states.find("0  nothing is lost\n"), std::string::npos) << sync << states;
    EXPECT_EQ(states.find("    1  "), std::string::npos) << sync << states;
  }
  EXPECT_NE(states_after("sync -f /").find("    1  a: "), std::string::npos) << "another filesystem's";
  const Ran none = crashcut({"mount", "disk", "--", "no-such-command"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(none.says("no-such-command could not be run")) << none.err;
}

// A device's number stays, and a FIFO that nobody may open is not opened by others.
TEST_F(CheckTest, AMountForAPersonHasDevicesAndFifos) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make devices";
  fs::create_directory(directory_ / "disk");
  const Ran ran = crashcut(
      {"mount", "disk", "--", "sh", "-c",
       "chmod 755 .; mknod c c 5 7 && mknod b b 3 258 && stat -c '%n %F %t:%T' c b; mkfifo -m 0 p; mkfifo -m 666 q; "
       "for f in p q; do setpriv --reuid 65534 --regid 65534 --clear-groups sh -c \"exec 3<> $f\" 2> /dev/null && echo "
       "$f opened || echo $f refused; done"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ran.says("c character special file 5:7\nb block special file 3:102\np refused\nq opened\n"))
      << ran.out << ran.err;
  // The root's own attributes are there after a crash too.
  const Ran crashed = crashcut({"mount", "disk", "--", "sh", "-c",
                                "chmod 750 .; chown 7:8 .; crashcut crash . 0 > /dev/null; stat -c '%a %u %g' ."});
  EXPECT_TRUE(crashed.says("750 7 8\n")) << crashed.out << crashed.err;
}

// Its command runs on, in a directory that is gone.
TEST_F(CheckTest, AMountForAPersonThatIsKilledIsUnmounted) {
  for (const bool is_root : {true, false}) {
    struct stat helper {};
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
    if (stat("/usr/bin/fusermount3", &helper) != 0 || !(helper.st_mode & S_ISUID))
      GTEST_SKIP() << "no fusermount3 that is setuid root";
    fs::remove_all(directory_ / "disk");
    fs::create_directory(directory_ / "disk");
    fs::permissions(directory_, fs::perms::all);
    fs::permissions(directory_ / "disk", fs::perms::all);
    fs::remove(directory_ / "fuse");
    fs::remove(directory_ / "pid");
    ASSERT_EQ(mknod((directory_ / "fuse").c_str(), S_IFCHR | 0666, makedev(10, 229)), 0);
    ASSERT_EQ(chmod((directory_ / "fuse").c_str(), 0666), 0);
    const std::string user = is_root ? "" : "setpriv --reuid 65534 --regid 65534 --clear-groups ";
    const Ran ran = run(
        {"unshare", "-m", "sh", "-c",
         "mount --bind fuse /dev/fuse; " + user + CRASHCUT_BINARY +
             " mount disk -- sh -c 'echo $$ > ../pid; exec sleep 1000' > /dev/null & server=$!; i=0; "
             "while ! test -s pid && test $i -lt 200; do sleep 0.05; i=$((i+1)); done; "
             "grep -q \" $PWD/disk \" /proc/self/mountinfo && echo mounted; kill -9 $server; wait $server; i=0; "
             "while grep -q \" $PWD/disk \" /proc/self/mountinfo && test $i -lt 200; do sleep 0.05; i=$((i+1)); done; "
             "grep -q \" $PWD/disk \" /proc/self/mountinfo || echo unmounted; kill -0 $(cat pid) && echo runs; kill -9 "
             "$(cat pid)"});
    EXPECT_TRUE(ran.says("mounted\nunmounted\nruns\n")) << is_root << ran.out << ran.err;
  }
}

TEST_F(CheckTest, ACommandInAMountForAPersonEndsWithIt) {
  fs::create_directory(directory_ / "disk");
  // One that does not hang up.
  const pid_t server = start({CRASHCUT_BINARY, "mount", "disk", "--", "sh", "-c",
                              "trap '' HUP; echo > started; while :; do sleep 0.05; done"});
  for (int tries = 0; tries < 200 && !fs::exists(directory_ / "disk/started"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(server, SIGTERM);
  EXPECT_EQ(finish(server).exit_code, 0);
}

}  // namespace
}  // namespace crashcut
