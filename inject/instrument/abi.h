// What instrumented code calls in place of its accesses to memory.
//
// The compiler plugin (plugin.cc) replaces every load, store, atomic, flush and fence of a module by a call of these.
// Two libraries define them: libcrashcut_pmem.so (plain.cc), which is linked to the program and does what the
//   instruction would have done; and the injected library, which comes first where crashcut runs the program.
// The functions *do* the access: where stores wait in buffers, and after a crash, what an instruction would find in
//   memory is not what the program is to see. The injected library keeps persistent memory inaccessible at its address
//   and the bytes elsewhere, so that code that was not instrumented faults instead of being missed.
// Where it was: the return address. No call is a tail call. Order arguments are __ATOMIC_*.
// Not instrumented: local variables whose address does not leave their function, and constants. Their addresses are
//   passed where an argument is "to", "from", "old" or "expected".
// Names and arguments are part of compiled programs: change CRASHCUT_INSTRUMENT_ABI with them.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRASHCUT_INSTRUMENT_ABI 2

// Called by a constructor of each instrumented module, before others. `when` is "early" or "late".
void __crashcut_module(uint32_t abi, const char* when);

// One instruction each.
uint8_t __crashcut_load1(const void* at);
uint16_t __crashcut_load2(const void* at);
uint32_t __crashcut_load4(const void* at);
uint64_t __crashcut_load8(const void* at);
void __crashcut_load(const void* at, void* to, size_t bytes);  // any other width: vectors, long double
void __crashcut_store1(void* at, uint8_t value);
void __crashcut_store2(void* at, uint16_t value);
void __crashcut_store4(void* at, uint32_t value);
void __crashcut_store8(void* at, uint64_t value);
void __crashcut_store(void* at, const void* from, size_t bytes);
// A masked store: the lanes of `lane_bytes` each whose bit is set. A load leaves the others.
void __crashcut_store_lanes(void* at, const void* from, size_t lane_bytes, uint64_t lanes);
void __crashcut_load_lanes(const void* at, void* to, size_t lane_bytes, uint64_t lanes);
// Lane i goes to to[i]; at most 16 lanes.
void __crashcut_scatter(void* const* to, const void* from, size_t lane_bytes, uint64_t lanes);

// Atomics of 1, 2, 4, 8 and 16 bytes. A sequentially consistent store is a locked instruction (xchg).
void __crashcut_atomic_load(const void* at, void* to, size_t bytes, int order);
void __crashcut_atomic_store(void* at, const void* from, size_t bytes, int order);
// A locked instruction. `old` gets what was there.
enum __crashcut_rmw {
  __CRASHCUT_XCHG,
  __CRASHCUT_ADD,
  __CRASHCUT_SUB,
  __CRASHCUT_AND,
  __CRASHCUT_NAND,
  __CRASHCUT_OR,
  __CRASHCUT_XOR,
  __CRASHCUT_MAX,
  __CRASHCUT_MIN,
  __CRASHCUT_UMAX,
  __CRASHCUT_UMIN,
  __CRASHCUT_FADD4,  // float
  __CRASHCUT_FSUB4,
  __CRASHCUT_FADD8,  // double
  __CRASHCUT_FSUB8
};
void __crashcut_rmw(int operation, void* at, const void* operand, void* old, size_t bytes, int order);
// Compares with `expected`, which then gets what was there. 1 where it stored. A failed one is locked too.
int __crashcut_cmpxchg(void* at, void* expected, const void* desired, size_t bytes, int order, int failure_order);

// movnti, movntps and so on; movdiri. `is_whole`: movdir64b, which does not tear.
void __crashcut_store_nt(void* at, const void* from, size_t bytes, int is_whole);

// Both sides are memory. memcpy, memmove; memset.
void* __crashcut_memcpy(void* to, const void* from, size_t bytes);
void* __crashcut_memmove(void* to, const void* from, size_t bytes);
void* __crashcut_memset(void* to, int value, size_t bytes);

void __crashcut_clflush(const void* at);
void __crashcut_clflushopt(const void* at);
void __crashcut_clwb(const void* at);
void __crashcut_sfence(void);
void __crashcut_mfence(void);  // atomic_thread_fence(seq_cst) too

// libpmem's mappings. The other functions of libpmem are in libraries.inc.
void* __crashcut_pmem_map_file(const char* path, size_t bytes, int flags, mode_t mode, size_t* mapped_bytes,
                               int* is_pmem);
int __crashcut_pmem_unmap(void* at, size_t bytes);
int __crashcut_pmem_is_pmem(const void* at, size_t bytes);
int __crashcut_pmem_msync(const void* at, size_t bytes);

// Made of the above, by both libraries from one text: string.h and `rep movs`, `rep stos` (strings.inc); libatomic and
// libpmem (libraries.inc, which includes the former). A function NAME of those is called __crashcut_NAME, with the same
// arguments. malloc(), operator new and their kin (heap.inc) have one more.

#ifdef __cplusplus
}
#endif
