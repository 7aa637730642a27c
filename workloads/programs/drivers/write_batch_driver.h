// The driver of LevelDB and of RocksDB, which has LevelDB's interface: one WriteBatch over all keys; "sync" sets
// WriteOptions::sync. look opens the database as a user would.
//
// The including file has the library's headers, names it by `namespace store = ...;` and defines
//   void set_options(store::Options&, store::ReadOptions&);
#pragma once

#include <memory>
#include <string>

#include "driver.h"

static void set_options(store::Options& options, store::ReadOptions& reading);

static std::unique_ptr<store::DB> open_db(const store::Options& options, const std::string& verb) {
  store::DB* db = nullptr;
  const store::Status status = store::DB::Open(options, "db", &db);
  if (status.ok()) return std::unique_ptr<store::DB>(db);
  if (verb != "look") fail("open", status.ToString().c_str());
  puts("does not open");
  exit(0);
}

static void write_all(store::DB& db, const char* version, bool sync) {
  store::WriteBatch batch;
  for (int i = 0; i < kKeys; ++i) batch.Put(key_of(i), value_of(version));
  store::WriteOptions options;
  options.sync = sync;
  const store::Status status = db.Write(options, &batch);
  if (!status.ok()) fail("write", status.ToString().c_str());
}

static void look(store::DB& db, const store::ReadOptions& reading) {
  int old_count = 0, new_count = 0, missing = 0;
  for (int i = 0; i < kKeys; ++i) {
    std::string value;
    const store::Status status = db.Get(reading, key_of(i), &value);
    if (status.IsNotFound())
      ++missing;
    else if (value == value_of("old"))
      ++old_count;
    else if (value == value_of("new"))
      ++new_count;
  }
  report(old_count, new_count, missing);
}

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const bool sync = argc > 2 && std::string(argv[2]) == "sync";
  store::Options options;
  store::ReadOptions reading;
  options.create_if_missing = verb == "set_up";
  set_options(options, reading);
  std::unique_ptr<store::DB> db = open_db(options, verb);
  if (verb == "set_up") write_all(*db, "old", true);
  if (verb == "run") {
    write_all(*db, "new", sync);
    crashcut_mark("saved");
  }
  if (verb == "look") look(*db, reading);
  return 0;
}
