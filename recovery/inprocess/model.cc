// The model inside this process: built before main(), sealed when it ends.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstring>

#include "inject/arena.h"
#include "inject/gate.h"
#include "inject/interpose.h"
#include "persist/hash.h"
#include "recovery/inprocess/memory/cxl_threads.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/memory/pmem_threads.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

// To the kernel a modelled descriptor is a copy of one empty memfd: no number is given out twice, poll() says
// ready, epoll_ctl() says EPERM, isatty() says no.
int reserve_fd(int lowest) {
  const long fd = kernel(SYS_fcntl, g.placeholder, F_DUPFD, lowest_fd(lowest));
  if (fd < 0) return static_cast<int>(fd);
  if (fd >= kFdsMost) {
    kernel(SYS_close, fd);
    return -EMFILE;
  }
  g.modelled_fds[fd / 64].fetch_or(std::uint64_t{1} << (fd % 64), std::memory_order_relaxed);
  return static_cast<int>(fd);
}

void free_fd(int fd) {
  g.modelled_fds[fd / 64].fetch_and(~(std::uint64_t{1} << (fd % 64)), std::memory_order_relaxed);
  kernel(SYS_close, fd);
}

fusefs::Credentials credentials_of(long uid, long gid) {
  fusefs::Credentials who;
  who.uid = static_cast<uid_t>(uid);
  who.gid = static_cast<gid_t>(gid);
  gid_t groups[256];
  const long count = kernel(SYS_getgroups, 256, groups);
  if (count > 0) who.groups.assign(groups, groups + count);
  return who;
}

// What an event of persistent memory did. Libraries as they are store ids and times, which are others each time: of
// what is trapped, the values do not count.
template <class Add>
void add_store(const pmem::Recording& memory, persist::EventId e, const Add& add) {
  add(static_cast<std::uint64_t>(memory.events[e].kind));
  add(memory.events[e].address);
  if (g.header->traps != 0) return;
  for (const persist::Write& write : memory.log.writes(e)) add(memory.word_of_value(write.location, write.value).bytes);
}

std::uint64_t fingerprint(const Recorded& recorded) {
  const fusefs::Recording& recording = *recorded.files;
  std::uint64_t hash = persist::kHashStart;
  const auto add = [&](std::uint64_t value) { hash = persist::mix(hash, value); };
  for (const std::string_view op : recording.ops) hash = persist::mix_bytes(hash, op);
  const auto& log = recording.log;
  for (persist::EventId e = 0; e < log.event_count(); ++e) {
    for (const std::uint32_t part :
         {log.op(e), log.epoch(e), log.cover(e),
          e < recording.event_kinds.size() ? static_cast<std::uint32_t>(recording.event_kinds[e]) : 0})
      add(part);
    if (recorded.memory != nullptr && recorded.memory->is_own(e)) add_store(*recorded.memory, e, add);
    add(log.predecessors(e).size());
    for (const persist::EventId before : log.predecessors(e)) add(before);
  }
  const auto& own = recording.bytes.own();
  return persist::mix_bytes(hash, {reinterpret_cast<const char*>(own.data()), own.size()});
}

}  // namespace

fusefs::Credentials own_credentials() {
  const long uid = kernel(SYS_geteuid), gid = kernel(SYS_getegid);
  g.has_other_real_ids = kernel(SYS_getuid) != uid || kernel(SYS_getgid) != gid;
  return credentials_of(uid, gid);
}
fusefs::Credentials real_credentials() { return credentials_of(kernel(SYS_getuid), kernel(SYS_getgid)); }

fusefs::Filesystem::Setup filesystem_setup(fusefs::Recorder* recorder, fusefs::Medium* medium) {
  fusefs::Filesystem::Setup setup;
  setup.recorder = recorder;
  setup.medium = medium;
  setup.sector_bytes = g.header->model.sector_bytes;
  setup.block_bytes = g.header->model.block_bytes;
  return setup;
}

fusefs::Process::Setup process_setup(fusefs::Filesystem& filesystem) {
  fusefs::Process::Setup setup{filesystem};
  setup.who = own_credentials();
  const long mask = kernel(SYS_umask, 022);
  kernel(SYS_umask, mask);
  setup.umask = static_cast<mode_t>(mask);
  setup.root = kModelRoot;
  setup.reserve_fd = reserve_fd;
  setup.free_fd = free_fd;
  setup.effects = g_phase == Phase::kExecuting ? effects_of_calls() : nullptr;
  return setup;
}

void start_execution_model() {
  auto* model = new Model;
  model->recorder = std::make_unique<fusefs::Recorder>(g.header->model, nullptr, effects_of_calls());
  model->recorder->add_syncs({g.header->added_syncs, g.header->added_sync_count});
  fusefs::Filesystem::Setup setup = filesystem_setup(model->recorder.get(), nullptr);
  prepare_filesystem(setup);
  model->filesystem = std::make_unique<fusefs::Filesystem>(std::move(setup));
  model->process = std::make_unique<fusefs::Process>(process_setup(*model->filesystem));
  if (g.header->has_memory != 0) {
    const bool has_threads = inject::schedules_threads() && g_phase == Phase::kExecuting;
    // A buffered store would be overtaken by plain stores of ordinary memory, which are not seen in trapped code.
    const bool is_searched = has_threads && g.header->memory_steps != 0;
    const bool has_steps = is_searched && g.header->traps == 0;
    model->memory = std::make_unique<pmem::Recorder>(
        pmem::RecorderOptions{.model = g.header->memory, .has_store_buffers = has_steps, .notes_meetings = has_threads},
        nullptr, &model->recorder->recording());
    if (has_threads)
      model->threaded =
          std::make_unique<PmemThreads>(*model->memory, g.header->memory, has_steps, is_searched && !has_steps);
    g_threaded = model->threaded.get();
    g_watches_all = has_threads;
  }
  if (g.header->has_shared_memory != 0) {
    model->threaded = std::make_unique<CxlThreads>(
        g.header->poison_is_value != 0 ? PoisonShows::kValue : PoisonShows::kSignal, g.header->memory_steps != 0);
    g_threaded = model->threaded.get();
    g_watches_all = true;
  }
  g.model = model;
  if (g.header->from_directory[0] != 0) {
    model->recorder->begin_op("the starting state");
    copy_tree_in(g.header->from_directory);
    model->filesystem->make_durable();
  }
}

const Recorded* seal(Model& model) {
  model.recorder->seal();
  model.op_stacks.name();
  const pmem::Recording* memory = nullptr;
  if (model.memory != nullptr) {
    name_places(model.places, model.memory->recording().place_names);
    memory = &model.memory->recording();
    model.memory->recording().order = pmem::ThreadOrder(memory->meetings);
  }
  return make_recorded(model.recorder->recording(), memory, model.regions, model.heap, model.op_stacks, model.places);
}

void publish_recording(int exit_code) {
  const Recorded* recorded = seal(*g.model);
  Header& header = *g.header;
  header.op_count = recorded->whole->ops.size();
  header.event_count = recorded->whole->log.event_count();
  header.fingerprint = fingerprint(*recorded);
  header.exit_code = exit_code;
  header.recording_address = reinterpret_cast<std::uint64_t>(recorded);
  inject::publish_arena();
  header.execution = ExecutionKind::kEnded;
}

void end_execution(int exit_code) {
  publish_recording(exit_code);
  kernel(SYS_exit_group, exit_code);
  __builtin_unreachable();
}

}  // namespace crashcut::inprocess
