#!/usr/bin/env bash
# RocksDB by a driver of ours (drivers/rocksdb_driver.cc): one write batch over 20 keys, with and without WriteOptions::sync.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(librocksdb-dev)
variants=("rocksdb" "rocksdb, sync")
scratch=(LOCK 'LOG*')
expected=(["rocksdb"]="atomic" ["rocksdb, sync"]="safe")

use_driver rocksdb_driver
option_of() { REPLY=${1#rocksdb}; REPLY=${REPLY#, }; }

main "$@"
