#include "fusefs/trace_text.h"

#include <fmt/format.h>
#include <linux/falloc.h>
#include <linux/fs.h>

namespace crashcut::fusefs {
namespace {

// Names and commands are the program's: a report must stay one line, whatever they hold.
std::string printable(std::string_view bytes, std::size_t most) {
  std::string text;
  for (unsigned char c : bytes.substr(0, most)) {
    if (c < 0x20 || c == 0x7f || c == '\\') {
      text += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : fmt::format("\\x{:02x}", c);
    } else {
      text += static_cast<char>(c);
    }
  }
  if (bytes.size() > most) text += "...";
  return text;
}

std::string quoted(std::string_view bytes) { return fmt::format("\"{}\"", printable(bytes, 256)); }

std::string count_text(std::uint64_t count) { return fmt::format("{} byte{}", count, count == 1 ? "" : "s"); }

struct FlagName {
  std::uint32_t bits;
  const char* name;
};

// ", A|B", or nothing where none is set.
std::string flags_text(std::uint32_t flags, std::span<const FlagName> names) {
  std::string text;
  for (const FlagName& flag : names) {
    if ((flags & flag.bits) == flag.bits) text += fmt::format("{}{}", text.empty() ? ", " : "|", flag.name);
  }
  return text;
}

constexpr FlagName kWriteFlags[] = {
    {kTraceAppend, "O_APPEND"}, {kTraceDirect, "O_DIRECT"}, {kTraceSync, "O_SYNC"}, {kTraceDsync, "O_DSYNC"}};
constexpr FlagName kRenameFlags[] = {{RENAME_NOREPLACE, "RENAME_NOREPLACE"}, {RENAME_EXCHANGE, "RENAME_EXCHANGE"}};
constexpr FlagName kFallocateModes[] = {
    {FALLOC_FL_PUNCH_HOLE, "PUNCH_HOLE"},         {FALLOC_FL_ZERO_RANGE, "ZERO_RANGE"},
    {FALLOC_FL_COLLAPSE_RANGE, "COLLAPSE_RANGE"}, {FALLOC_FL_INSERT_RANGE, "INSERT_RANGE"},
    {FALLOC_FL_KEEP_SIZE, "KEEP_SIZE"},           {kTraceFailed, "failed"}};

std::string setattr_text(const std::string& path, const AttrChange& change) {
  const bool has_owner = change.uid || change.gid;
  const bool has_time = change.atime || change.mtime;
  if (change.mode && !has_owner && !has_time) return fmt::format("chmod({}, {:04o})", path, *change.mode & 07777);
  if (has_owner && !change.mode && !has_time) {
    const auto id = [](auto wanted) { return wanted ? static_cast<int>(*wanted) : -1; };
    return fmt::format("chown({}, {}, {})", path, id(change.uid), id(change.gid));
  }
  if (has_time && !change.mode && !has_owner) return fmt::format("utimens({})", path);
  return fmt::format("setattr({})", path);
}

std::string create_text(const std::string& path, mode_t mode) {
  return S_ISREG(mode) ? fmt::format("create({}, {:04o})", path, mode & 07777)
                       : fmt::format("mknod({}, {:06o})", path, mode);
}

}  // namespace

std::string call_text(const TraceOp& op, const std::function<std::string(Ino)>& path_of) {
  const auto path = [&](Ino dir, std::string_view name) {
    const std::string last = printable(name, 256);
    return dir == kRootIno ? last : path_of(dir) + "/" + last;
  };
  switch (op.call) {
    case TraceCall::kCreate:
      return create_text(path(op.dir, op.name), op.mode);
    case TraceCall::kMkdir:
      return fmt::format("mkdir({}, {:04o})", path(op.dir, op.name), op.mode & 07777);
    case TraceCall::kSymlink:
      return fmt::format("symlink({}, {})", quoted(op.text), path(op.dir, op.name));
    case TraceCall::kTmpfile:
      return fmt::format("open({}, O_TMPFILE, {:04o})", path_of(op.dir), op.mode & 07777);
    case TraceCall::kLink:
      return fmt::format("link({}, {})", path_of(op.ino), path(op.dir, op.name));
    case TraceCall::kUnlink:
      return fmt::format("unlink({})", path(op.dir, op.name));
    case TraceCall::kRmdir:
      return fmt::format("rmdir({})", path(op.dir, op.name));
    case TraceCall::kRename:
      return fmt::format("rename({}, {}{})", path(op.dir, op.name), path(op.to_dir, op.to_name),
                         flags_text(op.flags, kRenameFlags));
    case TraceCall::kSetattr:
      return setattr_text(path_of(op.ino), op.change);
    case TraceCall::kSetXattr:
      return fmt::format("setxattr({}, {}, {})", path_of(op.ino), printable(op.name, 256), count_text(op.text.size()));
    case TraceCall::kRemoveXattr:
      return fmt::format("removexattr({}, {})", path_of(op.ino), printable(op.name, 256));
    case TraceCall::kAddOpen:
      return fmt::format("open({})", path_of(op.ino));
    case TraceCall::kRelease:
      return fmt::format("close({})", path_of(op.ino));
    case TraceCall::kWrite:
      return fmt::format("write({}, {} at {}{})", path_of(op.ino), count_text(op.data.size()), op.offset,
                         flags_text(op.flags, kWriteFlags));
    case TraceCall::kTruncate:
      return fmt::format("truncate({}, {})", path_of(op.ino), op.length);
    case TraceCall::kFallocate:
      return fmt::format("fallocate({}, {} at {}{})", path_of(op.ino), count_text(op.length), op.offset,
                         flags_text(op.flags, kFallocateModes));
    case TraceCall::kFsync:
      return fmt::format("{}({})", op.flags & kTraceDatasync ? "fdatasync" : "fsync", path_of(op.ino));
    case TraceCall::kSync:
      return "sync()";
    case TraceCall::kSyncFileRange:
      return fmt::format("sync_file_range({}, {} at {})", path_of(op.ino), count_text(op.length), op.offset);
    case TraceCall::kMakeDurable:
      return "everything so far is made durable";
    case TraceCall::kMark:
      return fmt::format("mark({})", quoted(op.text));
    case TraceCall::kStopped:
      return "the program is stopped";
    case TraceCall::kProcess:
    case TraceCall::kCodeFile:
    case TraceCall::kStack:
    case TraceCall::kEnd:
      break;
  }
  return "";
}

TraceText::TraceText(const std::vector<TraceProcess>& processes, Filesystem& filesystem)
    : processes_(processes), filesystem_(filesystem) {}

std::string TraceText::describe(const TraceOp& op) {
  constexpr std::size_t kFirstReal = 1;  // [0] is the unknown one
  std::string text = call_text(op, [this](Ino ino) { return path(ino); });
  if (processes_.size() > kFirstReal + 1 && op.process >= kFirstReal && !processes_[op.process].command.empty()) {
    text = fmt::format("{}: {}", printable(processes_[op.process].command, 64), text);
  }
  follow(op);
  return text;
}

std::string TraceText::path(Ino ino) const {
  // A trace from anywhere may nest directories by the hundred thousand.
  constexpr int kComponentsMost = 32;
  if (ino == kRootIno) return ".";
  const auto found = names_.find(static_cast<std::uint64_t>(ino));
  if (found == names_.end()) return fmt::format("inode {}", static_cast<std::uint64_t>(ino));
  std::string text = printable(found->second.name, 256);
  Ino dir = found->second.dir;
  for (int left = kComponentsMost; dir != kRootIno; --left) {
    const auto above = names_.find(static_cast<std::uint64_t>(dir));
    if (above == names_.end()) break;
    if (left == 0) {
      text = ".../" + text;
      break;
    }
    text = printable(above->second.name, 256) + "/" + text;
    dir = above->second.dir;
  }
  if (found->second.is_removed) text += " (deleted)";
  return text;
}

// ---- names --------------------------------------------------------------------------------------------------------

void TraceText::follow(const TraceOp& op) {
  switch (op.call) {
    case TraceCall::kCreate:
    case TraceCall::kMkdir:
    case TraceCall::kSymlink:
      set_name(op.ino, op.dir, op.name);
      return;
    case TraceCall::kLink: {
      // People know a file by its first name, as long as it has that.
      const auto known = names_.find(static_cast<std::uint64_t>(op.ino));
      if (known == names_.end() || known->second.is_removed) set_name(op.ino, op.dir, op.name);
      return;
    }
    case TraceCall::kUnlink:
    case TraceCall::kRmdir:
      remove_name(op.dir, op.name);
      return;
    case TraceCall::kRename: {
      const Ino moved = lookup(op.dir, op.name);
      const Ino replaced = lookup(op.to_dir, op.to_name);
      if (moved == kNoIno || moved == replaced) return;
      if (op.flags & RENAME_EXCHANGE) {
        set_name(replaced, op.dir, op.name);
      } else {
        remove_name(op.to_dir, op.to_name);
      }
      set_name(moved, op.to_dir, op.to_name);
      return;
    }
    default:
      return;
  }
}

void TraceText::set_name(Ino ino, Ino dir, std::string_view name) {
  if (ino != kNoIno) names_[static_cast<std::uint64_t>(ino)] = Name{dir, std::string(name)};
}

void TraceText::remove_name(Ino dir, std::string_view name) {
  const auto found = names_.find(static_cast<std::uint64_t>(lookup(dir, name)));
  if (found != names_.end() && found->second.dir == dir && found->second.name == name) found->second.is_removed = true;
}

Ino TraceText::lookup(Ino dir, std::string_view name) const {
  Ino ino{};
  return filesystem_.lookup(dir, name, ino) == 0 ? ino : kNoIno;
}

}  // namespace crashcut::fusefs
