// Workloads for crashcut conform: short sequences of file operations, each followed by a persistence call, as ACE
// generates them. workloads/conform/calls.c runs them.
//
// seq-1: one operation over the files foo, bar, A/foo, A/bar and the directories A, B, with fsync of each related file
//   or directory (used, sibling, parent), fdatasync of each used file, or sync.
// seq-2: two operations, with any of these or nothing between them. There are hundreds of thousands; a sample is taken
//   by the seed.
// What an operation needs is made before the starting state: files of 8 KiB and directories.
// Differs from ACE: files have 8 KiB and not 32, so that the model's states stay few; mmapwrite is left out, as
// crashcut
//   run has no shared mappings (may miss bugs of the model).
// Source: CrashMonkey and ACE, Mohan et al., OSDI 2018, section 5; github.com/utsaslab/crashmonkey, ace/ace.py
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crashcut::kernel {

// The words for calls.c, "barrier" among them.
using Workload = std::vector<std::string>;

std::vector<Workload> seq1_workloads();
// `count` different ones.
std::vector<Workload> seq2_workloads(std::size_t count, std::uint64_t seed);

}  // namespace crashcut::kernel
