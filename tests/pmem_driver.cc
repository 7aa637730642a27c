#include "tests/pmem_driver.h"

#include <algorithm>
#include <cstring>

#include "persist/explore.h"

namespace crashcut::tests {

using pmem::Address;
using pmem::BufferEntry;
using pmem::EntryKind;

Address real_address(const PmemProgram& program, int address) {
  if (!program.is_persistent(address)) {
    return kDramBase + static_cast<Address>(address - program.persistent_bytes());
  }
  const int in_line = address % PmemProgram::kBytesPerLine;
  return kPmemBase + static_cast<Address>(PmemProgram::line_of(address)) * 64 +
         static_cast<Address>(in_line < 16 ? in_line : 40 + in_line);
}

static pmem::RecorderOptions recorder_options(const PmemProgram& program, const DriverOptions& options) {
  pmem::RecorderOptions result{
      .model = options.model, .has_store_buffers = options.has_store_buffers, .notes_meetings = true};
  result.model.atomic_bytes = static_cast<unsigned>(program.atomic_bytes);
  return result;
}

PmemExecution::PmemExecution(const PmemProgram& program, const DriverOptions& options)
    : program_(program),
      options_(options),
      recorder_(recorder_options(program, options)),
      last_writer_(static_cast<std::size_t>(program.all_bytes()), -1),
      dram_(static_cast<std::size_t>(program.dram_words) * 8),
      next_(program.threads.size()),
      loaded_(program.threads.size()),
      waiting_(program.threads.size()) {
  recorder_.add_flushes(options.added);
  recorder_.add_region({kPmemBase, static_cast<std::uint64_t>(program.lines) * 64}, "pm");
  for (std::size_t t = 1; t < program.threads.size(); ++t) recorder_.start_thread(0);
}

int PmemExecution::compact(Address address) const {
  if (!recorder_.is_persistent(address)) return program_.persistent_bytes() + static_cast<int>(address - kDramBase);
  const int in_line = static_cast<int>((address - kPmemBase) % 64);
  return static_cast<int>((address - kPmemBase) / 64) * PmemProgram::kBytesPerLine +
         (in_line < 16 ? in_line : in_line - 40);
}

const PmemOp* PmemExecution::next_op(int thread) const {
  const auto t = static_cast<std::size_t>(thread);
  return next_[t] < program_.threads[t].size() ? &program_.threads[t][next_[t]] : nullptr;
}

// The stores of other threads that a load sees, byte by byte; what waits in the own buffer hides them.
std::set<int> PmemExecution::sources_of(int thread, const PmemOp& op) const {
  std::set<int> sources;
  const auto& buffer = recorder_.buffer(static_cast<pmem::ThreadId>(thread));
  for (int at = op.address; at < op.address + op.bytes; ++at) {
    const Address address = real_address(program_, at);
    bool is_own = false;
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      is_own |= buffer[i].is_store() && address - buffer[i].address < buffer[i].bytes;
    }
    const int writer = last_writer_[static_cast<std::size_t>(at)];
    if (!is_own && writer >= 0 && nodes_[static_cast<std::size_t>(writer)].thread != thread) sources.insert(writer);
  }
  return sources;
}

void PmemExecution::note_written(const PmemNode& node) {
  for (int at = node.address; at < node.address + node.bytes; ++at) {
    last_writer_[static_cast<std::size_t>(at)] = static_cast<int>(nodes_.size());
  }
  nodes_.push_back(node);
}

// Lines of persistent memory; words of ordinary memory.
PmemExecution::Place& PmemExecution::place_of(Address address) {
  return places_[recorder_.is_persistent(address) ? address / 64 * 64 : address / 8 * 8];
}

// The value that a load would see, without loading: an execution that is asked for its next steps does not change.
std::uint8_t PmemExecution::peek(int thread, const PmemOp& op) const {
  std::byte value{};
  const Address address = real_address(program_, op.address);
  if (recorder_.is_persistent(address)) {
    const pmem::Line* line = recorder_.recording().lines.find(address);
    if (const std::uint32_t location = line->location[pmem::word_in_line(address)]; location != 0) {
      value = static_cast<std::byte>(recorder_.recording().log.current(location - 1) >> (8 * (address % 8)));
    }
  } else {
    value = std::byte{dram_[address - kDramBase]};
  }
  recorder_.buffer(static_cast<pmem::ThreadId>(thread)).forward(address, {&value, 1});
  return static_cast<std::uint8_t>(value);
}

std::vector<PmemExecution::Step> PmemExecution::enabled() {
  std::vector<Step> steps;
  for (int t = 0; t < static_cast<int>(program_.threads.size()); ++t) {
    const auto& buffer = recorder_.buffer(static_cast<pmem::ThreadId>(t));
    const auto& ops = program_.threads[static_cast<std::size_t>(t)];
    if (const std::size_t next = next_[static_cast<std::size_t>(t)]; next < ops.size()) {
      const PmemOp& op = ops[next];
      bool is_enabled = true;
      if (op.kind == PmemOp::kXchg || op.kind == PmemOp::kCas || op.kind == PmemOp::kMfence)
        is_enabled = buffer.is_empty();
      if (op.kind == PmemOp::kWait) {
        const std::uint8_t value = peek(t, op);
        is_enabled = op.value == 0 ? value != 0 : value == op.value;
      }
      if (is_enabled) steps.push_back({t, -1});
    }
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      if (buffer.may_leave(i)) steps.push_back({t, static_cast<int>(i)});
    }
  }
  return steps;
}

std::uint8_t PmemExecution::load(int thread, const PmemOp& op) {
  std::vector<std::byte> out(static_cast<std::size_t>(op.bytes));
  const Address address = real_address(program_, op.address);
  if (!recorder_.is_persistent(address)) std::memcpy(out.data(), &dram_[address - kDramBase], out.size());
  nodes_.push_back(PmemNode{.kind = PmemNode::kRead,
                            .thread = thread,
                            .op = static_cast<int>(next_[static_cast<std::size_t>(thread)]),
                            .address = op.address,
                            .reads_from = sources_of(thread, op)});
  recorder_.load(static_cast<pmem::ThreadId>(thread), address, out,
                 static_cast<pmem::PlaceId>(thread * 1000 + static_cast<int>(next_[static_cast<std::size_t>(thread)])));
  for (int at = 0; at < op.bytes; at += 8) {
    note_access(thread, real_address(program_, op.address + std::min(at, op.bytes - 1)), "load", false);
  }
  note_access(thread, real_address(program_, op.address + op.bytes - 1), "load", false);
  return static_cast<std::uint8_t>(out[0]);
}

void PmemExecution::note_access(int thread, Address address, const std::string& what, bool counts_own) {
  Place& place = place_of(address);
  const auto before = std::count_if(place.writers.begin(), place.writers.end(),
                                    [&](int writer) { return counts_own || writer != thread; });
  place.others.insert(std::to_string(thread) + "." + std::to_string(next_[static_cast<std::size_t>(thread)]) + what +
                      std::to_string(before));
}

// The pieces of one store come in any order among themselves.
void PmemExecution::note_store(int thread, const BufferEntry& entry) {
  Place& place = place_of(entry.address);
  place.stores.push_back(std::to_string(entry.place) + "@" + std::to_string(entry.address));
  place.writers.push_back(thread);
  place.groups.push_back(entry.group);
  for (std::size_t i = place.stores.size() - 1; i > 0; --i) {
    const bool is_sibling = place.groups[i] != 0 && place.groups[i] == place.groups[i - 1];
    if (!is_sibling || place.stores[i - 1] < place.stores[i]) break;
    std::swap(place.stores[i - 1], place.stores[i]);
  }
}

void PmemExecution::note_clflushopts() {
  for (std::size_t t = 0; t < waiting_.size(); ++t) {
    const auto& buffer = recorder_.buffer(static_cast<pmem::ThreadId>(t));
    for (auto it = waiting_[t].begin(); it != waiting_[t].end();) {
      bool is_waiting = false;
      for (std::size_t i = 0; i < buffer.size(); ++i) {
        is_waiting |= buffer[i].kind == EntryKind::kClflushopt && buffer[i].place == it->first;
      }
      if (is_waiting) {
        ++it;
        continue;
      }
      Place& place = place_of(it->second);
      nodes_.push_back(PmemNode{.kind = PmemNode::kFlushOpt,
                                .thread = static_cast<int>(t),
                                .op = static_cast<int>(it->first % 1000),
                                .address = compact(it->second)});
      place.others.insert("opt" + std::to_string(it->first) + ":" + std::to_string(place.stores.size()));
      it = waiting_[t].erase(it);
    }
  }
}

void PmemExecution::execute(int thread) {
  const auto t = static_cast<pmem::ThreadId>(thread);
  const PmemOp& op = program_.threads[t][next_[t]];
  const Address address = real_address(program_, op.address);
  const auto place = static_cast<pmem::PlaceId>(thread * 1000 + static_cast<int>(next_[t]));
  const std::uint8_t value = static_cast<std::uint8_t>(op.value + (op.is_loaded ? loaded_[t] : 0));
  const std::vector<std::byte> bytes(static_cast<std::size_t>(op.bytes), std::byte{value});
  const bool is_in_order = !options_.has_store_buffers;
  switch (op.kind) {
    case PmemOp::kStore:
      recorder_.store(t, address, bytes, place);
      break;
    case PmemOp::kCopy:
      recorder_.copy(t, address, bytes, place);
      break;
    case PmemOp::kNonTemporal:
      recorder_.store_non_temporal(t, address, bytes, place);
      break;
    case PmemOp::kLoad:
    case PmemOp::kWait:
      loaded_[t] = load(thread, op);
      break;
    case PmemOp::kXchg:
    case PmemOp::kCas: {
      std::vector<std::byte> old(8);
      if (!recorder_.is_persistent(address)) std::memcpy(old.data(), &dram_[address - kDramBase], 8);
      PmemNode node{.kind = PmemNode::kLocked,
                    .thread = thread,
                    .op = static_cast<int>(next_[t]),
                    .address = op.address,
                    .value = value,
                    .reads_from = sources_of(thread, op)};
      recorder_.begin_locked(t, address, old, place);
      note_access(thread, address, "locked", false);
      const auto before = static_cast<std::uint8_t>(old[0]);
      const bool writes = op.kind == PmemOp::kXchg || before == op.expected;
      if (op.kind == PmemOp::kXchg || !writes) loaded_[t] = before;
      if (writes) node.bytes = op.bytes;
      note_written(node);
      if (!writes) break;
      recorder_.store_locked(t, address, bytes, place);
      BufferEntry entry{.kind = EntryKind::kStore, .address = address, .bytes = 8, .place = place, .past = 0};
      note_store(thread, entry);
      if (!recorder_.is_persistent(address)) std::memcpy(&dram_[address - kDramBase], bytes.data(), 8);
      break;
    }
    case PmemOp::kMfence:
      recorder_.mfence(t, place);
      nodes_.push_back(PmemNode{.kind = PmemNode::kMfence, .thread = thread, .op = static_cast<int>(next_[t])});
      break;
    case PmemOp::kSfence:
      recorder_.sfence(t, place);
      break;
    case PmemOp::kClflush:
      recorder_.clflush(t, address, place);
      break;
    case PmemOp::kClflushopt:
      recorder_.clflushopt(t, address, place);
      waiting_[t].insert({place, address});
      break;
    case PmemOp::kMark:
      recorder_.mark(t, std::to_string(op.value), place);
      break;
  }
  const bool is_store = op.kind == PmemOp::kStore || op.kind == PmemOp::kCopy || op.kind == PmemOp::kNonTemporal;
  if (is_in_order && is_store && !recorder_.is_persistent(address)) {
    std::memcpy(&dram_[address - kDramBase], bytes.data(), bytes.size());
  }
  ++next_[t];
}

void PmemExecution::take(const Step& step) {
  const auto t = static_cast<pmem::ThreadId>(step.thread);
  if (step.entry < 0) {
    execute(step.thread);
  } else {
    const BufferEntry entry = recorder_.leave(t, static_cast<std::size_t>(step.entry));
    PmemNode node{.kind = PmemNode::kWrite, .thread = step.thread, .op = static_cast<int>(entry.place % 1000)};
    node.value = static_cast<int>(entry.kind == EntryKind::kMark ? program_.threads[t][node.op].value
                                                                 : static_cast<int>(entry.data[0]));
    if (entry.is_store()) node.address = compact(entry.address), node.bytes = entry.bytes;
    if (entry.kind == EntryKind::kClflush) node.address = compact(entry.address), node.kind = PmemNode::kFlush;
    if (entry.kind == EntryKind::kNonTemporalStore) node.kind = PmemNode::kNonTemporal;
    if (entry.kind == EntryKind::kSfence) node.kind = PmemNode::kSfence;
    if (entry.kind == EntryKind::kMark) node.kind = PmemNode::kMark;
    node.is_piece = entry.group != 0;
    note_written(node);
    if (entry.is_store()) {
      note_store(step.thread, entry);
      if (!recorder_.is_persistent(entry.address)) {
        std::memcpy(&dram_[entry.address - kDramBase], entry.data.data(), entry.bytes);
      }
    } else if (entry.kind == EntryKind::kClflush) {
      Place& place = place_of(entry.address);
      place.others.insert("flush" + std::to_string(entry.place) + ":" + std::to_string(place.stores.size()));
    }
  }
  note_clflushopts();
}

std::string PmemExecution::key() const {
  std::string key;
  for (std::size_t t = 0; t < next_.size(); ++t) {
    key += std::to_string(next_[t]) + "[";
    const auto& buffer = recorder_.buffer(static_cast<pmem::ThreadId>(t));
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      key += std::to_string(buffer[i].place) + "@" + std::to_string(buffer[i].address) + " ";
    }
    key += "]";
  }
  for (const auto& [address, place] : places_) {
    key += std::to_string(address) + "{";
    for (const std::string& store : place.stores) key += store + " ";
    key += "|";
    for (const std::string& other : place.others) key += other + " ";
    key += "}";
  }
  return key;
}

// ---- recoveries
// ------------------------------------------------------------------------------------------------------

namespace {

struct Chunk {
  int address, bytes;  // compact
};

// All persistent bytes, word by word or in parts; seed 0: in order, a word at a time.
std::vector<Chunk> chunks_to_read(const PmemProgram& program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Chunk> chunks;
  for (int word = 0; word < program.persistent_bytes(); word += 8) {
    const int part = seed == 0 ? 8 : 8 >> (random() % 4);
    for (int at = word; at < word + 8; at += part) chunks.push_back({at, part});
  }
  if (seed != 0) std::shuffle(chunks.begin(), chunks.end(), random);
  return chunks;
}

}  // namespace

Recoveries explore_recoveries(const PmemProgram& program, const pmem::Recording& recording, const persist::Log& log,
                              std::uint64_t reading_order) {
  Recoveries result;
  persist::Cut cut(log);
  persist::ChoiceTree tree;
  pmem::CrashView view(recording, cut, tree);
  const auto chunks = chunks_to_read(program, reading_order);
  persist::explore(tree, persist::Budget{}, [&](persist::ChoiceTree&) {
    cut.reset();
    view.reset();
    PmemOutcome outcome(static_cast<std::size_t>(program.persistent_bytes() + program.marks), 0);
    for (const Chunk& chunk : chunks) {
      view.load(real_address(program, chunk.address),
                std::as_writable_bytes(std::span(outcome).subspan(static_cast<std::size_t>(chunk.address),
                                                                  static_cast<std::size_t>(chunk.bytes))));
    }
    for (int mark = 0; mark < program.marks; ++mark) {
      outcome[static_cast<std::size_t>(program.persistent_bytes() + mark)] =
          static_cast<char>(view.times_reached(std::to_string(mark)));
    }
    result.outcomes.insert(std::move(outcome));
    ++result.count;
  });
  return result;
}

DriverResult run_driver(const PmemProgram& program, const DriverOptions& options, const CheckClass& check) {
  DriverResult result;
  std::set<std::string> visited;
  std::vector<std::vector<PmemExecution::Step>> open{{}};
  while (!open.empty()) {
    const auto prefix = std::move(open.back());
    open.pop_back();
    PmemExecution execution(program, options);
    for (const auto& step : prefix) execution.take(step);
    if (!visited.insert(execution.key()).second) continue;
    const auto steps = execution.enabled();
    for (const auto& step : steps) {
      open.push_back(prefix);
      open.back().push_back(step);
    }
    if (!steps.empty()) continue;
    if (++result.classes > options.classes_max || visited.size() > options.classes_max * 20) {
      result.is_complete = false;
      return result;
    }
    const Recoveries found = explore_recoveries(program, *execution.seal(), options.reading_order);
    if (check) check(execution, found);
    result.recoveries += found.count;
    result.distinct_recoveries += found.outcomes.size();
    result.outcomes.insert(found.outcomes.begin(), found.outcomes.end());
  }
  return result;
}

}  // namespace crashcut::tests
