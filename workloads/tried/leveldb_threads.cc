// LevelDB and two threads: each writes a key while LevelDB's own thread may work in the background; both must be there.
#include <leveldb/db.h>

#include <cstdlib>
#include <memory>
#include <thread>

int main() {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* opened = nullptr;
  if (!leveldb::DB::Open(options, "db", &opened).ok()) std::abort();
  const std::unique_ptr<leveldb::DB> db(opened);
  const auto put = [&](const char* key) {
    if (!db->Put(leveldb::WriteOptions(), key, key).ok()) std::abort();
  };
  std::thread other(put, "a");
  put("b");
  other.join();
  std::string a, b;
  if (!db->Get(leveldb::ReadOptions(), "a", &a).ok() || !db->Get(leveldb::ReadOptions(), "b", &b).ok()) std::abort();
  return a == "a" && b == "b" ? 0 : 1;
}
