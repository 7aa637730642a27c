/* gdbm: stores all keys and closes. It has no transactions: a crash in between may show some keys old and some new, so
 * look calls that "old", as long as every key has one of the two. "sync" calls gdbm_sync before the mark. */
#include <gdbm.h>

#include "driver.h"

static void write_all(GDBM_FILE file, const char* version) {
  for (int i = 0; i < kKeys; ++i) {
    datum key = {(char*)key_of(i), (int)strlen(key_of(i))};
    datum value = {(char*)value_of(version), (int)strlen(value_of(version))};
    if (gdbm_store(file, key, value, GDBM_REPLACE) != 0) fail("store", gdbm_strerror(gdbm_errno));
  }
}

static int is_version(datum value, const char* version) {
  const char* expected = value_of(version);
  return value.dsize == (int)strlen(expected) && memcmp(value.dptr, expected, strlen(expected)) == 0;
}

static void look(GDBM_FILE file) {
  int old_count = 0, new_count = 0, missing = 0;
  for (int i = 0; i < kKeys; ++i) {
    datum key = {(char*)key_of(i), (int)strlen(key_of(i))};
    datum value = gdbm_fetch(file, key);
    if (value.dptr == NULL) {
      if (gdbm_errno != GDBM_ITEM_NOT_FOUND) {
        puts("damaged");
        exit(0);
      }
      ++missing;
      continue;
    }
    old_count += is_version(value, "old");
    new_count += is_version(value, "new");
    free(value.dptr);
  }
  if (old_count > 0 && old_count + new_count == kKeys) old_count = kKeys;
  report(old_count, new_count, missing);
}

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "";
  const int is_look = strcmp(verb, "look") == 0;
  const int how = is_look ? GDBM_READER : strcmp(verb, "set_up") == 0 ? GDBM_NEWDB : GDBM_WRITER;
  GDBM_FILE file = gdbm_open("notes.gdbm", 0, how, 0644, NULL);
  if (file == NULL) {
    if (!is_look) fail("open", gdbm_strerror(gdbm_errno));
    puts("does not open");
    return 0;
  }
  if (is_look) look(file);
  write_all(file, strcmp(verb, "set_up") == 0 ? "old" : "new");
  if (argc > 2 && strcmp(argv[2], "sync") == 0 && gdbm_sync(file) != 0) fail("sync", gdbm_strerror(gdbm_errno));
  gdbm_close(file);
  if (strcmp(verb, "run") == 0) crashcut_mark("saved");
  return 0;
}
