#include "scheduler/runtime/meetings.h"

#include <link.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scheduler/happens_before.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/runtime/call_stacks.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::uint8_t kTrap = 0xcc;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kGranule = 8;
// A copy: the instruction, then a jump back.
constexpr std::size_t kCopyBytes = 32;
// So many traps before there are other threads, and these are taken away until there are.
constexpr std::uint32_t kAloneMost = 1000;
// So many in an execution, or in all executions of a process, and it is no longer watched whether threads meet: it
// would take too long.
constexpr std::uint32_t kTrapsMost = 50'000, kTrapsOfAllMost = 4'000'000;

// Modules that are not the program's.
constexpr const char* kNotPrograms[] = {"libcrashcut_runtime", "/libc.so",  "/ld-linux", "/libm.so",
                                        "linux-vdso",          "linux-gate"};

// One thread's, of bytes in a granule: the last, which orders all before it.
struct Touch {
  std::uint32_t actor, epoch;
  std::uint8_t mask;
  bool writes;
  bool is_quiet;       // a count that nobody took notice of
  bool is_taking;      // a count that went down
  bool met_quietly;    // another thread counted there, too, in no order with this
  bool shows_another;  // as an exchange does, while other threads live
  const Site* site;
};

// Of this execution.
struct Seen {
  HappensBefore clocks;
  std::uint32_t steps = 0;                                        // that the clocks know of
  std::unordered_map<std::uint64_t, std::vector<Touch>> touches;  // by granule
};
Seen* g_seen = nullptr;
std::uint32_t g_trap_count = 0, g_traps_of_all = 0;
std::uint32_t g_alone_count = 0;
bool g_is_armed = false;
std::uint64_t g_loader_hook = 0;  // the loader calls this when it has loaded something

bool is_programs(std::string_view path) {
  return std::none_of(std::begin(kNotPrograms), std::end(kNotPrograms),
                      [&](const char* part) { return path.find(part) != path.npos; });
}

// Its pages with code may be written while `change` runs.
template <class Change>
void change_code(std::uint64_t begin, std::uint64_t end, Change change) {
  begin = begin / kPage * kPage;
  kernel(SYS_mprotect, begin, end - begin, PROT_READ | PROT_WRITE | PROT_EXEC);
  change();
  kernel(SYS_mprotect, begin, end - begin, PROT_READ | PROT_EXEC);
}

char* byte_at(std::uint64_t address) { return reinterpret_cast<char*>(address); }

const Site* begin_of(const Module& module) { return g_control->sites + module.first_site; }
const Site* end_of(const Module& module) { return begin_of(module) + module.site_count; }

void set_first_bytes(const Module& module, bool is_trap) {
  if (module.site_count == 0 || module.copies == 0) return;
  change_code(begin_of(module)->address, (end_of(module) - 1)->address + 1, [&] {
    for (const Site* site = begin_of(module); site != end_of(module); ++site)
      *byte_at(site->address) = static_cast<char>(is_trap ? kTrap : site->first);
  });
}

void set_traps(bool is_armed) {
  g_is_armed = is_armed;
  for (std::uint32_t i = 0; i < g_control->answered_count; ++i) {
    Module& module = g_control->modules[i];
    // What was unloaded since is not there any more.
    unsigned char resident = 0;
    const bool is_there =
        module.site_count > 0 && kernel(SYS_mincore, begin_of(module)->address / kPage * kPage, kPage, &resident) == 0;
    if (is_there) set_first_bytes(module, is_armed);
  }
}

// Memory for copies so near to the module that instructions reach its variables from there.
std::uint64_t map_copies(const Module& module) {
  const std::size_t bytes = (module.site_count * kCopyBytes + kPage - 1) / kPage * kPage;
  constexpr std::int64_t kStep = 4 << 20, kFarthest = std::int64_t{1} << 30;
  for (std::int64_t distance = 4 * kStep; distance < kFarthest; distance += kStep) {
    for (const std::int64_t offset : {-distance, distance}) {
      const std::int64_t at = static_cast<std::int64_t>(module.base / kPage * kPage) + offset;
      if (at < (1 << 20)) continue;
      const long got =
          kernel(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (got == at) return static_cast<std::uint64_t>(at);
      if (got > 0) kernel(SYS_munmap, got, bytes);
    }
  }
  return 0;
}

void write_copy(const Site& site, char* to) {
  std::memcpy(to, byte_at(site.address), site.length);
  if (site.is_fixed) {
    const auto distance = static_cast<std::int32_t>(
        site.displacement - static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(to) + site.length));
    std::memcpy(to + site.displacement_at, &distance, sizeof distance);
  }
  constexpr char kJump[] = "\xff\x25\0\0\0";  // jmp *0(%rip): to the address that follows
  std::memcpy(to + site.length, kJump, 6);
  const std::uint64_t back = site.address + site.length;
  std::memcpy(to + site.length + 6, &back, sizeof back);
}

// The file's code is what was decoded: nobody has changed it on its way into memory.
bool is_as_decoded(const Module& module) {
  return std::all_of(begin_of(module), end_of(module), [](const Site& site) {
    return static_cast<std::uint8_t>(*byte_at(site.address)) == site.first && site.length + 14u <= kCopyBytes;
  });
}

void prepare(Module& module) {
  module.copies = 0;
  if (module.site_count == 0) return;
  const std::uint64_t copies = is_as_decoded(module) ? map_copies(module) : 0;
  if (copies == 0) {
    g_control->is_blind = 1;
    return;
  }
  char* to = byte_at(copies);
  for (const Site* site = begin_of(module); site != end_of(module); ++site, to += kCopyBytes) write_copy(*site, to);
  kernel(SYS_mprotect, copies, (module.site_count * kCopyBytes + kPage - 1) / kPage * kPage, PROT_READ | PROT_EXEC);
  module.copies = copies;
  if (g_is_armed) set_first_bytes(module, true);
}

Module* find_module(std::string_view path, std::uint64_t base) {
  for (std::uint32_t i = 0; i < g_control->module_count; ++i) {
    Module& module = g_control->modules[i];
    if (module.base == base && path == module.path) return &module;
  }
  return nullptr;
}

void tell_module(std::string_view path, const link_map& map) {
  const std::uint32_t number = g_control->module_count;
  if (number == kModulesMost) {
    g_control->is_blind = 1;
    return;
  }
  Module& module = g_control->modules[number];
  std::memcpy(module.path, path.data(), path.size());
  module.path[path.size()] = 0;
  module.base = map.l_addr;
  module.end = end_of_memory(map);
  module.copies = 0;
  module.site_count = 0;
  g_control->module_count = number + 1;
}

// crashcut waits for the first question, or for a reply.
void ask_for_sites() {
  const std::uint32_t question = ++g_control->module_questions;
  kernel(SYS_futex, &g_control->module_questions, FUTEX_WAKE, 1, 0, 0, 0);
  kernel(SYS_futex, &g_control->replies, FUTEX_WAKE, 1, 0, 0, 0);
  while (g_control->module_answers != question)
    kernel(SYS_futex, &g_control->module_answers, FUTEX_WAIT, question - 1, 0, 0, 0);
}

// Asks crashcut for the sites of what was loaded, and sets their traps. What another execution loaded at the same place
// is known.
void watch_modules() {
  const std::uint32_t known = g_control->module_count;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    char room[kPathMost];
    const std::string_view path = path_of(*map, room);
    if (path.empty() || path.size() >= kPathMost || !is_programs(path)) continue;
    Module* module = find_module(path, map->l_addr);
    if (module == nullptr) {
      tell_module(path, *map);
    } else if (module->site_count > 0 && static_cast<std::uint8_t>(*byte_at(begin_of(*module)->address)) != kTrap &&
               g_is_armed) {
      prepare(*module);  // loaded once more
    }
  }
  ask_for_sites();
  for (std::uint32_t i = known; i < g_control->module_count; ++i) prepare(g_control->modules[i]);
}

const Module* module_at(std::uint64_t address) {
  for (std::uint32_t i = 0; i < g_control->answered_count; ++i) {
    const Module& module = g_control->modules[i];
    if (module.site_count > 0 && address >= begin_of(module)->address && address < module.end) return &module;
  }
  return nullptr;
}

// Another thread than the running one has begun, or may, and has not come to its end.
bool has_others() {
  const Actor& self = current_actor();
  return std::any_of(g_world->actors.begin(), g_world->actors.end(), [&](const Actor* actor) {
    if (actor == nullptr || actor == &self || actor->is_helper()) return false;
    const std::int64_t stage = thread::stage(g_world->state.object(actor->thread));
    return stage == thread::kCreated || stage == thread::kStarted;
  });
}

// From now on it is known, for all executions of the search; or will not be.
void meet(const Site* site, bool is_certain = true) {
  const Module* module = site == nullptr ? nullptr : module_at(site->address);
  if (module != nullptr && g_names->has_met == 0) {
    g_names->met_at = site->address - module->base;
    std::memcpy(g_names->met_in, module->path, kPathMost);
  }
  if (g_names->has_met != kMet) g_names->has_met = is_certain ? kMet : kMayMeet;
  if (g_is_armed) set_traps(false);
}

HappensBefore& clocks() {
  while (g_seen->steps < g_control->step_count) g_seen->clocks.note(g_control->steps[g_seen->steps++]);
  return g_seen->clocks;
}

void touch_granule(Touch now, std::uint64_t granule) {
  const ActorId self = current_actor().id;
  now.actor = index(self);
  now.epoch = clocks().epoch(self);
  std::vector<Touch>& touches = g_seen->touches[granule];
  Touch* own = nullptr;
  for (Touch& touch : touches) {
    if (touch.actor == now.actor && touch.mask == now.mask && touch.writes == now.writes &&
        touch.is_quiet == now.is_quiet)
      own = &touch;
    const bool is_other = touch.actor != now.actor && (touch.mask & now.mask) != 0 && (touch.writes || now.writes);
    if (!is_other || clocks().is_before(static_cast<ActorId>(touch.actor), touch.epoch, self)) continue;
    if (!touch.is_quiet || !now.is_quiet) return meet(now.site);
    now.met_quietly = true;
  }
  if (own == nullptr) {
    touches.push_back(now);
  } else {
    own->epoch = now.epoch;
    own->shows_another = own->shows_another || now.shows_another;
    own->is_taking = own->is_taking || now.is_taking;
    own->met_quietly = own->met_quietly || now.met_quietly;
  }
}

std::uint64_t value_of(std::uint8_t number, const gregset_t& regs) {
  static constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                       REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return number < std::size(kRegisters) ? static_cast<std::uint64_t>(regs[kRegisters[number]]) : 0;
}

std::uint64_t address_of(const Site& site, const gregset_t& regs) {
  const auto displacement = static_cast<std::uint64_t>(site.displacement);
  if (site.is_fixed) return displacement;
  return value_of(site.base, regs) + value_of(site.index, regs) * site.scale + displacement +
         (site.is_thread_local ? read_fs_base() : 0);
}

// A library's count of references to what is its own, and never goes.
bool is_own_affair(const Site& site, std::uint64_t address) {
  const Module* module = module_at(site.address);
  return module != nullptr && std::string_view(module->path).find("/libstdc++.so") != std::string_view::npos &&
         address >= module->base && address < module->end;
}

// An addition goes unnoticed where nobody is told the count, or only that it is not yet zero.
void judge_count(const Site& site, std::uint64_t address, const gregset_t& regs, Touch& now) {
  if (site.kind != Site::kCounts || site.bytes > 8) return;
  std::uint64_t count = 0;
  std::memcpy(&count, byte_at(address), site.bytes);
  std::uint64_t added =
      site.source == Site::kNoRegister ? static_cast<std::uint64_t>(site.amount) : value_of(site.source, regs);
  if (site.is_negative) added = 0 - added;
  const int spare = 64 - site.bytes * 8;
  now.is_taking = static_cast<std::int64_t>(added << spare) < 0;
  now.is_quiet = (count + added) << spare != 0 && (now.is_taking || !site.tells);
}

void touch(const Site& site, const gregset_t& regs) {
  const std::uint64_t address = address_of(site, regs);
  if (is_own_affair(site, address)) return;
  // Of a variable that is named by its address all other accesses are watched, too.
  const bool shows_another = site.kind == Site::kTakes && !site.is_fixed && has_others();
  const std::uint64_t end = address + site.bytes;
  Touch now{0, 0, 0, site.writes, false, false, false, shows_another, &site};
  judge_count(site, address, regs, now);
  for (std::uint64_t granule = address & ~(kGranule - 1); granule < end && g_is_armed; granule += kGranule) {
    const std::uint64_t from = std::max(granule, address), to = std::min(granule + kGranule, end);
    now.mask = static_cast<std::uint8_t>(((1u << (to - from)) - 1) << (from - granule));
    touch_granule(now, granule);
  }
}

// Twice without an operation in between: it waits for somebody.
void pause(const Site& site) {
  const ActorId self = current_actor().id;
  const std::uint32_t epoch = clocks().epoch(self);
  std::vector<Touch>& pauses = g_seen->touches[site.address | 1];  // no granule
  const auto own = std::find_if(pauses.begin(), pauses.end(), [&](const Touch& t) { return t.actor == index(self); });
  if (own == pauses.end()) {
    pauses.push_back({index(self), epoch, 0, false, false, false, false, false, &site});
  } else if (own->epoch == epoch) {
    meet(&site);
  } else {
    own->epoch = epoch;
  }
}

void note(const Site& site, const gregset_t& regs) {
  if (!is_scheduling()) return;
  if (g_world->actors.size() < 2) {
    if (++g_alone_count > kAloneMost) set_traps(false);
    return;
  }
  if (++g_trap_count > kTrapsMost || ++g_traps_of_all > kTrapsOfAllMost) return meet(&site, false);
  if (g_seen == nullptr) g_seen = new Seen;
  switch (site.kind) {
    case Site::kFence:
      if (has_others()) meet(&site);
      break;
    case Site::kPause:
      if (has_others()) pause(site);
      break;
    default:
      touch(site, regs);
  }
}

// At the end of a variable: what one thread alone touched, in a way that shows another; and what several counted in
// that only went up, so that it does not count references.
void judge(const std::vector<Touch>& touches) {
  for (const Touch& touch : touches) {
    const auto is_any = [&](auto is_it) {
      return std::any_of(touches.begin(), touches.end(),
                         [&](const Touch& t) { return (t.mask & touch.mask) != 0 && is_it(t); });
    };
    const bool is_shared = is_any([&](const Touch& t) { return t.actor != touch.actor; });
    if (touch.shows_another && !is_shared) return meet(touch.site);
    if (touch.met_quietly && !is_any([](const Touch& t) { return t.is_taking; })) return meet(touch.site);
  }
}

// What the loader's hook does is nothing: it begins with its return.
bool is_loaders_trap(gregset_t& regs) {
  if (g_loader_hook == 0 || static_cast<std::uint64_t>(regs[REG_RIP]) != g_loader_hook + 1) return false;
  if (_r_debug.r_state == r_debug::RT_CONSISTENT && g_is_armed) watch_modules();
  regs[REG_RIP] = *reinterpret_cast<const greg_t*>(regs[REG_RSP]);
  regs[REG_RSP] += sizeof(greg_t);
  return true;
}

void hook_loader() {
  constexpr std::uint8_t kReturn = 0xc3;
  if (_r_debug.r_brk == 0 || static_cast<std::uint8_t>(*byte_at(_r_debug.r_brk)) != kReturn) return;
  g_loader_hook = _r_debug.r_brk;
  change_code(g_loader_hook, g_loader_hook + 1, [] { *byte_at(g_loader_hook) = static_cast<char>(kTrap); });
}

}  // namespace

void watch_meetings() {
  if (g_control->is_watching == 0) return;
  g_is_armed = true;
  watch_modules();
  hook_loader();
}

void begin_meetings() {
  g_seen = nullptr;
  g_trap_count = g_alone_count = 0;
  if (g_is_armed && g_names->has_met != 0) set_traps(false);
}

void end_meetings() {
  if (g_seen == nullptr || !g_is_armed) return;
  for (const auto& [granule, touches] : g_seen->touches) judge(touches);
  g_seen = nullptr;
}

void expect_meetings() {
  if (g_control->is_blind != 0 && g_is_armed) meet(nullptr, false);
  if (!g_is_armed && g_control->is_watching != 0 && g_names->has_met == 0) set_traps(true);
}

bool is_meeting_trap(ucontext_t& context) {
  gregset_t& regs = context.uc_mcontext.gregs;
  if (is_loaders_trap(regs)) return true;
  const std::uint64_t at = static_cast<std::uint64_t>(regs[REG_RIP]) - 1;
  const Module* module = module_at(at);
  if (module == nullptr || module->copies == 0) return false;
  const Site* site = std::lower_bound(begin_of(*module), end_of(*module), at,
                                      [](const Site& s, std::uint64_t address) { return s.address < address; });
  if (site == end_of(*module) || site->address != at) return false;
  note(*site, regs);
  regs[REG_RIP] =
      static_cast<greg_t>(module->copies + static_cast<std::uint64_t>(site - begin_of(*module)) * kCopyBytes);
  return true;
}

std::uint64_t original_of(std::uint64_t pc) {
  for (std::uint32_t i = 0; i < g_control->answered_count; ++i) {
    const Module& module = g_control->modules[i];
    if (module.copies == 0 || pc < module.copies || pc >= module.copies + module.site_count * kCopyBytes) continue;
    return begin_of(module)[(pc - module.copies) / kCopyBytes].address;
  }
  return pc;
}

void note_waiting() {
  if (g_is_armed && has_others()) meet(nullptr);
}

void note_end_of_memory(std::uint64_t address, std::size_t bytes) {
  if (g_seen == nullptr || !g_is_armed || !is_scheduling()) return;
  const ActorId self = current_actor().id;
  const auto end = [&](const std::vector<Touch>& touches) {
    for (const Touch& touch : touches) {
      if (touch.actor != index(self) && !clocks().is_before(static_cast<ActorId>(touch.actor), touch.epoch, self))
        return meet(touch.site);
    }
    judge(touches);
  };
  // The block may be large, and so may be what was touched elsewhere.
  if (bytes / kGranule > g_seen->touches.size()) {
    std::erase_if(g_seen->touches, [&](const auto& entry) {
      const bool is_within = entry.first >= address && entry.first < address + bytes;
      if (is_within) end(entry.second);
      return is_within;
    });
    return;
  }
  for (std::uint64_t granule = address; granule < address + bytes; granule += kGranule) {
    const auto it = g_seen->touches.find(granule);
    if (it == g_seen->touches.end()) continue;
    end(it->second);
    g_seen->touches.erase(it);
  }
}

}  // namespace crashcut::scheduler::runtime
