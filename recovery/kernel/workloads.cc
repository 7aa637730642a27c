#include "recovery/kernel/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

namespace crashcut::kernel {
namespace {

const std::vector<std::string> kFiles = {"foo", "A/foo"}, kSecondFiles = {"bar", "A/bar"};
constexpr int kSize = 8192, kBlock = 4096;

struct Operation {
  std::string call;                // for calls.c
  std::vector<std::string> uses;   // the files and directories that it names
  std::vector<std::string> needs;  // those that must be there
  bool is_on_directory = false;
};

std::string sibling_of(const std::string& path) {
  if (path == "A") return "B";
  if (path == "B") return "A";
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
    for (const int offset : {kSize, 0}) add(fmt::format("dwrite:{}:{}:{}", file, offset, kBlock), {file}, {file});
    for (const int size : {kBlock, 2500}) add(fmt::format("truncate:{}:{}", file, size), {file}, {file});
    for (const char* name : {"setxattr", "removexattr", "fdatasync"})
      add(fmt::format("{}:{}", name, file), {file}, {file});
  }
  operations.push_back({"mkdir:A", {"A"}, {}, true});
  for (const std::string& file : all) {
    add("unlink:" + file, {file}, {file});
    add("remove:" + file, {file}, {file});
    for (const std::string& to : kSecondFiles) {
      if (to == file) continue;
      add(fmt::format("link:{}:{}", file, to), {file, to}, {file});
      add(fmt::format("rename:{}:{}", file, to), {file, to}, {file});
    }
  }
  operations.push_back({"rename:A:B", {"A", "B"}, {"A"}, true});
  return operations;
}

// The persistence calls that ACE takes after an operation: of what it uses, siblings and parents.
std::vector<std::string> persistence_calls(const std::vector<const Operation*>& operations) {
  std::set<std::string> related;
  std::set<std::string> used;
  for (const Operation* operation : operations) {
    for (const std::string& path : operation->uses) {
      related.insert({path, sibling_of(path), parent_of(path)});
      if (!operation->is_on_directory) used.insert(path);
    }
  }
  std::vector<std::string> calls{"sync"};
  for (const std::string& path : related) calls.push_back("fsync:" + path);
  for (const std::string& path : used) calls.push_back("fdatasync:" + path);
  return calls;
}

// What must be there before the barrier.
Workload begin_of(const std::vector<const Operation*>& operations) {
  std::set<std::string> directories, files;
  for (const Operation* operation : operations) {
    for (const std::string& path : operation->uses) {
      if (path.find('/') != std::string::npos) directories.insert(parent_of(path));
    }
    for (const std::string& path : operation->needs) {
      if (path == "A" || path == "B") {
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

std::vector<Workload> seq1_workloads() {
  std::vector<Workload> workloads;
  const std::vector<Operation> operations = make_operations();
  for (const Operation& operation : operations) {
    for (const std::string& persistence : persistence_calls({&operation})) {
      Workload workload = begin_of({&operation});
      workload.push_back(operation.call);
      workload.push_back(persistence);
      workloads.push_back(std::move(workload));
    }
  }
  return workloads;
}

std::vector<Workload> seq2_workloads(std::size_t count, std::uint64_t seed) {
  const std::vector<Operation> operations = make_operations();
  std::mt19937_64 random(seed);
  std::set<Workload> seen;
  std::vector<Workload> workloads;
  while (workloads.size() < count) {
    const Operation& first = operations[random() % operations.size()];
    const Operation& second = operations[random() % operations.size()];
    const std::vector<std::string> persistence = persistence_calls({&first, &second});
    Workload workload = begin_of({&first, &second});
    workload.push_back(first.call);
    if (const std::size_t between = random() % (persistence.size() + 1); between > 0)
      workload.push_back(persistence[between - 1]);
    workload.push_back(second.call);
    workload.push_back(persistence[random() % persistence.size()]);
    if (seen.insert(workload).second) workloads.push_back(std::move(workload));
  }
  return workloads;
}

}  // namespace crashcut::kernel
