#!/usr/bin/env bash
# LevelDB: one WriteBatch over 20 keys, with and without WriteOptions::sync. The driver is drivers/leveldb_driver.cc.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(libleveldb-dev)
drivers=(leveldb_driver)
scratch=('LOG' 'LOG.old' 'LOCK')
variants=("leveldb" "leveldb, sync")

describe_case() { :; }

# The driver's word for a variant.
option_of() {
  case $1 in
    *sync) REPLY=sync ;;
    *) REPLY=plain ;;
  esac
}

drive() {
  option_of "$2"
  "$driver_directory/leveldb_driver" "$1" "$REPLY"
}

set_up() { drive set_up "$1"; }
run() { drive run "$1"; }
look() {
  if ! what=$(drive look "$1" 2>/dev/null); then what="reading it crashes"; fi
}

main "$@"
