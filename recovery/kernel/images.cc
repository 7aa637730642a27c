#include "recovery/kernel/images.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <unordered_set>

#include "recovery/kernel/journal.h"

namespace crashcut::kernel {

persist::ModelSpec spec_of(const DiskPlan& disk) {
  utsname system{};
  uname(&system);
  const persist::ModelSpec drive = blocklayer::spec_of(disk.drive);
  persist::ModelSpec spec;
  spec.text = fmt::format("{} (Linux {}), {}", disk.filesystem.text(), system.release, drive.text);
  spec.settings = {{"fs", disk.filesystem.text()},
                   {"kernel", std::string(system.release)},
                   {"bytes", disk.bytes},
                   {"runs", std::uint64_t{disk.runs}},
                   {"subsets", std::uint64_t{disk.subsets}}};
  spec.settings.insert(spec.settings.end(), drive.settings.begin(), drive.settings.end());
  return spec;
}

tl::expected<std::unique_ptr<ImageSet>, Failure> ImageSet::open(const std::string& directory, const DiskPlan& disk,
                                                                std::uint64_t seed, std::uint32_t runs_most) {
  auto base = MappedFile::open(base_of(directory));
  if (!base) return result::wrong_use(base.error());
  std::unique_ptr<ImageSet> set(new ImageSet(std::move(*base)));
  set->model_ = spec_of(disk);
  set->journal_ = disk.journal ? *disk.journal : journal_blocks(disk.filesystem, base_of(directory));
  blocklayer::ImageBase over{set->base().bytes(), block_kinds(set->journal_, disk.drive.sector_bytes)};
  if (disk.merges_replayed) over.replay = replay_of(set->journal_, disk.drive.sector_bytes);
  std::unordered_set<std::uint64_t> seen;
  for (std::uint32_t run = 1; run <= runs_most && access(run_of(directory, run).c_str(), F_OK) == 0; ++run) {
    auto trace = blocklayer::DeviceTrace::open(run_of(directory, run));
    if (!trace) return result::wrong_use(trace.error());
    if (!(*trace)->is_complete())
      return result::wrong_use(
          fmt::format("{} was cut off: it is not the run that was recorded.", run_of(directory, run)));
    const blocklayer::DeviceHeader& header = (*trace)->header();
    if (header.bytes != set->base().bytes().size() || header.sector_bytes != disk.drive.sector_bytes)
      return result::wrong_use(
          fmt::format("{} is of another disk than {}.", run_of(directory, run), base_of(directory)));
    ++set->run_count_;
    const std::string forcing = header.command.empty() ? "" : header.command[0];
    auto images = std::make_unique<blocklayer::CrashImages>(
        *trace, disk.drive, blocklayer::ImageBounds{disk.subsets, seed + run}, over, seen);
    set->chosen_count_ += images->chosen_count();
    if (images->images().empty()) continue;
    for (const std::uint64_t number : {std::uint64_t{run}, images->request_count(), images->images().size()})
      set->fingerprint_ = persist::mix(set->fingerprint_, number);
    set->runs_.push_back({run, forcing, std::move(images)});
  }
  if (set->runs_.empty()) return result::wrong_use(fmt::format("There are no runs in {}.", directory));
  set->run_location_ = set->choices_.add_location(0);
  set->image_location_ = set->choices_.add_location(0);
  set->choices_.seal();
  set->log.seal();
  return set;
}

std::uint32_t ImageSet::ask(persist::Chooser& chooser, persist::LocationId location, std::size_t count) const {
  if (count == 1) return 0;
  std::vector<persist::Candidate> candidates;
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::int32_t>(i);
    candidates.push_back({index, index, i, location});
  }
  return chooser.choose({choices_, location, candidates});
}

ImageSet::Chosen ImageSet::chosen_of(const Run& run, std::uint32_t index) {
  const auto& image = run.images->images()[index];
  return {run.images.get(), &image,
          fmt::format("run {} ({}): {}", run.number, run.forcing, run.images->describe(image)), run.number, index};
}

ImageSet::Chosen ImageSet::choose(persist::Chooser& chooser) const {
  const Run& run = runs_[ask(chooser, run_location_, runs_.size())];
  return chosen_of(run, ask(chooser, image_location_, run.images->images().size()));
}

void ImageSet::visit(const std::function<void(const Chosen&)>& visitor) const {
  for (const Run& run : runs_) {
    for (std::uint32_t index = 0; index < run.images->images().size(); ++index) visitor(chosen_of(run, index));
  }
}

std::uint64_t ImageSet::image_count() const {
  std::uint64_t count = 0;
  for (const Run& run : runs_) count += run.images->images().size();
  return count;
}

std::uint64_t ImageSet::request_count() const {
  std::uint64_t count = 0;
  for (const Run& run : runs_) count += run.images->request_count();
  return count;
}

}  // namespace crashcut::kernel
