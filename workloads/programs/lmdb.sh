#!/usr/bin/env bash
# LMDB: one transaction over 20 keys, in several ways to sync. The driver is drivers/lmdb_driver.c.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(liblmdb-dev)
drivers=(lmdb_driver)
variants=("lmdb" "lmdb, MDB_WRITEMAP" "lmdb, MDB_NOMETASYNC" "lmdb, MDB_NOSYNC")

describe_case() { :; }

# The driver's word for a variant.
option_of() {
  case $1 in
    *WRITEMAP) REPLY=writemap ;;
    *NOMETASYNC) REPLY=nometasync ;;
    *NOSYNC) REPLY=nosync ;;
    *) REPLY=plain ;;
  esac
}

drive() {
  option_of "$2"
  "$driver_directory/lmdb_driver" "$1" "$REPLY"
}

set_up() { drive set_up "$1"; }
run() { drive run "$1"; }
look() {
  if ! what=$(drive look "$1" 2>/dev/null); then what="reading it crashes"; fi
}

main "$@"
