// Names of actors and objects: the same in every execution of a search.
#include "persist/hash.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

struct Place {
  std::uint64_t address;  // place_of() it
  PrimitiveId primitive;
  std::uint32_t times;  // how often it was initialised
  ObjectId id;
  bool is_used;
};
constexpr std::uint32_t kPlaces = 1 << 14;

}  // namespace

// Where the objects of this execution are, by address. Open addressing; sized for kObjectsMost.
struct PlaceTable {
  Place places[kPlaces];
  std::uint32_t used[kPlaces];
  std::uint32_t used_count;
};

namespace {

PlaceTable g_own_places;
PlaceTable* g_places = &g_own_places;

std::uint32_t object_number(std::uint64_t key) {
  key |= 1;
  for (std::uint32_t i = static_cast<std::uint32_t>(hash(key)) % Names::kSlots;; i = (i + 1) % Names::kSlots) {
    Names::Slot& slot = g_names->slots[i];
    if (slot.key.load(std::memory_order_acquire) == key) return slot.number;
    if (slot.key.load(std::memory_order_acquire) != 0) continue;
    lock_names();
    if (slot.key.load(std::memory_order_relaxed) == 0) {
      if (g_names->object_count + 1 >= kObjectsMost) {
        unlock_names();
        refuse("too many synchronisation objects (65536)");
      }
      slot.number = ++g_names->object_count;
      slot.key.store(key, std::memory_order_release);
    }
    unlock_names();
    if (slot.key.load(std::memory_order_acquire) == key) return slot.number;
  }
}

void declare(const ObjectStart& start, const void* address = nullptr) {
  g_world->state.declare(start);
  const std::uint32_t i = g_control->object_count;
  if (i == kObjectsMost) refuse("too many synchronisation objects (65536)");
  const auto at = reinterpret_cast<std::uint64_t>(address);
  g_control->objects[i] = {start, at == 0 ? 0 : place_of(at)};
  g_control->object_count = i + 1;
}

}  // namespace

static_assert(sizeof(PlaceTable) <= kPlacesBytes);
void use_common_places() { g_places = reinterpret_cast<PlaceTable*>(kPlacesAt); }
void declare_object(const ObjectStart& start) { declare(start); }

void lock_names() {
  std::uint32_t free = 0;
  while (!g_names->lock.compare_exchange_weak(free, 1, std::memory_order_acquire)) free = 0;
}
void unlock_names() { g_names->lock.store(0, std::memory_order_release); }

std::uint64_t hash(std::uint64_t x) { return persist::mix(persist::kHashStart, x); }

ActorId actor_number(ActorId parent, std::uint32_t ordinal) {
  lock_names();
  std::uint32_t i = 1;
  for (; i < g_names->actor_count; ++i) {
    if (g_names->actors[i].parent == index(parent) && g_names->actors[i].ordinal == ordinal) break;
  }
  if (i == g_names->actor_count && i < kActorsMost) {
    g_names->actors[i] = {index(parent), ordinal};
    ++g_names->actor_count;
  }
  unlock_names();
  if (i >= kActorsMost) refuse("more than 1024 threads");
  return static_cast<ActorId>(i);
}

ObjectId own_object(PrimitiveId primitive, ActorId actor, std::int64_t a, std::int64_t b) {
  const std::uint64_t key =
      hash(std::uint64_t{static_cast<std::uint8_t>(primitive)} << 56 | 0xac70 | std::uint64_t{index(actor)} << 16);
  const ObjectId id = make_object_id(primitive, object_number(key));
  declare({id, a, b});
  return id;
}

ObjectId keyed_object(PrimitiveId primitive, std::uint64_t key) {
  return make_object_id(primitive,
                        object_number(hash(key ^ std::uint64_t{static_cast<std::uint8_t>(primitive)} << 56)));
}

ObjectId stamped_object_at(PrimitiveId primitive, const void* address, const ObjectStart& start, std::uint32_t& stamp,
                           bool is_initialised) {
  constexpr std::uint32_t kStamp = 0xc4a5c007;
  // A new object in the place of an old one, made without a call: its bytes are those of the initialiser.
  const ObjectId id = object_at(primitive, address, start, is_initialised || stamp != kStamp);
  stamp = kStamp;
  return id;
}

ObjectId object_at(PrimitiveId primitive, const void* address, ObjectStart start, bool is_initialised) {
  const std::uint64_t number = place_of(reinterpret_cast<std::uint64_t>(address));
  const bool is_of_libc = !primitives[static_cast<std::size_t>(primitive)]->traits.is_memory;
  if (is_of_libc && is_in_region(number) && is_scheduling() && kBufferModel.is_on()) kBufferModel.use_object(address);
  std::uint32_t i =
      static_cast<std::uint32_t>(hash(number ^ std::uint64_t{static_cast<std::uint8_t>(primitive)} << 56)) % kPlaces;
  for (; g_places->places[i].is_used; i = (i + 1) % kPlaces) {
    if (g_places->places[i].address == number && g_places->places[i].primitive == primitive) break;
  }
  Place& place = g_places->places[i];
  if (place.is_used && !is_initialised) return place.id;
  if (!place.is_used) {
    if (g_places->used_count + 1 >= kPlaces / 2) refuse("too many synchronisation objects at a time (8192)");
    g_places->used[g_places->used_count++] = i;
    place = {number, primitive, 0, {}, true};
  } else {
    ++place.times;
  }
  const std::uint64_t key =
      hash(hash(number) + static_cast<std::uint8_t>(primitive) + (std::uint64_t{place.times} << 8));
  place.id = make_object_id(primitive, object_number(key));
  start.object = place.id;
  declare(start, address);
  return place.id;
}

ObjectId loop_object() {
  Actor& self = current_actor();
  if (self.loop == ObjectId{}) self.loop = own_object(PrimitiveId::kSpin, self.id, spin::kFirst);
  return self.loop;
}

ObjectId cancellation_object(Actor& actor) {
  if (actor.cancellation == ObjectId{}) actor.cancellation = own_object(PrimitiveId::kCancellation, actor.id, 0);
  return actor.cancellation;
}

std::vector<ObjectId> mutexes() {
  std::vector<ObjectId> all;
  for (std::uint32_t i = 0; i < g_places->used_count; ++i) {
    const Place& place = g_places->places[g_places->used[i]];
    if (place.primitive == PrimitiveId::kMutex) all.push_back(place.id);
  }
  return all;
}

void forget_objects() {
  for (std::uint32_t i = 0; i < g_places->used_count; ++i) g_places->places[g_places->used[i]].is_used = false;
  g_places->used_count = 0;
}

}  // namespace crashcut::scheduler::runtime
