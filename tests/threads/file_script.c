/* Threads that do what their arguments say, for tests that make up programs. Each argument is a thread: letters, each a
 * call on the thread's current file (or on what the next letters name). Recovery shows all files and marks.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crashcut.h"

static int shared = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;

static int open_file(char name, int flags) {
  char path[2] = {name, 0};
  return open(path, flags | O_RDWR, 0644);
}

static void do_text(int fd, const char* at) { (void)!write(fd, at, 1); }

/* The last name of the listing, but for those of files that are always there. */
static const char* last_name(char* name) {
  DIR* directory = opendir(".");
  for (const struct dirent* entry; (entry = readdir(directory)) != NULL;) {
    if (strchr(".AS", entry->d_name[0]) == NULL) name[0] = entry->d_name[0];
  }
  closedir(directory);
  return name;
}

static void* run(void* script) {
  int fd = -1;
  char bytes[8], a[2] = "", b[2] = "";
  for (const char* at = script; *at; ++at) {
    switch (*at) {
      case 'c':
        fd = open_file(*++at, O_CREAT);
        break;
      case 't':
        fd = open_file(*++at, O_CREAT | O_TRUNC);
        break;
      case 'a':
        fd = open_file(*++at, O_CREAT | O_APPEND);
        break;
      case 'o':
        fd = open_file(*++at, 0);
        break;
      case 'x':
        fd = open_file(*++at, O_CREAT | O_EXCL);
        do_text(shared, fd < 0 ? "x" : "y");
        break;
      case 'q':
        close(fd);
        fd = -1;
        break;
      case 'w':
        (void)!write(fd, at + 1, 3);
        at += 3;
        break;
      case 'v':
        do_text(fd, ++at);
        break;
      case 'p':
        (void)!pwrite(fd, at + 2, 2, at[1] - '0');
        at += 3;
        break;
      case 's':
        fsync(fd);
        break;
      case 'd':
        fdatasync(fd);
        break;
      case 'S':
        sync();
        break;
      case 'k':
        (void)!ftruncate(fd, *++at - '0');
        break;
      case 'r':
        a[0] = at[1];
        b[0] = at[2];
        at += 2;
        rename(a, b);
        break;
      case 'l':
        a[0] = at[1];
        b[0] = at[2];
        at += 2;
        (void)!link(a, b);
        break;
      case 'u':
        a[0] = *++at;
        unlink(a);
        break;
      case 'e':
        if (open_file(*++at, 0) >= 0) open_file('Z', O_CREAT);
        break;
      case 'R':
        if (pread(fd, bytes, 4, 0) > 0) {
          a[0] = bytes[0];
          do_text(fd, a);
        }
        break;
      case 'E': {
        long end = lseek(fd, 0, SEEK_END);
        bytes[0] = (char)('0' + end % 10);
        do_text(shared, bytes);
        break;
      }
      case 'W':
        do_text(shared, ++at);
        break;
      case 'n':
        do_text(shared, last_name(a));
        break;
      case 'D':
        do_text(shared, mkdir("D", 0755) == 0 ? "d" : "D");
        break;
      case 'F':
        do_text(shared, rmdir("D") == 0 ? "f" : "F");
        break;
      case 'f':
        fd = open(*++at == 'd' ? "D/f" : "D/g", O_RDWR | O_CREAT, 0644);
        break;
      case 'M':
        (void)!rename(*++at == 'd' ? "D/f" : "A", "D/g");
        break;
      case 'm':
        a[0] = *++at;
        crashcut_mark(a);
        break;
      case 'L':
        pthread_mutex_lock(&lock);
        break;
      case 'U':
        pthread_mutex_unlock(&lock);
        break;
      case 'P':
        sem_post(&semaphore);
        break;
      case 'V':
        sem_trywait(&semaphore);
        break;
      default:
        abort();
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[8];
  shared = open_file('S', O_CREAT);
  int old = open_file('A', O_CREAT);
  (void)!write(old, "00", 2);
  sem_init(&semaphore, 0, 0);
  crashcut_barrier();
  for (int i = 1; i < argc; ++i) pthread_create(&threads[i], NULL, run, argv[i]);
  for (int i = 1; i < argc; ++i) pthread_join(threads[i], NULL);
  return 0;
}

void crashcut_recover(void) {
  for (const char* name = "ABCZS"; *name; ++name) {
    char text[32];
    int fd = open_file(*name, 0);
    if (fd < 0) {
      printf("- ");
      continue;
    }
    long got = pread(fd, text, sizeof text - 1, 0);
    for (long i = 0; i < got; ++i) {
      if (text[i] == 0) text[i] = '.';
    }
    text[got] = 0;
    printf("[%s] ", text);
  }
  printf("%d%d%d ", access("D", F_OK), access("D/f", F_OK), access("D/g", F_OK));
  printf("%d%d\n", crashcut_reached("1"), crashcut_reached("2"));
}
