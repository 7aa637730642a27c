/* The results of inline assembly. */
#include <emmintrin.h>
#include <stdio.h>

static long memory[8];
static char bytes[64], more[64];

int main(void) {
  long x = 5, y;
  unsigned char flag;
  __asm__ volatile("xchg %0, %1" : "+r"(x), "+m"(memory[0]));
  printf("xchg %ld %ld\n", x, memory[0]);
  int wide = 0x12345678;
  bytes[0] = 1;
  __asm__ volatile("xchgb %b0, %1" : "+q"(wide), "+m"(bytes[0]));
  printf("xchgb %x %d\n", wide, bytes[0]);
  x = 3;
  __asm__ volatile("lock; xaddq %0, %1" : "+r"(x), "+m"(memory[0]));
  printf("xadd %ld %ld\n", x, memory[0]);
  __asm__ volatile("lock; cmpxchgq %2, %1; sete %3" : "=a"(y), "+m"(memory[0]), "+r"(x), "=q"(flag) : "0"(1L));
  printf("cmpxchg fails %ld %ld %d\n", y, memory[0], flag);
  __asm__ volatile("lock; cmpxchgq %3, %1; sete %2" : "+a"(y), "+m"(memory[0]), "=q"(flag) : "r"(42L));
  printf("cmpxchg stores %ld %ld %d\n", y, memory[0], flag);
  __asm__ volatile("lock; subq %2, %0; sets %1" : "+m"(memory[0]), "=q"(flag) : "er"(50L));
  printf("sub %ld %d\n", memory[0], flag);
  __asm__ volatile("lock; btsq %2, %0; setc %1" : "+m"(memory[1]), "=q"(flag) : "Jr"(70L));
  printf("bts %ld %ld %d\n", memory[1], memory[2], flag);
  long carry = 0;
  __asm__ volatile("lock; btrq %2, %0; sbbq %1, %1" : "+m"(memory[1]), "=r"(carry) : "r"(70L));
  printf("btr %ld %ld\n", memory[2], carry);
  __asm__ volatile("incl %0; addl $2, %0; xorl $1, %0; notl %0" : "+m"(*(int *)&memory[3]));
  printf("arithmetic %ld\n", memory[3]);
  int small;
  bytes[3] = -2;
  __asm__ volatile("movsbl %1, %0" : "=r"(small) : "m"(bytes[3]));
  printf("movsbl %d\n", small);
  __asm__ volatile("movzbl %1, %0" : "=r"(small) : "m"(bytes[3]));
  printf("movzbl %d\n", small);
  for (int i = 0; i < 64; ++i) bytes[i] = (char)i;
  char *to = more, *from = bytes;
  long count = 20;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  printf("movsb %d %d %ld %ld %ld\n", more[19], more[20], (long)(to - more), (long)(from - bytes), count);
  to = bytes + 2, from = bytes, count = 10;
  __asm__ volatile("rep movsw" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  printf("overlapping %d %d %d\n", bytes[2], bytes[20], bytes[21]);
  to = more, count = 3;
  __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(0x01020304) : "memory");
  printf("stosl %d %d %d\n", more[0], more[11], more[12]);
  __m128i v = _mm_set_epi32(4, 3, 2, 1), w;
  __asm__ volatile("movdqu %1, %0" : "=m"(*(__m128i *)more) : "x"(v));
  __asm__ volatile("movdqu %1, %%xmm1; movntdq %%xmm1, %0" : "=m"(*(__m128i *)memory) : "m"(*(__m128i *)more) : "xmm1");
  __asm__ volatile("movups (%1), %0" : "=x"(w) : "r"(memory));
  printf("vectors %d %d %d\n", ((int *)memory)[3], _mm_cvtsi128_si32(w), more[4]);
  return 0;
}
