// The window, its regions, and code that touches them without instrumentation.
#include "scheduler/runtime/regions.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>

#include "cxl/incoherent_primitive.h"
#include "inject/interpose.h"
#include "inject/mappings.h"
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/memory/recovery_threads.h"
#include "recovery/inprocess/memory/stuck.h"
#include "recovery/inprocess/memory/trap.h"
#include "recovery/inprocess/models.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

// Between regions, so that an overrun is no access to the next one.
constexpr std::uint64_t kGapBytes = std::uint64_t{2} << 20;

std::vector<NamedRegion>& regions() { return g.model->regions; }

NamedRegion& make_region(std::string_view name, std::uint64_t bytes, std::uint64_t file = 0) {
  const auto& all = regions();
  const std::uint64_t begin =
      all.empty() ? kWindowBegin
                  : (all.back().region.begin + all.back().region.bytes + 2 * kGapBytes - 1) / kGapBytes * kGapBytes;
  const pmem::Region region{begin, (bytes + pmem::kLineBytes - 1) / pmem::kLineBytes * pmem::kLineBytes};
  if (region.bytes > kWindowBegin + kWindowBytes - begin) {
    user_error(fmt::format("crashcut_pmem(\"{}\", {}): there is no room for so much persistent memory", name, bytes));
  }
  regions().push_back({region, std::string(name), bytes, file});
  if (g_phase == Phase::kExecuting) {
    g.model->memory->add_region(region, std::string(name));
    g.header->region_count = static_cast<std::uint32_t>(regions().size());
  } else {
    g_explorer->add_region(region, std::string(name));
  }
  return regions().back();
}

const NamedRegion* find_region(std::uint64_t address) {
  if (g.model == nullptr) return nullptr;
  for (const NamedRegion& r : regions()) {
    if (address - r.region.begin < r.region.bytes) return &r;
  }
  return nullptr;
}

void check_instrumented(const char* function) {
  if (g.header->instrumentation != 0 || is_trapping()) return;
  user_error(
      fmt::format("the program asked for persistent memory ({}), but no part of it is instrumented: compile it with "
                  "crashcut cc --pmem or crashcut cxx --pmem, or run it as it is with --trap",
                  function));
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// An address shortly after a region's end, in main(): the region is too small for it. Without us it would be somewhere
// else, and main() would die of it, or of what it overwrites. (Unless it handles signals itself.)
void explain_overrun(std::uint64_t address) {
  if (g_phase != Phase::kExecuting || inject::schedules_threads() || g.model == nullptr) return;
  if (inject::has_own_handlers()) return;  // it may mean to handle this
  for (const NamedRegion& r : regions()) {
    const std::uint64_t beyond = address - (r.region.begin + r.region.bytes);  // wraps around below the end
    if (beyond >= kGapBytes) continue;
    user_error(fmt::format(
        "main() was killed by SIGSEGV: it touched {}, {} beyond the end of this region, which has {} bytes. Ask for a "
        "larger one",
        fmt::format("{}+{:#x}", r.name, address - r.region.begin),
        beyond == 0 ? std::string("right") : fmt::format("{} bytes", beyond), r.asked_bytes));
  }
}

// Whether the library itself faulted.
bool is_ours(void* ucontext) {
  const auto code = static_cast<std::uint64_t>(static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs[REG_RIP]);
  const inject::AddressRange own = inject::own_library();
  return inject::t_is_own_code || (code >= own.begin && code < own.end);
}

// Uninstrumented code touched a region, or a system call was given an address that is not followed.
bool do_memory_fault(const siginfo_t& info, void* ucontext) {
  if (is_clock_fault(info)) return true;
  const auto address = reinterpret_cast<std::uint64_t>(info.si_addr);
  const bool is_shared = scheduler::runtime::is_in_region(address) && scheduler::runtime::is_in_open_region(address, 1);
  const bool is_regions = info.si_code > 0 && (is_shared || find_region(address) != nullptr);
  if (is_regions && is_trapping() && !is_ours(ucontext)) {
    do_trapped_access(*static_cast<ucontext_t*>(ucontext));
    return true;
  }
  if (info.si_code > 0 && g_phase == Phase::kRecovering && !inject::t_is_own_code) note_events_at_end();
  if (!is_regions) {
    if (info.si_code > 0) explain_overrun(address);
    return false;
  }
  const auto code = static_cast<std::uint64_t>(static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs[REG_RIP]);
  Dl_info found{};
  const bool is_known = dladdr(reinterpret_cast<void*>(code), &found) != 0 && found.dli_fname != nullptr;
  const std::string what =
      fmt::format("{} memory ({})", is_shared ? "shared" : "persistent", describe_address(address));
  if (is_ours(ucontext)) {
    user_error(
        fmt::format("a system call got the address of {}, which crashcut follows in read() and "
                    "write() only: copy the data to ordinary memory first",
                    what));
  }
  const std::string_view file = is_known ? last_part(found.dli_fname) : "code of no file";
  const std::string function = is_known && found.dli_sname != nullptr ? fmt::format(" ({})", found.dli_sname) : "";
  const char* phase = is_shared ? "" : g_phase == Phase::kRecovering ? " after the crash" : " in main()";
  user_error(fmt::format(
      "{}{} touched {}{} without instrumentation, so crashcut cannot know what it does: compile it with "
      "crashcut cc {}or crashcut cxx{}, or copy the data to ordinary memory first",
      file, function, what, phase, is_shared ? "--pmem " : "", is_shared ? " --pmem" : ", run it with --trap"));
}

// Trapped accesses come by SIGSEGV.
void refuse_own_handler() {
  if (!is_trapping()) return;
  user_error(
      "the program handles SIGSEGV itself, which crashcut pmem --trap needs: compile it with crashcut cc --pmem");
}

}  // namespace

void start_memory() {
  // Before any machine meets a step of another one.
  if (g.header->has_memory != 0 || g.header->has_shared_memory != 0) cxl::incoherent::primitive();
  if (g.header->has_memory == 0) return;
  const long at = kernel(SYS_mmap, kWindowBegin, kWindowBytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != static_cast<long>(kWindowBegin)) tool_error("the addresses of persistent memory are not free");
  if (is_trapping()) start_traps();
}

bool has_regions() { return g.model != nullptr && (!regions().empty() || g.header->has_shared_memory != 0); }

constinit pmem::Region g_last_region{0, 0};

// Memory that machines share stays where it is, and never becomes smaller.
bool find_in_regions(std::uint64_t address, std::size_t bytes) {
  if (scheduler::runtime::is_in_region(address)) {
    if (!scheduler::runtime::is_in_open_region(address, bytes)) return false;
    const scheduler::runtime::Names::Region* shared = scheduler::runtime::find_region_at(address);
    g_last_region = {scheduler::runtime::kRegionsAt + shared->offset, shared->bytes};
    return true;
  }
  const NamedRegion* found = find_region(address);
  if (found == nullptr) return false;
  g_last_region = found->region;
  return bytes <= g_last_region.begin + g_last_region.bytes - address;
}

std::uint64_t region_bytes(std::string_view name) {
  for (const NamedRegion& r : regions()) {
    if (r.name == name && r.file == 0) return r.asked_bytes;
  }
  return 0;
}

std::string describe_address(std::uint64_t address) {
  if (scheduler::runtime::is_in_region(address)) {
    const auto* shared = scheduler::runtime::find_region_at(address);
    if (shared != nullptr)
      return fmt::format("{}+{:#x}", shared->name, address - scheduler::runtime::kRegionsAt - shared->offset);
  }
  const NamedRegion* found = find_region(address);
  return found == nullptr ? fmt::format("{:#x}", address)
                          : fmt::format("{}+{:#x}", found->name, address - found->region.begin);
}

long open_region(std::string_view name, std::uint64_t bytes) {
  if (bytes == 0) user_error(fmt::format("crashcut_pmem(\"{}\", 0): a region has at least one byte", name));
  check_instrumented("crashcut_pmem");
  for (const NamedRegion& r : regions()) {
    if (r.name != name || r.file != 0) continue;
    if (r.asked_bytes != bytes) {
      user_error(
          fmt::format("crashcut_pmem(\"{}\", {}): this region has {} bytes. A region has one size, before and "
                      "after a crash",
                      name, bytes, r.asked_bytes));
    }
    return static_cast<long>(r.region.begin);
  }
  return static_cast<long>(make_region(name, bytes).region.begin);
}

long make_heap_region(const std::string& name, std::uint64_t bytes) {
  check_instrumented("crashcut pmem --malloc");
  return static_cast<long>(make_region(name, bytes, kHeapFile).region.begin);
}

const NamedRegion* find_file_region(std::uint64_t file) {
  const auto found = std::find_if(regions().begin(), regions().end(), [&](const auto& r) { return r.file == file; });
  return file == 0 || found == regions().end() ? nullptr : &*found;
}

const NamedRegion& open_file_region(std::uint64_t file, const std::string& name, std::uint64_t bytes) {
  check_instrumented("mmap");
  const NamedRegion* known = find_file_region(file);
  if (known == nullptr) return make_region(name, bytes, file);
  if (known->asked_bytes >= bytes) return *known;
  user_error(fmt::format(
      "mmap() of {} up to byte {}: as persistent memory it has {} bytes since it was first mapped, which is "
      "how long the file was then or what was asked for",
      name, bytes, known->asked_bytes));
}

std::string name_place(std::uint64_t code) {
  Dl_info found{};
  link_map* map = nullptr;
  void* at = reinterpret_cast<void*>(code);
  if (dladdr1(at, &found, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) {
    return fmt::format("{{+{:#x}}}", code);
  }
  // The address that a call returns to may be on the next line.
  return fmt::format("{{{}+{:#x}}}", found.dli_fname, code - 1 - map->l_addr);
}

void name_places(const Places& places, std::vector<std::string>& names) {
  for (std::size_t i = names.size(); i < places.addresses().size(); ++i) {
    names.push_back(i == 0 ? "" : name_place(places.addresses()[i]));
  }
}

const inject::Model kMemoryModel{
    .name = "memory",
    .is_active = [] { return g.header != nullptr && (g.header->has_memory != 0 || g.header->has_shared_memory != 0); },
    .do_call = do_memory_call,
    .spend_image = stop_watching,
    .do_fault = do_memory_fault,
    .leave_faults = refuse_own_handler,
    .need_threads = need_threads_in_recovery,
};

}  // namespace crashcut::inprocess
