/* driver.h: what the drivers of the databases share.
 *
 *   DRIVER set_up|run|look [OPTION]     in the current directory
 *
 * set_up leaves keys with the value "old"; run changes them all to "new" in one transaction or batch and then makes the
 * mark "saved"; look opens the database after a crash and prints old, new, or what else is there.
 */
#ifndef CRASHCUT_DRIVER_H
#define CRASHCUT_DRIVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crashcut.h"

enum { kKeys = 20 };

/* The i-th key. */
static CRASHCUT_UNUSED const char* key_of(int i) {
  static char key[32];
  snprintf(key, sizeof key, "key %02d", i);
  return key;
}

/* The value of every key, "old" or "new" and some more, so that the file has several blocks. */
static CRASHCUT_UNUSED const char* value_of(const char* version) {
  static char value[600];
  memset(value, '.', sizeof value - 1);
  memcpy(value, version, strlen(version));
  return value;
}

/* Says what the found values are, and ends. `missing`: keys without one. */
static CRASHCUT_UNUSED void report(int old_count, int new_count, int missing) {
  if (old_count == kKeys) {
    puts("old");
  } else if (new_count == kKeys) {
    puts("new");
  } else if (old_count + new_count + missing != kKeys) {
    puts("garbage");
  } else if (missing == kKeys) {
    puts("empty");
  } else if (missing > 0) {
    puts("keys missing");
  } else {
    puts("old and new mixed");
  }
  exit(0);
}

static CRASHCUT_UNUSED void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

#endif
