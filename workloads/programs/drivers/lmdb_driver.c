/* LMDB: one write transaction over all keys. "nosync" sets MDB_NOSYNC, "nometasync" MDB_NOMETASYNC, "writemap"
 * MDB_WRITEMAP (stores through a shared map, then msync). */
#include <lmdb.h>

#include "driver.h"

static void require(int error, const char* what) {
  if (error != 0) fail(what, mdb_strerror(error));
}

static unsigned flags_of(const char* option) {
  if (strcmp(option, "nosync") == 0) return MDB_NOSYNC;
  if (strcmp(option, "nometasync") == 0) return MDB_NOMETASYNC;
  if (strcmp(option, "writemap") == 0) return MDB_WRITEMAP;
  return 0;
}

static void write_all(MDB_env* env, const char* version) {
  MDB_txn* txn;
  MDB_dbi dbi;
  require(mdb_txn_begin(env, NULL, 0, &txn), "begin");
  require(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
  for (int i = 0; i < kKeys; ++i) {
    const char* value = value_of(version);
    MDB_val key = {strlen(key_of(i)), (void*)key_of(i)};
    MDB_val data = {strlen(value), (void*)value};
    require(mdb_put(txn, dbi, &key, &data, 0), "put");
  }
  require(mdb_txn_commit(txn), "commit");
}

static int is_version(const MDB_val* data, const char* version) {
  const char* value = value_of(version);
  return data->mv_size == strlen(value) && memcmp(data->mv_data, value, data->mv_size) == 0;
}

static void look(MDB_env* env) {
  MDB_txn* txn;
  MDB_dbi dbi;
  int old_count = 0, new_count = 0, missing = 0;
  if (mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) != 0 || mdb_dbi_open(txn, NULL, 0, &dbi) != 0) {
    puts("does not open");
    exit(0);
  }
  for (int i = 0; i < kKeys; ++i) {
    MDB_val key = {strlen(key_of(i)), (void*)key_of(i)}, data;
    const int error = mdb_get(txn, dbi, &key, &data);
    if (error == MDB_NOTFOUND) {
      ++missing;
    } else if (error == 0) {
      old_count += is_version(&data, "old");
      new_count += is_version(&data, "new");
    }
  }
  report(old_count, new_count, missing);
}

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "";
  MDB_env* env;
  require(mdb_env_create(&env), "create");
  require(mdb_env_set_mapsize(env, 1 << 20), "set size");
  const int is_look = strcmp(verb, "look") == 0;
  const int error =
      mdb_env_open(env, "notes.mdb", MDB_NOSUBDIR | (is_look ? 0 : flags_of(argc > 2 ? argv[2] : "")), 0644);
  if (is_look && error != 0) {
    puts("does not open");
    return 0;
  }
  require(error, "open");
  if (strcmp(verb, "set_up") == 0) {
    write_all(env, "old");
  } else if (strcmp(verb, "run") == 0) {
    write_all(env, "new");
    crashcut_mark("saved");
  } else {
    look(env);
  }
  mdb_env_close(env);
  return 0;
}
