// Recoveries that crash too (--depth 2 and more).
//
// The second recovery must run in a fresh image of the program, but what the first one wrote is in the memory of
//   its process. All of that lies in the private arena, at addresses that every process of ours shares. So an
//   zygote, a fresh image forked by C beforehand, forks a child into which the arena is copied byte by byte; the
//   child then runs crashcut_recover() on the disk that the first recovery left.
// There is one zygote a job and a layer: a recovery that waits for the next layer holds its job meanwhile.
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cstring>
#include <limits>

#include "inject/arena.h"
#include "inject/gate.h"
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/stuck.h"

namespace crashcut::inprocess {

namespace {

enum MailState : std::uint32_t { kMailFree, kMailClaimed, kMailPosted, kMailDone };

struct Mailbox {
  std::atomic<std::uint32_t> state;
  inject::Arena arena;
  Explorer* explorer;
  std::string* call_text;
  bool narrating;
  Slot* from;  // of the recovery that ended
};

constexpr std::uint32_t kZygotesMost = 64;
constexpr std::size_t kImageOffset = 4096;
constexpr std::size_t kMailboxBytes = std::size_t{1} << 30;

constinit Mailbox* g_mailboxes[kZygotesMost] = {};
constinit Child g_zygotes[kZygotesMost] = {};
constinit std::uint32_t g_zygote_count = 0;

void wait_until(std::atomic<std::uint32_t>& word, std::uint32_t wanted) {
  for (std::uint32_t seen = word; seen != wanted; seen = word) kernel(SYS_futex, &word, FUTEX_WAIT, seen, 0);
}

void set_and_wake(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word = value;
  kernel(SYS_futex, &word, FUTEX_WAKE, INT_MAX);
}

[[noreturn]] void take_over(Mailbox& mail) {
  inject::use_private_arena();
  inject::private_arena() = mail.arena;
  std::memcpy(inject::private_arena().begin(), reinterpret_cast<std::byte*>(&mail) + kImageOffset,
              inject::private_arena().used_bytes());
  g_explorer = mail.explorer;
  g.call_text = mail.call_text;
  g.narrating = mail.narrating;
  g.model = g_explorer->model().get();
  watch_for_rounds();
  pin_to_job(g.slot->job);
  prepare_recoveries();
  g.slot->layer = static_cast<std::uint32_t>(g_explorer->crashes().size());
  run_recovery();
}

// The life of an zygote. The slot of its child begins as that of the recovery that ended, without its output.
[[noreturn]] void serve(Mailbox& mail) {
  while (true) {
    wait_until(mail.state, kMailPosted);
    g.slot = mail.from;
    Slot* slot = take_slot();
    g.slot = nullptr;
    if (slot != nullptr) {
      const Child child = fork_child(slot);
      if (child.pid == 0) take_over(mail);
      if (child.pid > 0) reap(child);
      if (child.pid < 0) g.header->is_lost = 1;
    } else {
      g.header->is_lost = 1;
    }
    set_and_wake(mail.state, kMailDone);
  }
}

// Keeps the answers, and the path that is to be followed, and forgets what was printed.
void forget_output(Slot& slot) {
  std::uint32_t kept = 0;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < slot.stream_used;) {
    std::uint32_t head[2];
    std::memcpy(head, slot.stream + i, sizeof head);
    const std::uint32_t whole = static_cast<std::uint32_t>(sizeof head) + (head[1] + 3) / 4 * 4;
    if (head[0] == kStreamAnswer || head[0] == kStreamPrefix) {
      std::memmove(slot.stream + kept, slot.stream + i, whole);
      last = kept;
      kept += whole;
    }
    i += whole;
  }
  slot.stream_used = kept;
  slot.last_entry = last;
  slot.output_bytes = slot.error_bytes = slot.output_cut = slot.output_rest = 0;
}

Mailbox* claim_zygote() {
  for (std::uint32_t i = 0; i < g_zygote_count; ++i) {
    std::uint32_t free = kMailFree;
    if (g_mailboxes[i]->state.compare_exchange_strong(free, kMailClaimed)) return g_mailboxes[i];
  }
  return nullptr;
}

}  // namespace

void start_zygotes() {
  const std::uint32_t wanted = (g.header->depth - 1) * g.header->jobs;
  for (g_zygote_count = 0; g_zygote_count < wanted && g_zygote_count < kZygotesMost; ++g_zygote_count) {
    const std::uint32_t i = g_zygote_count;
    if (g_mailboxes[i] == nullptr) {
      g_mailboxes[i] = reinterpret_cast<Mailbox*>(inject::map_shared(kMailboxBytes));
      if (g_mailboxes[i] == nullptr) return;
    }
    g_mailboxes[i]->state = kMailFree;
  }
  // All mailboxes exist before the first zygote is forked: a recovery that an zygote forks may need any of them.
  for (std::uint32_t i = 0; i < g_zygote_count; ++i) {
    Slot* slot = take_slot();
    if (slot == nullptr) return;
    const Child child = fork_child(slot);
    if (child.pid == 0) {
      slot->began_ns = 0;
      serve(*g_mailboxes[i]);
    }
    g_zygotes[i] = child;
  }
}

void stop_zygotes() {
  for (std::uint32_t i = 0; i < g_zygote_count; ++i) {
    if (g_zygotes[i].pid <= 0) continue;
    kernel(SYS_kill, g_zygotes[i].pid, SIGKILL);
    int status;
    kernel(SYS_wait4, g_zygotes[i].pid, &status, __WALL, 0);
    g_zygotes[i].slot->state = SlotState::kFree;
  }
  g_zygote_count = 0;
}

Outcome explore_next_layer() {
  Slot& own = *g.slot;
  // A path that goes on was left by an exploration that has counted this recovery.
  const bool is_known = g_explorer->is_exploring() && g_explorer->is_following();
  if (!g_explorer->has_written()) {
    g_explorer->check_replay_end();
    return Outcome::kOk;
  }
  hold_off_watchdog();
  own.began_ns = 0;
  // It counts before those below it do: what is still to come never has a part that was counted.
  if (g_explorer->is_exploring() && !is_known && !count_ahead(own)) return Outcome::kAbandoned;
  // The next layer goes on from a copy: this recovery's own record stays what it is.
  Slot* copy = take_slot();
  if (copy == nullptr) user_error("the recovery has too many open choices (4095 deep)");
  g.slot = copy;
  forget_output(*copy);
  g_explorer->crash_again();
  if (g.header->stop != 0) {
    leave_work(*copy);
  } else {
    Mailbox* mail = claim_zygote();
    if (mail == nullptr) tool_error("no zygote is free for the next crash");
    if (inject::private_arena().used_bytes() > kMailboxBytes - kImageOffset)
      user_error("a recovery wrote more than the model can hold before a second crash");
    mail->arena = inject::private_arena();
    mail->explorer = g_explorer;
    mail->call_text = g.call_text;
    mail->narrating = g.narrating;
    mail->from = copy;
    std::memcpy(reinterpret_cast<std::byte*>(mail) + kImageOffset, inject::private_arena().begin(),
                inject::private_arena().used_bytes());
    set_and_wake(mail->state, kMailPosted);
    wait_until(mail->state, kMailDone);
    mail->state = kMailFree;
  }
  g.slot = &own;
  copy->state = SlotState::kFree;
  return is_known ? Outcome::kInner : Outcome::kOk;
}

}  // namespace crashcut::inprocess
