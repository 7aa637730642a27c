#include "tests/cxl_schedules.h"

#include <gtest/gtest.h>

#include "cxl/failure_points.h"
#include "cxl/line_primitive.h"
#include "cxl/machines.h"
#include "pmem/x86_primitive.h"
#include "scheduler/normal_form.h"
#include "scheduler/order.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/semaphore.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;
namespace x86 = pmem::x86;
namespace line = cxl::line;

PrimitiveId x86_primitive() { return x86::primitive(); }
PrimitiveId line_primitive() { return line::primitive(); }

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
        machines_(memory_, {}),
        threads_(program.threads.size()) {
    memory_.add_region({kBase, static_cast<std::uint64_t>(program.lines) * pmem::kLineBytes});
    for (const auto& thread : program.threads) machines_.start_thread(machine(thread.machine));
  }

  std::vector<Pending> pending() const {
    std::vector<Pending> all;
    for (std::uint32_t t = 0; t < threads_.size(); ++t) {
      const Thread& thread = threads_[t];
      if (thread.has_asked) {
        Operation take(answer::take(answer_of(t)));
        take.add(line_access(t, program_.threads[t].ops[thread.next].word, line::kDecide));
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
      if (program_.never_fails[static_cast<std::size_t>(m)]) continue;
      Operation fail(host::access(host_of(m), host::kFail));
      if (program_.failures_most >= 0) fail.add(semaphore::access(budget(), semaphore::kWait));
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

  // After it was applied: its results are known.
  void take(const Step& step) {
    const std::uint32_t actor = index(step.actor);
    if (actor >= first_failure()) return machines_.fail(machine(static_cast<int>(actor - first_failure())));
    if (actor >= first_answer()) return;
    if (actor >= threads_.size()) return leave(step.operation, (actor - first_entry()) / kEntriesMost);
    Thread& thread = threads_[actor];
    const CxlOp& op = program_.threads[actor].ops[thread.next];
    if (thread.has_asked) {
      thread.has_asked = false;
      return machines_.decide(address(op.word), 8, static_cast<std::uint32_t>(step.operation.result()));
    }
    for (const Access& access : step.operation) {
      if (primitive_of(access.object) == line_primitive() && access.observed > 1) {
        CHECK(access.observed <= kAnswersMost);
        thread.has_asked = true;
        return;
      }
    }
    execute(actor, op, step.operation);
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
      return cxl::takes_from(m, step, machines_, memory_);
    }
    if (threads_[actor].has_asked) return false;
    const CxlOp& op = program_.threads[actor].ops[threads_[actor].next];
    step.address = address(op.word);
    switch (op.kind) {
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
        return is_own || is_held_by_it || cxl::takes_from(m, step, machines_, memory_);
      }
      case CxlOp::kWaitMachine:
        return static_cast<cxl::MachineId>(op.word) == m;
      default:
        return false;
    }
    return cxl::takes_from(m, step, machines_, memory_);
  }
  ActorId failure_of(int m) const { return ActorId{first_failure() + static_cast<std::uint32_t>(m)}; }
  // The next of a thread by its own steps, and whether an actor is one of a thread or of its buffer.
  bool is_of_thread(ActorId actor) const { return index(actor) < first_answer(); }
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
  static ObjectId line_at(int word) {
    return make_object_id(line_primitive(), 32 + static_cast<std::uint32_t>(CxlProgram::line_of(word)));
  }

  std::uint32_t first_entry() const { return static_cast<std::uint32_t>(threads_.size()); }
  std::uint32_t first_answer() const { return first_entry() * (1 + kEntriesMost); }
  std::uint32_t first_failure() const { return first_answer() + first_entry() * kAnswersMost; }
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
        return line_access(t, op.word, line::kClflushopt);
      case CxlOp::kLoad:
        return Operation(line_access(t, op.word, line::kLoad)).add(answer::ask(answer_of(t)));
      case CxlOp::kXchg:
      case CxlOp::kCas:
        return Operation(line_access(t, op.word, line::kStore))
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
      case CxlOp::kEnd: {
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
    if (machines_.load(t, address(op.word), bytes, none) == cxl::Loaded::kPoison) {
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
        return;  // no actor
      case CxlOp::kLock:
        machines_.mfence(t);
        thread.seen += done.result() == EOWNERDEAD ? "died " : "locked ";
        break;
      case CxlOp::kWaitMachine:
        thread.seen += done.result() == host::kEnded ? "ended " : "failed ";
        break;
      case CxlOp::kEnd:
        break;
    }
    for (std::size_t i = before; i < machines_.buffer(t).size(); ++i) thread.waiting.push_back(thread.pushed++);
  }

  const CxlProgram& program_;
  cxl::SharedMemory memory_;
  cxl::Machines machines_;
  std::vector<Thread> threads_;
};

class MachinesProgram final : public Program {
 public:
  explicit MachinesProgram(const CxlProgram& program) : program_(program) {}

  Execution run(const RunRequest& request) override {
    CxlExecution machines(program_);
    Execution execution;
    execution.objects = machines.objects();
    State state(execution.objects);
    Director director(request);
    while (true) {
      execution.pending = machines.pending();
      const auto chosen = director.choose(state, execution.pending);
      execution.ending = director.ending();
      if (!chosen) break;
      const auto found = std::find_if(execution.pending.begin(), execution.pending.end(),
                                      [&](const Pending& p) { return p.actor == *chosen; });
      Step step{*chosen, found->operation};
      machines.look(step);
      state.apply(step);
      machines.take(step);
      director.note(step, state);
      execution.steps.push_back(step);
    }
    if (execution.ending == Ending::kCompleted) outcomes.insert(machines.outcome(state));
    return execution;
  }

  std::set<CxlOutcome> outcomes;

 private:
  const CxlProgram& program_;
};

}  // namespace

namespace {

// Runs the schedule of a seed and takes the answers from a path, which it makes longer with first answers.
class OneSchedule {
 public:
  OneSchedule(const CxlProgram& program, std::uint64_t seed, bool before_every_step)
      : program_(program), seed_(seed), before_every_step_(before_every_step) {}

  CxlFailures explore(std::uint64_t executions_most) {
    do {
      if (result_.executions >= executions_most) {
        result_.is_whole = false;
        break;
      }
      run();
    } while (advance());
    return result_;
  }

 private:
  struct Choice {
    std::uint32_t answer, count;
  };

  std::uint32_t choose(std::uint32_t count) {
    if (at_ == path_.size()) path_.push_back({0, count});
    CHECK(path_[at_].count == count);
    return path_[at_++].answer;
  }
  bool advance() {
    while (!path_.empty() && path_.back().answer + 1 == path_.back().count) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().answer;
    return true;
  }

  void take(CxlExecution& machines, State& state, const Pending& next) {
    Step step{next.actor, next.operation};
    machines.look(step);
    const std::uint32_t actor = index(step.actor);
    const bool was_asking = actor < machines.thread_count() && machines.has_asked(actor);
    state.apply(step);
    machines.take(step);
    if (actor >= machines.thread_count() || was_asking || !machines.has_asked(actor)) return;
    // The answer follows at once.
    std::uint32_t count = 0;
    for (const Access& access : step.operation) count = std::max(count, static_cast<std::uint32_t>(access.observed));
    const ActorId given = machines.answer_actor(actor, choose(count));
    for (const ActorId next_actor : {given, step.actor}) {
      for (const Pending& p : machines.pending()) {
        if (p.actor == next_actor) {
          take(machines, state, p);
          break;
        }
      }
    }
  }

  void run() {
    ++result_.executions;
    at_ = 0;
    CxlExecution machines(program_);
    State state(machines.objects());
    std::uint64_t points = 0;
    while (true) {
      const std::vector<Pending> pending = machines.pending();
      const Pending* next = nullptr;
      for (const Pending& p : pending) {
        if (!machines.is_of_thread(p.actor) || !state.is_enabled(p.actor, p.operation)) continue;
        if (next == nullptr || machines.rank(p.actor, seed_) > machines.rank(next->actor, seed_)) next = &p;
      }
      // A wait that nothing but a failure ends is a point, too.
      bool has_failed = false;
      for (int m = 0; m < program_.machines && !has_failed; ++m) {
        const auto fails = std::find_if(pending.begin(), pending.end(),
                                        [&](const Pending& p) { return p.actor == machines.failure_of(m); });
        if (fails == pending.end() || !state.is_enabled(fails->actor, fails->operation)) continue;
        const bool is_point = before_every_step_ || next == nullptr ||
                              machines.is_failure_point(*next, static_cast<cxl::MachineId>(m), state) ||
                              is_awaited(machines, pending, m, state);
        if (!is_point) continue;
        ++points;
        if (choose(2) == 0) continue;
        take(machines, state, *fails);
        has_failed = true;
      }
      if (has_failed) continue;
      if (next == nullptr) break;
      take(machines, state, *next);
    }
    result_.points_most = std::max(result_.points_most, points);
    result_.outcomes.insert(machines.outcome(state));
  }

  // Whether somebody else waits for what only a failure of the machine, or its own steps, can give: a lock or its end.
  static bool is_awaited(const CxlExecution& machines, const std::vector<Pending>& pending, int m, const State& state) {
    for (const Pending& p : pending) {
      if (machines.is_of_thread(p.actor) && !state.is_gone(p.operation) && !state.is_enabled(p.actor, p.operation) &&
          machines.is_failure_point(p, static_cast<cxl::MachineId>(m), state))
        return true;
    }
    return false;
  }

  const CxlProgram& program_;
  std::uint64_t seed_;
  bool before_every_step_;
  std::vector<Choice> path_;
  std::size_t at_ = 0;
  CxlFailures result_;
};

}  // namespace

CxlFailures explore_cxl_failures(const CxlProgram& program, std::uint64_t seed, bool before_every_step,
                                 std::uint64_t executions_most) {
  return OneSchedule(program, seed, before_every_step).explore(executions_most);
}

CxlFound explore_cxl(const CxlProgram& program, ReductionName reduction, std::uint64_t executions_most) {
  CxlFound found;
  MachinesProgram machines(program);
  SearchSetup setup;
  setup.reduction = reduction;
  setup.has_foresight = false;
  setup.bounds.executions_most = executions_most;
  setup.on_execution = [&](const Execution& execution) {
    EXPECT_EQ(execution.ending, Ending::kCompleted) << program.to_text();
    found.classes.insert(class_of(execution.steps));
    return true;
  };
  const SearchResult result = search({&machines}, setup);
  EXPECT_FALSE(result.diverged) << program.to_text();
  found.outcomes = std::move(machines.outcomes);
  found.executions = result.executions;
  found.asleep = result.asleep;
  found.is_whole = result.bound == Bound::kNone;
  return found;
}

}  // namespace crashcut::tests
