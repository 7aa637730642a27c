#include "cli/program.h"

#include <elf.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/compiler.h"
#include "cli/guard.h"
#include "cli/instrumentation.h"
#include "cli/interrupts.h"
#include "recovery/inprocess/elf_check.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;

fs::path our_directory() { return fs::read_symlink("/proc/self/exe").parent_path(); }

// The compiler for a source file; nothing for another file.
const char* compiler_for(const fs::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".c") return "cc";
  for (const char* known : {".cc", ".cpp", ".cxx", ".c++", ".C"}) {
    if (extension == known) return "c++";
  }
  return nullptr;
}

// The note that the linker leaves in an executable; empty where there is none.
std::string build_id_of(std::ifstream& file) {
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) || std::memcmp(&header, ELFMAG, SELFMAG) != 0)
    return "";
  constexpr std::size_t kNotesMost = 1 << 16;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + std::uint64_t{i} * sizeof segment));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return "";
    if (segment.p_type != PT_NOTE || segment.p_filesz > kNotesMost) continue;
    std::string notes(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(notes.data(), static_cast<std::streamsize>(notes.size()))) return "";
    for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
      Elf64_Nhdr note{};
      std::memcpy(&note, notes.data() + at, sizeof note);
      const std::size_t name = at + sizeof note, text = name + (note.n_namesz + 3) / 4 * 4;
      const std::size_t end = text + (note.n_descsz + 3) / 4 * 4;
      if (text < name || end < text || end > notes.size()) break;
      if (note.n_type == NT_GNU_BUILD_ID && notes.compare(name, note.n_namesz, "GNU\0", 4) == 0) {
        std::string id;
        for (std::size_t k = 0; k < note.n_descsz; ++k)
          id += fmt::format("{:02x}", static_cast<unsigned char>(notes[text + k]));
        return id;
      }
      at = end;
    }
  }
  return "";
}

std::string id_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (const std::string id = build_id_of(file); !id.empty()) return id;
  file.clear();
  file.seekg(0);
  boost::crc_optimal<64, 0x42f0e1eba9ea3693, ~std::uint64_t{0}, ~std::uint64_t{0}, true, true> crc;
  std::vector<char> piece(1 << 16);
  do {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    crc.process_bytes(piece.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  return fmt::format("{:016x}", crc.checksum());
}

// Runs the command to its end, in a process group; -1: errno says why not.
int run_to_end(const std::vector<std::string>& command, std::vector<std::string> environment, pid_t group) {
  std::vector<char*> argv, envp;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  for (std::string& entry : environment) envp.push_back(entry.data());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "TMPDIR=", 7) != 0) envp.push_back(*entry);
  }
  envp.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, group);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    errno = error;
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

tl::expected<void, Failure> compile(const fs::path& source, const std::string& named, const fs::path& output,
                                    pid_t group, Program::Compiled how) {
  const auto header = find_header_directory();
  if (!header) return tl::unexpected(header.error());
  const char* compiler = compiler_for(source);
  // By the name that the user gave, since assertions print it.
  std::vector<std::string> command = {
      compiler,   "-g", "-O1", "-I" + *header, "-o", output.string(), named[0] == '-' ? "./" + named : named,
      "-lpthread"};
  if (std::string_view(compiler).ends_with("++")) command.insert(command.begin() + 1, "-std=c++20");
  if (how == Program::Compiled::kPmem) {
    // None of these instructions is ever executed: the plugin replaces them.
    command.insert(command.begin() + 1, {"-mclflushopt", "-mclwb", "-mmovdiri", "-mmovdir64b"});
    const auto clang =
        pmem_compiler(std::string_view(compiler).ends_with("++"), {}, {command.begin() + 1, command.end()});
    if (!clang) return tl::unexpected(clang.error());
    command = *clang;
  }
  if (how == Program::Compiled::kInstrumented) {
    const auto flags = instrumentation_flags(compiler);
    if (!flags) return tl::unexpected(flags.error());
    command.insert(command.begin() + 1, flags->begin(), flags->end());
  }
  const int status = run_to_end(command, {"TMPDIR=" + output.parent_path().string()}, group);
  if (status == -1)
    return result::wrong_use(fmt::format("Cannot run the compiler {}: {}.", command[0], std::strerror(errno)));
  if (status != 0) {
    const bool is_cxx = std::string_view(compiler).ends_with("++");
    return result::wrong_use(fmt::format(
        "{} cannot be built: see what {} says above. If it needs other files or libraries, build it first ({} -g -o "
        "prog FILES LIBRARIES) and name the executable.",
        named, command[0],
        how != Program::Compiled::kPmem ? compiler
        : is_cxx                        ? "crashcut cxx --pmem"
                                        : "crashcut cc --pmem"));
  }
  return {};
}

}  // namespace

tl::expected<std::string, Failure> find_header_directory() {
  for (const fs::path& directory : {our_directory() / "include", fs::path(CRASHCUT_SOURCE_INCLUDE)}) {
    if (fs::exists(directory / "crashcut.h")) return directory.string();
  }
  return result::tool_failed(fmt::format("crashcut.h is missing: it is neither in {} nor in {}.",
                                         (our_directory() / "include").string(), CRASHCUT_SOURCE_INCLUDE));
}

// A temporary directory, removed with all in it.
class Program::Directory {
 public:
  explicit Directory(const fs::path& executable_name)
      : path_(fs::absolute(fs::temp_directory_path()) / fs::unique_path("crashcut-%%%%-%%%%-%%%%")),
        file_(path_ / executable_name),
        guard_(path_.string()) {
    fs::create_directory(path_);
    fs::permissions(path_, fs::owner_all);
    watch_guard(&guard_);
  }
  Directory(const Directory&) = delete;
  ~Directory() {
    guard_.finish();
    watch_guard(nullptr);
  }
  const fs::path& file() const { return file_; }
  pid_t group() const { return guard_.group(); }

 private:
  fs::path path_;
  fs::path file_;
  Guard guard_;
};

Program::Program(std::string path, std::string executable, std::unique_ptr<Directory> directory)
    : path_(std::move(path)), id_(id_of(path_)), executable_(std::move(executable)), directory_(std::move(directory)) {}
Program::Program(Program&&) noexcept = default;
Program::~Program() = default;

std::string find_in_path(const std::string& name) {
  const char* list = std::getenv("PATH");
  const std::string paths = list != nullptr ? list : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= paths.size();) {
    const std::size_t end = std::min(paths.find(':', at), paths.size());
    const std::string path = paths.substr(at, end - at) + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
    at = end + 1;
  }
  return "";
}

tl::expected<Program, Failure> Program::prepare(const std::string& named, Compiled how) try {
  fs::path path = fs::absolute(named).lexically_normal();
  boost::system::error_code error;
  fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) && named.find('/') == std::string::npos) {
    if (const std::string found = find_in_path(named); !found.empty()) {
      path = found;
      status = fs::status(path, error);
    }
  }
  if (!fs::exists(status)) {
    return result::wrong_use(
        fmt::format("Cannot find {}: {}.", named, error ? error.message() : "No such file or directory"));
  }
  if (compiler_for(path) == nullptr) {
    if (auto ok = inprocess::check_executable(path.string()); !ok) return result::wrong_use(ok.error());
    return Program(path.string(), path.string(), nullptr);
  }
  auto directory = std::make_unique<Directory>(path.stem());
  if (auto ok = compile(path, named, directory->file(), directory->group(), how); !ok)
    return tl::unexpected(ok.error());
  std::string executable = directory->file().string();
  return Program(path.string(), std::move(executable), std::move(directory));
} catch (const std::runtime_error& error) {
  return result::tool_failed(fmt::format("Cannot prepare {}: {}.", named, error.what()));
}

std::vector<std::string> named_here(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  boost::system::error_code error;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].starts_with("-") ? words[i].find('=') : std::string::npos;
    const std::string word = equals == std::string::npos ? words[i] : words[i].substr(equals + 1);
    const bool is_path = !word.empty() && word[0] != '/' && word.find_first_of(" \n") == std::string::npos;
    if (!is_path || !fs::is_regular_file(word, error)) continue;
    const fs::path path = fs::path(word).lexically_normal();
    if (*path.begin() != "..") names.push_back(path.string());
  }
  return names;
}

tl::expected<std::string, Failure> find_runtime() {
  const fs::path path = our_directory() / "libcrashcut_runtime.so";
  if (!fs::exists(path)) return result::tool_failed(fmt::format("The runtime is missing: {}.", path.string()));
  return path.string();
}

tl::expected<Program, Failure> prepare(recovery::Plan& plan, const std::string& named, Program::Compiled how) {
  const auto runtime = find_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  auto program = Program::prepare(named, how);
  if (!program) return program;
  plan.named = named;
  plan.program = program->path();
  plan.program_id = program->id();
  plan.executable = program->executable();
  plan.runtime = *runtime;
  return program;
}

static bool contains(const std::string& executable, std::string_view name) {
  std::ifstream file(executable, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return bytes.find(name) != std::string::npos;
}

bool is_memory_seen(const std::string& executable) { return contains(executable, "__crashcut_module"); }
bool has_callbacks(const std::string& executable) { return contains(executable, "__tsan_init"); }

tl::expected<Program, Failure> prepare_run(recovery::Plan& plan, const std::string& named) {
  auto program =
      prepare(plan, named, plan.memory && !plan.traps ? Program::Compiled::kPmem : Program::Compiled::kPlain);
  // Callbacks tell neither flushes nor fences, and plain accesses too early: these are trapped.
  if (program && plan.memory && has_callbacks(plan.executable) && !is_memory_seen(plan.executable)) plan.traps = true;
  return program;
}

tl::expected<std::string, Failure> find_program(const result::Token& token, const std::string& given,
                                                const std::string& directory) {
  if (!given.empty()) {
    if (id_of(given) != token.program_id)
      fmt::print(stderr, "note: {} is not the very program that the token was made from ({}).\n", given, token.program);
    return given;
  }
  const std::string last = fs::path(token.program).filename().string();
  std::vector<std::string> places = {"./" + token.program, "./" + last};
  if (fs::path(token.program).is_absolute()) places.front() = token.program;
  if (!directory.empty()) places.insert(places.begin(), directory + "/" + last);
  if (const std::string in_path = find_in_path(last); !in_path.empty()) places.push_back(in_path);
  std::string others;
  for (const std::string& place : places) {
    boost::system::error_code error;
    if (!fs::is_regular_file(place, error)) continue;
    if (id_of(place) == token.program_id) return place;
    if (others.find(place) == std::string::npos) others += (others.empty() ? "" : ", ") + place;
  }
  const std::string why = others.empty()
                              ? "There is no such file in the current directory nor in PATH."
                              : fmt::format("{} differs from it: it has changed, or was built anew.", others);
  return result::wrong_use(fmt::format(
      "The program that this token was made from, {}, is not found. {} Name it with --program.", token.program, why));
}

}  // namespace crashcut::cli
