// What a crash image of the kernel's filesystems costs: made, mounted (the journal is replayed), looked at, unmounted.
// Two at a time (btrfs: one). Prints, and asserts nothing: the time is the machine's.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "recovery/kernel/crashed_disk.h"
#include "recovery/kernel/images.h"
#include "recovery/kernel/record.h"

namespace crashcut {
namespace {

using kernel::DiskPlan;
using kernel::ImageSet;
using search::Json;

constexpr int kImagesMost = 400;

// Milliseconds an image, of one worker.
Json look(const std::string& directory, const DiskPlan& disk, const ImageSet& images) {
  auto crashed =
      kernel::CrashedDisk::make(disk.filesystem, images.base(), mounted::disk_of(directory), disk.drive.sector_bytes);
  if (!crashed) return {{"failure", crashed.error()}, {"is_users", false}};
  int count = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (count < kImagesMost) {
    images.visit([&](const ImageSet::Chosen& chosen) {
      if (count >= kImagesMost) return;
      ++count;
      (*crashed)->load(chosen.run->blocks_of(*chosen.image), chosen.run->block_bytes());
      if ((*crashed)->mount(true) != 0) return;
      struct stat found {};
      stat((mounted::disk_of(directory) + "/f").c_str(), &found);
      (*crashed)->unmount();
    });
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  return {{"ms", taken.count() / count}};
}

void measure(const std::string& type, const std::string& directory) {
  const kernel::KernelFilesystem filesystem{type, ""};
  if (const std::string missing = kernel::what_is_missing(filesystem); !missing.empty()) {
    fmt::print("{:<8} skipped: {}\n", type, missing);
    return;
  }
  std::filesystem::create_directories(directory);
  DiskPlan disk{filesystem, kernel::default_bytes(filesystem), {.sector_bytes = 4096}, 4, 64};
  mounted::RecordPlan program;
  program.directory = directory;
  program.program.words = {"sh", "-c", "yes new | head -c 12000 > t; sync t; mv t f; sync ."};
  const auto made = kernel::make_base(program, disk);
  const std::vector<mounted::Question> no_questions;
  const mounted::Histories no_histories;
  const auto runs = made ? kernel::record_runs(program, disk, {no_questions, no_histories}, 0, [] { return false; })
                         : tl::unexpected(made.error());
  const auto images = runs ? ImageSet::open(directory, disk, 0) : tl::unexpected(runs.error());
  if (!images) {
    fmt::print("{:<8} failed: {}\n", type, images.error().sentence);
    return;
  }
  const int workers = type == "btrfs" ? 1 : 2;
  std::vector<pid_t> children;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < workers; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const auto answer =
        kernel::in_sandbox(directory, [&](const sandbox::Inside&) { return look(directory, disk, **images); });
    _exit(answer ? 0 : 1);
  }
  bool is_fine = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    is_fine = is_fine && status == 0;
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("{:<8} {:>8} {:>8} {:>12.2f}{}\n", type, (*images)->image_count(), workers,
             taken.count() / (kImagesMost * workers), is_fine ? "" : "  (failed)");
}

}  // namespace
}  // namespace crashcut

int main() {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("kernel_bench.{}", getpid());
  fmt::print("{:<8} {:>8} {:>8} {:>12}\n", "", "images", "workers", "ms a state");
  for (const char* type : {"ext4", "xfs", "btrfs"}) crashcut::measure(type, (directory / type).string());
  std::filesystem::remove_all(directory);
}
