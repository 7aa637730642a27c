// How these tests run something inside a sandbox and learn what it saw.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recovery/sandbox/command.h"
#include "recovery/sandbox/sandbox.h"

namespace crashcut::sandbox {

// Who makes the sandbox, and so of which kind it is.
enum class Who { kRoot, kNobody, kWithoutNamespaces };
std::string name_of(Who who);

// A sentence why a sandbox of that kind cannot be tried here; empty if it can.
std::string why_impossible(Who who);
#define SKIP_IF_IMPOSSIBLE(who) \
  if (const std::string why = why_impossible(who); !why.empty()) GTEST_SKIP() << why

// In the calling process, which does not come back from it.
void become(Who who);
Options options_for(Who who);

// What `function` returns, run in a sandbox that a process of that user makes. Failures come back as their sentence.
std::string tell_from_inside(Who who, const std::function<std::string(const Inside&)>& function, Options options = {});

// A command with a plain environment and a limit that no test should reach.
Command shell(const std::string& script);
Command program(std::vector<std::string> argv);
// "exit 3", "signal 9", "time", or the sentence; then what differs from nothing: " out=...", " err=...", " left=N".
std::string to_text(const Outcome& outcome);

}  // namespace crashcut::sandbox
