// The simplest worker: a child of this process that has its own copy of everything.
#pragma once

#include <functional>

#include "recovery/search/socket_worker.h"

namespace crashcut::search {

// `work` gets the worker's end of the socket. The child ends with it, and with this process, however that ends.
tl::expected<std::unique_ptr<SocketWorker>, Failure> fork_worker(const std::function<void(int)>& work);

}  // namespace crashcut::search
