#include "recovery/inprocess/memory/region_access.h"

#include <fmt/format.h>

namespace crashcut::inprocess {

void touch_wild(std::uint64_t address, std::size_t bytes) {
  while (is_in_region(address, 1) && bytes-- > 1) ++address;
  (void)*reinterpret_cast<const volatile char*>(address);
}

void narrate_load(std::uint64_t address, std::span<const std::byte> bytes, const void* code) {
  if (!g_explorer->has_chosen()) return;
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof value));
  narrate_text(fmt::format("load of {} {} from {} at {}: {:#x}", bytes.size(), bytes.size() == 1 ? "byte" : "bytes",
                           describe_address(address), name_place(number_of(code)), value));
}

void load_memory(std::uint64_t address, std::span<std::byte> out, const void* code) {
  load_checked(address, out, code);
}

void copy_to_memory(std::uint64_t address, std::span<const std::byte> bytes, const void* code) {
  if (ThreadedMemory* threads = threaded()) {
    threads->store(address, bytes, ThreadedMemory::Kind::kCopy, false, code);
  } else if (is_recording()) {
    recorder().copy(own_thread(), address, bytes, place_of(code));
  } else {
    g_explorer->memory()->overwrite(address, bytes);
  }
}

}  // namespace crashcut::inprocess
