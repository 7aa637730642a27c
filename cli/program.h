// Program: what the user named, made ready to run: an executable as it is, C and C++ source compiled.
//
// A compiled program lives in a temporary directory for as long as this object does.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/plan.h"
#include "recovery/result/failure.h"
#include "recovery/result/token.h"

namespace crashcut::cli {

class Program {
 public:
  // How source is compiled: as it is; with accesses seen (instrumentation.h); with persistent memory (compiler.h).
  enum class Compiled { kPlain, kInstrumented, kPmem };
  static tl::expected<Program, result::Failure> prepare(const std::string& named, Compiled how = Compiled::kPlain);
  Program(Program&&) noexcept;
  ~Program();

  // The absolute path of what was named.
  const std::string& path() const { return path_; }
  const std::string& executable() const { return executable_; }
  // The build id of an executable, else a checksum of what was named: another program has another one.
  const std::string& id() const { return id_; }

 private:
  class Directory;
  Program(std::string path, std::string executable, std::unique_ptr<Directory> directory);

  std::string path_, id_;
  std::string executable_;
  std::unique_ptr<Directory> directory_;
};

// The path of a command without a slash, by PATH; empty where there is none.
std::string find_in_path(const std::string& name);
// Of the program's words, arguments that name files here, by a path that would lead to the disk there: FILE or
// --option=FILE.
std::vector<std::string> named_here(const std::vector<std::string>& words);
// The directory of crashcut.h.
tl::expected<std::string, result::Failure> find_header_directory();
// The path of libcrashcut_runtime.so, which lies beside this executable.
tl::expected<std::string, result::Failure> find_runtime();
// Whether the plugin of crashcut cc compiled some of it, so that its accesses to memory are seen.
bool is_memory_seen(const std::string& executable);
// Whether some of it was compiled with -fsanitize=thread (crashcut flags).
bool has_callbacks(const std::string& executable);
// Prepares the program of a plan, and fills in what belongs to this run: executable, runtime.
tl::expected<Program, result::Failure> prepare(recovery::Plan& plan, const std::string& named, Program::Compiled how);
// Compiled as the plan's memory asks for it. A program with callbacks is trapped.
tl::expected<Program, result::Failure> prepare_run(recovery::Plan& plan, const std::string& named);
// The program of a token: `given` (--program) where it is not empty, else what has the token's name and id in
// `directory`, in the current directory or in PATH.
tl::expected<std::string, result::Failure> find_program(const result::Token& token, const std::string& given,
                                                        const std::string& directory);

}  // namespace crashcut::cli
