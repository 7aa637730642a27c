// Interactive: a mount for a person, who works on it and then pulls the plug by hand.
//
// The mount's hidden directory is how another process asks: .crashcut/states lists what a crash could leave now,
//   a number written to .crashcut/crash switches to that state, .crashcut/shown counts the switches.
// Not seen here: sync and syncfs, which the kernel does not tell a FUSE filesystem about, and stores to mappings
//   before they are written back. crashcut check sees both.
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
};

// Serves the mount until it is unmounted or `is_interrupted`. `on_mounted` is called once it is there.
tl::expected<void, Failure> serve_mount(const MountPlan& plan, const std::function<void()>& on_mounted,
                                        const std::function<bool()>& is_interrupted);

// For crashcut crash: the states of a mount that another process serves, as text; and the switch to one of them.
tl::expected<std::string, Failure> list_states(const std::string& directory);
tl::expected<void, Failure> switch_to_state(const std::string& directory, std::uint64_t number);

}  // namespace crashcut::mounted
