#!/usr/bin/env bash
# gdbm: 20 keys stored and the file closed, with and without gdbm_sync. The driver is drivers/gdbm_driver.c.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(libgdbm-dev)
use_driver gdbm_driver
variants=("gdbm" "gdbm, gdbm_sync")

# The driver's word for a variant.
option_of() {
  case $1 in
    *gdbm_sync) REPLY=sync ;;
    *) REPLY=plain ;;
  esac
}

main "$@"
