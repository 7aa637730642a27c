// Record: one run of an unmodified program on a device of a crashcut mount, into a trace.
#pragma once

#include "recovery/device/plan.h"
#include "recovery/mounted/record.h"

namespace crashcut::device {

// In the environment of the program and of the checker: the path of the device.
inline constexpr const char* kDeviceVariable = "CRASHCUT_DEVICE";
std::string device_of(const std::string& directory);

// Blocks until the program has ended. `with_terminal`: it talks to a person.
tl::expected<mounted::Recorded, Failure> record(const RecordPlan& plan, bool with_terminal);

}  // namespace crashcut::device
