// SandboxedWorker: a worker that runs in a sandbox, with its FUSE server and its checkers on one core.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "recovery/sandbox/sandbox.h"
#include "recovery/search/socket_worker.h"

namespace crashcut::mounted {

class SandboxedWorker final : public search::SocketWorker {
 public:
  explicit SandboxedWorker(sandbox::Sandbox sandbox) : sandbox_(std::move(sandbox)) {}
  int socket() const override { return sandbox_.socket(); }

 private:
  sandbox::Sandbox sandbox_;
};

// Pins this process, and those that it starts, to the core of the worker with this index: a request to a FUSE server on
// another core costs five times as much. Returns the core; none if the system does not say which cores there are.
std::optional<int> stay_on_core(std::uint32_t worker_index);

}  // namespace crashcut::mounted
