// The options of a drive: as settings of a token and back, and bad ones.
#include <gtest/gtest.h>

#include "blocklayer/drive.h"

namespace crashcut::blocklayer {
namespace {

TEST(DriveOptionsTest, ComeBackFromTheirSettings) {
  const DriveOptions all[] = {{},
                              {.sector_bytes = 4096, .cache = Cache::kLies},
                              {.cache = Cache::kNone, .tear = Tear::kPrefix, .faults = 3},
                              {.tear = Tear::kNone, .atomic_sectors = 8, .boundary_sectors = 32},
                              {.faults = 1, .fault_kinds = kBadAny | kMisdirected}};
  for (const DriveOptions& options : all) {
    EXPECT_EQ(options_of(spec_of(options)), options) << spec_of(options).text;
    EXPECT_EQ(options_of(changes_of(options)), options) << spec_of(options).text;
  }
  EXPECT_TRUE(changes_of({}).settings.empty());
}

TEST(DriveOptionsTest, BadOnesAreRefused) {
  const DriveOptions bad[] = {
      {.sector_bytes = 0},   {.sector_bytes = 1024},      {.sector_bytes = 513},
      {.atomic_sectors = 0}, {.atomic_sectors = 1 << 20}, {.faults = 65},
      {.fault_kinds = 0},    {.fault_kinds = 16},         {.atomic_sectors = 8, .boundary_sectors = 4}};
  for (const DriveOptions& options : bad) {
    const auto ok = check_options(options);
    ASSERT_FALSE(ok);
    EXPECT_TRUE(ok.error().ends_with('.')) << ok.error();
    EXPECT_FALSE(options_of(spec_of(options)));
  }
  using Setting = persist::ModelSpec::Setting;
  const std::pair<std::string, Setting> settings[] = {
      {"cache", std::string("nonsense")},   {"cache", std::uint64_t{1}},        {"tear", std::string("")},
      {"sector_bytes", std::string("512")}, {"faults", std::uint64_t{1} << 40}, {"no_such", std::uint64_t{1}}};
  for (const auto& setting : settings) EXPECT_FALSE(options_of({"", {setting}})) << setting.first;
  EXPECT_FALSE(parse_cache("Volatile"));
  EXPECT_FALSE(parse_tear("all"));
  EXPECT_EQ(parse_fault_kinds("written,misdirected"), kBadWritten | kMisdirected);
  EXPECT_EQ(parse_fault_kinds("misdirected-any"), kMisdirectedAny);
  for (const char* kinds : {"", "none", "any,", ",any", "any misdirected"}) EXPECT_FALSE(parse_fault_kinds(kinds));
}

}  // namespace
}  // namespace crashcut::blocklayer
