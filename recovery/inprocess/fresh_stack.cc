#include "recovery/inprocess/fresh_stack.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstring>

#include "inject/environment.h"

namespace crashcut::inprocess {

namespace {

// So much that environments of machines and of build servers are in the first step, and less than what exec() takes in
// any case (128 KiB).
constexpr std::size_t kVariablesPerStep = 256;
constexpr std::size_t kBytesPerStep = 64 * 1024;

std::size_t bytes_of(const std::vector<char*>& texts) {
  std::size_t bytes = 0;
  for (const char* text : texts) bytes += text == nullptr ? 0 : std::strlen(text) + 1;
  return bytes;
}

bool read_memory(pid_t pid, std::uint64_t from, void* to, std::size_t bytes) {
  const iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool write_memory(pid_t pid, std::uint64_t to, const void* from, std::size_t bytes) {
  const iovec local{const_cast<void*>(from), bytes}, remote{reinterpret_cast<void*>(to), bytes};
  return process_vm_writev(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// Past the null that ends the array of pointers at `at`; 0 where the memory cannot be read.
std::uint64_t after_null(pid_t pid, std::uint64_t at) {
  for (std::uint64_t word = 1; word != 0; at += sizeof word) {
    if (!read_memory(pid, at, &word, sizeof word)) return 0;
  }
  return at;
}

// The stack: the number of arguments, the arguments, null, the environment, null, the auxiliary vector.
void fix_auxiliary_vector(pid_t pid, std::uint64_t stack) {
  static constexpr unsigned char kRandom[16] = {0x63, 0x72, 0x61, 0x73, 0x68, 0x63, 0x75, 0x74,
                                                0x9e, 0x37, 0x79, 0xb9, 0x7f, 0x4a, 0x7c, 0x15};
  std::uint64_t at = after_null(pid, stack + sizeof(std::uint64_t));
  if (at != 0) at = after_null(pid, at);
  Elf64_auxv_t entry{};
  for (; at != 0 && read_memory(pid, at, &entry, sizeof entry) && entry.a_type != AT_NULL; at += sizeof entry) {
    if (entry.a_type == AT_RANDOM) write_memory(pid, entry.a_un.a_val, kRandom, sizeof kRandom);
    if (entry.a_type == AT_SYSINFO_EHDR) {
      entry.a_type = AT_IGNORE;
      write_memory(pid, at, &entry, sizeof entry);
    }
  }
}

}  // namespace

std::vector<std::string> stack_padding(const std::string& program, const std::vector<char*>& argv,
                                       const std::vector<char*>& envp) {
  const std::string empty = std::string(inject::kPaddingName) + "=";
  const std::size_t count = kVariablesPerStep - envp.size() % kVariablesPerStep;
  std::vector<std::string> padding(count, empty);
  const std::size_t used = program.size() + 1 + bytes_of(argv) + bytes_of(envp) + count * (empty.size() + 1);
  padding.back().append(kBytesPerStep - used % kBytesPerStep, 'x');
  return padding;
}

bool ask_to_be_traced() { return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0; }

bool fix_fresh_stack(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  if (!WIFSTOPPED(status)) return false;
  user_regs_struct regs{};
  if (ptrace(PTRACE_GETREGS, child, nullptr, &regs) == 0) fix_auxiliary_vector(child, regs.rsp);
  ptrace(PTRACE_DETACH, child, nullptr, nullptr);
  return true;
}

}  // namespace crashcut::inprocess
