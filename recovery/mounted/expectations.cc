#include "recovery/mounted/expectations.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace crashcut::mounted {
namespace {

using fusefs::Filesystem;
using fusefs::Ino;

constexpr std::size_t kPieceBytes = 4096;

const FileVersion& file_in(const Version& version, const std::string& path) {
  static const FileVersion kNone;
  const auto found = version.files.find(path);
  return found == version.files.end() ? kNone : found->second;
}

// A file after the crash, read as far as it was needed.
class Found {
 public:
  Found(Filesystem& filesystem, const std::string& path) : filesystem_(filesystem) {
    if (find_path(filesystem, path, ino_) == 0) type_ = filesystem.type(ino_);
  }

  mode_t type() const { return type_; }
  bool exists() const { return type_ != 0; }
  std::uint64_t size() { return static_cast<std::uint64_t>(filesystem_.seek(ino_, 0, SEEK_END)); }
  std::string target() {
    std::string target;
    filesystem_.readlink(ino_, target);
    return target;
  }
  std::string read(std::uint64_t offset, std::size_t length) {
    std::string piece(length, '\0');
    const std::int64_t got = filesystem_.read(ino_, offset, std::as_writable_bytes(std::span(piece)));
    piece.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
    return piece;
  }

 private:
  Filesystem& filesystem_;
  Ino ino_{};
  mode_t type_ = 0;
};

struct Match {
  int version = -1;  // the newest that the file is, whole
  std::string what;  // "empty": what it is if it is none
};

bool is_nul(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

// What a file of the right or wrong size is, of which `piece` at `offset` fits no version.
std::string describe_misfit(std::uint64_t size, std::uint64_t offset, std::string_view piece) {
  if (size == 0) return "empty";
  if (piece.empty()) return fmt::format("{} bytes long, as no version is", size);
  if (is_nul(piece)) return fmt::format("{} bytes long with NUL bytes in place of its contents", size);
  return offset == 0 ? "neither version: its bytes are a mixture" : fmt::format("neither version from byte {} on", offset);
}

Match match_regular(Found& found, const std::string& path, const std::vector<Version>& versions) {
  std::vector<int> left;
  const std::uint64_t size = found.size();
  for (int i = 0; i < static_cast<int>(versions.size()); ++i) {
    const FileVersion& file = file_in(versions[static_cast<std::size_t>(i)], path);
    if (S_ISREG(file.type) && file.content.size() == size) left.push_back(i);
  }
  if (left.empty()) return {-1, describe_misfit(size, 0, "")};
  for (std::uint64_t offset = 0; offset < size; offset += kPieceBytes) {
    const std::string piece = found.read(offset, kPieceBytes);
    std::erase_if(left, [&](int i) {
      const std::string& content = file_in(versions[static_cast<std::size_t>(i)], path).content;
      return content.compare(offset, piece.size(), piece) != 0;
    });
    if (left.empty()) return {-1, describe_misfit(size, offset, piece)};
  }
  return {left.back(), ""};
}

Match match(Filesystem& filesystem, const std::string& path, const std::vector<Version>& versions) {
  Found found(filesystem, path);
  if (S_ISREG(found.type())) return match_regular(found, path, versions);
  const std::string target = S_ISLNK(found.type()) ? found.target() : "";
  for (int i = static_cast<int>(versions.size()) - 1; i >= 0; --i) {
    const FileVersion& file = file_in(versions[static_cast<std::size_t>(i)], path);
    if (file.type == found.type() && (!S_ISLNK(file.type) || file.content == target)) return {i, ""};
  }
  return {-1, found.exists() ? "of another type than it was" : "missing"};
}

std::string name_version(const std::vector<Version>& versions, int index, const std::string& path) {
  const bool is_there = file_in(versions[static_cast<std::size_t>(index)], path).exists();
  if (index + 1 == static_cast<int>(versions.size())) return is_there ? "new" : "gone, as at the end";
  if (index == 0) return is_there ? "old" : "not there, as at the start";
  return fmt::format("as at the mark \"{}\"", versions[static_cast<std::size_t>(index)].mark);
}

// The first promise after `version` whose file is another, if it was made before the crash.
std::string broken_promise(const std::string& path, const std::vector<Version>& versions, int version, fusefs::CrashView& view) {
  const FileVersion& found = file_in(versions[static_cast<std::size_t>(version)], path);
  for (std::size_t i = static_cast<std::size_t>(version) + 1; i < versions.size(); ++i) {
    if (versions[i].mark.empty() || file_in(versions[i], path) == found) continue;
    return view.reached(versions[i].mark) ? versions[i].mark : "";
  }
  return "";
}

Answer ask_whole(const FileQuestion& question, const std::vector<Version>& versions, fusefs::CrashView& view,
                 Filesystem& filesystem) {
  Match found = match(filesystem, question.path, versions);
  std::string outcome = fmt::format("{} is {}", question.path,
                                    found.version >= 0 ? name_version(versions, found.version, question.path) : found.what);
  std::string path = question.path;
  for (const std::string& backup : question.backups) {
    if (found.version >= 0) break;
    // A backup is whole where it is some version of the file itself.
    std::vector<Version> as_backup = versions;
    for (Version& version : as_backup) version.files[backup] = file_in(version, question.path);
    found = match(filesystem, backup, as_backup);
    if (found.version >= 0 && !file_in(as_backup[static_cast<std::size_t>(found.version)], backup).exists()) found.version = -1;
    if (found.version >= 0) outcome += fmt::format(", {} has it {}", backup, name_version(versions, found.version, path));
  }
  if (found.version < 0) return Answer{Finding::kLost, outcome, ""};
  if (!question.durable) return Answer{Finding::kFine, outcome, ""};
  const std::string promise = broken_promise(path, versions, found.version, view);
  if (promise.empty()) return Answer{Finding::kFine, outcome, ""};
  return Answer{Finding::kNotDurable, outcome + fmt::format(" after \"{}\"", promise), promise};
}

bool has_garbage(Found& found, const std::string& path, const std::vector<Version>& versions) {
  const std::uint64_t size = found.size();
  for (std::uint64_t offset = 0; offset < size; offset += kPieceBytes) {
    const std::string piece = found.read(offset, kPieceBytes);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const bool is_known = std::any_of(versions.begin(), versions.end(), [&](const Version& version) {
        const std::string& content = file_in(version, path).content;
        return offset + i < content.size() && content[offset + i] == piece[i];
      });
      if (!is_known) return true;
    }
  }
  return false;
}

bool is_prefix_of_a_version(Found& found, const std::string& path, const std::vector<Version>& versions) {
  const std::uint64_t size = found.size();
  std::vector<const std::string*> left;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const FileVersion& file = file_in(versions[i], path);
    const bool is_last = i + 1 == versions.size();
    const bool fits = is_last ? file.content.size() >= size : file.content.size() == size;
    if (S_ISREG(file.type) && fits) left.push_back(&file.content);
  }
  for (std::uint64_t offset = 0; offset < size && !left.empty(); offset += kPieceBytes) {
    const std::string piece = found.read(offset, kPieceBytes);
    std::erase_if(left, [&](const std::string* content) { return content->compare(offset, piece.size(), piece) != 0; });
  }
  return !left.empty();
}

// Whether `expect` is broken; `why` says how.
bool is_broken(Expect expect, const std::string& path, const std::vector<Version>& versions, Filesystem& filesystem,
               std::string& why) {
  const auto in_all = [&](auto&& holds) {
    return std::all_of(versions.begin(), versions.end(), [&](const Version& version) { return holds(file_in(version, path)); });
  };
  Found found(filesystem, path);
  if (expect == Expect::kNoMissing) {
    why = "missing";
    return !found.exists() && in_all([](const FileVersion& file) { return file.exists(); });
  }
  if (!S_ISREG(found.type())) return false;
  switch (expect) {
    case Expect::kNoEmpty:
      why = "empty";
      return found.size() == 0 && in_all([](const FileVersion& file) { return !file.exists() || !file.content.empty(); });
    case Expect::kNoGarbage:
      why = "partly bytes that no version has there";
      return has_garbage(found, path, versions);
    case Expect::kPrefix:
      why = "no prefix of what was written";
      return !is_prefix_of_a_version(found, path, versions);
    case Expect::kNoMissing: break;
  }
  return false;
}

}  // namespace

tl::expected<Expect, std::string> parse_expect(std::string_view text) {
  for (const Expect expect : {Expect::kNoEmpty, Expect::kNoMissing, Expect::kNoGarbage, Expect::kPrefix}) {
    if (text == to_text(expect)) return expect;
  }
  return tl::unexpected(fmt::format("'{}' is no expectation: there are no-empty, no-missing, no-garbage and prefix.", text));
}

std::string_view to_text(Expect expect) {
  switch (expect) {
    case Expect::kNoEmpty: return "no-empty";
    case Expect::kNoMissing: return "no-missing";
    case Expect::kNoGarbage: return "no-garbage";
    case Expect::kPrefix: return "prefix";
  }
  return "";
}

std::string_view to_text(Finding finding) {
  switch (finding) {
    case Finding::kFine: return "fine";
    case Finding::kLost: return "lost";
    case Finding::kNotDurable: return "not durable";
    case Finding::kUnexpected: return "not as expected";
    case Finding::kCheckFailed: return "check failed";
    case Finding::kCheckHung: return "check did not end";
    case Finding::kAssumedAway: return "assumed away";
  }
  return "";
}

Answer ask(const FileQuestion& question, const std::vector<Version>& versions, fusefs::CrashView& view, Filesystem& filesystem) {
  for (const Expect expect : question.expects) {
    std::string why;
    if (is_broken(expect, question.path, versions, filesystem, why)) {
      return Answer{Finding::kUnexpected, fmt::format("{} is {} ({})", question.path, why, to_text(expect)), ""};
    }
  }
  if (question.whole) return ask_whole(question, versions, view, filesystem);
  return Answer{Finding::kFine, question.path + " is as expected", ""};
}

std::vector<std::string> all_files(const std::vector<Version>& versions) {
  std::set<std::string> paths;
  for (const Version& version : versions) {
    for (const auto& [path, file] : version.files) paths.insert(path);
  }
  return {paths.begin(), paths.end()};
}

}  // namespace crashcut::mounted
