// LevelDB: see write_batch_driver.h. look checks every checksum that it reads.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>

namespace store = leveldb;
#include "write_batch_driver.h"

static void set_options(leveldb::Options&, leveldb::ReadOptions& reading) { reading.verify_checksums = true; }
