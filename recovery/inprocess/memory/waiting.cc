// What a recovery that does not end waits for: words that it loads over and over.
//
// Only single runs look, as a story needs it: a recovery that hung is run again for that. The last loads are kept, and
//   once all of many loads were of the same few words with the same bytes, the story says so. It takes that back if the
//   recovery then loads something else.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/memory.h"

namespace crashcut::inprocess {

namespace {

constexpr std::size_t kWordsMost = 4;
constexpr std::uint64_t kManyLoads = 10'000;

struct Load {
  std::uint64_t address = 0, value = 0;
  const void* code = nullptr;
  bool operator==(const Load&) const = default;
};

Load g_loads[kWordsMost];
std::size_t g_load_count = 0;
std::uint64_t g_repeated = 0;

// Who stored what the word holds: the newest store of main() that was there after the crash.
std::string writer_text(std::uint64_t address) {
  const Crash& crash = g_explorer->crashes().front();
  const pmem::Recording& recording = *crash.recorded->memory;
  const pmem::Line* line = std::as_const(recording.lines).find(address);
  const std::uint32_t location = line == nullptr ? 0 : line->location[pmem::word_in_line(address)];
  if (location == 0) return "which main() never stored to";
  const auto history = recording.log.history(location - 1);
  const auto found =
      std::find_if(history.rbegin(), history.rend(), [&](const auto& write) { return crash.cut->is_in(write.event); });
  if (found == history.rend()) return "as no store of main() to it was durable";
  const pmem::EventInfo& info = recording.events[found->event];
  const std::string place(recording.name_of_place(info.place));
  return info.form == pmem::StoreForm::kLocked
             ? fmt::format("as main() left it by a locked instruction at {}: a lock whose owner is gone", place)
             : fmt::format("as main() stored it at {}", place);
}

std::string wait_text() {
  std::string text = "it loads ";
  for (std::size_t i = 0; i < g_load_count; ++i) {
    text += fmt::format("{}{} at {} (it holds {:#x}, {})", i == 0 ? "" : " and ", describe_address(g_loads[i].address),
                        name_place(reinterpret_cast<std::uint64_t>(g_loads[i].code)), g_loads[i].value,
                        writer_text(g_loads[i].address));
  }
  return text + " over and over, and nobody is left who would store to it";
}

void append_wait(const std::string& text) { append_line(fmt::format("{{\"wait\":{}}}", json_string(text))); }

}  // namespace

void note_repeated_load(std::uint64_t address, std::span<const std::byte> bytes, const void* code) {
  Load load{address, 0, code};
  std::memcpy(&load.value, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof load.value));
  if (std::find(g_loads, g_loads + g_load_count, load) != g_loads + g_load_count) {
    if (++g_repeated == kManyLoads) append_wait(wait_text());
    return;
  }
  if (g_repeated >= kManyLoads) append_wait("");
  if (g_repeated > 0 || g_load_count == kWordsMost) g_load_count = 0;
  g_repeated = 0;
  g_loads[g_load_count++] = load;
}

void note_endless_wait(std::string_view what, std::uint64_t address, const void* code) {
  append_wait(fmt::format("it waits at {} for the {} {} ({}), and nobody is left who would release it",
                          name_place(reinterpret_cast<std::uint64_t>(code)), what, describe_address(address),
                          writer_text(address)));
}

}  // namespace crashcut::inprocess
