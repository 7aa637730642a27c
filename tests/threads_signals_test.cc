// Pipes, eventfds, what is polled, and signals between threads: programs of tests/threads/ with their exact outcomes.
#include <gtest/gtest.h>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

struct Row {
  const char* words;
  const char* kind;  // of the violation; empty: there is none
  const char* text = "";
  const char* options = "";
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.words << " " << row.options; }

class Judged : public ::testing::TestWithParam<Row> {};

TEST_P(Judged, Rightly) {
  const Row& row = GetParam();
  const bool is_right = row.kind[0] == 0;
  // Timed waits that never run out early are a bound.
  const bool is_bounded = is_right && row.options[0] != 0;
  const json r = report(std::string("--all ") + row.options, row.words, is_bounded ? 3 : is_right ? 0 : 1);
  ASSERT_FALSE(r.is_discarded());
  if (is_right) {
    EXPECT_EQ(r["verdict"], is_bounded ? "bounded" : "verified") << r.dump(1);
    return;
  }
  ASSERT_EQ(r["verdict"], "violation") << r.dump(1);
  EXPECT_EQ(r["violation"]["kind"], row.kind) << r.dump(1);
  EXPECT_NE(r["violation"].dump().find(row.text), std::string::npos) << r["violation"].dump(1);
  EXPECT_TRUE(r["violation"]["replays"].get<bool>());
  const Ran replay = run_replay(r, "--print ");
  EXPECT_EQ(replay.code, 1) << replay.output;
  EXPECT_NE(replay.output.find(row.text), std::string::npos) << replay.output;
}

INSTANTIATE_TEST_SUITE_P(
    Pipes, Judged,
    ::testing::Values(
        Row{"pipes start", ""}, Row{"pipes hand-over", ""}, Row{"pipes two-pipes", ""}, Row{"pipes one-pipe", ""},
        Row{"pipes end", ""}, Row{"pipes end-kept", "deadlock", "waits for data in pipe 1"},
        Row{"pipes end-of-both", ""}, Row{"pipes full", ""},
        Row{"pipes full-for-good", "deadlock", "waits for room in pipe 1"}, Row{"pipes atomic", ""},
        Row{"pipes torn", "assertion", "is_whole"}, Row{"pipes broken", "signal", "main died by SIGPIPE"},
        Row{"pipes broken-ignored", ""}, Row{"pipes not-yet", "assertion", "n == 1"}, Row{"pipes not-yet-or-now", ""},
        Row{"pipes tries-again", ""}, Row{"pipes no-room", ""}, Row{"pipes poll", ""},
        Row{"pipes poll-both-at-once", "assertion", "poll(fds, 2, -1) == 1"}, Row{"pipes poll-hang-up", ""},
        Row{"pipes poll-for-good", "deadlock", "waits until a descriptor is ready"},
        Row{"pipes poll-in-time", "assertion", "n == 1"}, Row{"pipes poll-in-time", "", "", "--timeouts 0"},
        Row{"pipes poll-for-a-while", ""}, Row{"pipes select", ""}, Row{"pipes epoll", ""},
        Row{"pipes epoll-edges", ""}, Row{"pipes epoll-wrong-one", "assertion", "events[0].data.u64 == 1"},
        Row{"pipes counter", ""}, Row{"pipes counter-at-once", "assertion", "value == 2"}, Row{"pipes units", ""},
        Row{"pipes units-short", "deadlock", "waits until somebody adds to eventfd 3"}, Row{"pipes counter-full", ""},
        Row{"pipes closed-while-read", "deadlock", "waits for data in pipe 1"}, Row{"pipes wrong-use", ""}),
    [](const auto& info) { return test_name(std::string(info.param.words) + " " + info.param.options); });

INSTANTIATE_TEST_SUITE_P(
    Signals, Judged,
    ::testing::Values(
        Row{"kills sigwait", ""}, Row{"kills sigwait-of-process", ""}, Row{"kills signalfd", ""},
        Row{"kills signalfd-of-process", ""},
        Row{"kills signalfd-of-other", "deadlock", "waits for SIGUSR1, which nobody sends"},
        Row{"kills polls-signalfd", "assertion"}, Row{"kills polls-signalfd-right", ""},
        Row{"kills signalfd-and-sigwait", "deadlock", "waits for SIGUSR1, which nobody sends"},
        Row{"kills sigwait-unblocked", "signal", "thread 1 died by SIGUSR1, which main sent"},
        Row{"kills sigwait-of-nothing", "deadlock", "waits for SIGUSR1, which nobody sends"},
        Row{"kills dies", "signal", "thread 1 died by SIGTERM, which main sent"}, Row{"kills ignored", ""},
        Row{"kills any-thread", "assertion", "pthread_equal"}, Row{"kills main-only", ""},
        Row{"kills pauses-too-late", "deadlock", "waits for a signal, which nobody sends"}, Row{"kills suspends", ""},
        Row{"kills polls-with-mask", ""}, Row{"kills sem-fails", "assertion", "!interrupted"},
        Row{"kills sem-goes-on", ""}, Row{"kills sem-right", ""}, Row{"kills read-fails", "assertion", "!interrupted"},
        Row{"kills read-goes-on", ""}, Row{"kills sleep-fails", "assertion", "!interrupted"}, Row{"kills raise", ""},
        Row{"kills blocked", ""}, Row{"kills once", "signal", "main died by SIGUSR1, which main sent"},
        Row{"kills nested", ""}, Row{"kills not-nested", ""}, Row{"kills queue", ""},
        Row{"kills in-time", "assertion", "number == SIGUSR1"}, Row{"kills in-time", "", "", "--timeouts 0"},
        Row{"kills for-a-while", ""}, Row{"kills handler-locks", "deadlock", "which it holds itself"},
        Row{"kills handler-locks-blocked", ""}),
    [](const auto& info) { return test_name(std::string(info.param.words) + " " + info.param.options); });

// A wait for data, for a descriptor or for a signal is a cancellation point.
INSTANTIATE_TEST_SUITE_P(Cancelled, Judged,
                         ::testing::Values(Row{"cancelled read", ""}, Row{"cancelled poll", ""},
                                           Row{"cancelled pause", ""}, Row{"cancelled sigsuspend", ""},
                                           Row{"cancelled sigwait", ""}, Row{"cancelled handler", ""}),
                         [](const auto& info) {
                           return test_name(std::string(info.param.words) + " " + info.param.options);
                         });

// The reductions find the same outcomes as every schedule does.
TEST(Signals, ReductionsAgree) {
  for (const char* words : {"pipes poll", "pipes counter", "kills sigwait-of-process", "kills main-only"}) {
    for (const char* reduction : {"none", "source"})
      EXPECT_EQ(report(std::string("--all --reduction ") + reduction, words, 0)["verdict"], "verified") << words;
  }
  for (const char* words :
       {"pipes broken", "pipes poll-both-at-once", "kills any-thread", "kills pauses-too-late", "kills read-fails"}) {
    for (const char* reduction : {"none", "source"})
      EXPECT_EQ(report(std::string("--all --reduction ") + reduction, words, 1)["verdict"], "violation") << words;
  }
}

// Two threads that write to two pipes do not meet; in one pipe, and in nothing else, they do.
TEST(Signals, CountsOfPipes) {
  EXPECT_EQ(executions("pipes two-pipes"), 1u);
  EXPECT_EQ(executions("pipes one-pipe"), 2u);
}

// Before or after the thread began to wait for it, there is one class: nothing else takes the signal.
TEST(Signals, CountsOfSignals) { EXPECT_EQ(executions("kills sigwait"), 1u); }

}  // namespace
}  // namespace crashcut
