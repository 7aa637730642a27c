#include "tests/mounted.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "fusefs/trace_replay.h"
#include "fusefs/trace_text.h"

namespace crashcut::tests {

using namespace fusefs;

std::string why_no_mount() {
  if (access("/dev/fuse", R_OK | W_OK) != 0) return "no /dev/fuse, or no permission to open it";
  if (geteuid() != 0) return "not root: the tests need other users and allow_other";
  return "";
}

// ---- ListedDisk ---------------------------------------------------------------------------------------------------

ListedDisk::ListedDisk(const std::map<std::string, File>& files) {
  std::uint64_t next = static_cast<std::uint64_t>(kRootIno);
  const auto add = [&](const std::string& path, const File& file) {
    inodes_[next] = Inode{path, file, {}};
    return Ino{next++};
  };
  std::map<std::string, Ino> by_path{{"", add(".", File{.mode = kRootMode})}};
  for (const auto& [path, file] : files) {
    const auto slash = path.rfind('/');
    const std::string dir = slash == path.npos ? "" : path.substr(0, slash);
    const Ino ino = add(path, file);
    by_path[path] = ino;
    at(by_path.at(dir)).names[slash == path.npos ? path : path.substr(slash + 1)] = ino;
  }
}

Ino ListedDisk::lookup(Ino dir, std::string_view name) {
  log_ += fmt::format("lookup {} {}\n", at(dir).path, name);
  const auto found = at(dir).names.find(name);
  return found == at(dir).names.end() ? kNoIno : found->second;
}

std::vector<std::string> ListedDisk::possible_names(Ino dir) {
  log_ += fmt::format("names {}\n", at(dir).path);
  std::vector<std::string> names;
  for (const auto& [name, ino] : at(dir).names) names.push_back(name);
  return names;
}

mode_t ListedDisk::type(Ino ino) { return at(ino).file.mode & S_IFMT; }

std::uint64_t ListedDisk::size(Ino ino) {
  log_ += fmt::format("size {}\n", at(ino).path);
  return at(ino).file.content.size();
}

Meta ListedDisk::meta(Ino ino) {
  log_ += fmt::format("meta {}\n", at(ino).path);
  const Inode& inode = at(ino);
  const bool is_dir = S_ISDIR(inode.file.mode);
  Meta meta{.mode = inode.file.mode, .uid = inode.file.uid, .gid = inode.file.gid, .nlink = is_dir ? nlink_t{2} : 1};
  if (S_ISLNK(inode.file.mode)) meta.symlink_target = inode.file.content;
  for (const auto& [name, child] : inode.names) meta.nlink += S_ISDIR(at(child).file.mode);
  return meta;
}

Owner ListedDisk::owner(Ino ino) {
  log_ += fmt::format("owner {}\n", at(ino).path);
  const File& file = at(ino).file;
  return Owner{file.mode, file.uid, file.gid};
}

bool ListedDisk::is_written(Ino ino, std::uint64_t block) {
  log_ += fmt::format("is_written {} {}\n", at(ino).path, block);
  return true;
}

void ListedDisk::read_bytes(Ino ino, std::uint64_t offset, std::span<std::byte> out) {
  log_ += fmt::format("bytes {} {} {}\n", at(ino).path, offset, out.size());
  std::memcpy(out.data(), at(ino).file.content.data() + offset, out.size());
}

Ino ListedDisk::first_free_ino() { return Ino{inodes_.rbegin()->first + 1}; }

// ---- the server ---------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kMessageBytesMax = 1 << 16;

// A disk, the filesystem on it, and what is mounted.
struct Served {
  Served(const Mounted::Setup& setup, const std::map<std::string, ListedDisk::File>* files, TraceWriter* writer) {
    if (files) disk = std::make_unique<ListedDisk>(*files);
    filesystem = std::make_unique<Filesystem>(Filesystem::Setup{
        .medium = disk.get(), .capacity_bytes = setup.capacity_bytes, .noatime = true, .clock = clock.reader()});
    traced = std::make_unique<Traced>(*filesystem, clock, writer);
    volume = std::make_unique<Volume>(Volume{*filesystem, *traced, {}});
    if (!setup.has_special_files) return;
    volume->special_files.push_back(
        SpecialFile{.name = "hello", .content = [] { return std::string("hello there\n"); }});
    volume->special_files.push_back(SpecialFile{.name = "note",
                                                .content = [this] { return note; },
                                                .on_write = [this](std::string_view text) { note += text; }});
  }

  TraceClock clock;
  std::unique_ptr<ListedDisk> disk;
  std::unique_ptr<Filesystem> filesystem;
  std::unique_ptr<Traced> traced;
  std::unique_ptr<Volume> volume;
  std::string note;
};

void send_text(int channel, const std::string& text) {
  [[maybe_unused]] const ssize_t sent =
      send(channel, text.data(), std::min(text.size(), kMessageBytesMax), MSG_NOSIGNAL);
}

std::string answer(const std::string& question, Mount& mount, std::vector<std::unique_ptr<Served>>& all,
                   std::size_t& shown) {
  if (question.starts_with("show ")) {
    shown = std::stoul(question.substr(5));
    mount.show(*all.at(shown)->volume);
  } else if (question == "mapping") {
    mount.note_shared_mapping();
  } else if (question == "pages") {
    return mount.was_read_by_pages() ? "1" : "0";
  } else if (question == "count") {
    return std::to_string(mount.request_count());
  } else if (question == "log") {
    std::string log;
    mount.while_quiet([&](Volume&) { log = all.at(shown)->disk->take_log(); });
    return log + ".";
  }
  return "ok";
}

}  // namespace

void Mounted::serve(const Setup& setup, int channel) {
  std::unique_ptr<TraceWriter> writer;
  if (setup.disks.empty() && setup.is_traced) {
    auto made = TraceWriter::create(trace_path(), TraceHeader{.capacity_bytes = setup.capacity_bytes});
    if (made) writer = std::move(*made);
  }
  {
    std::vector<std::unique_ptr<Served>> all;
    if (setup.disks.empty()) all.push_back(std::make_unique<Served>(setup, nullptr, writer.get()));
    for (const auto& files : setup.disks) all.push_back(std::make_unique<Served>(setup, &files, nullptr));
    auto mount = Mount::start({.directory = directory_, .caching = setup.caching, .allow_others = geteuid() == 0},
                              *all[0]->volume);
    send_text(channel, mount ? "ok" : mount.error());
    std::size_t shown = 0;
    std::array<char, 256> text;
    for (;;) {
      const ssize_t length = recv(channel, text.data(), text.size(), 0);
      if (length <= 0 || !mount) break;  // the test is gone
      const std::string question(text.data(), static_cast<std::size_t>(length));
      if (question == "stop") break;
      send_text(channel, answer(question, **mount, all, shown));
    }
  }
  if (writer) writer->finish();
  _exit(0);
}

// ---- the test's side ----------------------------------------------------------------------------------------------

Mounted::Mounted(const Setup& setup) {
  std::string pattern = (std::filesystem::temp_directory_path() / "crashcut_mount_XXXXXX").string();
  base_ = mkdtemp(pattern.data());
  chmod(base_.c_str(), 0755);  // other users come through here
  directory_ = base_ + "/m";
  std::filesystem::create_directory(directory_);
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  server_ = fork();
  if (server_ == 0) {
    close(ends[0]);
    serve(setup, ends[1]);
  }
  close(ends[1]);
  channel_ = ends[0];
  std::array<char, 1024> text{};
  const ssize_t length = recv(channel_, text.data(), text.size(), 0);
  EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))), "ok");
}

Mounted::~Mounted() {
  if (server_ > 0) {
    send_text(channel_, "stop");
    waitpid(server_, nullptr, 0);
  }
  if (channel_ >= 0) close(channel_);
  std::error_code ignored;
  umount2(directory_.c_str(), MNT_DETACH);  // where the server has died
  std::filesystem::remove_all(base_, ignored);
}

std::string Mounted::ask(const std::string& question) {
  send_text(channel_, question);
  std::string text(kMessageBytesMax, '\0');
  const ssize_t length = recv(channel_, text.data(), text.size(), 0);
  EXPECT_GT(length, 0) << "the server has died";
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

void Mounted::show(std::size_t volume) { ask("show " + std::to_string(volume)); }
void Mounted::note_shared_mapping() { ask("mapping"); }
bool Mounted::was_read_by_pages() { return ask("pages") == "1"; }
std::uint64_t Mounted::request_count() { return std::stoull(ask("count")); }

std::string Mounted::take_log() {
  std::string log = ask("log");
  if (!log.empty()) log.pop_back();  // the mark of its end: a packet is never empty
  return log;
}

void Mounted::kill_server() {
  kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
  server_ = -1;
}

std::vector<std::string> Mounted::finish() {
  send_text(channel_, "stop");
  int status = 0;
  waitpid(server_, &status, 0);
  EXPECT_EQ(status, 0) << "the server has died";
  server_ = -1;
  const auto trace = TraceReader::open(trace_path());
  if (!trace) {
    ADD_FAILURE() << trace.error();
    return {};
  }
  EXPECT_TRUE(trace->is_complete());
  // What was recorded can be done again, with the same outcome.
  const auto replayed = replay(*trace, ModelOptions{});
  EXPECT_TRUE(replayed) << (replayed ? "" : replayed.error().sentence);
  // TraceText looks names up as they were: follow them beside it, by names alone.
  Filesystem names(Filesystem::Setup{});
  const std::vector<TraceProcess> nobody;
  TraceText text(nobody, names);
  TraceReader::Cursor cursor(*trace);
  std::vector<std::string> lines;
  for (TraceOp op; cursor.next(op);) {
    lines.push_back(text.describe(op));
    Ino made{};
    switch (op.call) {
      case TraceCall::kCreate:
        names.create(op.dir, op.name, op.mode, op.rdev, {}, made);
        break;
      case TraceCall::kMkdir:
        names.mkdir(op.dir, op.name, op.mode, {}, made);
        break;
      case TraceCall::kSymlink:
        names.symlink(op.dir, op.name, op.text, {}, made);
        break;
      case TraceCall::kTmpfile:
        names.tmpfile(op.dir, op.mode, {}, made);
        break;
      case TraceCall::kLink:
        names.link(op.ino, op.dir, op.name);
        break;
      case TraceCall::kUnlink:
        names.unlink(op.dir, op.name);
        break;
      case TraceCall::kRmdir:
        names.rmdir(op.dir, op.name);
        break;
      case TraceCall::kRename:
        names.rename(op.dir, op.name, op.to_dir, op.to_name, op.flags);
        break;
      case TraceCall::kAddOpen:
        names.add_open(op.ino);
        break;
      case TraceCall::kRelease:
        names.release(op.ino, false);
        break;
      default:
        break;
    }
  }
  return lines;
}

}  // namespace crashcut::tests
