// Call texts: a system call in words, for the report: `pwrite(3 foo.txt, 2 bytes at 0: "11")`.
#pragma once

#include <sys/uio.h>

#include <span>
#include <string>
#include <string_view>

#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

// "3 foo.txt"
std::string fd_text(int fd);
// "foo.txt" in quotes, or "4 dir/" before it where the directory is a descriptor.
std::string path_text(int dirfd, std::string_view path);
std::string open_flags_text(int flags);
// `2 bytes: "11"`, the beginning of long ones.
std::string bytes_text(std::span<const iovec> parts);
std::string quoted(std::string_view bytes, std::size_t most);

// Tells the recorder what the following calls of the model belong to. `make` is called where somebody listens.
template <class Make>
void begin_change(Make&& make) {
  g.model->is_changed = true;
  if (g.model->recorder == nullptr && !g.narrating) return;
  std::string text = make();
  if (g.narrating) *g.call_text = text;
  if (g.model->recorder == nullptr) return;
  g.model->recorder->begin_op(std::move(text));
  note_op_stack();
}

// The same for a call that changes nothing.
template <class Make>
void begin_look(Make&& make) {
  if (g.narrating) *g.call_text = make();
}

}  // namespace crashcut::inprocess
