#include "cxl/machines.h"

#include <algorithm>

#include "persist/check.h"
#include "pmem/pieces.h"

namespace crashcut::cxl {

using pmem::BufferEntry;
using pmem::EntryKind;
using pmem::kLineBytes;
using pmem::kWordBytes;

namespace {

Address line_of(Address address) { return address / kLineBytes * kLineBytes; }

}  // namespace

ThreadId Machines::start_thread(MachineId machine) {
  threads_.push_back({machine, {}, {}});
  return static_cast<ThreadId>(threads_.size() - 1);
}

Loaded Machines::load(ThreadId thread, Address address, std::span<std::byte> out, persist::Chooser& chooser) {
  if (memory_.is_gone(address)) return Loaded::kGone;
  const Thread& t = threads_[thread];
  std::array<std::byte, kLineBytes> own{};
  const std::uint64_t forwarded = t.buffer.forward(address, std::span(own).first(out.size()));
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - out.size());
  if (is_incoherent(address)) incoherent_->load(t.machine, address, out);
  if (forwarded != all && memory_.is_shared(address)) {
    if (memory_.load(t.machine, address, out, chooser) == Loaded::kPoison) return Loaded::kPoison;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if ((forwarded >> i & 1) != 0) out[i] = own[i];
  }
  return Loaded::kBytes;
}

std::size_t Machines::count_answers(ThreadId thread, Address address, std::size_t bytes) {
  const std::size_t answers = memory_.is_shared(address) ? memory_.count_answers(address, bytes) : 1;
  if (answers == 1) return 1;
  std::array<std::byte, kLineBytes> own{};
  const std::uint64_t forwarded = threads_[thread].buffer.forward(address, std::span(own).first(bytes));
  return forwarded == ~std::uint64_t{0} >> (64 - bytes) ? 1 : answers;
}

void Machines::store(ThreadId thread, Address address, std::span<const std::byte> bytes, std::uint32_t op) {
  push_pieces(thread, address, bytes, {.kind = EntryKind::kStore, .op = op},
              unit_of_store(model_, address, bytes.size()));
}

void Machines::copy(ThreadId thread, Address address, std::span<const std::byte> bytes, std::uint32_t op) {
  push_pieces(thread, address, bytes, {.kind = EntryKind::kStore, .op = op},
              model_.has_tearing ? kWordBytes : kLineBytes);
}

void Machines::store_non_temporal(ThreadId thread, Address address, std::span<const std::byte> bytes, bool is_whole,
                                  std::uint32_t op) {
  const bool tears = model_.has_tearing && !is_whole;
  push_pieces(thread, address, bytes, {.kind = EntryKind::kNonTemporalStore, .op = op},
              tears ? kWordBytes : kLineBytes);
}

void Machines::push_pieces(ThreadId thread, Address address, std::span<const std::byte> bytes, BufferEntry entry,
                           Address unit) {
  pmem::for_each_piece(
      address, bytes, unit, entry, [&] { return ++group_count_; },
      [&](const BufferEntry& piece) { push(thread, piece); });
}

void Machines::push(ThreadId thread, const BufferEntry& entry) { threads_[thread].buffer.push(entry); }

Loaded Machines::begin_locked(ThreadId thread, Address address, std::span<std::byte> old, persist::Chooser& chooser) {
  mfence(thread);
  if (is_incoherent(address)) incoherent_->load(threads_[thread].machine, address, old);
  return memory_.is_shared(address) ? memory_.load(threads_[thread].machine, address, old, chooser) : Loaded::kBytes;
}

void Machines::store_locked(ThreadId thread, Address address, std::span<const std::byte> bytes, std::uint32_t op) {
  const MachineId machine = threads_[thread].machine;
  const bool is_coherent = memory_.is_shared(address);
  if (!is_coherent && !is_incoherent(address)) return;
  BufferEntry entry{.kind = EntryKind::kStore, .op = op};
  pmem::for_each_piece(
      address, bytes, kLineBytes, entry, [&] { return ++group_count_; },
      [&](const BufferEntry& piece) {
        is_coherent ? memory_.store(machine, piece) : incoherent_->store(machine, piece);
      });
}

void Machines::mfence(ThreadId thread) {
  CHECK(threads_[thread].buffer.is_empty());
  complete(threads_[thread]);
}

void Machines::sfence(ThreadId thread) { push(thread, {.kind = EntryKind::kSfence}); }

void Machines::clflush(ThreadId thread, Address address) {
  push(thread, {.kind = EntryKind::kClflush, .address = address, .bytes = 1});
}

void Machines::clwb(ThreadId thread, Address address) {
  if (!is_incoherent(address)) return clflushopt(thread, address);
  push(thread, {.kind = EntryKind::kClflush, .address = address, .bytes = 1, .op = kKeepsCopy});
}

void Machines::clflushopt(ThreadId thread, Address address) {
  if (is_incoherent(address)) return clflush(thread, address);
  push(thread, {.kind = EntryKind::kClflushopt, .address = address, .bytes = 1});
  let_clflushopts_leave(threads_[thread]);
}

BufferEntry Machines::leave(ThreadId thread, std::size_t i) {
  Thread& t = threads_[thread];
  CHECK(t.buffer.may_leave(i));
  const BufferEntry entry = t.buffer.take(i);
  switch (entry.kind) {
    case EntryKind::kStore:
    case EntryKind::kNonTemporalStore:
      if (is_incoherent(entry.address)) incoherent_->store(t.machine, entry);
      if (!memory_.is_shared(entry.address)) break;
      memory_.store(t.machine, entry);
      if (entry.kind == EntryKind::kNonTemporalStore)
        t.awaited.push_back({line_of(entry.address), memory_.count_stores(entry.address) - 1, true});
      break;
    case EntryKind::kClflush:
      if (is_incoherent(entry.address)) {
        incoherent_->flush(t.machine, entry.address, keeps_copy(entry));
        break;
      }
      memory_.write_back(t.machine, entry.address, memory_.count_stores(entry.address));
      break;
    case EntryKind::kSfence:
      complete(t);
      break;
    default:
      break;
  }
  let_clflushopts_leave(t);
  return entry;
}

void Machines::let_clflushopts_leave(Thread& thread) {
  for (std::size_t i = 0; i < thread.buffer.size();) {
    if (thread.buffer[i].kind != EntryKind::kClflushopt || !thread.buffer.may_leave(i)) {
      ++i;
      continue;
    }
    const Address line = line_of(thread.buffer.take(i).address);
    thread.awaited.push_back({line, memory_.count_stores(line), false});
  }
}

bool Machines::awaits_write_back(ThreadId thread) const {
  const Thread& t = threads_[thread];
  return std::any_of(t.awaited.begin(), t.awaited.end(),
                     [&](const Awaited& awaited) { return memory_.has_pending(t.machine, awaited.line); });
}

void Machines::complete(Thread& thread) {
  for (const Awaited& awaited : thread.awaited) {
    if (awaited.is_store) {
      memory_.write_back_store(thread.machine, awaited.line, awaited.place);
    } else {
      memory_.write_back(thread.machine, awaited.line, awaited.place);
    }
  }
  thread.awaited.clear();
}

}  // namespace crashcut::cxl
