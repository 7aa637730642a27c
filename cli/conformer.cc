#include "cli/conformer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <csignal>
#include <cstring>
#include <set>
#include <sstream>

#include "cli/interrupts.h"
#include "cli/kernel_check.h"
#include "recovery/kernel/record.h"
#include "recovery/run.h"
#include "recovery/sandbox/fd.h"
#include "recovery/search/channel.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using fusefs::ModelOptions;
using result::Failure;
using result::wrong_use;
using search::Json;
using States = std::set<std::string>;

constexpr std::uint64_t kRecoveriesMost = 200'000;  // of the model, a program

// Mount options for the model: data=MODE, and the others.
tl::expected<ModelOptions, Failure> model_of(const std::string& options) {
  ModelOptions model;
  model.sector_bytes = model.block_bytes;  // the kernel's images tear in blocks
  std::istringstream words(options);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.starts_with("data=")) {
      const auto mode = fusefs::parse_data_mode(word.substr(5));
      if (!mode) return wrong_use(mode.error());
      model.data = *mode;
    } else if (auto ok = fusefs::parse_mount_options(word, model); !ok) {
      return wrong_use(ok.error());
    }
  }
  return model;
}

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// One process' share.
class Conformer {
 public:
  Conformer(const ConformBounds& bounds, std::string options, std::string directory)
      : bounds_(bounds), options_(std::move(options)), directory_(std::move(directory)) {}

  tl::expected<void, Failure> start() {
    const auto model = model_of(options_);
    if (!model) return tl::unexpected(model.error());
    model_ = *model;
    const auto runtime = find_runtime();
    if (!runtime) return tl::unexpected(runtime.error());
    plan_.runtime = *runtime;
    plan_.jobs = 1;
    plan_.wants_all = true;
    plan_.max_recoveries = kRecoveriesMost;
    plan_.main_stdout_fd = plan_.main_stderr_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    DeviceOptions device;
    device.runs = bounds_.runs;
    device.subsets = bounds_.subsets;
    const auto disk = disk_plan_of(MountedOptions{}, device, name(), false);
    if (!disk) return tl::unexpected(disk.error());
    disk_ = *disk;
    program_.directory = directory_;
    const auto made = kernel::make_base(program_, disk_);
    if (!made) return tl::unexpected(made.error());
    return {};
  }

  // {"skipped": true}, or the counts and the states that only one side has.
  tl::expected<Json, Failure> compare(const ConformCase& one) {
    const auto allowed = model_states(model_, one);
    if (!allowed) return tl::unexpected(allowed.error());
    if (!*allowed) return Json{{"skipped", true}};
    program_.program.words = {one.executable};
    program_.program.words.insert(program_.program.words.end(), one.kernel_arguments.begin(),
                                  one.kernel_arguments.end());
    const auto found = kernel::find_states(program_, disk_, one.looking, bounds_.seed);
    if (!found) return tl::unexpected(Failure{found.error().blame, one.text + ": " + found.error().sentence});
    Json answer{{"images", found->images},       {"chosen", found->chosen},  {"seen", found->states.size()},
                {"allowed", (*allowed)->size()}, {"outside", Json::array()}, {"slack", Json::array()},
                {"states", Json::array()}};
    for (const auto& [state, how] : found->states) {
      if (!(*allowed)->contains(state)) answer["outside"].push_back({state, how});
    }
    if (!answer["outside"].empty()) {
      for (const std::string& state : **allowed) answer["states"].push_back(state);
    }
    for (const std::string& state : **allowed) {
      if (found->states.contains(state)) continue;
      const auto rule = rule_of(state, one);
      if (!rule) return tl::unexpected(rule.error());
      answer["slack"].push_back({state, static_cast<int>(*rule)});
    }
    return answer;
  }

 private:
  std::string name() const { return options_.empty() ? "kernel:ext4" : "kernel:ext4:" + options_; }

  // What the model allows; nothing where the search did not end, or where a program of others fails by itself: a litmus
  // may need blocks of another size.
  tl::expected<std::optional<States>, Failure> model_states(const ModelOptions& model, const ConformCase& one) {
    recovery::Plan plan = plan_;
    plan.model = model;
    plan.executable = one.executable;
    plan.arguments = one.model_arguments;
    const auto executed = recovery::execute(plan);
    if (!executed && executed.error().blame == result::Blame::kUser && one.looking.may_fail) return std::nullopt;
    if (!executed) return tl::unexpected(Failure{executed.error().blame, one.text + ": " + executed.error().sentence});
    const search::Hooks hooks{[](const result::Progress&) {}, is_interrupted};
    const auto checked = recovery::check(*executed, plan, recovery::head_of("conform", plan, {one.executable}), hooks);
    if (!checked) return tl::unexpected(checked.error());
    if (checked->result.bound != result::Bound::kNone || checked->result.outcomes_cut) return std::nullopt;
    States states;
    for (const result::Outcome& outcome : checked->result.outcomes) states.insert(without_newline(outcome.output));
    return states;
  }

  // The weakest feature without which the model would not allow the state.
  tl::expected<SlackRule, Failure> rule_of(const std::string& state, const ConformCase& one) {
    struct Without {
      SlackRule rule;
      ModelOptions model;
    };
    std::vector<Without> variants;
    ModelOptions model = model_;
    model.data = fusefs::DataMode::kOrdered;
    if (model_.data == fusefs::DataMode::kWriteback) variants.push_back({SlackRule::kUnorderedData, model});
    model = model_;
    model.delalloc = false;
    if (model_.delalloc) variants.push_back({SlackRule::kDelayedAllocation, model});
    model = model_;
    model.dioread_nolock = false;
    if (model_.dioread_nolock) variants.push_back({SlackRule::kUnwrittenBlocks, model});
    model = model_;
    model.data = fusefs::DataMode::kJournal;
    variants.push_back({SlackRule::kPageCache, model});
    if (model_.data == fusefs::DataMode::kJournal) variants.clear();
    for (const Without& without : variants) {
      const auto key = fusefs::describe(without.model);
      if (one.text != variants_of_) variant_states_.clear();
      variants_of_ = one.text;
      auto known = variant_states_.find(key);
      if (known == variant_states_.end()) {
        const auto states = model_states(without.model, one);
        if (!states) return tl::unexpected(states.error());
        known = variant_states_.emplace(key, states->value_or(States{})).first;
      }
      if (!known->second.contains(state)) return without.rule;
    }
    return SlackRule::kJournal;
  }

  const ConformBounds& bounds_;
  std::string options_, directory_;
  ModelOptions model_;
  recovery::Plan plan_;
  kernel::DiskPlan disk_;
  mounted::RecordPlan program_;
  std::string variants_of_;  // of which program the states below are
  std::map<std::string, States> variant_states_;
};

Json failure_of(const Failure& failure) {
  return {{"failure", failure.sentence}, {"is_users", failure.blame == result::Blame::kUser}};
}

// Each process takes every `jobs`th program from `first` on.
void work(int socket, const std::string& options, const std::vector<ConformCase>& cases, const ConformBounds& bounds,
          std::size_t first, const std::string& directory) {
  Conformer conformer(bounds, options, directory);
  if (auto ok = conformer.start(); !ok) {
    search::send(socket, failure_of(ok.error()));
    return;
  }
  for (std::size_t i = first; i < cases.size() && !is_interrupted(); i += bounds.jobs) {
    auto answer = conformer.compare(cases[i]);
    if (!answer) {
      search::send(socket, failure_of(answer.error()));
      return;
    }
    if (answer->contains("skipped") && is_interrupted()) return;  // the model's search did not come to its end
    (*answer)["case"] = i;
    if (!search::send(socket, *answer)) return;
  }
}

void print_findings(const std::string& options, const ConformCase& one, const Json& answer, bool shows_slack) {
  const std::string where = options.empty() ? "kernel:ext4" : "kernel:ext4:" + options;
  for (const Json& outside : answer.at("outside")) {
    fmt::print("outside ({}): {}\n  the kernel left: {}\n  {}\n", where, one.text, outside.at(0).get<std::string>(),
               outside.at(1).get<std::string>());
    for (const Json& state : answer.at("states")) fmt::print("  allowed: {}\n", state.get<std::string>());
  }
  if (!shows_slack) return;
  for (const Json& slack : answer.at("slack")) {
    fmt::print("not shown ({}): {}\n  the model allows: {}\n  by the rule: {}\n", where, one.text,
               slack.at(0).get<std::string>(), name_of(static_cast<SlackRule>(slack.at(1).get<int>())));
  }
}

// The counts of one program, added to the row of its set.
void add_to(std::vector<ConformRow>& rows, const std::string& options, const ConformCase& one, const Json& answer) {
  auto row = std::find_if(rows.begin(), rows.end(), [&](const ConformRow& known) { return known.set == one.set; });
  if (row == rows.end()) row = rows.insert(rows.end(), ConformRow{options, one.set});
  if (answer.contains("skipped")) {
    ++row->skipped;
    return;
  }
  ++row->programs;
  row->images += answer.at("images").get<std::uint64_t>();
  row->chosen += answer.at("chosen").get<std::uint64_t>();
  row->seen += answer.at("seen").get<std::uint64_t>();
  row->allowed += answer.at("allowed").get<std::uint64_t>();
  row->outside += answer.at("outside").size();
  for (const Json& slack : answer.at("slack")) ++row->slack[static_cast<SlackRule>(slack.at(1).get<int>())];
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

// Takes the answers of all workers until they have ended, or one has failed.
class Collector {
 public:
  Collector(const std::string& options, const std::vector<ConformCase>& cases, bool shows_slack)
      : options_(options), cases_(cases), shows_slack_(shows_slack) {}

  tl::expected<void, Failure> collect(const std::vector<Worker>& workers) {
    constexpr int kLookAgain_ms = 200;
    std::vector<pollfd> waiting;
    for (const Worker& worker : workers) waiting.push_back({worker.socket.get(), POLLIN, 0});
    bool is_told = false;
    while (std::any_of(waiting.begin(), waiting.end(), [](const pollfd& one) { return one.fd >= 0; })) {
      const bool is_ready = poll(waiting.data(), waiting.size(), kLookAgain_ms) > 0;
      if (is_interrupted() && !is_told) {
        for (const Worker& worker : workers) kill(worker.process, SIGINT);
        is_told = true;
      }
      for (pollfd& one : waiting) {
        if (!is_ready || one.fd < 0 || one.revents == 0) continue;
        const auto answer = search::receive(one.fd);
        if (!answer) {
          one.fd = -1;
        } else if (auto ok = take(*answer); !ok) {
          return ok;
        }
      }
    }
    if (done_ < cases_.size() && !is_interrupted())
      return result::tool_failed("A process that compared programs was ended from outside.");
    return {};
  }
  std::vector<ConformRow> rows;

 private:
  tl::expected<void, Failure> take(const Json& answer) {
    if (answer.contains("failure"))
      return tl::unexpected(Failure{answer.at("is_users").get<bool>() ? result::Blame::kUser : result::Blame::kTool,
                                    answer.at("failure")});
    ++done_;
    const ConformCase& one = cases_[answer.at("case").get<std::size_t>()];
    if (!answer.contains("skipped")) print_findings(options_, one, answer, shows_slack_);
    add_to(rows, options_, one, answer);
    return {};
  }

  const std::string& options_;
  const std::vector<ConformCase>& cases_;
  bool shows_slack_;
  std::size_t done_ = 0;
};

}  // namespace

tl::expected<std::vector<ConformRow>, Failure> conform_with(const std::string& options,
                                                            const std::vector<ConformCase>& cases,
                                                            const ConformBounds& bounds, const std::string& directory) {
  std::vector<Worker> workers;
  Collector collector(options, cases, bounds.shows_slack);
  tl::expected<void, Failure> ok;
  for (std::size_t first = 0; ok && first < std::min<std::size_t>(bounds.jobs, cases.size()); ++first) {
    const std::string own = fmt::format("{}/{}", directory, first);
    boost::system::error_code error;
    fs::create_directories(own, error);
    auto worker = start_worker([&, first](int socket) { work(socket, options, cases, bounds, first, own); });
    if (worker) {
      workers.push_back(std::move(*worker));
    } else {
      ok = tl::unexpected(worker.error());
    }
  }
  if (ok) ok = collector.collect(workers);
  for (const Worker& worker : workers) {
    if (!ok) kill(worker.process, SIGKILL);
    waitpid(worker.process, nullptr, 0);
  }
  if (!ok) return tl::unexpected(ok.error());
  return collector.rows;
}

}  // namespace crashcut::cli
