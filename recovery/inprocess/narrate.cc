// Single runs and the recording as JSON lines, straight into shared memory: a run that dies keeps what it said.
#include <fmt/format.h>

#include <cstring>

#include "persist/moments.h"
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/runtime.h"
#include "scheduler/runtime/own_world.h"

namespace crashcut::inprocess {

namespace {

// Where the cuts are noted: {u32 layers, then for each u32 count, earliest and latest moment, and a byte an event}.
constexpr std::uint64_t kCutsOffset = kReplyOffset + kReplyBytes / 2;
constexpr std::uint64_t kTraceBytes = kReplyBytes / 2;

void append(std::string_view text) {
  std::atomic<std::uint64_t>& used = g.header->trace_bytes;
  const std::uint64_t at = used.load(std::memory_order_relaxed);
  if (at + text.size() > kTraceBytes) return;
  std::memcpy(g.control + kReplyOffset + at, text.data(), text.size());
  used.store(at + text.size(), std::memory_order_relaxed);
}

void append_number(std::uint64_t n) {
  char digits[24];
  char* at = digits + sizeof digits;
  do {
    *--at = static_cast<char>('0' + n % 10);
    n /= 10;
  } while (n != 0);
  append({at, static_cast<std::size_t>(digits + sizeof digits - at)});
}

}  // namespace

std::size_t utf8_length(std::string_view s) {
  const auto byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned c = byte(0);
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c < 0xe0) return follows(1) ? 2 : 0;
  if (c >= 0xe0 && c < 0xf0) {
    const bool fits = (c != 0xe0 || byte(1) >= 0xa0) && (c != 0xed || byte(1) < 0xa0);
    return fits && follows(1) && follows(2) ? 3 : 0;
  }
  if (c >= 0xf0 && c < 0xf5) {
    const bool fits = (c != 0xf0 || byte(1) >= 0x90) && (c != 0xf4 || byte(1) < 0x90);
    return fits && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const std::size_t length = utf8_length(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || length == 0) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + '"';
}

namespace {

void append_list(const char* name, const std::uint8_t* states, std::uint32_t count, Decided wanted) {
  append(name);
  bool first = true;
  for (std::uint32_t e = 0; e < count; ++e) {
    if (states[e] != static_cast<std::uint8_t>(wanted)) continue;
    if (!first) append(",");
    first = false;
    append_number(e);
  }
  append("]");
}

}  // namespace

// Where the program made the call, for tools that read these lines: a member of their object, or nothing.
static std::string code_member(const std::string& code) { return code.empty() ? "" : ",\"code\":" + json_string(code); }

void narrate_call(long result) {
  narrate_text(g.call_text->empty() ? "" : fmt::format("{} = {}", *g.call_text, result));
  g.call_text->clear();
}

void narrate_text(const std::string& said) {
  const std::string thread = said.empty() ? "" : scheduler::runtime::name_of_running();
  const std::string text = thread.empty() ? said : thread + ": " + said;
  if (!text.empty())
    append(fmt::format("{{\"call\":{},\"layer\":{}{}}}\n", json_string(text), g.slot->layer,
                       code_member(text_of_calls(current_calls()))));
  if (g_explorer == nullptr || !g_explorer->has_chosen()) return;
  note_cuts(g_explorer->crashes());
  g_explorer->clear_chosen();
  hold_after_answers(g.slot->path_length);
}

void narrate_choice(std::uint32_t layer, const persist::Recording& recording, const persist::Choice& choice,
                    std::uint32_t taken) {
  std::string candidates;
  for (const persist::Candidate& c : choice.candidates) {
    if (!candidates.empty()) candidates += ',';
    candidates += json_string(recording.describe_candidate(choice.location, c));
  }
  append(fmt::format("{{\"choice\":{},\"layer\":{},\"location\":{},\"candidates\":[{}],\"taken\":{}}}\n",
                     g.slot->path_length - 1, layer, json_string(recording.describe_location(choice.location)),
                     candidates, taken));
}

void note_cuts(const std::vector<Crash>& crashes) {
  std::byte* at = g.control + kCutsOffset;
  const auto put = [&](std::uint32_t n) {
    std::memcpy(at, &n, 4);
    at += 4;
  };
  put(static_cast<std::uint32_t>(crashes.size()));
  for (const Crash& crash : crashes) {
    const auto count = static_cast<std::uint32_t>(crash.recorded->whole->log.event_count());
    const persist::Moments moments = persist::moments_of(*crash.recorded->whole, *crash.cut);
    put(count);
    put(moments.earliest);
    put(moments.latest);
    for (persist::EventId e = 0; e < count; ++e) {
      const Decided decided = crash.cut->is_in(e)    ? Decided::kIn
                              : crash.cut->is_out(e) ? Decided::kOut
                                                     : Decided::kOpen;
      *at++ = static_cast<std::byte>(decided);
    }
  }
}

void describe_recording(std::uint32_t layer, const Recorded& recorded) {
  const persist::Recording& recording = *recorded.whole;
  // The first layer's lines have no "layer": they are what kDescribe gives.
  const std::string prefix = layer == 1 ? "{" : fmt::format("{{\"layer\":{},", layer);
  const std::vector<std::string> ops = recording.operations();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::string& code = recorded.op_stacks->text_of(i);
    append(fmt::format("{}\"op\":{},\"text\":{}{}}}\n", prefix, i, json_string(ops[i]), code_member(code)));
  }
  const persist::Log& log = recording.log;
  // The moment in which blocks become free is nothing that a disk holds.
  const auto is_told = [&](persist::EventId e) { return !recording.kind_of(e).empty(); };
  for (persist::EventId e = 0; e < log.event_count(); ++e) {
    if (!is_told(e)) continue;
    std::string after;
    const persist::BarrierId epoch = log.epoch(e);
    // A barrier's epoch is itself; it follows the barrier before it.
    const persist::BarrierId last = log.barrier_of(e) != 0 ? epoch - 1 : epoch;
    const persist::EventId barrier = last == 0 ? persist::kNoEvent : log.barrier_event(last);
    if (barrier != persist::kNoEvent) after = fmt::format("{}", barrier);
    const auto add = [&](persist::EventId p) {
      if (p == barrier || !is_told(p)) return;
      if (!after.empty()) after += ',';
      after += fmt::format("{}", p);
    };
    for (persist::EventId p : log.predecessors(e)) add(p);
    if (log.barrier_of(e) == 0) log.for_each_fence_below(e, add);
    append(fmt::format(
        "{}\"event\":{},\"op\":{},\"kind\":\"{}\",\"sync\":{},\"text\":{},\"after\":[{}],\"durable\":{}}}\n", prefix, e,
        log.op(e), recording.kind_of(e), recording.is_sync(e), json_string(recording.describe_event(e)), after,
        log.cover(e) <= log.durable_barrier()));
  }
}

void finish_trace() {
  const std::byte* at = g.control + kCutsOffset;
  const auto get = [&] {
    std::uint32_t n;
    std::memcpy(&n, at, 4);
    at += 4;
    return n;
  };
  const std::uint32_t layers = get();
  for (std::uint32_t layer = 1; layer <= layers; ++layer) {
    const std::uint32_t count = get(), earliest = get(), latest = get();
    const auto* states = reinterpret_cast<const std::uint8_t*>(at);
    append("{\"layer\":");
    append_number(layer);
    append(",\"earliest\":");
    append_number(earliest);
    append(",\"latest\":");
    append_number(latest);
    append_list(",\"in\":[", states, count, Decided::kIn);
    append_list(",\"out\":[", states, count, Decided::kOut);
    append("}\n");
    at += count;
  }
}

Decided decided_in_last_run(persist::EventId event) {
  const std::byte* at = g.control + kCutsOffset;
  std::uint32_t head[4];  // layers; of the first: count, earliest, latest
  std::memcpy(head, at, sizeof head);
  if (head[0] == 0 || event >= head[1]) return Decided::kOpen;
  return static_cast<Decided>(at[sizeof head + event]);
}

void append_line(std::string_view line) {
  append(line);
  append("\n");
}

}  // namespace crashcut::inprocess
