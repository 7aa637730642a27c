#include "recovery/kernel/judged.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "recovery/search/channel.h"

namespace crashcut::kernel {

using search::Ending;
using search::Json;

std::string judged_of(const std::string& directory) { return directory + "/judged"; }

JudgedImages::JudgedImages(const std::string& directory)
    : file_(open(judged_of(directory).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  std::ifstream file(judged_of(directory));
  for (std::string line; std::getline(file, line);) {
    try {
      const Json json = Json::parse(line);
      Ending ending;
      ending.outcome = json.at(2);
      ending.facts = json.at(3).get<std::vector<std::string>>();
      known_[{json.at(0), json.at(1)}] = std::move(ending);
    } catch (const Json::exception&) {
    }
  }
}

std::optional<Ending> JudgedImages::find(const ImageSet::Chosen& image) const {
  const auto known = known_.find({image.run_number, image.index});
  if (known == known_.end()) return std::nullopt;
  return known->second;
}

void JudgedImages::add(const ImageSet::Chosen& image, const Ending& ending) {
  if (ending.kind != Ending::Kind::kFine) return;
  const Json json{image.run_number, image.index, ending.outcome, ending.facts};
  const std::string line = json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  // In one piece: others write to the same file. If it fails, the image is mounted again some day.
  [[maybe_unused]] const auto written = write(file_.get(), line.data(), line.size());
}

}  // namespace crashcut::kernel
