#include "cli/program.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>

#include "cli/guard.h"
#include "cli/instrumentation.h"
#include "cli/interrupts.h"
#include "recovery/inprocess/elf_check.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using inprocess::Failure;

tl::unexpected<Failure> user_failure(std::string sentence) {
  return tl::unexpected(Failure{Failure::Blame::kUser, std::move(sentence)});
}
tl::unexpected<Failure> tool_failure(std::string sentence) {
  return tl::unexpected(Failure{Failure::Blame::kTool, std::move(sentence)});
}

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

tl::expected<std::string, Failure> find_header_directory() {
  for (const fs::path& directory : {our_directory() / "include", fs::path(CRASHCUT_SOURCE_INCLUDE)}) {
    if (fs::exists(directory / "crashcut.h")) return directory.string();
  }
  return tool_failure(fmt::format("crashcut.h is missing: it is neither in {} nor in {}.",
                                  (our_directory() / "include").string(), CRASHCUT_SOURCE_INCLUDE));
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
                                    pid_t group, bool is_instrumented) {
  const auto header = find_header_directory();
  if (!header) return tl::unexpected(header.error());
  const char* compiler = compiler_for(source);
  // By the name that the user gave, since assertions print it.
  std::vector<std::string> command = {
      compiler,   "-g", "-O1", "-I" + *header, "-o", output.string(), named[0] == '-' ? "./" + named : named,
      "-lpthread"};
  if (std::string_view(compiler).ends_with("++")) command.insert(command.begin() + 1, "-std=c++20");
  if (is_instrumented) {
    const auto flags = instrumentation_flags(compiler);
    if (!flags) return tl::unexpected(flags.error());
    command.insert(command.begin() + 1, flags->begin(), flags->end());
  }
  const int status = run_to_end(command, {"TMPDIR=" + output.parent_path().string()}, group);
  if (status == -1) return user_failure(fmt::format("Cannot run the compiler {}: {}.", compiler, std::strerror(errno)));
  if (status != 0) return user_failure(fmt::format("{} cannot be built: see what {} says above.", named, compiler));
  return {};
}

}  // namespace

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
    : path_(std::move(path)), executable_(std::move(executable)), directory_(std::move(directory)) {}
Program::Program(Program&&) noexcept = default;
Program::~Program() = default;

tl::expected<Program, Failure> Program::prepare(const std::string& named, bool is_instrumented) try {
  const fs::path path = fs::absolute(named).lexically_normal();
  boost::system::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return user_failure(
        fmt::format("Cannot find {}: {}.", named, error ? error.message() : "No such file or directory"));
  }
  if (compiler_for(path) == nullptr) {
    if (auto ok = inprocess::check_executable(path.string()); !ok) return user_failure(ok.error());
    return Program(path.string(), path.string(), nullptr);
  }
  auto directory = std::make_unique<Directory>(path.stem());
  if (auto ok = compile(path, named, directory->file(), directory->group(), is_instrumented); !ok)
    return tl::unexpected(ok.error());
  std::string executable = directory->file().string();
  return Program(path.string(), std::move(executable), std::move(directory));
} catch (const std::runtime_error& error) {
  return tool_failure(fmt::format("Cannot prepare {}: {}.", named, error.what()));
}

static tl::expected<std::string, Failure> find_beside(const char* name) {
  const fs::path path = our_directory() / name;
  if (!fs::exists(path)) return tool_failure(fmt::format("The runtime is missing: {}.", path.string()));
  return path.string();
}

tl::expected<std::string, Failure> find_runtime() { return find_beside("libcrashcut_runtime.so"); }

tl::expected<Program, Failure> prepare_threads(recovery::ThreadPlan& plan) {
  const auto runtime = find_beside("libcrashcut_threads.so");
  if (!runtime) return tl::unexpected(runtime.error());
  auto program = Program::prepare(plan.program, true);
  if (!program) return program;
  plan.program = program->path();
  plan.executable = program->executable();
  plan.runtime = *runtime;
  return program;
}

}  // namespace crashcut::cli
