#include "recovery/mounted/recoverer.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "persist/check.h"
#include "recovery/mounted/copy_out.h"
#include "recovery/result/words.h"
#include "recovery/search/following.h"

namespace crashcut::mounted {
namespace {

using fusefs::CrashView;
using fusefs::Filesystem;
using search::Crash;
using search::Ending;

const fusefs::Recording& disk_of(const Crash& crash) { return static_cast<const fusefs::Recording&>(*crash.recording); }

// What the crashes left, one over the other: the last is the disk.
std::deque<CrashView> views_of(std::span<const Crash> crashes, persist::Chooser& chooser) {
  std::deque<CrashView> views;
  for (const Crash& crash : crashes)
    views.emplace_back(disk_of(crash), *crash.cut, chooser, views.empty() ? nullptr : &views.back());
  return views;
}

// The same for a person who looks at a state: what they read is decided for them alone, and not for the search.
class Visit {
 public:
  explicit Visit(std::span<const Crash> crashes) {
    std::vector<Crash> own;
    for (const Crash& crash : crashes) own.push_back(Crash{crash.recording, &cuts_.emplace_back(*crash.cut)});
    views = views_of(own, newest_);
  }
  Visit(const Visit&) = delete;

 private:
  search::Following newest_;
  std::deque<persist::Cut> cuts_;

 public:
  std::deque<CrashView> views;
};

Filesystem::Setup plain_setup(const fusefs::ModelOptions& options, fusefs::Medium& medium) {
  return {.medium = &medium,
          .sector_bytes = options.sector_bytes,
          .block_bytes = options.block_bytes,
          .is_only_read = true};
}

std::string join_marks(const std::vector<persist::Mark>& marks, bool lines, CrashView& view) {
  std::string text;
  for (const persist::Mark& mark : marks) {
    if (is_promise(mark.text) == lines) continue;
    if (!view.reached(mark.text)) break;  // marks are a chain
    text += (lines ? mark.text.substr(mark.text.find(": ") + 2) : mark.text) + "\n";
  }
  return text;
}

// A crashed disk that a command can work on, with the marks that were reached among its files.
class CrashedDisk {
 public:
  CrashedDisk(std::deque<CrashView>& views, const std::vector<persist::Mark>& marks,
              const fusefs::ModelOptions& options, fusefs::Recorder* recorder)
      : filesystem_(Filesystem::Setup{.recorder = recorder,
                                      .medium = &views.back(),
                                      .sector_bytes = options.sector_bytes,
                                      .block_bytes = options.block_bytes,
                                      .noatime = true,
                                      .clock = clock_.reader()}),
        changes_(filesystem_, clock_, nullptr, recorder),
        volume{filesystem_, changes_, {}} {
    CrashView& first = views.front();
    volume.special_files = {{"marks", [&] { return join_marks(marks, false, first); }, nullptr},
                            {"stdout", [&] { return join_marks(marks, true, first); }, nullptr}};
  }

 private:
  fusefs::TraceClock clock_;
  Filesystem filesystem_;
  fusefs::Traced changes_;

 public:
  fusefs::Volume volume;
};

// Takes what is oldest, or newest: what was there before the program, and what it left.
class AtOneEnd final : public persist::Chooser {
 public:
  explicit AtOneEnd(bool takes_oldest) : takes_oldest_(takes_oldest) {}
  std::uint32_t choose(const persist::Choice& choice) override {
    return takes_oldest_ ? static_cast<std::uint32_t>(choice.candidates.size()) - 1 : 0;
  }

 private:
  bool takes_oldest_;
};

// The disk as it was before the program, or when everything has persisted.
class StillDisk {
 public:
  StillDisk(const fusefs::Recording& recording, bool takes_oldest)
      : cut_(recording.log),
        chooser_(takes_oldest),
        view_(recording, cut_, chooser_, nullptr),
        filesystem(plain_setup(recording.options, view_)) {}

 private:
  persist::Cut cut_;
  AtOneEnd chooser_;
  CrashView view_;

 public:
  Filesystem filesystem;
};

// The first bytes of a file, as a story has them. A file may be large, and is not read further.
result::FileContent content_of(Filesystem& filesystem, const std::string& path) {
  fusefs::Ino ino{};
  if (find_path(filesystem, path, ino) != 0) return {"missing"};
  const mode_t type = filesystem.type(ino);
  result::FileContent content{S_ISREG(type)   ? "file"
                              : S_ISDIR(type) ? "directory"
                              : S_ISLNK(type) ? "symbolic link"
                                              : "other"};
  if (S_ISLNK(type)) filesystem.readlink(ino, content.bytes);
  if (!S_ISREG(type)) return content;
  content.size = static_cast<std::uint64_t>(filesystem.seek(ino, 0, SEEK_END));
  content.bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(content.size, result::kFileBytesMost)));
  filesystem.read(ino, 0, std::as_writable_bytes(std::span(content.bytes)));
  return content;
}

bool is_same(const result::FileContent& a, const result::FileContent& b) {
  return a.type == b.type && a.size == b.size && a.bytes == b.bytes;
}

// The worst first: lost files, then states that the checker refuses, then broken promises.
int rank_of(Finding finding) {
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

Ending ending_of(Finding finding, std::string outcome) {
  Ending ending;
  ending.kind = finding == Finding::kAssumedAway ? Ending::Kind::kAssumedAway
                : is_violation(finding)          ? Ending::Kind::kViolation
                                                 : Ending::Kind::kFine;
  ending.rank = rank_of(finding);
  ending.finding.kind = to_text(finding);
  ending.finding.text = outcome;  // a file's outcome says it all
  ending.outcome = std::move(outcome);
  return ending;
}

// What a checker printed, on one line.
std::string outcome_of(const CommandResult& result) {
  std::string text = result.output;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) text.replace(at, 1, "; ");
  constexpr std::size_t kLongest = 400;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

Ending ending_of(CommandResult result) {
  Ending ending = ending_of(result.finding, outcome_of(result));
  if (result.was_stopped) ending.kind = Ending::Kind::kStopped;
  if (!result.failure.empty()) {
    ending.kind = Ending::Kind::kFailed;
    ending.failure = {result.is_users_fault ? result::Blame::kUser : result::Blame::kTool, result.failure};
  }
  ending.is_slow = result.finding == Finding::kCheckHung;
  ending.finding.text = ending.is_slow ? "the checker did not end in time"
                        : result.signal != 0
                            ? fmt::format("the checker was killed by {}", result::signal_text(result.signal))
                            : fmt::format("the checker ended with status {}", result.code);
  ending.finding.message = ending.outcome;
  ending.finding.code = result.signal != 0 ? result.signal : result.code;
  if (ending.kind != Ending::Kind::kAssumedAway) {
    ending.facts.emplace_back(kCheckerRan);
    if (result.code == kNotFoundStatus) ending.facts.emplace_back(kCheckerNotFound);
  }
  if (result.read_by_pages) ending.facts.emplace_back(kReadByPages);
  ending.output = std::move(result.output);
  ending.errors = std::move(result.errors);
  ending.output_cut = result.output_cut;
  ending.errors_cut = result.errors_cut;
  return ending;
}

Ending ending_of(Answer answer) { return ending_of(answer.finding, std::move(answer.outcome)); }

DiskRecoverer::DiskRecoverer(Setup setup) : setup_(std::move(setup)), marks_(setup_.recording.marks()) {}

Ending DiskRecoverer::recover(std::size_t question, std::span<const Crash> crashes, persist::Chooser& chooser,
                              std::shared_ptr<const persist::Recording>* next) {
  std::deque<CrashView> views = views_of(crashes, chooser);
  const fusefs::ModelOptions& options = setup_.recording.options;
  if (const auto* file = std::get_if<FileQuestion>(&setup_.questions[question])) {
    Filesystem filesystem(plain_setup(options, views.back()));
    try {
      return ending_of(ask(*file, setup_.histories, views.back(), filesystem, setup_.trace, setup_.stop));
    } catch (const QuestionStopped&) {
      Ending stopped;
      stopped.kind = Ending::Kind::kStopped;
      return stopped;
    }
  }
  CHECK(setup_.runner);
  std::shared_ptr<fusefs::Recorder> recorder;
  if (next != nullptr) recorder = std::make_shared<fusefs::Recorder>(options, &views.back());
  CrashedDisk disk(views, marks_, options, recorder.get());
  std::vector<std::string> certain;
  for (const persist::Mark& mark : marks_) {
    if (crashes.front().cut->is_in(mark.event)) certain.push_back(mark.text);
  }
  CommandResult result =
      setup_.runner->run(disk.volume, certain, [&](const std::string& mark) { return views.front().reached(mark); });
  if (recorder) {
    recorder->seal();
    *next = std::shared_ptr<const persist::Recording>(recorder, &recorder->recording());
  }
  return ending_of(std::move(result));
}

// A state of the first layer is 000007, one that a crash of the recovery in that leaves 000007.0001.
tl::expected<void, search::Failure> DiskRecoverer::on_counted(const search::Run& run, std::span<const Crash> crashes) {
  if (setup_.image_directory.empty()) return {};
  images_.resize(run.layer);
  Image& image = images_.back();
  if (run.layer == 1) {
    image.name = fmt::format("{:06}", ++*setup_.image_count);
  } else {
    Image& above = images_[run.layer - 2];
    image.name = fmt::format("{}.{:04}", above.name, ++above.followers);
  }
  image.followers = 0;
  const std::string failure = copy_state(crashes, fmt::format("{}/{}", setup_.image_directory, image.name));
  if (failure.empty()) return {};
  return tl::unexpected(result::users_failure(fmt::format("--image: {}.", failure)));
}

// A question about a file has that file. A checker may ask about any: then those that the program changed.
std::vector<result::FileView> DiskRecoverer::files(std::size_t question, std::span<const Crash> crashes) {
  const fusefs::Recording& recording = disk_of(crashes.front());
  StillDisk before(recording, true), expected(recording, false);
  Visit visit(crashes);
  Filesystem after(plain_setup(recording.options, visit.views.back()));
  const auto* file = std::get_if<FileQuestion>(&setup_.questions[question]);
  std::set<std::string> paths;
  if (file != nullptr) {
    paths.insert(file->path);
  } else {
    const Reads none = [](const std::string&) { return false; };
    for (Filesystem* disk : {&before.filesystem, &expected.filesystem, &after}) {
      for (const auto& [path, version] : files_of(*disk, none)) {
        if (!S_ISDIR(version.type)) paths.insert(path);
      }
    }
  }
  std::vector<result::FileView> views;
  for (const std::string& path : paths) {
    if (views.size() == result::kFilesMost) break;
    result::FileView view{path, content_of(before.filesystem, path), content_of(expected.filesystem, path),
                          content_of(after, path)};
    if (file != nullptr || !is_same(view.before, view.expected) || !is_same(view.expected, view.after))
      views.push_back(std::move(view));
  }
  return views;
}

std::string DiskRecoverer::visit(std::span<const Crash> crashes, CommandRunner& visitor) const {
  Visit visit(crashes);
  CrashedDisk disk(visit.views, marks_, setup_.recording.options, nullptr);
  return visitor.run(disk.volume, {}, [&](const std::string& mark) { return visit.views.front().reached(mark); })
      .failure;
}

std::string copy_state(std::span<const Crash> crashes, const std::string& directory) {
  Visit visit(crashes);
  Filesystem filesystem(plain_setup(disk_of(crashes.front()).options, visit.views.back()));
  return copy_out(filesystem, directory);
}

}  // namespace crashcut::mounted
