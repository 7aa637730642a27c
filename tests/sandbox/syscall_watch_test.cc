// Every watched call, made by a program linked statically and one linked dynamically, in the tables of all three ABIs.
#include "recovery/sandbox/syscall_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/sandbox/inside.h"

namespace crashcut::sandbox {
namespace {

// Writes down what the handlers are told.
struct Log {
  std::string text;
  std::mutex mutex;
  struct stat file;

  std::string name(const Caller& caller, int fd) const {
    const auto st = caller.stat_fd(fd);
    return !st                                                                                 ? "none"
           : st->device == file.st_dev && st->inode == file.st_ino && st->mode == file.st_mode ? "file"
                                                                                               : "other";
  }
  // The watch calls from a thread of its own.
  void add(std::string_view more) {
    const std::lock_guard lock(mutex);
    text += more;
  }
  void forget() {
    const std::lock_guard lock(mutex);
    text.clear();
  }
  std::string seen() {
    const std::lock_guard lock(mutex);
    return text;
  }
  SyscallHandlers handlers() {
    SyscallHandlers h;
    h.on_sync = [this](const Caller& c, std::optional<int> fd) {
      add(fd ? fmt::format("syncfs({}) ", name(c, *fd)) : "sync ");
      return fd ? Answer::go_on() : Answer::with(0);  // not the whole machine's disks, please
    };
    h.on_sync_file_range = [this](const Caller& c, const SyncFileRange& r) {
      add(fmt::format("range({}, {:x}, {:x}, {}) ", name(c, r.fd), r.offset, r.length, r.flags));
      return Answer::go_on();
    };
    h.on_shared_mapping = [this](const Caller& c, const SharedMapping& m) {
      // A C library may map what it likes for reading.
      if ((m.protection & PROT_WRITE) != 0) add(fmt::format("map({}, {}) ", name(c, m.fd), m.length));
      return Answer::go_on();
    };
    h.on_io_uring = [this](const Caller&) {
      add("uring ");
      return Answer::go_on();
    };
    h.on_barrier = [this](const Caller&) {
      add("barrier ");
      return Answer::with(0);
    };
    h.on_mark = [this](const Caller&, std::string_view t) {
      add(fmt::format("mark({}) ", t));
      return Answer::with(17);
    };
    h.on_reached = [this](const Caller&, std::string_view t) {
      add(fmt::format("reached({}) ", t));
      return Answer::with(t == "yes" ? 1 : 0);
    };
    h.on_assume = [this](const Caller&) {
      add("assume ");
      return Answer::with(-EINTR);
    };
    return h;
  }
};

struct Temporary {
  Temporary() {
    const int fd = mkstemp(path);
    fchmod(fd, 0666);
    [[maybe_unused]] const int grown = ftruncate(fd, 8192);
    close(fd);
  }
  ~Temporary() { unlink(path); }
  char path[64] = "/tmp/crashcut-watch-XXXXXX";
};

class Watched : public testing::TestWithParam<std::tuple<Who, const char*>> {
 protected:
  void SetUp() override { SKIP_IF_IMPOSSIBLE(who()); }
  Who who() const { return std::get<0>(GetParam()); }

  // What the handlers were told, then how the program ended and the result it printed.
  std::string make_calls(const std::vector<std::vector<std::string>>& calls) {
    return tell_from_inside(who(), [&](const Inside& inside) {
      Log log;
      if (stat(file_.path, &log.file) != 0) return std::string("no file");
      const auto watch = SyscallWatch::start(log.handlers());
      if (!watch) return watch.error();
      std::string all;
      for (const auto& call : calls) {
        std::vector<std::string> argv{
            fmt::format("{}/sandbox_calls_{}", CRASHCUT_SANDBOX_PROGRAMS, std::get<1>(GetParam()))};
        for (const std::string& a : call) argv.push_back(a == "FILE" ? file_.path : a);
        log.forget();
        const std::string end = to_text(run(inside, program(argv)));
        all += fmt::format("{}: {}{}\n", call[0], log.seen(), end);
      }
      return all;
    });
  }

  Temporary file_;
};
INSTANTIATE_TEST_SUITE_P(As, Watched,
                         testing::Combine(testing::Values(Who::kRoot, Who::kNobody, Who::kWithoutNamespaces),
                                          testing::Values("dynamic", "static")),
                         [](const auto& info) {
                           return name_of(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

TEST_P(Watched, CallsOf64Bits) {
  EXPECT_EQ(make_calls({{"sync"},
                        {"syncfs", "FILE"},
                        {"syncfs"},
                        {"range", "FILE"},
                        {"map", "FILE"},
                        {"map_validate", "FILE"},
                        {"map_private", "FILE"},
                        {"map_anonymous"}}),
            "sync: sync exit 0 out=0\n"
            "syncfs: syncfs(file) exit 0 out=0\n"
            "syncfs: syncfs(none) exit 0 out=-9\n"
            "range: range(file, 100002000, 200001000, 2) exit 0 out=0\n"
            "map: map(file, 4096) exit 0 out=0\n"
            "map_validate: map(file, 4096) exit 0 out=0\n"
            "map_private: exit 0 out=0\n"
            "map_anonymous: exit 0 out=0\n");
}

TEST_P(Watched, CallsOf32BitsAndX32) {
  if (make_calls({{"range32"}}).find("out=") == std::string::npos) GTEST_SKIP() << "this kernel runs no 32-bit calls";
  EXPECT_EQ(make_calls({{"sync32"},
                        {"syncfs32", "FILE"},
                        {"range32", "FILE"},
                        {"map32", "FILE"},
                        {"oldmap32", "FILE"},
                        {"oldmap_private32", "FILE"},
                        {"mark32", "some text"}}),
            "sync32: sync exit 0 out=0\n"
            "syncfs32: syncfs(file) exit 0 out=0\n"
            "range32: range(file, 100002000, 200001000, 2) exit 0 out=0\n"
            "map32: map(file, 4096) exit 0 out=0\n"
            "oldmap32: map(file, 4096) exit 0 out=0\n"
            "oldmap_private32: exit 0 out=0\n"
            "mark32: mark(some text) exit 0 out=17\n");
  // Seen and answered whether or not the kernel has the x32 table.
  EXPECT_EQ(make_calls({{"sync_x32"}}), "sync_x32: sync exit 0 out=0\n");
}

TEST_P(Watched, CallsOfIoUring) {
  // The kernel may refuse it; that it was asked is seen all the same.
  for (const char* name : {"uring", "uring32"}) {
    EXPECT_EQ(make_calls({{name}}).substr(0, std::string(name).size() + 15), fmt::format("{}: uring exit 0 ", name));
  }
}

TEST_P(Watched, CallsOfCrashcut) {
  const std::string text(5000, 'x');
  EXPECT_EQ(make_calls({{"barrier"},
                        {"mark", "saved!"},
                        {"mark", ""},
                        {"mark", text},
                        {"reached", "yes"},
                        {"reached", "no"},
                        {"assume"}}),
            "barrier: barrier exit 0 out=0\n"
            "mark: mark(saved!) exit 0 out=17\n"
            "mark: mark() exit 0 out=17\n"
            "mark: mark(" +
                text +
                ") exit 0 out=17\n"
                "reached: reached(yes) exit 0 out=1\n"
                "reached: reached(no) exit 0 out=0\n"
                "assume: assume exit 0 out=-4\n");
  // Bad ones: a text that is not there, one that cannot be true, an operation of tomorrow.
  EXPECT_EQ(make_calls({{"mark_nowhere"}, {"mark_long"}, {"unknown"}}),
            "mark_nowhere: exit 0 out=-14\n"
            "mark_long: exit 0 out=-36\n"
            "unknown: exit 0 out=-38\n");
}

std::string calls_program() { return std::string(CRASHCUT_SANDBOX_PROGRAMS) + "/sandbox_calls_dynamic"; }

class Watch : public testing::TestWithParam<Who> {
 protected:
  void SetUp() override { SKIP_IF_IMPOSSIBLE(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(As, Watch, testing::Values(Who::kRoot, Who::kNobody, Who::kWithoutNamespaces),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Watch, LetsTheCallerBeKilledInTheMiddle) {
  const std::string text = tell_from_inside(GetParam(), [](const Inside& inside) {
    std::atomic<int> gone = 0, calls = 0;
    SyscallHandlers handlers;
    handlers.on_barrier = [&](const Caller& caller) {
      ++calls;
      kill(caller.thread(), SIGKILL);
      for (int i = 0; i < 1000 && caller.is_waiting(); ++i) usleep(1000);
      gone += !caller.is_waiting() && !caller.stat_fd(0);
      return Answer::with(0);
    };
    const auto watch = SyscallWatch::start(handlers);
    if (!watch) return watch.error();
    std::string all;
    for (int i = 0; i < 3; ++i) all += to_text(run(inside, program({calls_program(), "barrier"}))) + " ";
    // And by the limit of time, in a handler that takes longer than that.
    (*watch)->set_handlers({});
    handlers = {};
    handlers.on_barrier = [](const Caller&) {
      usleep(300000);
      return Answer::with(0);
    };
    (*watch)->set_handlers(handlers);
    Command slow = program({calls_program(), "barrier"});
    slow.limit = std::chrono::milliseconds(50);
    all += to_text(run(inside, slow)) + " ";
    return all + fmt::format("{} {}", calls.load(), gone.load());
  });
  EXPECT_EQ(text, "signal 9 signal 9 signal 9 time 3 3");
}

TEST_P(Watch, GetsThroughARainOfSignals) {
  const std::string text = tell_from_inside(GetParam(), [](const Inside& inside) {
    std::atomic<int> calls = 0;
    SyscallHandlers handlers;
    handlers.on_barrier = [&](const Caller&) {
      ++calls;
      usleep(20000);
      return Answer::with(5);
    };
    const auto watch = SyscallWatch::start(handlers);
    if (!watch) return watch.error();
    const std::string end = to_text(run(inside, program({calls_program(), "rain"})));
    return fmt::format("{} calls {}", end, calls.load());
  });
  EXPECT_EQ(text, "exit 0 out=5 calls 1");
}

TEST_P(Watch, LetsCallsPassWhenItIsGoneOrItsHandlerThrows) {
  const std::string text = tell_from_inside(GetParam(), [](const Inside& inside) {
    Temporary file;
    SyscallHandlers handlers;
    handlers.on_shared_mapping = [](const Caller&, const SharedMapping&) -> Answer { throw 1; };
    auto watch = SyscallWatch::start(handlers);
    if (!watch) return watch.error();
    std::string all = to_text(run(inside, program({calls_program(), "map", file.path}))) + ", ";
    watch->reset();
    for (const char* name : {"map", "syncfs", "barrier"})
      all += to_text(run(inside, program({calls_program(), name, file.path}))) + ", ";
    const auto second = SyscallWatch::start({});
    return all + (second ? "second" : second.error());
  });
  EXPECT_EQ(text,
            "exit 0 out=0, exit 0 out=0, exit 0 out=0, exit 0 out=-38, "
            "cannot watch system calls: a seccomp listener is installed already, by crashcut or by what runs it");
}

TEST_P(Watch, SeesCallsOfDaemonsAndThreadsOfShells) {
  const std::string text = tell_from_inside(GetParam(), [](const Inside& inside) {
    std::atomic<int> calls = 0;
    SyscallHandlers handlers;
    handlers.on_mark = [&](const Caller&, std::string_view) { return Answer::with(++calls); };
    const auto watch = SyscallWatch::start(handlers);
    if (!watch) return watch.error();
    run(inside, shell(fmt::format("for i in 1 2 3 4; do (setsid {} mark x >/dev/null &) ; done; {} mark y; sleep 0.3",
                                  calls_program(), calls_program())));
    return fmt::format("calls {}", calls.load());
  });
  EXPECT_EQ(text, "calls 5");
}

TEST(WatchSpeed, Latency) {
  const Who who = geteuid() == 0 ? Who::kRoot : Who::kNobody;
  SKIP_IF_IMPOSSIBLE(who);
  const std::string text = tell_from_inside(who, [](const Inside& inside) {
    const auto ask = [&](const char* name, std::optional<int> core) {
      Command command = program({calls_program(), name});
      command.core = core;
      return run(inside, command).out;
    };
    const std::string bare = ask("time_unwatched", {});
    SyscallHandlers handlers;
    handlers.on_barrier = [](const Caller&) {
      static const bool is_pinned = [] {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        return sched_setaffinity(0, sizeof set, &set) == 0;  // the answering thread, where the pinned caller is
      }();
      return Answer::with(is_pinned ? 0 : 1);
    };
    const auto watch = SyscallWatch::start(handlers);
    if (!watch) return watch.error();
    const std::string one = ask("time_barriers", 0), two = ask("time_barriers", 1);
    return fmt::format(
        "unwatched call {} ns without the filter, {} ns with it; a watched call {} ns on one core, {} ns across two",
        bare, ask("time_unwatched", {}), one, two);
  });
  printf("%s\n", text.c_str());
  EXPECT_NE(text.find("watched call"), text.npos) << text;
}

}  // namespace
}  // namespace crashcut::sandbox
