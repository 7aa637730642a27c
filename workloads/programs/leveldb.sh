#!/usr/bin/env bash
# LevelDB: one WriteBatch over 20 keys, with and without WriteOptions::sync. The driver is drivers/leveldb_driver.cc.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(libleveldb-dev)
use_driver leveldb_driver
scratch=('LOG' 'LOG.old' 'LOCK')
variants=("leveldb" "leveldb, sync")

# The driver's word for a variant.
option_of() {
  case $1 in
    *sync) REPLY=sync ;;
    *) REPLY=plain ;;
  esac
}

main "$@"
