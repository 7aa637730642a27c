#!/usr/bin/env bash
# gdbm: 20 keys stored and the file closed, with and without gdbm_sync. The driver is drivers/gdbm_driver.c.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(libgdbm-dev)
drivers=(gdbm_driver)
variants=("gdbm" "gdbm, gdbm_sync")

describe_case() { :; }

# The driver's word for a variant.
option_of() {
  case $1 in
    *gdbm_sync) REPLY=sync ;;
    *) REPLY=plain ;;
  esac
}

drive() {
  option_of "$2"
  "$driver_directory/gdbm_driver" "$1" "$REPLY"
}

set_up() { drive set_up "$1"; }
run() { drive run "$1"; }
look() {
  if ! what=$(drive look "$1" 2>/dev/null); then what="reading it crashes"; fi
}

main "$@"
