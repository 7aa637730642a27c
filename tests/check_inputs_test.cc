// crashcut check: starting states, bad input, other users.
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

// ---- starting states ----------------------------------------------------------------------------------------------

TEST_F(CheckTest, WhatIsNotOnTheDiskIsNamed) {
  script("save.sh", "echo new > conf.json\n");
  std::ofstream(directory_ / "conf.json") << "old\n";
  const auto try_first = [&](Words options, Words program) {
    fs::remove_all(directory_ / "crashcut.out");
    options.insert(options.begin(), "check");
    options.push_back("--");
    options.insert(options.end(), program.begin(), program.end());
    return crashcut(options);
  };
  const std::string path_hint = "Of a script, its whole path is enough: $PWD/save.sh.";
  const std::string hint = "--from DIR copies a directory onto it (--from . the one that crashcut is called in)";
  Ran ran = try_first({"--file", "conf.json"}, {"sh", "save.sh"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("save.sh is in the directory that crashcut was called in, and not on the modelled disk."))
      << ran.err;
  EXPECT_TRUE(ran.says(hint)) << ran.err;
  EXPECT_TRUE(ran.says(path_hint)) << ran.err;
  ran = try_first({"--file", "conf.json", "--from", "."}, {"sh", "save.sh"});
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_TRUE(ran.says("conf.json is empty")) << ran.out;
  EXPECT_FALSE(ran.says(hint)) << ran.out << ran.err;
  // A program that does not fail, but does not see the file either.
  ran = try_first({}, {"touch", "conf.json"});
  EXPECT_TRUE(ran.says("note: conf.json is in the directory")) << ran.out;
  ran = try_first({}, {"sh", "-c", "cat something-else"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says(hint)) << ran.err;
  ran = try_first({"--file", "conf.json"}, {"touch", "other"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says(hint)) << ran.err;
  ran = try_first({}, {"sh", "-c", "touch a; exit 1"});
  EXPECT_FALSE(ran.says(hint)) << "it has changed something: " << ran.err;
}

TEST_F(CheckTest, AStartingStateIsCopiedWithAllThatItHas) {
  fs::create_directories(directory_ / "tree/d");
  fs::create_directories(directory_ / "tree/crashcut.out/1");
  EXPECT_EQ(std::system(("cd " + (directory_ / "tree").string() +
                         " && printf data > f && ln f d/g && ln -s f s && truncate -s 1M hole && printf x >> hole && "
                         "mkfifo p && chmod 640 f && touch -d 2001-01-01 f d && : > empty")
                            .c_str()),
            0);
  const std::string look =
      "stat -c '%n %F %a %h %s' f d/g s hole p empty; stat -c '%n %F %a %h' d; stat -c %Y f d; cat d/g; readlink s; "
      "ls; test $(stat -c %b hole) -lt 100 || echo full; tail -c 1 hole";
  const Ran there = run({"sh", "-c", "cd tree; " + look});
  const Ran ran = crashcut({"check", "--out", "tree/results", "--image", "tree/image", "--from", "tree", "--", "sh",
                            "-c", look + "; echo n > f"});
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  std::string expected = there.out;
  expected.erase(expected.find("crashcut.out\n"), 13);
  EXPECT_NE(ran.out.find(expected), std::string::npos) << ran.out << "---\n" << expected;
  std::ofstream(directory_ / "tree/secret") << "x";
  if (geteuid() == 0) return;  // who may read everything
  fs::permissions(directory_ / "tree/secret", fs::perms::none);
  EXPECT_EQ(crashcut({"check", "--from", "tree", "--", "touch", "a"}).exit_code, 2);
}

// ---- bad input ----------------------------------------------------------------------------------------------------

// What is run may stand in a directory whose name has blanks and quotes, and files may have names in any language.
TEST_F(CheckTest, NamesMayHaveBlanksAndLetters) {
  const fs::path place = directory_ / "it's mine";
  fs::create_directory(place);
  const auto write_script = [&](const char* name, const char* text) {
    std::ofstream(place / name) << "#!/bin/sh\n" << text;
    fs::permissions(place / name, fs::perms::owner_all);
  };
  write_script("save it", "echo new > 'Größe 大\xff'");
  write_script("verify", "test $# = \"$1\" || exit 2");
  const auto check_there = [&](const std::string& options) {
    return run({"sh", "-c", "cd \"it's mine\" && exec \"$0\" check " + options + " -- './save it'", CRASHCUT_BINARY});
  };
  const Ran lost = check_there("--expect no-empty");
  EXPECT_EQ(lost.exit_code, 1) << lost.err;
  EXPECT_TRUE(lost.says("Größe 大\\xff")) << lost.out;
  for (const char* checker : {"./verify 1", "./verify 2 \"two words\"", "exit 0", "ulimit -c 0"}) {
    const Ran ran = check_there(std::string("--check '") + checker + "'");
    EXPECT_EQ(ran.exit_code, 0) << checker << "\n" << ran.out << ran.err;
  }
  EXPECT_EQ(check_there("--check ./verify").exit_code, 1) << "it runs, and fails";
  EXPECT_EQ(check_there("--check 'exit 1'").exit_code, 1);
}

TEST_F(CheckTest, MoreBadInput) {
  struct Row {
    Words options;
    std::string script;
    const char* says;
  };
  fs::create_directory(directory_ / "tree");
  for (const Row& row :
       {Row{{}, "echo new > " + (directory_ / "outside").string(), "changed nothing on the modelled disk"},
        Row{{"--json", "/nonexistent/x"}, "echo n > a", "Cannot write /nonexistent/x"},
        Row{{"--json", "x", "--junit", "x"}, "echo n > a", "--json and --junit would both be written to x"},
        Row{{"--json", "x", "--html", "x"}, "echo n > a", "--json and --html would both be written to x"},
        Row{{"--json", "-", "--junit", "-"}, "echo n > a", "--json and --junit would both be written to stdout"}}) {
    const Ran ran = check(row.options, row.script);
    EXPECT_EQ(ran.exit_code, 2) << row.says << ran.out;
    EXPECT_TRUE(ran.says(row.says)) << ran.err;
  }
  EXPECT_EQ(check({"--file", "./a", "--setup", "echo o > a"}, "echo n > t; sync t; mv t a; sync .").exit_code, 0);
}

TEST_F(CheckTest, BadInputIsASentence) {
  const auto refused = [&](const Words& words, const std::string& sentence) {
    const Ran ran = crashcut(words);
    EXPECT_EQ(ran.exit_code, 2) << sentence << ran.out << ran.err;
    EXPECT_TRUE(ran.says(sentence)) << ran.err;
    fs::remove_all(directory_ / "r");
  };
  refused({"check"}, "check needs a program");
  refused({"check", "--out", "r", "--", "no-such-program"}, "There is no program no-such-program in PATH");
  refused({"check", "--out", "r", "--", "./nothing"}, "could not be run");
  refused({"check", "--out", "r", "--file", "/etc/passwd", "--", "true"}, "outside the modelled disk");
  refused({"check", "--out", "r", "--file", "../f", "--", "true"}, "outside the modelled disk");
  refused({"check", "--out", "r", "--file", "f", "--", "true"}, "there was no such file");
  refused({"check", "--out", "r", "--setup", "false", "--", "true"}, "The set-up command failed");
  refused({"check", "--out", "r", "--check", "no-such-checker f", "--", "true"}, "The checker could not be run");
  refused({"check", "--out", "r", "--backup", "f", "--", "true"}, "--backup needs a --file");
  refused({"check", "--out", "/proc/r", "--", "true"}, "Cannot make the directory /proc/r");
  refused({"replay", "cc2AAAA"}, "The token is damaged");
  refused({"mount", "nowhere"}, "is not a directory");
  refused({"crash", "."}, "is not a mount of crashcut mount");
  fs::create_directory(directory_ / "r");
  refused({"check", "--out", "r", "--", "true"}, "it is there already");
}

TEST_F(CheckTest, WhatAProgramDidUntilItWasStoppedIsExplored) {
  const Words options = {"--program-limit", "1", "--setup", "echo v0 > f", "--file", "f"};
  Ran ran = check(options, "echo v1 > f; sleep 1000");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("the program was stopped (--program-limit")) << ran.out;
  EXPECT_EQ(count_of(result(), "not durable"), 0) << "its end is no promise";
  EXPECT_TRUE(result()["execution"]["timed_out"]);
  ran = check(options, "for i in 1 2; do echo v$i > t; sync t; mv t f; sync .; done; sleep 1000");
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_EQ(result()["verdict"], "bounded");
  EXPECT_EQ(result()["bound_hit"], "program_limit");
  EXPECT_EQ(result()["counts"]["recoveries"], 3);
  // What was half done is no version, and nobody's loss where there was nothing before.
  ran = check({"--program-limit", "1"}, "echo v1 > f; sync f .; (echo half; sleep 1000) > g");
  EXPECT_EQ(ran.exit_code, 1) << "f can be empty" << ran.out << ran.err;
  const Json half = result();
  for (const Json& violation : half["violations"]) EXPECT_EQ(violation["subject"], "f");
  ran = check(options, "crashcut mark saved; (echo half; sleep 1000) > f");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("5 bytes long")) << ran.out;
  ran = check({"--program-limit", "1", "--file", "f"}, "(echo half; sleep 1000) > f");
  EXPECT_EQ(ran.exit_code, 2) << ran.out;
  EXPECT_TRUE(ran.says("before it had finished any version of f")) << ran.err;
  EXPECT_EQ(check({"--program-limit", "1"}, "sleep 1000").exit_code, 2) << "it changed nothing";
}

// More room than the disk has, in all, but never at once: what is given back can be had again. Space that nobody wrote
// to costs the trace and the cuts next to nothing.
TEST_F(CheckTest, SpaceThatNobodyWroteToCostsNothing) {
  const Ran ran = check({"--check", "test ! -e f || test $(stat -c %s f) -eq 0 -o $(stat -c %s f) -eq 1073741824"},
                        "for i in 1 2 3 4 5; do fallocate -l 1G f && rm f || exit 1; done; touch done");
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_FALSE(ran.says("contradicts")) << ran.err;
  EXPECT_LT(fs::file_size(directory_ / "results/trace"), 100'000u);
}

TEST_F(CheckTest, AProgramThatFailsByItselfIsNotVerified) {
  Ran ran = check({"--setup", "echo old > f"}, "exit 3");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("The program itself failed, before any crash was tried: it ended with status 3")) << ran.err;
  ran = check({"--setup", "echo old > f"}, "kill -SEGV $$");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("was killed by SIGSEGV")) << ran.err;
}

TEST_F(CheckTest, ATraceThatWasChangedIsNotReplayed) {
  check({"--setup", "echo old > f", "--file", "f"}, "echo new contents > f");
  const std::string kept = token();
  check({"--setup", "echo old > f", "--file", "f"}, "echo other contents > f");
  const Ran ran = crashcut({"replay", kept});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("are other ones")) << ran.err;
}

TEST_F(CheckTest, AFullDiskIsTheUsersToMend) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small disk";
  const Ran ran = run({"unshare", "-m", "sh", "-c",
                       "mkdir -p small && mount -t tmpfs -o size=2m none small && exec " CRASHCUT_BINARY
                       " check --out small/r -- sh -c 'head -c 20000000 /dev/urandom > f'"});
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("No space left on device")) << ran.err;
}

TEST_F(CheckTest, NoFuseIsASentence) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to hide /dev/fuse";
  const Ran ran = run({"unshare", "-m", "sh", "-c",
                       "touch x && mount --bind x /dev/fuse && exec " CRASHCUT_BINARY " check --out r -- true"});
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("FUSE")) << ran.err;
}

TEST_F(CheckTest, WorksForOthersThanRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  fs::permissions(directory_, fs::perms::all);
  const fs::path node = directory_ / "fuse";
  ASSERT_EQ(mknod(node.c_str(), S_IFCHR | 0666, makedev(10, 229)), 0);
  ASSERT_EQ(chmod(node.c_str(), 0666), 0);
  const Ran ran =
      run({"unshare", "-m", "sh", "-c",
           "mount --bind fuse /dev/fuse && exec setpriv --reuid 65534 --regid 65534 --clear-groups " CRASHCUT_BINARY
           " check --out r --setup 'echo old > f' --check 'cat f' -- sh -c 'echo new > f; stat -c %u f >&2'"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("65534")) << ran.err;
  EXPECT_TRUE(ran.says("all 4 recoveries")) << ran.out;
}

TEST_F(CheckTest, WorksWithoutNamespaces) {
  const Words words{"check",   "--out", "results", "--jobs", "2",  "--setup",      "echo old > f",
                    "--check", "cat f", "--",      "sh",     "-c", "echo new! > f"};
  const Ran as_usual = crashcut(words);
  EXPECT_EQ(as_usual.exit_code, 0) << as_usual.out << as_usual.err;
  const std::set<std::string> expected = outcomes();
  fs::remove_all(directory_ / "results");
  Words again = words;
  again.insert(again.begin(), CRASHCUT_BINARY);
  const Ran ran = run(without_namespaces(again));
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("; so there is one job")) << ran.out;
  EXPECT_EQ(outcomes(), expected);
}

}  // namespace
}  // namespace crashcut
