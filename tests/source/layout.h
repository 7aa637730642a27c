// Variables of named.c, and where in them the test asks.
#pragma once

#include <pthread.h>

struct slot {
  int used;
  pthread_mutex_t lock;
  long values[2][3];
};
struct table {
  int size;
  struct slot slots[4];
  union {
    int number;
    char letters[8];
  };
  struct {
    short low, high;
  };
  struct slot *root;
};
