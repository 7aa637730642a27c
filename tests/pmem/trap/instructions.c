/* Each instruction is done on ordinary memory and on persistent memory, with the same registers. Memory, registers and
 * flags must be the same afterwards. Prints the instructions of which they are not. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "crashcut.h"

struct State {
  uint64_t rax, rcx, rdx, rbx, flags;
  uint8_t vectors[2][32];
};

enum { kBytes = 256 };

static int g_failures, g_count;
static char* g_region;

static struct State first_state(void) {
  struct State state = {0x1122334455667788, 4, 0x99aabbccddeeff00, 0x0123456789abcdef, 0x202, {{0}}};
  for (int i = 0; i < 32; ++i) state.vectors[0][i] = (uint8_t)(i + 1), state.vectors[1][i] = (uint8_t)(200 - i);
  return state;
}

static void compare(const char* text, const struct State* a, const struct State* b, void* ordinary) {
  int differs = memcmp(a, b, sizeof *a) != 0;
  for (int i = 0; i < kBytes / 8; ++i) differs |= ((volatile uint64_t*)g_region)[i] != ((uint64_t*)ordinary)[i];
  ++g_count;
  if (!differs) return;
  ++g_failures;
  printf("differs: %s: rax %lx %lx, rcx %lx %lx, rdx %lx %lx, flags %lx %lx\n", text, a->rax, b->rax, a->rcx, b->rcx,
         a->rdx, b->rdx, a->flags, b->flags);
}

static void fill(void* memory) {
  for (unsigned i = 0; i < kBytes / 8; ++i) ((volatile uint64_t*)memory)[i] = (i + 1) * 0x0123456789abcdef;
}

/* rdi is the address in memory, rsi another one. */
#define RUN(text, state, at)                                                                                        \
  __asm__ volatile(                                                                                                 \
      "movq %0, %%r15\n\t pushq 32(%%r15)\n\t popfq\n\t movq (%%r15), %%rax\n\t movq 8(%%r15), %%rcx\n\t"           \
      "movq 16(%%r15), %%rdx\n\t movq 24(%%r15), %%rbx\n\t vmovdqu 40(%%r15), %%ymm0\n\t"                           \
      "vmovdqu 72(%%r15), %%ymm1\n\t movq %1, %%rdi\n\t leaq 64(%%rdi), %%rsi\n\t" text                             \
      "\n\t pushfq\n\t popq 32(%%r15)\n\t cld\n\t movq %%rax, (%%r15)\n\t movq %%rcx, 8(%%r15)\n\t"                 \
      "movq %%rdx, 16(%%r15)\n\t movq %%rbx, 24(%%r15)\n\t vmovdqu %%ymm0, 40(%%r15)\n\t vmovdqu %%ymm1, 72(%%r15)" \
      :                                                                                                             \
      : "r"(state), "r"(at)                                                                                         \
      : "memory", "cc", "rax", "rcx", "rdx", "rbx", "rdi", "rsi", "r9", "r12", "r13", "r14", "r15", "xmm0", "xmm1", \
        "xmm2", "xmm3")

#define TRY_AT(text, offset)                                   \
  do {                                                         \
    static char ordinary[kBytes] __attribute__((aligned(64))); \
    struct State a = first_state(), b = a;                     \
    char* at = ordinary + (offset);                            \
    fill(ordinary);                                            \
    fill(g_region);                                            \
    RUN(text, &a, at);                                         \
    at = g_region + (offset);                                  \
    RUN(text, &b, at);                                         \
    compare(text, &a, &b, ordinary);                           \
  } while (0)
#define TRY(text)     \
  do {                \
    TRY_AT(text, 0);  \
    TRY_AT(text, 3);  \
    TRY_AT(text, 61); \
  } while (0)
#define ALIGNED(text) \
  do {                \
    TRY_AT(text, 0);  \
    TRY_AT(text, 64); \
  } while (0)

static void moves(void) {
  TRY("movb %%al, (%%rdi)");
  TRY("movb %%ah, 5(%%rdi)");
  TRY("movw %%ax, (%%rdi)");
  TRY("movl %%eax, (%%rdi)");
  TRY("movq %%rax, 8(%%rdi)");
  TRY("movq %%rdi, %%r14\n\t movq %%rax, (%%r14)");
  TRY("movb $7, (%%rdi)");
  TRY("movw $-7, 300-300(%%rdi)");
  TRY("movl $0x12345678, (%%rdi)");
  TRY("movq $-5, (%%rdi,%%rcx,8)");
  TRY("movb (%%rdi), %%al");
  TRY("movb (%%rdi), %%ch");
  TRY("movw (%%rdi), %%ax");
  TRY("movl (%%rdi), %%eax");
  TRY("movq (%%rdi), %%rax");
  TRY("movq %%rdi, %%rax\n\t movq (%%rax), %%rax");
  TRY("movq %%rdi, %%r12\n\t movq (%%r12), %%rax");
  TRY("movq %%rdi, %%r13\n\t movq (%%r13), %%rax");
  TRY("movq %%rdi, %%r12\n\t xorl %%r13d, %%r13d\n\t addq %%rax, 8(%%r13,%%r12,1)");
  TRY("movq %%rdi, %%r12\n\t xorl %%r14d, %%r14d\n\t vmovdqu (%%r14,%%r12,1), %%ymm1");
  TRY("movzbl (%%rdi), %%eax");
  TRY("movzwq (%%rdi), %%rax");
  TRY("movsbw (%%rdi), %%ax");
  TRY("movsbq 40(%%rdi), %%rax");
  TRY("movswl (%%rdi), %%eax");
  TRY("movslq (%%rdi), %%rax");
  TRY("movbeq (%%rdi), %%rax");
  TRY("cmpq %%rax, %%rax\n\t cmoveq (%%rdi), %%rcx");
  TRY("cmpq %%rax, %%rax\n\t setne (%%rdi)");
  TRY("xchgb %%al, (%%rdi)");
  ALIGNED("xchgq %%rax, (%%rdi)");
  TRY("movnti %%rax, (%%rdi)");
  TRY("pushq (%%rdi)\n\t popq %%rax");
  TRY("pushq %%rbx\n\t popq (%%rdi)");
}

static void vectors(void) {
  ALIGNED("movaps %%xmm0, (%%rdi)");
  ALIGNED("movaps (%%rdi), %%xmm1");
  TRY("movups %%xmm0, (%%rdi)");
  ALIGNED("movdqa (%%rdi), %%xmm1");
  TRY("movdqu (%%rdi), %%xmm1");
  TRY("movdqu %%xmm1, (%%rdi)");
  TRY("movq %%xmm0, (%%rdi)");
  TRY("movq (%%rdi), %%xmm1");
  TRY("movd %%xmm0, (%%rdi)");
  TRY("movd (%%rdi), %%xmm1");
  TRY("movss (%%rdi), %%xmm1");
  TRY("movsd %%xmm0, (%%rdi)");
  TRY("movhps %%xmm0, (%%rdi)");
  TRY("movlps (%%rdi), %%xmm1");
  TRY("vmovdqu %%xmm0, (%%rdi)");
  TRY("vmovdqu (%%rdi), %%xmm1");
  TRY("vmovdqu %%ymm0, (%%rdi)");
  TRY("vmovdqu (%%rdi), %%ymm1");
  TRY("vpaddd (%%rdi), %%ymm1, %%ymm0");
  TRY("vpcmpeqb (%%rdi), %%ymm1, %%ymm0");
  TRY("vbroadcastss (%%rdi), %%ymm1");
  ALIGNED("paddb (%%rdi), %%xmm0");
  TRY("addsd (%%rdi), %%xmm0");
  TRY("ucomisd (%%rdi), %%xmm0");
  ALIGNED("movntps %%xmm0, (%%rdi)");
  ALIGNED("movntdq %%xmm1, (%%rdi)");
  ALIGNED("vmovntdq %%ymm1, (%%rdi)");
  TRY("pextrq $1, %%xmm0, (%%rdi)");
  TRY("pinsrb $3, (%%rdi), %%xmm0");
  TRY("fldl (%%rdi)\n\t fstpt 16(%%rdi)");
  TRY("fildl (%%rdi)\n\t fistpll (%%rdi)");
  /* Every second lane. Indices are 4, 8, 12 and so on. */
#define LANES "vpslld $29, %%ymm0, %%ymm2\n\t vpsrld $24, %%ymm0, %%ymm3\n\t"
#define WIDE_LANES "vpsllq $61, %%ymm0, %%ymm2\n\t vpsrlq $58, %%ymm0, %%ymm3\n\t"
#define MASK_TOO "\n\t vpaddd %%ymm2, %%ymm0, %%ymm0"
  if (__builtin_cpu_supports("avx2")) {
    TRY(LANES "vpmaskmovd %%ymm1, %%ymm2, (%%rdi)");
    TRY(LANES "vmaskmovps %%xmm1, %%xmm2, 8(%%rdi)");
    TRY(WIDE_LANES "vpmaskmovq %%ymm1, %%ymm2, (%%rdi)");
    TRY(LANES "vpmaskmovd (%%rdi), %%ymm2, %%ymm1");
    TRY(LANES "vmaskmovps (%%rdi), %%xmm2, %%xmm1");
    TRY(WIDE_LANES "vmaskmovpd 8(%%rdi), %%ymm2, %%ymm1");
    TRY(LANES "vpgatherdd %%ymm2, (%%rdi,%%ymm3,4), %%ymm1" MASK_TOO);
    TRY(LANES "vgatherdps %%xmm2, 3(%%rdi,%%xmm3,2), %%xmm1" MASK_TOO);
    TRY(WIDE_LANES "vpgatherqq %%ymm2, (%%rdi,%%ymm3,8), %%ymm1" MASK_TOO);
    TRY(WIDE_LANES "vpgatherqd %%xmm2, (%%rdi,%%ymm3,8), %%xmm1" MASK_TOO);
    TRY(LANES "vpsllq $61, %%ymm0, %%ymm2\n\t vpgatherdq %%ymm2, (%%rdi,%%xmm3,4), %%ymm1" MASK_TOO);
  }
  if (__builtin_cpu_supports("avx512vl")) {
    TRY("kmovw %%ecx, %%k1\n\t vmovdqu32 %%ymm1, (%%rdi)%{%%k1%}");
    TRY("kmovw %%eax, %%k1\n\t vmovdqu8 %%xmm1, (%%rdi)%{%%k1%}");
    TRY("kmovw %%eax, %%k1\n\t vpcompressd %%ymm1, 4(%%rdi)%{%%k1%}");
    TRY("kmovw %%eax, %%k1\n\t vmovdqu64 (%%rdi), %%ymm1%{%%k1%}");
    TRY("vmovdqu64 (%%rdi), %%zmm1\n\t vmovdqu64 %%zmm1, 64(%%rdi)");
    TRY("movq %%rdi, %%r12\n\t xorl %%r14d, %%r14d\n\t vmovdqu8 64(%%r14,%%r12,1), %%ymm16\n\t vmovdqa64 %%ymm16, "
        "%%ymm0");
    TRY("vmovdqu64 %%ymm0, 32(%%rdi)");
    TRY("kmovw %%ecx, %%k1\n\t vmovdqu32 (%%rdi), %%ymm1%{%%k1%}%{z%}");
    TRY("kmovw %%eax, %%k1\n\t vmovups (%%rdi), %%zmm1%{%%k1%}\n\t vextractf32x8 $1, %%zmm1, %%ymm0");
    TRY("kmovw %%eax, %%k1\n\t vmovdqu8 %%zmm0, (%%rdi)%{%%k1%}");
    /* Indices as above, of 32 and of 64 bits; the mask is all zero afterwards. */
#define SOME_LANES(name) LANES "kmovw %%eax, %%k1\n\t" name "\n\t kmovw %%k1, %%eax"
#define SOME_WIDE_LANES(name) WIDE_LANES "kmovw %%eax, %%k1\n\t" name "\n\t kmovw %%k1, %%eax"
    TRY(SOME_LANES("vpgatherdd (%%rdi,%%ymm3,4), %%ymm1%{%%k1%}"));
    TRY(SOME_LANES("vgatherdpd 8(%%rdi,%%xmm3,4), %%ymm1%{%%k1%}"));
    TRY(SOME_WIDE_LANES("vpgatherqq (%%rdi,%%ymm3,8), %%ymm1%{%%k1%}"));
    TRY(SOME_WIDE_LANES("vgatherqps (%%rdi,%%ymm3,8), %%xmm1%{%%k1%}"));
    TRY(SOME_LANES("vpscatterdd %%ymm1, (%%rdi,%%ymm3,4)%{%%k1%}"));
    TRY(SOME_LANES("vpscatterdq %%ymm1, 3(%%rdi,%%xmm3,2)%{%%k1%}"));
    TRY(SOME_WIDE_LANES("vscatterqpd %%ymm1, (%%rdi,%%ymm3,8)%{%%k1%}"));
    TRY(SOME_WIDE_LANES("vpscatterqd %%xmm1, (%%rdi,%%ymm3,8)%{%%k1%}"));
    /* All lanes in one place: the last stays. Registers 16 and up, and upper halves. */
    TRY("kxnorw %%k1, %%k1, %%k1\n\t vpxor %%xmm3, %%xmm3, %%xmm3\n\t vpscatterdd %%zmm0, (%%rdi,%%zmm3,4)%{%%k1%}");
    TRY("kxnorw %%k1, %%k1, %%k1\n\t vinserti64x4 $1, %%ymm1, %%zmm0, %%zmm17\n\t vpmovzxbd %%xmm0, %%zmm18\n\t"
        "vpscatterdd %%zmm17, (%%rdi,%%zmm18,4)%{%%k1%}\n\t kxnorw %%k1, %%k1, %%k1\n\t"
        "vpgatherdd 4(%%rdi,%%zmm18,4), %%zmm19%{%%k1%}\n\t vextracti64x4 $1, %%zmm19, %%ymm0\n\t"
        "vmovdqa64 %%ymm19, %%ymm1");
  }
  TRY("maskmovdqu %%xmm1, %%xmm0");
}

/* fxsave and xsave, and back. What they do not store stays; which parts are in use depends on more than the registers.
 */
enum { kStateBytes = 1024, kHeader = 512 };

static void run_states(volatile char* at, struct State* state) {
  for (int i = 0; i < kStateBytes; ++i) at[i] = 0x5a;
  RUN("fxsave64 (%%rdi)\n\t vpxor %%xmm0, %%xmm0, %%xmm0\n\t fxrstor64 (%%rdi)", &state[0], at);
  for (int i = kHeader; i < kHeader + 64; ++i) at[i] = 0;
  RUN("vzeroall\n\t movl $7, %%eax\n\t xorl %%edx, %%edx\n\t xsave64 (%%rdi)", &state[1], at);
  at[kHeader] = 7;
  for (int i = 0; i < 16; ++i) at[160 + i] = (char)i, at[576 + i] = (char)-i;
  RUN("movl $7, %%eax\n\t xorl %%edx, %%edx\n\t xrstor64 (%%rdi)", &state[2], at);
}

static void states(void) {
  static char ordinary[kStateBytes] __attribute__((aligned(64)));
  volatile char* region = crashcut_pmem("states", kStateBytes);
  struct State a[3] = {first_state(), first_state(), first_state()},
               b[3] = {first_state(), first_state(), first_state()};
  run_states(ordinary, a);
  run_states(region, b);
  const char expected[] = {0, 1, 2, 3};
  int differs = memcmp(a, b, sizeof a) != 0 || memcmp(b[2].vectors[0], expected, sizeof expected) != 0;
  for (int i = 24; i < kStateBytes; ++i) differs |= ordinary[i] != region[i];
  g_count += 4;
  g_failures += differs;
  if (differs) printf("differs: fxsave, xsave\n");
}

#define BINARY(name)                  \
  TRY(name "b %%al, (%%rdi)");        \
  TRY(name "w %%ax, (%%rdi)");        \
  TRY(name "l %%eax, (%%rdi)");       \
  TRY(name "q %%rax, (%%rdi)");       \
  TRY(name "b $0x7f, (%%rdi)");       \
  TRY(name "l $0x12345678, (%%rdi)"); \
  TRY(name "q $-3, (%%rdi,%%rcx,2)")
#define FROM_MEMORY(name)       \
  TRY(name "b (%%rdi), %%dl");  \
  TRY(name "l (%%rdi), %%edx"); \
  TRY(name "q 8(%%rdi), %%rdx")
#define UNARY(name)      \
  TRY(name "b (%%rdi)"); \
  TRY(name "w (%%rdi)"); \
  TRY(name "l (%%rdi)"); \
  TRY(name "q (%%rdi)")

static void arithmetic(void) {
  BINARY("add");
  BINARY("sub");
  BINARY("and");
  BINARY("or");
  BINARY("xor");
  BINARY("cmp");
  BINARY("test");
  FROM_MEMORY("add");
  FROM_MEMORY("sub");
  FROM_MEMORY("and");
  FROM_MEMORY("or");
  FROM_MEMORY("xor");
  FROM_MEMORY("cmp");
  UNARY("inc");
  UNARY("dec");
  UNARY("neg");
  UNARY("not");
  TRY("stc\n\t adcq %%rax, (%%rdi)");
  TRY("stc\n\t sbbl (%%rdi), %%edx");
  TRY("imulq (%%rdi), %%rdx");
  TRY("imull $77, (%%rdi), %%edx");
  TRY("imulq (%%rdi)");
  TRY("mulq (%%rdi)");
  TRY("xorl %%edx, %%edx\n\t divq (%%rdi)");
  TRY("shlq $3, (%%rdi)");
  TRY("sarl %%cl, (%%rdi)");
  TRY("rolb (%%rdi)");
  TRY("btsq $5, (%%rdi)");
  TRY("movl $70, %%ecx\n\t btsq %%rcx, (%%rdi)");
  TRY("movl $70, %%ecx\n\t btrl %%ecx, (%%rdi)");
  TRY("movl $70, %%ecx\n\t movq %%rdi, %%r12\n\t movl $70, %%r9d\n\t btcw %%r9w, (%%r12)");
  TRY("movl $70, %%ecx\n\t btq %%rcx, (%%rdi)");
  TRY_AT("movq $-70, %%rcx\n\t btcq %%rcx, (%%rdi)", 128);
  TRY("popcntq (%%rdi), %%rax");
}

static void locked(void) {
  ALIGNED("lock addq %%rax, (%%rdi)");
  ALIGNED("lock orb $1, (%%rdi)");
  ALIGNED("lock incl (%%rdi)");
  ALIGNED("lock xaddq %%rax, (%%rdi)");
  ALIGNED("xaddl %%eax, (%%rdi)");
  ALIGNED("lock cmpxchgq %%rbx, (%%rdi)");
  ALIGNED("movq (%%rdi), %%rax\n\t lock cmpxchgq %%rbx, (%%rdi)");
  ALIGNED("movl (%%rdi), %%eax\n\t cmpxchgl %%ebx, (%%rdi)");
  ALIGNED("lock cmpxchg8b (%%rdi)");
  ALIGNED("lock cmpxchg16b (%%rdi)");
  ALIGNED("movq (%%rdi), %%rax\n\t movq 8(%%rdi), %%rdx\n\t lock cmpxchg16b (%%rdi)");
  ALIGNED("lock negq (%%rdi)");
  ALIGNED("lock btsl $9, (%%rdi)");
  ALIGNED("movl $70, %%ecx\n\t lock btsq %%rcx, (%%rdi)");
}

#define OFFSETS "\n\t subq %%rsi, %%rdi\n\t movq %%rdi, %%rdx"

static void strings(void) {
  TRY("movsb");
  TRY("movsq");
  TRY("rep movsb" OFFSETS);
  TRY("rep movsl" OFFSETS);
  TRY("leaq 2(%%rdi), %%rsi\n\t xchgq %%rsi, %%rdi\n\t movl $9, %%ecx\n\t rep movsb" OFFSETS);
  TRY_AT("std\n\t rep movsw" OFFSETS, 128);
  TRY("stosb");
  TRY("rep stosb");
  TRY("rep stosw");
  TRY("rep stosl");
  TRY("rep stosq");
  TRY_AT("std\n\t rep stosw", 131);
  TRY("xchgq %%rdi, %%rsi\n\t lodsb");
  TRY("xchgq %%rdi, %%rsi\n\t lodsl");
  TRY("xchgq %%rdi, %%rsi\n\t rep lodsq");
  TRY("cmpsb" OFFSETS);
  TRY("repe cmpsb" OFFSETS);
  TRY("movq %%rdi, %%rsi\n\t repe cmpsl" OFFSETS);
  TRY("repne cmpsw" OFFSETS);
  TRY("scasb");
  TRY("movb 2(%%rdi), %%al\n\t repne scasb" OFFSETS);
  TRY("repe scasl" OFFSETS);
  TRY("xorl %%ecx, %%ecx\n\t rep movsb" OFFSETS);
}

static long twice(long x) { return 2 * x; }

static void calls(void) {
  long (*volatile * function)(long) = (void*)g_region;
  long result = 21;
  *function = twice;
  __asm__ volatile(
      "movq %0, %%rdi\n\t subq $128, %%rsp\n\t movq %%rsp, %%rbx\n\t andq $-16, %%rsp\n\t call *(%1)\n\t"
      "movq %%rbx, %%rsp\n\t addq $128, %%rsp\n\t movq %%rax, %0"
      : "+r"(result)
      : "r"(function)
      : "memory", "cc", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
  g_failures += result != 42;
}

/* What libc does on persistent memory. */
static void library(void) {
  static char ordinary[kBytes] __attribute__((aligned(64)));
  static const char text[] = "the quick brown fox jumps over the lazy dog, and once more over the same lazy dog";
  fill(ordinary);
  fill(g_region);
  struct State none = {0};
  for (int i = 0; i < 40; i += 13) {
    memcpy(ordinary + i, text, sizeof text);
    memcpy(g_region + i, text, sizeof text);
    memmove(ordinary + i + 5, ordinary + i, (size_t)i + 20);
    memmove(g_region + i + 5, g_region + i, (size_t)i + 20);
    memset(ordinary + 200, i, 33);
    memset(g_region + 200, i, 33);
    compare("copies of libc", &none, &none, ordinary);
  }
  char a[64], b[64];
  snprintf(a, sizeof a, "%.60s", ordinary + 30);
  snprintf(b, sizeof b, "%.60s", g_region + 30);
  g_failures += strcmp(a, b) != 0 || strlen(ordinary) != strlen(g_region) || strcmp(ordinary, g_region) != 0 ||
                memcmp(ordinary, g_region, kBytes) != 0 ||
                strchr(g_region, ',') - g_region != strchr(ordinary, ',') - ordinary;
}

int main(void) {
  g_region = crashcut_pmem("memory", kBytes);
  moves();
  vectors();
  if (__builtin_cpu_supports("avx2")) states();
  arithmetic();
  locked();
  strings();
  calls();
  library();
  printf("%d instructions, %d failures\n", g_count, g_failures);
  return g_failures == 0 ? 0 : 1;
}

void crashcut_recover(void) {}
