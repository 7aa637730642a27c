/* Programs that crashcut pmem refuses, or dies of. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/pmem/by_hand.h"

static uint64_t* words(void) { return crashcut_pmem("words", 256); }

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
#define CASE(name) if (strcmp(how, name) == 0)
  CASE("no region") return 0;
  CASE("socket first") return socket(AF_UNIX, SOCK_STREAM, 0) < 0;
  uint64_t* w = words();
  set(w, 1);
  CASE("touches") return (int)*(volatile uint64_t*)w;
  CASE("libc touches") return strcmp((char*)w, "a") == 0;
  CASE("another size") return crashcut_pmem("words", 512) == NULL;
  CASE("no size") return crashcut_pmem("more", 0) == NULL;
  CASE("too large") return crashcut_pmem("more", (size_t)1 << 50) == NULL;
  CASE("interface") __crashcut_module(99, "early");
  CASE("main hangs") for (;;) {}
  CASE("fork") return fork() == 0 ? 1 : 0;
  CASE("socket") return socket(AF_UNIX, SOCK_STREAM, 0) < 0;
  CASE("path") {
    __crashcut_memcpy(w, "log", 4);
    return open((char*)w, O_CREAT | O_RDWR, 0644) < 0;
  }
  CASE("wild") set(w + 4096, 1);
  CASE("fails") return 7;
  return 0;
}

void crashcut_recover(void) {
  uint64_t* w = words();
  if (get(w) == 1 && getenv("RECOVERY_HANGS") != NULL) {
    for (;;) {
    }
  }
  if (get(w) == 1 && getenv("RECOVERY_WILD") != NULL) get(w + 4096);
  if (get(w) == 1 && getenv("RECOVERY_TOUCHES") != NULL) printf("%d\n", (int)*(volatile uint64_t*)w);
}
