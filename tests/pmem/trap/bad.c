/* Programs that crashcut pmem --trap refuses, or dies of. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "crashcut.h"

static void* do_nothing(void* argument) { return argument; }

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
#define CASE(name) if (strcmp(how, name) == 0)
  int* words = crashcut_pmem("words", 256);
  volatile int* at = words;
  CASE("thread") {
    pthread_t thread;
    return pthread_create(&thread, NULL, do_nothing, NULL);
  }
  CASE("dlopen") return dlopen("libsqlite3.so.0", RTLD_NOW) == NULL;
  CASE("beyond") return at[64 + 1024];
  CASE("null") return *(volatile int*)(at[0] * (size_t)8);
  CASE("breakpoint") __asm__ volatile("int3");
  CASE("implicit") __asm__ volatile("xlatb" ::"b"(words), "a"(1) : "memory");
  return 0;
}

void crashcut_recover(void) {}
