#include "recovery/stacks/caller_stacks.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "recovery/sandbox/syscall_watch.h"

namespace crashcut::stacks {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

bool read_memory(pid_t thread, std::uint64_t address, void* to, std::size_t bytes) {
  const iovec here{to, bytes}, there{reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(thread, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

// Whether it has these bytes at these addresses, in their order; false for too many of them, too. What lies close
// together is read at once: each range costs the kernel about as much as a kilobyte.
bool has_memory(pid_t thread, const std::vector<std::pair<std::uint64_t, std::string>>& pieces) {
  constexpr std::size_t kRangesMost = 64, kBytesMost = 32 << 10, kGapMost = 1 << 10;
  std::array<char, kBytesMost> bytes;
  std::array<iovec, kRangesMost> there;
  std::size_t count = 0, size = 0;
  std::uint64_t end = 0;
  for (const auto& [address, piece] : pieces) {
    const bool is_close = count > 0 && address >= end && address - end <= kGapMost;
    if (!is_close && count == kRangesMost) return false;
    if (!is_close) there[count++] = {reinterpret_cast<void*>(end = address), 0};
    there[count - 1].iov_len += address - end + piece.size();
    size += address - end + piece.size();
    end = address + piece.size();
  }
  const iovec here{bytes.data(), size};
  if (size > kBytesMost) return false;
  if (process_vm_readv(thread, &here, 1, there.data(), count, 0) != static_cast<ssize_t>(size)) return false;
  std::size_t at = 0;
  end = 0;
  for (const auto& [address, piece] : pieces) {
    if (end != 0 && address >= end && address - end <= kGapMost) at += address - end;
    if (std::memcmp(bytes.data() + at, piece.data(), piece.size()) != 0) return false;
    at += piece.size();
    end = address + piece.size();
  }
  return true;
}

std::string read_all(const std::string& path) {
  const sandbox::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string all;
  char piece[1 << 14];
  for (ssize_t got; file && (got = read(file.get(), piece, sizeof piece)) > 0;)
    all.append(piece, static_cast<std::size_t>(got));
  return all;
}

std::uint64_t take_number(std::string_view& text, int base) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return number;
}

// A line of /proc/PID/maps.
struct MapLine {
  std::uint64_t begin, end, offset, device, inode;
  bool is_code;
  std::string_view path;
};
MapLine parse_line(std::string_view line) {
  MapLine map{};
  map.begin = take_number(line, 16);
  map.end = take_number(line, 16);
  map.is_code = line.size() > 2 && line[2] == 'x';
  line.remove_prefix(std::min<std::size_t>(line.size(), 5));
  map.offset = take_number(line, 16);
  const std::uint64_t major = take_number(line, 16), minor = take_number(line, 16);
  map.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  map.inode = take_number(line, 10);
  map.path = line.substr(std::min(line.find('/'), line.size()));
  return map;
}

}  // namespace

// The memory of a thread's process around its stack, page by page. Keeps what was asked for.
class CallerStacks::Memory {
 public:
  Memory(pid_t number, const Thread& thread) : number_(number), thread_(thread) {
    read_.emplace_back(thread.start.address, std::string(thread.start.bytes.data(), thread.start.bytes.size()));
  }

  std::optional<std::uint64_t> word(std::uint64_t address) {
    std::uint64_t value = 0;
    if (address % sizeof value != 0) return std::nullopt;  // no compiler saves a register there
    const std::string& page = page_at(address / kPageBytes * kPageBytes);
    if (page.empty()) return std::nullopt;
    const std::string_view bytes = std::string_view(page).substr(address % kPageBytes, sizeof value);
    std::memcpy(&value, bytes.data(), sizeof value);
    read_.emplace_back(address, bytes);
    return value;
  }
  bool holds(std::uint64_t address, const std::string& bytes) {
    std::string there(bytes.size(), '\0');
    if (!read_memory(number_, address, there.data(), there.size()) || there != bytes) return false;
    read_.emplace_back(address, std::move(there));
    return true;
  }
  // Each once, by address.
  std::vector<std::pair<std::uint64_t, std::string>> take_read() {
    std::sort(read_.begin(), read_.end());
    read_.erase(std::unique(read_.begin(), read_.end()), read_.end());
    return std::move(read_);
  }

 private:
  const std::string& page_at(std::uint64_t begin) {
    static const std::string kNone;
    constexpr std::size_t kPagesMost = 64;
    const auto known = pages_.find(begin);
    if (known != pages_.end()) return known->second;
    if (pages_.size() == kPagesMost) return kNone;
    std::string& page = pages_[begin];
    const bool is_left_out = std::any_of(thread_.mappings.begin(), thread_.mappings.end(), [&](const Mapping& mapping) {
      return mapping.is_left_out && begin >= mapping.begin && begin < mapping.end;
    });
    page.resize(kPageBytes);
    if (is_left_out || !read_memory(number_, begin, page.data(), page.size())) page.clear();
    return page;
  }

  pid_t number_;
  const Thread& thread_;
  std::map<std::uint64_t, std::string> pages_;
  std::vector<std::pair<std::uint64_t, std::string>> read_;
};

CodeFile* CallerStacks::file_at(const std::string& path, std::uint64_t device, std::uint64_t inode) {
  constexpr std::size_t kFilesMost = 300;  // each keeps a descriptor
  const auto found = files_.find({device, inode});
  if (found != files_.end()) return found->second.get();
  if (path.empty() || files_.size() == kFilesMost) return nullptr;
  std::unique_ptr<CodeFile> file = CodeFile::open(path);
  // btrfs and overlayfs number files otherwise there. A build id is looked for in the memory of the process.
  const bool is_it = file && (file->has_build_id() || (file->device() == device && file->inode() == inode));
  return (files_[{device, inode}] = is_it ? std::move(file) : nullptr).get();
}

bool CallerStacks::read_maps(Thread& thread) {
  thread.mappings.clear();
  thread.has_debug_information = false;
  const std::string maps = read_all(thread.directory + "/maps");
  for (std::string_view rest = maps; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const MapLine map = parse_line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (map.inode == 0) continue;
    const bool is_left_out = map.device == left_out_;
    if (!is_left_out && !map.is_code) continue;
    CodeFile* file = is_left_out ? nullptr : file_at(std::string(map.path), map.device, map.inode);
    thread.mappings.push_back({map.begin, map.end, map.offset, file, is_left_out});
    thread.has_debug_information = thread.has_debug_information ||
                                   (file != nullptr && file->has_debug_information() && !is_system_file(file->path()));
  }
  return !maps.empty();
}

CallerStacks::Thread* CallerStacks::find(pid_t number) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kThreadsMost = 300;
  // A program that gets from its execve() to a change of a file in a shorter time has no line there.
  constexpr std::chrono::microseconds kSameFor{200};
  const auto known = threads_.find(number);
  const auto now = Clock::now();
  if (known != threads_.end()) {
    const Start& start = known->second.start;
    if (!known->second.has_debug_information && now - known->second.looked_at < kSameFor) return &known->second;
    known->second.looked_at = now;
    std::array<char, kRandomBytes> there;
    const bool is_same = read_memory(number, start.address, there.data(), there.size()) && there == start.bytes;
    if (is_same) return &known->second;
    threads_.erase(known);
  }
  if (threads_.size() == kThreadsMost) threads_.clear();
  Thread thread;
  thread.looked_at = now;
  thread.directory = sandbox::proc_directory(number);
  const std::string vector = read_all(thread.directory + "/auxv");
  for (std::size_t at = 0; at + sizeof(Elf64_auxv_t) <= vector.size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, vector.data() + at, sizeof entry);
    if (entry.a_type == AT_RANDOM) thread.start.address = entry.a_un.a_val;
  }
  // Somebody else's process, such as one with other privileges: what it runs is not ours to see.
  if (!read_memory(number, thread.start.address, thread.start.bytes.data(), kRandomBytes) || !read_maps(thread))
    return nullptr;
  return &threads_.emplace(number, std::move(thread)).first->second;
}

const CallerStacks::Mapping* CallerStacks::mapping_at(Thread& thread, std::uint64_t address) {
  constexpr std::size_t kUnknownMost = 1000;
  for (bool is_again = false;; is_again = true) {
    for (const Mapping& mapping : thread.mappings) {
      if (address >= mapping.begin && address < mapping.end) return &mapping;
    }
    // It may have been mapped since, or it is code that the program has made itself.
    const bool is_new = thread.unknown.size() < kUnknownMost && thread.unknown.insert(address).second;
    if (is_again || !is_new || !read_maps(thread)) return nullptr;
  }
}

// While a thread is on its way to sleep the kernel tells nothing.
std::optional<Registers> CallerStacks::registers_of(pid_t number, Thread& thread, const Range* written) {
  constexpr int kTriesMost = 300;
  char text[256];
  for (int i = 0, opened = 0; i < kTriesMost; ++i) {
    if (!thread.syscall)
      thread.syscall = sandbox::Fd(open(fmt::format("{}/syscall", thread.directory).c_str(), O_RDONLY | O_CLOEXEC));
    const ssize_t got = pread(thread.syscall.get(), text, sizeof text, 0);
    if (got < 0 && errno == ESRCH && opened++ == 0) {  // an earlier thread of that number
      thread.directory = sandbox::proc_directory(number);
      thread.syscall.reset();
      continue;
    }
    if (got <= 0) return std::nullopt;
    const std::string_view line(text, static_cast<std::size_t>(got));
    if (line.starts_with("running")) {
      sched_yield();
      continue;
    }
    // The number of the system call, its six arguments, the stack pointer and the place in the code.
    constexpr std::size_t kFields = 9;
    std::array<std::uint64_t, kFields> fields{};
    std::size_t count = 0;
    for (std::string_view rest = line; !rest.empty() && count < kFields; ++count) {
      const bool is_hexadecimal = rest.starts_with("0x");
      if (is_hexadecimal) rest.remove_prefix(2);
      fields[count] = take_number(rest, is_hexadecimal ? 16 : 10);
    }
    if (count != kFields) return std::nullopt;  // it waits in no system call
    const std::uint64_t bytes = fields[3], offset = fields[4];
    const bool is_it = written == nullptr ||
                       (fields[0] == SYS_pwrite64 && written->offset >= offset && written->offset - offset <= bytes &&
                        written->bytes <= bytes - (written->offset - offset));
    if (!is_it) return std::nullopt;
    Registers registers;
    registers.at[kStackPointer] = fields[7];
    registers.at[kReturnAddress] = fields[8];
    return registers;
  }
  return std::nullopt;
}

bool CallerStacks::is_without(pid_t thread) {
  const std::lock_guard lock(mutex_);
  const auto known = threads_.find(thread);
  return known != threads_.end() && !known->second.has_debug_information;
}

std::optional<fusefs::CodeStack> CallerStacks::unwind(pid_t number, Thread& thread, const Registers& first) {
  constexpr std::size_t kCallsMost = 16;
  constexpr int kFramesMost = 64;
  std::optional<Registers> registers = first;
  Memory memory(number, thread);
  const ReadWord read = [&](std::uint64_t address) { return memory.word(address); };
  fusefs::CodeStack stack;
  std::set<const CodeFile*> found;
  bool has_lines = false, is_call = true;
  for (int i = 0; registers && i < kFramesMost && stack.size() < kCallsMost; ++i) {
    // The address that a call returns to may be on the next line, or in the next function.
    const std::uint64_t code = *registers->at[kReturnAddress] - (is_call ? 1 : 0);
    const Mapping* mapping = mapping_at(thread, code);
    if (mapping == nullptr || mapping->file == nullptr) break;
    CodeFile& file = *mapping->file;
    const auto address = file.address_of(code - mapping->begin + mapping->offset);
    if (!address) break;
    if (found.insert(&file).second && !memory.holds(code - *address + file.mark().address, file.mark().bytes))
      return std::nullopt;
    stack.push_back({&file.path(), &file.id(), *address});
    has_lines = has_lines || (file.has_debug_information() && !is_system_file(file.path()));
    const UnwindRow* row = file.row_at(*address);
    if (row == nullptr) break;
    const bool needs_frame_pointer = row->frame_register == kFramePointer && !registers->at[kFramePointer];
    if (const auto depth = needs_frame_pointer ? file.depth_at(*address) : std::nullopt) {
      const std::uint64_t frame = *registers->at[kStackPointer] + static_cast<std::uint64_t>(*depth);
      registers->at[kFramePointer] = frame - static_cast<std::uint64_t>(row->frame_offset);
    }
    std::optional<Registers> caller = caller_of(*row, *registers, read);
    if (caller && !row->is_signal && *caller->at[kStackPointer] <= *registers->at[kStackPointer]) break;
    is_call = !row->is_signal;
    registers = std::move(caller);
  }
  if (!has_lines) stack.clear();
  thread.last = {*first.at[kReturnAddress], *first.at[kStackPointer], memory.take_read(), stack};
  return stack;
}

fusefs::CodeStack CallerStacks::of(pid_t number, const Range* written) {
  const std::lock_guard lock(mutex_);
  const auto known = threads_.find(number);
  if (known != threads_.end() && known->second.has_debug_information) {
    // A program makes the same calls again and again.
    const Taken& last = known->second.last;
    const auto registers = registers_of(number, known->second, written);
    const bool is_same = registers && registers->at[kReturnAddress] == last.code &&
                         registers->at[kStackPointer] == last.stack_pointer && has_memory(number, last.memory);
    if (is_same) return last.stack;
  }
  Thread* thread = find(number);
  if (thread == nullptr || !thread->has_debug_information) return {};
  const std::optional<Registers> registers = registers_of(number, *thread, written);
  if (!registers) return {};
  std::optional<fusefs::CodeStack> stack = unwind(number, *thread, *registers);
  if (!stack) threads_.erase(number);
  return stack.value_or(fusefs::CodeStack{});
}

}  // namespace crashcut::stacks
