// Which system calls are the model's business, and when.
#include <errno.h>
#include <sys/syscall.h>

#include <array>

#include "recovery/inprocess/calls.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

namespace crashcut::inprocess {

namespace {

// Looks harmless and is not: what it does would happen behind the model's back.
template <int N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) {
    for (int i = 0; i < N; ++i) text[i] = from[i];
  }
};
template <Name kName>
long refuse(Call&) {
  unsupported(kName.text);
}
// Programs have a way without these, and know how to take it.
long not_there(Call&) { return -ENOSYS; }

constexpr std::array<CallEntry, kCallsMost> make_table() {
  std::array<CallEntry, kCallsMost> t{};
#define CRASHCUT_ENTER(name, filter) t[SYS_##name] = {call_##name, Filter::filter, #name};
  CRASHCUT_FILE_CALLS(CRASHCUT_ENTER)
#undef CRASHCUT_ENTER
  t[SYS_mremap] = {refuse<"mremap() of a file mapped MAP_SHARED">, Filter::kMapped, "mremap"};
  t[SYS_msync] = {refuse<"msync() of a file mapped MAP_SHARED">, Filter::kMapped, "msync"};
  for (const int number :
       {SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups})
    t[number] = {call_set_ids, Filter::kAlways, "set ids"};
  t[SYS_bind] = {call_socket_name, Filter::kAlways, "bind"};
  t[SYS_connect] = {call_socket_name, Filter::kAlways, "connect"};

  t[SYS_splice] = {refuse<"splice()">, Filter::kEitherFd, "splice"};
  t[SYS_tee] = {refuse<"tee()">, Filter::kEitherFd, "tee"};
  t[SYS_vmsplice] = {refuse<"vmsplice()">, Filter::kFd, "vmsplice"};
  t[SYS_name_to_handle_at] = {refuse<"name_to_handle_at()">, Filter::kAt, "name_to_handle_at"};

  t[SYS_io_setup] = {not_there, Filter::kAlways, "io_setup"};
  t[SYS_io_uring_setup] = {not_there, Filter::kAlways, "io_uring_setup"};
  return t;
}

constexpr std::array<CallEntry, kCallsMost> kTable = make_table();
constexpr CallEntry kNone{};

}  // namespace

const CallEntry& call_entry(long number) { return number >= 0 && number < kCallsMost ? kTable[number] : kNone; }

}  // namespace crashcut::inprocess
