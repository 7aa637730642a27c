// RocksDB: see write_batch_driver.h.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

namespace store = rocksdb;
#include "write_batch_driver.h"

static void set_options(rocksdb::Options& options, rocksdb::ReadOptions&) {
  options.max_background_jobs = 1;
  options.keep_log_file_num = 1;
}
