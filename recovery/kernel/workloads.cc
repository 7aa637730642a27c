#include "recovery/kernel/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

namespace crashcut::kernel {
namespace {

const std::vector<std::string> kFiles = {"foo", "A/foo"}, kSecondFiles = {"bar", "A/bar", "A/C/bar"};
const std::vector<std::string> kDirectories = {"A"}, kSecondDirectories = {"B", "A/C"};
constexpr int kSize = 8192, kBlock = 4096;

struct Operation {
  std::string call;                // for calls.c
  std::vector<std::string> uses;   // the files and directories that it names
  std::vector<std::string> needs;  // those that must be there
};

bool is_directory(const std::string& path) { return path == "A" || path == "B" || path == "A/C"; }

std::string sibling_of(const std::string& path) {
  if (path == "A") return "B";
  if (path == "B") return "A";
  if (path == "A/C") return path;
  const std::string directory = path.substr(0, path.rfind('/') + 1), name = path.substr(directory.size());
  return directory + (name == "foo" ? "bar" : "foo");
}
std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Ranges of a write: behind the end, over the start without alignment, over the end.
std::vector<std::string> write_ranges() {
  return {fmt::format("{}:{}", kSize, kBlock), "1000:5000", fmt::format("{}:{}", kSize - 2000, 5000)};
}

std::vector<Operation> make_operations() {
  std::vector<Operation> operations;
  const auto add = [&](std::string call, std::vector<std::string> uses, std::vector<std::string> needs) {
    operations.push_back({std::move(call), std::move(uses), std::move(needs)});
  };
  std::vector<std::string> all = kFiles;
  all.insert(all.end(), kSecondFiles.begin(), kSecondFiles.end());
  for (const std::string& file : kFiles) {
    add("creat:" + file, {file}, {});
    for (const std::string& range : write_ranges()) {
      add(fmt::format("write:{}:{}", file, range), {file}, {file});
      for (const char mode : {'z', 'Z', 'p', 'k', 'a'})
        add(fmt::format("falloc:{}:{}:{}", file, mode, range), {file}, {file});
    }
    for (const int offset : {kSize, 0}) {
      for (const char* name : {"dwrite", "mmapwrite"})
        add(fmt::format("{}:{}:{}:{}", name, file, offset, kBlock), {file}, {file});
    }
    for (const int size : {kBlock, 2500}) add(fmt::format("truncate:{}:{}", file, size), {file}, {file});
    for (const char* name : {"setxattr", "removexattr"}) add(fmt::format("{}:{}", name, file), {file}, {file});
  }
  add("mkdir:A", {"A"}, {});
  for (const std::string& file : all) {
    add("unlink:" + file, {file}, {file});
    add("remove:" + file, {file}, {file});
    for (const std::string& to : kSecondFiles) {
      if (to == file) continue;
      add(fmt::format("link:{}:{}", file, to), {file, to}, {file});
      add(fmt::format("rename:{}:{}", file, to), {file, to}, {file});
    }
  }
  std::vector<std::string> directories = kDirectories;
  directories.insert(directories.end(), kSecondDirectories.begin(), kSecondDirectories.end());
  for (const std::string& from : directories) {
    for (const std::string& to : kSecondDirectories) {
      if (from != to) add(fmt::format("rename:{}:{}", from, to), {from, to}, {from});
    }
  }
  return operations;
}

std::set<std::string> used_files(const std::vector<const Operation*>& operations) {
  std::set<std::string> used;
  for (const Operation* operation : operations) {
    for (const std::string& path : operation->uses) {
      if (!is_directory(path)) used.insert(path);
    }
  }
  return used;
}

// The persistence calls that ACE takes after an operation: of what it uses, siblings and parents.
std::vector<std::string> persistence_calls(const std::vector<const Operation*>& operations) {
  std::set<std::string> related;
  for (const Operation* operation : operations) {
    for (const std::string& path : operation->uses) related.insert({path, sibling_of(path), parent_of(path)});
  }
  std::vector<std::string> calls{"sync"};
  for (const std::string& path : related) calls.push_back("fsync:" + path);
  return calls;
}

// What must be there before the barrier.
Workload begin_of(const std::vector<const Operation*>& operations) {
  std::set<std::string> directories, files;
  for (const Operation* operation : operations) {
    for (const std::string& path : operation->uses) {
      for (std::string above = parent_of(path); above != "."; above = parent_of(above)) directories.insert(above);
    }
    for (const std::string& path : operation->needs) {
      if (is_directory(path)) {
        directories.insert(path);
      } else {
        files.insert(path);
      }
    }
  }
  Workload workload;
  for (const std::string& directory : directories) workload.push_back("mkdir:" + directory);
  for (const std::string& file : files) {
    workload.push_back("creat:" + file);
    workload.push_back(fmt::format("write:{}:0:{}", file, kSize));
    for (const Operation* operation : operations) {
      if (operation->call == "removexattr:" + file) workload.push_back("setxattr:" + file);
    }
  }
  workload.emplace_back("barrier");
  return workload;
}

}  // namespace

namespace {

Workload one_operation(const Operation& operation, const std::string& persistence) {
  Workload workload = begin_of({&operation});
  workload.push_back(operation.call);
  workload.push_back(persistence);
  return workload;
}

}  // namespace

std::vector<Workload> seq1_workloads() {
  std::vector<Workload> workloads;
  for (const Operation& operation : make_operations()) {
    for (const std::string& persistence : persistence_calls({&operation}))
      workloads.push_back(one_operation(operation, persistence));
  }
  return workloads;
}

std::vector<Workload> fdatasync_workloads() {
  std::vector<Workload> workloads;
  for (const Operation& operation : make_operations()) {
    for (const std::string& file : used_files({&operation}))
      workloads.push_back(one_operation(operation, "fdatasync:" + file));
  }
  return workloads;
}

Workload for_model(Workload workload) {
  constexpr std::string_view kMapped = "mmapwrite:";
  for (std::string& call : workload) {
    if (call.starts_with(kMapped)) call = "msyncwrite:" + call.substr(kMapped.size());
  }
  return workload;
}

namespace {

// `count` different sequences of `least` to `most` operations. Between two operations is any persistence call or none;
// the last operation has one.
std::vector<Workload> sample(std::size_t count, std::uint64_t seed, std::size_t least, std::size_t most) {
  const std::vector<Operation> operations = make_operations();
  std::mt19937_64 random(seed);
  std::set<Workload> seen;
  std::vector<Workload> workloads;
  while (workloads.size() < count) {
    std::vector<const Operation*> chosen;
    const std::size_t length = least + (least == most ? 0 : random() % (most - least + 1));
    while (chosen.size() < length) chosen.push_back(&operations[random() % operations.size()]);
    std::vector<std::string> persistence = persistence_calls(chosen);
    for (const std::string& file : used_files(chosen)) persistence.push_back("fdatasync:" + file);
    Workload workload = begin_of(chosen);
    for (std::size_t i = 0; i < length; ++i) {
      workload.push_back(chosen[i]->call);
      const bool is_last = i + 1 == length;
      const std::size_t after = random() % (persistence.size() + (is_last ? 0 : 1));
      if (after < persistence.size()) workload.push_back(persistence[after]);
    }
    if (seen.insert(workload).second) workloads.push_back(std::move(workload));
  }
  return workloads;
}

}  // namespace

std::vector<Workload> seq2_workloads(std::size_t count, std::uint64_t seed) { return sample(count, seed, 2, 2); }
std::vector<Workload> random_workloads(std::size_t count, std::uint64_t seed) { return sample(count, seed, 3, 4); }

std::string operation_of(const Workload& workload) {
  std::string last = "nothing";
  for (const std::string& call : workload) {
    const std::string name = call.substr(0, call.find(':'));
    if (name == "barrier") last = "nothing";
    if (name != "fsync" && name != "fdatasync" && name != "sync" && name != "barrier") last = name;
  }
  return last;
}

}  // namespace crashcut::kernel
