#!/usr/bin/env bash
# GNU sed -i: edits notes.txt "in place". With a suffix it keeps the old version as notes.txt.bak.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(sed)
variants=("sed -i" "sed -i.bak")

describe_case() {
  options=(--file notes.txt)
  [[ $1 != "sed -i.bak" ]] || backup=notes.txt.bak
}

run() {
  # shellcheck disable=SC2086
  $1 "s/.*/$new_text/" notes.txt
  say_saved
}

main "$@"
