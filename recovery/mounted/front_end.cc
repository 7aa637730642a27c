#include "recovery/mounted/front_end.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <set>
#include <thread>

#include "persist/check.h"
#include "recovery/mounted/explain.h"
#include "recovery/mounted/record.h"
#include "recovery/mounted/recoverer.h"
#include "recovery/mounted/sandboxed_worker.h"
#include "recovery/mounted/token.h"
#include "recovery/search/explorer.h"
#include "recovery/search/fork_worker.h"
#include "recovery/search/socket_worker.h"

namespace crashcut::mounted {
namespace {

using Tree = std::map<std::string, FileVersion>;

// Where a path leads to by symbolic links, in a tree; each name on the way, the path first. The error is a sentence.
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

Failure failure_of(const fusefs::ReplayError& error) {
  return {error.is_limit ? result::Blame::kTool : result::Blame::kUser, error.sentence};
}

// A recording may take one part in so many of the memory that there is. In use it takes up to 1.6 times what is
// estimated while it is read, and workers and checkers need some too.
constexpr std::uint64_t kMemoryShare = 4;

}  // namespace

DiskFrontEnd::DiskFrontEnd(const CheckPlan& plan, fusefs::TraceReader trace, fusefs::Replayed replayed)
    : plan_(plan),
      trace_(std::move(trace)),
      replayed_(std::move(replayed)),
      trace_sum_(sum_of_trace(plan.directory)),
      // A checker must seem to run on the same machine as the program.
      pid_namespace_(plan.checker.empty() ? 0 : stored_pid_namespace(trace_)) {
  void* memory = mmap(nullptr, sizeof *image_count_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  image_count_ = new (memory) std::atomic<std::uint64_t>(0);
}

DiskFrontEnd::~DiskFrontEnd() { munmap(image_count_, sizeof *image_count_); }

tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> DiskFrontEnd::load(const CheckPlan& plan,
                                                                        const fusefs::ReplayLimits& limits) {
  auto trace = fusefs::TraceReader::open(trace_of(plan.directory));
  if (!trace) return tl::unexpected(result::users_failure(trace.error()));
  auto replayed = fusefs::replay(*trace, plan.model, limits);
  if (!replayed && replayed.error().was_stopped) return nullptr;
  if (!replayed) return tl::unexpected(failure_of(replayed.error()));
  replayed->filesystem.reset();  // only the recording is used
  if (replayed->cut) {
    // In the file too: replays and other models are to find the same recording.
    if (auto ok = fusefs::cut_trace(trace_of(plan.directory), *replayed->cut); !ok)
      return tl::unexpected(result::users_failure(ok.error()));
    trace = fusefs::TraceReader::open(trace_of(plan.directory));
    if (!trace) return tl::unexpected(result::users_failure(trace.error()));
  }
  const bool is_cut = replayed->cut.has_value();
  std::unique_ptr<DiskFrontEnd> loaded(new DiskFrontEnd(plan, std::move(*trace), std::move(*replayed)));
  loaded->is_cut_ = is_cut;
  return loaded;
}

tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> DiskFrontEnd::open(const CheckPlan& plan,
                                                                        const std::function<bool()>& should_stop) {
  fusefs::ReplayLimits limits;
  limits.memory_bytes = plan.memory_limit / kMemoryShare;
  limits.should_stop = should_stop;
  // In a thread, as malloc keeps its memory apart. Reading leaves holes everywhere: small things that this process and
  // each worker need later would be put into these, and nearly all pages would be copied.
  tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> loaded;
  std::thread([&] {
    loaded = load(plan, limits);
    if (!loaded || !*loaded) return;
    const auto found = (*loaded)->find_questions(limits);
    if (!found) {
      loaded = tl::unexpected(found.error());
    } else if (!*found) {
      loaded = nullptr;
    }
  }).join();
  if (!loaded || !*loaded) return loaded;
  // It was read several times; from here on only what recoveries look at is needed. What is free now would be copied
  // into each worker.
  (*loaded)->trace_.bytes()->forget(0, (*loaded)->trace_.bytes()->view().size());
  malloc_trim(0);
  return loaded;
}

tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> DiskFrontEnd::open(const CheckPlan& plan,
                                                                        const Question& question) {
  auto loaded = load(plan, {});
  if (!loaded) return loaded;
  (*loaded)->questions_ = {question};
  if (auto ok = (*loaded)->read_histories({}); !ok) return tl::unexpected(ok.error());
  return loaded;
}

tl::expected<std::unique_ptr<DiskFrontEnd>, Failure> DiskFrontEnd::with_syncs(
    std::span<const persist::AddedSync> syncs) const {
  auto replayed = fusefs::replay(trace_, plan_.model, {}, syncs);
  if (!replayed) return tl::unexpected(failure_of(replayed.error()));
  replayed->filesystem.reset();
  CheckPlan plan = plan_;
  plan.image_directory.clear();
  std::unique_ptr<DiskFrontEnd> changed(new DiskFrontEnd(plan, trace_, std::move(*replayed)));
  changed->histories_ = histories_;
  changed->questions_ = questions_;
  return changed;
}

tl::expected<bool, Failure> DiskFrontEnd::find_questions(const fusefs::ReplayLimits& limits) {
  const auto known = known_paths_of(trace_, plan_.model, limits);
  if (!known && known.error().was_stopped) return false;
  if (!known) return tl::unexpected(failure_of(known.error()));
  auto questions = questions_of(plan_, *known);
  if (!questions) return tl::unexpected(questions.error());
  questions_ = std::move(*questions);
  was_stopped_ = known->was_stopped;
  if (auto read = read_histories(limits); !read || !*read) return read;
  if (auto ok = drop_unfinished(); !ok) return tl::unexpected(ok.error());
  if (plan_.checker.empty() && !known->changes_something) {
    return tl::unexpected(result::users_failure(
        fmt::format("The program changed nothing on the modelled disk{}, so there is nothing to check. The disk is "
                    "the directory in which it "
                    "starts ({}); what it wrote elsewhere went to the real files.",
                    known->was_stopped ? ", up to where it was stopped" : "", disk_of(plan_.directory))));
  }
  return true;
}

// The versions of the files that are asked about.
tl::expected<bool, Failure> DiskFrontEnd::read_histories(const fusefs::ReplayLimits& limits) {
  std::set<std::string> paths;
  bool keeps_bytes = false;
  for (const Question& question : questions_) {
    if (const auto* file = std::get_if<FileQuestion>(&question)) {
      paths.insert(file->path);
      keeps_bytes = keeps_bytes || compares_bytes(*file);
    }
  }
  if (paths.empty()) return true;
  auto histories = histories_of(trace_, recording().options, paths, keeps_bytes, limits);
  if (!histories && histories.error().was_stopped) return false;
  if (!histories) return tl::unexpected(failure_of(histories.error()));
  histories_ = std::move(*histories);
  return true;
}

// A program that was stopped may not have finished any version of a file: then there is no question about the file.
tl::expected<void, Failure> DiskFrontEnd::drop_unfinished() {
  if (!histories_.was_stopped) return {};
  const auto is_unfinished = [&](const Question& question) {
    const auto* file = std::get_if<FileQuestion>(&question);
    if (!file) return false;
    const std::vector<FileState>& states = histories_.files.at(file->path).states();
    return std::none_of(states.begin(), states.end(), [](const FileState& state) { return state.exists(); });
  };
  std::erase_if(questions_, is_unfinished);
  if (!questions_.empty() || histories_.files.empty()) return {};
  return tl::unexpected(result::users_failure(
      fmt::format("The program was stopped (--program-limit) before it had finished any version of {}, so there "
                  "is nothing to check.",
                  plan_.files.empty() ? "a file" : plan_.files.front())));
}

std::vector<std::string> DiskFrontEnd::subjects() const {
  std::vector<std::string> subjects;
  for (const Question& question : questions_) subjects.push_back(subject_of(question));
  return subjects;
}

tl::expected<std::unique_ptr<search::Worker>, Failure> DiskFrontEnd::start_worker(const search::WorkerSetup& setup) {
  // No code of the user's is run.
  if (plan_.checker.empty()) return search::fork_worker([this, setup](int socket) { work({.socket = socket}, setup); });
  auto started = sandbox::Sandbox::start([this, setup](const sandbox::Inside& inside) { return work(inside, setup); },
                                         options_for_checkers(plan_.directory, pid_namespace_));
  if (!started) return tl::unexpected(result::tools_failure(started.error()));
  // Without namespaces they would all mount at the same place; only one namespace has the number that is wanted; and
  // images of a second crash are named after that of the first, which one worker knows.
  is_alone_ = (started->mode() == sandbox::Mode::kSubreaper && !plan_.checker.empty()) || pid_namespace_ != 0 ||
              (!plan_.image_directory.empty() && setup.depth > 1);
  is_in_other_namespace_ = pid_namespace_ != 0 && started->pid_namespace() != pid_namespace_;
  return std::make_unique<SandboxedWorker>(std::move(*started));
}

int DiskFrontEnd::work(const sandbox::Inside& inside, const search::WorkerSetup& setup) const {
  const std::optional<int> core = stay_on_core(setup.index);
  std::unique_ptr<MountedRunner> runner;
  if (!plan_.checker.empty()) {
    auto started = MountedRunner::start({.inside = inside,
                                         .directory = disk_of(plan_.directory),
                                         .command = plan_.checker,
                                         .limit = plan_.check_limit,
                                         .core = core,
                                         .remount = plan_.remount,
                                         .records_writes = setup.depth > 1,
                                         .stop = &setup.shared.stop});
    if (!started) {
      search::report_failure(inside.socket, result::tools_failure(started.error()));
      return 1;
    }
    runner = std::move(*started);
  }
  DiskRecoverer recoverer({recording(), histories_, questions_, trace_.bytes().get(), runner.get(),
                           plan_.image_directory, image_count_, &setup.shared.stop});
  search::serve(inside.socket, setup, recording(), recoverer);
  return 0;
}

result::Names DiskFrontEnd::names(std::size_t question) const {
  return {"the program", is_for_checker(questions_[question]) ? "the checker" : "crashcut"};
}

std::string DiskFrontEnd::explain(std::size_t question, const search::NarratedRun& told) const {
  return mounted::explain(questions_[question], told, program());
}

std::string DiskFrontEnd::program() const {
  const auto& command = trace_.header().command;
  return command.empty() ? "the program" : boost::filesystem::path(command[0]).filename().string();
}

result::Token DiskFrontEnd::token(std::size_t question) const {
  return token_of(plan_, trace_sum_, questions_[question]);
}

tl::expected<void, Failure> DiskFrontEnd::visit(std::uint32_t depth, const std::vector<std::uint32_t>& path,
                                                bool with_terminal, const std::function<std::string(Visitor&)>& use) {
  class OnDisk final : public Visitor {
   public:
    OnDisk(MountedRunner& runner, DiskRecoverer& recoverer, std::span<const search::Crash> crashes)
        : runner_(runner), recoverer_(recoverer), crashes_(crashes) {}
    std::string run(const CommandLine& command) override {
      return recoverer_.visit(crashes_, runner_.open_to(command));
    }
    std::string copy_to(const std::string& directory) override {
      const std::string failure = copy_state(crashes_, directory);
      return failure.empty() ? failure : fmt::format("The state could not be written: {}.", failure);
    }

   private:
    MountedRunner& runner_;
    DiskRecoverer& recoverer_;
    std::span<const search::Crash> crashes_;
  };
  const auto work = [&](const sandbox::Inside& inside) {
    std::string failure;
    auto runner = MountedRunner::start({.inside = inside,
                                        .directory = disk_of(plan_.directory),
                                        .command = plan_.checker,
                                        .limit = plan_.check_limit,
                                        .records_writes = depth > 1});
    if (runner) {
      DiskRecoverer recoverer({recording(), histories_, questions_, trace_.bytes().get(), runner->get(), "", nullptr});
      search::Explorer explorer({recording(), recoverer, depth});
      explorer.visit(0, path, [&](const search::Run& run, std::span<const search::Crash> crashes) {
        OnDisk visitor(**runner, recoverer, crashes);
        failure = run.ending.kind == search::Ending::Kind::kFailed ? run.ending.failure.sentence
                  : run.diverged ? "The state did not come out the same again: the checker has changed since, or it is "
                                   "not deterministic."
                                 : use(visitor);
      });
    } else {
      failure = runner.error();
    }
    search::send(inside.socket, {{"failure", failure}});
    return 0;
  };
  auto sandbox =
      sandbox::Sandbox::start(work, options_for_checkers(plan_.directory, stored_pid_namespace(trace_), with_terminal));
  if (!sandbox) return result::tool_failed(sandbox.error());
  const auto answer = search::receive(sandbox->socket());
  sandbox->wait();
  if (!answer) return result::tool_failed("The state's sandbox ended before its time.");
  const std::string failure = answer->at("failure");
  if (!failure.empty()) return result::wrong_use(failure);
  return {};
}

}  // namespace crashcut::mounted
