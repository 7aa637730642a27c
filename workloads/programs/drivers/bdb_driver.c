/* Berkeley DB: one transaction over all keys; "nosync" commits with DB_TXN_NOSYNC, "write" with DB_TXN_WRITE_NOSYNC.
 * look runs recovery, as its manual asks after a crash. */
#include <db.h>

#include "driver.h"

static DB_ENV* env;
static DB* db;

static void check(int error, const char* what) {
  if (error != 0) fail(what, db_strerror(error));
}

static int open_all(int recovers) {
  u_int32_t flags = DB_CREATE | DB_INIT_MPOOL | DB_INIT_TXN | DB_INIT_LOG | DB_INIT_LOCK | DB_PRIVATE;
  check(db_env_create(&env, 0), "db_env_create");
  env->set_errfile(env, NULL);
  env->set_lg_max(env, 1 << 20);
  int error = env->open(env, ".", flags | (recovers ? DB_RECOVER : 0), 0644);
  if (error != 0) return error;
  check(db_create(&db, env, 0), "db_create");
  return db->open(db, NULL, "notes.db", NULL, DB_BTREE, DB_CREATE | DB_AUTO_COMMIT, 0644);
}

static void close_all(void) {
  db->close(db, 0);
  env->close(env, 0);
}

static void write_all(const char* version, u_int32_t flags) {
  DB_TXN* transaction;
  check(env->txn_begin(env, NULL, &transaction, 0), "txn_begin");
  for (int i = 0; i < kKeys; ++i) {
    DBT key = {.data = (void*)key_of(i), .size = (u_int32_t)strlen(key_of(i))};
    DBT value = {.data = (void*)value_of(version), .size = (u_int32_t)strlen(value_of(version))};
    check(db->put(db, transaction, &key, &value, 0), "put");
  }
  check(transaction->commit(transaction, flags), "commit");
}

static void look(void) {
  int old_count = 0, new_count = 0, missing = 0;
  if (open_all(1) != 0) {
    puts("does not open");
    return;
  }
  for (int i = 0; i < kKeys; ++i) {
    DBT key = {.data = (void*)key_of(i), .size = (u_int32_t)strlen(key_of(i))};
    DBT value = {0};
    if (db->get(db, NULL, &key, &value, 0) != 0) {
      ++missing;
    } else if (value.size == strlen(value_of("old"))) {
      old_count += memcmp(value.data, value_of("old"), value.size) == 0;
      new_count += memcmp(value.data, value_of("new"), value.size) == 0;
    }
  }
  report(old_count, new_count, missing);
}

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "";
  const char* option = argc > 2 ? argv[2] : "";
  if (strcmp(verb, "look") == 0) {
    look();
    return 0;
  }
  check(open_all(0), "open");
  if (strcmp(verb, "set_up") == 0) write_all("old", DB_TXN_SYNC);
  if (strcmp(verb, "run") == 0) {
    write_all("new", strcmp(option, "nosync") == 0 ? DB_TXN_NOSYNC : DB_TXN_SYNC);
    crashcut_mark("saved");
  }
  if (strcmp(verb, "set_up") == 0) close_all();
  return 0;
}
