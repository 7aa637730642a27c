#!/usr/bin/env bash
# GNU nano: opens notes.txt, replaces its line, saves it (^S), leaves (^X). With -B it keeps a backup, notes.txt~.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(nano tmux)
variants=("nano" "nano -B")

describe_case() {
  options=(--file notes.txt)
  [[ $1 != "nano -B" ]] || backup=notes.txt~
}

run() {
  local options=(-I)  # no settings
  [[ $1 != "nano -B" ]] || options+=(-B)
  open_terminal nano "${options[@]}" notes.txt
  await "$old_text"
  type_keys C-k "$new_text" C-s
  await 'Wrote 1 line'
  say_saved
  type_keys C-x
  await_end
}

main "$@"
