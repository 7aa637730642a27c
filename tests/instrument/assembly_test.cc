// Inline assembly: each spelling of an instruction is the same call; what is harmless stays; what is not known is
// refused.
#include "tests/instrument/fixture.h"

namespace crashcut {
namespace {

const std::vector<Row> kSpellings = {
    // Flushes: operands that look like inputs, outputs and both, addresses in registers, prefixes as bytes.
    {"clflush_m", "__asm__ volatile(\"clflush %0\" : : \"m\"(*p));", "clflush +0"},
    {"clflush_plus_m", "__asm__ volatile(\"clflush %0\" : \"+m\"(*p));", "clflush +0"},
    {"clflush_out_m", "__asm__ volatile(\"clflush %0\" : \"=m\"(*p));", "clflush +0"},
    {"clflush_r", "__asm__ volatile(\"clflush (%0)\" : : \"r\"(p) : \"memory\");", "clflush +0"},
    {"clflush_offset", "__asm__ volatile(\"clflush 64(%0)\" : : \"r\"(p) : \"memory\");", "clflush +64"},
    {"clflush_index", "__asm__ volatile(\"clflush 1(%0,%1,8)\" : : \"r\"(p), \"r\"(n) : \"memory\");", "clflush +57"},
    {"clflush_fixed", "__asm__ volatile(\"clflush (%%rdi)\" : : \"D\"(p) : \"memory\");", "clflush +0"},
    {"clflush_named", "__asm__ volatile(\"clflush %[line]\" : [line] \"+m\"(*(volatile char*)p));", "clflush +0"},
    {"clflush_long", "__asm__ volatile(\"clflush %0\" : \"+m\"(*(long*)p));", "clflush +0"},
    {"clflush_address", "__asm__ volatile(\"clflush %a0\" : : \"p\"(p) : \"memory\");", "clflush +0"},
    {"clflushopt", "__asm__ volatile(\"clflushopt %0\" : \"+m\"(*(volatile char*)p));", "clflushopt +0"},
    {"clflushopt_byte", "__asm__ volatile(\".byte 0x66; clflush %0\" : \"+m\"(*(volatile char*)p));", "clflushopt +0"},
    {"clflushopt_lines", "__asm__ volatile(\".byte 0x66\\n\\tclflush %0 # weak\\n\" : \"+m\"(*(volatile char*)p));",
     "clflushopt +0"},
    {"clflushopt_data16", "__asm__ volatile(\"data16 clflush (%0)\" : : \"r\"(p) : \"memory\");", "clflushopt +0"},
    {"clflushopt_bytes", "__asm__ volatile(\".byte 0x66, 0x0f, 0xae, 0x38\" : : \"a\"(p) : \"memory\");",
     "clflushopt +0"},
    {"clwb", "__asm__ volatile(\"clwb %0\" : \"+m\"(*(volatile char*)p));", "clwb +0"},
    {"clwb_byte", "__asm__ volatile(\".byte 0x66; xsaveopt %0\" : \"+m\"(*(volatile char*)p));", "clwb +0"},
    {"clwb_intel", "__asm__ volatile(\".intel_syntax noprefix; clwb [%0]; .att_syntax\" : : \"r\"(p) : \"memory\");",
     "clwb +0"},
    {"clwb_bytes", "__asm__ volatile(\".byte 0x66, 0x0f, 0xae, 0x30\" : : \"a\"(p) : \"memory\");", "clwb +0"},
    {"sfence", "__asm__ volatile(\"sfence\" : : : \"memory\");", "sfence"},
    {"sfence_bytes", "__asm__ volatile(\".byte 0x0f, 0xae, 0xf8\" : : : \"memory\");", "sfence"},
    {"mfence", "__asm__ volatile(\"mfence\\n\\t\" : : : \"memory\");", "mfence"},
    {"mfence_of_stack", "__asm__ volatile(\"lock; addl $0,0(%%rsp)\" : : : \"memory\", \"cc\");", "mfence"},
    {"flush_and_fence", "__asm__ volatile(\"clwb %0\\n sfence\" : \"+m\"(*p) : : \"memory\");", "clwb +0\nsfence"},
    {"fence_and_clock",
     "unsigned a, d; __asm__ volatile(\"mfence; rdtsc\" : \"=a\"(a), \"=d\"(d) : : \"memory\"); result = a + d;",
     "mfence"},
    // Non-temporal and direct stores.
    {"movnti_m", "__asm__ volatile(\"movnti %1, %0\" : \"=m\"(*(long*)p) : \"r\"(n));", "store_nt +0 8 bytes: 7"},
    {"movnti_l", "__asm__ volatile(\"movntil %1, (%0)\" : : \"r\"(p), \"r\"((int)n) : \"memory\");",
     "store_nt +0 4 bytes: 7"},
    {"movnti_k", "__asm__ volatile(\"movnti %k1, (%0)\" : : \"r\"(p), \"r\"(n) : \"memory\");",
     "store_nt +0 4 bytes: 7"},
    {"movntdq",
     "__m128i x = _mm_set_epi64x(0, n); __asm__ volatile(\"movntdq %1, %0\" : \"=m\"(*(__m128i*)p) : \"x\"(x));",
     "store_nt +0 16 bytes: 07000000000000000000000000000000"},
    {"movntdq_copy",
     "__asm__ volatile(\"movdqa (%1), %%xmm0\\n movntdq %%xmm0, (%0)\" : : \"r\"(p), \"r\"(p + 64) : \"memory\", "
     "\"xmm0\");",
     "load +64 16 bytes\nstore_nt +0 16 bytes: 00000000000000000000000000000000"},
    {"movdiri", "__asm__ volatile(\"movdiri %1, %0\" : \"=m\"(*(long*)p) : \"r\"(n));", "store_nt +0 8 bytes: 7"},
    // Plain moves.
    {"mov_store", "__asm__ volatile(\"movq %1, %0\" : \"=m\"(*(long*)p) : \"r\"(n));", "store8 +0 7"},
    {"mov_immediate", "__asm__ volatile(\"movl $3, (%0)\" : : \"r\"(p) : \"memory\");", "store4 +0 3"},
    {"mov_constant", "__asm__ volatile(\"movb %1, %0\" : \"=m\"(*p) : \"i\"(9));", "store1 +0 9"},
    {"mov_load", "long x; __asm__ volatile(\"mov %1, %0\" : \"=r\"(x) : \"m\"(*(long*)p)); result = x;", "load8 +0"},
    {"movzbl", "int x; __asm__ volatile(\"movzbl (%1), %0\" : \"=r\"(x) : \"r\"(p)); result = x;", "load1 +0"},
    {"unlocked_add", "__asm__ volatile(\"addl $2, %0\" : \"+m\"(*(int*)p));", "load4 +0\nstore4 +0 2"},
    {"unlocked_inc", "__asm__ volatile(\"incq %0\" : \"+m\"(*(long*)p));", "load8 +0\nstore8 +0 1"},
    // Locked instructions.
    {"xchg", "long x = n; __asm__ volatile(\"xchg %0, %1\" : \"+r\"(x), \"+m\"(*(long*)p)); *(long*)p += x + 1;",
     "rmw8 xchg +0 7 seq_cst\nload8 +0\nstore8 +0 8"},
    {"xchgb",
     "char x = 1; __asm__ volatile(\"xchgb %b0, %1\" : \"=q\"(x), \"=m\"(*p) : \"0\"(x) : \"memory\"); result = x;",
     "rmw1 xchg +0 1 seq_cst"},
    {"xchgl", "int x = n; __asm__ volatile(\"lock; xchgl %1, %0\" : \"+m\"(*(int*)p), \"+r\"(x)); result = x;",
     "rmw4 xchg +0 7 seq_cst"},
    {"lock_add", "__asm__ volatile(\"lock; addl %1, %0\" : \"+m\"(*(int*)p) : \"ir\"((int)n));",
     "rmw4 add +0 7 seq_cst"},
    {"lock_sub", "__asm__ volatile(\"lock subq $1, %0\" : \"+m\"(*(long*)p));", "rmw8 sub +0 1 seq_cst"},
    {"lock_inc", "__asm__ volatile(\"lock\\n incl %0\" : \"+m\"(*(int*)p));", "rmw4 add +0 1 seq_cst"},
    {"lock_byte", "__asm__ volatile(\".byte 0xf0; incl %0\" : \"+m\"(*(int*)p));", "rmw4 add +0 1 seq_cst"},
    {"lock_or", "__asm__ volatile(\"lock; orb %1, %0\" : \"+m\"(*p) : \"q\"((char)n));", "rmw1 or +0 7 seq_cst"},
    {"lock_xadd",
     "long x = n; __asm__ volatile(\"lock; xaddq %0, %1\" : \"+r\"(x), \"+m\"(*(long*)p)); *(long*)(p + 8) = x;",
     "rmw8 add +0 7 seq_cst\nstore8 +8 0"},
    {"dec_and_test",
     "unsigned char z; *(int*)p = 1; __asm__ volatile(\"lock; decl %0; sete %1\" : \"+m\"(*(int*)p), \"=qm\"(z)); p[9] "
     "= z;",
     "store4 +0 1\nrmw4 sub +0 1 seq_cst\nstore1 +9 1"},
    {"cmpxchg",
     "long x; __asm__ volatile(\"lock; cmpxchgq %2, %1\" : \"=a\"(x), \"+m\"(*(long*)p) : \"r\"(n), \"0\"(0L)); "
     "*(long*)(p + "
     "8) = x;",
     "cmpxchg8 +0 0 7 seq_cst seq_cst -> 1\nstore8 +8 0"},
    {"cmpxchg_set",
     "char ok; __asm__ volatile(\"lock; cmpxchgl %3, %1; setz %0\" : \"=q\"(ok), \"+m\"(*(int*)p) : \"a\"(5), "
     "\"r\"((int)n)); p[8] = ok;",
     "cmpxchg4 +0 5 7 seq_cst seq_cst -> 0\nstore1 +8 0"},
    {"cmpxchg_flag",
     "int ok; long e = 0; __asm__ volatile(\"lock cmpxchgq %3, %0\" : \"+m\"(*(long*)p), \"=@ccz\"(ok), \"+a\"(e) : "
     "\"r\"(n)); p[8] = ok;",
     "cmpxchg8 +0 0 7 seq_cst seq_cst -> 1\nstore1 +8 1"},
    {"cmpxchg16b",
     "char ok; long a = 0, d = 0; __asm__ volatile(\"lock; cmpxchg16b %1; sete %0\" : \"=q\"(ok), "
     "\"+m\"(*(__int128*)p), "
     "\"+a\"(a), \"+d\"(d) : \"b\"(n), \"c\"(n)); p[32] = ok;",
     "cmpxchg16 +0 00000000000000000000000000000000 07000000000000000700000000000000 seq_cst seq_cst -> 1\nstore1 +32 "
     "1"},
    {"lock_bts",
     "char c; __asm__ volatile(\"lock; btsl %2, %1; setc %0\" : \"=q\"(c), \"+m\"(*(int*)p) : \"Ir\"(3)); p[8] = c;",
     "rmw4 or +0 8 seq_cst\nstore1 +8 0"},
    // Strings.
    {"rep_movsb",
     "char *d = p, *s = p + 64; long c = n; __asm__ volatile(\"rep movsb\" : \"+D\"(d), \"+S\"(s), \"+c\"(c) : : "
     "\"memory\"); p[200] = d - p + c;",
     "memmove +0 +64 7\nstore1 +200 7"},
    {"rep_movsq",
     "char *d = p, *s = p + 64; long c = 2; __asm__ volatile(\"cld; rep; movsq\" : \"+D\"(d), \"+S\"(s), \"+c\"(c) : : "
     "\"memory\");",
     "memmove +0 +64 16"},
    {"rep_stosb",
     "char* d = p; long c = n; __asm__ volatile(\"rep stosb\" : \"+D\"(d), \"+c\"(c) : \"a\"(1) : \"memory\");",
     "memset +0 1 7"},
    // Harmless.
    {"barrier", "__asm__ volatile(\"\" : : : \"memory\");", ""},
    {"pause", "__asm__ volatile(\"pause\"); __asm__ volatile(\"rep; nop\"); __asm__ volatile(\".byte 0xf3, 0x90\");",
     ""},
    {"nop", "__asm__ volatile(\"nop\"); __asm__ volatile(\"nopl (%0)\" : : \"r\"(p));", ""},
    {"lfence", "__asm__ volatile(\"lfence\" : : : \"memory\");", ""},
    {"rdtsc", "unsigned a, d; __asm__ volatile(\"rdtsc\" : \"=a\"(a), \"=d\"(d)); result = a + d;", ""},
    {"cpuid",
     "unsigned a = 0, b, c = 0, d; __asm__ volatile(\"cpuid\" : \"+a\"(a), \"=b\"(b), \"+c\"(c), \"=d\"(d)); result = "
     "a;",
     ""},
    {"prefetch",
     "__asm__ volatile(\"prefetcht0 %0\" : : \"m\"(*p)); __asm__ volatile(\"prefetchw (%0)\" : : \"r\"(p));", ""},
    {"registers", "long x = n; __asm__(\"bswap %0; addq $1, %0\" : \"+r\"(x)); result = x;", ""},
    {"own_stack", "unsigned short x = 0; __asm__ volatile(\"fnstcw %0\" : \"=m\"(x)); result = x;", ""},
    {"loop", "long x = n; __asm__ volatile(\"1: decq %0; jnz 1b\" : \"+r\"(x)); result = x;", ""},
};

TEST_F(InstrumentTest, SpellingsOfAssembly) {
  for (const std::string& way : kFewWays) expect_rows(kSpellings, way + " -mmovdiri");
}

TEST_F(InstrumentTest, IntelSyntax) {
  const std::vector<Row> rows = {
      {"clflush", "__asm__ volatile(\"clflush %0\" : \"+m\"(*p));", "clflush +0"},
      {"clwb", "__asm__ volatile(\"clwb byte ptr [%0 + 64]\" : : \"r\"(p) : \"memory\");", "clwb +64"},
      {"byte_prefix", "__asm__ volatile(\".byte 0x66; clflush %0\" : \"+m\"(*p));", "clflushopt +0"},
      {"mov", "__asm__ volatile(\"mov qword ptr [%0], %1\" : : \"r\"(p), \"r\"(n) : \"memory\");", "store8 +0 7"},
      {"mov_immediate", "__asm__ volatile(\"mov dword ptr [%0 + 4], 3\" : : \"r\"(p) : \"memory\");", "store4 +4 3"},
      {"movnti", "__asm__ volatile(\"movnti %0, %1\" : \"=m\"(*(long*)p) : \"r\"(n));", "store_nt +0 8 bytes: 7"},
      {"xchg", "long x = n; __asm__ volatile(\"xchg %0, %1\" : \"+r\"(x), \"+m\"(*(long*)p)); result = x;",
       "rmw8 xchg +0 7 seq_cst"},
      {"lock_add", "__asm__ volatile(\"lock add dword ptr %0, 2\" : \"+m\"(*(int*)p));", "rmw4 add +0 2 seq_cst"},
      {"sfence", "__asm__ volatile(\"sfence\" : : : \"memory\");", "sfence"},
  };
  for (const std::string& way : kFewWays) expect_rows(rows, way + " -masm=intel");
}

struct Refused {
  const char* statement;
  const char* named;  // in the message
};

TEST_F(InstrumentTest, RefusesWhatItDoesNotKnow) {
  const Refused all[] = {
      {"__asm__ volatile(\"fstpt %0\" : \"=m\"(*(long double*)p));", "\"fstpt %0\""},
      {"__asm__ volatile(\"foo (%0)\" : : \"r\"(p));", "\"foo (%0)\""},
      {"__asm__ volatile(\"syscall\" : : \"a\"(39) : \"rcx\", \"r11\", \"memory\");", "\"syscall\""},
      {"__asm__ volatile(\"call *%0\" : : \"r\"(p));", "\"call *%0\""},
      {"__asm__ volatile(\"movl $1, region\");", "\"movl $1, region\""},
      {"__asm__ volatile(\"movl %%fs:0, %%eax\" : : : \"eax\");", "\"movl %%fs:0, %%eax\""},
      {"__asm__ volatile(\"xsaveopt %0\" : \"+m\"(*p));", "\"xsaveopt %0\""},
      {"__asm__ volatile(\".byte 0x66, 0x0f, 0xae, 0xf8\");", "0xf8"},  // pcommit
      {"__asm__ volatile(\"1: lock; decl %0; jns 1b\" : \"+m\"(*(int*)p));", "in \"1: lock; decl %0; jns 1b\""},
      {"__asm__ volatile(\"std; rep movsb\" : \"+D\"(p), \"+S\"(p), \"+c\"(n));", "\"std\""},
      {"__asm__ volatile(\"cmpxchgl %1, %0\" : \"+m\"(*(int*)p) : \"r\"(1), \"a\"(0));", "\"cmpxchgl %1, %0\""},
      {"__asm__ volatile(\"lock\");", "\"lock"},
      {"__asm__ volatile(\"xbegin 1f; 1:\");", "\"xbegin 1f\""},
  };
  for (const Refused& one : all) {
    write("bad.c",
          std::string("char region[64];\nvoid f(char* p, long n) {\n  (void)n;\n  ") + one.statement + "\n}\n");
    const bool is_first = &one == all;
    for (const char* way : is_first ? std::vector{"-O0 ", "-O2 ", "--late -O2 "} : std::vector{"-O1 "}) {
      const Output built = shell(cc() + way + "-c bad.c -o bad.o");
      EXPECT_NE(built.exit_code, 0) << one.statement << way;
      EXPECT_NE(built.err.find("bad.c:4:"), std::string::npos) << one.statement << way << built.err;
      EXPECT_NE(built.err.find("crashcut does not know the assembly"), std::string::npos) << built.err;
      EXPECT_NE(built.err.find(one.named), std::string::npos) << one.statement << way << built.err;
      EXPECT_NE(built.err.find("--allow-asm="), std::string::npos) << built.err;
      EXPECT_FALSE(fs::exists(directory_ / "bad.o"));
    }
  }
}

TEST_F(InstrumentTest, AllowsWhatTheUserNames) {
  write("odd.c", "void f(long double* p) { __asm__ volatile(\"fstpt %0\" : \"=m\"(*p)); }\n");
  const Output refused = shell(cc() + "-c odd.c");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("--allow-asm=fstpt"), std::string::npos) << refused.err;
  EXPECT_EQ(shell(cc() + "--allow-asm=fstpt -c odd.c").exit_code, 0);
  EXPECT_EQ(shell(cc() + "-c odd.c --allow-asm='fstpt %0'").exit_code, 0);
  EXPECT_NE(shell(cc() + "--allow-asm=other -c odd.c").exit_code, 0);
}

TEST_F(InstrumentTest, RefusesCodeOutsideOfFunctions) {
  write("top.c", "__asm__(\".globl poke\\npoke:\\n movl $1, (%rdi)\\n ret\\n\");\nint main(void) { return 0; }\n");
  const Output refused = shell(cc() + "-c top.c");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("top.c: assembly outside of functions"), std::string::npos) << refused.err;
  write("fine.c", "__asm__(\".globl poke\\n.set poke, main\\n\");\nint main(void) { return 0; }\n");
  EXPECT_EQ(shell(cc() + "-c fine.c").exit_code, 0);
}

TEST_F(InstrumentTest, RefusesUnknownIntrinsicsAndOtherMachines) {
  write("save.c", "#include <immintrin.h>\n__attribute__((target(\"fxsr\"))) void f(void* p) { _fxsave(p); }\n");
  const Output refused = shell(cc() + "-g -c save.c");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("llvm.x86.fxsave"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--allow-asm="), std::string::npos) << refused.err;
  EXPECT_EQ(shell(cc() + "--allow-asm=llvm.x86.fxsave -c save.c").exit_code, 0);
  write("small.c", "int f(int* p) { return *p; }\n");
  const Output other = shell(cc() + "-m32 -c small.c");
  EXPECT_NE(other.exit_code, 0);
  EXPECT_NE(other.err.find("x86-64 only"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace crashcut
