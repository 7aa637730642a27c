// JudgedImages: crash images that an earlier check found to be fine, in a file of the results: they are not mounted
// again. An image that failed is: what failed must be seen to fail again.
//
// The file has a JSON list a line: the run's number, the image's index, the outcome, facts for the front end. A line
//   that was cut off counts as none.
// Threads: one. Several processes may add to one file; each knows what was there when it began.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "recovery/kernel/images.h"
#include "recovery/sandbox/fd.h"
#include "recovery/search/front_end.h"

namespace crashcut::kernel {

std::string judged_of(const std::string& directory);

class JudgedImages {
 public:
  explicit JudgedImages(const std::string& directory);

  // How it ended, if that is known from an earlier check.
  std::optional<search::Ending> find(const ImageSet::Chosen& image) const;
  // Does nothing unless the image was fine.
  void add(const ImageSet::Chosen& image, const search::Ending& ending);

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, search::Ending> known_;
  sandbox::Fd file_;
};

}  // namespace crashcut::kernel
