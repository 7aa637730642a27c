#include "blocklayer/drive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace crashcut::blocklayer {
namespace {

constexpr std::array<std::string_view, 3> kCaches{"volatile", "none", "lies"};
constexpr std::array<std::string_view, 3> kTears{"any", "prefix", "none"};
constexpr std::array<std::string_view, 4> kFaultKinds{"written", "any", "misdirected", "misdirected-any"};  // by bit
constexpr std::uint32_t kSectorsMost = 1 << 16;
constexpr std::uint32_t kFaultsMost = 64;

std::string text_of_kinds(std::uint8_t kinds) {
  std::string text;
  for (std::size_t bit = 0; bit < kFaultKinds.size(); ++bit) {
    if ((kinds >> bit & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ",", kFaultKinds[bit]);
  }
  return text;
}

std::string describe(const DriveOptions& options) {
  std::string text =
      fmt::format("drive sector={} cache={} tear={}", options.sector_bytes,
                  kCaches[static_cast<std::size_t>(options.cache)], kTears[static_cast<std::size_t>(options.tear)]);
  if (options.atomic_sectors > 1) text += fmt::format(" atomic={}", options.atomic_sectors);
  if (options.boundary_sectors > 0) text += fmt::format(" boundary={}", options.boundary_sectors);
  if (options.faults > 0) text += fmt::format(" faults={}", options.faults);
  if (options.fault_kinds != kBadWritten) text += fmt::format(" fault_kinds={}", text_of_kinds(options.fault_kinds));
  return text;
}

// A number of 32 bits; false where it is none.
bool read_number(const persist::ModelSpec::Setting& setting, std::uint32_t& to) {
  const auto* value = std::get_if<std::uint64_t>(&setting);
  if (value == nullptr || *value > ~std::uint32_t{0}) return false;
  to = static_cast<std::uint32_t>(*value);
  return true;
}

bool read_setting(const std::string& name, const persist::ModelSpec::Setting& setting, DriveOptions& options) {
  if (name == "sector_bytes") return read_number(setting, options.sector_bytes);
  if (name == "atomic_sectors") return read_number(setting, options.atomic_sectors);
  if (name == "boundary_sectors") return read_number(setting, options.boundary_sectors);
  if (name == "faults") return read_number(setting, options.faults);
  const auto* text = std::get_if<std::string>(&setting);
  if (text == nullptr) return false;
  if (name == "cache") {
    const auto cache = parse_cache(*text);
    if (cache) options.cache = *cache;
    return cache.has_value();
  }
  if (name == "tear") {
    const auto tear = parse_tear(*text);
    if (tear) options.tear = *tear;
    return tear.has_value();
  }
  if (name == "fault_kinds") {
    const auto kinds = parse_fault_kinds(*text);
    if (kinds) options.fault_kinds = *kinds;
    return kinds.has_value();
  }
  return false;
}

}  // namespace

tl::expected<Cache, std::string> parse_cache(std::string_view text) {
  const auto found = std::find(kCaches.begin(), kCaches.end(), text);
  if (found != kCaches.end()) return static_cast<Cache>(found - kCaches.begin());
  return tl::unexpected(fmt::format("There is no cache \"{}\": it is volatile, none or lies.", text));
}

tl::expected<Tear, std::string> parse_tear(std::string_view text) {
  const auto found = std::find(kTears.begin(), kTears.end(), text);
  if (found != kTears.end()) return static_cast<Tear>(found - kTears.begin());
  return tl::unexpected(fmt::format("Writes cannot tear \"{}\": it is any, prefix or none.", text));
}

tl::expected<std::uint8_t, std::string> parse_fault_kinds(std::string_view text) {
  unsigned kinds = 0;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = text.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view word = text.substr(0, comma);
    const auto found = std::find(kFaultKinds.begin(), kFaultKinds.end(), word);
    if (found == kFaultKinds.end())
      return tl::unexpected(
          fmt::format("There is no fault \"{}\": it is written, any, misdirected or misdirected-any.", word));
    kinds |= 1u << (found - kFaultKinds.begin());
    if (!is_last) text.remove_prefix(comma + 1);
  }
  return static_cast<std::uint8_t>(kinds);
}

tl::expected<void, std::string> check_options(const DriveOptions& options) {
  if (options.sector_bytes != 512 && options.sector_bytes != 4096)
    return tl::unexpected(fmt::format("A drive has sectors of 512 or 4096 bytes, not of {}.", options.sector_bytes));
  if (options.atomic_sectors < 1 || options.atomic_sectors > kSectorsMost)
    return tl::unexpected(
        fmt::format("A drive writes 1 to {} sectors whole, not {}.", kSectorsMost, options.atomic_sectors));
  if (options.boundary_sectors != 0 && options.boundary_sectors < options.atomic_sectors)
    return tl::unexpected(fmt::format("The boundary, {} sectors, is below the {} sectors that are written whole.",
                                      options.boundary_sectors, options.atomic_sectors));
  if (options.faults > kFaultsMost)
    return tl::unexpected(fmt::format("{} faults are too many: {} at most.", options.faults, kFaultsMost));
  if (options.fault_kinds == 0 || options.fault_kinds >= 1u << kFaultKinds.size())
    return tl::unexpected(std::string("Faults are written, any, misdirected or misdirected-any."));
  return {};
}

persist::ModelSpec spec_of(const DriveOptions& options) {
  return {describe(options),
          {{"sector_bytes", std::uint64_t{options.sector_bytes}},
           {"cache", std::string(kCaches[static_cast<std::size_t>(options.cache)])},
           {"tear", std::string(kTears[static_cast<std::size_t>(options.tear)])},
           {"atomic_sectors", std::uint64_t{options.atomic_sectors}},
           {"boundary_sectors", std::uint64_t{options.boundary_sectors}},
           {"faults", std::uint64_t{options.faults}},
           {"fault_kinds", text_of_kinds(options.fault_kinds)}}};
}

persist::ModelSpec changes_of(const DriveOptions& options) {
  persist::ModelSpec changes = spec_of(options);
  const persist::ModelSpec defaults = spec_of(DriveOptions{});
  std::erase_if(changes.settings, [&](const auto& setting) {
    return std::find(defaults.settings.begin(), defaults.settings.end(), setting) != defaults.settings.end();
  });
  return changes;
}

std::optional<DriveOptions> options_of(const persist::ModelSpec& spec) {
  DriveOptions options;
  for (const auto& [name, setting] : spec.settings) {
    if (!read_setting(name, setting, options)) return std::nullopt;
  }
  if (!check_options(options)) return std::nullopt;
  return options;
}

bool is_atomic(const DriveOptions& options, Sector first, std::uint64_t count) {
  if (options.tear == Tear::kNone || count <= 1) return true;
  if (count > options.atomic_sectors) return false;
  return options.boundary_sectors == 0 ||
         first / options.boundary_sectors == (first + count - 1) / options.boundary_sectors;
}

}  // namespace crashcut::blocklayer
