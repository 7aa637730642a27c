// Check: a recorded device on one drive: the checker asked of every crash state, the smallest violation told.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recovery/device/plan.h"
#include "recovery/device/record.h"
#include "recovery/device/token.h"
#include "recovery/mounted/check.h"

namespace crashcut::device {

// `words` are the program and its arguments, as typed.
result::Head head_of(const CheckPlan& plan, const std::vector<std::string>& words);

tl::expected<mounted::Checked, Failure> check(const CheckPlan& plan, const result::Head& head,
                                              const mounted::Recorded& recorded, const search::Hooks& hooks,
                                              const search::Rest* before = nullptr);

// What a text of Checked::rest says. The plan is without directory and bounds.
struct Stopped {
  CheckPlan plan;
  std::vector<std::string> words;
  mounted::Recorded recorded;
  search::Rest rest;
};
// Whether it is one of a device.
bool is_rest(std::string_view text);
tl::expected<Stopped, std::string> read_rest(std::string_view text);

// One recovery again. The trace must be the one that the token was made from.
tl::expected<search::Replayed, Failure> replay(const DeviceToken& token);
// Opens the user's shell beside the crashed device; and writes the device to a file.
tl::expected<int, Failure> open_shell(const DeviceToken& token);
tl::expected<void, Failure> write_image(const DeviceToken& token, const std::string& file);

}  // namespace crashcut::device
