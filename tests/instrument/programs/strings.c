/* Every function of string.h that is instrumented, on random texts. Prints a sum of all results. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static unsigned long sum = 1;
static unsigned seed = 1;
static void add(unsigned long x) { sum = sum * 1099511628211UL + x; }
static unsigned next(unsigned below) {
  seed = seed * 1103515245 + 12345;
  return (seed >> 16) % below;
}
static int sign(int x) { return (x > 0) - (x < 0); }
static void fill(char* p, int most) {
  int n = next(most);
  for (int i = 0; i < n; ++i) p[i] = "abcABC ,"[next(8)];
  p[n] = 0;
}
static unsigned long where(const void* found, const char* in) {
  return found == NULL ? 999 : (unsigned long)((const char*)found - in);
}

int main(void) {
  char *a = malloc(256), *b = malloc(256), *c = malloc(512);
  for (int round = 0; round < 2000; ++round) {
    memset(a, next(3), 256);
    bzero(b, 256);
    memset(c, 'z', 512);
    fill(a, 40);
    fill(b, 6);
    const unsigned n = next(30);
    add(strlen(a)), add(strnlen(a, n));
    add(sign(strcmp(a, b))), add(sign(strncmp(a, b, n))), add(sign(strcasecmp(a, b))), add(sign(strncasecmp(a, b, n)));
    add(sign(memcmp(a, b, n))), add(bcmp(a, b, n) != 0), add(sign(memcmp(a, a + next(4), n)));
    add(where(strchr(a, "abc\0"[next(4)]), a)), add(where(strrchr(a, 'b'), a)), add(where(strchrnul(a, 'C'), a));
    add(where(memchr(a, 'c', n), a)), add(where(memrchr(a, 'c', n), a)), add(where(rawmemchr(a, 0), a));
    add(where(strstr(a, b), a)), add(where(memmem(a, 40, b, strlen(b)), a));
    add(strspn(a, b)), add(strcspn(a, b)), add(where(strpbrk(a, b), a));
    strcpy(c, a), strcat(c, b), strncat(c, a, n);
    add(where(stpcpy(c + 100, a), c)), add(where(stpncpy(c + 150, b, n), c));
    strncpy(c + 200, a, n);
    add(where(mempcpy(c + 250, a, n), c)), add(where(memccpy(c + 300, a, 'c', n), c));
    memmove(c + 3, c, n), memmove(c + 400, c + 403, n), memcpy(c + 450, a, n), bcopy(a, c + 350, n);
    explicit_bzero(c + 500, 3);
    char *copy = strdup(a), *part = strndup(a, n), *rest;
    add(strlen(copy)), add(strlen(part));
    for (char* t = strtok_r(copy, " ,", &rest); t; t = strtok_r(NULL, " ,", &rest)) add(strlen(t));
    free(copy), free(part);
    for (int i = 0; i < 512; ++i) add((unsigned char)c[i]);
  }
  printf("%lu\n", sum);
  return 0;
}
