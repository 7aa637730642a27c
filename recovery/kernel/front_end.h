// KernelFrontEnd: a program's runs on the kernel's filesystem for the search: its crash images, each mounted by the
// kernel, which replays its own journal, and the questions of crashcut check asked of what is found there.
//
// All questions are asked of an image in one go: to mount it is what costs.
// An image that the kernel refuses to mount is a violation. The first such image is kept in the results (refused.img).
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "recovery/kernel/images.h"
#include "recovery/kernel/plan.h"
#include "recovery/mounted/front_end.h"
#include "recovery/sandbox/sandbox.h"
#include "recovery/search/front_end.h"

namespace crashcut::kernel {

inline constexpr const char* kRefusedImage = "refused.img";

class KernelFrontEnd final : public search::FrontEnd {
 public:
  // `known` has the program's run on crashcut's own disk, and what is asked.
  static tl::expected<std::unique_ptr<KernelFrontEnd>, Failure> open(const CheckPlan& plan,
                                                                     std::unique_ptr<mounted::DiskFrontEnd> known);

  const ImageSet& images() const { return *images_; }
  search::RecordingFacts facts() const override { return {images_->fingerprint(), images_->request_count(), 0}; }
  std::vector<std::string> subjects() const override { return {"the disk"}; }
  bool has_room(std::uint32_t worker_count) const override;
  tl::expected<std::unique_ptr<search::Worker>, Failure> start_worker(const search::WorkerSetup& setup) override;
  result::Names names(std::size_t) const override { return {"the program", "crashcut"}; }
  std::string explain(std::size_t question, const search::NarratedRun& told) const override;
  bool names_kind() const override { return false; }
  result::Token token(std::size_t question) const override;

  // Mounts the image of a path and runs a command of a person's there, or writes it to a file.
  tl::expected<int, Failure> open_shell(const std::vector<std::uint32_t>& path);
  tl::expected<void, Failure> save_image(const std::vector<std::uint32_t>& path, const std::string& file);

 private:
  KernelFrontEnd(const CheckPlan& plan, std::unique_ptr<mounted::DiskFrontEnd> known, std::unique_ptr<ImageSet> images);
  int work(const sandbox::Inside& inside, const search::WorkerSetup& setup) const;

  CheckPlan plan_;
  std::unique_ptr<mounted::DiskFrontEnd> known_;
  std::unique_ptr<ImageSet> images_;
  std::uint64_t trace_sum_;
};

}  // namespace crashcut::kernel
