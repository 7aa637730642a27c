// Tests of crashcut pmem, end to end.
#pragma once

#include <map>
#include <sstream>

#include "tests/cli_fixture.h"

namespace crashcut {

class PmemTest : public CliTest {
 protected:
  Ran pmem(std::vector<std::string> words) { return crashcut(with({"pmem"}, words)); }

  // What recoveries printed, and how often.
  static std::map<std::string, int> outcomes_of(const Ran& run) {
    std::map<std::string, int> outcomes;
    std::istringstream text(run.out.substr(std::min(run.out.find("Outcomes:"), run.out.size())));
    std::string line;
    std::getline(text, line);
    while (std::getline(text, line) && line.find(" total") == std::string::npos) {
      const std::size_t digits = line.find_first_of("0123456789");
      if (digits == std::string::npos) break;
      const std::size_t end = line.find("  ", digits);
      outcomes[end == std::string::npos ? "" : line.substr(end + 2)] = std::stoi(line.substr(digits));
    }
    return outcomes;
  }
};

}  // namespace crashcut
