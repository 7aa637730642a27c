#include "recovery/source/names.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "recovery/source/elf_file.h"
#include "recovery/source/lines.h"
#include "recovery/source/variables.h"

namespace crashcut::source {
namespace {

constexpr char kFrames = 'f', kVariable = 'v', kLocal = 'l';
constexpr std::uint32_t kMessageMost = 1 << 20;
constexpr std::size_t kNameMost = 1000;
constexpr std::size_t kFilesMost = 200;  // that a reader keeps open

// --- messages: numbers and texts, one after the other

void put_number(std::string& message, std::uint64_t number) {
  message.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put_text(std::string& message, std::string_view text) {
  put_number(message, text.size());
  message += text;
}
// 0, or an empty text, behind the end.
std::uint64_t take_number(std::string_view& message) {
  std::uint64_t number = 0;
  if (message.size() < sizeof number) return message = {}, 0;
  std::memcpy(&number, message.data(), sizeof number);
  message.remove_prefix(sizeof number);
  return number;
}
std::string take_text(std::string_view& message) {
  const std::uint64_t bytes = take_number(message);
  if (bytes > message.size()) return message = {}, "";
  std::string text(message.substr(0, bytes));
  message.remove_prefix(bytes);
  return text;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}
bool send_message(int fd, std::string_view message) {
  const auto bytes = static_cast<std::uint32_t>(message.size());
  return send_all(fd, std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + std::string(message));
}

// wait() says whether it makes sense to go on reading.
template <class Wait>
bool receive_all(int fd, char* at, std::size_t bytes, const Wait& wait) {
  while (bytes > 0) {
    if (!wait()) return false;
    const ssize_t got = recv(fd, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}
template <class Wait>
std::optional<std::string> receive_message(int fd, const Wait& wait) {
  std::uint32_t bytes = 0;
  if (!receive_all(fd, reinterpret_cast<char*>(&bytes), sizeof bytes, wait) || bytes > kMessageMost)
    return std::nullopt;
  std::string message(bytes, '\0');
  if (!receive_all(fd, message.data(), bytes, wait)) return std::nullopt;
  return message;
}

// --- the reader's own process

struct KnownFile {
  explicit KnownFile(const std::string& path) : file(path), lines(file), variables(file) {}
  ElfFile file;
  Lines lines;
  Variables variables;
};

std::string answer_to(char question, const Names::OnStack& place, KnownFile& known) {
  std::string answer;
  const std::uint64_t address = place.address;
  if (question == kVariable || question == kLocal) {
    const std::string name = question == kVariable
                                 ? known.variables.name_at(address)
                                 : known.variables.local_at(place.code, place.begin, place.end, address);
    put_text(answer, name.substr(0, kNameMost));
    return answer;
  }
  constexpr std::size_t kFramesMost = 100;
  std::vector<SourceLine> frames = known.lines.frames_at(address);
  if (frames.size() > kFramesMost) frames.resize(kFramesMost);
  put_number(answer, frames.size());
  for (const SourceLine& frame : frames) {
    put_text(answer, std::string_view(frame.function).substr(0, kNameMost));
    put_text(answer, std::string_view(frame.file).substr(0, kNameMost));
    put_number(answer, frame.line);
    put_number(answer, frame.is_library ? 1 : 0);
  }
  return answer;
}

// What a hostile file can make libdw do has an end: in memory, in time, and in what is left behind.
void limit_process() {
  constexpr rlim_t kMemoryMost = rlim_t{2} << 30, kProcessorMost_s = 120;
  const auto limit = [](auto which, rlim_t most) {
    const rlimit both{most, most};
    setrlimit(which, &both);
  };
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kProcessorMost_s);
  std::uint64_t pages[6] = {};  // the last: data and stack
  std::ifstream statm("/proc/self/statm");
  for (std::uint64_t& number : pages) statm >> number;
  if (statm) limit(RLIMIT_DATA, pages[5] * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + kMemoryMost);
}

// Signals are the reader's own again, and it holds no file of crashcut's open.
void become_reader(int fd) {
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // of the terminal, for crashcut to decide about
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (fd > 3) close_range(3, static_cast<unsigned>(fd) - 1, 0);
  close_range(static_cast<unsigned>(fd) + 1, ~0U, 0);
  limit_process();
}

[[noreturn]] void read_for_good(int fd) {
  become_reader(fd);
  std::map<std::string, KnownFile> files;
  const auto wait = [] { return true; };
  while (const auto message = receive_message(fd, wait)) {
    std::string_view rest = *message;
    const auto question = static_cast<char>(take_number(rest));
    Names::OnStack place{};
    for (std::uint64_t* number : {&place.code, &place.begin, &place.end, &place.address}) *number = take_number(rest);
    const std::string path = take_text(rest);
    if (files.size() == kFilesMost && !files.contains(path)) files.clear();  // each keeps its descriptors
    if (!send_message(fd, answer_to(question, place, files.try_emplace(path, path).first->second))) break;
  }
  _exit(0);
}

bool is_system_file(const std::string& path) {
  return path.starts_with("/lib/") || path.starts_with("/lib64/") || path.starts_with("/usr/lib/");
}

}  // namespace

// The process that reads, as seen from crashcut.
class Names::Reader {
 public:
  Reader() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    process_ = fork();
    if (process_ == 0) read_for_good(ends[1]);
    close(ends[1]);
    fd_ = ends[0];
  }
  ~Reader() {
    if (fd_ >= 0) close(fd_);
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::optional<std::string> ask(const std::string& message, const std::function<bool()>& is_late) const {
    if (fd_ < 0 || process_ <= 0 || !send_message(fd_, message)) return std::nullopt;
    const auto end = std::chrono::steady_clock::now() + kAnswerMost;
    const auto wait = [&] {
      constexpr int kTick_ms = 50;
      pollfd answer{fd_, POLLIN, 0};
      while (poll(&answer, 1, kTick_ms) <= 0) {
        if ((is_late && is_late()) || std::chrono::steady_clock::now() > end) return false;
      }
      return true;
    };
    return receive_message(fd_, wait);
  }

 private:
  int fd_ = -1;
  pid_t process_ = -1;
};

Names::Names(std::function<bool()> is_late) : is_late_(std::move(is_late)) {}
Names::~Names() = default;

const std::string& Names::ask(char question, const std::string& file, const OnStack& place) {
  static const std::string kNone;
  std::string message;
  put_number(message, static_cast<unsigned char>(question));
  for (const std::uint64_t number : {place.code, place.begin, place.end, place.address}) put_number(message, number);
  put_text(message, file);
  if (const auto known = answers_.find(message); known != answers_.end()) return known->second;
  if (file.empty() || unreadable_.contains(file) || (is_late_ && is_late_())) return kNone;
  if (!reader_) reader_ = std::make_unique<Reader>();
  std::optional<std::string> answer = reader_->ask(message, is_late_);
  if (answer) return answers_[message] = std::move(*answer);
  reader_.reset();
  unreadable_.insert(file);
  return kNone;
}

std::vector<SourceLine> Names::frames_at(const std::string& file, std::uint64_t address) {
  std::string_view rest = ask(kFrames, file, {.address = address});
  std::vector<SourceLine> frames;
  for (std::uint64_t count = take_number(rest); count > 0 && !rest.empty(); --count) {
    SourceLine& frame = frames.emplace_back();
    frame.function = take_text(rest);
    frame.file = take_text(rest);
    frame.line = take_number(rest);
    frame.is_library = take_number(rest) != 0 || is_system_file(file);
  }
  return frames;
}

std::string Names::variable_at(const std::string& file, std::uint64_t address) {
  std::string_view rest = ask(kVariable, file, {.address = address});
  return take_text(rest);
}

std::string Names::local_at(const std::string& file, const OnStack& place) {
  std::string_view rest = ask(kLocal, file, place);
  return take_text(rest);
}

const SourceLine* best_of(const std::vector<SourceLine>& frames) {
  const SourceLine* best = nullptr;
  const auto rank = [](const SourceLine& frame) { return (frame.is_library ? 0 : 2) + (frame.file.empty() ? 0 : 1); };
  for (const SourceLine& frame : frames) {
    if (best == nullptr || rank(frame) > rank(*best)) best = &frame;
  }
  return best;
}

std::vector<SourceLine> own_frames(std::vector<SourceLine> frames) {
  const SourceLine* best = best_of(frames);
  if (best != nullptr && best->function == "_start") return {};  // main() has returned
  if (best != nullptr && best->is_library) return {*best};
  std::erase_if(frames, [](const SourceLine& frame) { return frame.is_library; });
  return frames;
}

}  // namespace crashcut::source
