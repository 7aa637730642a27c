// ImageSet: the crash images of all runs on the kernel's filesystem, each once, for the search.
//
// The search knows recordings and choices. Here the choice is which image a recovery gets: first the run, then the
//   image of that run. There are no events: images are whole, and no part of one is decided later.
// Threads: read-only once made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "blocklayer/crash_images.h"
#include "persist/hash.h"
#include "persist/recording.h"
#include "recovery/kernel/image_file.h"
#include "recovery/kernel/plan.h"

namespace crashcut::kernel {

class ImageSet final : public persist::Recording {
 public:
  // Reads the runs in the directory of the results, or the first `runs_most` of them. More runs add images behind those
  // of the others, and change none.
  static tl::expected<std::unique_ptr<ImageSet>, Failure> open(const std::string& directory, const DiskPlan& disk,
                                                               std::uint64_t seed, std::uint32_t runs_most = ~0u);

  struct Chosen {
    const blocklayer::CrashImages* run;
    const blocklayer::CrashImages::Image* image;
    std::string how;                  // "run 3 (a commit before every call): the power fails after ..."
    std::uint32_t run_number, index;  // of the image in its run
  };
  // Asks the chooser. There is at least one image.
  Chosen choose(persist::Chooser& chooser) const;

  // All images, in order.
  void visit(const std::function<void(const Chosen&)>& visitor) const;
  // Another set of images has another one.
  std::uint64_t fingerprint() const { return fingerprint_; }
  std::uint64_t image_count() const;
  // How many were chosen, before those that show the same were left out.
  std::uint64_t chosen_count() const { return chosen_count_; }
  std::uint64_t request_count() const;
  std::size_t run_count() const { return run_count_; }
  // Those with images of their own: the candidates of the first choice. If there is one only, there is no such choice.
  std::size_t candidate_run_count() const { return runs_.size(); }
  const MappedFile& base() const { return base_; }
  // The blocks of the filesystem's journal, where they are known.
  const std::vector<std::uint64_t>& journal() const { return journal_; }

  persist::ModelSpec model() const override { return model_; }
  std::string_view kind_of(persist::EventId) const override { return ""; }
  bool is_sync(persist::EventId) const override { return false; }
  std::string describe_event(persist::EventId) const override { return ""; }
  std::string describe_location(persist::LocationId) const override { return "the disk"; }
  std::string describe_candidate(persist::LocationId, const persist::Candidate&) const override { return "an image"; }
  std::vector<persist::Mark> marks() const override { return {}; }
  bool is_mark(persist::LocationId) const override { return false; }
  std::unique_ptr<persist::StableNames> stable_names() const override { return nullptr; }

 private:
  explicit ImageSet(MappedFile base) : base_(std::move(base)) {}
  std::uint32_t ask(persist::Chooser& chooser, persist::LocationId location, std::size_t count) const;

  struct Run {
    std::uint32_t number;
    std::string forcing;
    std::unique_ptr<blocklayer::CrashImages> images;
  };
  static Chosen chosen_of(const Run& run, std::uint32_t index);

  MappedFile base_;
  std::vector<std::uint64_t> journal_;
  std::vector<Run> runs_;  // those with images that no run before had
  std::size_t run_count_ = 0;
  std::uint64_t chosen_count_ = 0;
  std::uint64_t fingerprint_ = persist::kHashStart;
  persist::ModelSpec model_;
  // Of the choices. It is not the recording's own log, so a story lists no other candidates: there are thousands.
  persist::Log choices_;
  persist::LocationId run_location_ = 0, image_location_ = 0;
};

// "kernel:ext4 (Linux 6.18.4), drive sector=4096 cache=volatile tear=any"
persist::ModelSpec spec_of(const DiskPlan& disk);

}  // namespace crashcut::kernel
