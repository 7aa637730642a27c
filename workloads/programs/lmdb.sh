#!/usr/bin/env bash
# LMDB: one transaction over 20 keys, in several ways to sync. The driver is drivers/lmdb_driver.c.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(liblmdb-dev)
use_driver lmdb_driver
variants=("lmdb" "lmdb, MDB_WRITEMAP" "lmdb, MDB_NOMETASYNC" "lmdb, MDB_NOSYNC")

# The driver's word for a variant.
option_of() {
  case $1 in
    *WRITEMAP) REPLY=writemap ;;
    *NOMETASYNC) REPLY=nometasync ;;
    *NOSYNC) REPLY=nosync ;;
    *) REPLY=plain ;;
  esac
}

main "$@"
