#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <cstring>

#include "inject/gate.h"
#include "inject/interpose.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/work.h"

namespace crashcut::inprocess {

namespace {

constexpr std::size_t kStreamBytes = kSlotQuestionsOffset - sizeof(Slot);
constexpr std::size_t kTextReserve = kTextMost + 64;  // what went wrong is told where nothing else has room

struct Entry {
  std::uint32_t type;
  std::uint32_t length;
};

std::uint32_t padded(std::uint32_t length) { return (length + 3) / 4 * 4; }

void copy_slot(const Slot& from, Slot& to) {
  to.in_runtime = 1;
  to.outcome = Outcome::kNone;
  to.exit_code = 0;
  to.events_in = 0;
  to.layer = from.layer;
  to.path_length = from.path_length;
  to.output_bytes = from.output_bytes;
  to.error_bytes = from.error_bytes;
  to.text_bytes = 0;
  to.is_counted = 0;
  to.output_cut = from.output_cut;
  to.output_rest = from.output_rest;
  to.marks_reached = 0;
  to.stream_used = from.stream_used;
  to.last_entry = from.last_entry;
  to.job = from.job;
  to.choice_count = 0;
  std::memcpy(to.stream, from.stream, from.stream_used);
  to.killed = kNotKilled;
}

// What our own code can die of. Any other signal was sent: by a timer of the program's, or from outside.
bool is_of_code(int signal) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    if (signal == fault) return true;
  }
  return false;
}

// The kind that a dead process's record has; false if it has none.
bool classify_signalled(const Slot& slot, int status, Record& record, std::string_view& text) {
  record.signal = WTERMSIG(status);
  record.kind = RecordKind::kToolError;
  switch (end_of(slot, status)) {
    case inject::ChildEnd::kAbandoned:
      return false;
    case inject::ChildEnd::kTooLate:
      record.kind = RecordKind::kHung;
      return true;
    case inject::ChildEnd::kDiedInRuntime:
      record.blame = Blame::kTool;
      text = "crashcut's own code died inside the recovery";
      return true;
    case inject::ChildEnd::kKilledFromOutside:
      record.blame = Blame::kUser;
      text = "a recovery was killed by somebody else (SIGKILL)";
      return true;
    default:
      record.kind = RecordKind::kSignalled;
      return true;
  }
}

bool classify(const Slot& slot, int status, Record& record, std::string_view& text) {
  if (WIFSIGNALED(status)) return classify_signalled(slot, status, record, text);
  switch (slot.outcome) {
    case Outcome::kOk:
      record.kind = RecordKind::kOk;
      return true;
    case Outcome::kAssumedAway:
      record.kind = RecordKind::kAssumedAway;
      return true;
    case Outcome::kExited:
      record.kind = RecordKind::kExited;
      return true;
    case Outcome::kStuck:
      record.kind = RecordKind::kHung;
      return true;
    case Outcome::kToolError:
      record.kind = RecordKind::kToolError;
      record.blame = slot.blame;
      return true;
    case Outcome::kAbandoned:
    case Outcome::kInner:
      return false;
    case Outcome::kNone:
      break;
  }
  record.kind = RecordKind::kToolError;
  record.blame = Blame::kTool;
  text = "a recovery ended without a word";
  return true;
}

// Takes the parts of the stream apart: answers, stdout, stderr, text.
void write_payload(const Slot& slot, std::string_view text, std::byte* to) {
  std::byte* at[kStreamPrefix];
  at[kStreamAnswer] = to;
  at[kStreamOutput] = to + slot.path_length * sizeof(NotedAnswer);
  at[kStreamError] = at[kStreamOutput] + slot.output_bytes;
  at[kStreamText] = at[kStreamError] + slot.error_bytes;
  for (std::uint32_t i = 0; i < slot.stream_used;) {
    Entry entry;
    std::memcpy(&entry, slot.stream + i, sizeof entry);
    if (entry.type != kStreamPrefix) {
      std::memcpy(at[entry.type], slot.stream + i + sizeof entry, entry.length);
      at[entry.type] += entry.length;
    }
    i += static_cast<std::uint32_t>(sizeof entry) + padded(entry.length);
  }
  std::memcpy(at[kStreamText], text.data(), text.size());
}

// Counts the recovery; false where the limit leaves no room for it.
bool count_recovery(Header& header, RecordKind kind) {
  const std::uint64_t before = header.recoveries.fetch_add(1);
  const std::uint64_t most = header.max_recoveries;
  if (most != 0 && before + 1 >= most) header.stop = 1;
  if (kind == RecordKind::kToolError) header.stop = 1;
  if (most == 0 || before < most) return true;
  header.recoveries.fetch_sub(1);
  return false;
}

// False where the recovery is still to come.
bool record_end(const Slot& slot, int status) {
  Record found{};
  std::string_view text;
  if (!classify(slot, status, found, text)) return WIFSIGNALED(status) ? false : slot.outcome != Outcome::kAbandoned;
  Header& header = *g.header;
  if (slot.is_counted == 0 && !count_recovery(header, found.kind)) return false;
  const std::uint64_t bytes = slot.path_length * std::uint64_t{sizeof(NotedAnswer)} + slot.output_bytes +
                              slot.error_bytes + slot.text_bytes + text.size();
  const std::uint64_t heap = header.heap_used.fetch_add((bytes + 7) / 8 * 8);
  const std::uint64_t index = header.record_count.fetch_add(1);
  if (heap + bytes > kHeapBytes || (index + 1) * sizeof(Record) > kRecordsBytes) {
    header.stop = 1;
    header.is_lost = 1;
    return true;
  }
  write_payload(slot, text, g.control + kHeapOffset + heap);
  Record& record = reinterpret_cast<Record*>(g.control + kRecordsOffset)[index];
  record.kind = found.kind;
  record.payload = kHeapOffset + heap;
  record.path_length = slot.path_length;
  record.output_bytes = slot.output_bytes;
  record.error_bytes = slot.error_bytes;
  record.text_bytes = slot.text_bytes + static_cast<std::uint32_t>(text.size());
  record.exit_code = slot.exit_code;
  record.signal = found.signal;
  record.events_in = slot.events_in;
  record.layer = slot.layer;
  record.output_cut = slot.output_cut & 3;
  record.output_rest = slot.output_rest & 0x3fffffff;
  record.blame = found.blame;
  record.marks_reached = slot.marks_reached;
  record.committed.store(1, std::memory_order_release);
  return true;
}

}  // namespace

inject::ChildEnd end_of(const Slot& slot, int status) {
  const inject::ChildEnd end = inject::end_of(slot, status);
  if (end != inject::ChildEnd::kDiedInRuntime || is_of_code(WTERMSIG(status))) return end;
  return WTERMSIG(status) == SIGKILL ? inject::ChildEnd::kKilledFromOutside : inject::ChildEnd::kSignalled;
}

std::uint64_t now_ns() {
  timespec t;
  if (inject::schedules_threads()) {
    kernel(SYS_clock_gettime, CLOCK_MONOTONIC, &t);  // libc's function would tell the virtual time of a thread
  } else {
    clock_gettime(CLOCK_MONOTONIC, &t);  // the vdso's: no system call
  }
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000 + static_cast<std::uint64_t>(t.tv_nsec);
}

Slot& slot_at(std::uint32_t index) { return *reinterpret_cast<Slot*>(g.control + kSlotsOffset + index * kSlotBytes); }

Slot* take_slot() {
  const std::uint32_t own =
      g.slot == nullptr
          ? 0
          : static_cast<std::uint32_t>((reinterpret_cast<std::byte*>(g.slot) - g.control - kSlotsOffset) / kSlotBytes);
  // A child's slot is most often the one after its parent's, and is warm.
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    Slot& slot = slot_at(1 + (own + i) % (kSlotCount - 1));
    SlotState free = SlotState::kFree;
    if (slot.state.load(std::memory_order_relaxed) != SlotState::kFree ||
        !slot.state.compare_exchange_strong(free, SlotState::kTaken))
      continue;
    if (g.slot != nullptr) {
      copy_slot(*g.slot, slot);
    } else {
      Slot& fresh = slot_at(0);
      copy_slot(fresh, slot);
      slot.stream_used = slot.path_length = slot.output_bytes = slot.error_bytes = slot.output_cut = slot.output_rest =
          0;
      slot.last_entry = 0;
      slot.layer = 1;
    }
    return &slot;
  }
  return nullptr;
}

Child fork_child(Slot* slot) {
  if (g.slot != nullptr) g.slot->began_ns.store(0, std::memory_order_relaxed);
  slot->began_ns.store(now_ns(), std::memory_order_relaxed);
  const long pid = inject::fork_child(*slot, g.pid, true);
  if (pid != 0) return {pid, slot};
  g.pid = slot->pid;
  g.slot = slot;
  return {0, slot};
}

int wait_for(const Child& child, std::uint64_t* cpu_ns) {
  return inject::wait_for_child(*child.slot, child.pid, cpu_ns);
}

bool settle(const Child& child, int status) {
  Slot& slot = *child.slot;
  slot.pid = 0;
  const bool is_over = record_end(slot, status);
  slot.state.store(SlotState::kFree, std::memory_order_release);
  return is_over;
}

void reap(const Child& child) {
  const int status = wait_for(child);
  Slot& slot = *child.slot;
  slot.pid = 0;
  if (!record_end(slot, status)) leave_work(slot);
  slot.state.store(SlotState::kFree, std::memory_order_release);
}

Renewed settle_and_renew(Slot& slot, const Slot& like) {
  std::uint32_t nobody = kNotKilled;
  if (!slot.killed.compare_exchange_strong(nobody, kNotToBeKilled)) return Renewed::kBeingKilled;
  const bool is_over = record_end(slot, 0);
  slot.began_ns = now_ns();
  copy_slot(like, slot);  // the watchdog may look again: from here on the time is the new recovery's
  return is_over ? Renewed::kRecorded : Renewed::kToCome;
}

bool count_ahead(Slot& slot) {
  slot.is_counted = count_recovery(*g.header, RecordKind::kOk) ? 1 : 0;
  return slot.is_counted != 0;
}

void hold_off_watchdog() {
  // It takes its word back where it finds that the process has just begun another recovery.
  for (std::uint32_t nobody = kNotKilled; !g.slot->killed.compare_exchange_strong(nobody, kNotToBeKilled);
       nobody = kNotKilled) {
    if (nobody == kNotToBeKilled) return;
    kernel(SYS_sched_yield);
  }
}

void let_watchdog_go() {
  g.slot->began_ns = now_ns();
  g.slot->killed = kNotKilled;
}

std::uint32_t copy_path(const Slot& slot, std::uint32_t* to) {
  std::uint32_t count = 0, prefix_length = 0;
  const std::byte* prefix = nullptr;
  for (std::uint32_t i = 0; i < slot.stream_used;) {
    Entry entry;
    std::memcpy(&entry, slot.stream + i, sizeof entry);
    const std::byte* bytes = slot.stream + i + sizeof entry;
    for (std::uint32_t at = 0; entry.type == kStreamAnswer && at < entry.length; at += sizeof(NotedAnswer), ++count) {
      if (to != nullptr) std::memcpy(to + count, bytes + at, sizeof *to);  // the answer comes first
    }
    if (entry.type == kStreamPrefix) {
      prefix = bytes;
      prefix_length = entry.length / sizeof *to;
    }
    i += static_cast<std::uint32_t>(sizeof entry) + padded(entry.length);
  }
  if (count >= prefix_length) return count;
  if (to != nullptr) std::memcpy(to, prefix, prefix_length * sizeof *to);
  return prefix_length;
}

std::vector<std::uint32_t> path_of(const Slot& slot) {
  std::vector<std::uint32_t> path(copy_path(slot, nullptr));
  copy_path(slot, path.data());
  return path;
}

persist::Question* question_at(Slot& slot, std::uint32_t index) {
  if (index < kInlineChoices) return &slot.questions[index];
  if (index >= (kSlotBytes - kSlotQuestionsOffset) / sizeof(persist::Question)) return nullptr;
  return reinterpret_cast<persist::Question*>(reinterpret_cast<std::byte*>(&slot) + kSlotQuestionsOffset) + index;
}

bool append_stream(Slot& slot, StreamType type, const void* bytes, std::size_t count) {
  Entry entry{type, 0};
  std::uint32_t at = slot.last_entry;
  if (slot.stream_used != 0) std::memcpy(&entry, slot.stream + at, sizeof entry);
  if (slot.stream_used == 0 || entry.type != type) {
    at = slot.stream_used;
    entry = {type, 0};
  }
  const std::size_t end = at + sizeof entry + padded(entry.length + static_cast<std::uint32_t>(count));
  if (end > kStreamBytes - (type == kStreamText ? 0 : kTextReserve)) return false;
  std::memcpy(slot.stream + at + sizeof entry + entry.length, bytes, count);
  entry.length += static_cast<std::uint32_t>(count);
  std::memcpy(slot.stream + at, &entry, sizeof entry);
  slot.last_entry = at;
  slot.stream_used = static_cast<std::uint32_t>(end);
  return true;
}

}  // namespace crashcut::inprocess
