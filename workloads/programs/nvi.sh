#!/usr/bin/env bash
# nvi: opens notes.txt, replaces its line, saves it (:w), leaves (:q).
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(nvi tmux)
variants=("nvi")
expected=(["nvi"]="loses")

run() {
  open_terminal nvi -S notes.txt
  await "$old_text"
  type_keys cc "$new_text" Escape :w Enter
  await 'notes.txt: .*characters'
  say_saved
  type_keys :q Enter
  await_end
}

main "$@"
