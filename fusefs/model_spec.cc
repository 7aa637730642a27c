// The options of the ext4 model as a persist::ModelSpec, and back. One row a setting.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "fusefs/profile.h"

namespace crashcut::fusefs {
namespace {

using Setting = persist::ModelSpec::Setting;
using Parsed = tl::expected<void, std::string>;

struct Row {
  std::string_view name;
  Setting (*read)(const ModelOptions&);
  Parsed (*write)(ModelOptions&, const Setting&);
};

tl::unexpected<std::string> not_of_this_kind() { return tl::unexpected(std::string("a value of another kind")); }

template <auto kMember>
Setting read(const ModelOptions& options) {
  if constexpr (std::is_same_v<std::decay_t<decltype(options.*kMember)>, bool>) {
    return options.*kMember;
  } else {
    return std::uint64_t{options.*kMember};
  }
}

template <auto kMember>
Parsed write(ModelOptions& options, const Setting& setting) {
  using Member = std::decay_t<decltype(options.*kMember)>;
  using Kept = std::conditional_t<std::is_same_v<Member, bool>, bool, std::uint64_t>;
  const auto* value = std::get_if<Kept>(&setting);
  if (value == nullptr) return not_of_this_kind();
  options.*kMember = static_cast<Member>(*value);
  if (Kept{options.*kMember} != *value) return tl::unexpected(fmt::format("{} is too large", *value));
  return {};
}

template <auto kMember, auto kParse>
Parsed write_name(ModelOptions& options, const Setting& setting) {
  const auto* text = std::get_if<std::string>(&setting);
  if (text == nullptr) return not_of_this_kind();
  const auto parsed = kParse(*text);
  if (!parsed) return tl::unexpected(parsed.error());
  options.*kMember = *parsed;
  return {};
}

std::span<const Row> rows() {
  static constexpr Row kRows[] = {
      {"profile", [](const ModelOptions& o) { return Setting(std::string(to_text(o.profile))); },
       write_name<&ModelOptions::profile, parse_profile>},
      {"data", [](const ModelOptions& o) { return Setting(std::string(to_text(o.data))); },
       write_name<&ModelOptions::data, parse_data_mode>},
      {"delalloc", read<&ModelOptions::delalloc>, write<&ModelOptions::delalloc>},
      {"auto_da_alloc", read<&ModelOptions::auto_da_alloc>, write<&ModelOptions::auto_da_alloc>},
      {"dioread_nolock", read<&ModelOptions::dioread_nolock>, write<&ModelOptions::dioread_nolock>},
      {"barrier", read<&ModelOptions::barrier>, write<&ModelOptions::barrier>},
      {"sector_bytes", read<&ModelOptions::sector_bytes>, write<&ModelOptions::sector_bytes>},
      {"block_bytes", read<&ModelOptions::block_bytes>, write<&ModelOptions::block_bytes>},
  };
  return kRows;
}

}  // namespace

persist::ModelSpec spec_of(const ModelOptions& options) {
  persist::ModelSpec spec{describe(options), {}};
  for (const Row& row : rows()) spec.settings.emplace_back(row.name, row.read(options));
  return spec;
}

persist::ModelSpec changes_of(const ModelOptions& options) {
  persist::ModelSpec changes = spec_of(options);
  const persist::ModelSpec defaults = spec_of(ModelOptions{});
  std::erase_if(changes.settings, [&](const auto& setting) {
    return std::find(defaults.settings.begin(), defaults.settings.end(), setting) != defaults.settings.end();
  });
  return changes;
}

// Settings come in the order of the rows, each once at most.
tl::expected<ModelOptions, std::string> options_of(const persist::ModelSpec& spec) {
  ModelOptions options;
  auto row = rows().begin();
  for (const auto& [name, setting] : spec.settings) {
    row = std::find_if(row, rows().end(), [&, n = std::string_view(name)](const Row& r) { return r.name == n; });
    if (row == rows().end()) return tl::unexpected(fmt::format("The model has no setting {} here.", name));
    if (const Parsed ok = row->write(options, setting); !ok)
      return tl::unexpected(fmt::format("The model's setting {}: {}.", name, ok.error()));
    ++row;
  }
  if (const auto ok = check_geometry(options); !ok) return tl::unexpected(ok.error());
  return options;
}

}  // namespace crashcut::fusefs
