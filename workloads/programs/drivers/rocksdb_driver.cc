// RocksDB: one WriteBatch over all keys; "sync" sets WriteOptions::sync. look opens it as a user would.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <memory>

#include "driver.h"

namespace {

std::unique_ptr<rocksdb::DB> open_db(const std::string& verb) {
  rocksdb::Options options;
  options.create_if_missing = verb == "set_up";
  options.max_background_jobs = 1;
  options.keep_log_file_num = 1;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, "db", &db);
  if (status.ok()) return std::unique_ptr<rocksdb::DB>(db);
  if (verb != "look") fail("open", status.ToString().c_str());
  puts("does not open");
  exit(0);
}

void write_all(rocksdb::DB& db, const char* version, bool sync) {
  rocksdb::WriteBatch batch;
  for (int i = 0; i < kKeys; ++i) batch.Put(key_of(i), value_of(version));
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status status = db.Write(options, &batch);
  if (!status.ok()) fail("write", status.ToString().c_str());
}

void look(rocksdb::DB& db) {
  int old_count = 0, new_count = 0, missing = 0;
  for (int i = 0; i < kKeys; ++i) {
    std::string value;
    const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), key_of(i), &value);
    if (status.IsNotFound())
      ++missing;
    else if (value == value_of("old"))
      ++old_count;
    else if (value == value_of("new"))
      ++new_count;
  }
  report(old_count, new_count, missing);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const bool sync = argc > 2 && std::string(argv[2]) == "sync";
  std::unique_ptr<rocksdb::DB> db = open_db(verb);
  if (verb == "set_up") write_all(*db, "old", true);
  if (verb == "run") {
    write_all(*db, "new", sync);
    crashcut_mark("saved");
  }
  if (verb == "look") look(*db);
  return 0;
}
