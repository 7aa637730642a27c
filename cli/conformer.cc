#include "cli/conformer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/filesystem.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>

#include "cli/interrupts.h"
#include "recovery/sandbox/fd.h"
#include "recovery/search/channel.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Bound;
using result::Failure;
using search::Json;

// What was told to stop is killed after this.
constexpr std::chrono::milliseconds kPatience{1000};

// ---- messages -------------------------------------------------------------------------------------------------------

Json to_json(const Compared& compared) {
  Json outside = Json::array(), not_shown = Json::array();
  for (const OutsideState& one : compared.outside)
    outside.push_back({one.state, one.how, one.images, one.file, one.marks, one.replays});
  for (const NotShown& one : compared.not_shown) not_shown.push_back({one.state, static_cast<int>(one.rule)});
  return {{"is_skipped", compared.is_skipped},
          {"images", compared.images},
          {"chosen", compared.chosen},
          {"seen", compared.seen},
          {"allowed", compared.allowed},
          {"damaged", compared.damaged},
          {"outside", outside},
          {"states", compared.allowed_states},
          {"not_shown", not_shown}};
}

Compared compared_from(const Json& json) {
  Compared compared{.is_skipped = json.at("is_skipped"),
                    .images = json.at("images"),
                    .chosen = json.at("chosen"),
                    .seen = json.at("seen"),
                    .allowed = json.at("allowed"),
                    .damaged = json.at("damaged")};
  for (const Json& one : json.at("outside"))
    compared.outside.push_back(
        {one.at(0), one.at(1), one.at(2), one.at(3), one.at(4).get<std::vector<std::string>>(), one.at(5)});
  compared.allowed_states = json.at("states").get<std::vector<std::string>>();
  for (const Json& one : json.at("not_shown"))
    compared.not_shown.push_back({one.at(0), static_cast<SlackRule>(one.at(1).get<int>())});
  return compared;
}

Json failure_of(const Failure& failure) {
  return {{"failure", failure.sentence}, {"is_users", failure.blame == result::Blame::kUser}};
}

// ---- the processes --------------------------------------------------------------------------------------------------

// In memory that all processes share.
struct Shared {
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> next = 0;  // of ConformShare::left
};

class SharedMemory {
 public:
  SharedMemory() : memory_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    shared_ = new (memory_) Shared();
  }
  ~SharedMemory() { munmap(memory_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  Shared& operator*() const { return *shared_; }

 private:
  void* memory_;
  Shared* shared_;
};

// Takes one program after the other, until none is left.
void work(int socket, const ConformSetup& setup, const ConformShare& share, Shared& shared,
          const std::string& directory) {
  Comparer comparer(setup, directory, [&] { return shared.stop.load() || is_interrupted(); });
  auto started = comparer.start();
  if (started) started = comparer.make_disk();
  if (!started) {
    search::send(socket, failure_of(started.error()));
    return;
  }
  for (std::size_t at; !shared.stop && (at = shared.next++) < share.left.size();) {
    const auto compared = comparer.compare(share.cases[share.left[at]]);
    if (!compared) {
      search::send(socket, failure_of(compared.error()));
      return;
    }
    if (compared->is_stopped) return;
    Json message = to_json(*compared);
    message["case"] = share.left[at];
    if (!search::send(socket, message)) return;
  }
}

struct Worker {
  pid_t process;
  sandbox::Fd socket;
};

tl::expected<Worker, Failure> start_worker(const std::function<void(int socket)>& function) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return result::tool_failed(fmt::format("Cannot make a socket: {}.", std::strerror(errno)));
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) return result::tool_failed(fmt::format("Cannot start a process: {}.", std::strerror(errno)));
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(sockets[0]);
    if (getppid() == parent) function(sockets[1]);
    _exit(0);
  }
  close(sockets[1]);
  return Worker{process, sandbox::Fd(sockets[0])};
}

// Takes the answers of all workers until they have ended, one has failed, or the time is up.
class Collector {
 public:
  Collector(const ConformShare& share, Shared& shared,
            const std::function<void(std::size_t, const Compared&)>& on_compared, const std::function<void()>& on_wait)
      : share_(share), shared_(shared), on_compared_(on_compared), on_wait_(on_wait) {}

  tl::expected<Bound, Failure> collect(const std::vector<Worker>& workers) {
    constexpr int kLookAgain_ms = 50;
    std::vector<pollfd> waiting;
    for (const Worker& worker : workers) waiting.push_back({worker.socket.get(), POLLIN, 0});
    while (std::any_of(waiting.begin(), waiting.end(), [](const pollfd& one) { return one.fd >= 0; })) {
      const bool is_ready = poll(waiting.data(), waiting.size(), kLookAgain_ms) > 0;
      on_wait_();
      if (is_patience_over()) return bound_;
      for (pollfd& one : waiting) {
        if (!is_ready || one.fd < 0 || one.revents == 0) continue;
        const auto answer = search::receive(one.fd);
        if (!answer) {
          one.fd = -1;
        } else if (auto ok = take(*answer); !ok) {
          return tl::unexpected(ok.error());
        }
      }
    }
    if (done_ == share_.left.size()) return Bound::kNone;
    if (bound_ == Bound::kNone && is_interrupted()) bound_ = Bound::kInterrupt;
    if (bound_ == Bound::kNone) return result::tool_failed("A process that compared programs was ended from outside.");
    return bound_;
  }

 private:
  // Tells the workers to stop as soon as it is time.
  bool is_patience_over() {
    if (bound_ != Bound::kNone) return Clock::now() - told_ >= kPatience;
    bound_ = is_interrupted() ? Bound::kInterrupt : share_.deadline.hit();
    if (bound_ == Bound::kNone) return false;
    told_ = Clock::now();
    shared_.stop = true;
    return false;
  }

  tl::expected<void, Failure> take(const Json& answer) {
    if (answer.contains("failure"))
      return tl::unexpected(Failure{answer.at("is_users").get<bool>() ? result::Blame::kUser : result::Blame::kTool,
                                    answer.at("failure")});
    ++done_;
    on_compared_(answer.at("case").get<std::size_t>(), compared_from(answer));
    return {};
  }

  using Clock = std::chrono::steady_clock;
  const ConformShare& share_;
  Shared& shared_;
  const std::function<void(std::size_t, const Compared&)>& on_compared_;
  const std::function<void()>& on_wait_;
  std::size_t done_ = 0;
  Bound bound_ = Bound::kNone;
  Clock::time_point told_;
};

}  // namespace

tl::expected<Bound, Failure> compare_all(const ConformSetup& setup, const ConformShare& share,
                                         const std::function<void(std::size_t index, const Compared&)>& on_compared,
                                         const std::function<void()>& on_wait) {
  const SharedMemory shared;
  std::vector<Worker> workers;
  tl::expected<Bound, Failure> ended = Bound::kNone;
  for (std::size_t i = 0; ended && i < std::min<std::size_t>(share.jobs, share.left.size()); ++i) {
    const std::string own = fmt::format("{}/{}", share.directory, i);
    boost::system::error_code error;
    fs::create_directories(own, error);
    auto worker = start_worker([&](int socket) { work(socket, setup, share, *shared, own); });
    if (worker) {
      workers.push_back(std::move(*worker));
    } else {
      ended = tl::unexpected(worker.error());
    }
  }
  if (ended) ended = Collector(share, *shared, on_compared, on_wait).collect(workers);
  for (const Worker& worker : workers) {
    if (!ended || *ended != Bound::kNone) kill(worker.process, SIGKILL);
    waitpid(worker.process, nullptr, 0);
  }
  return ended;
}

}  // namespace crashcut::cli
