// Interactive: a mount for a person, who works on it and then pulls the plug by hand.
//
// The mount's hidden directory is how another process asks: .crashcut/states lists what a crash could leave now,
//   a number written to .crashcut/crash switches to that state, .crashcut/shown counts the switches.
// The kernel does not tell a FUSE filesystem of sync and syncfs, nor of stores to mappings before they are written
//   back. They are seen of the plan's command and what it starts, and of nobody else.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "recovery/mounted/plan.h"

namespace crashcut::mounted {

struct MountPlan {
  std::string directory;       // absolute, exists
  std::string from_directory;  // absolute; empty: an empty disk
  fusefs::ModelOptions model;
  std::vector<std::string> command;  // run in it; empty: none
};

// Serves the mount until the command has ended, it is unmounted or `is_interrupted`. `on_mounted` is called once it is
// there. Returns the command's exit code, 0 without one.
tl::expected<int, Failure> serve_mount(const MountPlan& plan, const std::function<void()>& on_mounted,
                                       const std::function<bool()>& is_interrupted);

// For crashcut crash: the states of a mount that another process serves, as text; and the switch to one of them.
tl::expected<std::string, Failure> list_states(const std::string& directory);
tl::expected<void, Failure> switch_to_state(const std::string& directory, std::uint64_t number);

}  // namespace crashcut::mounted
