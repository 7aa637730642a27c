#include "recovery/mounted/expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace crashcut::mounted {
namespace {

using fusefs::Filesystem;
using fusefs::Ino;

const FileHistory& history_of(const Histories& histories, const std::string& path) { return histories.files.at(path); }

struct Disk {
  AskedDisk& asked;
  const std::atomic<bool>* stop;
};

class ModelledDisk final : public AskedDisk {
 public:
  ModelledDisk(fusefs::CrashView& view, Filesystem& filesystem, const fusefs::TraceBytes* trace)
      : view_(view), filesystem_(filesystem), trace_(trace) {}

  File find(const std::string& path) override {
    if (find_path(filesystem_, path, ino_) != 0) return {};
    return {filesystem_.type(ino_), ino_};
  }
  std::uint64_t size() override { return static_cast<std::uint64_t>(filesystem_.seek(ino_, 0, SEEK_END)); }
  std::string target() override {
    std::string target;
    filesystem_.readlink(ino_, target);
    return target;
  }
  std::string read(std::uint64_t offset, std::size_t length) override {
    std::string piece(length, '\0');
    const std::int64_t got = filesystem_.read(ino_, offset, std::as_writable_bytes(std::span(piece)));
    piece.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
    if (trace_ != nullptr) trace_->note_read(piece.size());
    return piece;
  }
  bool reached(const std::string& mark) override { return view_.reached(mark); }

 private:
  fusefs::CrashView& view_;
  Filesystem& filesystem_;
  const fusefs::TraceBytes* trace_;
  Ino ino_{};
};

// A file after the crash, read as far as it was needed.
class Found {
 public:
  Found(const Disk& disk, const std::string& path) : disk_(disk), file_(disk.asked.find(path)) {}

  mode_t type() const { return file_.type; }
  Ino ino() const { return file_.ino; }
  bool exists() const { return file_.type != 0; }
  std::uint64_t size() { return disk_.asked.size(); }
  std::string target() { return disk_.asked.target(); }
  std::string read(std::uint64_t offset, std::size_t length) {
    if (disk_.stop != nullptr && *disk_.stop) throw QuestionStopped();
    return disk_.asked.read(offset, length);
  }

 private:
  const Disk& disk_;
  AskedDisk::File file_;
};

struct Match {
  int state = -1;    // the version that the file is, whole
  std::string what;  // "empty": what it is if it is none
};

bool is_nul(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

// What a file of the right or wrong size is, of which `piece` at `offset` fits no version.
std::string describe_misfit(std::uint64_t size, std::uint64_t offset, std::string_view piece) {
  if (size == 0) return "empty";
  if (piece.empty()) return fmt::format("{} bytes long, as no version is", size);
  if (is_nul(piece)) return fmt::format("{} bytes long with NUL bytes in place of its contents", size);
  if (offset == 0) return "no version: its bytes are a mixture, or written in part";
  return fmt::format("no version from byte {} on: a mixture, or written in part", offset);
}

// Among versions with equal contents: the newest one of this file; if none is of this file, the newest of all.
int newest_of(const std::vector<FileState>& states, const std::vector<std::size_t>& equal, Ino ino) {
  for (auto i = equal.rbegin(); i != equal.rend(); ++i) {
    const std::vector<Ino>& inos = states[*i].inos;
    if (std::find(inos.begin(), inos.end(), ino) != inos.end()) return static_cast<int>(*i);
  }
  return static_cast<int>(equal.back());
}

Match match_regular(Found& found, const FileHistory& history) {
  const std::vector<FileState>& states = history.states();
  std::vector<std::size_t> left;
  const std::uint64_t size = found.size();
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (S_ISREG(states[i].type) && states[i].size == size) left.push_back(i);
  }
  if (left.empty()) return {-1, describe_misfit(size, 0, "")};
  for (std::uint64_t offset = 0; offset < size; offset += kPieceBytes) {
    const std::string piece = found.read(offset, kPieceBytes);
    const std::uint64_t digest = digest_of(piece);
    std::erase_if(left, [&](std::size_t i) { return !history.has_piece(i, offset / kPieceBytes, digest); });
    if (left.empty()) return {-1, describe_misfit(size, offset, piece)};
  }
  return {newest_of(states, left, found.ino()), ""};
}

Match match(const Disk& disk, const std::string& path, const FileHistory& history) {
  Found found(disk, path);
  if (S_ISREG(found.type())) return match_regular(found, history);
  const std::uint64_t digest = S_ISLNK(found.type()) ? digest_of(found.target()) : 0;
  const std::vector<FileState>& states = history.states();
  for (std::size_t i = states.size(); i-- > 0;) {
    if (states[i].type == found.type() && (!S_ISLNK(states[i].type) || states[i].digest == digest))
      return {static_cast<int>(i), ""};
  }
  return {-1, found.exists() ? "of another type than it was" : "missing"};
}

std::string name_version(const FileHistory& history, int index) {
  const std::vector<FileState>& states = history.states();
  const FileState& state = states[static_cast<std::size_t>(index)];
  if (index + 1 == static_cast<int>(states.size())) return state.exists() ? "new" : "gone, as at the end";
  if (index == 0) return state.exists() ? "old" : "not there, as at the start";
  if (!state.mark.empty()) return fmt::format("as at the mark \"{}\"", state.mark);
  return fmt::format("as after {}, version {} of {}", state.after, index + 1, states.size());
}

// A promise that was made before the crash, of a version that is newer than the one that is found. Versions of equal
// contents are equally good: a later promise of such a one is kept, and then the earlier ones do not matter.
std::string broken_promise(const Histories& histories, const FileHistory& history, int found, AskedDisk& disk) {
  const std::vector<FileState>& states = history.states();
  std::string broken;
  for (const Promise& promise : histories.promises) {
    const std::size_t at = history.state_at(promise.operation);
    if (at <= static_cast<std::size_t>(found)) continue;
    const bool is_kept = states[at].is_same(states[static_cast<std::size_t>(found)]);
    if (is_kept == broken.empty()) continue;
    if (!disk.reached(promise.mark)) break;  // nor any later one
    broken = is_kept ? "" : promise.mark;
  }
  return broken;
}

Answer ask_whole(const FileQuestion& question, const Histories& histories, const Disk& disk) {
  const FileHistory& history = history_of(histories, question.path);
  Match found = match(disk, question.path, history);
  std::string outcome =
      fmt::format("{} is {}", question.path, found.state >= 0 ? name_version(history, found.state) : found.what);
  for (const std::string& backup : question.backups) {
    if (found.state >= 0) break;
    // A backup is whole where it is some version of the file itself.
    found = match(disk, backup, history);
    if (found.state >= 0 && !history.states()[static_cast<std::size_t>(found.state)].exists()) found.state = -1;
    if (found.state >= 0) outcome += fmt::format(", {} has it {}", backup, name_version(history, found.state));
  }
  if (found.state < 0) return Answer{Finding::kLost, outcome, ""};
  if (!question.durable) return Answer{Finding::kFine, outcome, ""};
  const std::string promise = broken_promise(histories, history, found.state, disk.asked);
  if (promise.empty()) return Answer{Finding::kFine, outcome, ""};
  return Answer{Finding::kNotDurable, outcome + fmt::format(" after \"{}\"", promise), promise};
}

bool has_garbage(Found& found, const FileHistory& history) {
  const std::uint64_t size = found.size();
  for (std::uint64_t offset = 0; offset < size; offset += kPieceBytes) {
    const std::string piece = found.read(offset, kPieceBytes);
    const std::vector<std::string_view> known = history.pieces_at(offset / kPieceBytes);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const bool is_known = std::any_of(
          known.begin(), known.end(), [&](std::string_view bytes) { return i < bytes.size() && bytes[i] == piece[i]; });
      if (!is_known) return true;
    }
  }
  return false;
}

// The start is durable: it is whole. What the program wrote may be there in part.
bool is_prefix_of_a_version(Found& found, const FileHistory& history) {
  const std::uint64_t size = found.size();
  const std::vector<FileState>& states = history.states();
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const bool is_start = i == 0 && states.size() > 1;
    const bool fits = is_start ? states[i].size == size : states[i].size >= size;
    if (S_ISREG(states[i].type) && fits) left.push_back(i);
  }
  for (std::uint64_t offset = 0; offset < size && !left.empty(); offset += kPieceBytes) {
    const std::string piece = found.read(offset, kPieceBytes);
    std::erase_if(left, [&](std::size_t i) { return !history.piece(i, offset / kPieceBytes).starts_with(piece); });
  }
  return !left.empty();
}

// Whether `expect` is broken; `why` says how.
bool is_broken(Expect expect, const std::string& path, const FileHistory& history, const Disk& disk, std::string& why) {
  const auto in_all = [&](auto&& holds) {
    return std::all_of(history.states().begin(), history.states().end(), holds);
  };
  Found found(disk, path);
  if (expect == Expect::kNoMissing) {
    why = "missing";
    return !found.exists() && in_all([](const FileState& state) { return state.exists(); });
  }
  if (!S_ISREG(found.type())) return false;
  switch (expect) {
    case Expect::kNoEmpty:
      why = "empty";
      return found.size() == 0 && in_all([](const FileState& state) { return !S_ISREG(state.type) || state.size > 0; });
    case Expect::kNoGarbage:
      why = "partly bytes that no version has there";
      return has_garbage(found, history);
    case Expect::kPrefix:
      why = "no prefix of what was written";
      return !is_prefix_of_a_version(found, history);
    case Expect::kNoMissing:
      break;
  }
  return false;
}

}  // namespace

tl::expected<Expect, std::string> parse_expect(std::string_view text) {
  for (const Expect expect : {Expect::kNoEmpty, Expect::kNoMissing, Expect::kNoGarbage, Expect::kPrefix}) {
    if (text == to_text(expect)) return expect;
  }
  return tl::unexpected(
      fmt::format("'{}' is no expectation: there are no-empty, no-missing, no-garbage and prefix.", text));
}

std::string_view to_text(Expect expect) {
  switch (expect) {
    case Expect::kNoEmpty:
      return "no-empty";
    case Expect::kNoMissing:
      return "no-missing";
    case Expect::kNoGarbage:
      return "no-garbage";
    case Expect::kPrefix:
      return "prefix";
  }
  return "";
}

std::string_view to_text(Finding finding) {
  switch (finding) {
    case Finding::kFine:
      return "fine";
    case Finding::kLost:
      return "lost";
    case Finding::kNotDurable:
      return "not durable";
    case Finding::kUnexpected:
      return "not as expected";
    case Finding::kCheckFailed:
      return "check failed";
    case Finding::kCheckHung:
      return "check did not end";
    case Finding::kAssumedAway:
      return "assumed away";
  }
  return "";
}

Answer ask(const FileQuestion& question, const Histories& histories, fusefs::CrashView& view, Filesystem& filesystem,
           const fusefs::TraceBytes* trace, const std::atomic<bool>* stop) {
  ModelledDisk disk(view, filesystem, trace);
  return ask(question, histories, disk, stop);
}

bool is_newest(const FileQuestion& question, const Histories& histories, AskedDisk& asked) {
  const FileHistory& history = history_of(histories, question.path);
  const Match found = match(Disk{asked, nullptr}, question.path, history);
  return found.state >= 0 && history.states().back().is_same(history.states()[static_cast<std::size_t>(found.state)]);
}

Answer ask(const FileQuestion& question, const Histories& histories, AskedDisk& asked, const std::atomic<bool>* stop) {
  const Disk disk{asked, stop};
  for (const Expect expect : question.expects) {
    std::string why;
    if (is_broken(expect, question.path, history_of(histories, question.path), disk, why)) {
      return Answer{Finding::kUnexpected, fmt::format("{} is {} ({})", question.path, why, to_text(expect)), ""};
    }
  }
  if (question.whole) return ask_whole(question, histories, disk);
  return Answer{Finding::kFine, question.path + " is as expected", ""};
}

bool compares_bytes(const FileQuestion& question) {
  return question.expects.contains(Expect::kNoGarbage) || question.expects.contains(Expect::kPrefix);
}

}  // namespace crashcut::mounted
