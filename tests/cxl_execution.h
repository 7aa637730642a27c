// CxlExecution: one execution of a small program of several machines on cxl/, for the schedulers of cxl_schedules.cc.
#pragma once

#include "cxl/failure_points.h"
#include "cxl/incoherent_primitive.h"
#include "cxl/line_primitive.h"
#include "cxl/machines.h"
#include "pmem/x86_primitive.h"
#include "scheduler/order.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/search.h"
#include "tests/cxl_program.h"

namespace crashcut::tests {
using namespace scheduler;
namespace x86 = pmem::x86;
namespace line = cxl::line;
namespace incoherent = cxl::incoherent;

inline PrimitiveId x86_primitive() { return x86::primitive(); }
inline PrimitiveId line_primitive() { return line::primitive(); }
inline PrimitiveId incoherent_primitive() { return incoherent::primitive(); }

// For a load that has nothing to choose.
class NoChoice final : public persist::Chooser {
 public:
  std::uint32_t choose(const persist::Choice&) override {
    CHECK(false);
    return 0;
  }
};

// One execution. Actors: the threads, the entries of their buffers, the answers to their questions, the failures.
class CxlExecution {
 public:
  static constexpr std::uint32_t kEntriesMost = 32, kAnswersMost = 8;
  static constexpr pmem::Address kBase = 0x10000000;

  explicit CxlExecution(const CxlProgram& program)
      : program_(program),
        memory_({.has_global_flush = program.has_global_flush, .has_poison = program.has_poison}),
        machines_(memory_, {}, &incoherent_),
        threads_(program.threads.size()) {
    for (int line = 0; line < program.lines; ++line) {
      const int home = program.home_of(line);
      if (program.is_incoherent(line)) {
        incoherent_.add_region({address(2 * line), pmem::kLineBytes});
        continue;
      }
      memory_.add_region({address(2 * line), pmem::kLineBytes}, nullptr, home < 0 ? cxl::kNoMachine : machine(home));
    }
    for (const auto& thread : program.threads) machines_.start_thread(machine(thread.machine));
  }

  std::vector<Pending> pending() const {
    std::vector<Pending> all;
    for (std::uint32_t t = 0; t < threads_.size(); ++t) {
      const Thread& thread = threads_[t];
      if (thread.has_asked) {
        Operation take(answer::take(answer_of(t)));
        take.add(executed(t, program_.threads[t].ops[thread.next].word, line::kDecide));
        add(all, t, ActorId{t}, take);
      } else if (thread.next < program_.threads[t].ops.size()) {
        add(all, t, ActorId{t}, operation_of(t, program_.threads[t].ops[thread.next]));
      }
      for (std::size_t i = 0; i < thread.waiting.size(); ++i)
        add(all, t, entry_actor(t, thread.waiting[i]), leave_of(t, i));
      for (std::uint32_t k = 0; k < kAnswersMost; ++k)
        add(all, t, ActorId{first_answer() + t * kAnswersMost + k}, answer::give(answer_of(t), k));
    }
    for (int m = 0; m < program_.machines; ++m) {
      for (int line = 0; line < program_.lines; ++line) {
        if (!program_.is_incoherent(line)) continue;
        for (const auto verb : {incoherent::kWriteBack, incoherent::kFetch}) {
          Operation operation(
              incoherent::access(incoherent_at(2 * line), verb, static_cast<std::uint8_t>(m), kNoThread));
          operation.set_host(host_of(m));
          all.push_back({cache_actor(m, line, verb), operation});
        }
      }
    }
    for (int m = 0; m < program_.machines + program_.devices; ++m) {
      const bool is_device = m >= program_.machines;
      if (!is_device && program_.never_fails[static_cast<std::size_t>(m)]) continue;
      Operation fail(host::access(host_of(m), host::kFail));
      if (!is_device && program_.failures_most >= 0) fail.add(semaphore::access(budget(), semaphore::kWait));
      all.push_back({ActorId{first_failure() + static_cast<std::uint32_t>(m)}, fail});
    }
    return all;
  }

  // Before the step is applied: what it finds in memory.
  void look(Step& step) {
    const std::uint32_t actor = index(step.actor);
    if (actor >= threads_.size() || threads_[actor].has_asked) return;
    for (Access& access : step.operation) {
      const CxlOp& op = program_.threads[actor].ops[threads_[actor].next];
      const bool loads = op.kind == CxlOp::kLoad || op.kind == CxlOp::kXchg || op.kind == CxlOp::kCas;
      if (loads && primitive_of(access.object) == line_primitive())
        access.observed = static_cast<std::int64_t>(machines_.count_answers(actor, address(op.word), 8));
    }
  }

  // Of the failure that is the next step (cxl::SharedMemory::fail).
  void set_tried(std::optional<std::uint64_t> tried) { tried_ = tried; }
  // After it was applied: its results are known.
  void take(const Step& step) {
    const std::uint32_t actor = index(step.actor);
    if (actor >= first_cache()) return act_by_itself(actor - first_cache());
    if (actor >= first_failure())
      return machines_.fail(machine(static_cast<int>(actor - first_failure())), std::exchange(tried_, std::nullopt));
    if (actor >= first_answer()) return;
    if (actor >= threads_.size()) return leave(step.operation, (actor - first_entry()) / kEntriesMost);
    Thread& thread = threads_[actor];
    const CxlOp& op = program_.threads[actor].ops[thread.next];
    if (thread.has_asked) {
      thread.has_asked = false;
      if (machines_.is_gone(address(op.word))) return;
      return machines_.decide(address(op.word), 8, static_cast<std::uint32_t>(step.operation.result()));
    }
    for (const Access& access : step.operation) {
      if (primitive_of(access.object) == line_primitive() && access.observed > 1) {
        CHECK(access.observed <= kAnswersMost);
        thread.has_asked = true;
        return;
      }
    }
    if (op.kind == CxlOp::kEnd && next_to_write_back(actor) >= 0) {
      incoherent_.flush(machines_.machine_of(actor), address(2 * next_to_write_back(actor)), false);
      ++thread.written_back;
      return;
    }
    if (touches(op) && !thread.has_touched && machines_.is_gone(address(op.word))) {
      thread.seen += "P ";
    } else if (must_touch(actor, op)) {
      thread.has_touched = true;
      return;
    } else {
      execute(actor, op, step.operation);
    }
    thread.has_touched = false;
    ++thread.next;
  }

  CxlOutcome outcome(const State& state) const {
    CxlOutcome text;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      const bool has_failed = host::stage(state.object(host_of(program_.threads[t].machine))) == host::kFailed;
      text += has_failed ? "F" : threads_[t].seen;
      text += '|';
    }
    return text;
  }

  // What the step is about to do to memory, and whether a failure of the machine must be tried before it.
  bool is_failure_point(const Pending& next, cxl::MachineId m, const State& state) const {
    const std::uint32_t actor = index(next.actor);
    if (actor >= first_answer()) return false;
    const bool is_thread = actor < threads_.size();
    cxl::NextStep step;
    step.thread = is_thread ? actor : (actor - first_entry()) / kEntriesMost;
    const bool is_own = machines_.machine_of(step.thread) == m;
    if (!is_thread) {
      const auto& waiting = threads_[step.thread].waiting;
      const auto found = std::find(waiting.begin(), waiting.end(), next.operation[0].argument);
      const pmem::BufferEntry& entry =
          machines_.buffer(step.thread)[position(step.thread, static_cast<std::size_t>(found - waiting.begin()))];
      step.address = entry.address;
      step.kind = entry.is_store()                          ? cxl::NextStep::kStore
                  : entry.kind == pmem::EntryKind::kClflush ? cxl::NextStep::kClflush
                                                            : cxl::NextStep::kFence;
      step.is_weak = entry.kind == pmem::EntryKind::kNonTemporalStore;
      return (cxl::taken_from(step, machines_, memory_) >> m & 1) != 0;
    }
    if (threads_[actor].has_asked) return false;
    const CxlOp& op = program_.threads[actor].ops[threads_[actor].next];
    step.address = address(op.word);
    switch (op.kind) {
      case CxlOp::kStore:
      case CxlOp::kStoreBoth:
      case CxlOp::kNonTemporal:
      case CxlOp::kFill:
      case CxlOp::kClflush:
      case CxlOp::kClflushopt:
        step.kind = cxl::NextStep::kTouch;
        break;
      case CxlOp::kLoad:
        step.kind = cxl::NextStep::kLoad;
        break;
      case CxlOp::kXchg:
      case CxlOp::kCas:
        step.kind = cxl::NextStep::kStore;
        step.is_locked = true;
        break;
      case CxlOp::kMfence:
        step.kind = cxl::NextStep::kFence;
        break;
      case CxlOp::kUnlock:
      case CxlOp::kEnd:
        return is_own;
      case CxlOp::kLock: {
        const std::int64_t owner = mutex::owner(state.object(mutex()));
        const bool is_held_by_it = owner != 0 && machines_.machine_of(static_cast<std::uint32_t>(owner - 1)) == m;
        step.kind = cxl::NextStep::kFence;
        return is_own || is_held_by_it || (cxl::taken_from(step, machines_, memory_) >> m & 1) != 0;
      }
      case CxlOp::kWaitMachine:
        return static_cast<cxl::MachineId>(op.word) == m;
      default:
        return false;
    }
    return (cxl::taken_from(step, machines_, memory_) >> m & 1) != 0;
  }
  // For cxl::LastFailurePoint.
  std::uint64_t store_count() const { return memory_.store_count(); }
  cxl::MachineId machine_of(ActorId actor) const {
    const std::uint32_t a = index(actor);
    return machines_.machine_of(a < threads_.size() ? a : (a - first_entry()) / kEntriesMost);
  }
  static bool is_simple(const Operation& operation) {
    return std::all_of(operation.begin(), operation.end(), [](const Access& access) {
      const PrimitiveId id = primitive_of(access.object);
      return id == x86_primitive() || id == PrimitiveId::kAnswer || (id == line_primitive() && access.observed <= 1);
    });
  }
  ActorId failure_of(int m) const { return ActorId{first_failure() + static_cast<std::uint32_t>(m)}; }
  // The next of a thread by its own steps, and whether an actor is one of a thread or of its buffer.
  bool is_of_thread(ActorId actor) const { return index(actor) < first_answer(); }
  bool is_of_cache(ActorId actor) const { return index(actor) >= first_cache(); }
  std::uint64_t rank(ActorId actor, std::uint64_t seed) const {
    const std::uint32_t a = index(actor);
    const bool is_thread = a < threads_.size();
    const std::uint32_t t = is_thread ? a : (a - first_entry()) / kEntriesMost;
    std::uint64_t h = seed * 0x9e3779b97f4a7c15u + (is_thread ? 2 * t : 2 * t + 1) * 0xc2b2ae3d27d4eb4fu +
                      (is_thread ? threads_[t].next : a - first_entry()) * 0x165667b19e3779f9u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
  }
  std::uint32_t thread_count() const { return static_cast<std::uint32_t>(threads_.size()); }
  ActorId answer_actor(std::uint32_t t, std::uint32_t k) const {
    return ActorId{first_answer() + t * kAnswersMost + k};
  }
  bool has_asked(std::uint32_t t) const { return threads_[t].has_asked; }

  std::vector<ObjectStart> objects() const {
    std::vector<ObjectStart> all{{mutex(), {mutex::kNormal}}};
    if (program_.failures_most >= 0) all.push_back({budget(), {program_.failures_most}});
    return all;
  }

 private:
  struct Thread {
    std::size_t next = 0;
    bool has_asked = false;
    bool has_touched = false;  // what it stores to or flushes next
    int written_back = 0;      // lines without coherence, before the end of the machine
    std::uint8_t loaded = 0;
    std::int64_t pushed = 0;            // entries that are actors: all but clflushopts
    std::vector<std::int64_t> waiting;  // their numbers, oldest first
    std::string seen;
  };

  // Numbers of objects are unique among all primitives.
  static ObjectId host_of(int m) { return make_object_id(PrimitiveId::kHost, 1 + static_cast<std::uint32_t>(m)); }
  static ObjectId mutex() { return make_object_id(PrimitiveId::kMutex, 8); }
  static ObjectId budget() { return make_object_id(PrimitiveId::kSemaphore, 9); }
  static ObjectId fences() { return make_object_id(x86_primitive(), 10); }
  static ObjectId buffer(std::uint32_t t) { return make_object_id(x86_primitive(), 16 + t); }
  static ObjectId answer_of(std::uint32_t t) { return make_object_id(PrimitiveId::kAnswer, 24 + t); }
  static ObjectId incoherent_at(int word) {
    return make_object_id(incoherent_primitive(), 40 + static_cast<std::uint32_t>(CxlProgram::line_of(word)));
  }
  static constexpr std::uint8_t kNoThread = 255;
  // The same access to a line without coherence.
  Access incoherent_access(std::uint32_t t, int word, incoherent::Verb verb) const {
    return incoherent::access(incoherent_at(word), verb, machine_number(t), number(t));
  }
  bool is_incoherent(int word) const { return program_.is_incoherent(CxlProgram::line_of(word)); }
  static ObjectId line_at(int word) {
    return make_object_id(line_primitive(), 32 + static_cast<std::uint32_t>(CxlProgram::line_of(word)));
  }

  std::uint32_t first_entry() const { return static_cast<std::uint32_t>(threads_.size()); }
  std::uint32_t first_answer() const { return first_entry() * (1 + kEntriesMost); }
  std::uint32_t first_failure() const { return first_answer() + first_entry() * kAnswersMost; }
  // Two a machine and line.
  std::uint32_t first_cache() const {
    return first_failure() + static_cast<std::uint32_t>(program_.machines + program_.devices);
  }
  ActorId cache_actor(int m, int line, incoherent::Verb verb) const {
    return ActorId{first_cache() + 2 * static_cast<std::uint32_t>(m * program_.lines + line) +
                   (verb == incoherent::kFetch ? 1 : 0)};
  }
  void act_by_itself(std::uint32_t i) {
    const auto m = static_cast<cxl::MachineId>(i / 2 / static_cast<std::uint32_t>(program_.lines));
    const pmem::Address at = address(2 * static_cast<int>(i / 2 % static_cast<std::uint32_t>(program_.lines)));
    i % 2 == 0 ? incoherent_.flush(m, at, true) : incoherent_.fetch(m, at);
  }
  ActorId entry_actor(std::uint32_t t, std::int64_t n) const {
    CHECK(n < kEntriesMost);
    return ActorId{first_entry() + t * kEntriesMost + static_cast<std::uint32_t>(n)};
  }
  static cxl::MachineId machine(int m) { return static_cast<cxl::MachineId>(m); }
  std::uint8_t machine_number(std::uint32_t t) const { return static_cast<std::uint8_t>(program_.threads[t].machine); }
  static std::uint8_t number(std::uint32_t t) { return static_cast<std::uint8_t>(t); }
  static pmem::Address address(int word) {
    return kBase + static_cast<pmem::Address>(CxlProgram::line_of(word)) * pmem::kLineBytes +
           8 * static_cast<pmem::Address>(word % 2);
  }

  void add(std::vector<Pending>& all, std::uint32_t t, ActorId actor, Operation operation) const {
    operation.set_host(host_of(program_.threads[t].machine));
    all.push_back({actor, operation});
  }
  Access line_access(std::uint32_t t, int word, line::Verb verb) const {
    return line::access(line_at(word), verb, machine_number(t), number(t), program_.has_poison);
  }
  // The same of an instruction that is executed: it looks whether memory is there.
  Access executed(std::uint32_t t, int word, line::Verb verb) const {
    const int home = program_.home_of(CxlProgram::line_of(word));
    const Access access = line_access(t, word, verb);
    return home < 0 ? access : line::look_at_home(access, host_of(home));
  }
  // The line without coherence that the machine writes back next, before it ends; -1: none is left.
  int next_to_write_back(std::uint32_t t) const {
    int line = 0, count = 0;
    for (; line < program_.lines; ++line) {
      if (program_.is_incoherent(line) && count++ == threads_[t].written_back) return line;
    }
    return -1;
  }
  static bool pushes(const CxlOp& op) { return op.kind <= CxlOp::kFill || op.kind == CxlOp::kClflush; }
  static bool touches(const CxlOp& op) { return pushes(op) || op.kind <= CxlOp::kCas || op.kind == CxlOp::kClflushopt; }
  // What waits in the buffer does not look whether memory is there: a step before it does.
  bool must_touch(std::uint32_t t, const CxlOp& op) const {
    return pushes(op) && program_.home_of(CxlProgram::line_of(op.word)) >= 0 && !threads_[t].has_touched;
  }
  static std::uint32_t word_number(const CxlOp& op) { return static_cast<std::uint32_t>(op.word); }

  Operation operation_of(std::uint32_t t, const CxlOp& op) const {
    const auto push = [&](x86::Entry::Kind kind, std::uint8_t pieces = 1) {
      x86::Entry entry{kind, 0, word_number(op), word_number(op)};
      if (pieces > 1) {
        entry.group = static_cast<std::uint8_t>(threads_[t].pushed + 1);
        entry.first_word = entry.first_word / 2 * 2;
        entry.last_word = entry.first_word + 1;
      }
      if (op.kind == CxlOp::kFill) {
        entry.first_word = entry.first_word / 2 * 2;
        entry.last_word = entry.first_word + 1;
      }
      return Operation(x86::push(buffer(t), number(t), threads_[t].pushed, entry, pieces));
    };
    if (must_touch(t, op)) return executed(t, op.word, line::kTouch);
    const Operation drained(x86::access(buffer(t), x86::kAwaitEmpty, number(t)));
    switch (op.kind) {
      case CxlOp::kStore:
        return push(x86::Entry::kStore);
      case CxlOp::kStoreBoth:
        return push(x86::Entry::kStore, 2);
      case CxlOp::kNonTemporal:
      case CxlOp::kFill:
        return push(x86::Entry::kNonTemporal);
      case CxlOp::kSfence:
        return push(x86::Entry::kSfence);
      case CxlOp::kClflush:
        return push(x86::Entry::kFlushOrMark);
      case CxlOp::kClflushopt:
      case CxlOp::kClwb:
        return is_incoherent(op.word) ? push(x86::Entry::kFlushOrMark)
                                      : Operation(executed(t, op.word, line::kClflushopt));
      case CxlOp::kLoad:
        if (is_incoherent(op.word)) return incoherent_access(t, op.word, incoherent::kLoad);
        return Operation(executed(t, op.word, line::kLoad)).add(answer::ask(answer_of(t)));
      case CxlOp::kXchg:
      case CxlOp::kCas:
        if (is_incoherent(op.word)) return Operation(incoherent_access(t, op.word, incoherent::kStore)).add(drained[0]);
        return Operation(executed(t, op.word, line::kStore))
            .add(drained[0])
            .add(x86::access(fences(), x86::kStoreAnywhere, number(t)))
            .add(answer::ask(answer_of(t)));
      case CxlOp::kMfence:
        return drained;
      case CxlOp::kLock:
        return Operation(mutex::access(mutex(), mutex::kLock)).add(drained[0]);
      case CxlOp::kUnlock:
        return Operation(mutex::access(mutex(), mutex::kUnlock)).add(drained[0]);
      case CxlOp::kWaitMachine:
        return host::access(host_of(op.word), host::kWait);
      case CxlOp::kJoin:
        CHECK(false);  // of real programs only
      case CxlOp::kEnd: {
        const int line = next_to_write_back(t);
        if (line >= 0) return Operation(incoherent_access(t, 2 * line, incoherent::kFlush)).add(drained[0]);
        Operation end(host::access(host_of(program_.threads[t].machine), host::kEnd));
        for (std::uint32_t o = 0; o < threads_.size(); ++o) {
          if (program_.threads[o].machine == program_.threads[t].machine)
            end.add(x86::access(buffer(o), x86::kAwaitEmpty, number(o)));
        }
        return end;
      }
    }
    return {};
  }

  // The place of entry number i of those that are actors in the thread's buffer.
  std::size_t position(std::uint32_t t, std::size_t i) const {
    const pmem::StoreBuffer& all = machines_.buffer(t);
    std::size_t at = 0;
    while (all[at].kind == pmem::EntryKind::kClflushopt || i-- > 0) ++at;
    return at;
  }
  Operation leave_of(std::uint32_t t, std::size_t i) const {
    const pmem::BufferEntry& entry = machines_.buffer(t)[position(t, i)];
    const int word =
        entry.address < kBase
            ? 0
            : static_cast<int>((entry.address - kBase) / pmem::kLineBytes * 2 + (entry.address % pmem::kLineBytes) / 8);
    x86::Entry own{x86::Entry::kFlushOrMark, 0, static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word)};
    if (entry.kind == pmem::EntryKind::kStore) own.kind = x86::Entry::kStore;
    if (entry.kind == pmem::EntryKind::kNonTemporalStore) own.kind = x86::Entry::kNonTemporal;
    if (entry.kind == pmem::EntryKind::kSfence) own.kind = x86::Entry::kSfence;
    if (entry.bytes > 8) own.last_word = own.first_word + 1;
    // The pieces of a wide store have the number of the first one.
    if (entry.group != 0) {
      const std::int64_t n = threads_[t].waiting[i];
      own.group = static_cast<std::uint8_t>(word % 2 == 0 ? n + 1 : n);
    }
    Operation leave(x86::leave(buffer(t), number(t), threads_[t].waiting[i], own));
    if (is_incoherent(word)) {
      if (entry.is_store())
        leave.add(incoherent_access(
            t, word, entry.kind == pmem::EntryKind::kStore ? incoherent::kStore : incoherent::kStoreWeakly));
      if (entry.kind == pmem::EntryKind::kClflush)
        leave.add(incoherent_access(t, word, cxl::keeps_copy(entry) ? incoherent::kClean : incoherent::kFlush));
      if (entry.kind == pmem::EntryKind::kSfence) leave.add(x86::access(fences(), x86::kLeaveFence, number(t)));
      return leave;
    }
    if (entry.is_store())
      leave.add(line_access(t, word, entry.kind == pmem::EntryKind::kStore ? line::kStore : line::kStoreWeakly))
          .add(x86::access(fences(), x86::kStoreAnywhere, number(t)));
    if (entry.kind == pmem::EntryKind::kClflush) leave.add(line_access(t, word, line::kClflush));
    if (entry.kind == pmem::EntryKind::kSfence) leave.add(x86::access(fences(), x86::kLeaveFence, number(t)));
    return leave;
  }
  void leave(const Operation& operation, std::uint32_t t) {
    auto& waiting = threads_[t].waiting;
    const auto found = std::find(waiting.begin(), waiting.end(), operation[0].argument);
    machines_.leave(t, position(t, static_cast<std::size_t>(found - waiting.begin())));
    waiting.erase(found);
  }

  bool look_up(std::uint32_t t, const CxlOp& op) {
    NoChoice none;
    std::byte bytes[8];
    Thread& thread = threads_[t];
    if (machines_.load(t, address(op.word), bytes, none) != cxl::Loaded::kBytes) {
      thread.seen += "P ";
      return false;
    }
    thread.loaded = static_cast<std::uint8_t>(bytes[0]);
    thread.seen += std::to_string(static_cast<int>(bytes[0])) + "," + std::to_string(static_cast<int>(bytes[4])) + " ";
    return true;
  }

  void execute(std::uint32_t t, const CxlOp& op, const Operation& done) {
    Thread& thread = threads_[t];
    std::byte bytes[64];
    std::fill(std::begin(bytes), std::end(bytes), static_cast<std::byte>(op.value));
    const std::size_t before = machines_.buffer(t).size();
    switch (op.kind) {
      case CxlOp::kStore: {
        if (op.is_loaded)
          std::fill(std::begin(bytes), std::end(bytes), static_cast<std::byte>(op.value + thread.loaded));
        const pmem::Address at = address(op.word) + (op.halves == 2 ? 4 : 0);
        machines_.store(t, at, std::span(bytes).first(op.halves == 3 ? 8 : 4));
        break;
      }
      case CxlOp::kStoreBoth:
        machines_.store(t, address(op.word / 2 * 2), std::span(bytes).first(16));
        break;
      case CxlOp::kNonTemporal:
        machines_.store_non_temporal(t, address(op.word), std::span(bytes).first(8));
        break;
      case CxlOp::kFill:
        machines_.store_non_temporal(t, address(op.word / 2 * 2), bytes, true);
        break;
      case CxlOp::kLoad:
        look_up(t, op);
        break;
      case CxlOp::kXchg:
      case CxlOp::kCas:
        machines_.mfence(t);
        if (look_up(t, op) && (op.kind == CxlOp::kXchg || thread.loaded == op.expected))
          machines_.store_locked(t, address(op.word), std::span(bytes).first(8));
        break;
      case CxlOp::kMfence:
      case CxlOp::kUnlock:
        machines_.mfence(t);
        break;
      case CxlOp::kSfence:
        machines_.sfence(t);
        break;
      case CxlOp::kClflush:
        machines_.clflush(t, address(op.word));
        break;
      case CxlOp::kClflushopt:
        machines_.clflushopt(t, address(op.word));
        if (!is_incoherent(op.word)) return;  // no actor
        break;
      case CxlOp::kClwb:
        machines_.clwb(t, address(op.word));
        if (!is_incoherent(op.word)) return;
        break;
      case CxlOp::kLock:
        machines_.mfence(t);
        thread.seen += done.result() == EOWNERDEAD ? "died " : "locked ";
        break;
      case CxlOp::kWaitMachine:
        thread.seen += done.result() == host::kEnded ? "ended " : "failed ";
        break;
      case CxlOp::kJoin:
      case CxlOp::kEnd:
        break;
    }
    for (std::size_t i = before; i < machines_.buffer(t).size(); ++i) thread.waiting.push_back(thread.pushed++);
  }

  const CxlProgram& program_;
  cxl::SharedMemory memory_;
  cxl::IncoherentMemory incoherent_;
  cxl::Machines machines_;
  std::optional<std::uint64_t> tried_;
  std::vector<Thread> threads_;
};

}  // namespace crashcut::tests
