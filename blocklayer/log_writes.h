// Logs of dm-log-writes, the kernel's target that logs the writes of a device: ours are written in its format, and its
// are read as ours. So xfstests' replay-log reads what crashcut recorded, and crashcut crashes what the kernel logged.
//
// The format has one order for all: a write stands before the flush that covers it, in the order of completion; what
//   was in flight when a flush was sent stands behind it. A mark stands before the writes that no flush had covered
//   then. It has no moments of issue, so a write that is read back was in flight alone. Write zeroes become writes of
//   zeroes. Who sent a request is lost.
// Source: linux/drivers/md/dm-log-writes.c; Documentation/admin-guide/device-mapper/log-writes.rst
// Input from anywhere: import trusts no part of a log.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "blocklayer/trace.h"

namespace crashcut::blocklayer {

// The errors are sentences.
tl::expected<void, std::string> export_log_writes(const DeviceTrace& trace, const std::string& path);

struct Imported {
  DeviceHeader header;
  bool is_whole = true;  // all entries that the log names are there
};
// Reads the log at `path` and writes it to `trace_path` as a trace. The device is as large as the log needs.
tl::expected<Imported, std::string> import_log_writes(const std::string& path, const std::string& trace_path);

}  // namespace crashcut::blocklayer
