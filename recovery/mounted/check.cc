#include "recovery/mounted/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <set>

#include "fusefs/trace_replay.h"
#include "recovery/mounted/command_runner.h"
#include "recovery/mounted/explain.h"

namespace crashcut::mounted {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kMinimiseLimit{10};

Failure failure_of(const fusefs::ReplayError& error) {
  return Failure{error.is_limit ? result::Blame::kTool : result::Blame::kUser, error.sentence};
}

// A trace and what a model makes of it.
struct Loaded {
  fusefs::TraceReader trace;
  fusefs::Replayed replayed;
  std::uint64_t trace_sum;
  Histories histories{};

  Loaded(fusefs::TraceReader read, fusefs::Replayed done, std::uint64_t sum)
      : trace(std::move(read)), replayed(std::move(done)), trace_sum(sum) {}

  const fusefs::Recording& recording() const { return replayed.recorder->recording(); }
  std::string program() const {
    const auto& command = trace.header().command;
    return command.empty() ? "the program" : boost::filesystem::path(command[0]).filename().string();
  }
};

// Without histories.
tl::expected<Loaded, Failure> load(const std::string& directory, const fusefs::ModelOptions& model) {
  auto trace = fusefs::TraceReader::open(trace_of(directory));
  if (!trace) return tl::unexpected(result::users_failure(trace.error()));
  auto replayed = fusefs::replay(*trace, model);
  if (!replayed) return tl::unexpected(failure_of(replayed.error()));
  return tl::expected<Loaded, Failure>(tl::in_place, std::move(*trace), std::move(*replayed), sum_of_trace(directory));
}

// The versions of the files that are asked about.
tl::expected<Histories, Failure> read_histories(const Loaded& loaded, const std::vector<Question>& questions) {
  std::set<std::string> paths;
  bool keeps_bytes = false;
  for (const Question& question : questions) {
    if (const auto* file = std::get_if<FileQuestion>(&question)) {
      paths.insert(file->path);
      keeps_bytes = keeps_bytes || compares_bytes(*file);
    }
  }
  auto histories = histories_of(loaded.trace, loaded.recording().options, paths, keeps_bytes);
  if (!histories) return tl::unexpected(result::users_failure(histories.error()));
  return std::move(*histories);
}

// Where a path leads to by symbolic links, in a tree; each name on the way, the path first. The error is a sentence.
using Tree = std::map<std::string, FileVersion>;
tl::expected<std::vector<std::string>, std::string> follow_links(const Tree& tree, const std::string& path) {
  constexpr std::size_t kLinksMost = 40;
  namespace fs = boost::filesystem;
  std::vector<std::string> names{path};
  for (auto found = tree.find(path); found != tree.end() && S_ISLNK(found->second.type);
       found = tree.find(names.back())) {
    const fs::path target = fs::path(found->second.content);
    const fs::path to = (fs::path(names.back()).parent_path() / target).lexically_normal();
    const bool is_outside = target.is_absolute() || *to.begin() == "..";
    if (is_outside || !tree.contains(to.string()))
      return tl::unexpected(fmt::format("it is a link to {}, which is not on the disk", target.string()));
    if (names.size() == kLinksMost) return tl::unexpected(std::string("it is a link that leads to itself"));
    names.push_back(to.string());
  }
  return names;
}

tl::expected<std::vector<Question>, Failure> questions_of(const CheckPlan& plan, const KnownPaths& known) {
  std::vector<Question> questions;
  const bool asks_nothing = plan.files.empty() && !plan.tree && plan.expects.empty() && plan.checker.empty();
  const bool asks_whole = !plan.files.empty() || plan.tree || asks_nothing;
  const bool asks_all = plan.files.empty() && (plan.tree || !plan.expects.empty() || asks_nothing);
  std::set<std::string> files;
  for (const std::string& path : plan.files) {
    if (!known.all.contains(path)) {
      return tl::unexpected(result::users_failure(
          fmt::format("--file {}: there was no such file, neither at the start nor at the end. Paths are "
                      "relative to the directory in which the program starts. {}",
                      path, kHowFilesCome)));
    }
    for (const Tree* tree : {&known.start, &known.end}) {
      const auto names = follow_links(*tree, path);
      if (!names) return tl::unexpected(result::users_failure(fmt::format("--file {}: {}.", path, names.error())));
      files.insert(names->begin(), names->end());
    }
  }
  for (const std::string& path : asks_all ? known.all : files) {
    questions.push_back(FileQuestion{path, plan.backups, asks_whole, plan.durable, plan.expects});
  }
  if (!plan.checker.empty()) questions.push_back(CommandQuestion{});
  return questions;
}

// A program that was stopped may not have got as far as any version of a file: then there is nothing to ask of it.
tl::expected<void, Failure> drop_unfinished(const CheckPlan& plan, const Histories& histories,
                                            std::vector<Question>& questions) {
  if (!histories.was_stopped) return {};
  const auto is_unfinished = [&](const Question& question) {
    const auto* file = std::get_if<FileQuestion>(&question);
    if (!file) return false;
    const std::vector<FileState>& states = histories.files.at(file->path).states();
    return std::none_of(states.begin(), states.end(), [](const FileState& state) { return state.exists(); });
  };
  std::erase_if(questions, is_unfinished);
  if (!questions.empty() || histories.files.empty()) return {};
  return tl::unexpected(result::users_failure(
      fmt::format("The program was stopped (--program-limit) before it had finished any version of {}, so there "
                  "is nothing to check.",
                  plan.files.empty() ? "a file" : plan.files.front())));
}

// Drops one event after the other, newest first, for as long as the violation stays the same.
tl::expected<bool, Failure> shrink(Pool& pool, const ViolationKey& key, Told& told) {
  const auto deadline = Clock::now() + kMinimiseLimit;
  std::set<std::uint32_t> durable;
  for (const result::Operation& operation : told.story.crashes.front().operations) {
    for (const result::Event& event : operation.events) {
      if (event.durable) durable.insert(event.id);
    }
  }
  std::vector<std::uint32_t> events = told.story.crashes.front().persisted;
  for (std::size_t left = events.size(); left > 0;) {
    const std::uint32_t event = events[--left];
    if (durable.contains(event)) continue;
    if (Clock::now() >= deadline) return false;
    const auto run = pool.run_cut(key.question, events, event);
    if (!run) return tl::unexpected(run.error());
    if (run->result.answer.finding != key.finding || run->events_in >= events.size()) continue;
    auto smaller = pool.tell(key.question, run->path);
    if (!smaller) return tl::unexpected(smaller.error());
    if (smaller->run.diverged || smaller->run.result.answer.finding != key.finding) continue;
    told = std::move(*smaller);
    events = told.story.crashes.front().persisted;
    left = events.size();
  }
  return true;
}

// What is worst comes first: what cannot be found any more, then what the checker refuses, then promises.
int rank(Finding finding) {
  switch (finding) {
    case Finding::kLost:
      return 0;
    case Finding::kUnexpected:
      return 1;
    case Finding::kCheckFailed:
      return 2;
    case Finding::kCheckHung:
      return 3;
    default:
      return 4;
  }
}

tl::expected<Counterexample, Failure> tell_worst(Pool& pool, const Loaded& loaded,
                                                 const std::vector<Question>& questions, const Explored& explored) {
  const auto& classes = explored.tally.classes;
  const auto worst = std::min_element(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
    return std::tuple(rank(a.first.finding), a.second.layer, a.second.events_in) <
           std::tuple(rank(b.first.finding), b.second.layer, b.second.events_in);
  });
  auto told = pool.tell(worst->first.question, worst->second.path);
  if (!told) return tl::unexpected(told.error());
  Counterexample example{worst->first,
                         std::move(*told),
                         explored.bound == Bound::kNone,
                         true,
                         std::holds_alternative<CommandQuestion>(questions[worst->first.question]),
                         ""};
  example.replays = !example.told.run.diverged && example.told.run.result.answer.finding == worst->first.finding;
  if (example.replays && !example.is_smallest && worst->second.layer == 1 &&
      worst->first.finding != Finding::kCheckHung) {
    const auto finished = shrink(pool, worst->first, example.told);
    if (!finished) return tl::unexpected(finished.error());
    example.is_smallest = *finished;
    example.key.message = outcome_of(example.told.run.result);
    example.key.end = end_of(example.told.run.result);
  }
  example.sentence = explain(example.key, questions[example.key.question], example.told, loaded.program());
  return example;
}

Token make_token(const CheckPlan& plan, const Loaded& loaded, const Question& question,
                 const std::vector<std::uint32_t>& path) {
  return Token{plan.directory, loaded.trace_sum, plan.model,       question,
               plan.checker,   plan.depth,       plan.check_limit, path};
}

tl::expected<Loaded, Failure> load(const Token& token) {
  auto loaded = load(token.directory, token.model);
  if (!loaded) return loaded;
  auto histories = read_histories(*loaded, {token.question});
  if (!histories) return tl::unexpected(histories.error());
  loaded->histories = std::move(*histories);
  return loaded;
}

CheckPlan plan_of(const Token& token) {
  CheckPlan plan;
  plan.directory = token.directory;
  plan.model = token.model;
  plan.checker = token.checker;
  plan.depth = token.depth;
  plan.check_limit = token.check_limit;
  return plan;
}

// Checkers are to find themselves on the machine that the program ran on.
CheckPlan with_identity(CheckPlan plan, const Loaded& loaded) {
  if (!plan.checker.empty()) plan.pid_namespace = stored_pid_namespace(loaded.trace);
  return plan;
}

}  // namespace

tl::expected<CheckResult, Failure> check(const CheckPlan& plan, const PoolHooks& hooks) {
  auto loaded = load(plan.directory, plan.model);
  if (!loaded) return tl::unexpected(loaded.error());
  const auto known = known_paths_of(loaded->trace, plan.model);
  if (!known) return tl::unexpected(result::users_failure(known.error()));
  auto questions = questions_of(plan, *known);
  if (!questions) return tl::unexpected(questions.error());
  auto histories = read_histories(*loaded, *questions);
  if (!histories) return tl::unexpected(histories.error());
  loaded->histories = std::move(*histories);
  if (auto ok = drop_unfinished(plan, loaded->histories, *questions); !ok) return tl::unexpected(ok.error());
  if (plan.checker.empty() && !known->changes_something) {
    return tl::unexpected(result::users_failure(
        fmt::format("The program changed nothing on the modelled disk, so there is nothing to check. The disk is "
                    "the directory in which it "
                    "starts ({}); what it wrote elsewhere went to the real files.",
                    disk_of(plan.directory))));
  }
  CheckResult result;
  result.questions = std::move(*questions);
  result.operation_count = loaded->trace.op_count();
  result.event_count = loaded->recording().log.event_count();
  result.trace_is_complete = loaded->trace.is_complete();
  result.was_stopped = known->was_stopped;
  const CheckPlan worker_plan = with_identity(plan, *loaded);
  auto pool = Pool::start({worker_plan, loaded->recording(), loaded->histories, result.questions});
  if (!pool) return tl::unexpected(pool.error());
  auto explored = (*pool)->explore(hooks);
  if (!explored) return tl::unexpected(explored.error());
  result.explored = std::move(*explored);
  const Tally& tally = result.explored.tally;
  if (tally.not_found > 0 && tally.not_found == tally.checker_runs) {
    return tl::unexpected(
        result::users_failure(fmt::format("The checker could not be run (status 127): {}", tally.not_found_text)));
  }
  if (tally.violations == 0) {
    if (!tally.not_deterministic.empty()) {
      return tl::unexpected(result::users_failure(
          fmt::format("The checker is not deterministic: {}. A verdict needs one that answers the same "
                      "for the same files; time, random numbers and threads are what usually differs.",
                      tally.not_deterministic)));
    }
    if (result.was_stopped && result.explored.bound == Bound::kNone) result.explored.bound = Bound::kProgramLimit;
    result.verdict = result.explored.bound == Bound::kNone ? result::Verdict::kVerified : result::Verdict::kBounded;
    return result;
  }
  result.verdict = result::Verdict::kViolation;
  auto example = tell_worst(**pool, *loaded, result.questions, result.explored);
  if (!example) return tl::unexpected(example.error());
  result.token = encode(make_token(plan, *loaded, result.questions[example->key.question], example->told.run.path));
  result.counterexample = std::move(*example);
  return result;
}

tl::expected<Counterexample, Failure> replay(const Token& token) {
  auto loaded = load(token);
  if (!loaded) return tl::unexpected(loaded.error());
  const CheckPlan plan = with_identity(plan_of(token), *loaded);
  const std::vector<Question> questions{token.question};
  auto pool = Pool::start({plan, loaded->recording(), loaded->histories, questions});
  if (!pool) return tl::unexpected(pool.error());
  auto told = (*pool)->tell(0, token.path);
  if (!told) return tl::unexpected(told.error());
  if (!told->run.result.failure.empty())
    return tl::unexpected(Failure{told->run.result.is_users_fault ? result::Blame::kUser : result::Blame::kTool,
                                  told->run.result.failure});
  if (told->run.diverged) {
    return tl::unexpected(result::users_failure(
        "The checker did not ask for the same things as when this violation was found: it has changed since, or "
        "it is not deterministic."));
  }
  Counterexample example{
      ViolationKey{told->run.result.answer.finding, 0, outcome_of(told->run.result), end_of(told->run.result)},
      std::move(*told),
      true,
      true,
      std::holds_alternative<CommandQuestion>(token.question),
      ""};
  example.sentence = explain(example.key, token.question, example.told, loaded->program());
  return example;
}

namespace {

// In a sandbox with a disk, where there is a checker: use(explorer, runner) with what finds a path's state again; it
// returns what went wrong.
template <class Use>
tl::expected<void, Failure> with_state(const Token& token, bool with_terminal, Use&& use) {
  auto loaded = load(token);
  if (!loaded) return tl::unexpected(loaded.error());
  auto sandbox = sandbox::Sandbox::start(
      [&](const sandbox::Inside& inside) {
        auto runner = MountedRunner::start({.inside = inside,
                                            .directory = disk_of(token.directory),
                                            .command = token.checker,
                                            .limit = token.check_limit,
                                            .records_writes = token.depth > 1});
        if (runner) {
          Explorer explorer({loaded->recording(), loaded->histories, runner->get(), token.depth});
          send(inside.socket, {{"failure", use(explorer, **runner)}});
        } else {
          send(inside.socket, {{"failure", runner.error()}});
        }
        return 0;
      },
      options_for_checkers(token.directory, stored_pid_namespace(loaded->trace), with_terminal));
  if (!sandbox) return tl::unexpected(Failure{result::Blame::kTool, sandbox.error()});
  const auto answer = receive(sandbox->socket());
  sandbox->wait();
  if (!answer) return tl::unexpected(Failure{result::Blame::kTool, "The state's sandbox ended before its time."});
  const std::string failure = answer->at("failure");
  if (!failure.empty()) return tl::unexpected(result::users_failure(failure));
  return {};
}

}  // namespace

tl::expected<int, Failure> open_shell(const Token& token) {
  const char* shell = std::getenv("SHELL");
  const CommandLine command{{shell && *shell ? shell : "/bin/sh"}};
  auto done = with_state(token, true, [&](Explorer& explorer, MountedRunner& runner) {
    return explorer.visit_state(token.question, token.path,
                                [&]() -> CommandRunner& { return runner.open_to(command); });
  });
  if (!done) return tl::unexpected(done.error());
  return 0;
}

tl::expected<void, Failure> write_image(const Token& token, const std::string& directory) {
  return with_state(token, false, [&](Explorer& explorer, MountedRunner&) {
    return explorer.copy_state(token.question, token.path, directory);
  });
}

}  // namespace crashcut::mounted
