// Program: what the user named, made ready to run: an executable as it is, C and C++ source compiled.
//
// A compiled program lives in a temporary directory for as long as this object does.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "recovery/inprocess/session.h"
#include "recovery/threads/check.h"

namespace crashcut::cli {

class Program {
 public:
  // Source is compiled to be instrumented, or not (instrumentation.h).
  static tl::expected<Program, inprocess::Failure> prepare(const std::string& named, bool is_instrumented = false);
  Program(Program&&) noexcept;
  ~Program();

  // The absolute path of what was named.
  const std::string& path() const { return path_; }
  const std::string& executable() const { return executable_; }

 private:
  class Directory;
  Program(std::string path, std::string executable, std::unique_ptr<Directory> directory);

  std::string path_;
  std::string executable_;
  std::unique_ptr<Directory> directory_;
};

// The path of libcrashcut_runtime.so, which lies beside this executable.
tl::expected<std::string, inprocess::Failure> find_runtime();
// Prepares the program of a plan, and fills in what belongs to this run: executable, runtime.
tl::expected<Program, inprocess::Failure> prepare_threads(recovery::ThreadPlan& plan);

}  // namespace crashcut::cli
