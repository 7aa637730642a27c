// What source_names_test.cc looks for: code and variables whose names it knows.
#include "layout.h"

#define HERE(label) __asm__ volatile(".globl " #label "\n" #label ":\n\tnop")

__attribute__((used)) struct table table;
static volatile int forks[5];
int counter;

static inline __attribute__((always_inline)) void innermost(void) {
  HERE(here_inlined);  // line: inlined
  counter++;
}

static inline __attribute__((always_inline)) void middle(void) {
  innermost();  // line: middle
}

__attribute__((noinline)) int outermost(int n) {
  static int calls[3];
  middle();          // line: outermost
  HERE(here_plain);  // line: plain
  __asm__ volatile("" : : "r"(&calls) : "memory");
  return calls[n] + forks[n];
}

int main(void) { return outermost(0); }
