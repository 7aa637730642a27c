/* SQLite and two threads: sqlite_threads one|two DELETE|WAL
 *
 * "one": both share a connection (serialized mode, the default). "two": each has its own; a thread that finds the
 * database busy tries again. In the end both rows must be there, and the integrity check must pass. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3* shared;
static const char* mode;

static void fail(const char* what, sqlite3* db) {
  fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
  abort();
}

static sqlite3* open_db(void) {
  sqlite3* db;
  if (sqlite3_open("test.db", &db) != SQLITE_OK) fail("open", db);
  char pragma[64];
  snprintf(pragma, sizeof pragma, "pragma journal_mode=%s", mode);
  while (sqlite3_exec(db, pragma, NULL, NULL, NULL) == SQLITE_BUSY) sched_yield();
  return db;
}

static void insert(sqlite3* db, int number) {
  char text[64];
  snprintf(text, sizeof text, "insert into notes values (%d)", number);
  int result;
  while ((result = sqlite3_exec(db, text, NULL, NULL, NULL)) == SQLITE_BUSY) sched_yield();
  if (result != SQLITE_OK) fail("insert", db);
}

static void* write_row(void* argument) {
  sqlite3* db = shared ? shared : open_db();
  insert(db, (int)(long)argument);
  if (!shared) sqlite3_close(db);
  return NULL;
}

static int count_ok(void* count, int columns, char** values, char** names) {
  (void)columns, (void)names;
  *(int*)count += strcmp(values[0], "ok") == 0 || strcmp(values[0], "2") == 0;
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  mode = argv[2];
  sqlite3* db = open_db();
  if (sqlite3_exec(db, "create table notes (number)", NULL, NULL, NULL) != SQLITE_OK) fail("create", db);
  if (strcmp(argv[1], "one") == 0) {
    shared = db;
  } else {
    sqlite3_close(db);
  }
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, write_row, (void*)i);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  if (!shared) db = open_db();
  int good = 0;
  sqlite3_exec(db, "pragma integrity_check; select count(*) from notes", count_ok, &good, NULL);
  if (good != 2) fail("rows", db);
  sqlite3_close(db);
  return 0;
}
