// SocketWorker: a worker that is a process of its own, at the other end of a socket.
#pragma once

#include "recovery/search/channel.h"
#include "recovery/search/worker.h"

namespace crashcut::search {

// The pool's end. Its destructor ends the process.
class SocketWorker : public Worker {
 public:
  virtual int socket() const = 0;  // SOCK_SEQPACKET

  // A process that is gone does not hear it. receive() then finds the socket closed, after what the process said
  // before.
  void begin(const Task& task) override;
  int fd() const override { return socket(); }
  tl::expected<Message, Failure> receive(bool is_readable) override;
};

// The process: answers the pool until that closes the socket.
void serve(int socket, const WorkerSetup& setup, const persist::Recording& recording, Recoverer& recoverer);
// For a process that cannot do anything.
void report_failure(int socket, const Failure& failure);

}  // namespace crashcut::search
