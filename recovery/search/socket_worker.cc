#include "recovery/search/socket_worker.h"

#include <chrono>
#include <random>
#include <unordered_set>

#include "persist/hash.h"
#include "recovery/result/json.h"
#include "recovery/search/explorer.h"
#include "recovery/search/following.h"
#include "recovery/search/sampling.h"

// The messages, all JSON objects. Paths, parts and events are numbers as bytes (channel.h).
//   to a worker    {"do": "explore", "question": N, "part": [..]}
//                  {"do": "sample", "question": N, "strategy": N, "seed": N, "count": N}
//                  {"do": "tell", "question": N, "path": [..], "is_brief": B}
//                  {"do": "cut", "question": N, "events": [..], "drop": N}
//   from a worker  {"tally": .., "done": N, "estimate": [low, likely, high]}  now and then; of its unit, the last two
//                  {"given": [[..]], "each": [..]}                            work given away, and how large each part
//                  is
//                  {"ready": true, ..}  wants more; with what is "left" of the unit, and whether that "is_broken"; or
//                                       with what "tell" and "cut" gave
namespace crashcut::search {
namespace {

using Clock = std::chrono::steady_clock;
using persist::Path;

constexpr std::chrono::milliseconds kTallyEvery{100};
// A recovery that runs the user's code is run again in the state that it just saw: the first time, and now and then.
constexpr std::uint64_t kRepeatEvery = 64;

Json numbers(const persist::Estimate& estimate) { return {estimate.low, estimate.likely, estimate.high}; }
persist::Estimate estimate_from(const Json& json) { return {json.at(0), json.at(1), json.at(2)}; }

Json to_json(const Task& task) {
  switch (task.kind) {
    case Task::Kind::kExplore:
      return {{"do", "explore"}, {"question", task.question}, {"part", to_binary(task.units.front().part)}};
    case Task::Kind::kSample:
      return {{"do", "sample"},
              {"question", task.question},
              {"strategy", task.strategy},
              {"seed", task.seed},
              {"count", task.count}};
    case Task::Kind::kTell:
      return {{"do", "tell"}, {"question", task.question}, {"path", to_binary(task.path)}, {"is_brief", task.is_brief}};
    case Task::Kind::kRunCut:
      return {{"do", "cut"}, {"question", task.question}, {"events", to_binary(task.events)}, {"drop", task.drop}};
  }
  return {};
}

Message message_from(const Json& json) {
  Message message;
  if (json.contains("tally")) message.tally = tally_from(json.at("tally"));
  if (json.contains("estimate")) {
    message.done = json.at("done");
    message.size = estimate_from(json.at("estimate"));
  }
  if (json.contains("given")) {
    for (const Json& prefix : json.at("given")) message.given_away.push_back(numbers_from(prefix));
    message.given_size = estimate_from(json.at("each"));
  }
  message.is_ready = json.contains("ready");
  if (json.contains("left")) {
    for (const Json& part : json.at("left")) message.left.push_back(numbers_from(part));
    message.is_broken = json.at("is_broken");
  }
  if (json.contains("run")) message.narrated_run = NarratedRun{run_from(json.at("run")), {}};
  if (json.contains("story")) message.narrated_run->story = result::story_from_json(json.at("story"));
  return message;
}

Json list_of(const std::vector<std::vector<std::uint32_t>>& lists) {
  Json list = Json::array();
  for (const auto& numbers : lists) list.push_back(to_binary(numbers));
  return list;
}

std::uint64_t digest_of(std::size_t question, const Path& path) {
  std::uint64_t hash = persist::mix(persist::kHashStart, question);
  for (const std::uint32_t answer : path) hash = persist::mix(hash, answer);
  return hash;
}

class Server {
 public:
  Server(int socket, const WorkerSetup& setup, const persist::Recording& recording, Recoverer& recoverer)
      : socket_(socket),
        shared_(setup.shared),
        recording_(recording),
        recoverer_(recoverer),
        explorer_({recording, recoverer, setup.depth, setup.seed,
                   [&shared = setup.shared] { return shared.is_enough(); },
                   [this](const Run& run, std::span<const Crash> crashes) { on_explored(run, crashes); }}) {}

  void serve() {
    while (auto message = receive(socket_)) {
      Json answer = handle(*message);
      send_tally();
      answer["ready"] = true;
      if (!send(socket_, answer)) return;
    }
  }

 private:
  Json handle(const Json& message) {
    const std::string what = message.at("do");
    question_ = message.at("question");
    if (what == "explore") {
      is_exploring_ = true;
      const std::vector<persist::Part> left = explorer_.explore(question_, numbers_from(message.at("part")));
      is_exploring_ = false;
      return {{"left", list_of(left)},
              {"is_broken", explorer_.is_broken()},
              {"done", explorer_.done()},
              {"estimate", numbers(explorer_.estimate())}};
    }
    if (what == "sample") {
      sample(message);
    } else if (what == "tell") {
      const NarratedRun told = explorer_.tell(question_, numbers_from(message.at("path")), message.at("is_brief"));
      return {{"run", search::to_json(told.run)}, {"story", result::to_json(told.story)}};
    } else if (what == "cut") {
      return {{"run",
               search::to_json(explorer_.run_cut(question_, numbers_from(message.at("events")), message.at("drop")))}};
    }
    return Json::object();
  }

  void on_explored(const Run& run, std::span<const Crash> crashes) {
    count(run, crashes);
    if (shared_.idle_workers > 0) give_work_away();
    check_repeats(run);
  }

  void sample(const Json& message) {
    const auto strategy = static_cast<Strategy>(message.at("strategy").get<int>());
    std::mt19937_64 random(message.at("seed").get<std::uint64_t>());
    const std::uint64_t count_max = message.at("count");
    for (std::uint64_t i = 0; i < count_max && !shared_.is_enough(); ++i) {
      Sampler sampler(recording_, strategy, i, random);
      const Run run = explorer_.sample(question_, sampler);
      if (run.ending.kind == Ending::Kind::kStopped) break;
      if (!seen_.insert(digest_of(question_, run.path)).second) continue;
      count(run, explorer_.sampled());
      check_repeats(run);
      if (run.ending.kind == Ending::Kind::kFailed) break;
    }
  }

  void count(const Run& run, std::span<const Crash> crashes) {
    tally_.add(question_, run);
    ++shared_.recoveries;
    if (!tally_.failure) {
      if (auto kept = recoverer_.on_counted(run, crashes); !kept) {
        tally_.failure = kept.error();
        shared_.stop = true;
      }
    }
    if (Clock::now() - last_tally_ > kTallyEvery) send_tally();
  }

  void check_repeats(const Run& run) {
    if (!recoverer_.runs_code(question_) || run.ending.is_slow || run.diverged || run.layer != 1 ||
        run.ending.kind == Ending::Kind::kFailed || shared_.is_enough() || run_count_++ % kRepeatEvery != 0)
      return;
    Following chooser(run.path);
    const Run again = explorer_.sample(question_, chooser);
    if (again.ending.kind == Ending::Kind::kStopped) return;
    const bool is_same = again.ending.kind == run.ending.kind && key_of(0, again.ending) == key_of(0, run.ending) &&
                         again.ending.output == run.ending.output && again.path == run.path;
    if (!is_same) tally_.not_deterministic = "run twice in one state, it gave two different answers";
  }

  void give_work_away() {
    const Given given = explorer_.give_away();
    if (given.prefixes.empty()) return;
    send(socket_, {{"given", list_of(given.prefixes)}, {"each", numbers(given.each)}});
  }

  void send_tally() {
    last_tally_ = Clock::now();
    if (tally_.empty()) return;
    Json message = {{"tally", search::to_json(tally_)}};
    if (is_exploring_) {
      message["done"] = explorer_.done();
      message["estimate"] = numbers(explorer_.estimate());
    }
    send(socket_, message);
    tally_ = Tally();
  }

  int socket_;
  Shared& shared_;
  const persist::Recording& recording_;
  Recoverer& recoverer_;
  Explorer explorer_;
  std::size_t question_ = 0;
  bool is_exploring_ = false;
  Tally tally_;
  Clock::time_point last_tally_ = Clock::now();
  std::uint64_t run_count_ = 0;
  std::unordered_set<std::uint64_t> seen_;  // digests of what was sampled: a path may have a million answers
};

}  // namespace

void SocketWorker::begin(const Task& task) { send(socket(), to_json(task)); }

tl::expected<Message, Failure> SocketWorker::receive(bool is_readable) {
  if (!is_readable) return Message{};
  const auto message = search::receive(socket());
  if (!message) return tl::unexpected(result::tools_failure("A worker ended before its time."));
  return message_from(*message);
}

void serve(int socket, const WorkerSetup& setup, const persist::Recording& recording, Recoverer& recoverer) {
  Server(socket, setup, recording, recoverer).serve();
}

void report_failure(int socket, const Failure& failure) {
  Tally tally;
  tally.failure = failure;
  send(socket, {{"tally", search::to_json(tally)}});
}

}  // namespace crashcut::search
