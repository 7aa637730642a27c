// Check: a program on the kernel's own filesystem: recorded in several runs, every crash image asked, the worst told.
#pragma once

#include <string>
#include <vector>

#include "recovery/kernel/plan.h"
#include "recovery/kernel/record.h"
#include "recovery/kernel/token.h"
#include "recovery/mounted/check.h"

namespace crashcut::kernel {

// `words` are the program and its arguments, as typed.
result::Head head_of(const CheckPlan& plan, const std::vector<std::string>& words);

// What an earlier check left: its runs on the kernel, which are in the directory of the results, and the images that
// it did not come to.
struct Left {
  RunsSoFar runs;
  search::Rest rest;
};

// `program` was recorded on crashcut's own disk, by mounted::record(): its trace says what the files held. Runs it on
// the kernel, and searches. The verdict is never "verified". After `before`, only runs that are missing are run, and
// only images that were not judged are mounted.
tl::expected<mounted::Checked, Failure> check(const CheckPlan& plan, const mounted::RecordPlan& program,
                                              const result::Head& head, const mounted::Recorded& recorded,
                                              const search::Hooks& hooks, const Left* before = nullptr);

// What a text of Checked::rest says. The plans are without directory and bounds.
struct Stopped {
  CheckPlan plan;
  mounted::RecordPlan program;
  std::vector<std::string> words;
  mounted::Recorded recorded;
  Left left;
};
bool is_rest(std::string_view text);
tl::expected<Stopped, std::string> read_rest(std::string_view text);

// One image again, out of the runs that the token was made from.
tl::expected<search::Replayed, Failure> replay(const KernelToken& token);
// Opens the user's shell in it; and writes it to a file.
tl::expected<int, Failure> open_shell(const KernelToken& token);
tl::expected<void, Failure> write_image(const KernelToken& token, const std::string& file);

}  // namespace crashcut::kernel
