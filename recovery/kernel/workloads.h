// Workloads for crashcut conform: short sequences of file operations, each followed by a persistence call, as ACE
// generates them. workloads/conform/calls.c runs them.
//
// seq-1: one operation over the files foo, bar, A/foo, A/bar, A/C/bar and the directories A, B, A/C, with fsync of each
//   related file or directory (used, sibling, parent), or sync: 435, as ace.py makes them at its defaults (A/C is there
//   without --nested, too). Beside them each operation with fdatasync of each file that it uses.
// seq-2: two operations, with any of these or nothing between them. There are hundreds of thousands; a sample is taken
//   by the seed. Random programs are the same with three or four operations.
// What an operation needs is made before the starting state: files of 8 KiB and directories.
// Differs from ACE: files have 8 KiB and not 32, so that the model's states stay few; an mmapwrite, which ends with
//   msync(), has a persistence call behind it here. crashcut run has no shared mappings: on the model an mmapwrite is a
//   write of the same bytes that waits for these blocks alone, as its msync() does (for_model).
// Source: CrashMonkey and ACE, Mohan et al., OSDI 2018, section 5; github.com/utsaslab/crashmonkey, ace/ace.py
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crashcut::kernel {

// The words for calls.c, "barrier" among them.
using Workload = std::vector<std::string>;

std::vector<Workload> seq1_workloads();
std::vector<Workload> fdatasync_workloads();
// `count` different ones.
std::vector<Workload> seq2_workloads(std::size_t count, std::uint64_t seed);
// `count` different ones of three or four operations.
std::vector<Workload> random_workloads(std::size_t count, std::uint64_t seed);
// The name of the last operation behind the barrier.
std::string operation_of(const Workload& workload);
// The same calls, as far as crashcut run has them.
Workload for_model(Workload workload);

}  // namespace crashcut::kernel
