#!/usr/bin/env bash
# Berkeley DB by a driver of ours (drivers/bdb_driver.c): one transaction over 20 keys, committed with DB_TXN_SYNC or with
# DB_TXN_NOSYNC; recovery is run after the crash, as its manual asks.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(libdb5.3-dev)
variants=("berkeley db" "berkeley db, nosync")
expected=(["berkeley db"]="safe" ["berkeley db, nosync"]="atomic")

use_driver bdb_driver
option_of() { REPLY=${1#berkeley db}; REPLY=${REPLY#, }; }

main "$@"
