#include "scheduler/runtime/hosts.h"

#include <linux/futex.h>
#include <sys/mman.h>

#include "scheduler/primitives/host.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hold.h"
#include "scheduler/runtime/regions.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

static_assert(sizeof(Control) <= kCommonOffset);

std::uint32_t g_host = 0;
std::uint16_t g_incarnation = 0;
std::uint64_t g_host_tag = 0;

namespace {

constexpr std::uint64_t kFirstBlock = kPlacesAt - kHeapAt + kPlacesBytes;

// What a host's word says of the execution of a request.
enum Turn : std::uint32_t { kWaits, kRuns, kLeaves };
std::uint32_t word_of(std::uint32_t request, Turn turn) { return request << 2 | turn; }
std::uint32_t request_of(std::uint32_t word) { return word >> 2; }
Turn turn_of(std::uint32_t word) { return static_cast<Turn>(word & 3); }

HostPart& own_part() { return g_control->hosts[g_host]; }
std::uint32_t request() { return g_control->requests.load(std::memory_order_acquire); }

void tell(std::uint32_t host, Turn turn) {
  HostPart& part = g_control->hosts[host];
  part.turn.store(word_of(request(), turn), std::memory_order_release);
  kernel(SYS_futex, &part.turn, FUTEX_WAKE, 1, 0, 0, 0);
}

// The host whose main() the actor is, or that fails by it, is named by its number.
Actor* add_actor(std::uint32_t ordinal, std::uint32_t host, std::uint16_t incarnation) {
  const bool is_first = ordinal == Names::main_ordinal(0, 0);
  Actor* actor = new_actor(is_first ? ActorId{0} : actor_number(ActorId{0}, ordinal));
  actor->host = host;
  actor->incarnation = incarnation;
  actor->has_pending = true;
  return actor;
}

Actor* add_main(std::uint32_t host, std::uint16_t incarnation) {
  Actor* main = add_actor(Names::main_ordinal(host, incarnation), host, incarnation);
  main->host_object = host_object(host);
  main->pending = host::access(main->host_object, host::kStart, incarnation);
  if (g_control->is_opaque != 0) main->pending.set_opaque();
  return main;
}

Actor& add_failure(std::uint32_t host) {
  Actor* actor = add_actor(Names::kFailureOrdinal + host, host, 0);
  actor->is_failure = true;
  actor->pending = host::access(host_object(host), host::kFail);
  actor->pending.set_failure_points(static_cast<std::uint16_t>(1u << host));
  return *actor;
}

// A bound on all failures of machines is a semaphore.
void add_failures() {
  constexpr std::uint64_t kBudgetKey = 0xfa11;
  const std::uint32_t machines = (1u << g_control->host_count) - 1;
  if ((g_control->failing & machines) == 0 || g_control->failures_most == 0) return;
  const ObjectId budget = keyed_object(PrimitiveId::kSemaphore, kBudgetKey);
  declare_object({budget, {std::int64_t{g_control->failures_most}}});
  for (std::uint32_t host = 0; host < g_control->host_count; ++host) {
    if ((g_control->failing >> host & 1) == 0) continue;
    add_failure(host).pending.add(semaphore::access(budget, semaphore::kWait));
  }
}

// So many steps do caches take by themselves in an execution, where a budget is asked for.
void add_cache_budget() {
  for (std::uint32_t i = 0; i < g_control->region_rule_count; ++i) {
    if (g_control->region_rules[i].is_incoherent != 0)
      return declare_object({cache_budget(), {std::int64_t{g_control->cache_steps_most}}});
  }
}

// Memory devices that may fail.
void add_devices() {
  for (std::uint32_t device = 0; device < g_control->device_count; ++device) {
    const std::uint32_t host = g_control->host_count + device;
    declare_object({host_object(host)});
    add_failure(host);
  }
}

}  // namespace

bool is_hosted() { return g_control != nullptr && g_control->host_count > 0; }

bool map_hosts(int control_fd, std::uint32_t host) {
  g_host = host;
  const long at = kernel(SYS_mmap, kHeapAt, kCommonBytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, control_fd, kCommonOffset);
  return at == static_cast<long>(kHeapAt) && map_regions(control_fd);
}

ObjectId host_object(std::uint32_t host) {
  constexpr std::uint64_t kHostKey = 0x4057;
  return keyed_object(PrimitiveId::kHost, kHostKey + host);
}

ObjectId cache_budget() {
  constexpr std::uint64_t kCacheBudgetKey = 0xcac4e;
  return keyed_object(PrimitiveId::kSemaphore, kCacheBudgetKey);
}

void wait_for_first_turn() {
  HostPart& part = own_part();
  while (true) {
    const std::uint32_t word = part.turn.load(std::memory_order_acquire);
    const bool is_new = request_of(word) != part.done && request_of(word) == request();
    if (is_new && turn_of(word) == kRuns) return;
    kernel(SYS_futex, &part.turn, FUTEX_WAIT, word, 0, 0, 0);
  }
}

void enter_common_heap(bool is_first) {
  CommonHeap& heap = common_heap();
  if (is_first) {
    heap.arena = {};
    heap.memory = nullptr;
    heap.arena.set_range(reinterpret_cast<char*>(kHeapAt) + kFirstBlock, kCommonBytes - kFirstBlock,
                         kCommonBytes - kFirstBlock, MADV_REMOVE);
  }
  own_part().joined.store(request());
  own_part().turn.store(word_of(request(), kRuns));
  g_control->running_host = g_host;
  inject::use_arena(heap.arena);
}

void leave_common_heap() { inject::use_arena(inject::shared_arena()); }

void pass_end_on(void (*reply)()) {
  HostPart& part = own_part();
  part.done.store(request());
  part.joined.store(0);
  for (std::uint32_t host = 0; host < g_control->host_count; ++host) {
    if (g_control->hosts[host].joined.load() == request()) {
      g_control->running_host = host;
      return tell(host, kLeaves);
    }
  }
  reply();
}

bool has_turn_or_joined() {
  const HostPart& part = own_part();
  return part.joined.load() == request() || part.turn.load() == word_of(request(), kRuns);
}

void begin_hosts() {
  for (std::uint32_t host = 0; host < g_control->host_count; ++host) declare_object({host_object(host)});
  for (std::uint32_t host = 0; host < g_control->host_count; ++host) add_main(host, 0);
  add_failures();
  add_devices();
  add_cache_budget();
  for (std::uint32_t host = 0; g_control->has_memory_model != 0 && host < g_control->host_count; ++host)
    kBufferModel.begin_caches(host);
}

void note_failure_points(Actor& actor) {
  const std::uint32_t covered = kBufferModel.is_on() ? kBufferModel.covered_failures() : 0;
  actor.pending.set_covered_failures(static_cast<std::uint16_t>(covered));
  const Access& first = actor.pending[0];
  const PrimitiveId primitive = primitive_of(first.object);
  if (actor.is_helper() || primitive_of(first).traits.is_memory || primitive == PrimitiveId::kThread ||
      primitive == PrimitiveId::kSpin || primitive == PrimitiveId::kAnswer)
    return;
  std::uint32_t points = primitive == PrimitiveId::kHost && first.verb == host::kStart ? 0 : 1u << actor.host;
  for (const Access& access : actor.pending) {
    if (primitive_of(access.object) == PrimitiveId::kMutex) {
      const std::int64_t owner = mutex::owner(g_world->state.object(access.object));
      const Actor* holder = owner == 0 ? nullptr : g_world->actors[static_cast<std::size_t>(owner - 1)];
      if (holder != nullptr) points |= 1u << holder->host;
    }
    if (primitive_of(access.object) != PrimitiveId::kHost) continue;
    for (std::uint32_t host = 0; host < g_control->host_count; ++host) {
      if (access.object == host_object(host)) points |= 1u << host;
    }
  }
  actor.pending.set_failure_points(
      static_cast<std::uint16_t>(actor.pending.failure_points() | (points & g_control->failing)));
}

void add_incarnation(std::uint32_t host) {
  const auto incarnation = static_cast<std::uint16_t>(host::incarnation(object_of(host_object(host))));
  if (incarnation >= Names::kIncarnationsMost) refuse("crashcut_restart_machine() 64 times for one machine");
  add_main(host, incarnation);
  if (g_control->has_memory_model != 0) kBufferModel.begin_caches(host);
}

bool runs_here(const Actor& actor) {
  if (actor.is_failure || actor.is_cache || g_control->host_count == 0) return true;
  return actor.host == g_host && (actor.incarnation == g_incarnation || current_or_null() == nullptr);
}

Actor& pass_turn_to(Actor& actor) {
  HostPart& part = own_part();
  g_world->chosen = &actor;
  if (actor.host != g_host) {
    const std::uint32_t waiting = word_of(request(), kWaits);
    show_to_debugger();
    part.turn.store(waiting, std::memory_order_relaxed);
    g_control->running_host.store(actor.host, std::memory_order_relaxed);
    tell(actor.host, kRuns);
    while (part.turn.load(std::memory_order_acquire) == waiting)
      kernel(SYS_futex, &part.turn, FUTEX_WAIT, waiting, 0, 0, 0);
    if (turn_of(part.turn.load()) == kLeaves) end_execution();
  }
  if (!runs_here(*g_world->chosen)) begin_again();
  return *g_world->chosen;
}

}  // namespace crashcut::scheduler::runtime
