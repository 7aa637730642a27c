// LevelDB: one WriteBatch over all keys; "sync" sets WriteOptions::sync. look opens it as a user would, and
// checks every checksum that it then reads.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <memory>

#include "driver.h"

namespace {

std::unique_ptr<leveldb::DB> open_db(const std::string& verb) {
  leveldb::Options options;
  options.create_if_missing = verb == "set_up";
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, "db", &db);
  if (status.ok()) return std::unique_ptr<leveldb::DB>(db);
  if (verb != "look") fail("open", status.ToString().c_str());
  puts("does not open");
  exit(0);
}

void write_all(leveldb::DB& db, const char* version, bool sync) {
  leveldb::WriteBatch batch;
  for (int i = 0; i < kKeys; ++i) batch.Put(key_of(i), value_of(version));
  leveldb::WriteOptions options;
  options.sync = sync;
  const leveldb::Status status = db.Write(options, &batch);
  if (!status.ok()) fail("write", status.ToString().c_str());
}

void look(leveldb::DB& db) {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  int old_count = 0, new_count = 0, missing = 0;
  for (int i = 0; i < kKeys; ++i) {
    std::string value;
    const leveldb::Status status = db.Get(options, key_of(i), &value);
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
  std::unique_ptr<leveldb::DB> db = open_db(verb);
  if (verb == "set_up") write_all(*db, "old", true);
  if (verb == "run") {
    write_all(*db, "new", sync);
    crashcut_mark("saved");
  }
  if (verb == "look") look(*db);
  return 0;
}
