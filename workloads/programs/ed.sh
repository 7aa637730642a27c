#!/usr/bin/env bash
# ed: replaces the line of notes.txt and writes it (w).
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(ed)
variants=("ed")

run() {
  local crashcut_absolute
  crashcut_absolute=$(realpath "$crashcut")
  printf '%s\n' 1c "$new_text" . w "!'$crashcut_absolute' mark saved" q | ed -s notes.txt
}

main "$@"
