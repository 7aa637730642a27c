#!/usr/bin/env bash
# The shell's own ways to replace a file.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(coreutils)
variants=("cmd > f" "cmd > f; sync" "cmd > t && mv t f" "cmd > t && sync t && mv t f" "cmd > t && sync t && mv t f && sync .")

look() { describe f; }
describe_case() { options=(--file f); }
set_up() { echo "$old_text" > f; }

cmd() { echo "$new_text"; }

run() {
  eval "$1"
  say_saved
}

main "$@"
